"""Drawings of networks, and of the matchings of circuits below.

Plots and the report place nodes the same way, from the links alone: hosts are below, switches above
them by their distance from hosts, and switches of networks inside racks below the hosts. Hosts of
the same switches are drawn as one, as are neighbors in long rows, so planes and rails are side by
side. Switches of a mesh are on a circle, hosts around it. `links.py` draws results on them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from netsim.common.documents import DAMAGED
from netsim.errors import InputError
from netsim.frozen import frozen
from netsim.model.columns import Flags, Floats, Ints
from netsim.model.inventory import common_name, physical_ports, stem
from netsim.plots import style
from netsim.results.files import LINKS
from netsim.units import format_rate, format_time

if TYPE_CHECKING:
    import polars as pl
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure

    from netsim.model.circuits import Circuits
    from netsim.model.network import Network


ALL_HOSTS, MAX_IN_ROW, MAX_LINES = 64, 200, 20_000
"""Hosts drawn one by one; nodes drawn in a row; lines drawn."""


@frozen
class Links:
    """The links of a network."""

    # names, is_host: of the nodes
    names: list[str]
    is_host: Flags
    number: Ints  # int64[links], increasing
    # start, end: int64[links], nodes
    start: Ints
    end: Ints
    # names of the ends of each link, if they say more than node names
    texts: tuple[list[str], list[str]] = field(default_factory=lambda: ([], []))
    n_above: int = 0  # number of nodes, at the end, in a row above all others


@frozen
class Graph:
    """A drawing of the network."""

    # names, x, y: of the drawn nodes; x and y are between 0 and 1, hosts at the largest y
    names: list[str]
    x: Floats
    y: Floats
    members: Ints  # number of nodes that each stands for
    group: Ints  # int64[nodes], the drawn node that stands for each
    is_host: Flags  # whether it stands for hosts
    is_round: bool  # whether it is a circle
    ends: Ints  # int64[lines, 2], the nodes of each line
    # int64[links], the half of a line that each link is: 2 * line, + 1 for links from its second
    # end; -1 if it is inside a drawn node
    line_of: Ints
    link_names: list[str]  # "leaf0 -> spine3" by link

    def per_half(self, values: Floats, how: str = "max") -> Floats:
        """Return the largest (or the sum) of a link's value on each half of a line."""
        found = np.zeros(2 * len(self.ends))
        shown = self.line_of >= 0
        (np.maximum if how == "max" else np.add).at(found, self.line_of[shown], values[shown])
        return found


def per_link(links: pl.DataFrame, column: str) -> Floats:
    """Return the sum of a column over the classes of each link."""
    index = links["link"].to_numpy()
    values = links[column].fill_null(0).to_numpy().astype(float)
    found: Floats = np.bincount(index, values, int(index.max(initial=-1)) + 1).astype(float)
    return found


def failed_links(faults: pl.DataFrame | None) -> Ints:
    """Return the numbers of the links that faults of a result name."""
    if faults is None:
        return np.zeros(0, np.int64)
    links = faults.filter(faults["event"] != "reroute")["link"].drop_nulls()
    return np.unique(links.to_numpy()).astype(np.int64)


def links_of_table(links: pl.DataFrame) -> Links:
    """Return the links of a result's table: nothing is built and no plugin runs. Raises InputError
    for numbers of links or nodes that no network of this size has."""
    import polars as pl

    _check(links)
    one = links.unique("link", keep="first", maintain_order=True).sort("link")
    start, end = one["from_node"].to_numpy(), one["to_node"].to_numpy()
    n = int(max(start.max(initial=0), end.max(initial=0))) + 1
    texts = [one[f"{which}_name"].cast(pl.String).to_list() for which in ("from", "to")]
    names, hosts = _nodes(n, start, texts[0])
    return Links(names, hosts, one["link"].to_numpy(), start, end, (texts[0], texts[1]))


def links_of(network: Network) -> Links:
    """Return the links of a network. A link over a circuit becomes two, to and from the circuit
    switch; their numbers are the port's and the port's plus the number of ports."""
    n, ports = network.n_nodes, np.arange(network.n_ports)
    names = [network.node_name(node) for node in range(n)]
    start = network.port_node.astype(np.int64)
    end = start[network.port_peer]
    if network.circuits is not None:
        over = network.circuits.of_port.astype(np.int64)
        names += [str(name) for name in network.circuits.names]
        by = np.flatnonzero(over >= 0)
        start, end, ports = (
            np.concatenate(pair)
            for pair in (
                (start, n + over[by]),
                (np.where(over >= 0, n + over, end), end[by]),
                (ports, network.n_ports + by),
            )
        )
    is_host = np.arange(len(names)) < network.n_hosts
    return Links(names, is_host, ports, start, end, n_above=len(names) - n)


def graph_of(links: Links, in_row: int = MAX_IN_ROW) -> Graph:
    """Return the drawing of a network with at most `in_row` switches in a row (of a circle: 200)
    and as many hosts, or ALL_HOSTS."""
    names, start, end = links.names, links.start, links.end
    tier = _tiers(len(names), start, end, links.is_host)
    tier[len(names) - links.n_above :] = tier.max() + 1
    switches = (tier > 0).sum()
    is_meshed = bool((tier[start] == tier[end]).any()) and switches == (tier == 1).sum()
    is_round = is_meshed and switches > 3
    group = _host_groups(len(names), start, end, links.is_host)
    group = _few(group, tier, names, MAX_IN_ROW if is_round else in_row)
    kept, group = np.unique(group, return_inverse=True)
    drawn_tier = tier[kept]
    members = np.bincount(group)
    titles = [_title(names, np.flatnonzero(group == g)) for g in range(len(kept))]
    x, y = (_circle if is_round else _rows)(start, end, group, drawn_tier, titles)
    ends, line_of = _lines(group[start], group[end])
    all_links = np.full(int(links.number.max(initial=-1)) + 1, -1)
    all_links[links.number] = line_of
    named = [""] * len(all_links)
    for link, a, b in zip(links.number.tolist(), *links.texts, strict=False):
        named[link] = f"{a} → {b}"
    is_host = drawn_tier == 0
    return Graph(titles, x, y, members, group, is_host, is_round, ends, all_links, named)


def _check(links: pl.DataFrame) -> None:
    """Raise InputError for numbers of links or nodes that no network of this size has."""
    for column, most in (
        ("link", len(links)),
        ("from_node", 2 * len(links)),
        ("to_node", 2 * len(links)),
    ):
        known = links[column].null_count() == 0 and links[column].dtype.is_integer()
        if not known or not links[column].is_between(0, most - 1).all():
            raise InputError("out of range", file=LINKS, key=column, hint=DAMAGED)


def _nodes(n: int, start: Ints, texts: list[str]) -> tuple[list[str], Flags]:
    """Return the name of each node, and which are hosts (named after their number)."""
    names = [f"node {k}" for k in range(n)]
    hosts = np.zeros(n, bool)
    for node, text in zip(start.tolist(), texts, strict=True):
        plain = text.partition(":")[0]
        hosts[node] = plain == f"h{node}"
        names[node] = plain if hosts[node] else text
    return names, hosts


def _tiers(n: int, start: Ints, end: Ints, hosts: Flags) -> Ints:
    """Return the distance of each node from the hosts; -1 for switches next to hosts with no switch
    above, if other switches have one (networks inside racks)."""
    tier = np.where(hosts, 0, n)
    while True:
        nearest = np.full(n, n)
        np.minimum.at(nearest, end, tier[start] + 1)
        closer = nearest < tier
        if not closer.any():
            break
        tier[closer] = nearest[closer]
    tier[tier == n] = 1
    above = np.zeros(n, bool)
    np.logical_or.at(above, start, (tier[end] > tier[start]) & (tier[start] > 0))
    first = tier == 1
    if (first & above).any() and (first & ~above).any():
        tier[first & ~above] = -1
    return tier


def _host_groups(n: int, start: Ints, end: Ints, hosts: Flags) -> Ints:
    """Return the first node of each node's group: hosts of the same switches are one group."""
    group = np.arange(n)
    if hosts.sum() <= ALL_HOSTS:
        return group
    order = np.lexsort((end, start))
    first: dict[tuple[int, ...], int] = {}
    bounds = np.searchsorted(start[order], np.arange(n + 1))
    for host in np.flatnonzero(hosts).tolist():
        key = tuple(end[order[bounds[host] : bounds[host + 1]]].tolist())
        group[host] = first.setdefault(key, host)
    return group


def _few(group: Ints, tier: Ints, names: list[str], in_row: int) -> Ints:
    """Join neighbors in rows with too many nodes."""
    for row in np.unique(tier).tolist():
        heads = sorted(np.unique(group[tier == row]).tolist(), key=lambda k: natural(names[k]))
        most = in_row if row else max(in_row, ALL_HOSTS)
        if len(heads) > most:
            each = -(-len(heads) // most)
            joined = {head: heads[k // each * each] for k, head in enumerate(heads)}
            its = tier == row
            group[its] = [joined[head] for head in group[its].tolist()]
    return group


def natural(name: str) -> list[Any]:
    """Return a key that sorts leaf2 before leaf10."""
    return [(0, int(part[:18]), "") if part.isdecimal() else (1, 0, part)
            for part in re.split(r"(\d+)", name)]  # fmt: skip


def _title(names: list[str], nodes: Ints) -> str:
    if len(nodes) == 1:
        return str(names[nodes[0]])
    return f"{names[nodes[0]]} to {names[nodes[-1]]} ({len(nodes):,})"


def _lines(a: Ints, b: Ints) -> tuple[Ints, Ints]:
    """Return the lines between drawn nodes, and the half of a line that each link is."""
    low, high = np.minimum(a, b), np.maximum(a, b)
    outside = low != high
    pairs, line = np.unique(np.stack([low, high], 1)[outside], axis=0, return_inverse=True)
    half = np.full(len(a), -1)
    half[outside] = 2 * line.ravel() + (a > b)[outside]
    half[half >= 2 * MAX_LINES] = -1
    return pairs[:MAX_LINES], half


def _rows(
    start: Ints, end: Ints, group: Ints, tier: Ints, names: list[str]
) -> tuple[Floats, Floats]:
    """Return x and y of the drawn nodes in rows, between 0 and 1."""
    n = len(tier)
    x, y = np.zeros(n), np.zeros(n)
    rows = np.unique(tier).tolist()
    above = _neighbor(start, end, group, tier)
    for height, row in enumerate(rows):
        its = np.flatnonzero(tier == row).tolist()
        if row == 0:  # below their switches
            its.sort(key=lambda k: (natural(names[above[k]]) if above[k] >= 0 else [], k))
        else:
            its.sort(key=lambda k: natural(names[k]))
        x[its] = (np.arange(len(its)) + 0.5) / len(its)
        y[its] = 0.95 - 0.9 * (height + 0.5 * (len(rows) == 1)) / max(len(rows) - 1, 1)
    return x, y


def _neighbor(start: Ints, end: Ints, group: Ints, tier: Ints) -> Ints:
    """Return a switch of tier 1 next to each drawn node, -1 without one."""
    found = np.full(len(tier), -1)
    a, b = group[start], group[end]
    upward = tier[b] == 1
    found[a[upward]] = b[upward]
    return found


def _circle(
    start: Ints, end: Ints, group: Ints, tier: Ints, names: list[str]
) -> tuple[Floats, Floats]:
    """Place switches on a circle and hosts outside."""
    switches = sorted(np.flatnonzero(tier != 0).tolist(), key=lambda k: natural(names[k]))
    angle = np.zeros(len(tier))
    angle[switches] = 2 * np.pi * np.arange(len(switches)) / len(switches)
    above = _neighbor(start, end, group, tier)
    hosts = np.flatnonzero(tier == 0)
    step = 2 * np.pi / len(switches)
    of: dict[int, list[int]] = {}
    for host in hosts.tolist():
        of.setdefault(int(above[host]), []).append(host)
    for switch, its in of.items():
        spread = (np.arange(len(its)) - (len(its) - 1) / 2) / max(len(its), 1)
        angle[its] = angle[switch] + 0.8 * step * spread
    radius = np.where(tier == 0, 0.48, 0.4)
    return 0.5 + radius * np.sin(angle), 0.5 - radius * np.cos(angle)


IN_ROW, IN_ROWS = 16, 32  # switches in a row of one network, and of several; more share a symbol

HOST, SWITCH, CIRCUIT = "#444444", "#F4F1EA", style.ORANGE
ROW_IN, UNIT_IN = 1.05, 0.28  # height of a tier and width of a symbol, in inches
MARGIN = 1.5  # room beside the symbols, in symbols
CIRCLE = 16.0  # diameter of a circle, in symbols

ARC_POINTS = 15
ABREAST, WIDEST_IN = 3, 14.0  # networks in a row of the figure; maximum width of one in inches

OTHERS, MAX_NAMED = "#777777", 8
"""Color of cables that belong to none of several networks, and maximum number of named networks."""


class Panel(NamedTuple):
    """A network to draw, with its title."""

    title: str
    network: Network


class Drawing(NamedTuple):
    """A network, its simplified graph, and float64[nodes, 2], the places of its nodes."""

    network: Network
    graph: Graph
    spots: Floats

    @property
    def width(self) -> float:
        return float(np.ptp(self.spots[:, 0]))

    @property
    def rows(self) -> float:
        """Height in tiers."""
        return 5.0 if self.graph.is_round else float(self.spots[:, 1].max()) + 1

    def lines(self) -> list[Floats]:
        """Return the points of each line of the graph: an arc if nodes lie between its ends."""
        taken = np.zeros((0, 2)) if self.graph.is_round else self.spots
        return [_line(self.spots[a], self.spots[b], taken) for a, b in self.graph.ends]

    def is_circuit(self, node: Ints) -> Flags:
        """Return whether drawn nodes represent circuit switches."""
        first = np.full(len(self.graph.names), len(self.graph.group))
        np.minimum.at(first, self.graph.group, np.arange(len(self.graph.group)))
        found: Flags = first[node] >= self.network.n_nodes
        return found


def drawing_of(network: Network) -> Drawing:
    """Place the nodes of a network: rows are 0, 1, ... from below, symbols about 1 apart."""
    graph = graph_of(links_of(network), IN_ROW if network.first_group.size == 2 else IN_ROWS)
    if graph.is_round:
        return Drawing(network, graph, CIRCLE * np.stack([graph.x - 0.5, 0.5 - graph.y], 1))
    _, row = np.unique(-np.round(graph.y, 6), return_inverse=True)
    return Drawing(network, graph, np.stack([graph.x * np.bincount(row).max(), row], 1))


def _line(here: Floats, there: Floats, taken: Floats) -> Floats:
    low, high = sorted((here[0], there[0]))
    between = (taken[:, 1] == here[1]) & (low < taken[:, 0]) & (taken[:, 0] < high)
    if here[1] != there[1] or not between.any():
        return np.stack([here, there])
    share = np.linspace(0, 1, ARC_POINTS)[:, None]
    rise = min(0.4, 0.05 * abs(there[0] - here[0])) * 4 * share * (1 - share)
    arc: Floats = here + share * (there - here) + rise * np.array([0.0, 1.0])
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


def _network_of(drawing: Drawing) -> Ints:
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
    """Return the first matchings of the first switch, or if static, of the first switches."""
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
    """Return the start of each matching of a circuit switch, and its pairs of fibers (from, to). If
    circuits follow the workload, the start is a slot instead of a time."""
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
