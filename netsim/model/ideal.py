"""Lower bounds: completion times of flows alone, of dependency chains, and at max-min fair rates.

A flow of n packets crosses L links. Packets 0..n-1 leave the source in sequence; all have the same
size on the wire except the last, which carries the rest. With `s_i` the time to send a full packet
on link i, `h_i` the part of it until the packet arrives at the next node (`s_i` without
cut-through), `r_i` and `g_i` these times of the last packet, and `d_i` the delay:

    start_i(k)    = h_0 + d_0 + ... + h_(i-1) + d_(i-1) + k * max(s_0, ..., s_i)     full packets
    start_i(last) = max(start_i(n-2) + s_i, start_(i-1)(last) + g_(i-1) + d_(i-1))

The receiving NIC acts as a last link that takes `data_interval` per packet and has a delay of
`data_delay`.

This is exact in integers, for any rates. The acknowledged time adds one control packet that returns
without queueing.

If packets may take different paths, the last and shorter packet can overtake, and a link inside the
network need not carry all of them. The time then includes queueing only at the first and last link:
no work-conserving order of arrival is faster.

Circuits count as if they were always up, and links as without faults. A flow with several port
pairs has its packets dealt to them optimally (`_striped`).

The length of dependency chains of a workload's tasks and flows assumes each flow alone
(`longest_chain_ps`): a lower bound, except for what closed forms omit.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from netsim.errors import InputError
from netsim.frozen import frozen
from netsim.model.arithmetic import PURPOSE_ECMP, byte_quotient, mix, salt, send_time
from netsim.model.columns import Floats, Ints, Rng, longest_chains
from netsim.model.fabric import Nic, PacketFormat, needed_bytes, packet_counts
from netsim.model.flows import FlowTable
from netsim.model.network import Network
from netsim.model.port_pairs import PortPairs, port_pairs_of, walk
from netsim.model.relays import RelaySegments
from netsim.model.routing import COUNT_BITS, COUNT_MASK
from netsim.model.workload import RECEIVE, SEND, TaskTable

# Flows per block, so that their arrays stay in the processor's cache.
BLOCK = 1 << 15


@frozen(eq=False)
class IdealTimes:
    """Times of each flow alone, from its start."""

    fct_ps: Ints  # int64[n], until the receiver has the last byte
    acked_ps: Ints  # int64[n], until the sender has the acknowledgment of the last packet


def ideal_times(
    network: Network,
    flows: FlowTable,
    packets: PacketFormat,
    *,
    multipath: bool = False,
    port_pairs: PortPairs | None = None,
) -> IdealTimes:
    """Return the completion times of flows alone on the first shortest path of each of their port
    pairs.

    Args:
        network: with n_hosts hosts.
        flows: valid for this network; start times and dependencies do not matter.
        packets: sizes on the wire.
        multipath: packets of a flow may take different paths (spraying, adaptive routing). All
            shortest paths must have the rates and delays of the first. If these together are slower
            than the hosts' links, a hop is as fast as its parallel links.
        port_pairs: the port pairs that each flow uses; default: all of its pairs.
    """
    port_pairs = port_pairs_of(network, flows) if port_pairs is None else port_pairs
    count = packet_counts(flows.size_bytes, packets)
    n = len(flows)
    last = flows.size_bytes - (count - 1) * packets.payload_bytes + packets.header_bytes
    times = PathTimes(network, packets, multipath)
    if port_pairs.src_port.size == n:
        fct = times.one_way(port_pairs.src_port, port_pairs.data_to, count, last)
    else:
        fct = _striped(times, port_pairs, count, last)
    back = _ways_back(times, port_pairs, packets)
    ack = np.minimum.reduceat(back, port_pairs.first[:-1])
    return IdealTimes(fct, fct + ack)


def hand_over_times(
    network: Network, flows: FlowTable, packets: PacketFormat, port_pairs: PortPairs
) -> Ints:
    """Return the minimum time until the last packet of each flow has left its source, at line rate.
    Exact for flows of one port pair that send at line rate; several port pairs count as one
    link."""
    count = packet_counts(flows.size_bytes, packets)
    last = flows.size_bytes - (count - 1) * packets.payload_bytes + packets.header_bytes
    rates = network.port_rate_bps[port_pairs.src_port]
    quotient = byte_quotient(rates)[port_pairs.first[:-1]]
    alone: Ints = (count - 1) * send_time(packets.data_bytes, quotient) + send_time(last, quotient)
    share = rates[port_pairs.first[:-1]] / np.add.reduceat(rates, port_pairs.first[:-1])
    return np.where(port_pairs.counts == 1, alone, (alone * share).astype(np.int64))


def round_trips(network: Network, port_pairs: PortPairs, packets: PacketFormat) -> Ints:
    """Return the time of a full packet and a control packet back, unqueued, on the slowest port
    pair."""
    times = PathTimes(network, packets, multipath=False)
    data = np.full(port_pairs.src_port.size, packets.data_bytes, np.int64)
    out = times.alone(port_pairs.src_port, port_pairs.data_to, data)
    back = _ways_back(times, port_pairs, packets)
    longest: Ints = np.maximum.reduceat(out + back, port_pairs.first[:-1])
    return longest


def _ways_back(times: PathTimes, port_pairs: PortPairs, packets: PacketFormat) -> Ints:
    """Return the time of a control packet back on each port pair; 0 without a route."""
    network, back = times.network, np.zeros(port_pairs.dst_port.size, np.int64)
    leads = np.ones(back.size, bool)
    if not network.reaches_all:
        leads = network.reaches(port_pairs.dst_port, port_pairs.control_back)
    control = np.full(int(leads.sum()), packets.control_bytes, np.int64)
    ends = port_pairs.dst_port[leads], port_pairs.control_back[leads]
    back[leads] = times.alone(*ends, control, control=True)
    return back


@frozen(eq=False)
class _Links:
    """Times on idle links, by the ports that send, and in the NIC that receives."""

    network: Network
    quotient: Ints
    needed: Ints
    # interval_ps, delay_ps: of the receiving NIC
    interval_ps: int
    delay_ps: int

    def send(self, size: Ints | int, port: Ints) -> Ints:
        """Return the time that a packet occupies a link."""
        return send_time(size, self.quotient[port])

    def cross(self, size: Ints | int, port: Ints) -> Ints:
        """Return the time from the start of a transmission to the packet's arrival."""
        before: Ints = self.send(np.minimum(size, self.needed[port]), port)
        return before + self.network.port_delay_ps[port]


@frozen
class PathTimes:
    """Times on idle paths from a host's port to an address."""

    network: Network
    packets: PacketFormat
    multipath: bool

    @property
    def full(self) -> int:
        return self.packets.data_bytes

    def _links(self, *, control: bool = False) -> _Links:
        nic = self.packets.nic or Nic()
        interval_ps, delay_ps = nic.data_interval_ps, nic.data_delay_ps
        if control:
            interval_ps, delay_ps = nic.ack_interval_ps, nic.ack_delay_ps
        needed = needed_bytes(self.network, self.packets)
        quotient = byte_quotient(self.network.port_rate_bps)
        return _Links(self.network, quotient, needed, interval_ps, delay_ps)

    def one_way(
        self, src: Ints, dst: Ints, count: Ints, last: Ints, *, control: bool = False
    ) -> Ints:
        """Return the time until the last of `count` packets, with `last` bytes, arrives."""
        arrival = np.empty(src.size, np.int64)
        links = self._links(control=control)
        path = _over_many_paths if self.multipath else _in_order
        for begin in range(0, src.size, BLOCK):
            part = slice(begin, begin + BLOCK)
            flows = (src[part], dst[part], count[part], self.full, last[part])
            arrival[part] = path(links, *flows)
        return arrival

    def alone(self, src: Ints, dst: Ints, size: Ints, *, control: bool = False) -> Ints:
        """Return the time until a single packet of `size` bytes on the wire arrives."""
        single = replace(self, multipath=False)
        return single.one_way(src, dst, np.ones_like(size), size, control=control)

    def gap(self, src: Ints, dst: Ints) -> Ints:
        """Return the minimum time between two full packets at the far end."""
        links = self._links()
        gap = np.full(src.size, links.interval_ps)
        for flow, port, delivers, _ in walk(self.network, src, dst):
            counts = delivers | (port < self.network.n_host_ports) | (not self.multipath)
            send = np.where(counts, links.send(self.full, port), 0)
            gap[flow] = np.maximum(gap[flow], send)
        return gap


def _striped(times: PathTimes, port_pairs: PortPairs, count: Ints, last: Ints) -> Ints:
    """Return the arrival of the last byte if packets are dealt to several port pairs optimally.

    With equal port pairs, one carries an extra full packet or the last packet in addition to an
    even share; neither can be avoided. With unequal ones, the bound is the later of two times: when
    all together can have delivered the full packets, and the last packet's time alone. It is less
    than a packet below the optimum.
    """
    first, n_pairs = port_pairs.first[:-1], port_pairs.counts
    flow = np.repeat(np.arange(count.size), n_pairs)
    ends = port_pairs.src_port, port_pairs.data_to
    head = times.alone(*ends, np.full(flow.size, times.full, np.int64))
    gap = times.gap(*ends)
    tail = times.alone(*ends, last[flow])
    others = count - 1  # full packets

    def fastest(packets: Ints, size: Ints) -> Ints:
        arrival = times.one_way(*ends, np.maximum(packets, 1)[flow], size[flow])
        best: Ints = np.minimum.reduceat(arrival, first)
        return np.where(packets > 0, best, 0)

    even = np.maximum(
        fastest(-(-others // n_pairs), np.full(count.size, times.full, np.int64)),
        fastest(others // n_pairs + 1, last),
    )
    alike = np.ones(count.size, bool)
    for what in (head, gap, tail):
        alike &= np.maximum.reduceat(what, first) == np.minimum.reduceat(what, first)

    # Binary search for the time by which all port pairs can have delivered the full packets.
    low = np.zeros(count.size, np.int64)
    high = np.minimum.reduceat(head + np.maximum(others - 1, 0)[flow] * gap, first)
    while (low < high).any():
        middle = (low + high) // 2
        delivered = np.maximum((middle[flow] - head) // gap + 1, 0)
        enough = np.add.reduceat(delivered, first) >= others
        low, high = np.where(enough, low, middle + 1), np.where(enough, middle, high)
    uneven = np.maximum(high, np.minimum.reduceat(tail, first))
    return np.where(alike, even, uneven)


def _over_many_paths(
    links: _Links, src: Ints, dst: Ints, count: Ints, full: int, last: Ints
) -> Ints:
    """Return the arrival of the last byte if packets spread over all shortest paths.

    Besides queueing at both ends, at each inner hop the busiest link that packets can spread over
    must carry its share of them.
    """
    first = np.where(count > 1, full, last)
    head = np.zeros(src.size, np.int64)  # when the first packet reaches a hop
    tail = np.zeros(src.size, np.int64)  # time of the last packet alone up to this hop
    latest = np.zeros(src.size, np.int64)
    width = np.ones(src.size, np.int64)
    for flow, port, delivers, parallel in walk(links.network, src, dst):
        width[flow] *= parallel
        share = -(-count[flow] // width[flow]) - 1
        wait = head[flow] - tail[flow] + share * links.send(full, port)
        inside = ~delivers & (port >= links.network.n_host_ports)
        latest[flow] = np.where(inside, np.maximum(latest[flow], wait), latest[flow])
        head[flow] += links.cross(first[flow], port)
        tail[flow] += links.cross(last[flow], port)
    sprayed = _sprayed(links, src, dst, count, full, last)
    arrival: Ints = np.maximum(sprayed, latest + tail + links.interval_ps + links.delay_ps)
    return arrival


def _in_order(links: _Links, src: Ints, dst: Ints, count: Ints, full: int, last: Ints) -> Ints:
    """Return the arrival of the last packet if all stay in order on one path."""
    head = np.zeros(src.size, np.int64)  # when the first packet, if full, reaches the next link
    slowest = np.zeros(src.size, np.int64)
    arrival = np.zeros(src.size, np.int64)  # when the last packet reaches the next link
    for flow, port, _, _ in walk(links.network, src, dst):
        send_full = links.send(full, port)
        slowest[flow] = np.maximum(slowest[flow], send_full)
        free = head[flow] + send_full + (count[flow] - 2) * slowest[flow]
        free[count[flow] == 1] = 0
        head[flow] += links.cross(full, port)
        arrival[flow] = np.maximum(free, arrival[flow]) + links.cross(last[flow], port)
    interval_ps = links.interval_ps
    free = head + interval_ps + (count - 2) * np.maximum(slowest, interval_ps)
    free[count == 1] = 0
    processed: Ints = np.maximum(free, arrival) + interval_ps
    return processed + links.delay_ps


def _sprayed(links: _Links, src: Ints, dst: Ints, count: Ints, full: int, last: Ints) -> Ints:
    """Return the arrival of the last byte if packets queue only at the first and the last link."""
    begin = np.zeros(src.size, np.int64)  # when the first packet, if full, reaches the last link
    tail = np.zeros(src.size, np.int64)  # time of the last packet alone up to there
    for flow, port, delivers, _ in walk(links.network, src, dst):
        through, out = flow[~delivers], port[~delivers]
        begin[through] += links.cross(full, out)
        tail[through] += links.cross(last[through], out)

    exit_port = links.network.port_peer[dst % links.network.n_host_ports].astype(np.int64)
    first_full = links.send(full, src)
    exit_full, exit_last = links.send(full, exit_port), links.send(last, exit_port)
    others = count - 1  # full packets; number k reaches the last link at `begin + k * first_full`
    shorter = others * first_full + tail  # when the last packet gets there
    ahead = np.clip((shorter - begin) // first_full + 1, 0, others)

    # A work-conserving server finishes at the maximum, over all arrivals, of the arrival plus the
    # work that arrives from then on. This is linear among full packets, so the first and last
    # packets before the shorter packet, and after it, suffice.
    def from_full(k: Ints, rest: Ints | int) -> Ints:
        finish: Ints = begin + k * first_full + (others - k) * exit_full + rest
        return finish

    finish = shorter + exit_last + (others - ahead) * exit_full
    for k in (np.zeros_like(ahead), ahead - 1):
        finish = np.where(ahead > 0, np.maximum(finish, from_full(k, exit_last)), finish)
    for k in (ahead, others - 1):
        finish = np.where(ahead < others, np.maximum(finish, from_full(k, 0)), finish)
    soonest = np.where(count > 1, np.minimum(begin + exit_full, shorter + exit_last), finish)
    processed = np.maximum(finish + links.interval_ps, soonest + count * links.interval_ps)
    arrival: Ints = processed + links.network.port_delay_ps[exit_port] + links.delay_ps
    return arrival


def message_times(
    network: Network,
    flows: FlowTable,
    relayed: RelaySegments | None,
    packets: PacketFormat,
    port_pairs: PortPairs,
    alone: IdealTimes | None,
) -> IdealTimes:
    """Return the times of the messages of `flows`, which may be `relayed`, alone in the network.
    `alone` are the times of flows over `port_pairs`, or None for messages over several queue pairs:
    these may use all paths and port pairs."""
    if alone is None:
        port_pairs = port_pairs_of(network, flows)
        alone = ideal_times(network, flows, packets, multipath=True, port_pairs=port_pairs)
    if relayed is None:
        return alone
    left = hand_over_times(network, flows, packets, port_pairs)
    fct, acked = alone.fct_ps, alone.acked_ps
    return IdealTimes(relayed.ideal_ps(fct, fct, left), relayed.ideal_ps(fct, acked, left))


def longest_chain_ps(tasks: TaskTable, flows: FlowTable, fct_ps: Ints, left_ps: Ints) -> int:
    """Return when the last task is done, or the last flow of a task is delivered.

    Args:
        tasks, flows: of one workload, without cycles.
        fct_ps, left_ps: int64[flows], from a flow's start until its receiver has it, and until it
            has left its sender.
    """
    n, first, then, takes_ps = _links(tasks, flows, fct_ps, left_ps)
    return int(longest_chains(n, first, then, takes_ps).max(initial=0))


def task_times(
    tasks: TaskTable, flows: FlowTable, fct_ps: Ints, left_ps: Ints
) -> tuple[Ints, Ints]:
    """Return int64[tasks] twice, when each task starts and ends; see `longest_chain_ps`."""
    n, first, then, takes_ps = _links(tasks, flows, fct_ps, left_ps)
    found = longest_chains(n, first, then, takes_ps)
    return found[: n - 1 : 2], found[1:n:2]


def _links(
    tasks: TaskTable, flows: FlowTable, fct_ps: Ints, left_ps: Ints
) -> tuple[int, Ints, Ints, Ints]:
    """Return the number of nodes, and edges between them with their minimum delays.

    Task k is two nodes: start 2k and end 2k + 1. A receive task starts when its flow is delivered
    and its dependencies are done.
    """
    n = len(tasks)
    row = np.arange(n)
    own_ps = tasks.duration_ps.copy()
    sends, receives = (tasks.of_flows(kind, len(flows)) for kind in (SEND, RECEIVE))
    own_ps[sends[sends >= 0]] += left_ps[sends >= 0]
    joined = np.flatnonzero((sends >= 0) & (receives >= 0))
    alone = np.flatnonzero((sends < 0) & (receives >= 0))
    latency_ps = tasks.duration_ps[sends[joined]]
    by_edges, stream_edges = tasks.edges(), tasks.stream_edges()
    # Flows that no task starts depend on an origin node at time 0.
    origin = 2 * n
    links = [
        (2 * row, 2 * row + 1, own_ps),
        (2 * by_edges[0] + 1, 2 * by_edges[1], np.zeros(by_edges[0].size, np.int64)),
        (2 * stream_edges[0] + 1, 2 * stream_edges[1], np.zeros(stream_edges[0].size, np.int64)),
        (2 * sends[joined], 2 * receives[joined], latency_ps + fct_ps[joined]),
        (np.full(alone.size, origin), 2 * receives[alone], flows.start_ps[alone] + fct_ps[alone]),
    ]
    first, then, takes_ps = (np.concatenate(side) for side in zip(*links, strict=True))
    return origin + 1, first, then, takes_ps


Choice = Callable[[Ints, Ints, Ints], Ints]  # (flow, node, number of ports) -> selected port

NO_LINK = -1
TIE = 1 + 1e-12  # ratio below which shares differ only by rounding


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
    hashing selects in a run with `seed` for data with entropy 0, the default of transports.

    This is a fluid model without packets, queues or losses, to compare with single-path transports
    under per-flow hashing. Each flow has its max-min fair rate (Bertsekas and Gallager, "Data
    Networks", section 6.5.2). On the same paths, no other sharing lets the last flow end earlier;
    the mean could be lower. Flows of one size that start together keep these rates until they end:
    the bottleneck link of a flow carries no faster flow, so none leaves it earlier, and capacity
    that becomes free on other links does not help.

    A flow uses `port_pairs`, each with one path that shares links like a flow. Its rate is their
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


def ecmp_paths(network: Network, src: Ints, dst: Ints, rng: Rng) -> Ints:
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
