"""Closed-form completion times of a flow that has the network to itself.

A flow of n packets crosses L links, store and forward. Packet 0..n-1 leave the source one
after the other; all have the same size on the wire but the last one, which carries the rest.
With `s_i` the time to send a full packet on link i, `r_i` the last packet, `d_i` the delay:

    finish_i(k)    = d_0 + s_0 + ... + d_(i-1) + s_i + k * max(s_0, ..., s_i)     full packets
    finish_i(last) = max(finish_i(n-2), finish_(i-1)(last) + d_(i-1)) + r_i

which is exact in integers, for any rates. The acknowledged time adds one control packet
that meets no queue on its way back.

If packets may take different paths, the last and shorter packet can overtake, and a link
inside the network need not carry all of them. Then the time is that of packets which queue
only at the first and at the last link: no work-conserving order of arrival is faster.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from netsim.model.arithmetic import byte_quotient, send_time
from netsim.model.fabric import packet_counts
from netsim.model.paths import walk

if TYPE_CHECKING:
    from netsim.model.fabric import PacketFormat
    from netsim.model.flows import FlowTable
    from netsim.model.network import Network

# Flows handled at once: their arrays stay in the processor's cache.
BLOCK = 1 << 15

Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class IdealTimes:
    """Times of each flow when alone, counted from its start.

    Attributes:
        fct_ps: int64[n], until the receiver has the last byte.
        acked_ps: int64[n], until the sender has the acknowledgement of the last packet.
    """

    fct_ps: Ints
    acked_ps: Ints


def ideal_times(
    network: Network, flows: FlowTable, packets: PacketFormat, *, multipath: bool = False
) -> IdealTimes:
    """Completion times of each flow alone on its first shortest path.

    Args:
        network: with n_hosts hosts.
        flows: valid for this network; start times and dependencies do not matter.
        packets: sizes on the wire.
        multipath: packets of one flow may take different paths (spraying, adaptive routing).
            All shortest paths must have the rates and delays of the first; where they are
            narrower together than the hosts' links, a hop is as fast as its parallel links are.
    """
    fct_ps = np.empty(len(flows), np.int64)
    acked_ps = np.empty(len(flows), np.int64)
    quotient = byte_quotient(network.port_rate_bps)
    one_way = _over_many_paths if multipath else _in_order
    for begin in range(0, len(flows), BLOCK):
        part = slice(begin, begin + BLOCK)
        src, dst = flows.src[part].astype(np.int64), flows.dst[part].astype(np.int64)
        count = packet_counts(flows.size_bytes[part], packets)
        full = packets.payload_bytes + packets.header_bytes
        last = flows.size_bytes[part] - (count - 1) * packets.payload_bytes + packets.header_bytes
        fct = one_way(network, quotient, src, dst, count, full, last)
        control = np.full(src.size, packets.control_bytes, np.int64)
        single = np.ones(src.size, np.int64)
        ack = _in_order(network, quotient, dst, src, single, full, control)
        fct_ps[part], acked_ps[part] = fct, fct + ack
    return IdealTimes(fct_ps, acked_ps)


def _over_many_paths(
    network: Network, quotient: Ints, src: Ints, dst: Ints, count: Ints, full: int, last: Ints
) -> Ints:
    """Arrival of the last byte if packets spread over all shortest paths.

    Besides queueing at both ends, this counts for each hop inside that the busiest of the links
    that packets can have spread over by then has to take its share of them.
    """
    first = np.where(count > 1, full, last)
    head = np.zeros(src.size, np.int64)  # when the first packet reaches a hop
    tail = np.zeros(src.size, np.int64)  # how long the last one would take so far, alone
    latest = np.zeros(src.size, np.int64)
    width = np.ones(src.size, np.int64)
    for flow, port, delivers, parallel in walk(network, src, dst):
        width[flow] *= parallel
        share = -(-count[flow] // width[flow]) - 1
        wait = head[flow] - tail[flow] + share * send_time(full, quotient[port])
        inside = ~delivers & (port >= network.n_hosts)
        latest[flow] = np.where(inside, np.maximum(latest[flow], wait), latest[flow])
        delay = network.port_delay_ps[port]
        head[flow] += send_time(first[flow], quotient[port]) + delay
        tail[flow] += send_time(last[flow], quotient[port]) + delay
    sprayed = _sprayed(network, quotient, src, dst, count, full, last)
    arrival: Ints = np.maximum(sprayed, latest + tail)
    return arrival


def _in_order(
    network: Network, quotient: Ints, src: Ints, dst: Ints, count: Ints, full: int, last: Ints
) -> Ints:
    """Arrival of the last packet if all stay in order on one path; arrays of one length."""
    head = np.zeros(src.size, np.int64)  # when the first packet, if full, reaches the next link
    slowest = np.zeros(src.size, np.int64)
    arrival = np.zeros(src.size, np.int64)  # when the last packet reaches the next link
    for flow, port, _, _ in walk(network, src, dst):
        delay = network.port_delay_ps[port]
        send_full = send_time(full, quotient[port])
        slowest[flow] = np.maximum(slowest[flow], send_full)
        before = head[flow] + send_full + (count[flow] - 2) * slowest[flow]
        before[count[flow] == 1] = 0
        finish = np.maximum(before, arrival[flow]) + send_time(last[flow], quotient[port])
        head[flow] += send_full + delay
        arrival[flow] = finish + delay
    return arrival


def _sprayed(
    network: Network, quotient: Ints, src: Ints, dst: Ints, count: Ints, full: int, last: Ints
) -> Ints:
    """Arrival of the last byte if packets queue only at the first and the last link."""
    crossing_full = np.zeros(src.size, np.int64)  # first link's delay to reaching the last link
    crossing_last = np.zeros(src.size, np.int64)
    for flow, port, delivers, _ in walk(network, src, dst):
        through, out = flow[~delivers], port[~delivers]
        inside = out >= network.n_hosts  # the first link is the only one that leaves a host
        delay = network.port_delay_ps[out]
        crossing_full[through] += delay + inside * send_time(full, quotient[out])
        crossing_last[through] += delay + inside * send_time(last[through], quotient[out])

    exit_port = _exit_ports(network, dst)
    first_full, first_last = send_time(full, quotient[src]), send_time(last, quotient[src])
    exit_full, exit_last = (
        send_time(full, quotient[exit_port]),
        send_time(last, quotient[exit_port]),
    )
    others = count - 1  # full packets; number k reaches the last link at `begin + k * first_full`
    begin = first_full + crossing_full
    shorter = others * first_full + first_last + crossing_last  # when the last packet gets there
    ahead = np.clip((shorter - begin) // first_full + 1, 0, others)

    # A server that never idles while there is work finishes at the maximum, over all arrivals,
    # of the arrival plus the work that arrives from then on. Between full packets this is
    # linear, so that the ends suffice: those not after the shorter packet, and those after it.
    def from_full(k: Ints, rest: Ints | int) -> Ints:
        finish: Ints = begin + k * first_full + (others - k) * exit_full + rest
        return finish

    finish = shorter + exit_last + (others - ahead) * exit_full
    for k in (np.zeros_like(ahead), ahead - 1):
        finish = np.where(ahead > 0, np.maximum(finish, from_full(k, exit_last)), finish)
    for k in (ahead, others - 1):
        finish = np.where(ahead < others, np.maximum(finish, from_full(k, 0)), finish)
    arrival: Ints = finish + network.port_delay_ps[exit_port]
    return arrival


def _exit_ports(network: Network, host: Ints) -> Ints:
    """Global port at the edge switch of each host."""
    return network.port_peer[host].astype(np.int64)
