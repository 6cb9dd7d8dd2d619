"""Every column of what `netsim trace` tells: of a flow's events, and of a critical path."""

from __future__ import annotations

from netsim.results.column import Column

TRACE = (
    Column("time_ps", "ps", "when it happened, since the start of the run"),
    Column(
        "event",
        "",
        "of a packet: create (control, put into its host's FIFO), send (a host begins to), arrive "
        "(at a switch's output port), forward (the port begins to send it), give (from that "
        "port; another one sends it, to a third switch), drop, trim, mark, lose "
        "(on the wire, after it left), no route (a switch has none for it), "
        "receive (by a host); of the sender's NIC: pause, resume (by "
        "PFC); sender, receiver: the state of that side after an event or a timer",
    ),
    Column("node", "node", "where; hosts come first"),
    Column("node_name", "", "name of node"),
    Column("to_name", "", "name of the node that the packet goes to next"),
    Column("port", "index", "port that the packet leaves by; at a host, the port of its NIC"),
    Column("packet", "index", "number of the packet, the same in all events of its journey"),
    Column("kind", "", "kind of the packet"),
    Column("seq", "index", "number that the packet carries, of data its place in the flow"),
    Column("aux", "", "another number that the packet carries; the transport gives it a meaning"),
    Column("size_bytes", "B", "size on the wire"),
    Column("traffic_class", "index", "traffic class, 0 is the highest"),
    Column("ecn", "", "bit 0: congestion experienced; bit 1: the echo of it"),
    Column("entropy", "", "what ECMP hashes beside the flow"),
    Column("hops", "links", "links crossed, the one that the packet is sent on included"),
    Column("again", "", "data that was sent before"),
    Column(
        "queue_bytes",
        "B",
        "bytes that the port held in the packet's class, the packet in transmission included: on "
        "arrival without this packet, later with it",
    ),
    Column("wait_ps", "ps", "time for which the packet waited before it was sent"),
    Column(
        "rtt_ps",
        "ps",
        "of a control packet that reaches the sender: since it sent the data that this answers",
    ),
    Column("timer", "", "timer (or start of the flow) whose handler ran; null after a packet's"),
    Column("tx.sent_packets", "packets", "data packets that the sender has sent"),
    Column("tx.retransmits", "packets", "those of them that it had sent before"),
    Column("rx.got_bytes", "B", "bytes that the receiver has"),
)

SEGMENTS = (
    Column("start_ps", "ps", "when it began: as the segment before it ended"),
    Column("end_ps", "ps", "when it ended"),
    Column(
        "what",
        "",
        "queue: a packet waited in a switch; transmission, propagation (with the latency of the "
        "switch that it entered); paused: by PFC; nic: the NIC was busy with other flows; "
        "sending: it sent earlier packets of the flow; pacing: the sender kept to its pace; "
        "timeout: a timer fired because something had not come; timer: another timer of the "
        "sender; receiver: the receiver spaced out its pulls, credits or grants, or served other "
        "flows first; other",
    ),
    Column("node_name", "", "name of the node at which the time was spent"),
    Column("to_name", "", "name of the node that the packet was to go to next"),
    Column("kind", "", "kind of the packet that waited or was on its way"),
    Column("seq", "index", "number that the packet carries"),
    Column("control", "", "whether it is a control packet"),
    Column("timer", "", "timer that fired at the end"),
    Column(
        "blocked",
        "",
        "the sender could send nothing before an event: kind of the packet that came, or the timer",
    ),
    Column("again", "index", "number of a packet that was lost, and was not yet sent again"),
)

CRITICAL = (
    Column("piece", "index", "number of the piece, in the order of time"),
    Column("start_ps", "ps", "when it began: as the piece before it ended"),
    Column("end_ps", "ps", "when it ended"),
    Column(
        "what",
        "",
        "compute: a compute task; formula: a collective that is timed by one; join: a task that "
        "takes no time; flow: a flow, from its start to its delivery; send: a flow until its send "
        "task was done (handed over or acknowledged); latency: of software, before a flow or a "
        "collective, or behind a delivery; start: until a flow was to start that waits for nothing",
    ),
    Column(
        "after",
        "",
        "why it began then: begin (nothing was before it), task (the last of the tasks that it "
        "waited for was done), stream (the compute task before it in its stream was), flow (that "
        "was delivered), own (the piece before it is the latency or the start of the same flow)",
    ),
    Column("host", "host", "where; of a flow its source"),
    Column("to", "host", "destination of a flow; else null"),
    Column("task", "index", "number of the task; null of what is no task"),
    Column("flow", "index", "number of the flow; null of what is none"),
    Column("operation", "index", "operation that begins or ends with the task; null if none does"),
    Column("stream", "index", "stream of what computes; null of what is in none"),
    Column("kind", "", "kind of the flow, or of the operation, if the traffic names kinds"),
    Column("label", "", "name that the traffic gave the task or the flow"),
    Column("ideal_ps", "ps", "what the flow takes alone in the network; null of what is no flow"),
)

STORY = (
    Column("start_ps", "ps", "when it began"),
    Column("end_ps", "ps", "when it ended, and the next row begins"),
    Column(
        "what",
        "",
        "queueing: its prompt waits; prefill: it is computed; kv: its KV cache is on its way; "
        "joining: it is there and waits for an iteration; decode: it is in one, whose end gives a "
        "token, or waits for the next; lost: its machine failed, and it has to begin again",
    ),
    Column("machine", "index", "of the row"),
    Column("token", "index", "output token that the row ends with, from 1; null of none"),
    Column(
        "iterations",
        "iterations",
        "of that machine that were under way; of prefill and decode: 1, with it in it",
    ),
    Column("batch", "sequences", "that decoded in these, all together"),
    Column("prompt_tokens", "tokens", "of prompts in these, all together"),
    Column("computing_ps", "ps", "of the row's time what these computed"),
    Column("network_ps", "ps", "of the row's time what these were on the network, or the KV cache"),
    Column("down_ps", "ps", "of the row's time what the machine was down; of kv 0"),
    Column("flow", "index", "of kv: the flow that was delivered last; else null"),
    Column("flow_ps", "ps", "of kv: the time that this flow took; else null"),
    Column("ideal_ps", "ps", "of kv: what it takes alone in the network; else null"),
)
