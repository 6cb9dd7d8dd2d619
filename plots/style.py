"""Shared style of plots: names, size, colors, legends, time units, saving.

Plots do not use pyplot: no window, no global state, nothing to close.
"""

from __future__ import annotations

import re
import textwrap
import zlib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from netsim.common.writing import replacing_file, writing_to
from netsim.errors import InputError
from netsim.units import (
    format_bytes,
    format_number,
    format_rate,
    format_time,
    parse_bytes,
    parse_rate_bps,
    parse_time_ps,
    written,
)

if TYPE_CHECKING:
    import numpy as np
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.legend import Legend

NAMES = {
    "fabric.routing": "routing",
    "fabric.xoff_bytes": "PFC threshold (XOFF)",
    "fabric.queue_discipline": "queue discipline",
    "topology.host_rate": "rate of a host",
    "topology.rail.host_rate": "rate of a GPU's port on its rail",
    "topology.prediction_error": "share of wrong predictions",
    "traffic.fan_in": "senders",
    "traffic.load": "load",
    "traffic.n_flows": "flows",
    "traffic.pooled_fraction": "share of the KV cache in other GPUs' memory",
    "traffic.rate": "requests per second",
    "traffic.size": "flow size",
    "traffic.sizes": "flow sizes",
}
"""Axis -> its name on plots; the default is its last word."""

EXPOSED = "exposed communication, {} (share of the step)"

QUANTITIES = {
    "fct": "flow completion time", "ideal": "ideal completion time", "job_step": "step time",
    "step": "step time", "forecast": "step time of the whole job, forecast",
    "formula": "step time of the whole job, by formula",
    "forecast_exposed": EXPOSED.format("all networks, forecast"),
    "job_exposed": EXPOSED.format("all networks"),
    "exposed": EXPOSED.format("all networks"), "ttft": "time to first token",
    "tbt": "time between tokens", "second_token": "first to second token",
    "packet_hops_per_s": "speed", "pfc_pauses": "PFC pauses", "ecn_marks": "packets marked by ECN",
    "drops": "packets dropped", "trims": "packets trimmed", "lost": "packets lost",
    "retransmits": "packets sent again", "mfu": "model FLOPs utilization",
    "slo_attainment": "share of requests that met the SLO",
    "available_gpu_share": "share of GPUs available",
}  # fmt: skip
"""Metric, or its first words before a statistic -> its name."""

STATISTICS = {
    "p50": "median", "p90": "90th percentile", "p99": "99th percentile",
    "p999": "99.9th percentile", "max": "longest", "mean": "mean",
}  # fmt: skip

TRANSPORTS = {
    "bbr": "BBR", "cubic": "CUBIC", "datagram": "datagrams", "dcqcn": "DCQCN", "dctcp": "DCTCP",
    "expresspass": "ExpressPass", "homa": "Homa", "hpcc": "HPCC", "mrc": "MRC", "ndp": "NDP",
    "nscc": "NSCC", "pfabric": "pFabric", "rccc": "RCCC", "roce": "RoCE", "smartt": "SMaRTT",
    "swift": "Swift", "wan_fec": "FEC",
}  # fmt: skip

PRESET = re.compile(r"^([a-z_]+)(:[\w-]+)?(?=$|,| \()")

FORMATS = ((parse_bytes, format_bytes), (parse_rate_bps, format_rate), (parse_time_ps, format_time))


def axis_name(axis: str) -> str:
    """Return the name of an axis of a sweep: "fan in" for "flow_classes.a.traffic.fan_in"."""
    return NAMES.get(axis, axis.rpartition(".")[2].replace("_", " "))


def value_text(value: Any) -> str:
    """Return a value in a suitable unit: "3MB" for "3000KB"."""
    if not isinstance(value, str):
        return written(value)
    for parse, form in FORMATS:
        try:
            return form(parse(value))
        except InputError:
            continue
    return value


def metric_name(name: str) -> str:
    """Return the title of a number of a summary: "99th percentile of the time to first token"
    for "ttft_p99_ps"; unknown ones keep their words."""
    whose, dot, rest = name.rpartition(".")
    if dot:
        return f"{whose}: {metric_name(rest)}"
    if name in QUANTITIES:
        return QUANTITIES[name]
    if found := re.fullmatch(r"(?:job_)?exposed_(?:by_)?scale_(up|out)_?(.*)", name):
        network, kind = found.groups()
        return EXPOSED.format(f"scale-{network} {kind.replace('_', ' ')}".rstrip())
    name = name.removesuffix("_per_s").removesuffix("_ps").removesuffix("_s")
    quantity, _, statistic = name.rpartition("_")
    if statistic in STATISTICS:
        return f"{QUANTITIES.get(quantity, quantity.replace('_', ' '))}, {STATISTICS[statistic]}"
    return QUANTITIES.get(name, name.replace("_", " "))


def for_people(labels: Sequence[str]) -> list[str]:
    """Return labels that begin with a transport as titles: "NDP, load 1" for "ndp:800g, load 1".
    Presets stay if they distinguish labels."""
    titles = []
    for label in labels:
        found = PRESET.match(label)
        if found is None or found[1] not in TRANSPORTS:
            titles.append((label, "", ""))
        else:
            titles.append((TRANSPORTS[found[1]], found[2] or "", label[found.end() :]))
    plain = [name + rest for name, _, rest in titles]
    return plain if len(set(plain)) == len(set(labels)) else ["".join(one) for one in titles]


BLUE, VERMILION, GREEN, PINK, ORANGE, SKY, BLACK, YELLOW, GRAY = (
    *("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000"),
    *("#F0E442", "#999999"),
)
BROWN, PURPLE, OLIVE = "#8C510A", "#5E3C99", "#7A7A00"
"""The palette of plots and reports: Okabe and Ito's colors, safe for red-green color blindness, and
some more."""

COLORS = (BLUE, VERMILION, GREEN, PINK, ORANGE, SKY, BLACK, BROWN, PURPLE, OLIVE)  # of curves

LINES = ("-", "--", ":", "-.")
MARKERS = ("", "o", "s", "^", "D", "v", "x")
COLOR_OF = {
    "ndp": 0, "roce": 1, "smartt": 2, "homa": 3, "dcqcn": 4, "nscc": 5, "dctcp": 6, "hpcc": 7,
    "swift": 8, "cubic": 9, "bbr": 5, "wan_fec": 3, "datagram": 6,
}  # fmt: skip
"""Transport -> its color on every plot unless taken; others get a color by hashing their name."""

IDEAL = "#888888"
CAPTION = "#555555"
MAX_POINTS = 4000
MAX_LEGEND_INSIDE = 8
MAX_LEGEND = 24
MAX_WIDTH_IN, MAX_HEIGHT_IN = 15.6, 9.0
OUTSIDE, BESIDE = "outside lower center", "beside"
LEGEND_ROW_IN, LEGEND_LETTER_IN, LEGEND_LINE_IN = 0.175, 0.066, 0.6
"""Size of a legend entry in inches: height, width of a letter, width of its line."""

TITLE_LETTER_IN = 0.077  # mean width of a letter of a title, in inches
CLOSE = 0.2  # an axis that does not begin at 0 shows at least this share of its highest value
MARGIN = 0.05  # room at the ends of an axis, as a share of its length
DECADES = 50  # ratio of largest to smallest value from which an axis is logarithmic
SHORT = 300  # ratio of the ends of a logarithmic axis below which it has labels between the decades
LETTER_PT = 0.75  # room for a letter of a label of x, by its size
SLANTED_IN = 0.5  # height of slanted labels below a panel in print, in inches
STACKED_IN = 0.5  # height that a panel of a column gains in print, for its labels
MIN_PANEL_IN = 2.6  # least width of a panel in print, in inches

TIME_UNITS = (("ps", 1.0), ("ns", 1e3), ("us", 1e6), ("ms", 1e9), ("s", 1e12))


class CurveStyle(NamedTuple):
    """Style of a curve."""

    color: str
    line: str = "-"
    marker: str = ""

    @property
    def order(self) -> float:
        """The zorder: dashed lines are above solid ones, so all stay visible."""
        return 2 + LINES.index(self.line) / 10

    def options(self, points: int = 0) -> dict[str, Any]:
        """Return options for matplotlib; about ten of a curve's `points` have a marker."""
        chosen: dict[str, Any] = {"color": self.color, "linestyle": self.line}
        if self.marker:
            chosen |= {"marker": self.marker, "markersize": 4}
            chosen |= {"markevery": max(1, points // 10)} if points else {}
        return chosen


IDEAL_LINE = CurveStyle(IDEAL, "--")


def new_figure(columns: int = 1, rows: int = 1) -> tuple[Figure, list[Axes]]:
    """Return an empty figure and its panels, row by row."""
    from matplotlib.figure import Figure

    width_in = 6.4 if columns == 1 else min(5.2 * columns, MAX_WIDTH_IN)
    size = (width_in, 4.2 if rows == 1 else min(3.4 * rows, MAX_HEIGHT_IN))
    figure = Figure(figsize=size, layout="constrained")
    panels = figure.subplots(rows, columns, squeeze=False).ravel()
    return figure, [_plain_axes(axes) for axes in panels]


def new_column(heights_in: Sequence[float]) -> tuple[Figure, list[Axes]]:
    """Return an empty figure and its panels, stacked above one time axis."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9.0, 1.0 + sum(heights_in)), layout="constrained")
    panels = figure.subplots(
        len(heights_in), 1, sharex=True, squeeze=False, height_ratios=heights_in
    )
    return figure, [_plain_axes(axes) for axes in panels[:, 0]]


def new_panels(titles: Sequence[str]) -> tuple[Figure, dict[str, Axes]]:
    """Return an empty figure and a panel for each title, in rows of up to three, or five."""
    columns = 2 if len(titles) == 4 else min(3 if len(titles) <= 9 else 5, len(titles))
    figure, panels = new_figure(columns, -(-len(titles) // columns))
    for axes in panels[len(titles) :]:
        figure.delaxes(axes)
    for axes, title in zip(panels, for_people(titles), strict=False):
        axes.set_title(title, fontsize="medium")
    return figure, dict(zip(titles, panels, strict=False))


def _plain_axes(axes: Axes) -> Axes:
    axes.grid(alpha=0.25, linewidth=0.6)
    axes.spines[["top", "right"]].set_visible(False)
    return axes


def color(index: int) -> str:
    return COLORS[index % len(COLORS)]


def curve_styles(kinds: Sequence[str]) -> list[CurveStyle]:
    """Return a style for each curve, by its transport.

    Each transport has its color; its curves, up to 28, differ in line and marker. With only one
    transport, curves differ in color first, and up to 280 are distinct.
    """
    if len(set(kinds)) == 1:
        return [
            CurveStyle(
                color(index),
                LINES[index // len(COLORS) % len(LINES)],
                MARKERS[index // len(COLORS) // len(LINES) % len(MARKERS)],
            )
            for index in range(len(kinds))
        ]
    chosen = _colors(dict.fromkeys(kinds))
    used: dict[str, int] = {}
    found = []
    for kind in kinds:
        shade = chosen[kind]
        index = used[shade] = used.get(shade, -1) + 1
        marker = MARKERS[index // len(LINES) % len(MARKERS)]
        found.append(CurveStyle(shade, LINES[index % len(LINES)], marker))
    return found


def mark_stated(
    axes: Axes, points: Iterable[tuple[float, float, str]], by: str, *, sideways: bool = False
) -> None:
    """Mark values that others state, at (x, y), as diamonds; bounds as triangles that point to
    where the value may be, up (to the right if `sideways`) for "more than" and "at least"."""
    groups: dict[str, list[tuple[float, float]]] = {}
    for x, y, bound in points:
        groups.setdefault(bound, []).append((x, y))
    for bound, its in groups.items():
        markers = {"": "DD", "more than": "^>", "at least": "^>"}.get(bound, "v<")
        axes.plot(
            *zip(*its, strict=True), marker=markers[sideways], linestyle="none", markersize=6.5,
            markerfacecolor="none", color="black", zorder=4,
            label=f"{by}: {bound}" if bound else by,
        )  # fmt: skip


def broken(index: int) -> str:
    """Return the line of bound `index`: dashed, dotted, dash-dotted."""
    return LINES[1:][index % 3]


def distinct_in_grayscale(curve_style: CurveStyle, index: int) -> CurveStyle:
    """Return a style whose line and marker are unique among a few curves."""
    return curve_style._replace(line=LINES[index % len(LINES)], marker=MARKERS[1:][index % 6])


def _colors(kinds: Iterable[str]) -> dict[str, str]:
    """Return the color of each transport: its own, or the next free one."""
    chosen: dict[str, int] = {}
    for kind in sorted(kinds, key=lambda kind: kind not in COLOR_OF):
        first = COLOR_OF.get(kind, zlib.crc32(kind.encode()) % len(COLORS))
        places = [(first + step) % len(COLORS) for step in range(len(COLORS))]
        free = [place for place in places if place not in chosen.values()]
        chosen[kind] = (free or places)[0]
    return {kind: COLORS[place] for kind, place in chosen.items()}


def time_unit(times_ps: Iterable[float]) -> tuple[str, float]:
    """Return the unit, and its picoseconds, that puts the largest time between 1 and 1000."""
    largest = max(times_ps, default=0.0)
    fitting = [unit for unit in TIME_UNITS if unit[1] <= largest]
    return fitting[-1] if fitting else TIME_UNITS[0]


def spans_decades(values: Sequence[Any]) -> bool:
    """Return whether positive samples span enough for a logarithmic axis."""
    known = [one for one in values if len(one)]
    least = min((float(min(one)) for one in known), default=0.0)
    return least > 0 and max(float(max(one)) for one in known) > DECADES * least


def fit_axis(axes: Axes, which: str, values: Sequence[Any], scale: float = 1.0) -> None:
    """Fit an axis ("x" or "y") to samples, drawn over `scale`, with room for markers at its ends.

    It is logarithmic if they span decades. Else it begins at 0, or closer if they differ by less
    than a factor of two: then the highest is at most 1/`CLOSE` times its distance from the start.
    """
    if spans_decades(values):
        logarithmic(axes, which)
        return
    known = [one for one in values if len(one)]
    low, high = (float(f(map(f, known), default=0.0)) / scale for f in (min, max))
    start = high - 1.25 * max(high - low, CLOSE * high) if 2 * low > high > 0 else min(0.0, low)
    room = MARGIN * (high - start) or 1.0
    axes.set(**{f"{which}lim": (start - (room if start < 0 else 0), high + room)})


def unit_of_all(times_ps: Sequence[Any]) -> tuple[str, float]:
    """Return the unit of the longest of several samples, and its picoseconds."""
    return time_unit(float(max(one)) for one in times_ps if len(one))


def write_value(
    axes: Axes, place: tuple[float, float], value: float, offset_pt: tuple[float, float]
) -> None:
    """Write a value above (or, if offset to the right, beside) its mark, on top of lines."""
    from matplotlib.patheffects import withStroke

    ha, va = ("left", "center") if offset_pt[0] else ("center", "bottom")
    axes.annotate(
        format_number(value, 4), place, offset_pt, textcoords="offset points", ha=ha, va=va,
        fontsize="x-small", color=CAPTION, zorder=10,
        path_effects=[withStroke(linewidth=2, foreground="white")],
    )  # fmt: skip


def slant_if_crowded(axes: Axes) -> None:
    """Slant the labels of x if they would touch in a panel of this width."""
    texts = axes.get_xticklabels()
    letters = sum(len(text.get_text()) + 2 for text in texts)
    place, figure = axes.get_subplotspec(), axes.get_figure(root=True)
    columns = 1 if place is None else place.get_gridspec().ncols
    width_in = 0 if figure is None else 0.9 * figure.get_size_inches()[0] / columns
    if letters * max(float(text.get_fontsize()) for text in texts) * LETTER_PT > 72 * width_in:
        for text in texts:
            text.set(rotation=30, ha="right")


def thin(count: int) -> np.ndarray:
    """Return at most a few thousand indices, both ends included, of `count` sorted values."""
    import numpy as np

    if count <= MAX_POINTS:
        return np.arange(count)
    return np.unique(np.linspace(0, count - 1, MAX_POINTS).round().astype(np.int64))


def finish(figure: Figure, axes: Axes, title: str, loc: str, caption: str = "") -> Figure:
    """Add the title and the legend of `axes`; return the figure.

    The legend is at `loc` inside the axes if short, else in columns below all panels. The caption
    below the panels explains bands and dots.
    """
    if title:
        figure.suptitle(_wrapped(title, figure.get_figwidth()), fontsize="medium")
    legend(figure, axes, loc, caption)
    return figure


def finish_panels(
    figure: Figure, panels: Sequence[Axes], title: str, loc: str, caption: str = ""
) -> Figure:
    """Do the same as `finish` for several panels: one legend if they have the same entries, else
    one each."""
    texts = [axes.get_legend_handles_labels()[1] for axes in panels]
    if all(one == texts[0] for one in texts):
        return finish(figure, panels[0], title, loc if len(panels) == 1 else OUTSIDE, caption)
    finish(figure, panels[0], title, "best", caption)
    for axes in panels:
        handles, labels = axes.get_legend_handles_labels()
        axes.legend(handles, for_people(labels), frameon=False, fontsize="x-small", loc="best")
    for one in figure.legends:
        one.remove()
    return figure


def legend_beside(axes: Axes, **how: Any) -> None:
    """Add the legend of a panel at its right, if it has entries; `fit_for_print` moves it."""
    if axes.get_legend_handles_labels()[1]:
        place: dict[str, Any] = {"loc": "upper left", "bbox_to_anchor": (1.0, 1.0)}
        axes.legend(**place, frameon=False, fontsize="small", **how).set_gid(BESIDE)


def _wrapped(title: str, width_in: float, letter_in: float = TITLE_LETTER_IN) -> str:
    return textwrap.fill(title.replace("\n", " "), max(20, int(width_in / letter_in)))


def legend(figure: Figure, axes: Axes, loc: str, caption: str = "") -> None:
    """Add the legend of `finish`."""
    handles, texts = axes.get_legend_handles_labels()
    texts = for_people(texts)
    options: dict[str, Any] = {"frameon": False, "fontsize": "small", "loc": loc}
    if len(texts) <= MAX_LEGEND_INSIDE and loc != OUTSIDE:
        axes.legend(handles, texts, **options)
        if caption:
            figure.supxlabel(caption, fontsize="small", color=CAPTION)
        return
    if len(texts) > MAX_LEGEND:
        from matplotlib.lines import Line2D

        # The last entries are reference lines, such as the ideal.
        left_out = len(texts) - MAX_LEGEND + 1
        handles[MAX_LEGEND - 2 : -1] = [Line2D([], [], linestyle="none")]
        texts[MAX_LEGEND - 2 : -1] = [f"and {left_out:,} more"]
    _add_below(figure, handles, texts, caption)


def _add_below(
    figure: Figure, handles: list[Any], texts: list[str], caption: str, fontsize: Any = "small"
) -> None:
    """Add a legend in columns below all panels; the figure grows."""
    width, height = figure.get_size_inches()
    column_in = LEGEND_LINE_IN + LEGEND_LETTER_IN * max(map(len, texts), default=0)
    columns = max(1, min(len(texts), int(width / column_in)))
    rows = -(-len(texts) // columns) + (1 if caption else 0)
    figure.set_figheight(height + LEGEND_ROW_IN * rows)
    options: dict[str, Any] = {"frameon": False, "loc": OUTSIDE, "ncols": columns}
    drawn = figure.legend(handles, texts, fontsize=fontsize, **options)
    if caption:
        drawn.set_title(caption)
        drawn.get_title().set(fontsize=fontsize, color=CAPTION)


def logarithmic(axes: Axes, which: str) -> None:
    """Make an axis ("x" or "y") logarithmic with plain numbers: 0.1, 1, 10, and 2 and 5 between
    them on a short axis."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    axis = axes.xaxis if which == "x" else axes.yaxis
    axes.set(**{f"{which}scale": "log"})
    low, high = axis.get_view_interval()
    if high < SHORT * low:
        axis.set_major_locator(LogLocator(subs=(1, 2, 5) if high > 10 * low else range(1, 10)))
    axis.set_major_formatter(FuncFormatter(_plain))
    axis.set_minor_formatter(NullFormatter())


def bytes_axis(axes: Axes, which: str = "x") -> None:
    """Make an axis of positive sizes in bytes logarithmic, with labels such as 64KB."""
    from matplotlib.ticker import FuncFormatter

    logarithmic(axes, which)
    axis = axes.xaxis if which == "x" else axes.yaxis
    axis.set_major_formatter(FuncFormatter(lambda n, _: format_bytes(max(1, round(n)), 3)))


def _plain(value: float, _place: int | None = None) -> str:
    return f"{value:,.0f}" if value >= 10 else f"{value:g}"


def fit_for_print(figure: Figure, width_in: float) -> None:
    """Give a figure the width of a column: text of 8 pt or less, and panels below each other if
    they would be narrower than `MIN_PANEL_IN`."""
    from matplotlib.text import Text
    from matplotlib.ticker import FixedLocator

    width, height = figure.get_size_inches()
    panels = [axes for axes in figure.axes if axes.get_subplotspec() is not None]
    grids = [grid for axes in panels if (grid := axes.get_gridspec()) is not None]
    columns = max((grid.ncols for grid in grids), default=1)
    has_bars = len(panels) < len(figure.axes)
    drawn: dict[str, Any] = {}
    for axes in panels:
        handles, labels = axes.get_legend_handles_labels()
        drawn |= dict(zip(for_people(labels), handles, strict=True))
    legends = [(one, *_parts(one, drawn)) for one in figure.legends]
    height -= sum(LEGEND_ROW_IN * rows for *_, rows in legends)
    if columns > 1 and width_in / columns < MIN_PANEL_IN and not has_bars:
        grid = figure.add_gridspec(len(panels), 1)
        for place, axes in enumerate(panels):
            axes.set_subplotspec(grid[place])
        height *= len(panels) / -(-len(panels) // columns)
        width /= columns
    figure.set_size_inches(width_in, height * width_in / width)
    for text in figure.findobj(Text):
        text.set_fontsize(min(float(text.get_fontsize()), 10.0) * 0.8)
    for axes in panels:
        if isinstance(axes.xaxis.get_major_locator(), FixedLocator):
            slant_if_crowded(axes)
        if any(text.get_rotation() for text in axes.get_xticklabels()):
            figure.set_figheight(figure.get_figheight() + SLANTED_IN)
        if (beside := axes.get_legend()) is not None and beside.get_gid() == BESIDE:
            _put_above(figure, axes, beside, width_in)
    if figure.get_suptitle():
        figure.suptitle(
            _wrapped(figure.get_suptitle(), width_in, 0.8 * TITLE_LETTER_IN), fontsize=8
        )
    for one, handles, texts, _ in legends:
        title = one.get_title().get_text()
        one.remove()
        _add_below(figure, handles, texts, title, fontsize=7)


def _put_above(figure: Figure, axes: Axes, beside: Legend, width_in: float) -> None:
    """Move a legend from the right of a panel to above it; the figure grows to keep panel sizes."""
    texts = [text.get_text() for text in beside.get_texts()]
    column_in = LEGEND_LINE_IN + LEGEND_LETTER_IN * max(map(len, texts))
    columns = max(1, min(len(texts), int(width_in / column_in)))
    place: dict[str, Any] = {"loc": "lower left", "bbox_to_anchor": (0.0, 1.0), "ncols": columns}
    handles: list[Any] = beside.legend_handles
    axes.legend(handles, texts, **place, frameon=False, fontsize=6)
    rows = -(-len(texts) // columns)
    figure.set_figheight(figure.get_figheight() + STACKED_IN + LEGEND_ROW_IN * rows)


def _parts(legend: Legend, drawn: Mapping[str, Any]) -> tuple[list[Any], list[str], int]:
    """Return the handles, the texts and the number of rows of a legend below the panels."""
    texts = [text.get_text() for text in legend.get_texts()]
    rows = -(-len(texts) // getattr(legend, "_ncols", 1)) + bool(legend.get_title().get_text())
    handles = zip(texts, legend.legend_handles, strict=True)
    return [drawn.get(text, handle) for text, handle in handles], texts, rows


def save(figure: Figure, path: Path) -> Path:
    """Write `figure` to `path`, in the format of its suffix, and return the path.

    Text in .pdf and .ps uses Type 42 fonts, as publishers require. Raises InputError if the format
    is unknown or the file cannot be written.
    """
    from matplotlib import rc_context

    known = figure.canvas.get_supported_filetypes()
    ending = path.suffix.lstrip(".").lower()
    if ending not in known:
        raise InputError(f'unknown format "{path.suffix}"', file=str(path), hint="use .png")
    fonts: dict[Any, int] = {"pdf.fonttype": 42, "ps.fonttype": 42}
    with writing_to(path), replacing_file(path) as file, rc_context(fonts):
        figure.savefig(file, format=ending, dpi=150)
    return path
