"""Paths of a network: duty cycles of circuits, diversity, bisection, loads of links, failures.

Paths between hosts follow the routes of the network. The bisection is the rate at which
low-numbered hosts can send to the others. A maximum flow can be spread evenly over links between
equivalent nodes, so it is computed between colors (`refine_colors`) and exact. A regular network of
any size has a handful of colors; one without symmetry has one per node.

For loads, each switch divides its traffic evenly over the candidates of its routing table, like
spraying, or hashing of many flows. If the most loaded link carries L times its rate when each host
sends at its own, throughput saturates at 1 / L of the hosts' rate: Dally and Towles, "Principles
and Practices of Interconnection Networks", section 3.3.1.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import product
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from netsim.frozen import frozen
from netsim.model.circuits import END_PS, Circuits, pairs_by_circuits
from netsim.model.columns import Flags, Floats, Ints, offsets, rows_of
from netsim.model.faults import cut_off, never_joined
from netsim.model.network import Network
from netsim.model.patterns import Destinations, uniform
from netsim.model.port_pairs import PortPairs
from netsim.model.routing import COUNT_BITS, COUNT_MASK, NO_ROUTE, RoutingTable
from netsim.model.routing_policy import TimeSlotRouting


@frozen
class CircuitRow:
    """Equal circuit switches."""

    names: tuple[str, str]  # names of the first and the last
    count: int  # number of switches
    ports: int  # fibers per switch
    rate_bps: int  # rate of a fiber
    matchings: int  # matchings per period; 1 if it never changes
    period_ps: int  # period of the schedule; 0 if it never changes
    phase_driven: bool  # whether it follows the phases of flows; there is then no period
    night_ps: int  # how long a reconfigured port is down
    duty: float  # average fraction of time that a port has a circuit


def up_shares(circuits: Circuits) -> NDArray[np.float64]:
    """Return float64[n_ports], the fraction of time that a port's circuit is up; 1 for other
    cables.

    For schedules that do not repeat, the last slot counts, since it stays; for phase-driven ones,
    all slots count equally.
    """
    circuits = circuits.with_unit_slots()
    day_ps = np.diff(circuits.days_ps, axis=1).reshape(-1)
    of_day = np.repeat(np.arange(circuits.period_ps.size), np.diff(circuits.first_day))
    up_ps = np.bincount(of_day, day_ps, circuits.period_ps.size)
    share = up_ps / circuits.period_ps
    ends_ps = circuits.days_ps[circuits.first_day[1:] - 1, 1]
    share = np.where(circuits.period_ps >= END_PS, ends_ps >= END_PS, share)
    shares = np.ones(circuits.calendar.size)
    dated = circuits.calendar >= 0
    shares[dated] = share[circuits.calendar[dated]]
    return shares


def circuit_switches(network: Network) -> tuple[CircuitRow, ...]:
    """Return a row for each kind of circuit switch of a network."""
    circuits = network.circuits
    if circuits is None:
        return ()
    shares, phase_schedule = up_shares(circuits), circuits.phase_schedule
    circuits = circuits.with_unit_slots()
    rows: dict[CircuitRow, list[CircuitRow]] = {}
    for number, name in enumerate(circuits.names):
        ports = np.flatnonzero(circuits.of_port == number)
        n_fibers = np.unique(circuits.fiber[ports]).size
        calendars = np.unique(circuits.calendar[ports])
        calendars = calendars[calendars >= 0]
        calendars = calendars[circuits.ever[calendars]]
        days = [np.arange(*circuits.first_day[one : one + 2]) for one in calendars.tolist()]
        here = np.concatenate([np.zeros(0, np.int64), *days])
        starts = circuits.days_ps[here, 0]
        period_ps = int(circuits.period_ps[calendars].max(initial=0))
        row = CircuitRow(
            names=(name, name),
            count=1,
            ports=n_fibers,
            rate_bps=int(network.port_rate_bps[ports].max(initial=0)),
            matchings=max(1, np.unique(starts % max(period_ps, 1)).size),
            period_ps=0 if period_ps >= END_PS else period_ps,
            phase_driven=phase_schedule is not None
            and bool((phase_schedule.slots[here, 0] >= 0).any()),
            night_ps=int(circuits.night_ps[number]),
            duty=float(shares[ports].sum() / max(n_fibers, 1)),
        )
        alike = replace(row, names=("", ""), duty=round(row.duty, 9))
        rows.setdefault(alike, []).append(row)
    return tuple(
        replace(these[0], names=(these[0].names[0], these[-1].names[0]), count=len(these))
        for these in rows.values()
    )


# --- path diversity -------------------------------------------------------------------------------

MAX_STEPS = 3_000_000  # most candidate ports; beyond, only paths to some edge switches are counted
BLOCK_STEPS = 4_000_000  # candidate ports whose loads are computed at once


class Distance(NamedTuple):
    """Pairs of hosts that are `links` apart: their share of all pairs, fewest and most paths. `by`
    names the routing table if the network has several."""

    links: int
    share: float
    fewest: float
    most: float
    by: str = ""


class PathCounts(NamedTuple):
    """Paths from each switch of a network to some of its edge switches.

    `groups` are their numbers in the network, `hops` (int64[switches, groups]) the links between
    switches, -1 without a path, and `paths` (float64, likewise) the number of paths.
    """

    groups: Ints
    hops: Ints
    paths: Floats


def path_counts(network: Network, number: int, table_number: int = 0) -> PathCounts:
    """Return a network's paths in one routing table, to as many edge switches as `MAX_STEPS`
    allows."""
    n_groups = int(np.diff(network.first_group)[number])
    switches = np.flatnonzero(network.switch_network == number)
    first = network.route_first[switches] + table_number * n_groups
    before = offsets(_counts(network.route))
    steps = int((before[first + n_groups] - before[first]).sum())
    n_chosen = min(n_groups, max(1, n_groups * MAX_STEPS // max(steps, 1)))
    groups = np.unique(np.linspace(0, n_groups - 1, n_chosen).round().astype(np.int64))
    return reach_by(network, number, network.table, groups, table_number)


def reach_by(
    network: Network, number: int, table: RoutingTable, groups: Ints, table_number: int = 0
) -> PathCounts:
    """Return the paths of a network to some edge switches, by the routes of one routing table."""
    switches = np.flatnonzero(network.switch_network == number)
    places = table_number * np.diff(network.first_group)[number] + groups
    first = table.row_first(network.wiring())[switches]
    entries = table.route[first[:, None] + places].reshape(-1)
    return PathCounts(groups, *_walk(network, switches, entries, table.route_ports))


def _counts(entries: Ints) -> Ints:
    return np.where(entries == NO_ROUTE, 0, entries & COUNT_MASK)


class Steps(NamedTuple):
    """The candidate ports of table entries; entry i has the ports from `begin[i]` on.

    `pairs` are the entries that have any, `ports` their global ports, and `onward` the entries
    toward the same group at the other end. Entries count switch by switch, group by group.
    """

    pairs: Ints
    counts: Ints
    begin: Ints
    ports: Ints
    onward: Ints


def steps_of(
    network: Network, switches: Ints, entries: Ints, route_ports: NDArray[np.int32]
) -> Steps:
    """Return the candidates of all entries of some switches, int64[switches * groups]."""
    n_groups = entries.size // switches.size
    place = np.zeros(network.n_switches, np.int64)
    place[switches] = np.arange(switches.size)
    counts = _counts(entries)
    pairs = np.flatnonzero(counts > 0)
    count = counts[pairs]
    begin = np.cumsum(count) - count
    local = route_ports[rows_of(entries[pairs] >> COUNT_BITS, count)]
    own_first = network.node_first_port[switches[pairs // n_groups] + network.n_hosts]
    ports = np.repeat(own_first, count) + local
    onward = place[network.next_switch(ports)] * n_groups + np.repeat(pairs % n_groups, count)
    return Steps(pairs, count, begin, ports, onward)


def _walk(
    network: Network, switches: Ints, entries: Ints, route_ports: NDArray[np.int32]
) -> tuple[Ints, Floats]:
    """Return hops and paths of each table entry, computed backward from the destinations."""
    steps = steps_of(network, switches, entries, route_ports)
    hops = np.where((_counts(entries) == 0) & (entries != NO_ROUTE), 0, -1)
    paths = np.where(hops == 0, 1.0, 0.0)
    while steps.pairs.size:
        onward = hops[steps.onward] >= 0
        ready = np.logical_and.reduceat(onward, steps.begin) & (hops[steps.pairs] < 0)
        if not ready.any():
            break
        done = steps.pairs[ready]
        hops[done] = np.maximum.reduceat(hops[steps.onward], steps.begin)[ready] + 1
        paths[done] = np.add.reduceat(paths[steps.onward], steps.begin)[ready]
    shape = (switches.size, entries.size // switches.size)
    return hops.reshape(shape), paths.reshape(shape)


def path_diversity(
    network: Network, number: int, found: PathCounts, by: str = ""
) -> tuple[Distance, ...]:
    """Return all pairs of hosts of a network (to the edge switches of `found`) by distance."""
    edges = network.wiring().edges_of(number)
    switches = np.flatnonzero(network.switch_network == number)
    rows = np.searchsorted(switches, edges)
    ports = np.flatnonzero(network.port_network == number)
    hosts = np.bincount(network.port_group[ports], minlength=edges.size).astype(float)
    pairs = hosts[:, None] * hosts[found.groups]
    pairs[found.groups, np.arange(found.groups.size)] -= hosts[found.groups]
    hops, paths = found.hops[rows], found.paths[rows]
    there = (pairs > 0) & (hops >= 0)
    total = float(pairs.sum())
    rows_found = []
    for n in np.unique(hops[there]).tolist():
        these = there & (hops == n)
        some = paths[these]
        share = float(pairs[these].sum()) / total
        rows_found.append(Distance(n + 2, share, float(some.min()), float(some.max()), by))
    return tuple(rows_found)


@frozen
class SlotPaths:
    """Path lengths between edge switches, in links, in a time-slotted routing table."""

    by: str  # name of the table
    slots: int  # number of slots
    # shortest, longest: minimum and maximum over slots of the longest path
    shortest: int
    longest: int
    mean: float  # mean of all pairs in all slots


def slot_paths(network: Network, number: int) -> SlotPaths | None:
    """Return the path lengths of a network by its number; None without time slots."""
    slots, policy = network.time_slots, network.policy
    begin, end = network.first_group[number : number + 2].tolist()
    n = end - begin
    if slots is None or n < 2:
        return None
    which = 0
    if policy is not None:
        which = [isinstance(one.routing, TimeSlotRouting) for one in policy.routings].index(True)
    edges = network.edge_switch[begin:end].astype(np.int64)
    first_port = network.node_first_port[network.n_hosts + edges]
    place = np.full(network.n_nodes, -1)
    place[network.n_hosts + edges] = np.arange(n)
    own = np.arange(n)
    lengths, links, pairs = [], 0, 0
    for slot in range(slots.slots_ps.size):
        rows = slots.row_first[slot, edges][:, None] + which * n + own
        entries = slots.route[rows]
        led = (entries != NO_ROUTE) & (entries & COUNT_MASK > 0)
        ports = slots.route_ports[np.where(led, entries >> COUNT_BITS, 0)]
        ends = place[network.port_node[network.port_peer[first_port[:, None] + ports]]]
        counts = pairs_by_circuits(np.where(led & (ends == own), own, own[:, None]))
        lengths.append(len(counts))
        links += sum((circuits + 1) * count for circuits, count in enumerate(counts))
        pairs += sum(counts)
    name = "" if policy is None else policy.routings[which].name
    return SlotPaths(name, len(lengths), min(lengths), max(lengths), links / max(1, pairs))


MAX_LINKS = 6_000  # limit on links between colors for max-flow, which then takes some seconds

MAX_FLOW, TIERS = "max-flow", "narrowest tier"


class Bisection(NamedTuple):
    """A rate in one direction, and `how` it was found. MAX_FLOW, or TIERS (half of the smallest
    capacity between two tiers) if the network is too irregular."""

    rate_bps: int
    how: str


class _Graph(NamedTuple):
    """A network's switches from 0, then the two halves of its hosts; directed links."""

    n_nodes: int
    node: Ints
    peer: Ints
    capacity_bps: Ints


def bisection(network: Network, number: int, middle: int) -> Bisection:
    """Return the bisection from hosts below `middle` to the others, through one network."""
    import networkx as nx

    graph = _halved(network, number, middle)
    source, sink = graph.n_nodes - 2, graph.n_nodes - 1
    start = np.zeros(graph.n_nodes, np.int64)
    start[[source, sink]] = 1, 2
    color = refine_colors(start, graph.node, graph.peer, graph.capacity_bps)
    n_colors = int(color.max()) + 1
    key = color[graph.node] * n_colors + color[graph.peer]
    keys, which = np.unique(key, return_inverse=True)
    if keys.size > MAX_LINKS:
        return Bisection(narrowest_bps(network, number) // 2, TIERS)
    sums = np.zeros(keys.size, object)
    np.add.at(sums, which.reshape(-1), graph.capacity_bps.astype(object))
    flow: nx.DiGraph[int] = nx.DiGraph()
    flow.add_nodes_from(range(n_colors))
    for pair, capacity_bps in zip(keys.tolist(), sums.tolist(), strict=True):
        if pair // n_colors != pair % n_colors:
            flow.add_edge(pair // n_colors, pair % n_colors, capacity=capacity_bps)
    value = nx.maximum_flow_value(flow, int(color[source]), int(color[sink]))
    return Bisection(int(value), MAX_FLOW)


def halves(network: Network, number: int, middle: int) -> tuple[Ints, Ints]:
    """Return the ports into a network of its hosts below `middle`, and of its other hosts."""
    ports = np.flatnonzero(network.port_network == number)
    low = network.port_node[ports] < middle
    return ports[low], ports[~low]


def middle_of(network: Network, number: int) -> int:
    """Return the first host of the second half of a network's hosts."""
    hosts = np.unique(network.port_node[np.flatnonzero(network.port_network == number)])
    return int(hosts[hosts.size // 2])


def _halved(network: Network, number: int, middle: int) -> _Graph:
    switches = np.flatnonzero(network.switch_network == number)
    place = np.full(network.n_nodes, -1, np.int64)
    place[switches + network.n_hosts] = np.arange(switches.size)
    capacity_bps = network.port_rate_bps.copy()
    if network.circuits is not None:
        shares = up_shares(network.circuits)
        dated = shares < 1
        capacity_bps[dated] = (capacity_bps[dated] * shares[dated]).astype(np.int64)
    own, far = place[network.port_node], place[network.port_node[network.port_peer]]
    for half, ports in enumerate(halves(network, number, middle)):
        own[ports] = far[network.port_peer[ports]] = switches.size + half
    inside = (own >= 0) & (far >= 0)
    return _Graph(switches.size + 2, own[inside], far[inside], capacity_bps[inside])


def narrowest_bps(network: Network, number: int) -> int:
    """Return the smallest capacity in one direction between two adjacent tiers of a network."""
    inside = network.switch_network == number
    nodes = np.zeros(network.n_nodes, bool)
    nodes[network.n_hosts :] = inside
    own, far = network.port_node, network.port_node[network.port_peer]
    below, above = network.tier[own], network.tier[far]
    up = (nodes[own] | nodes[far]) & (nodes[own] | (own < network.n_hosts)) & nodes[far]
    top = int(network.tier[network.n_hosts :][inside].max())
    sums = [
        int(network.port_rate_bps[up & (below <= tier) & (above > tier)].sum())
        for tier in range(-1, top)
    ]
    return min(sums)


Words = NDArray[np.uint64]

_STEP, _FIRST, _SECOND = (
    np.uint64(word) for word in (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB)
)


def hash_words(values: NDArray[np.integer]) -> Words:
    """Return a pseudo-random 64-bit word for each number (SplitMix64)."""
    words: Words = (np.asarray(values).astype(np.uint64) + np.uint64(1)) * _STEP
    words = (words ^ (words >> np.uint64(30))) * _FIRST
    words = (words ^ (words >> np.uint64(27))) * _SECOND
    return words ^ (words >> np.uint64(31))


def refine_colors(color: Ints, node: Ints, peer: Ints, label: NDArray[np.integer]) -> Ints:
    """Return the coarsest regular refinement of `color`, numbered from 0.

    Args:
        color: int64[n], initial colors of nodes.
        node, peer: int64[k], both ends of each link, with both directions of a cable.
        label: integers [k]; nodes of one color have equal sums of labels over links to each color.
    """
    label_words = label.astype(np.uint64)
    while True:
        known = int(color.max(initial=-1)) + 1
        seen = hash_words(color)
        np.add.at(seen, node, label_words * hash_words(hash_words(color)[peer]))
        finer = np.unique(seen, return_inverse=True)[1].reshape(-1).astype(np.int64)
        if int(finer.max(initial=-1)) + 1 == known:
            return color
        color = finer


def kinds_of_networks(network: Network) -> list[Ints]:
    """Return the networks of hosts' ports, with equal ones grouped, in order."""
    far = network.port_node[network.port_peer].astype(np.int64)
    start = network.tier.astype(np.int64) + 1
    cable = hash_words(network.port_rate_bps) ^ hash_words(hash_words(network.port_delay_ps))
    color = refine_colors(start, network.port_node.astype(np.int64), far, cable)
    makeup = np.zeros(int(network.switch_network.max()) + 1, np.uint64)
    np.add.at(makeup, network.switch_network, hash_words(color[network.n_hosts :]))
    first = np.unique(makeup, return_index=True)[1]
    return [np.flatnonzero(makeup == makeup[one]) for one in np.sort(first).tolist()]


# --- loads of links -------------------------------------------------------------------------------

Legs = Callable[[Floats], Floats]
"""Maps the demand of each pair of groups to the demand of each leg of its packets' paths."""


def link_loads(network: Network, demand: Floats, number: int = 0) -> Floats:
    """Return float64[n_ports], the traffic that each port between switches of a network sends.

    `demand` is float64[groups, groups], the traffic from each group's hosts to each other group's,
    in any unit; the first table's routes apply.
    """
    n_groups = len(demand)
    switches = np.flatnonzero(network.switch_network == number)
    entries = network.route[network.route_first[switches][:, None] + np.arange(n_groups)]
    at = np.zeros((switches.size, n_groups))
    begin = int(network.first_group[number])
    edges = network.edge_switch[begin : begin + n_groups]
    at[np.searchsorted(switches, edges)] = demand
    loads = np.zeros(network.n_ports)
    n_blocks = 1 + int(_counts(entries).sum()) // BLOCK_STEPS
    for groups in np.array_split(np.arange(n_groups), min(n_blocks, n_groups)):
        steps = steps_of(network, switches, entries[:, groups].reshape(-1), network.route_ports)
        held: Floats = at[:, groups].reshape(-1)
        while (parts := np.repeat(held[steps.pairs] / steps.counts, steps.counts)).any():
            loads += np.bincount(steps.ports, parts, network.n_ports)
            held = np.bincount(steps.onward, parts, held.size).astype(float)
    return loads


def saturation(network: Network, demand: Floats, number: int = 0) -> float:
    """Return the multiple of `demand` (bit/s) at which the most loaded link between switches is
    full; infinity if none is used."""
    loads = link_loads(network, demand, number) / network.port_rate_bps
    most = float(loads.max())
    return 1 / most if most > 0 else float("inf")


def uniform_saturation(network: Network, number: int = 0) -> float | None:
    """Return `pattern_saturation` if all hosts of a network send to each other evenly; also None
    for a network with one host."""
    n = int((network.port_network == number).sum())
    return None if n < 2 else pattern_saturation(network, uniform(n), number)


def pattern_saturation(
    network: Network, to: Destinations, number: int = 0, legs: Legs | None = None
) -> float | None:
    """Return the share of their rate, at most 1, at which the hosts of a network can send in a
    pattern of its ports; None if the network is too large to compute it.

    With a routing algorithm's `legs`, packets go via other groups. Only the first of several tables
    counts, and circuits count as always up.
    """
    ports = np.flatnonzero(network.port_network == number)
    group = network.port_group[ports].astype(np.int64)
    n_groups = int(np.diff(network.first_group)[number])
    n_switches = int((network.switch_network == number).sum())
    if n_groups * n_switches * 2 > MAX_STEPS:
        return None
    rates = network.port_rate_bps[ports].astype(float)
    demand = to.demand(rates, group)
    if legs is not None:
        demand = legs(demand)
    received = float((to.received(rates) / rates).max())
    return min(1.0, 1 / received, saturation(network, demand, number))


# --- failures -------------------------------------------------------------------------------------


@frozen
class Failure:
    """Effects of links that are down, after rerouting."""

    name: str  # name of what fails, as given
    cables: int  # cables that are down, in at least one direction
    networks: int  # networks with such cables
    hosts_cut_off: int  # hosts not connected to the largest part of any of their networks
    hosts_fewer_ports: int  # other hosts with a port whose link is down
    hosts_fewer_paths: int  # other hosts with fewer paths to or from some host
    # smallest remaining fraction of paths between edge switches that reach each other
    paths_left: float
    # flows_cut_off, flows_touched: flows without a path, and others with fewer paths; None if there
    # are too many edge switches
    flows_cut_off: int | None
    flows_touched: int | None


class _Loss(NamedTuple):
    """Effects between edge switches of a network.

    `fewer` and `cut`, bool[edges, groups], are pairs with fewer or longer paths, and without any;
    `least` is the smallest remaining fraction of paths over all other pairs.
    """

    groups: Ints
    fewer: Flags
    cut: Flags
    least: float


def failure(network: Network, name: str, ports: Ints, port_pairs: PortPairs) -> Failure:
    """Return the effects of links that are down on a network and on flows with these port pairs."""
    down = np.zeros(network.n_ports, bool)
    down[ports] = True
    table = network.routing(network.wiring(~down))
    uplink = np.arange(network.n_host_ports)
    dead: Flags = down[uplink] | down[network.port_peer[uplink]]
    fewer = np.zeros(network.n_host_ports, bool)
    pair_cut: Flags = dead[port_pairs.src_port] | dead[port_pairs.dst_port]
    pair_fewer = pair_cut.copy()
    least, whole = 1.0, True
    numbers = _touched(network, ports)
    table_of_pair = port_pairs.data_to // network.n_host_ports
    for number, which in product(numbers.tolist(), range(network.n_tables)):
        loss = _loss(network, number, table, which)
        least = min(least, loss.least)
        of_edge: Flags = np.logical_or.reduce(loss.fewer, axis=1)
        of_edge[loss.groups] |= np.logical_or.reduce(loss.fewer, axis=0)
        here = network.port_network == number
        fewer[here] |= of_edge[network.port_group[here]]
        if loss.groups.size < of_edge.size:
            whole = False
            continue
        port_pair = np.flatnonzero(here[port_pairs.src_port] & (table_of_pair == which))
        src, dst = (
            network.port_group[port[port_pair]]
            for port in (port_pairs.src_port, port_pairs.dst_port)
        )
        pair_cut[port_pair] |= loss.cut[src, dst]
        pair_fewer[port_pair] |= loss.fewer[src, dst]
    alone = cut_off(network, table, down) & ~never_joined(network)
    first = network.node_first_port[: network.n_hosts]
    fewer_ports = np.logical_or.reduceat(dead, first) & ~alone
    fewer_paths = np.logical_or.reduceat(fewer, first) & ~alone & ~fewer_ports
    flows_cut = np.logical_and.reduceat(pair_cut, port_pairs.first[:-1])
    flows_fewer = np.logical_or.reduceat(pair_fewer, port_pairs.first[:-1]) & ~flows_cut
    return Failure(
        name=name,
        cables=int(np.unique(np.minimum(ports, network.port_peer[ports])).size),
        networks=int(numbers.size),
        hosts_cut_off=int(alone.sum()),
        hosts_fewer_ports=int(fewer_ports.sum()),
        hosts_fewer_paths=int(fewer_paths.sum()),
        paths_left=least,
        flows_cut_off=int(flows_cut.sum()) if whole else None,
        flows_touched=int(flows_fewer.sum()) if whole else None,
    )


def _touched(network: Network, ports: Ints) -> Ints:
    """Return the networks of links; each link has a switch at one end."""
    nodes = np.maximum(network.port_node[ports], network.port_node[network.port_peer[ports]])
    return np.unique(network.switch_network[nodes - network.n_hosts]).astype(np.int64)


def _loss(network: Network, number: int, table: RoutingTable, which: int) -> _Loss:
    """Return the effects on edge switches of a network in routing table `which`, with new
    routes."""
    before = path_counts(network, number, table_number=which)
    after = reach_by(network, number, table, before.groups, which)
    switches = np.flatnonzero(network.switch_network == number)
    rows = np.searchsorted(switches, network.wiring().edges_of(number))
    hops, paths = before.hops[rows], before.paths[rows]
    cut = (after.hops[rows] < 0) & (hops >= 0)
    fewer = cut | (after.paths[rows] < paths) | (after.hops[rows] > hops)
    there = (hops >= 0) & ~cut
    left = after.paths[rows][there] / paths[there]
    return _Loss(before.groups, fewer, cut, float(left.min(initial=1.0)))
