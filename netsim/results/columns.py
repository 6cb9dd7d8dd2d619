"""Every column of every table that netsim writes: its unit and what it means.

The same text is stored in the Parquet files as metadata of the field (keys ``unit`` and ``doc``).
"""

from __future__ import annotations

from netsim.results.column import Column
from netsim.results.serving_columns import ITERATIONS, REQUESTS, SERVING_SWEEP
from netsim.results.trace_columns import CRITICAL, SEGMENTS, STORY, TRACE

FLOWS = (
    Column("flow", "index", "number of the flow, in the order in which the traffic gave them"),
    Column("src", "host", "host that sends"),
    Column("dst", "host", "host that receives"),
    Column("size_bytes", "B", "bytes to be delivered, headers not counted"),
    Column(
        "start_ps",
        "ps",
        "time at which the flow started; null if it never did",
        null_below_zero=True,
    ),
    Column(
        "fct_ps",
        "ps",
        "flow completion time: from the start until the receiver has all; null if unfinished",
        null_below_zero=True,
    ),
    Column(
        "acked_ps",
        "ps",
        "from the start until the sender knows that every byte has arrived; null if it does not",
        null_below_zero=True,
    ),
    Column("ideal_ps", "ps", "completion time of the same flow alone in the network"),
    Column("slowdown", "1", "fct_ps / ideal_ps; null if unfinished"),
    Column("packets", "packets", "data packets into which the flow is cut"),
    Column("packets_sent", "packets", "data packets sent, retransmissions included"),
    Column("retransmits", "packets", "data packets sent again"),
    Column("flow_kind", "", "kind of the flow, such as tp or pp; empty if the traffic names none"),
    Column("flow_class", "", "name of the flow's class, empty for those of none"),
    Column("traffic_class", "index", "traffic class of the flow's data, 0 is the highest"),
    Column("routing_table", "", "routing table of its data, if the network has several"),
    Column("label", "", "name that the traffic gave the flow"),
)

RELAY_SEGMENTS = (
    Column(
        "segment", "index", "number of the segment; the first of a message has that of its flow"
    ),
    Column("flow", "index", "the flow of flows.parquet whose bytes these are"),
    Column("chunk", "index", "which part of it, in the order in which they were sent"),
    Column("hop", "", "1: from the source to its peer; 2: from there to the destination"),
    Column("src", "host", "host that sends the segment"),
    Column("dst", "host", "host that receives it"),
    Column("size_bytes", "B", "bytes to be delivered, headers not counted"),
    Column(
        "start_ps",
        "ps",
        "time at which the segment started; null if it never did",
        null_below_zero=True,
    ),
    Column(
        "fct_ps",
        "ps",
        "from the segment's start until its receiver has all; null if unfinished",
        null_below_zero=True,
    ),
    Column("ideal_ps", "ps", "completion time of the same segment alone in the network"),
)

TASKS = (
    Column("task", "index", "number of the task, in the order in which the traffic gave them"),
    Column("host", "host", "host of the task"),
    Column("kind", "", "compute, send, receive or join"),
    Column(
        "stream",
        "index",
        "of a compute task: those of one stream of a host run one after the other; else null",
        null_below_zero=True,
    ),
    Column(
        "flow",
        "index",
        "flow that a send task starts and a receive task waits for; else null",
        null_below_zero=True,
    ),
    Column(
        "ready_ps",
        "ps",
        "time at which the tasks that it waits for were done; null if they are not",
        null_below_zero=True,
    ),
    Column(
        "start_ps",
        "ps",
        "time at which it started: its stream was free, or its flow delivered; null if it did not",
        null_below_zero=True,
    ),
    Column("end_ps", "ps", "time at which it was done; null if it is not", null_below_zero=True),
    Column("runs", "runs", "how often it was done; start_ps is that of the first time"),
    Column("busy_ps", "ps", "time for which it was under way, each time that it was done"),
    Column("label", "", "name that the traffic gave the task"),
)

OPERATIONS = (
    Column("operation", "index", "number of the operation, in the order in which they were noted"),
    Column("rank", "index", "rank of the job that does it"),
    Column("host", "host", "where the rank is"),
    Column(
        "stream",
        "index",
        "those of one stream of a rank run one after the other; null of what is in none",
        null_below_zero=True,
    ),
    Column("step", "index", "step that it belongs to"),
    Column("kind", "", "what it is for, such as tp, pp or dp; the kind of its flows"),
    Column("what", "", "compute, join, send, receive, or a collective, such as all_reduce"),
    Column("size_bytes", "B", "of the message, or of the collective's buffer"),
    Column(
        "group",
        "index",
        "number of the message or the collective that it is a part of; null of others",
        null_below_zero=True,
    ),
    Column("ranks", "ranks", "how many take part in that"),
    Column(
        "ready_ps",
        "ps",
        "time at which what it waits for at its rank was done; null if it is not",
        null_below_zero=True,
    ),
    Column(
        "start_ps",
        "ps",
        "when it started; for a receive, when its message left; null if it did not",
        null_below_zero=True,
    ),
    Column(
        "end_ps",
        "ps",
        "time at which it was done: a send when handed over to the network, a receive when "
        "delivered, a collective when both is so of all of its messages at this rank",
        null_below_zero=True,
    ),
    Column(
        "blocked_by",
        "index",
        "operation of the same rank whose end, as the last one, made it ready; null of what waited "
        "for none",
        null_below_zero=True,
    ),
    Column("formula", "", "whether it is a collective timed by a formula in place of packets"),
    Column(
        "algbw_bps",
        "bit/s",
        "of a message or a collective: its size by its time, from when the last rank began until "
        "the last one was done; null of what is timed by a formula",
    ),
    Column(
        "busbw_bps",
        "bit/s",
        "that, times 2 (n - 1) / n (all_reduce among n ranks), (n - 1) / n (reduce_scatter, "
        "all_gather, all_to_all, gather, scatter) or 1: comparable with rates of links",
    ),
    Column("label", "", "name that the traffic gave the operation"),
)

LINKS = (
    Column("link", "index", "number of the directed link, the same as of the port that feeds it"),
    Column("from_node", "node", "node whose port feeds the link; hosts come first"),
    Column("to_node", "node", "node at which the link ends"),
    Column("from_name", "", 'name of from_node; "h3:1" is port 1 of a host with several'),
    Column("to_name", "", "name of to_node, likewise"),
    Column("traffic_class", "index", "traffic class, 0 is the highest"),
    Column("rate_bps", "bit/s", "line rate"),
    Column("bytes", "B", "bytes sent, headers included"),
    Column("packets", "packets", "packets sent, data and control"),
    Column("drops", "packets", "packets dropped at the port's queue"),
    Column("drop_bytes", "B", "bytes of the dropped packets"),
    Column("lost", "packets", "packets lost on the link: bit errors, random loss, link down"),
    Column("lost_bytes", "B", "bytes of the lost packets"),
    Column("circuit_switch", "", "name of the circuit switch that the link goes through, or empty"),
    Column("no_circuit_drops", "packets", "of the lost packets those that met no circuit"),
    Column("no_circuit_bytes", "B", "bytes of these packets"),
    Column("unroutable", "packets", "packets that came in by the port and had no route onwards"),
    Column("unroutable_bytes", "B", "bytes of the packets without a route"),
    Column("trims", "packets", "packets cut to their header at the port's queue"),
    Column("ecn_marks", "packets", "packets marked by ECN at the port"),
    Column("max_queue_bytes", "B", "most bytes held at once, the packet in transmission included"),
    Column("pfc_pauses_sent", "frames", "PFC frames sent on the link that pause this class"),
    Column("paused_ps", "ps", "time for which this class of the port was paused"),
    Column("utilization", "1", "share of the line rate used, over the simulated time"),
    Column("mean_queue_bytes", "B", "bytes held, weighted with time, over the simulated time"),
    Column("p99_queue_bytes", "B", "bytes that were not exceeded for 99 % of it, within 1/32"),
)

FAULTS = (
    Column(
        "what",
        "",
        "down: the link was; rate: it had another one; loss: a packet of one byte was lost by "
        "chance; reroute: a switch had new routes",
    ),
    Column("link", "index", "number of the link; null for a switch", null_below_zero=True),
    Column("node", "node", "node whose port feeds the link, or the switch"),
    Column("node_name", "", "name of node"),
    Column("to_name", "", "name of the node at which the link ends"),
    Column("start_ps", "ps", "when it began"),
    Column("end_ps", "ps", "when it ends; null if it does not", null_below_zero=True),
    Column(
        "value",
        "1",
        "rate: in bit/s; loss: the chance; reroute: edge switches to which there is no way",
    ),
)

CIRCUIT_SLOTS = (
    Column("slot", "index", "slot, numbered as its phase"),
    Column("flows", "flows", "flows of the phase"),
    Column("bytes", "B", "payload of these flows"),
    Column(
        "reconfiguration_start_ps",
        "ps",
        "when the switches began to reconfigure; null if they did not",
        null_below_zero=True,
    ),
    Column("circuit_up_ps", "ps", "when the circuits of all switches are up", null_below_zero=True),
    Column(
        "start_ps",
        "ps",
        "when the first flow of the phase started; null if none did",
        null_below_zero=True,
    ),
    Column(
        "exposed_wait_ps",
        "ps",
        "time from that start to circuit_up_ps: 0 if the reconfiguration was hidden; null if one "
        "of the two did not happen",
        null_below_zero=True,
    ),
    Column(
        "end_ps",
        "ps",
        "when the last flow of the phase was delivered; null if one is missing",
        null_below_zero=True,
    ),
)

SERIES = (
    Column("time_ps", "ps", "when the interval ends, since the start of the run"),
    Column("interval_ps", "ps", "length of the interval; the last one may be shorter"),
    Column("what", "", "port, host or flow: what the row is of"),
    Column("number", "index", "number of the port (as of its link), of the host, or of the flow"),
    Column("name", "", "name of the port (its node and its place there), of the host, of the flow"),
    Column(
        "traffic_class", "index", "traffic class of the port; null otherwise", null_below_zero=True
    ),
    Column("mean_queue_bytes", "B", "of a port: bytes held, weighted with time"),
    Column(
        "max_queue_bytes", "B", "of a port: most bytes held in the interval", null_below_zero=True
    ),
    Column("sent_bytes", "B", "bytes on the wire that it began to send; of a flow: its data's"),
    Column("drops", "packets", "of a port: packets dropped", null_below_zero=True),
    Column("trims", "packets", "of a port: packets cut to their header", null_below_zero=True),
    Column("ecn_marks", "packets", "of a port: packets marked by ECN", null_below_zero=True),
    Column("paused_ps", "ps", "of a port: time for which it was paused", null_below_zero=True),
    Column("received_bytes", "B", "of a host: bytes on the wire", null_below_zero=True),
    Column("delivered_bytes", "B", "of a host or a flow: payload delivered", null_below_zero=True),
)

LOG = (
    Column("host", "host", "host at which the program noted the row; its own columns follow"),
    Column("time_ps", "ps", "when it did"),
)

SWEEP = (
    Column("point", "", "name of the point, which is also its folder"),
    Column("transport", "", "transport of the point"),
    Column("seed", "", "seed of the point"),
    Column(
        "status",
        "",
        "how the run ended: finished, time_limit, undelivered, stalled, interrupted, failed",
    ),
    Column("flows", "flows", "number of flows"),
    Column("flows_finished", "flows", "flows whose receiver has every byte"),
    Column("fct_mean_ps", "ps", "mean flow completion time of the finished flows"),
    Column("fct_p50_ps", "ps", "median flow completion time"),
    Column("fct_p99_ps", "ps", "99th percentile of the flow completion time"),
    Column("fct_max_ps", "ps", "longest flow completion time"),
    Column("slowdown_mean", "1", "mean slowdown of the finished flows"),
    Column("slowdown_p50", "1", "median slowdown"),
    Column("slowdown_p99", "1", "99th percentile of the slowdown"),
    Column("slowdown_max", "1", "largest slowdown"),
    Column(
        "ideal_max_ps", "ps", "longest ideal completion time: the slowest flow, had it been alone"
    ),
    Column(
        "fair_max_ps",
        "ps",
        "longest completion time if each flow shared every link of its path max-min fairly; where "
        "it has one path, by ecmp, and all are of one size and start together",
    ),
    Column("drops", "packets", "packets dropped by switches"),
    Column("lost", "packets", "packets lost on links"),
    Column("unroutable", "packets", "packets for which a switch had no route"),
    Column("trims", "packets", "packets cut to their header"),
    Column("ecn_marks", "packets", "packets marked by ECN"),
    Column("retransmits", "packets", "data packets sent again"),
    Column("pfc_pauses", "frames", "PFC frames that pause"),
    Column(
        "no_circuit_drops",
        "packets",
        "of the lost packets those that met no circuit, if there are any",
    ),
    Column(
        "circuit_duty_cycle",
        "1",
        "share of the time in which circuits were there, on average, if there are any",
    ),
    Column(
        "silent_flows",
        "flows",
        "flows of the series that sent packets again, and got nothing for longer than a round trip "
        "after a link went down",
    ),
    Column(
        "recovery_p50_ps",
        "ps",
        "median of how long after a link went down they got something again, the longest time each",
    ),
    Column("recovery_max_ps", "ps", "the longest of these"),
    Column("packet_hops", "packet-hops", "packets, data and control, times links crossed"),
    Column("packet_hops_per_s", "packet-hops/s", "speed of the simulation, compilation left out"),
    Column("simulated_ps", "ps", "simulated time at the end"),
    Column("wall_s", "s", "wall-clock time of the run"),
    Column("compile_s", "s", "wall-clock time of the compilation"),
    Column("step_ps", "ps", "mean time of a step, of a job"),
    Column("mfu", "1", "model FLOPs utilization: those of a step by what its ranks could do"),
    Column("exposed", "1", "share of its time in which ranks waited for communication under way"),
    Column("bubble", "1", "share of its time in which ranks waited for messages not yet sent"),
    Column("skew", "1", "share of its time in which ranks waited for others to join a collective"),
    *SERVING_SWEEP,
    Column("hash", "", "SHA-256 over flows, links, tasks, operations, series and log"),
)

COLUMNS: dict[str, dict[str, Column]] = {
    table: {column.name: column for column in columns}
    for table, columns in (
        ("flows", FLOWS),
        ("relay_segments", RELAY_SEGMENTS),
        ("tasks", TASKS),
        ("operations", OPERATIONS),
        ("requests", REQUESTS),
        ("iterations", ITERATIONS),
        ("links", LINKS),
        ("faults", FAULTS),
        ("circuit_slots", CIRCUIT_SLOTS),
        ("series", SERIES),
        ("log", LOG),
        ("sweep", SWEEP),
        ("trace", TRACE),
        ("segments", SEGMENTS),
        ("critical", CRITICAL),
        ("story", STORY),
    )
}


def describe(table: str, name: str) -> Column:
    """The documentation of a column; for one that is not known, a column without unit or text."""
    return COLUMNS[table].get(name, Column(name, "", ""))
