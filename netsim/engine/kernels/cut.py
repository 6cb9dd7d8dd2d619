"""What nodes of one part of the network send to those of others (`partition.py`).

Every part has arrays for the whole network. It steps its own nodes only: others have no next event.
A link that enters or leaves the part has two chains of packets: the sender's part empties its own
when it hands the packets over, and the receiver's part appends them to the other.
"""

from __future__ import annotations

from typing import NamedTuple

from netsim.engine.kernels.fields import (
    NO_FLOW,
    FlowId,
    GlobalPort,
    NodeId,
    Numbers,
    PacketRecord,
    Ps,
    Records,
    span,
)
from netsim.engine.kernels.layout import Clock, HostState, LinkState, Net, include
from netsim.engine.kernels.links import first_slot, next_slot
from netsim.engine.kernels.loop import (
    expect,
    forget_event,
    note_delivery,
    release_followers,
    start_reconfigurations,
)
from netsim.engine.kernels.specialization_constants import PHASE_DRIVEN
from netsim.engine.kernels.switch import prefetch_link


class Cut(NamedTuple):
    """The links between a part and others, part by part in the order of ports."""

    own: Numbers[NodeId, int]  # int64[n_nodes]: 1 if the node belongs to this part
    outgoing: Numbers[int, GlobalPort]  # int64[...]: own ports ...
    sent: Numbers[int, int]  # int64[...]: ... and packets that they sent
    incoming: Numbers[int, GlobalPort]  # int64[...]: other parts' ports ...
    received: Numbers[int, int]  # int64[...]: ... and packets that they sent
    outbox: Records[int, PacketRecord]  # packets sent, link after link ...
    inbox: Records[int, PacketRecord]  # ... and received
    flows: Numbers[int, FlowId]  # int64[...]: flows delivered, for others


def hand_over(net: Net, links: LinkState, cut: Cut) -> int:
    """Move the packets of outgoing links to the outbox. Return their number, or minus that if it
    has too little room."""
    n = 0
    for k in range(cut.outgoing.shape[0]):
        reader = links.readers[net.port_peer[cut.outgoing[k]]]
        cut.sent[k] = reader.tail - reader.head
        n += cut.sent[k]
    if n > cut.outbox.shape[0]:
        return -n
    n = 0
    for k in range(cut.outgoing.shape[0]):
        if k + 1 < cut.outgoing.shape[0]:
            prefetch_link(links, links.readers[net.port_peer[cut.outgoing[k + 1]]])
        reader = links.readers[net.port_peer[cut.outgoing[k]]]
        while reader.head < reader.tail:
            slot = first_slot(links, 0, reader)
            some = min(reader.tail, reader.block_end) - reader.head
            for i in range(some):
                cut.outbox[n + i] = links.pool[slot + i]
            reader.head += some
            n += some
    return n


def take_over(net: Net, links: LinkState, clock: Clock, cut: Cut) -> None:
    """Append the packets of the inbox to incoming links, and publish them."""
    n = 0
    for k in range(cut.incoming.shape[0]):
        if cut.received[k] == 0:
            continue
        port = links.ports[cut.incoming[k]]
        peer = net.port_peer[cut.incoming[k]]
        to = net.port_node[peer]
        expect(clock, to, cut.inbox[n].time)
        last = n + cut.received[k]
        while n < last:
            slot = next_slot(links, 0, port)
            some = min(last - n, port.block_end - port.tail)
            for i in range(some):
                links.pool[slot + i] = cut.inbox[n + i]
            port.tail += some
            n += some
        links.readers[peer].tail = port.tail
        if to >= net.n_hosts:
            include(links.unread, net.first_word[to], peer - net.first_port[to])


def list_delivered(hosts: HostState, clock: Clock, cut: Cut) -> int:
    """List delivered flows that other parts may wait for; return their number."""
    window = clock.clock[0]
    n = 0
    flow = window.last_delivered
    window.last_delivered = NO_FLOW
    while flow >= 0:
        rx = hosts.rx[flow]
        waits = False
        if PHASE_DRIVEN:
            waits = hosts.phase[flow] >= 0
        for j in range(hosts.next_flow[flow], hosts.next_flow[FlowId(flow + 1)]):
            host = hosts.tx[hosts.next_flows[j]].host
            if cut.own[host] == 0:
                waits = True
                forget_event(clock, host)
        if waits:
            cut.flows[n] = flow
            n += 1
        flow = rx.next_done
    return n


def note_delivered(
    net: Net,
    links: LinkState,
    hosts: HostState,
    clock: Clock,
    cut: Cut,
    delivered: Numbers[tuple[int, int], int],
) -> None:
    """Start own flows that waited for flows delivered elsewhere. ``delivered`` has the number of
    each flow and its time of delivery."""
    for i in range(delivered.shape[0]):
        rx = hosts.rx[FlowId(delivered[i, 0])]
        rx.done_ps = Ps(delivered[i, 1])
        if PHASE_DRIVEN:
            note_delivery(hosts, clock, rx)
        release_followers(hosts, clock, rx)
        for j in range(hosts.next_flow[rx.flow], hosts.next_flow[FlowId(rx.flow + 1)]):
            host = hosts.tx[hosts.next_flows[j]].host
            if cut.own[host] == 0:
                forget_event(clock, host)
    if PHASE_DRIVEN:
        start_reconfigurations(net, links, clock)
        for node in span(NodeId(0), NodeId(cut.own.shape[0])):
            if cut.own[node] == 0:
                forget_event(clock, node)


ENTRY_POINTS = (hand_over, take_over, list_delivered, note_delivered)
