"""Where the nodes of a network stand in its drawing, and which of them are drawn.

Hosts stand in a row, switches above them tier by tier, and networks side by side: planes and rails.
Networks of a few neighboring hosts, such as a rack's own, stand below the hosts. Where there are
many of a kind, the first ones and the last one are drawn, and dots for the others. Switches of one
tier that are joined to each other stand around a circle, with few hosts outside of it.
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
"""So many in a network, in a tier, and side by side are all drawn; of more only some."""

MAX_AROUND, RADIUS = 200, 8.0
"""Switches on a circle, and its size."""

ALL_ABREAST = 8
"""In place of ALL_SWITCHES where networks stand side by side."""

HOST_GAP, GROUP_GAP, DOTS_GAP, BLOCK_GAP = 1.0, 0.9, 1.1, 2.2


@dataclass
class Drawing:
    """A network to be drawn.

    `x`, `y` are by node; of the nodes in `hosts` and `switches` only. `dots` are places where
    something is left out. `blocks` are networks side by side: name, from x, to x, top; `block_of`
    says in which of them a switch is. `circuits` are places of circuit switches by number.
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
        """Put a node somewhere."""
        self.x[node], self.y[node] = x, y

    @property
    def rows(self) -> float:
        """How high it is, in tiers."""
        return 5.0 if self.is_round else max(self.y.values()) + 2

    @property
    def width(self) -> float:
        """From the leftmost to the rightmost node."""
        return max(self.x.values()) - min(self.x.values())


def few(items: Sequence[T], most: int, wanted: Collection[T] = ()) -> list[T]:
    """At most `most` (at least 2) of some items, in order: both ends, those wanted, the first."""
    if len(items) <= most:
        return list(items)
    ranked = [items[0], items[-1], *(one for one in items if one in wanted), *items]
    chosen = set(list(dict.fromkeys(ranked))[:most])
    return [one for one in items if one in chosen]


def lay_out(network: Network, wanted: Collection[int] = ()) -> Drawing:
    """Choose and place nodes; of many alike rather those that are `wanted`."""
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
    """Is it one network of a single tier, with as many cables between its switches as switches?"""
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
    """All switches around a circle, and the hosts outside, if they are not too many."""
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
    """Networks of some neighboring hosts, and all others; all are the others if none would be."""
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
    """The hosts to be drawn, those of a rack or of an edge switch together."""
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
    """Switches of higher tiers that a node has cables to."""
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
    """The switches of a network that are drawn, from those of the hosts' `ports` upwards."""
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
    if len(found) == 1:  # switches without hosts that stand beside those with some
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
    """The row of hosts, as wide as the networks above them need."""
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
    """The switches of networks side by side, above the hosts."""
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
    """Edge switches: above their hosts if there is one network, else evenly spread."""
    spread = _spread(len(row), span)
    for switch, at in zip(row, spread, strict=True):
        under = [drawing.x[host] for host in _hosts_of(network, switch) if host in drawing.x]
        drawing.place(switch, float(np.mean(under)) if alone and under else at, 1.0)


def _place_above(
    network: Network, drawing: Drawing, row: list[int], height: float, span: tuple[float, float]
) -> None:
    """Switches of a higher tier: over those that they lead to, all together where these overlap."""
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
    """Even places in a span, with half a step of room at either end."""
    step = (span[1] - span[0]) / max(count, 1)
    return [span[0] + (at + 0.5) * step for at in range(count)]


def _add_dots(drawing: Drawing, row: list[int], height: float) -> None:
    """Dots where the numbers of a row's switches leap."""
    ordered = sorted(row, key=lambda node: drawing.x[node])
    for one, other in pairwise(ordered):
        if other != one + 1:
            drawing.dots.append(((drawing.x[one] + drawing.x[other]) / 2, height))


def _place_circuit_switches(network: Network, drawing: Drawing) -> None:
    """Circuit switches, a row above all others."""
    circuits = network.circuits
    if circuits is None:
        return
    numbers = few(range(len(circuits.names)), ALL_SWITCHES)
    low = min(drawing.x.values())
    places = _spread(len(numbers), (low, low + max(drawing.width, 1.0)))
    top = max(drawing.y.values()) + 1
    for number, at in zip(numbers, places, strict=True):
        drawing.circuits[number] = (at, top)
