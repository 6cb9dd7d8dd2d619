"""Timelines of computation and communication, one row per compute stream and kind of communication.

Traffic without operations has one row per host for all flows. A row has a bar per compute or
collective. The upper half shows messages that a host sends, until they leave; the lower half those
that it receives, from the flow's start to delivery. The critical path is a line through the bars:
level during computation or software latency, and from the sender's row to the receiver's during a
flow. The report draws the same rows, bars and line.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from netsim.plots import seed_curves, style
from netsim.plots.sweeps import Picture
from netsim.workloads.plots.timeline_bars import (
    PLACES,
    Timeline,
    View,
    first_of_stages,
    timeline_of,
    view_of,
)

if TYPE_CHECKING:
    import polars as pl
    from matplotlib.axes import Axes

    from netsim.results import Result
    from netsim.workloads.tracing.critical_path import CriticalPath

PLOTS = {"timeline": "one run with tasks: when each host computes, sends and receives"}
OPTIONS = {
    "hosts": (
        "--hosts",
        "HOSTS",
        'Hosts to show in a timeline, such as "0..3,8", or "critical" for the critical path '
        "(one per pipeline stage, or the first).",
    ),
    "since": ("--from", "TIME", "Start of the timeline, such as 10us."),
    "until": ("--to", "TIME", "End of the timeline."),
    "critical_path": ("--critical-path", "", "Mark the critical path in a timeline."),
}
SUFFIXES = (".pftrace",)

SENT, RECEIVED, LEVEL = -0.2, 0.2, 0.3
"""Vertical offset of the line within a row: where it leaves or enters messages, and elsewhere."""


def path_line(
    segments: pl.DataFrame, rows: pl.DataFrame, short_ps: float = 0
) -> tuple[np.ndarray, np.ndarray]:
    """Return float64[m] times in ps and row positions, two per part; NaN if hidden.

    A flow goes from its source's send row to its destination's receive row, or stays in whichever
    is shown. Consecutive segments shorter than `short_ps` form one part, in the visible row with
    most of their time.
    """
    places = _places(rows)
    x: list[float] = []
    y: list[float] = []
    some: dict[float, int] | None = None  # of a part of several segments, its rows and their times
    for segment in segments.iter_rows(named=True):
        begin, end = segment["start_ps"], segment["end_ps"]
        here, there = _ends(segment, places)
        if end - begin >= short_ps:
            some = None
            x += [begin, end]
            y += [here, there]
            continue
        if some is None or end - x[-2] > short_ps:
            some = {}
            x += [begin, end]
            y += [math.nan, math.nan]
        x[-1] = end
        if not math.isnan(here):
            place = round(here) + LEVEL
            some[place] = some.get(place, 0) + end - begin
            y[-2:] = [max(some, key=some.__getitem__)] * 2
    return np.array(x, np.float64), np.array(y, np.float64)


Places = tuple[dict[tuple[int, int | None], int], dict[tuple[int, str], int]]
"""Rows of a host's compute streams, and of its kinds of communication."""


def _ends(segment: Mapping[str, Any], places: Places) -> tuple[float, float]:
    """Return the rows where a segment begins and ends."""
    of_streams, of_kinds = places
    ends = [(segment["host"], LEVEL)] * 2
    if segment["segment_type"] == "flow":
        ends = [(segment["host"], SENT), (segment["to"], RECEIVED)]
    found = []
    for host, beside in ends:
        place = of_kinds.get((host, segment["kind"]))
        if place is None or (segment["segment_type"] == "compute" and not segment["kind"]):
            place = of_streams.get((host, segment["stream"]), place)
        found.append(math.nan if place is None else place + beside)
    here, there = found
    return (there if math.isnan(here) else here), (here if math.isnan(there) else there)


def _places(rows: pl.DataFrame) -> Places:
    """Return rows by host; for several ranks of a host, those of the first."""
    found: Places = {}, {}
    for row in rows.iter_rows(named=True):
        if row["communicates"]:
            found[1].setdefault((row["host"], row["kind"]), row["row"])
        else:
            found[0].setdefault((row["host"], row["stream"]), row["row"])
    return found


MAX_ROWS, FIRST_ROWS, MAX_STAGES = 64, 32, 8
"""Largest numbers of rows shown, without --hosts, and of stages then."""

RESOLUTION = 2000
"""Horizontal resolution: closer bars are merged."""

COMPUTES = ("#9CC3E6", "#1F5C99", "#D5DCE4", "#5B8DB8", "#0B2E4F", "#B7B7B7")
"""Colors of computes, alternately light and dark."""

COMMUNICATION = (
    ("#D55E00", ""), ("#E8C400", "////"), ("#009E73", "\\\\\\\\"), ("#CC79A7", "xxxx"),
    ("#E69F00", "...."), ("#7A7A00", "----"), ("#8C510A", "++++"), ("#5E3C99", "||||"),
)  # fmt: skip
"""Color and hatch of kinds of communication, distinct in gray."""

MAX_TEXTS = 1000
TEXT_PT, LETTER = 6.0, 0.62
"""Text in bars: size in points, and width of a letter relative to it."""

MAX_PARTS = 300
"""Segments of a critical path shorter than 1/MAX_PARTS of the time are drawn together."""

THIN = 1000
"""Bars shorter than 1/THIN of the time have no edges and are drawn at that width."""

FEW_HOSTS = 6
"""Largest number of hosts without rows that are named."""

WIDE_IN, MARGIN_IN, ROW_IN = 9.0, 1.6, 0.22
"""Sizes in inches: width of the figure, margins, and height of a row."""


class BarStyle(NamedTuple):
    """Fill style of a category of bars."""

    color: str
    hatch: str = ""

    @property
    def is_dark(self) -> bool:
        """Whether white text is more legible than black."""
        red, green, blue = (int(self.color[k : k + 2], 16) for k in (1, 3, 5))
        return 0.3 * red + 0.59 * green + 0.11 * blue < 128


def timeline(
    results: Sequence[Result],
    *,
    hosts: str | None = None,
    since: str | None = None,
    until: str | None = None,
    critical_path: bool = False,
    trust: bool = False,
) -> Picture:
    """Draw the timeline of one run; see `view_of`. Without `hosts`, a training step shows one host
    per pipeline stage, other runs the first rows.

    Raises InputError for several runs or an empty view.
    """
    view = view_of(
        results, hosts=hosts, since=since, until=until, critical_path=critical_path, trust=trust
    )
    return draw(results, view)


def draw(results: Sequence[Result], view: View) -> Picture:
    """Draw the timeline of one run."""
    import polars as pl

    most = MAX_ROWS if view.hosts is not None else FIRST_ROWS
    if view.hosts is None and len(results) == 1 and (hosts := first_of_stages(results[0])):
        view = replace(view, hosts=hosts[:MAX_STAGES])
    found = timeline_of(results, view, most).merged(RESOLUTION)
    from_ps, to_ps = found.from_ps, found.to_ps
    unit, scale = style.time_unit([to_ps])
    figure, (axes,) = style.new_figure()
    figure.set_size_inches(WIDE_IN, 1.3 + ROW_IN * max(6, len(found.rows)))
    styles = bar_styles(found.bars)
    for category, bar_style in styles.items():
        its = found.bars.filter(pl.col("category") == category)
        _fill(axes, its, category, bar_style, scale, (to_ps - from_ps) / THIN)
    _write(axes, found, styles, scale)
    path_is_seen = view.path is not None and _mark(axes, view.path, found, scale)
    axes.set_yticks(range(len(found.rows)), found.rows["title"].to_list(), fontsize="small")
    axes.set_ylim(len(found.rows) - 0.4, -0.6)
    axes.set_xlim(from_ps / scale, to_ps / scale)
    axes.set_xlabel(f"time ({unit})")
    _part_ranks(axes, found.rows)
    notes = list(_notes(results[0], found))
    if view.path is not None and not path_is_seen:
        notes.append("the critical path is in other rows or at other times")
    title = seed_curves.title(results)
    return Picture(style.finish(figure, axes, title, style.OUTSIDE, "; ".join(notes)))


def write(results: Sequence[Result], path: Path, **asked: Any) -> Path:
    """Write the timeline as a Perfetto trace."""
    from netsim.workloads.plots.perfetto import write_trace

    return write_trace(results, view_of(results, **asked), path)


def _notes(result: Result, found: Timeline) -> Iterator[str]:
    """Yield notes on hidden rows and hosts, and on scaled times."""
    if found.left_out:
        yield f"{found.left_out:,} more rows not shown"
    if found.without_rows:
        hosts = found.without_rows
        named = ", ".join(f"h{host}" for host in hosts[:FEW_HOSTS])
        more = f" and {len(hosts) - FEW_HOSTS:,} more" if len(hosts) > FEW_HOSTS else ""
        yield f"hosts without tasks: {named}{more}"
    scale = seed_curves.resolved(result, "traffic.message_scale")
    if scale not in (None, 1):
        yield f"messages, compute and software are scaled by {scale:g}, delays of links are not"


def bar_styles(bars: pl.DataFrame) -> dict[str, BarStyle]:
    """Return the style of each category, computes first, each in order of time."""
    import polars as pl

    first = bars.group_by("category", "communicates").agg(pl.col("start_ps").min())
    first = first.sort("communicates", "start_ps", "category")
    found: dict[str, BarStyle] = {}
    counts = [0, 0]
    for row in first.iter_rows(named=True):
        index = counts[row["communicates"]]
        counts[row["communicates"]] += 1
        if row["communicates"]:
            found[row["category"]] = BarStyle(*COMMUNICATION[index % len(COMMUNICATION)])
        else:
            found[row["category"]] = BarStyle(COMPUTES[index % len(COMPUTES)])
    return found


def _fill(
    axes: Axes, its: pl.DataFrame, category: str, bar_style: BarStyle, scale: float, thin_ps: float
) -> None:
    """Draw the bars of a category as one collection."""
    from matplotlib.collections import PolyCollection

    x0, x1 = (its[name].to_numpy() / scale for name in ("start_ps", "end_ps"))
    is_thin = (x1 - x0) * scale < thin_ps
    x1 = np.where(is_thin, x0 + thin_ps / scale, x1)
    top, height = np.array(PLACES)[its["place"].to_numpy()].T
    y0 = its["row"].to_numpy() + top
    y1 = y0 + height
    corners = np.array([[x0, y0], [x1, y0], [x1, y1], [x0, y1]]).transpose(2, 0, 1)
    collection = PolyCollection(
        corners,  # type: ignore[arg-type]  # an array is also taken, and faster than a list
        facecolor=bar_style.color,
        edgecolor="white",
        linewidth=np.where(is_thin, 0.0, 0.3),
        hatch=bar_style.hatch or None,
        label=category,
        zorder=2,
    )
    axes.add_collection(collection)


def _write(axes: Axes, found: Timeline, styles: dict[str, BarStyle], scale: float) -> None:
    """Label compute bars with room for text, unless there are too many."""
    import polars as pl

    bars, times_ps = found.bars, (found.from_ps, found.to_ps)
    point_ps = (found.to_ps - found.from_ps) / (72 * (WIDE_IN - MARGIN_IN))
    need = (pl.col("text").str.len_chars() * LETTER * TEXT_PT + 2) * point_ps
    begin, end = pl.col("start_ps").clip(*times_ps), pl.col("end_ps").clip(*times_ps)
    fitting = bars.filter(~pl.col("communicates") & (pl.col("text") != "") & (end - begin >= need))
    if len(fitting) > MAX_TEXTS:
        return
    middles = fitting.select((begin + end) / (2 * scale)).to_series()
    for row, middle in zip(fitting.iter_rows(named=True), middles, strict=True):
        color = "white" if styles[row["category"]].is_dark else "black"
        options: dict[str, Any] = {"ha": "center", "va": "center", "fontsize": TEXT_PT, "zorder": 3}
        axes.text(middle, row["row"], row["text"], color=color, clip_on=True, **options)


def _mark(axes: Axes, path: CriticalPath, found: Timeline, scale: float) -> bool:
    """Draw the critical path, black with a white outline; return whether any of it is visible."""
    import polars as pl
    from matplotlib.patheffects import Normal, Stroke

    seen = (pl.col("start_ps") < found.to_ps) & (pl.col("end_ps") >= found.from_ps)
    short_ps = (found.to_ps - found.from_ps) / MAX_PARTS
    x, y = path_line(path.segments.filter(seen), found.rows, short_ps)
    if not np.isfinite(y).any():
        return False
    around = [Stroke(linewidth=3.2, foreground="white"), Normal()]
    options: dict[str, Any] = {"color": "black", "linewidth": 1.4, "path_effects": around}
    axes.plot(x / scale, y, label="critical path", zorder=4, **options)
    return True


def _part_ranks(axes: Axes, rows: pl.DataFrame) -> None:
    """Draw thin lines between the rows of different ranks."""
    ranks = rows["rank"].to_list()
    for place in range(1, len(ranks)):
        if ranks[place] != ranks[place - 1]:
            axes.axhline(place - 0.5, color="#BBBBBB", linewidth=0.6, zorder=0)
