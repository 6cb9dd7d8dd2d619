"""Pictures of links: sorted by stage of the network, and on a drawing of the network.

A stage is all links from one kind of node to another ("leaf to spine").
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from netsim.errors import InputError, did_you_mean, warn_once
from netsim.model.inventory import stem
from netsim.plots import style, sweeps
from netsim.plots.networks import Drawing, draw_structure, drawing_of, failed_links, per_link
from netsim.plots.sweeps import Picture
from netsim.results import files
from netsim.tracing.record import point_of
from netsim.units import format_number

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.colors import Colormap, Normalize

    from netsim.model.network import Network
    from netsim.results import Result

PLOTS = {
    "links": "utilization and largest queue of every link",
    "topology": "the network, its links colored by --y, with what failed",
}

QUANTITIES = {
    "utilization": ("utilization", 1.0),
    "drops": ("packets dropped", 1.0),
    "trims": ("packets trimmed", 1.0),
    "ecn_marks": ("packets marked", 1.0),
    "lost": ("packets lost on the link", 1.0),
    "paused_time": ("time paused (us)", 1e6),
    "max_queue": ("largest queue (KB)", 1e3),
}
"""--y -> (title of the color scale, divisor of the column)."""

COLUMN = {"paused_time": "paused_ps", "max_queue": "max_queue_bytes"}
DEFAULT = "utilization"
NOTHING, FAILED, COLORS = "#C9C9C9", style.BLUE, "YlOrRd"
MAX_PANELS, MAX_STAGES, STRIP_POINTS = 3, 8, 300
WIDTH_PT, AXES_IN = 1.4, (6.0, 4.6)  # width of a line, and about the size of a network's axes


def links(results: Sequence[Result]) -> Picture:
    """Draw utilization (left) and largest queue (right) of every link of each point.

    The links of a stage are sorted, busiest first: a flat curve is a balanced load, a steep one a
    few hot links. Line styles distinguish points, colors stages; links of all seeds are pooled. The
    first stages have the widest lines, so that equal curves stay visible. Raises InputError for
    results without links, or too many.
    """
    shown = with_links(results)
    curves = sweeps.curves(shown)
    if len(curves) > len(style.LINES):
        raise InputError(
            f"{len(curves)} points exceed the {len(style.LINES)} line styles of a plot of links",
            hint="name the directory of one point",
        )
    figure, (left, right) = style.new_figure(columns=2)
    for curve, line in zip(curves, style.LINES, strict=False):
        _draw_curve(left, right, curve, curve.label if len(curves) > 1 else "", line)
    left.set(ylabel="utilization", ylim=(0, 1.05))
    right.set_ylabel("largest queue (KB)")
    right.set_ylim(bottom=0)
    for axes in (left, right):
        axes.set_xlabel("share of the stage's links, highest first")
    caption = sweeps.caption_of_seeds(curves, "links of all seeds pooled")
    return Picture(style.finish(figure, right, sweeps.title(shown), style.OUTSIDE, caption))


def with_links(results: Sequence[Result]) -> list[Result]:
    """Return the results that have a links table, and warn about the others. Raises
    InputError if none has one."""
    shown = [one for one in results if (one.path / files.LINKS).is_file() and len(one.links)]
    if not shown:
        is_ideal = sweeps.transport(results[0]) == sweeps.IDEAL
        hint = "set links = true in [outputs] and run again"
        raise InputError(
            "the result has no links",
            file=str(results[0].path),
            hint='"ideal" is not simulated' if is_ideal else hint,
        )
    if left_out := [one.name for one in results if one not in shown]:
        warn_once(f"skipped (no links): {', '.join(left_out)}")
    return shown


def stages(links: pl.DataFrame) -> pl.DataFrame:
    """Return stage, utilization and queue_bytes of each link, summed over its classes."""
    names = ("from_name", "to_name")
    named = links.with_columns(pl.col(name).cast(pl.String) for name in names)
    kinds = {name: node_kind(name) for column in names for name in named[column].unique()}
    return (
        named.with_columns(pl.col(name).replace_strict(kinds, default="") for name in names)
        .group_by("link", maintain_order=True)
        .agg(
            pl.col("from_name", "to_name").first(),
            pl.col("utilization").sum(),
            pl.col("max_queue_bytes").sum().alias("queue_bytes"),
        )
        .with_columns(pl.format("{} to {}", "from_name", "to_name").alias("stage"))
    )


def node_kind(name: str) -> str:
    """Return the kind of a node: "host" for "h12", "leaf" for "plane0.leaf3"."""
    return "host" if name[:1] == "h" and name[1:].isdigit() else stem(name)


def _draw_curve(left: Axes, right: Axes, curve: sweeps.Curve, name: str, line: str) -> None:
    links = pl.concat([stages(result.links) for result in curve.results])
    groups = links.partition_by("stage", maintain_order=True)
    for index, group in enumerate(groups):
        stage = group["stage"][0]
        label = f"{stage}, {name}" if name else stage
        for axes, column, scale in ((left, "utilization", 1.0), (right, "queue_bytes", 1e3)):
            values = group[column].sort(descending=True).to_numpy() / scale
            chosen = style.thin(len(values))
            share = chosen / max(1, len(values) - 1)
            width = 1.2 + 0.8 * (len(groups) - 1 - index)
            axes.plot(share, values[chosen], line, color=style.color(index), label=label, lw=width)


def topology(results: Sequence[Result], y: str | None = None, *, trust: bool = False) -> Picture:
    """Draw the networks of results side by side, colored by one of QUANTITIES, failed links marked.

    A cable has two lines, one per direction, each on its right-hand side. In large networks,
    neighbors share a symbol, and a line has the color of the highest value of its links. Below are
    all links, sorted, by stage.

    `trust` allows plugins outside netsim. Raises InputError for results without links, too many
    results, or a changed topology.
    """
    from matplotlib.cm import ScalarMappable
    from matplotlib.figure import Figure

    quantity = y or DEFAULT
    if quantity not in QUANTITIES:
        hint = did_you_mean(quantity, QUANTITIES)
        raise InputError(f'unknown color of links "{quantity}"', key="--y", hint=hint)
    shown = with_links(results)
    if len(shown) > MAX_PANELS:
        raise InputError(
            f"{len(shown)} results exceed the {MAX_PANELS} networks of a plot",
            hint="name fewer directories",
            code="out_of_range",
        )
    networks = [_network_of(result, trust) for result in shown]
    column, divisor = COLUMN.get(quantity, quantity), QUANTITIES[quantity][1]
    values = [per_link(result.links, column) / divisor for result in shown]
    norm = _norm(quantity, values)
    figure = Figure(figsize=(7.6 * len(shown), 7.4), layout="constrained")
    grid = figure.add_gridspec(2, len(shown), height_ratios=[3.2, 1.4])
    for at, (result, network) in enumerate(zip(shown, networks, strict=True)):
        failed = failed_links(result.faults)
        drawing = drawing_of(network)
        axes = figure.add_subplot(grid[0, at])
        draw_structure(axes, drawing)
        _draw_links(axes, drawing, values[at], norm)
        _mark(axes, drawing, failed)
        axes.set_title(
            sweeps.title([result]) if len(shown) == 1 else result.name, fontsize="medium"
        )
        _draw_stages(figure.add_subplot(grid[1, at]), network, values[at], norm)
    scale = ScalarMappable(norm, _colors())
    figure.colorbar(scale, ax=figure.axes, label=QUANTITIES[quantity][0], shrink=0.6)
    return Picture(figure)


def _network_of(result: Result, trust: bool) -> Network:
    from netsim.experiment.scenario import network_of

    network = network_of(point_of(result, trust=trust))
    units = network.reduction
    if units is not None and units.network.n_links == result.links["link"].n_unique():
        network = units.network
    if network.n_links != result.links["link"].n_unique():
        raise InputError(
            f"the topology now has {network.n_links:,} links, not "
            f"{result.links['link'].n_unique():,}",
            file=str(result.path),
            hint="run the experiment again",
        )
    return network


def _norm(quantity: str, values: Sequence[np.ndarray]) -> Normalize:
    """Return the color scale of all panels: to 1 for utilization, else to the largest value."""
    from matplotlib.colors import Normalize, PowerNorm

    if quantity == DEFAULT:
        return Normalize(0, 1)
    top = max(float(one.max(initial=0)) for one in values)
    return PowerNorm(0.5, 0, top or 1.0)


def _colors() -> Colormap:
    """Return the color map; zero is gray."""
    from matplotlib import colormaps
    from matplotlib.colors import ListedColormap

    shades = colormaps[COLORS](np.linspace(0.15, 1, 256))
    return ListedColormap(shades).with_extremes(bad=NOTHING)


def _draw_links(axes: Axes, drawing: Drawing, values: np.ndarray, norm: Normalize) -> None:
    """Draw both directions of each line in the color of its busiest cable, busiest lines on top.
    Circuits that share a fiber are summed."""
    from matplotlib.collections import LineCollection
    from matplotlib.lines import Line2D

    colors, graph = _colors(), drawing.graph
    every = np.concatenate([values, values])[: len(graph.line_of)]
    half = graph.per_half(every).reshape(-1, 2)
    fibers = drawing.is_circuit(graph.ends).any(axis=1)
    half[fibers] = graph.per_half(every, "sum").reshape(-1, 2)[fibers]
    ways: list[tuple[float, Any]] = []
    for points, (there, back) in zip(drawing.lines(), half.tolist(), strict=True):
        aside = _aside(axes, points)
        ways += [(there, points + aside), (back, points - aside)]
    ways.sort(key=lambda way: way[0])
    shades = [colors(norm(value)) if value > 0 else NOTHING for value, _ in ways]
    lines = [points for _, points in ways]
    axes.add_collection(LineCollection(lines, colors=shades, linewidths=WIDTH_PT, zorder=1))
    several = "; of several links, the busiest" if graph.members.max() > 1 else ""
    label = f"0 (each direction keeps right{several})"
    axes.legend(
        handles=[Line2D([], [], color=NOTHING, label=label)],
        loc="lower right", frameon=False, fontsize="small",
    )  # fmt: skip


def _aside(axes: Axes, points: np.ndarray) -> np.ndarray:
    """Return how far right of a cable its first direction is drawn, in units of the axes."""
    first, last = points[0], points[-1]
    spans = np.array([np.ptp(axes.get_xlim()), np.ptp(axes.get_ylim())])
    per_unit = 72 * np.array(AXES_IN) / spans
    if axes.get_aspect() != "auto":
        per_unit[:] = per_unit.min()
    along = (last - first) * per_unit
    right = np.array([along[1], -along[0]]) / np.hypot(*along)
    aside: np.ndarray = WIDTH_PT * 0.6 * right / per_unit
    return aside


def _mark(axes: Axes, drawing: Drawing, failed: np.ndarray) -> None:
    if not failed.size:
        return
    lines, halves = drawing.lines(), drawing.graph.line_of[failed]
    shown = np.unique(halves[halves >= 0] // 2)
    if shown.size:
        xs, ys = np.array([lines[k].mean(axis=0) for k in shown]).T
        axes.scatter(xs, ys, marker="x", s=45, color=FAILED, linewidths=2, zorder=5)
    left, low = drawing.spots.min(axis=0)
    text = f"\u00d7 {failed.size:,} links with faults, {shown.size:,} of the lines drawn"
    axes.text(left, low - 0.42, text, color=FAILED, fontsize="small")


def _draw_stages(axes: Axes, network: Network, values: np.ndarray, norm: Normalize) -> None:
    """Draw all links of each stage as a sorted strip, with mean and maximum."""
    names = np.array(
        ["host"] * network.n_hosts + [stem(name) for name in network.switch_names], object
    )
    own, far = names[network.port_node], names[network.port_node[network.port_peer]]
    stages: dict[tuple[str, str], np.ndarray] = {}
    for key in dict.fromkeys(zip(own.tolist(), far.tolist(), strict=True)):
        stages[key] = np.sort(values[(own == key[0]) & (far == key[1])])[::-1]
    shown = list(stages.items())[:MAX_STAGES]
    for at, ((a, b), these) in enumerate(shown):
        chosen = np.linspace(0, these.size - 1, STRIP_POINTS).round().astype(np.int64)
        strip = np.ma.masked_equal(these[chosen], 0)[None, :]
        extent = (0.0, 1.0, at + 0.4, at - 0.4)
        axes.imshow(strip, aspect="auto", extent=extent, cmap=_colors(), norm=norm)
        mean, most = format_number(float(these.mean()), 3), format_number(float(these.max()), 3)
        axes.text(-0.01, at, f"{a} to {b}", ha="right", va="center", fontsize="small")
        axes.text(1.01, at, f"mean {mean}, max {most}", va="center", fontsize="small")
    axes.set(xlim=(-0.25, 1.3), ylim=(len(shown) - 0.4, -0.6))
    axes.set_axis_off()
    title = "all links of each stage, the highest first"
    axes.set_title(title, fontsize="small", color=style.CAPTION)
