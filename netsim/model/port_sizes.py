"""Sizes in products of rate and delay: what they become at each port of a network."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from netsim.model.arithmetic import byte_quotient, send_time
from netsim.model.fabric import Fabric, PacketFormat
from netsim.model.network import Network
from netsim.model.routing import COUNT_MASK, NO_ROUTE
from netsim.units import Bdp

Ints = NDArray[np.int64]

AT_ONCE = 1 << 20
"""Pairs of edge switches whose paths are followed together."""


@dataclass(frozen=True, eq=False)
class PortSizes:
    """Fabrics that differ in sizes alone, and which of them each port goes by.

    ``fabrics`` are one for each kind of port, without products; a kind has the rate ``rate_bps``
    and is in a network with the base round trip ``round_trip_ps``. ``kind`` is int64[n_ports].
    """

    fabrics: tuple[Fabric, ...]
    rate_bps: tuple[int, ...]
    round_trip_ps: tuple[int, ...]
    kind: Ints


def settle_sizes(
    fabric: Fabric, network: Network, packets: PacketFormat
) -> tuple[Fabric, PortSizes | None]:
    """A settled fabric without products, if its sizes are the same everywhere; else all of them.

    Raises InputError as `port_sizes`.
    """
    if not fabric.in_products:
        return fabric, None
    sizes = port_sizes(fabric, network, packets)
    return (sizes.fabrics[0], None) if len(sizes.fabrics) == 1 else (fabric, sizes)


def port_sizes(fabric: Fabric, network: Network, packets: PacketFormat) -> PortSizes:
    """What the sizes of a settled fabric become at each port.

    Ports of hosts, which have no queues, are of kind 0. Raises InputError, without a file, for a
    size that is too large.
    """
    round_trips = base_round_trips(network, packets)
    n = network.n_host_ports
    of_switch = network.switch_network[network.port_node[n:] - network.n_hosts]
    pairs = np.stack([network.port_rate_bps[n:], round_trips[of_switch]], axis=1)
    kinds, kind = np.unique(pairs, axis=0, return_inverse=True)
    rates, trips = kinds.T.tolist()
    return PortSizes(
        fabrics=tuple(map(fabric_at, [fabric] * len(kinds), rates, trips)),
        rate_bps=tuple(rates),
        round_trip_ps=tuple(trips),
        kind=np.concatenate([np.zeros(n, np.int64), kind.reshape(-1).astype(np.int64)]),
    )


def fabric_at(fabric: Fabric, rate_bps: int, round_trip_ps: int) -> Fabric:
    """The fabric of a port of that rate, in a network of that base round trip, in bytes."""

    def in_bytes(value: Any) -> Any:
        return value.at(rate_bps, round_trip_ps) if isinstance(value, Bdp) else value

    params = {name: in_bytes(value) for name, value in fabric.queue.params.items()}
    ecn = fabric.ecn
    if ecn is not None:
        kmin, kmax = in_bytes(ecn.kmin_bytes), in_bytes(ecn.kmax_bytes)
        ecn = replace(ecn, kmin_bytes=kmin, kmax_bytes=kmax)
    return replace(fabric, queue=replace(fabric.queue, params=params), ecn=ecn)


def base_round_trips(network: Network, packets: PacketFormat) -> Ints:
    """int64[n_networks]: of each network the longest ways of a full and of a control packet, in ps.

    A way leads from any host's port to any, over the first shortest path, without others.
    """
    out = longest_ways(network, packets.data_bytes)
    return out + longest_ways(network, packets.control_bytes)


def longest_ways(network: Network, size_bytes: int) -> Ints:
    """int64[n_networks]: the longest that a packet alone takes between two hosts' ports, in ps.

    Of those that a route leads from and to, by any way.
    """
    cross_ps = send_time(size_bytes, byte_quotient(network.port_rate_bps)) + network.port_delay_ps
    host_ports = np.arange(network.n_host_ports)
    group = network.first_group[network.port_network] + network.port_group
    up_ps, down_ps = np.zeros(network.n_groups, np.int64), np.zeros(network.n_groups, np.int64)
    np.maximum.at(up_ps, group, cross_ps[host_ports])
    np.maximum.at(down_ps, group, cross_ps[network.port_peer[host_ports]])
    longest = np.zeros(network.first_group.size - 1, np.int64)
    for number, way, src, dst in _pairs(network):
        switch = network.edge_switch[src].astype(np.int64)
        first, behind = network.first_group[number : number + 2].tolist()
        to = way * (behind - first) + dst - first
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
    """A network's number, a way and pairs of its groups, numbered through, some at a time."""
    first = network.first_group.tolist()
    for number, (begin, end) in enumerate(pairwise(first)):
        step = max(1, AT_ONCE // (end - begin))
        every = np.arange(begin, end)
        for at in range(begin, end, step):
            some = every[at - begin : at - begin + step]
            pairs = np.repeat(some, every.size), np.tile(every, some.size)
            for way in range(network.n_ways):
                yield number, way, *pairs
