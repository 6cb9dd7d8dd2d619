"""The tables of `netsim trace --flow` and `netsim why`."""

from __future__ import annotations

from netsim.results.columns import TableSpec

TRACE = TableSpec.of(
    "trace",
    """
    time_ps            ps       time of the event since the start of the run
    event              -        packets: create (control, queued at its host), send (by a host),
        arrive (at a switch's output port), forward (by that port), indirect (from that port;
        another one sends it, to a third switch), drop, trim, mark, lost (on the wire), hold and
        replay (by a link's retry, after a loss), unroutable (no route at a switch), receive (by a
        host); the sender's NIC: pause, resume (PFC); sender, receiver: state of that side after an
        event or a timer
    node               node     node of the event; hosts come first
    node_name          -        name of node
    to_name            -        name of the node that the packet goes to next
    port               index    port that the packet leaves by; at a host, the port of its NIC
    packet             index    packet; the same in all its events
    kind               -        kind of the packet
    seq                index    number in the packet; for data, its place in the flow
    aux                -        second number in the packet, defined by the transport
    size_bytes         B        size on the wire
    traffic_class      index    traffic class, 0 is the highest
    ecn                -        bit 0: congestion experienced; bit 1: its echo
    entropy            -        value that ECMP hashes in addition to the flow
    hops               links    links crossed, including the one that the packet is sent on
    is_retransmit      -        data that was sent before
    queue_bytes        B        bytes in the packet's class at the port, including the packet in
        transmission: on arrival without this packet, later with it
    wait_ps            ps       time for which the packet waited before it was sent
    rtt_ps             ps       for a control packet at the sender: time since the data that it
        answers was sent
    timer              -        timer (or flow start) whose handler ran; null for a packet
    tx.sent_packets    packets  data packets sent by the sender
    tx.retransmits     packets  retransmissions among them
    rx.received_bytes  B        bytes that the receiver has
    """,
    of_run=False,
)

SEGMENTS = TableSpec.of(
    "segments",
    """
    start_ps      ps     start, which is the end of the segment before
    end_ps        ps     end
    segment_type  -      queue: waiting in a switch; transmission; propagation (with the latency of
        the switch that the packet enters); retry: until a link sent it again; paused: by PFC; nic:
        busy with other flows; sending: earlier packets of the flow; pacing: the sender's rate;
        timeout: a timer after a loss or a missing answer; timer: another timer of the sender;
        receiver: it paced pulls, credits or grants, or served other flows first; other
    node_name     -      name of the node
    to_name       -      name of the node that the packet goes to next
    port          index  port that the packet leaves by
    kind          -      kind of the packet that waited or was in flight
    seq           index  number in the packet
    control       -      whether it is a control packet
    timer         -      timer that fired at the end
    blocked       -      kind of the packet, or the timer, that the sender had to wait for
    lost_seq      index  number of a lost packet that was not yet retransmitted
    """,
    of_run=False,
)

BUDGET = TableSpec.of(
    "budget",
    """
    cause     -   cause of the part, such as incast; see docs/explain.md
    manner    -   how the time passed, such as queue, paused or slowed down
    place     -   link, host or instance; empty without one
    root      -   for PFC, the link whose queue made switches pause; else empty
    time_ps   ps  time; the parts add up to the whole
    flows     -   list of other flows whose packets went first
    flows_ps  -   list of the time in ps that each of them took
    """,
    of_run=False,
)

TABLES = (TRACE, SEGMENTS, BUDGET)
ORDER = 100
