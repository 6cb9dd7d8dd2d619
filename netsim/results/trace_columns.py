"""Columns of the tables of `netsim trace`."""

from __future__ import annotations

from netsim.results.column import Column

TRACE = (
    Column("time_ps", "ps", "time of the event since the start of the run"),
    Column(
        "event",
        "",
        "packets: create (control, queued at its host), send (by a host), arrive (at a switch's "
        "output port), forward (by that port), indirect (from that port; another one sends it, to "
        "a third switch), drop, trim, mark, lost (on the wire), unroutable (no route at a switch), "
        "receive (by a host); the sender's NIC: pause, resume (PFC); sender, receiver: state of "
        "that side after an event or a timer",
    ),
    Column("node", "node", "node of the event; hosts come first"),
    Column("node_name", "", "name of node"),
    Column("to_name", "", "name of the node that the packet goes to next"),
    Column("port", "index", "port that the packet leaves by; at a host, the port of its NIC"),
    Column("packet", "index", "packet; the same in all its events"),
    Column("kind", "", "kind of the packet"),
    Column("seq", "index", "number in the packet; for data, its place in the flow"),
    Column("aux", "", "second number in the packet, defined by the transport"),
    Column("size_bytes", "B", "size on the wire"),
    Column("traffic_class", "index", "traffic class, 0 is the highest"),
    Column("ecn", "", "bit 0: congestion experienced; bit 1: its echo"),
    Column("entropy", "", "value that ECMP hashes in addition to the flow"),
    Column("hops", "links", "links crossed, including the one that the packet is sent on"),
    Column("is_retransmit", "", "data that was sent before"),
    Column(
        "queue_bytes",
        "B",
        "bytes in the packet's class at the port, including the packet in transmission: on arrival "
        "without this packet, later with it",
    ),
    Column("wait_ps", "ps", "time for which the packet waited before it was sent"),
    Column(
        "rtt_ps",
        "ps",
        "for a control packet at the sender: time since the data that it answers was sent",
    ),
    Column("timer", "", "timer (or flow start) whose handler ran; null after a packet's"),
    Column("tx.sent_packets", "packets", "data packets sent by the sender"),
    Column("tx.retransmits", "packets", "retransmissions among them"),
    Column("rx.received_bytes", "B", "bytes that the receiver has"),
)

SEGMENTS = (
    Column("start_ps", "ps", "start, which is the end of the segment before"),
    Column("end_ps", "ps", "end"),
    Column(
        "segment_type",
        "",
        "queue: waiting in a switch; transmission; propagation (with the latency of the "
        "switch that the packet enters); paused: by PFC; nic: busy with other flows; sending: "
        "earlier packets of the flow; pacing: the sender's rate; timeout: a timer after a loss; "
        "timer: another timer of the sender; receiver: it paced pulls, credits or grants, or "
        "served other flows first; other",
    ),
    Column("node_name", "", "name of the node"),
    Column("to_name", "", "name of the node that the packet goes to next"),
    Column("kind", "", "kind of the packet that waited or was in flight"),
    Column("seq", "index", "number in the packet"),
    Column("control", "", "whether it is a control packet"),
    Column("timer", "", "timer that fired at the end"),
    Column(
        "blocked",
        "",
        "kind of the packet, or the timer, without which the sender could not send",
    ),
    Column("lost_seq", "index", "number of a lost packet that was not yet retransmitted"),
)

CRITICAL = (
    Column("segment", "index", "segment of the path, in order of time"),
    Column("start_ps", "ps", "start, which is the end of the segment before"),
    Column("end_ps", "ps", "end"),
    Column(
        "segment_type",
        "",
        "compute: a compute task; formula: a collective timed by a formula; join: a task without "
        "duration; flow: from its start to its delivery; send: a flow until its send task was done "
        "(handed over or acknowledged); latency: of software, before a flow or a collective or "
        "after a delivery; start: until the start time of a flow that waits for nothing",
    ),
    Column(
        "start_reason",
        "",
        "begin (nothing came before), task (the last awaited task ended), stream (the compute task "
        "before in the stream ended), flow (it was delivered), same_flow (after the latency or the "
        "start of the same flow)",
    ),
    Column("host", "host", "host; for a flow, its source"),
    Column("to", "host", "destination of a flow; else null"),
    Column("task", "index", "task; null if there is none"),
    Column("flow", "index", "flow; null if there is none"),
    Column("operation", "index", "operation that starts or ends with the task; null if none does"),
    Column("stream", "index", "stream of a compute task; null without one"),
    Column("kind", "", "kind of the flow or the operation, if the traffic names kinds"),
    Column("label", "", "name of the task or the flow in the traffic"),
    Column("ideal_ps", "ps", "completion time of the flow alone in the network; else null"),
)

REQUEST_LATENCY = (
    Column("start_ps", "ps", "start"),
    Column("end_ps", "ps", "end, which is the start of the next row"),
    Column(
        "stage",
        "",
        "queueing: the prompt waits; prefill: it is computed; kv: its KV cache is transferred; "
        "decode_queue: the cache has arrived and waits for an iteration; decode: in an iteration "
        "whose end gives a token, or between two; lost: the instance failed, and the request "
        "starts over",
    ),
    Column("instance", "index", "instance of the row"),
    Column("token", "index", "output token that ends the row, from 1; null without one"),
    Column(
        "iterations",
        "iterations",
        "iterations of the instance in that time; for prefill and decode 1, the request's own",
    ),
    Column("decode_batch", "sequences", "sequences that decoded in these, summed"),
    Column("prompt_tokens", "tokens", "prompt tokens in these, summed"),
    Column("computing_ps", "ps", "time in which these computed"),
    Column("network_ps", "ps", "time in which these, or the KV cache, were on the network"),
    Column("down_ps", "ps", "time for which the instance was down; 0 for kv"),
    Column("flow", "index", "for kv, the flow that was delivered last; else null"),
    Column("flow_ps", "ps", "for kv, the completion time of that flow; else null"),
    Column("ideal_ps", "ps", "for kv, its completion time alone in the network; else null"),
)
