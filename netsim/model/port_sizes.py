"""Sizes that differ by port: bandwidth-delay products, and queue sizes of single switches."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np

from netsim.errors import InputError
from netsim.limits import SIZE_BYTES
from netsim.model.arithmetic import byte_quotient, send_time
from netsim.model.columns import Ints
from netsim.model.fabric import Fabric, PacketFormat
from netsim.model.network import Network
from netsim.model.routing import COUNT_MASK, NO_ROUTE
from netsim.units import Bdp, format_bytes

AT_ONCE = 1 << 20
"""Pairs of edge switches whose paths are followed together."""

MAX_PAIRS = 1 << 22
"""Pairs of edge switches of a network whose paths are followed: all in networks of up to 2,048 edge
switches, else those from some of them at equal distances."""


@dataclass(frozen=True, eq=False)
class PortSizes:
    """Fabrics that differ only in sizes, and which one each port has.

    There is one of ``fabrics`` for each kind of port, with sizes in bytes; a kind has the rate
    ``rate_bps`` and the base round trip ``round_trip_ps`` of its network. ``kind`` is
    int64[n_ports].
    """

    fabrics: tuple[Fabric, ...]
    rate_bps: tuple[int, ...]
    round_trip_ps: tuple[int, ...]
    kind: Ints


def settle_sizes(
    fabric: Fabric, network: Network, packets: PacketFormat, rate_bps: Ints | None = None
) -> tuple[Fabric, PortSizes | None]:
    """Return a settled fabric with sizes in bytes if they are the same everywhere, else all
    sizes. Raises InputError as `port_sizes`."""
    if not sizes_differ(fabric, network):
        return fabric, None
    sizes = port_sizes(fabric, network, packets, rate_bps)
    return (sizes.fabrics[0], None) if len(sizes.fabrics) == 1 else (fabric, sizes)


def sizes_differ(fabric: Fabric, network: Network) -> bool:
    own = network.switch_queue_bytes is not None
    return fabric.has_bdp_sizes or own or not fabric.marks_last_hop


def port_sizes(
    fabric: Fabric, network: Network, packets: PacketFormat, rate_bps: Ints | None = None
) -> PortSizes:
    """Return the sizes of a settled fabric at each port, for `rate_bps` instead of its own rate.

    Ports of hosts, which have no queues, are of kind 0. Raises InputError, without a file, for a
    size that is too large, and for switches with their own queue size if the discipline has no
    `queue_bytes`.
    """
    round_trips = base_round_trips(network, packets)
    n = network.n_host_ports
    switch = network.port_node[n:] - network.n_hosts
    own = _own_queues(fabric, network)[switch]
    rate_bps = network.port_rate_bps if rate_bps is None else rate_bps
    unmarked = (network.port_peer[n:] < n) & (not fabric.marks_last_hop)
    columns = [rate_bps[n:], round_trips[network.switch_network[switch]], own, unmarked]
    kinds, kind = np.unique(np.stack(columns, axis=1), axis=0, return_inverse=True)
    rates, trips, owns, plain = kinds.T.tolist()
    return PortSizes(
        fabrics=tuple(map(fabric_at, [fabric] * len(kinds), rates, trips, owns, plain)),
        rate_bps=tuple(rates),
        round_trip_ps=tuple(trips),
        kind=np.concatenate([np.zeros(n, np.int64), kind.reshape(-1).astype(np.int64)]),
    )


def _own_queues(fabric: Fabric, network: Network) -> Ints:
    """Return int64[n_switches], the queue sizes of switches that have their own, 0 for others."""
    own = network.switch_queue_bytes
    if own is None:
        return np.zeros(network.n_switches, np.int64)
    for switch in np.flatnonzero(own)[: "queue_bytes" not in fabric.queue.params].tolist():
        raise InputError(
            f'"{fabric.queue_discipline}" has no queue_bytes, but {network.switch_names[switch]} '
            f"has its own queue size ({format_bytes(int(own[switch]))})",
            key="fabric.queue_discipline",
        )
    return own


def fabric_at(
    fabric: Fabric, rate_bps: int, round_trip_ps: int, own_bytes: int = 0, unmarked: int = 0
) -> Fabric:
    """Return the fabric, in bytes, of a port with this rate and base round trip. If `own_bytes`
    is not 0, it is the queue size of the port's switch. An `unmarked` port's queue never reaches
    the ECN thresholds."""

    def in_bytes(value: Any) -> Any:
        return value.at(rate_bps, round_trip_ps) if isinstance(value, Bdp) else value

    params = {name: in_bytes(value) for name, value in fabric.queue.params.items()}
    if own_bytes:
        params["queue_bytes"] = own_bytes
    ecn = fabric.ecn
    if ecn is not None:
        kmin, kmax = in_bytes(ecn.kmin_bytes), in_bytes(ecn.kmax_bytes)
        if unmarked:
            kmin = kmax = SIZE_BYTES
        ecn = replace(ecn, kmin_bytes=kmin, kmax_bytes=kmax)
    return replace(fabric, queue=replace(fabric.queue, params=params), ecn=ecn)


def base_round_trips(network: Network, packets: PacketFormat) -> Ints:
    """Return int64[n_networks], the longest times of a full packet plus a control packet, in ps.

    The maximum of each is over all pairs of hosts' ports (`MAX_PAIRS` in large networks), on first
    shortest paths without queueing.
    """
    out = longest_paths(network, packets.data_bytes)
    return out + longest_paths(network, packets.control_bytes)


def longest_paths(network: Network, size_bytes: int) -> Ints:
    """Return int64[n_networks], the longest time in ps of a single packet between two hosts'
    ports. Only pairs with a route count, in any table."""
    cross_ps = send_time(size_bytes, byte_quotient(network.port_rate_bps)) + network.port_delay_ps
    host_ports = np.arange(network.n_host_ports)
    group = network.first_group[network.port_network] + network.port_group
    up_ps, down_ps = np.zeros(network.n_groups, np.int64), np.zeros(network.n_groups, np.int64)
    np.maximum.at(up_ps, group, cross_ps[host_ports])
    np.maximum.at(down_ps, group, cross_ps[network.port_peer[host_ports]])
    longest = np.zeros(network.first_group.size - 1, np.int64)
    for number, table, src, dst in _pairs(network):
        switch = network.edge_switch[src].astype(np.int64)
        first, end = network.first_group[number : number + 2].tolist()
        to = table * (end - first) + dst - first
        time_ps = up_ps[src] + down_ps[dst]
        going = np.flatnonzero(network.route[network.route_first[switch] + to] != NO_ROUTE)
        switch, to, joined = switch[going], to[going], going
        while True:
            on = network.route[network.route_first[switch] + to] & COUNT_MASK > 0
            going, switch, to = going[on], switch[on], to[on]
            if not going.size:
                break
            port = network.first_port(switch, to)
            time_ps[going] += cross_ps[port]
            switch = network.next_switch(port)
        longest[number] = max(longest[number], int(time_ps[joined].max(initial=0)))
    return longest


def _pairs(network: Network) -> Iterator[tuple[int, int, Ints, Ints]]:
    """Yield a network's number, a routing table and pairs of groups, some at a time."""
    first = network.first_group.tolist()
    for number, (begin, end) in enumerate(pairwise(first)):
        step = max(1, AT_ONCE // (end - begin))
        every = np.arange(begin, end)
        sources = every[:: -(-every.size // max(1, MAX_PAIRS // every.size))]
        for at in range(0, sources.size, step):
            some = sources[at : at + step]
            pairs = np.repeat(some, every.size), np.tile(every, some.size)
            for table in range(network.n_tables):
                yield number, table, *pairs
