"""Divide the nodes of a network among workers, and among ranks.

Each gets a range of nodes in the order of their cables: a switch is placed amid the hosts below it,
and several switches above the same hosts are evenly spaced among them. So most cables join nodes of
one worker, and their packets stay in its core's cache; ranks have leaves with their hosts and a
share of the switches above. Workers' ranges have equal numbers of packets that arrived so far, and
are adjusted between calls of the engine. Ranks' ranges have equal numbers of ports, weighted by the
bytes of their hosts' flows, and end at a nearby point, if any, where only long cables are cut.

"Several processes" in `netsim/engine/README.md` describes the share of a rank.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from netsim.engine.kernels.fields import Array
from netsim.engine.kernels.layout import CACHE_LINE, INF, Crew, LinkState, Net, grouped
from netsim.engine.records import aligned_zeros, untouched_zeros
from netsim.engine.simulation import Simulation
from netsim.model.columns import offsets, rank_of_each, rows_of
from netsim.model.flows import FlowTable

Rows = Array | slice  # numbers of rows, or all

ALL = slice(None)

LARGE_BYTES = 1 << 26  # size of arrays from which small pages, slower in use, save much memory


class Share(NamedTuple):
    """Rows to build."""

    of_node: Array | None = None  # int32[n_nodes], the part of each node; None: there is one part
    # ports, links: own ports; these and the other ends of their cables
    ports: Rows = ALL
    links: Rows = ALL
    # hosts, host_ports, nics: own hosts, their ports and NICs
    hosts: Rows = ALL
    host_ports: Rows = ALL
    nics: Rows = ALL
    # sent, received: flows from own hosts, and to them
    sent: Rows = ALL
    received: Rows = ALL
    # flows, sources: flows that transports set up here, and NICs of their sources and own hosts
    flows: Rows = ALL
    sources: Rows = ALL

    def zeros(self, n: int, dtype: np.dtype) -> np.ndarray:
        """Return ``n`` zeroed records, of which a part writes only some. Large arrays are in small
        pages, so that fewer bytes are allocated for scattered rows."""
        if self.of_node is None or n * dtype.itemsize < LARGE_BYTES:
            return aligned_zeros(n, dtype)
        return untouched_zeros(n, dtype, large_pages=False)

    def queues(self, n_traffic_classes: int) -> Rows:
        """Return the queues of own ports."""
        if isinstance(self.ports, slice):
            return self.ports
        return rows_of(self.ports * n_traffic_classes, n_traffic_classes)


WHOLE = Share()


def share_of(simulation: Simulation, of_node: Array, part: int) -> Share:
    """Return the share of one part of the network; ``of_node`` is the part of each node.

    A transport sets up a flow's receiver together with its sender, at the source host. All flows of
    that host are set up here, so that its state is the same as in one process. Flows that wait for
    others, and flows of programs, may need the records of any flow.
    """
    network, flows = simulation.network, simulation.flows
    mine = of_node == part
    ports = np.flatnonzero(mine[network.port_node])
    sent, received = mine[flows.src], mine[flows.dst]
    sources = np.zeros(network.n_hosts, bool)
    sources[flows.src[sent | received]] = True
    set_up = sources[flows.src]
    depends = flows.after_ptr is not None or simulation.tasks is not None
    if depends or simulation.program is not None or simulation.feature_set.phase_driven:
        set_up[:] = sources[:] = True
    hosts, n_nics = mine[: network.n_hosts], np.diff(network.first_nic)
    return Share(
        of_node=of_node,
        ports=ports,
        links=np.union1d(ports, network.port_peer[ports]),
        hosts=np.flatnonzero(hosts),
        host_ports=ports[ports < network.n_host_ports],
        nics=np.flatnonzero(np.repeat(hosts, n_nics)),
        sent=np.flatnonzero(sent),
        received=np.flatnonzero(received),
        flows=np.flatnonzero(set_up),
        sources=np.flatnonzero(np.repeat(hosts | sources, n_nics)),
    )


PAIR = 2 * CACHE_LINE // 8  # int64 in two cache lines
IDLE = 1 / 20  # weight of a port without traffic, relative to the mean

LONG = 10
"""A cable is long if it has this many times the length of the shortest cable. Ranks joined only by
long cables seldom wait for each other ..."""

NEAR = 0.4
"""... so either end of a range may be off from equal weights by this share of a rank's weight."""


def worker_rows(n_workers: int, n: int) -> Array:
    """Return int64[n_workers, at least n], zeros. No two workers write to a pair of cache lines,
    which processors load together."""
    length = -(-n // PAIR) * PAIR
    return aligned_zeros(n_workers * length, np.dtype(np.int64)).reshape(n_workers, length)


def build_crew(net: Net, n_workers: int) -> Crew:
    """Return the division before a run: every port weighs the same."""
    n_nodes = net.first_port.shape[0] - 1
    crew = grouped(
        Crew,
        owner=np.zeros(n_nodes, np.int32),
        order=np.argsort(_positions(net), kind="stable"),
        first=np.zeros(n_workers, np.int64),
        ends=np.zeros(n_workers, np.int64),
        nodes=np.zeros(n_nodes, np.int64),
        dealt=worker_rows(1, 1)[0],
        left=worker_rows(n_workers, 1),
        done=worker_rows(n_workers, 1),
        pace=np.array([1, 0]),
        ending=worker_rows(1, 1)[0],
    )
    _divide(crew, np.diff(net.first_port) + 1)
    return crew


def rebalance(net: Net, links: LinkState, crew: Crew) -> None:
    """Divide the nodes by the packets that arrived so far."""
    arrived = offsets(links.readers["head"])
    _divide(crew, np.diff(arrived[net.first_port]) + 1)


def divide(net: Net, delay_ps: Array, flows: FlowTable, n_parts: int) -> Array:
    """Return int32[n_nodes]: the part of each node. ``delay_ps`` are the delays of cables, by port.
    All ranks compute the same, since sums are in a fixed order."""
    order = np.argsort(_positions(net), kind="stable")
    work = (np.diff(net.first_port) + 1) * (_activity(net, flows) + IDLE)
    weights = (1024 * work).astype(np.int64) + 1
    last, share = np.arange(1, n_parts), weights.sum() / n_parts
    ends = np.searchsorted(_parts(order, weights, n_parts)[order], last)
    places = _ends_of_short_cables(net, delay_ps, order)
    before = (np.cumsum(weights[order]) - weights[order])[places]
    after = np.searchsorted(before, last * share).clip(1, before.size - 1)
    nearest = after - (2 * last * share < before[after - 1] + before[after])
    is_near = abs(before[nearest] - last * share) <= NEAR * share
    if is_near.all():  # a single short cable would set the pace of all
        ends = places[nearest]
    parts = np.empty(order.size, np.int32)
    parts[order] = np.searchsorted(ends, np.arange(order.size), side="right")
    return parts


def _ends_of_short_cables(net: Net, delay_ps: Array, order: Array) -> Array:
    """Return the indices in ``order`` where a cut crosses only long cables, and the last one."""
    n_nodes = order.size
    place = np.empty(n_nodes, np.int64)
    place[order] = np.arange(n_nodes)
    short = delay_ps < LONG * delay_ps.min(initial=INF)
    here, there = place[net.port_node[short]], place[net.port_node[net.port_peer[short]]]
    begins = np.bincount(np.minimum(here, there) + 1, minlength=n_nodes)
    ended = np.bincount(np.maximum(here, there) + 1, minlength=n_nodes)
    n_cut = np.cumsum(begins[:n_nodes] - ended[:n_nodes])
    return np.append(np.flatnonzero(n_cut == 0), n_nodes - 1)


def _divide(crew: Crew, weights: Array) -> None:
    """Give every worker a range of nodes of about the same weight. Weights are positive."""
    n_workers = crew.left.shape[0]
    np.asarray(crew.owner)[:] = _parts(np.asarray(crew.order), weights, n_workers)
    counts = np.bincount(crew.owner, minlength=n_workers)
    crew.first[1:] = np.cumsum(counts)[:-1]


def _parts(order: Array, weights: Array, n_parts: int) -> Array:
    ordered = weights[order]
    middle = np.cumsum(ordered) - ordered / 2
    parts = np.empty(order.size, np.int32)
    parts[order] = middle * n_parts // ordered.sum()
    return parts


def _tiers(net: Net) -> Iterator[tuple[Array, Array]]:
    """Yield the cables to each tier of switches, lowest first: nodes above, and nodes below."""
    near, far = net.port_node, net.port_node[net.port_peer]
    reached = np.arange(net.first_port.shape[0] - 1) < net.n_hosts
    while (new := ~reached[near] & reached[far]).any():
        yield near[new], far[new]
        reached[near[new]] = True


def _activity(net: Net, flows: FlowTable) -> Array:
    """Return float64[n_nodes]: bytes that a host sends and receives, relative to the mean; for a
    switch, the mean of the hosts below it."""
    n_nodes = net.first_port.shape[0] - 1
    moved = np.zeros(n_nodes, np.int64)
    np.add.at(moved, flows.src, flows.size_bytes)
    np.add.at(moved, flows.dst, flows.size_bytes)
    activity = moved * (net.n_hosts / max(1, int(moved.sum())))
    for above, below in _tiers(net):
        np.add.at(activity, above, activity[below])
        activity /= np.maximum(1, np.bincount(above, minlength=n_nodes))
    return activity


def _positions(net: Net) -> Array:
    """Return float64[n_nodes]: hosts in a row, switches among the hosts below them."""
    n_nodes = net.first_port.shape[0] - 1
    low, high = np.full(n_nodes, np.inf), np.full(n_nodes, -np.inf)
    low[: net.n_hosts] = high[: net.n_hosts] = np.arange(net.n_hosts)
    positions = np.full(n_nodes, net.n_hosts / 2)
    positions[: net.n_hosts] = low[: net.n_hosts]
    for above, below in _tiers(net):
        first, last = low[below], high[below]
        np.minimum.at(low, above, first)
        np.maximum.at(high, above, last)
        tier = np.unique(above)
        positions[tier] = _spread(low[tier], high[tier])
    return positions


def _spread(low: Array, high: Array) -> Array:
    """Return a position in each range, evenly spaced in equal ranges."""
    _, group, counts = np.unique(
        np.stack([low, high]), axis=1, return_inverse=True, return_counts=True
    )
    group = group.reshape(-1)
    share: Array = low + (rank_of_each(group, counts) + 0.5) / counts[group] * (high - low)
    return share
