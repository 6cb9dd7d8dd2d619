"""Completion times if single-path flows share every link max-min fairly.

A fluid model without packets, queues or losses, to compare with single-path transports under
per-flow hashing (ECMP). Each flow takes one shortest path, drawn at random or by the hash of a
run's switches, at its max-min fair rate (Bertsekas and Gallager, "Data Networks", section 6.5.2).
On the same paths, no other sharing lets the last flow end earlier; the mean could be lower.

Flows of one size that start together keep these rates until they end: the bottleneck link of a flow
carries no faster one, so none leaves it earlier, and capacity that becomes free on other links does
not help. The rates are therefore computed once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from netsim.errors import InputError
from netsim.model.arithmetic import PURPOSE_ECMP, mix, salt
from netsim.model.fabric import packet_counts
from netsim.model.ideal import ideal_times
from netsim.model.routing import COUNT_BITS, COUNT_MASK

if TYPE_CHECKING:
    from netsim.model.fabric import PacketFormat
    from netsim.model.flows import FlowTable
    from netsim.model.network import Network
    from netsim.model.port_pairs import PortPairs

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

Choice = Callable[[Ints, Ints, Ints], Ints]
"""(flow, node, number of ports) -> selected port."""

NO_LINK = -1
TIE = 1 + 1e-12
"""Ratio below which shares differ only by rounding."""


def hashed_times(
    network: Network,
    flows: FlowTable,
    packets: PacketFormat,
    port_pairs: PortPairs,
    seed: int,
    *,
    evenly: bool = False,
) -> Floats:
    """Return the time in ps from the start to the last byte of each flow, on the paths that `ecmp`
    hashing selects in a run with `seed` for data with entropy 0, as from transports that set none.

    A flow uses `port_pairs`, with one path each that shares links as a flow does. Its rate is their
    sum or, if its packets are dealt to them `evenly`, their number times the lowest. Raises
    InputError unless flows have one size and start together.
    """
    _require_alike(flows)
    paths = hashed_paths(network, port_pairs, seed)
    return _times(network, flows, packets, port_pairs, paths, evenly=evenly)


def _require_alike(flows: FlowTable) -> None:
    sizes_differ = np.unique(flows.size_bytes).size > 1
    if sizes_differ or np.unique(flows.start_ps).size > 1 or flows.after_ptr is not None:
        raise InputError("fair shares need flows of one size that start together")


def _times(
    network: Network,
    flows: FlowTable,
    packets: PacketFormat,
    port_pairs: PortPairs,
    paths: Ints,
    *,
    evenly: bool,
) -> Floats:
    rates_bps = network.port_rate_bps.astype(float)
    on_wire = flows.size_bytes + packet_counts(flows.size_bytes, packets) * packets.header_bytes
    of_pairs = np.append(rates_bps, np.inf)[paths].min(axis=1)
    alone_bps = np.add.reduceat(of_pairs, port_pairs.first[:-1])
    shared = max_min_rates(paths, rates_bps)
    if evenly:
        shared_bps = port_pairs.counts * np.minimum.reduceat(shared, port_pairs.first[:-1])
    else:
        shared_bps = np.add.reduceat(shared, port_pairs.first[:-1])
    longer_ps: Floats = 8e12 * on_wire * (1 / shared_bps - 1 / alone_bps)
    return ideal_times(network, flows, packets, port_pairs=port_pairs).fct_ps + longer_ps


def max_min_rates(links: Ints, capacity: Floats) -> Floats:
    """Return the max-min fair rate of each flow.

    Args:
        links: int64[n_flows, n], the links that each flow crosses, at least one, padded with
            NO_LINK.
        capacity: of each link; the rates have its unit.
    """
    links = np.where(links == NO_LINK, len(capacity), links)
    room = np.append(capacity, np.inf)  # the last is NO_LINK
    flow_at = np.argsort(links, axis=None, kind="stable") // links.shape[1]  # link by link
    crossing = np.bincount(links.ravel(), minlength=len(room))
    first = np.append(0, np.cumsum(crossing))
    crossing[-1] = 0
    rate = np.full(len(links), np.nan)
    while crossing.any():
        share = np.where(crossing > 0, room / np.maximum(crossing, 1), np.inf)
        full = np.flatnonzero(share <= TIE * share.min())
        flows = np.unique(np.concatenate([flow_at[first[k] : first[k + 1]] for k in full]))
        flows = flows[np.isnan(rate[flows])]
        rate[flows] = share[links[flows]].min(axis=1)
        used, taken = links[flows].ravel(), np.repeat(rate[flows], links.shape[1])
        crossing -= np.bincount(used, minlength=len(room))
        crossing[-1] = 0
        room = room - np.bincount(used, taken, len(room))
    return rate


def ecmp_paths(network: Network, src: Ints, dst: Ints, rng: np.random.Generator) -> Ints:
    """Return global ports on a random path from each host's port to an address, padded with
    NO_LINK. int64[n, hops]. At each switch, all ports on shortest paths are equally likely."""
    return _paths(network, src, dst, lambda _, __, count: rng.integers(0, count))


def hashed_paths(network: Network, port_pairs: PortPairs, seed: int) -> Ints:
    """Return `ecmp_paths` by hash, for each port pair: the path of its flow's data (entropy 0)."""
    of_flow = mix(np.repeat(np.arange(port_pairs.counts.size), port_pairs.counts) * 2)

    def choose(port_pair: Ints, switch: Ints, count: Ints) -> Ints:
        chosen: Ints = (mix(salt(seed, PURPOSE_ECMP, switch) ^ of_flow[port_pair]) * count) >> 32
        return chosen

    return _paths(network, port_pairs.src_port, port_pairs.data_to, choose)


def _paths(network: Network, src: Ints, dst: Ints, choose: Choice) -> Ints:
    flow = np.arange(src.size)
    group = network.host_group[dst].astype(np.int64)
    port, hops = src, []
    while flow.size:
        hop = np.full(src.size, NO_LINK, np.int64)
        hop[flow] = port
        hops.append(hop)
        onward = network.port_node[network.port_peer[port]] >= network.n_hosts
        flow, port = flow[onward], port[onward]
        switch = network.next_switch(port)
        entry = network.route[network.route_first[switch] + group[flow]]
        count = entry & COUNT_MASK
        at = switch + network.n_hosts
        chosen = (entry >> COUNT_BITS) + choose(flow, at, np.maximum(count, 1))
        local = network.host_port[dst[flow]].astype(np.int64)
        inside = count > 0
        local[inside] = network.route_ports[chosen[inside]]
        port = network.node_first_port[at] + local
    return np.stack(hops, axis=1)
