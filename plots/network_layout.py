"""Layout of a network's drawing: which nodes are drawn, and where.

Hosts are in a row, switches above them by tier, planes and rails side by side. Networks of a few
neighboring hosts, such as a rack, are below the hosts. Of many similar parts, the first ones and
the last are drawn, with dots for the others. A mesh of switches is a circle, with hosts outside.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TypeVar

import numpy as np

from netsim.inventory.inventory import common_name
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
