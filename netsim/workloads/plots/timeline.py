"""Timelines of computation and communication, one row per compute stream and kind of communication.

Traffic without operations has one row per host for all flows. A row has a bar per compute or
collective. The upper half shows messages that a host sends, until they leave; the lower half the
messages that it receives, from the flow's start to delivery. The critical path is a line through
the bars: level during computation or software latency, and from the sender's row to the receiver's
during a flow. The report draws the same rows, bars and line.

A Perfetto trace (open https://ui.perfetto.dev, which processes it locally) has a process for every
rank, with a track per row. Overlapping slices of a row use several tracks with its name. Arrows
lead from a message's send to its receive, and the critical path is a separate process. With samples
(`[outputs] sample_interval`), counters show the largest queue of each interval at the ports with
the longest queues. Perfetto counts nanoseconds, so times are rounded down; a slice's arguments have
the exact times (`start_ps`, `duration_ps`). The file is a `Trace` message of Perfetto's protobuf
format, with the field numbers of `protos/perfetto/trace/trace_packet.proto` and `track_event/` next
to it.
"""

from __future__ import annotations

import heapq
import math
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import cycle
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import polars as pl

from netsim.common.writing import replacing_file, writing_to
from netsim.errors import InputError, warn_once
from netsim.frozen import frozen
from netsim.plots import style, sweeps
from netsim.plots.sweeps import Picture
from netsim.units import listed, parse_range, parse_time_ps, written
from netsim.workloads.job.messages import Ranks

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from netsim.results import Result
    from netsim.workloads.tracing.critical_path import CriticalPath

WHOLE, UPPER, LOWER = (-0.4, 0.8), (-0.4, 0.4), (0.0, 0.4)  # top and height of bars in their row

PLACES = (WHOLE, UPPER, LOWER)

CRITICAL, PATH_HOSTS = "critical", 8
"""Keyword for the critical path's hosts, and their largest number, by time on the path."""

MAX_HOSTS = 1_000_000


@frozen
class View:
    """The visible hosts (None: all), times, and the critical path, if any."""

    hosts: Sequence[int] | None = None
    from_ps: int = 0
    to_ps: int | None = None
    path: CriticalPath | None = None


def view_of(
    results: Sequence[Result],
    *,
    hosts: str | None = None,
    since: str | None = None,
    until: str | None = None,
    critical_path: bool = False,
    trust: bool = False,
) -> View:
    """Return a view: hosts such as "0..3,8" or CRITICAL, and times."""
    from_ps, to_ps = (None if text is None else parse_time_ps(text) for text in (since, until))
    path = None
    if (critical_path or hosts == CRITICAL) and len(results) == 1:
        from netsim.workloads.tracing import critical_path as tracing

        path = tracing.critical_path(results[0], trust=trust)
        for warning in path.warnings:
            warn_once(warning)
        if hosts == CRITICAL:
            return View(path.hosts(PATH_HOSTS, from_ps or 0, to_ps), from_ps or 0, to_ps, path)
    return View(_hosts(hosts), from_ps or 0, to_ps, path)


def _hosts(text: str | None) -> list[int] | None:
    """Parse hosts such as "0..3,8"."""
    if text is None:
        return None
    found: list[int] = []
    for part in text.split(","):
        ends = parse_range(part if ".." in part else f"{part}..{part}")
        if ends is None:
            hint = 'such as "0..3,8"'
            raise InputError(f"{written(part.strip())} is not a host", key="--hosts", hint=hint)
        if ends[1] - ends[0] >= MAX_HOSTS:
            raise InputError(f"{written(part.strip())}: too many hosts", key="--hosts")
        found += range(ends[0], ends[1] + 1)
    return found


@frozen
class Timeline:
    """Rows, top to bottom, and their bars.

    Attributes:
        rows: columns `row` (its number), `job` (with several), `host`, `rank`, `stream` (of
            computes) or `kind` (of communication), `name`, `rank_name`, and `title`, with that in
            the first row of each.
        bars: columns `row`, `start_ps`, `end_ps`, `place` (index into PLACES), `category`,
            `communicates` and `text`; unless merged, also `name`, `number` (of the task or
            operation) and `message` (of a message, else null).
        from_ps, to_ps: the visible time.
        left_out: number of omitted rows.
        without_rows: hosts without bars that were requested or that have flows.
    """

    rows: pl.DataFrame
    bars: pl.DataFrame
    from_ps: int
    to_ps: int
    left_out: int = 0
    without_rows: tuple[int, ...] = ()

    def merged(self, resolution: int) -> Timeline:
        """Merge bars of a row and category that are too short and close to be distinguished at a
        horizontal resolution."""
        return replace(self, bars=_merged(self.bars, (self.to_ps - self.from_ps) // resolution))


def ranks_of(result: Result) -> Ranks | None:
    """Return the ranks of a training step, inferred from its messages; None for other runs. A
    pipeline message goes to the next stage, so its minimum distance separates stages."""
    table = result.operations
    if table is None or sweeps.resolved(result, "traffic.kind") != "training":
        return None
    kinds = table.select("rank", "group", "ranks", pl.col("kind").cast(pl.String))
    sent = kinds.filter((pl.col("kind") == "pp") & pl.col("group").is_not_null())
    ends = sent.group_by("group").agg(pl.col("rank").max() - pl.col("rank").min())
    count = int(table["rank"].max() or 0) + 1  # type: ignore[arg-type]
    stage = int(ends.filter(pl.col("rank") > 0)["rank"].min() or count)  # type: ignore[arg-type]
    tp, cp = (
        int(kinds.filter(pl.col("kind") == kind)["ranks"].max() or 1)  # type: ignore[arg-type]
        for kind in ("tp", "cp")
    )
    whole = count % stage == 0 and stage % (tp * cp) == 0
    return Ranks(tp, cp, stage // (tp * cp), count // stage) if whole else None


def first_of_stages(result: Result) -> list[int] | None:
    """Return the host of the first rank of each pipeline stage, None if there are no stages."""
    ranks = ranks_of(result)
    table = result.operations
    if ranks is None or table is None or ranks.pp == 1:
        return None
    first = range(0, len(ranks), len(ranks) // ranks.pp)
    hosts = table.filter(table["rank"].is_in(list(first)))["host"].unique().sort()
    return [int(host) for host in hosts]


def timeline_of(results: Sequence[Result], view: View, most_rows: int | None = None) -> Timeline:
    """Return the timeline of one run: its operations if any, else its tasks.

    For serving runs, it has the iterations, each in the row of its instance's leader. Only the
    first `most_rows` rows are read, if given, and only finished work between the times has bars.
    Raises InputError for several runs or an empty timeline.
    """
    if len(results) != 1:
        raise InputError(f"{len(results)} results", hint="a timeline shows one")
    (result,) = results
    file = str(result.path)
    from_ps, to_ps = view.from_ps, view.to_ps
    to_ps = _end(result) if to_ps is None else to_ps
    if from_ps >= max(1, to_ps):
        raise InputError("the time range is empty", key="--from", hint="a later --to")
    if result.tasks is None:
        raise InputError("the result has no tasks", file=file)
    operations = result.operations
    bars = _operations(_tasks(result.tasks, result.flows) if operations is None else operations)
    if result.iterations is not None:
        bars = pl.concat([_iterations(result), bars.filter("communicates")], how="vertical_relaxed")
    keys = ["job", "host", "rank", "communicates", "stream", "kind"]
    # The first hosts of all jobs, then their second hosts, and so on.
    turn = pl.col("host").rank("dense").over("job")
    rows = bars.select(keys).unique().sort(turn, *keys, nulls_last=True).collect()
    if not len(rows):
        raise InputError("no task is done", file=file)
    ends = result.flows["src"].to_list() + result.flows["dst"].to_list()
    wanted = set(ends if view.hosts is None else view.hosts)
    without_rows = tuple(sorted(wanted - set(rows["host"].to_list())))
    if view.hosts is not None:
        rows = rows.filter(pl.col("host").is_in(list(view.hosts)))
        if not len(rows):
            raise InputError("these hosts did nothing", file=file, key="--hosts")
    left_out = 0 if most_rows is None else max(0, len(rows) - most_rows)
    rows = rows.head(len(rows) - left_out).with_row_index("row")
    rows = rows.with_columns(_names(rows, ranks_of(result)))
    # Texts are computed only for visible bars.
    seen = pl.col("host").is_in(rows["host"].unique().to_list())
    seen &= (pl.col("start_ps") < to_ps) & (pl.col("end_ps") > from_ps)
    shown = bars.filter(seen).collect().join(rows.select(*keys, "row"), on=keys, nulls_equal=True)
    if not len(shown):
        raise InputError("nothing was done in this time range", file=file)
    return Timeline(rows, shown.sort("row", "start_ps"), from_ps, to_ps, left_out, without_rows)


def _end(result: Result) -> int:
    """Return the end of the last flow, task or serving iteration."""
    end = int(result.summary.get("makespan_ps", 0))
    table = result.iterations
    return end if table is None else max(end, int(table["end_ps"].max() or 0))  # type: ignore[arg-type]


def _tasks(tasks: pl.DataFrame, flows: pl.DataFrame) -> pl.DataFrame:
    """Return tasks as a table of operations; receives begin with their flow."""
    starts = flows.select("flow", flow_start_ps="start_ps")
    begin = pl.when(pl.col("kind").cast(pl.String) == "receive").then("flow_start_ps")
    return tasks.join(starts, on="flow", how="left", maintain_order="left").with_columns(
        rank="host",
        operation_type="kind",
        kind=pl.lit(""),
        start_ps=begin.otherwise("start_ps"),
        operation="task",
        group="flow",
    )


def _operations(table: pl.DataFrame) -> pl.LazyFrame:
    what, kind = pl.col("operation_type").cast(pl.String), pl.col("kind").cast(pl.String)
    labels = pl.col("label").cast(pl.String) if "label" in table.columns else pl.lit("")
    kinds = table.filter(pl.col("group").is_not_null())["kind"].cast(pl.String).unique().to_list()
    communicates = (what != "compute") | (kind.is_in(kinds) & (kind != ""))
    named = pl.when(kind != "").then(kind)
    done = table.lazy().filter(pl.col("end_ps").is_not_null() & (what != "join"))
    return done.select(
        pl.col("job").cast(pl.String) if "job" in table.columns else pl.lit("").alias("job"),
        "host",
        "rank",
        communicates.alias("communicates"),
        pl.when(~communicates).then("stream").alias("stream"),
        pl.when(communicates).then(kind).otherwise(pl.lit("")).alias("kind"),
        "start_ps",
        "end_ps",
        _place(what).alias("place"),
        pl.coalesce(named, pl.when(communicates).then(what), _word(labels)).alias("category"),
        labels.str.extract(r"(\d+)\D*$", 1).fill_null("").alias("text"),
        pl.when(labels != "").then(labels).otherwise(what).alias("name"),
        pl.col("operation").alias("number"),
        pl.when(what.is_in(["send", "receive"])).then("group").alias("message"),
    )


def _iterations(result: Result) -> pl.LazyFrame:
    """Return a bar per serving iteration, with its batch."""
    table = result.iterations
    assert table is not None
    prompts, decodes = pl.col("prompt_tokens") > 0, pl.col("decode_batch") > 0
    alone = pl.when(prompts).then(pl.lit("prefill")).otherwise(pl.lit("decode"))
    category = pl.when(prompts & decodes).then(pl.lit("prefill, decode")).otherwise(alone)
    tokens = pl.when(decodes).then("decode_batch").otherwise("prompt_tokens").cast(pl.String)
    return table.lazy().select(
        pl.lit("").alias("job"),
        "host",
        pl.col("host").alias("rank"),
        pl.lit(False).alias("communicates"),
        pl.lit(0).alias("stream"),
        pl.lit("").alias("kind"),
        "start_ps",
        "end_ps",
        pl.lit(0, pl.Int8).alias("place"),
        category.alias("category"),
        tokens.alias("text"),
        category.alias("name"),
        pl.int_range(pl.len()).alias("number"),
        pl.lit(None, pl.Int64).alias("message"),
    )


def _word(labels: pl.Expr) -> pl.Expr:
    """Return the text of a label before its number, such as "forward" of "forward 3"."""
    return labels.str.extract(r"^([^\d]*[^\d\s])", 1).fill_null("compute")


def _place(what: pl.Expr) -> pl.Expr:
    """Return the index into PLACES: sends above receives."""
    return (
        pl.when(what == "send").then(1).when(what == "receive").then(2).otherwise(0).cast(pl.Int8)
    )


def _names(rows: pl.DataFrame, ranks: Ranks | None) -> list[pl.Series]:
    """Return names and titles of rows; the first row of a rank has the rank in its title."""
    computing = rows.filter(~pl.col("communicates"))
    several = len(computing.unique(["rank", "stream"])) > len(computing.unique("rank"))
    axes = {} if ranks is None else ranks.coordinates()
    names, of_ranks, titles, last = [], [], [], None
    for row in rows.iter_rows(named=True):
        name = row["kind"] or "flows"
        if not row["communicates"]:
            name = f"stream {row['stream']}" if several else "compute"
        parts = [
            f"{'stage' if axis == 'pp' else axis} {places[row['rank']]}"
            for axis, places in axes.items()
            if places[row["rank"]] or (axis in ("pp", "dp") and places[-1])
        ]
        of = rank_name(row["host"], row["rank"], ", ".join(parts))
        of = f"{row['job']}, {of}" if row["job"] else of
        of_ranks.append(of)
        titles.append(name if of == last else f"{of}  {name}")
        names.append(name)
        last = of
    found = {"name": names, "rank_name": of_ranks, "title": titles}
    return [pl.Series(name, values, pl.String) for name, values in found.items()]


def rank_name(host: int, rank: int, place: str = "") -> str:
    """Return a rank's name: its place in the job and its host, or host and number if different."""
    if place:
        return f"{place} (h{host})"
    return f"h{host}" if rank == host else f"rank {rank} (h{host})"


def _merged(bars: pl.DataFrame, gap_ps: int) -> pl.DataFrame:
    """Merge bars as `Timeline.merged` does."""
    keys = ["row", "category", "place"]
    before = pl.col("end_ps").cum_max().shift(1).over(keys)
    apart = (pl.col("start_ps") - before > gap_ps) | before.is_null()
    long = pl.col("end_ps") - pl.col("start_ps") > gap_ps
    # Long bars are not merged, so that touching bars remain distinct.
    parted = apart | long | long.shift(1, fill_value=True).over(keys)
    return (
        bars.sort(*keys, "start_ps")
        .with_columns(part=parted.cum_sum().over(keys))
        .group_by(*keys, "part", maintain_order=True)
        .agg(
            pl.col("start_ps").min(),
            pl.col("end_ps").max(),
            pl.col("communicates").first(),
            pl.when(pl.len() == 1).then(pl.col("text").first()).otherwise(pl.lit("")).first(),
        )
        .drop("part")
        .sort("row", "start_ps")
    )


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
    """Return rows by host; for several ranks of a host, the first rank's rows."""
    found: Places = {}, {}
    for row in rows.iter_rows(named=True):
        if row["communicates"]:
            found[1].setdefault((row["host"], row["kind"]), row["row"])
        else:
            found[0].setdefault((row["host"], row["stream"]), row["row"])
    return found


MAX_ROWS, FIRST_ROWS, MAX_STAGES = 64, 32, 8
"""Maximum number of rows; without --hosts, of rows and of stages."""

RESOLUTION = 2000  # horizontal resolution: closer bars are merged

COMPUTES = ("#9CC3E6", "#1F5C99", "#D5DCE4", "#5B8DB8", "#0B2E4F", "#B7B7B7")
"""Colors of computes, alternately light and dark."""

COMMUNICATION = (
    (style.VERMILION, ""), ("#E8C400", "////"), (style.GREEN, "\\\\\\\\"), (style.PINK, "xxxx"),
    (style.ORANGE, "...."), (style.OLIVE, "----"), (style.BROWN, "++++"), (style.PURPLE, "||||"),
)  # fmt: skip
"""Color and hatch of kinds of communication, distinct in gray."""

MAX_TEXTS = 1000
TEXT_PT, LETTER = 6.0, 0.62  # text in bars: size in points, and width of a letter relative to it
MAX_PARTS = 300  # parts of the time; shorter segments of a critical path are drawn as one
THIN = 1000  # bars shorter than 1/THIN of the time have no edges and are drawn at that width
FEW_HOSTS = 6  # largest number of hosts without rows that are named

WIDE_IN, MARGIN_IN, ROW_IN = 9.0, 1.6, 0.22
"""Sizes in inches: width of the figure, margins, and height of a row."""


class BarStyle(NamedTuple):
    """Fill style of a category of bars."""

    color: str
    hatch: str = ""

    @property
    def is_dark(self) -> bool:
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
    title = sweeps.title(results)
    return Picture(style.finish(figure, axes, title, style.OUTSIDE, "; ".join(notes)))


def _notes(result: Result, found: Timeline) -> Iterator[str]:
    if found.left_out:
        yield f"{found.left_out:,} more rows not shown"
    if found.without_rows:
        hosts = listed(found.without_rows, FEW_HOSTS, "h{}".format)
        yield f"hosts without tasks: {hosts}"
    scale = sweeps.resolved(result, "traffic.message_scale")
    if scale not in (None, 1):
        yield f"messages, compute and software are scaled by {scale:g}, delays of links are not"


def bar_styles(bars: pl.DataFrame) -> dict[str, BarStyle]:
    """Return the style of each category: computes first, then communication, by time."""
    first = bars.group_by("category", "communicates").agg(pl.col("start_ps").min())
    first = first.sort("start_ps", "category")
    found: dict[str, BarStyle] = {}
    for communicates, looks in ((False, [(color,) for color in COMPUTES]), (True, COMMUNICATION)):
        its = first.filter(communicates=communicates)["category"]
        found |= {name: BarStyle(*look) for name, look in zip(its, cycle(looks), strict=False)}
    return found


def _fill(
    axes: Axes, its: pl.DataFrame, category: str, bar_style: BarStyle, scale: float, thin_ps: float
) -> None:
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
    ranks = rows["rank"].to_list()
    for place in range(1, len(ranks)):
        if ranks[place] != ranks[place - 1]:
            axes.axhline(place - 0.5, color="#BBBBBB", linewidth=0.6, zorder=0)


PACKET, TIMESTAMP, SEQUENCE, FLAGS, EVENT, DESCRIPTOR = 1, 8, 10, 13, 11, 60
"""Field of a Trace with packets, and fields of a TracePacket."""

UUID, NAME, PROCESS, PARENT, ORDERING, RANK = 1, 2, 3, 5, 11, 12
"""Fields of a TrackDescriptor. EXPLICIT is an ordering: by rank among siblings."""
PROCESS_ID, PROCESS_NAME, EXPLICIT = 1, 6, 3

ANNOTATION, TYPE, TRACK, CATEGORY, TITLE, FLOW, LAST_OF_FLOW = 4, 9, 11, 22, 23, 47, 48
"""Fields of a TrackEvent, and its types SLICE_BEGIN and SLICE_END."""
SLICE_BEGIN, SLICE_END = 1, 2
ANNOTATION_NAME, ANNOTATION_INT = 10, 4

COUNTER, UNIT, SHARED_AXIS, SIZE_BYTES = 8, 3, 7, 3
"""Field of a TrackDescriptor for counters, fields of a CounterDescriptor, and a unit."""
COUNTED, VALUE = 4, 30  # TrackEvent type that sets a counter, and its value field
QUEUES = 32  # maximum number of queues: the ones that grew longest
CLEARED = 1  # flag of the first packet: the sequence has no earlier state


class Slice(NamedTuple):
    """A slice of a track; `message` is -1 without one."""

    start_ps: int
    end_ps: int
    name: str
    category: str
    arguments: dict[str, int]
    message: int = -1
    receives: bool = False


def write(results: Sequence[Result], path: Path, **asked: Any) -> Path:
    """Write the Perfetto trace of one run; `asked` are options of `view_of`."""
    view = view_of(results, **asked)
    found = timeline_of(results, view)
    with writing_to(path), replacing_file(path) as file:
        for packet in _packets(found, view.path, _queues(results[0], found)):
            file.write(packet)
    return path


def _packets(
    found: Timeline, path: CriticalPath | None, queues: Mapping[str, Queue]
) -> Iterator[bytes]:
    """Yield the packets of the file. Packets of equal time keep their order in the file, and an
    arrow must begin before it ends, so receives come last."""
    yield _packet({FLAGS: CLEARED})
    tracks = _Tracks()
    if path is not None:
        yield from tracks.process("critical path")
        yield from tracks.row("critical path", _pieces(path, found))
    of_row = found.bars.partition_by("row", as_dict=True)
    received: list[bytes] = []
    last = None
    for row in found.rows.iter_rows(named=True):
        if row["rank_name"] != last:
            last = row["rank_name"]
            yield from tracks.process(last)
        bars = of_row.get((row["row"],))
        slices = [] if bars is None else [_bar(bar) for bar in bars.iter_rows(named=True)]
        yield from tracks.row(row["name"], [one for one in slices if not one.receives])
        received += tracks.row(f"{row['name']}, received", [one for one in slices if one.receives])
    if queues:
        yield from tracks.process("largest queues (bytes)")
        for name, values in queues.items():
            yield from tracks.counter(name, values)
    yield from received


Queue = Sequence[tuple[int, int]]  # times in ps, and the bytes from each time on


def _queues(result: Result, found: Timeline) -> dict[str, Queue]:
    """Return the sampled queues of a run in the visible time, the longest first."""
    series = result.series
    if series is None or "max_queue_bytes" not in series.columns:
        return {}
    of_ports = series.filter(pl.col("entity").cast(pl.String) == "port").with_columns(
        start_ps=pl.col("time_ps") - pl.col("interval_ps")
    )
    seen = of_ports.filter(
        pl.col("start_ps") < found.to_ps, pl.col("time_ps") > found.from_ps
    ).drop_nulls("max_queue_bytes")
    columns = "name", "traffic_class"
    longest = (
        seen.group_by(columns, maintain_order=True)
        .agg(pl.col("max_queue_bytes").max().alias("longest"))
        .filter(pl.col("longest") > 0)
        .sort("longest", descending=True, maintain_order=True)
        .head(QUEUES)
    )
    queues: dict[str, Queue] = {}
    for name, traffic_class, _ in longest.rows():
        mine = seen.filter(name=name, traffic_class=traffic_class).sort("time_ps")
        values = mine.select("start_ps", "max_queue_bytes").rows()
        queues[f"{name}, class {traffic_class}"] = [*values, (mine["time_ps"][-1], 0)]
    return queues


def _bar(bar: Mapping[str, Any]) -> Slice:
    message = -1 if bar["message"] is None else bar["message"]
    number = {"number": bar["number"]}
    receives = bar["place"] == PLACES.index(LOWER)
    times = bar["start_ps"], bar["end_ps"]
    return Slice(*times, bar["name"], bar["category"], number, message, receives=receives)


def _pieces(path: CriticalPath, found: Timeline) -> list[Slice]:
    """Return the visible segments of a critical path that took time."""
    slices = []
    for one in path.segments.iter_rows(named=True):
        begin, end = one["start_ps"], one["end_ps"]
        if begin < end and begin < found.to_ps and end > found.from_ps:
            where = f"h{one['host']}" + (f" to h{one['to']}" if one["to"] is not None else "")
            name = " ".join(filter(None, (one["segment_type"], one["kind"], one["label"], where)))
            slices.append(Slice(begin, end, name, one["segment_type"], {"segment": one["segment"]}))
    return slices


class _Tracks:
    """Tracks, numbered in order."""

    def __init__(self) -> None:
        self.n = 0
        self.parent = 0
        self.processes = 0
        self.rows = 0

    def _new(self, name: str, fields: Mapping[int, Any]) -> bytes:
        self.n += 1
        return _packet({DESCRIPTOR: {UUID: self.n, **({NAME: name} if name else {}), **fields}})

    def process(self, name: str) -> Iterator[bytes]:
        """Start a process; its rows follow."""
        self.processes += 1
        process = {PROCESS_ID: self.processes, PROCESS_NAME: name}
        yield self._new("", {PROCESS: process, ORDERING: EXPLICIT})
        self.parent, self.rows = self.n, 0

    def counter(self, name: str, values: Queue) -> Iterator[bytes]:
        """Write a counter; all counters have the same scale."""
        unit = {UNIT: SIZE_BYTES, SHARED_AXIS: "queue"}
        yield self._new(name, {PARENT: self.parent, COUNTER: unit})
        for time_ps, value in values:
            yield _event(time_ps, {TYPE: COUNTED, TRACK: self.n, VALUE: value})

    def row(self, name: str, slices: Sequence[Slice]) -> Iterator[bytes]:
        """Write a row, in as many tracks as its slices need."""
        self.rows += 1
        for lane in lanes(slices):
            yield self._new(name, {PARENT: self.parent, RANK: self.rows})
            for one in lane:
                yield from _slice(self.n, one)


def lanes(slices: Sequence[Slice]) -> list[list[Slice]]:
    """Assign slices to lanes without overlap, each to the first free one, sorted by time."""
    found: list[list[Slice]] = []
    free: list[int] = []
    busy: list[tuple[int, int]] = []
    for one in sorted(slices, key=lambda one: (one.start_ps, one.end_ps)):
        while busy and busy[0][0] <= one.start_ps:
            heapq.heappush(free, heapq.heappop(busy)[1])
        if not free:
            free.append(len(found))
            found.append([])
        lane = heapq.heappop(free)
        found[lane].append(one)
        heapq.heappush(busy, (one.end_ps, lane))
    return found


def _slice(track: int, one: Slice) -> Iterator[bytes]:
    exact = {"start_ps": one.start_ps, "duration_ps": one.end_ps - one.start_ps, **one.arguments}
    notes = [{ANNOTATION_NAME: name, ANNOTATION_INT: value} for name, value in exact.items()]
    fields: dict[int, Any] = {TYPE: SLICE_BEGIN, TRACK: track, TITLE: one.name}
    fields |= {CATEGORY: one.category, ANNOTATION: notes}
    if one.message >= 0:
        fields[LAST_OF_FLOW if one.receives else FLOW] = np.uint64(one.message + 1)
    yield _event(one.start_ps, fields)
    yield _event(one.end_ps, {TYPE: SLICE_END, TRACK: track})


def _event(time_ps: int, fields: Mapping[int, Any]) -> bytes:
    return encoded({PACKET: {TIMESTAMP: time_ps // 1000, SEQUENCE: 1, EVENT: fields}})


def _packet(fields: Mapping[int, Any]) -> bytes:
    return encoded({PACKET: {SEQUENCE: 1, **fields}})


def encoded(fields: Mapping[int, Any]) -> bytes:
    """Return a message: fields are numbers (np.uint64: of 64 bits), texts, messages or lists."""
    found = bytearray()
    for field, values in fields.items():
        for value in values if isinstance(values, list) else [values]:
            if isinstance(value, np.uint64):
                found += _varint(field << 3 | 1) + struct.pack("<Q", int(value))
            elif isinstance(value, int):
                found += _varint(field << 3) + _varint(value)
            else:
                content = value.encode() if isinstance(value, str) else encoded(value)
                found += _varint(field << 3 | 2) + _varint(len(content)) + content
    return bytes(found)


def _varint(value: int) -> bytes:
    found = bytearray()
    while value > 127:
        found.append(value & 127 | 128)
        value >>= 7
    found.append(value)
    return bytes(found)
