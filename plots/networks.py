"""Drawings of networks, as `layout.py` places them, and of the matchings of circuits below.

`links.py` draws results on these drawings.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from netsim.model.inventory import common_name, physical_ports, stem
from netsim.plots import style
from netsim.plots.layout import Graph, graph_of, links_of
from netsim.units import format_rate, format_time

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure

    from netsim.model.circuits import Circuits
    from netsim.model.network import Network

IN_ROW, IN_ROWS = 16, 32
"""Switches in a row of one network, and of several; more share a symbol."""

HOST, SWITCH, CIRCUIT = "#444444", "#F4F1EA", style.ORANGE
ROW_IN, UNIT_IN = 1.05, 0.28
"""Height of a tier and width of a symbol, in inches."""

MARGIN = 1.5
"""Room beside the symbols, in symbols."""

CIRCLE = 16.0
"""Diameter of a circle, in symbols."""

ARC_POINTS = 15
ABREAST, WIDEST_IN = 3, 14.0
"""Networks in a row of the figure; maximum width of one in inches."""

OTHERS, MAX_NAMED = "#777777", 8
"""Color of cables of no network among several, and most networks with a name."""


class Panel(NamedTuple):
    """A network to draw, with its title."""

    title: str
    network: Network


class Drawing(NamedTuple):
    """A network, the graph that stands for it, and float64[nodes, 2], the places of its nodes."""

    network: Network
    graph: Graph
    spots: NDArray[np.float64]

    @property
    def width(self) -> float:
        return float(np.ptp(self.spots[:, 0]))

    @property
    def rows(self) -> float:
        """Height in tiers."""
        return 5.0 if self.graph.is_round else float(self.spots[:, 1].max()) + 1

    def lines(self) -> list[NDArray[np.float64]]:
        """Return the points of each line of the graph: an arc if nodes lie between its ends."""
        taken = np.zeros((0, 2)) if self.graph.is_round else self.spots
        return [_line(self.spots[a], self.spots[b], taken) for a, b in self.graph.ends]

    def is_circuit(self, node: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return whether drawn nodes stand for circuit switches."""
        first = np.full(len(self.graph.names), len(self.graph.group))
        np.minimum.at(first, self.graph.group, np.arange(len(self.graph.group)))
        found: NDArray[np.bool_] = first[node] >= self.network.n_nodes
        return found


def drawing_of(network: Network) -> Drawing:
    """Place the nodes of a network: rows are 0, 1, ... from below, symbols about 1 apart."""
    graph = graph_of(links_of(network), IN_ROW if network.first_group.size == 2 else IN_ROWS)
    if graph.is_round:
        return Drawing(network, graph, CIRCLE * np.stack([graph.x - 0.5, 0.5 - graph.y], 1))
    _, row = np.unique(-np.round(graph.y, 6), return_inverse=True)
    return Drawing(network, graph, np.stack([graph.x * np.bincount(row).max(), row], 1))


def _line(
    here: NDArray[np.float64], there: NDArray[np.float64], taken: NDArray[np.float64]
) -> NDArray[np.float64]:
    low, high = sorted((here[0], there[0]))
    between = (taken[:, 1] == here[1]) & (low < taken[:, 0]) & (taken[:, 0] < high)
    if here[1] != there[1] or not between.any():
        return np.stack([here, there])
    share = np.linspace(0, 1, ARC_POINTS)[:, None]
    rise = min(0.4, 0.05 * abs(there[0] - here[0])) * 4 * share * (1 - share)
    arc: NDArray[np.float64] = here + share * (there - here) + rise * np.array([0.0, 1.0])
    return arc


def draw_networks(panels: Sequence[Panel]) -> Figure:
    """Draw networks side by side, with the matchings of circuits below."""
    from matplotlib.figure import Figure

    drawings = [drawing_of(panel.network) for panel in panels]
    with_circuits = any(panel.network.circuits is not None for panel in panels)
    columns = 2 if len(panels) == ABREAST + 1 else min(len(panels), ABREAST)
    rows = -(-len(panels) // columns)
    wanted = [min(WIDEST_IN, max(5.0, drawing.width * UNIT_IN + 2.6)) for drawing in drawings]
    widths = [max(wanted[column::columns]) for column in range(columns)]
    shrink = min(1.0, WIDEST_IN * 1.5 / sum(widths))
    ratios = [ROW_IN * max(drawing.rows for drawing in drawings) + 1.0]
    ratios += [1.9] if with_circuits else []
    size = (sum(widths) * shrink, sum(ratios) * rows)
    figure = Figure(figsize=size, layout="constrained")
    parts = figure.subfigures(rows, columns, squeeze=False, width_ratios=widths).ravel()
    for panel, drawing, part in zip(panels, drawings, parts, strict=False):
        grid = part.add_gridspec(len(ratios), 1, height_ratios=ratios)
        axes = part.add_subplot(grid[0, 0])
        draw_structure(axes, drawing)
        _draw_cables(axes, drawing)
        axes.set_title(panel.title, fontsize="medium")
        if panel.network.circuits is not None:
            draw_matchings(part, grid[1, 0], panel.network)
    return figure


def draw_structure(axes: Axes, drawing: Drawing) -> None:
    """Draw nodes and labels, but no cables."""
    graph, spots = drawing.graph, drawing.spots
    circuits = drawing.is_circuit(np.arange(len(graph.names)))
    size = min(90.0, 4000 / max(1, (~graph.is_host).sum())) if graph.is_round else 90.0
    look: dict[str, Any] = {"edgecolor": HOST, "zorder": 3}
    x, y = spots.T
    hosts, switches = graph.is_host, ~graph.is_host & ~circuits
    axes.scatter(x[hosts], y[hosts], s=14, color=HOST, zorder=3)
    axes.scatter(x[switches], y[switches], s=size, marker="s", facecolor=SWITCH, **look)
    axes.scatter(x[circuits], y[circuits], s=150, marker="D", facecolor=CIRCUIT, **look)
    low, high = spots[:, 0].min(), spots[:, 0].max()
    for height, text in _row_labels(drawing):
        place = low - 0.03 * (high - low) - 0.6, height
        axes.text(*place, text, ha="right", va="center", fontsize="small")
    names = _network_names(drawing)
    top = spots[:, 1].max()
    for place_x, name in names:
        axes.text(place_x, top + 0.35, name, ha="center", fontsize="small")
    axes.set_xlim(low - 0.06 * (high - low) - 1, high + 0.02 * (high - low) + 1)
    room = 0.08 * CIRCLE if graph.is_round else 0.5
    axes.set_ylim(spots[:, 1].min() - room, top + room + (0.25 if names else 0))
    axes.set_axis_off()
    if graph.is_round:
        axes.set_aspect("equal")


def _network_of(drawing: Drawing) -> NDArray[np.int64]:
    """Return the network of each drawn node above the hosts; -1 for others, and for all if there is
    one network."""
    network, graph, height = drawing.network, drawing.graph, drawing.spots[:, 1]
    found = np.full(len(graph.names), -1)
    if network.first_group.size > 2:
        switches = graph.group[network.n_hosts : network.n_nodes]
        found[switches[::-1]] = network.switch_network[::-1]
        found[height < height[graph.is_host].max()] = -1
    return found


def _network_names(drawing: Drawing) -> list[tuple[float, str]]:
    """Return place and name of a few networks side by side."""
    of, spots, network = _network_of(drawing), drawing.spots, drawing.network
    above = (of >= 0) & (spots[:, 1] == spots[:, 1].max())
    numbers = np.unique(of[above]).tolist()
    if not 1 < len(numbers) <= MAX_NAMED:
        return []
    found = []
    for number in numbers:
        switches = np.flatnonzero(network.switch_network == number).tolist()
        name = common_name([network.switch_names[k] for k in switches])
        found.append((float(spots[above & (of == number), 0].mean()), name))
    return found


def _row_labels(drawing: Drawing) -> list[tuple[float, str]]:
    """Return the height and text of each row's label, with counts of the whole network."""
    network, graph = drawing.network, drawing.graph
    real = network.port_node[physical_ports(network)]
    ports_of = np.bincount(real, minlength=network.n_nodes)
    stems = np.array([stem(name) for name in network.switch_names])
    host_ports = network.n_host_ports // network.n_hosts
    hosts = f"{network.n_hosts:,} hosts" + (f"\nof {host_ports} ports" if host_ports > 1 else "")
    if graph.is_round:
        sizes = np.unique(ports_of[network.n_hosts :])
        most = f" to {sizes[-1]:,}" if sizes.size > 1 else ""
        return [(0.0, f"{network.n_switches:,} switches\n{sizes[0]:,}{most} ports\n{hosts}")]
    texts = []
    row = drawing.spots[graph.group, 1]
    for height in np.unique(row).tolist():
        nodes = np.flatnonzero(row == height)
        switches = nodes[(nodes >= network.n_hosts) & (nodes < network.n_nodes)]
        parts = [hosts] if (nodes < network.n_hosts).any() else []
        for kind in dict.fromkeys(stems[switches - network.n_hosts].tolist()):
            these = switches[stems[switches - network.n_hosts] == kind]
            sizes = np.unique(ports_of[these])
            among = " or ".join(f"{n:,}" for n in sizes[:2].tolist())
            parts.append(f"{these.size:,} {kind}\n{among} ports" + " or more" * (sizes.size > 2))
        if n := int((nodes >= network.n_nodes).sum()):
            parts.append(f"{n:,} circuit switch{'es' * (n != 1)}")
        if (each := int(graph.members[graph.group[nodes]].max())) > 1:
            parts.append(f"a symbol: up to {each:,}")
        texts.append((height, "\n".join(parts[:3])))
    return texts


def _draw_cables(axes: Axes, drawing: Drawing) -> None:
    """Draw cables, the fastest the widest, colored by rate or by network."""
    from matplotlib.collections import LineCollection
    from matplotlib.lines import Line2D

    network, graph, points = drawing.network, drawing.graph, drawing.lines()
    rate = np.zeros(len(points), np.int64)
    line = graph.line_of[: network.n_ports] // 2
    np.maximum.at(rate, line[line >= 0], network.port_rate_bps[line >= 0])
    of = _network_of(drawing)
    block = np.searchsorted(np.unique(of[of >= 0]), of[graph.ends].max(axis=1))
    block[of[graph.ends].max(axis=1) < 0] = -1
    rates = sorted({int(one) for one in network.port_rate_bps}, reverse=True)
    handles = []
    for at, rate_bps in enumerate(rates):
        these = np.flatnonzero(rate == rate_bps)
        shade, blocks = style.color(at), network.first_group.size > 2
        colors = [
            shade if not blocks else style.color(block[k]) if block[k] >= 0 else OTHERS
            for k in these
        ]
        width = 1.6 - 0.9 * at / (len(rates) - 1) if len(rates) > 1 else 0.9
        options: dict[str, Any] = {"colors": colors, "linewidths": width}
        axes.add_collection(
            LineCollection([points[k] for k in these], alpha=0.75, zorder=1, **options)
        )
        label = f"{format_rate(rate_bps)}: {_cables_of(network, rate_bps):,}"
        handles.append(Line2D([], [], color=OTHERS if blocks else shade, lw=width, label=label))
    axes.legend(
        handles=handles, loc="upper center", bbox_to_anchor=(0.5, 0.03),
        ncols=min(4, len(handles)), frameon=False, fontsize="small", title_fontsize="small",
        title="cables" if network.circuits is None else "cables and fibers",
    )  # fmt: skip


def _cables_of(network: Network, rate_bps: int) -> int:
    """Return the number of cables and fibers of a rate."""
    these = network.port_rate_bps == rate_bps
    if network.circuits is None:
        return int(these.sum()) // 2
    plain = int((these & (network.circuits.fiber < 0)).sum()) // 2
    return plain + int((these & (network.circuits.fiber >= 0) & physical_ports(network)).sum())


Pairs = set[tuple[int, int]]

PORT, LIGHT = "#444444", "#C77700"
MAX_MATCHINGS = 6


class Circle(NamedTuple):
    """A matching of a circuit switch to draw, with a title."""

    switch: int
    title: str
    pairs: Pairs


def draw_matchings(figure: Figure | SubFigure, place: Any, network: Network) -> None:
    """Draw some matchings of a network (`_circles`) in `place`, a cell of the figure's grid."""
    circuits = network.circuits
    assert circuits is not None
    circles = _circles(network, circuits)
    grid = place.subgridspec(1, len(circles))
    for at, circle in enumerate(circles):
        ends = np.unique(circuits.fiber[circuits.of_port == circle.switch])
        angles = 2 * np.pi * np.arange(ends.size) / ends.size
        spots = np.stack([np.sin(angles), np.cos(angles)], axis=1)
        of_end = {int(end): spot for end, spot in zip(ends.tolist(), spots, strict=True)}
        width = min(1.2, 25 / ends.size)
        axes = figure.add_subplot(grid[0, at])
        axes.scatter(spots[:, 0], spots[:, 1], s=min(20.0, 200 / ends.size), color=PORT, zorder=2)
        for a, b in circle.pairs:
            if (b, a) not in circle.pairs:
                how = {"color": LIGHT, "linewidth": width, "arrowstyle": "->"}
                axes.annotate("", of_end[b], of_end[a], arrowprops=how, zorder=1)
            elif a < b:
                line = np.stack([of_end[a], of_end[b]])
                axes.plot(*line.T, color=LIGHT, linewidth=width, zorder=1)
        axes.set(aspect="equal", xlim=(-1.2, 1.2), ylim=(-1.2, 1.2))
        axes.set_axis_off()
        axes.set_title(circle.title, fontsize="small")


def _circles(network: Network, circuits: Circuits) -> list[Circle]:
    """Return the first matchings of the first switch, or if static, those of the first switches."""
    names = circuits.names
    found = matchings(network, 0)
    if len(found) > 1:
        circles = [
            Circle(
                0, f"slot {up_ps}" if circuits.follow else f"from {format_time(up_ps, 4)}", pairs
            )
            for up_ps, pairs in found
        ]
        circles[0] = circles[0]._replace(title=f"{names[0]} {circles[0].title}")
        count = len(found)
    else:
        some = [matchings(network, number)[0][1] for number in range(len(names[:MAX_MATCHINGS]))]
        circles = [Circle(n, f"{names[n]} always", pairs) for n, pairs in enumerate(some)]
        count = len(names)
    circles = circles[:MAX_MATCHINGS]
    if count > len(circles):
        more = f"{circles[-1].title}\nand {count - len(circles):,} more"
        circles[-1] = circles[-1]._replace(title=more)
    return circles


def matchings(network: Network, number: int) -> list[tuple[int, Pairs]]:
    """Return the start of each matching of a circuit switch, and its pairs of fibers (from, to).

    If circuits follow the workload, the start is a slot instead of a time.
    """
    assert network.circuits is not None
    circuits = network.circuits.with_unit_slots()
    ports = np.flatnonzero(circuits.of_port == number)
    if circuits.ever_up is not None:
        ports = ports[circuits.ever_up[ports]]
    calendar = circuits.calendar[ports]
    always = ports[calendar < 0]
    first = circuits.first_day
    period_ps = int(circuits.period_ps[calendar[calendar >= 0]].max(initial=1))
    days = {
        int(port): circuits.days_ps[slice(*first[c : c + 2])]
        for port, c in zip(ports, calendar, strict=True)
        if c >= 0
    }
    starts = sorted({int(up) % period_ps for these in days.values() for up in these[:, 0]})
    found = []
    for up_ps in starts or [0]:
        up = list(always)
        for port, these in days.items():
            times = (up_ps - these[:, 0]) % period_ps
            if (times < these[:, 1] - these[:, 0]).any():
                up.append(port)
        pairs = {(int(circuits.fiber[p]), int(circuits.fiber[network.port_peer[p]])) for p in up}
        found.append((up_ps, pairs))
    return found
