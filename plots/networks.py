"""Drawings of networks: hosts in a row, switches above them by tier, matchings of circuits below.

Planes and rails are side by side. Networks of a few neighboring hosts, such as a rack, are below
the hosts. Of many similar parts, the first ones and the last are drawn, with dots for the others. A
mesh of switches is a circle, with hosts outside. `links.py` draws results on these drawings.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np

from netsim.model.inventory import common_name, physical_ports, stem
from netsim.plots import style
from netsim.units import format_rate, format_time

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure

    from netsim.model.circuits import Circuits
    from netsim.model.network import Network

T = TypeVar("T")

ALL_HOSTS, ALL_SWITCHES, ALL_NETWORKS = 64, 16, 5
"""Hosts of a network, switches of a tier and networks that are all drawn."""

MAX_AROUND, RADIUS = 200, 8.0
"""Maximum number of switches on a circle, and its radius."""

ALL_ABREAST = 8
"""ALL_SWITCHES for networks side by side."""

HOST_GAP, GROUP_GAP, DOTS_GAP, BLOCK_GAP = 1.0, 0.9, 1.1, 2.2


@dataclass
class Drawing:
    """A network to draw.

    `x` and `y` are positions of the nodes in `hosts` and `switches`; `dots` mark omissions.
    `blocks` are networks side by side (name, left, right, top); `block_of` maps switches to them.
    `circuits` are positions of circuit switches by number.
    """

    hosts: list[int] = field(default_factory=list)
    switches: list[int] = field(default_factory=list)
    x: dict[int, float] = field(default_factory=dict)
    y: dict[int, float] = field(default_factory=dict)
    dots: list[tuple[float, float]] = field(default_factory=list)
    blocks: list[tuple[str, float, float, float]] = field(default_factory=list)
    block_of: dict[int, int] = field(default_factory=dict)
    circuits: dict[int, tuple[float, float]] = field(default_factory=dict)
    is_round: bool = False

    def place(self, node: int, x: float, y: float) -> None:
        """Place a node."""
        self.x[node], self.y[node] = x, y

    @property
    def rows(self) -> float:
        """Height in tiers."""
        return 5.0 if self.is_round else max(self.y.values()) + 2

    @property
    def width(self) -> float:
        """Distance from the leftmost to the rightmost node."""
        return max(self.x.values()) - min(self.x.values())


def few(items: Sequence[T], most: int, wanted: Collection[T] = ()) -> list[T]:
    """Return up to `most` (>= 2) items in order: both ends, then those wanted, then the first."""
    if len(items) <= most:
        return list(items)
    ranked = [items[0], items[-1], *(one for one in items if one in wanted), *items]
    chosen = set(list(dict.fromkeys(ranked))[:most])
    return [one for one in items if one in chosen]


def lay_out(network: Network, wanted: Collection[int] = ()) -> Drawing:
    """Choose and place nodes, preferring those `wanted`."""
    if _is_mesh(network):
        return _around(network)
    local, wide = _local_networks(network)
    groups = _host_groups(network, local, wide, wanted)
    drawing = Drawing(hosts=[host for group in groups for host in group])
    ports = np.flatnonzero(np.isin(network.port_node[: network.n_host_ports], drawing.hosts))
    seen = set(network.port_network[ports].tolist())
    sides = [number for number in wide if number in seen]
    marked = {
        int(network.switch_network[n - network.n_hosts]) for n in wanted if n >= network.n_hosts
    }
    shown = few(sides, len(sides) if len(sides) <= ALL_NETWORKS else 3, marked)
    tiers = {number: _tiers(network, number, ports, wanted) for number in shown}
    _place_hosts(network, drawing, groups, shown, tiers)
    _place_blocks(network, drawing, sides, shown, tiers)
    for number in local:
        for switch in _tiers(network, number, ports, wanted)[0] if number in seen else []:
            under = [drawing.x[host] for host in _hosts_of(network, switch) if host in drawing.x]
            drawing.place(switch, float(np.mean(under)), -1.0)
            drawing.switches.append(switch)
    _place_circuit_switches(network, drawing)
    return drawing


def _is_mesh(network: Network) -> bool:
    """Return whether it is one network of one tier with at least as many cables as switches."""
    between = (network.port_node >= network.n_hosts) & (
        network.port_node[network.port_peer] >= network.n_hosts
    )
    if network.circuits is not None:
        between &= network.circuits.of_port < 0
    one_tier = np.unique(network.tier[network.n_hosts :]).size == 1
    single = network.first_group.size == 2
    few_enough = 3 < network.n_switches <= MAX_AROUND
    return bool(single and one_tier and few_enough and between.sum() // 2 >= network.n_switches)


def _around(network: Network) -> Drawing:
    """Place all switches on a circle, and hosts outside unless there are too many."""
    drawing = Drawing(is_round=True)
    drawing.switches = list(range(network.n_hosts, network.n_nodes))
    step = 2 * np.pi / network.n_switches
    for at, switch in enumerate(drawing.switches):
        hosts = _hosts_of(network, switch) if network.n_hosts <= ALL_HOSTS else []
        drawing.place(switch, RADIUS * np.sin(at * step), RADIUS * np.cos(at * step))
        for host, turn in zip(hosts, _spread(len(hosts), (-0.5, 0.5)), strict=True):
            angle = (at + 0.8 * turn) * step
            drawing.place(host, 1.3 * RADIUS * np.sin(angle), 1.3 * RADIUS * np.cos(angle))
            drawing.hosts.append(host)
    return drawing


def _local_networks(network: Network) -> tuple[list[int], list[int]]:
    """Return networks of a few neighboring hosts, and the others (never empty)."""
    local: list[int] = []
    wide: list[int] = []
    for number in range(int(network.first_group.size) - 1):
        hosts = np.unique(network.port_node[np.flatnonzero(network.port_network == number)])
        together = int(hosts[-1] - hosts[0]) + 1 == hosts.size
        (local if together and hosts.size < network.n_hosts else wide).append(number)
    return (local, wide) if wide else ([], local)


def _host_groups(
    network: Network, local: list[int], wide: list[int], wanted: Collection[int]
) -> list[list[int]]:
    """Return the hosts to draw, grouped by rack or edge switch."""
    per_group = ALL_HOSTS if network.n_hosts <= ALL_HOSTS else 3
    ports = network.port_network
    if local:
        members = [
            np.unique(network.port_node[np.flatnonzero(ports == number)]).tolist()
            for number in local
        ]
        racks = few(range(len(local)), ALL_SWITCHES if network.n_hosts <= ALL_HOSTS else 3)
        return [few(members[rack], per_group, wanted) for rack in racks]
    edges = network.wiring().edges_of(wide[0]) + network.n_hosts
    pods: dict[frozenset[int], list[int]] = {}
    for edge in edges.tolist():
        pods.setdefault(frozenset(_above(network, edge)), []).append(edge)
    chosen = list(pods.values())
    if edges.size > (ALL_SWITCHES if len(wide) == 1 else ALL_ABREAST):
        marked = {tuple(pod) for pod in chosen if set(pod) & set(wanted)}
        kept = few([tuple(pod) for pod in chosen], 3, marked)
        chosen = [few(pod, 3 if len(kept) > 1 else 4, wanted) for pod in kept]
    return [few(_hosts_of(network, edge), per_group, wanted) for pod in chosen for edge in pod]


def _above(network: Network, node: int) -> list[int]:
    """Return the switches of higher tiers next to a node."""
    first, end = network.node_first_port[node : node + 2].tolist()
    peers = np.unique(network.port_node[network.port_peer[first:end]])
    return [int(peer) for peer in peers if network.tier[peer] > network.tier[node]]


def _hosts_of(network: Network, switch: int) -> list[int]:
    first, end = network.node_first_port[switch : switch + 2].tolist()
    peers = np.unique(network.port_node[network.port_peer[first:end]])
    return [int(peer) for peer in peers if peer < network.n_hosts]


def _tiers(
    network: Network, number: int, ports: np.ndarray, wanted: Collection[int]
) -> list[list[int]]:
    """Return the switches to draw by tier, from those of the hosts' `ports` up."""
    edges = network.port_node[network.port_peer[ports[network.port_network[ports] == number]]]
    level = list(dict.fromkeys(edges.tolist()))
    found, seen = [level], set(level)
    while level:
        below: dict[int, list[int]] = {}
        for node in level:
            for peer in _above(network, node):
                if peer not in seen:
                    below.setdefault(peer, []).append(node)
        groups: dict[tuple[int, ...], list[int]] = {}
        for peer, nodes in sorted(below.items()):
            groups.setdefault(tuple(nodes), []).append(peer)
        room = ALL_SWITCHES if network.first_group.size == 2 else ALL_ABREAST
        most = room if len(below) <= room else 4 if len(groups) == 1 else 2
        level = [one for these in groups.values() for one in few(these, most, wanted)]
        seen |= set(level)
        found += [level] if level else []
    if len(found) == 1:  # switches of that tier without hosts
        edges = set((network.wiring().edges_of(number) + network.n_hosts).tolist())
        lone = [one for one in _switches_of(network, number) if one not in edges]
        found[0] += few(lone, ALL_SWITCHES, wanted)
    return found


def _switches_of(network: Network, number: int) -> list[int]:
    switches: list[int] = (
        np.flatnonzero(network.switch_network == number) + network.n_hosts
    ).tolist()
    return switches


def _place_hosts(
    network: Network,
    drawing: Drawing,
    groups: list[list[int]],
    shown: list[int],
    tiers: dict[int, list[list[int]]],
) -> None:
    """Place the hosts in a row, as wide as the networks above need."""
    x, last = 0.0, -1
    for group in groups:
        if last >= 0:
            x += GROUP_GAP
            if group[0] != last + 1 and len(shown) <= 1 and network.n_hosts > ALL_HOSTS:
                drawing.dots.append((x - HOST_GAP / 2 + DOTS_GAP / 2, 0.0))
                x += DOTS_GAP
        for at, host in enumerate(group):
            if at and host != group[at - 1] + 1 and network.n_hosts > ALL_HOSTS:
                drawing.dots.append((x, 0.0))
                x += HOST_GAP
            drawing.place(host, x, 0.0)
            x += HOST_GAP
        last = group[-1]
    needed = sum(max(len(tier) for tier in tiers[number]) * 1.8 + BLOCK_GAP for number in shown)
    stretch = max(1.0, needed / max(drawing.width, 1.0)) if len(shown) > 1 else 1.0
    for host in drawing.hosts:
        drawing.x[host] *= stretch
    drawing.dots = [(at * stretch, y) for at, y in drawing.dots]


def _place_blocks(
    network: Network,
    drawing: Drawing,
    sides: list[int],
    shown: list[int],
    tiers: dict[int, list[list[int]]],
) -> None:
    """Place the switches of networks side by side above the hosts."""
    low, width = min(drawing.x.values()), max(drawing.width, 1.0)
    each = width / len(shown)
    for place, number in enumerate(shown):
        first, last = low + place * each, low + (place + 1) * each
        margin = BLOCK_GAP / 2 if len(shown) > 1 else 0.0
        rows = tiers[number]
        _place_edges(network, drawing, rows[0], (first + margin, last - margin), len(shown) == 1)
        for height, row in enumerate(rows[1:], 2):
            _place_above(network, drawing, row, float(height), (first + margin, last - margin))
        for height, row in enumerate(rows, 1):
            total = int((network.tier[_switches_of(network, number)] == network.tier[row[0]]).sum())
            if total > len(row):
                _add_dots(drawing, row, float(height))
            drawing.switches += row
        if len(sides) > 1:
            drawing.block_of |= {switch: len(drawing.blocks) for row in rows for switch in row}
            name = common_name([network.switch_names[n - network.n_hosts] for n in rows[0]])
            drawing.blocks.append((name, first + margin / 2, last - margin / 2, float(len(rows))))
        if place and sides.index(number) != sides.index(shown[place - 1]) + 1:
            drawing.dots.append((first, (1 + len(rows)) / 2))


def _place_edges(
    network: Network, drawing: Drawing, row: list[int], span: tuple[float, float], alone: bool
) -> None:
    """Place edge switches above their hosts, or evenly if there are several networks."""
    spread = _spread(len(row), span)
    for switch, at in zip(row, spread, strict=True):
        under = [drawing.x[host] for host in _hosts_of(network, switch) if host in drawing.x]
        drawing.place(switch, float(np.mean(under)) if alone and under else at, 1.0)


def _place_above(
    network: Network, drawing: Drawing, row: list[int], height: float, span: tuple[float, float]
) -> None:
    """Place switches of a higher tier above those next to them, merging overlaps."""
    reach: dict[tuple[float, float], list[int]] = {}
    for switch in row:
        first, end = network.node_first_port[switch : switch + 2].tolist()
        peers = network.port_node[network.port_peer[first:end]].tolist()
        under = [drawing.x[p] for p in peers if p in drawing.x and drawing.y[p] < height]
        key = (min(under), max(under)) if under else span
        reach.setdefault(key, []).append(switch)
    merged: list[tuple[float, float, list[int]]] = []
    for (low, high), these in sorted(reach.items()):
        if merged and low < merged[-1][1]:
            before = merged.pop()
            merged.append((before[0], max(before[1], high), before[2] + these))
        else:
            merged.append((low, high, list(these)))
    if len(merged) == 1:
        merged = [(*span, merged[0][2])]
    for low, high, these in merged:
        for switch, at in zip(sorted(these), _spread(len(these), (low, high)), strict=True):
            drawing.place(switch, at, height)


def _spread(count: int, span: tuple[float, float]) -> list[float]:
    """Return evenly spaced positions, half a step from either end."""
    step = (span[1] - span[0]) / max(count, 1)
    return [span[0] + (at + 0.5) * step for at in range(count)]


def _add_dots(drawing: Drawing, row: list[int], height: float) -> None:
    """Add dots where switches of a row are omitted."""
    ordered = sorted(row, key=lambda node: drawing.x[node])
    for one, other in pairwise(ordered):
        if other != one + 1:
            drawing.dots.append(((drawing.x[one] + drawing.x[other]) / 2, height))


def _place_circuit_switches(network: Network, drawing: Drawing) -> None:
    """Place circuit switches in a row above all others."""
    circuits = network.circuits
    if circuits is None:
        return
    numbers = few(range(len(circuits.names)), ALL_SWITCHES)
    low = min(drawing.x.values())
    places = _spread(len(numbers), (low, low + max(drawing.width, 1.0)))
    top = max(drawing.y.values()) + 1
    for number, at in zip(numbers, places, strict=True):
        drawing.circuits[number] = (at, top)


HOST, SWITCH, CIRCUIT = "#444444", "#F4F1EA", "#E69F00"
ROW_IN, UNIT_IN = 1.05, 0.17
"""Height of a tier and width per host, in inches."""
ARC_POINTS = 15
ABREAST, WIDEST_IN = 3, 14.0
"""Networks in a row of the figure; maximum width of one in inches."""
OUTSIDE_BLOCKS = "#777777"


class Panel(NamedTuple):
    """A network to draw, with its title."""

    title: str
    network: Network


def draw_networks(panels: Sequence[Panel]) -> Figure:
    """Draw networks side by side, with the matchings of circuits below."""
    from matplotlib.figure import Figure

    drawings = [lay_out(panel.network) for panel in panels]
    with_circuits = any(panel.network.circuits is not None for panel in panels)
    columns = 2 if len(panels) == ABREAST + 1 else min(len(panels), ABREAST)
    rows = -(-len(panels) // columns)
    wanted = [min(WIDEST_IN, max(5.0, drawing.width * UNIT_IN + 2.6)) for drawing in drawings]
    widths = [max(wanted[column::columns]) for column in range(columns)]
    shrink = min(1.0, WIDEST_IN * 1.5 / sum(widths))
    ratios = [
        ROW_IN * max(drawing.rows for drawing in drawings) + 1.0,
        *([1.9] if with_circuits else []),
    ]
    size = (sum(widths) * shrink, sum(ratios) * rows)
    figure = Figure(figsize=size, layout="constrained")
    parts = figure.subfigures(rows, columns, squeeze=False, width_ratios=widths).ravel()
    for panel, drawing, part in zip(panels, drawings, parts, strict=False):
        grid = part.add_gridspec(len(ratios), 1, height_ratios=ratios)
        axes = part.add_subplot(grid[0, 0])
        draw_structure(axes, panel.network, drawing)
        _draw_cables(axes, panel.network, drawing)
        axes.set_title(panel.title, fontsize="medium")
        if panel.network.circuits is not None:
            draw_matchings(part, grid[1, 0], panel.network)
    return figure


def draw_structure(axes: Axes, network: Network, drawing: Drawing) -> None:
    """Draw nodes, dots and labels, but no cables."""
    from matplotlib.patches import Rectangle

    low, high = min(drawing.x.values()), max(drawing.x.values())
    for name, first, last, top in drawing.blocks:
        frame = Rectangle((first, 0.55), last - first, top - 0.1, facecolor="#EEF3F8", zorder=0)
        axes.add_patch(frame)
        axes.text((first + last) / 2, top + 0.48, name, ha="center", fontsize="small")
    hosts = [(drawing.x[host], drawing.y[host]) for host in drawing.hosts]
    xs, ys = np.array(hosts).reshape(-1, 2).T
    axes.scatter(xs, ys, s=14, color=HOST, zorder=3)
    places = [(drawing.x[one], drawing.y[one]) for one in drawing.switches]
    size = min(90.0, 4000 / len(places)) if drawing.is_round else 90.0
    style_of: dict[str, Any] = {
        "s": size,
        "marker": "s",
        "facecolor": SWITCH,
        "edgecolor": HOST,
        "zorder": 3,
    }
    xs, ys = np.array(places).T
    axes.scatter(xs, ys, **style_of)
    for x, y in drawing.circuits.values():
        axes.scatter([x], [y], s=150, marker="D", facecolor=CIRCUIT, edgecolor=HOST, zorder=3)
    for x, y in drawing.dots:
        axes.text(x, y, "\u2026", ha="center", va="center", fontsize="large", zorder=4)
    for height, text in _row_labels(network, drawing):
        axes.text(
            low - 0.03 * (high - low) - 0.6, height, text, ha="right", va="center", fontsize="small"
        )
    axes.set_xlim(low - 0.06 * (high - low) - 1, high + 0.02 * (high - low) + 1)
    tops = [*drawing.y.values(), *(y for _, y in drawing.circuits.values())]
    axes.set_ylim(min(tops) - 0.5, max(tops) + (0.75 if drawing.blocks else 0.45))
    axes.set_axis_off()
    if drawing.is_round:
        axes.set_aspect("equal")


def _row_labels(network: Network, drawing: Drawing) -> list[tuple[float, str]]:
    """Return the height and text of each row's label, with counts of the whole network."""
    ports = network.n_host_ports // network.n_hosts
    real = network.port_node[physical_ports(network)]
    ports_of = np.bincount(real, minlength=network.n_nodes)[network.n_hosts :]
    host = f"{network.n_hosts:,} hosts"
    if drawing.is_round:
        sizes = np.unique(ports_of)
        most = f" to {sizes[-1]:,}" if sizes.size > 1 else ""
        switches = f"{network.n_switches:,} switches\n{sizes[0]:,}{most} ports"
        return [(0.0, f"{switches}\n{host}")]
    texts = [(0.0, host if ports == 1 else f"{host}\nof {ports} ports")]
    kinds: dict[float, dict[str, set[int]]] = {}
    for node in drawing.switches:
        name = stem(network.switch_names[node - network.n_hosts])
        at = kinds.setdefault(drawing.y[node], {}).setdefault(name, set())
        at.add(int(network.tier[node]))
    stems = np.array([stem(name) for name in network.switch_names])
    tier = network.tier[network.n_hosts :]
    for height, names in sorted(kinds.items()):
        parts = []
        for name, tiers in names.items():
            these = np.flatnonzero((stems == name) & np.isin(tier, list(tiers)))
            sizes = np.unique(ports_of[these])
            among = " or ".join(f"{n:,}" for n in sizes[:2].tolist())
            parts.append(f"{these.size:,} {name}\n{among} ports" + " or more" * (sizes.size > 2))
        texts.append((height, "\n".join(parts[:2])))
    if network.circuits is not None:
        height = next(iter(drawing.circuits.values()))[1]
        n = len(network.circuits.names)
        texts.append((height, f"{n:,} circuit switch{'es' * (n != 1)}"))
    return texts


Place = tuple[float, float]


class Wire(NamedTuple):
    """A line of a drawing: the ports at its first end, its points, its block (-1: none)."""

    ports: tuple[int, ...]
    points: tuple[Place, ...]
    block: int


def wires(network: Network, drawing: Drawing) -> list[Wire]:
    """Return a line for each pair of drawn nodes joined by cables, and for each fiber."""
    found: dict[tuple[int, int], list[int]] = {}
    circuits = network.circuits
    for node in drawing.x:
        first, end = network.node_first_port[node : node + 2].tolist()
        for port in range(first, end):
            peer = int(network.port_node[network.port_peer[port]])
            if circuits is not None and circuits.of_port[port] >= 0:
                found.setdefault((node, -1 - int(circuits.of_port[port])), []).append(port)
            elif node < peer:
                found.setdefault((node, peer), []).append(port)
    places = {node: (x, drawing.y[node]) for node, x in drawing.x.items()}
    taken = set() if drawing.is_round else set(places.values())
    drawn = []
    for (node, peer), ports in found.items():
        here = places[node]
        if peer in drawing.x:
            points = _line(here, places[peer], taken)
        elif -1 - peer in drawing.circuits:
            points = (here, drawing.circuits[-1 - peer])
        else:
            continue
        block = drawing.block_of.get(max(node, peer), -1)
        drawn.append(Wire(tuple(ports), points, block))
    return drawn


def _line(here: Place, there: Place, taken: set[Place]) -> tuple[Place, ...]:
    """Return a straight line, or an arc if nodes lie between its ends."""
    low, high = sorted((here[0], there[0]))
    between = any(y == here[1] and low < x < high for x, y in taken)
    if here[1] != there[1] or not between:
        return (here, there)
    share = np.linspace(0, 1, ARC_POINTS)
    rise = min(0.4, 0.05 * abs(there[0] - here[0]))
    xs = here[0] + share * (there[0] - here[0])
    ys = here[1] + rise * 4 * share * (1 - share)
    return tuple(zip(xs.tolist(), ys.tolist(), strict=True))


def _draw_cables(axes: Axes, network: Network, drawing: Drawing) -> None:
    """Draw cables, the fastest the widest, colored by rate or by network."""
    from matplotlib.collections import LineCollection
    from matplotlib.lines import Line2D

    drawn = wires(network, drawing)
    rates = sorted({int(rate) for rate in network.port_rate_bps}, reverse=True)
    handles = []
    for at, rate_bps in enumerate(rates):
        these = [one for one in drawn if int(network.port_rate_bps[one.ports[0]]) == rate_bps]
        by_block = bool(drawing.blocks)
        colors = [
            (style.color(one.block) if one.block >= 0 else OUTSIDE_BLOCKS)
            if by_block
            else style.color(at)
            for one in these
        ]
        width = 1.6 - 0.9 * at / (len(rates) - 1) if len(rates) > 1 else 0.9
        options: dict[str, Any] = {
            "colors": colors,
            "linewidths": width,
            "alpha": 0.75,
            "zorder": 1,
        }
        axes.add_collection(LineCollection([one.points for one in these], **options))
        label = f"{format_rate(rate_bps)}: {_cables_of(network, rate_bps):,}"
        shade = OUTSIDE_BLOCKS if by_block else style.color(at)
        handles.append(Line2D([], [], color=shade, linewidth=width, label=label))
    axes.legend(
        handles=handles,
        loc="upper center",
        bbox_to_anchor=(0.5, 0.03),
        ncols=min(4, len(handles)),
        frameon=False,
        fontsize="small",
        title="cables" if network.circuits is None else "cables and fibers",
        title_fontsize="small",
    )


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
