"""Every column of every table that netsim writes, with its unit and meaning.

Parquet files store the same text as metadata of each field (keys ``unit`` and ``doc``).
"""

from __future__ import annotations

from netsim.results.column import Column
from netsim.results.serving_columns import ITERATIONS, REQUESTS, SERVING_SWEEP
from netsim.results.trace_columns import CRITICAL, REQUEST_LATENCY, SEGMENTS, TRACE

FLOWS = (
    Column("flow", "index", "flow, in the order of the traffic"),
    Column("src", "host", "source"),
    Column("dst", "host", "destination"),
    Column("size_bytes", "B", "payload, without headers"),
    Column("start_ps", "ps", "start; null if the flow did not start", null_below_zero=True),
    Column(
        "fct_ps",
        "ps",
        "flow completion time: from the start until the receiver has every byte; null if "
        "unfinished",
        null_below_zero=True,
    ),
    Column(
        "acked_ps",
        "ps",
        "from the start until every byte is acknowledged; null if unfinished",
        null_below_zero=True,
    ),
    Column("ideal_ps", "ps", "completion time of the flow alone in the network"),
    Column("slowdown", "1", "fct_ps / ideal_ps; null if unfinished"),
    Column("packets", "packets", "data packets of the flow"),
    Column("packets_sent", "packets", "data packets sent, including retransmissions"),
    Column("retransmits", "packets", "data packets retransmitted"),
    Column("flow_kind", "", "kind of the flow, such as tp or pp; empty if the traffic names none"),
    Column("flow_class", "", "name of the flow class, or empty"),
    Column("traffic_class", "index", "traffic class of the data, 0 is the highest"),
    Column("routing_table", "", "routing table of the data, if the network has several"),
    Column("label", "", "name of the flow in the traffic"),
)

RELAY_SEGMENTS = (
    Column("segment", "index", "segment; the first one of a message has the number of its flow"),
    Column("flow", "index", "flow (flows.parquet) that is relayed"),
    Column("chunk", "index", "chunk of the flow, in the order of sending"),
    Column("hop", "", "1: from the source to the relay; 2: from the relay to the destination"),
    Column("src", "host", "host that sends the segment"),
    Column("dst", "host", "host that receives it"),
    Column("size_bytes", "B", "payload, without headers"),
    Column("start_ps", "ps", "start; null if the segment did not start", null_below_zero=True),
    Column(
        "fct_ps",
        "ps",
        "from the start until the receiver has every byte; null if unfinished",
        null_below_zero=True,
    ),
    Column("ideal_ps", "ps", "completion time of the segment alone in the network"),
)

TASKS = (
    Column("task", "index", "task, in the order of the traffic"),
    Column("host", "host", "host of the task"),
    Column("kind", "", "compute, send, receive or join"),
    Column(
        "stream",
        "index",
        "stream of a compute task; tasks of a host's stream run in sequence; else null",
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
        "when the tasks that it waits for were done; null if they are not",
        null_below_zero=True,
    ),
    Column(
        "start_ps",
        "ps",
        "start: its stream was free, or its flow delivered; null if it did not start",
        null_below_zero=True,
    ),
    Column("end_ps", "ps", "end; null if it is not done", null_below_zero=True),
    Column("runs", "runs", "number of runs; start_ps is that of the first"),
    Column("busy_ps", "ps", "duration of all its runs"),
    Column("label", "", "name of the task in the traffic"),
)

OPERATIONS = (
    Column("operation", "index", "operation, in the order of the traffic"),
    Column("rank", "index", "rank that performs it"),
    Column("host", "host", "host of the rank"),
    Column(
        "stream",
        "index",
        "stream; operations of a rank's stream run in sequence; null without one",
        null_below_zero=True,
    ),
    Column("step", "index", "step that it belongs to"),
    Column("kind", "", "purpose, such as tp, pp or dp; the kind of its flows"),
    Column("operation_type", "", "compute, join, send, receive, or a collective as all_reduce"),
    Column("size_bytes", "B", "size of the message, or of the collective's buffer"),
    Column(
        "group",
        "index",
        "message or collective that it is part of; null for others",
        null_below_zero=True,
    ),
    Column("ranks", "ranks", "ranks that take part in the message or collective"),
    Column(
        "ready_ps",
        "ps",
        "when the operations that it waits for at its rank were done; null if they are not",
        null_below_zero=True,
    ),
    Column(
        "start_ps",
        "ps",
        "start; for a receive, when its message left; null if it did not start",
        null_below_zero=True,
    ),
    Column(
        "end_ps",
        "ps",
        "end: a send when handed over to the network, a receive when delivered, a collective when "
        "both hold for all its messages at this rank; null if it is not done",
        null_below_zero=True,
    ),
    Column(
        "blocked_by",
        "index",
        "operation of the same rank that ended last of those it waited for; null without any",
        null_below_zero=True,
    ),
    Column("is_analytic", "", "whether it is a collective timed by a formula, without packets"),
    Column(
        "algbw_bps",
        "bit/s",
        "algorithm bandwidth of a message or collective: size over the time from the last rank's "
        "start to the last rank's end; null if timed by a formula",
    ),
    Column(
        "busbw_bps",
        "bit/s",
        "bus bandwidth: algbw_bps times 2 (n - 1) / n (all_reduce among n ranks), (n - 1) / n "
        "(reduce_scatter, all_gather, all_to_all, gather, scatter) or 1; comparable to link rates",
    ),
    Column("label", "", "name of the operation in the traffic"),
)

LINKS = (
    Column("link", "index", "directed link, numbered as the port that feeds it"),
    Column("from_node", "node", "node whose port feeds the link; hosts come first"),
    Column("to_node", "node", "node at the end of the link"),
    Column("from_name", "", 'name of from_node; "h3:1" is port 1 of a host with several'),
    Column("to_name", "", "name of to_node, likewise"),
    Column("traffic_class", "index", "traffic class, 0 is the highest"),
    Column("rate_bps", "bit/s", "line rate"),
    Column("bytes", "B", "bytes sent, including headers"),
    Column("packets", "packets", "packets sent, data and control"),
    Column("drops", "packets", "packets dropped at the port's queue"),
    Column("drop_bytes", "B", "bytes of the dropped packets"),
    Column("lost", "packets", "packets lost on the link: bit errors, random loss, link down"),
    Column("lost_bytes", "B", "bytes of the lost packets"),
    Column("circuit_switch", "", "circuit switch that the link goes through, or empty"),
    Column(
        "no_circuit_drops", "packets", "packets lost because no circuit was up; included in lost"
    ),
    Column("no_circuit_bytes", "B", "bytes of these packets"),
    Column("unroutable", "packets", "packets that arrived by the port and had no route"),
    Column("unroutable_bytes", "B", "bytes of these packets"),
    Column("trims", "packets", "packets trimmed to their header at the port's queue"),
    Column("ecn_marks", "packets", "packets marked by ECN at the port"),
    Column("max_queue_bytes", "B", "largest queue, including the packet in transmission"),
    Column("pfc_pauses_sent", "frames", "PFC frames sent on the link that pause this class"),
    Column("paused_ps", "ps", "time for which this class of the port was paused"),
    Column("utilization", "1", "share of the line rate used, over the simulated time"),
    Column("mean_queue_bytes", "B", "time-weighted mean of the queue, over the simulated time"),
    Column("p99_queue_bytes", "B", "time-weighted 99th percentile of the queue, within 1/32"),
)

FAULTS = (
    Column(
        "event",
        "",
        "down: the link was down; rate: it had another rate; loss: it lost packets; reroute: a "
        "switch had new routes",
    ),
    Column("link", "index", "link; null for a switch", null_below_zero=True),
    Column("node", "node", "node whose port feeds the link, or the switch"),
    Column("node_name", "", "name of node"),
    Column("to_name", "", "name of the node at the end of the link"),
    Column("start_ps", "ps", "start"),
    Column("end_ps", "ps", "end; null without one", null_below_zero=True),
    Column(
        "value",
        "1",
        "rate: bit/s; loss: probability for a packet of one byte; reroute: edge switches without a "
        "route",
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
    Column("time_ps", "ps", "end of the interval, since the start of the run"),
    Column("interval_ps", "ps", "length of the interval; the last one may be shorter"),
    Column("entity", "", "port, host or flow"),
    Column("entity_index", "index", "number of the port (as of its link), the host or the flow"),
    Column("name", "", "name of the port (its node and its place there), the host or the flow"),
    Column(
        "traffic_class", "index", "traffic class of the port; null otherwise", null_below_zero=True
    ),
    Column("mean_queue_bytes", "B", "port: time-weighted mean of the queue"),
    Column("max_queue_bytes", "B", "port: largest queue in the interval", null_below_zero=True),
    Column("sent_bytes", "B", "bytes that it began to send, with headers; flow: of its data"),
    Column("drops", "packets", "port: packets dropped", null_below_zero=True),
    Column("trims", "packets", "port: packets trimmed to their header", null_below_zero=True),
    Column("ecn_marks", "packets", "port: packets marked by ECN", null_below_zero=True),
    Column("paused_ps", "ps", "port: time for which it was paused", null_below_zero=True),
    Column("received_bytes", "B", "host: bytes received, with headers", null_below_zero=True),
    Column("delivered_bytes", "B", "host, flow: payload delivered", null_below_zero=True),
)

LOG = (
    Column("host", "host", "host whose program logged the row; the program's columns follow"),
    Column("time_ps", "ps", "time of the row"),
)

SWEEP = (
    Column("point", "", "name of the point, which is also its directory"),
    Column("transport", "", "transport of the point"),
    Column("seed", "", "seed of the point"),
    Column(
        "status",
        "",
        "how the run ended: finished, time_limit, undelivered, stalled, interrupted or failed",
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
    Column("ideal_max_ps", "ps", "longest ideal completion time"),
    Column(
        "fair_max_ps",
        "ps",
        "longest completion time with max-min fair shares of all links; for ecmp with one path per "
        "flow, and flows of one size that start together",
    ),
    Column("drops", "packets", "packets dropped by switches"),
    Column("lost", "packets", "packets lost on links"),
    Column("unroutable", "packets", "packets without a route at a switch"),
    Column("trims", "packets", "packets trimmed to their header"),
    Column("ecn_marks", "packets", "packets marked by ECN"),
    Column("retransmits", "packets", "data packets retransmitted"),
    Column("pfc_pauses", "frames", "PFC frames that pause"),
    Column(
        "no_circuit_drops", "packets", "packets lost because no circuit was up; included in lost"
    ),
    Column("circuit_duty_cycle", "1", "mean share of the time for which circuits were up"),
    Column(
        "silent_flows",
        "flows",
        "flows of the series that retransmitted, and received nothing for longer than a round trip "
        "after a link went down",
    ),
    Column("recovery_p50_ps", "ps", "median over these flows of their longest such silence"),
    Column("recovery_max_ps", "ps", "longest of these silences"),
    Column("packet_hops", "packet-hops", "packets, data and control, times links crossed"),
    Column("packet_hops_per_s", "packet-hops/s", "speed of the simulation, without compilation"),
    Column("simulated_ps", "ps", "simulated time at the end"),
    Column("wall_s", "s", "wall-clock time of the run"),
    Column("compile_s", "s", "wall-clock time of the compilation"),
    Column("step_ps", "ps", "mean time of a job's step"),
    Column("mfu", "1", "model FLOPs utilization of a step"),
    Column("exposed", "1", "share of step time in which ranks waited for communication"),
    Column("bubble", "1", "share of step time in which ranks waited for messages not yet sent"),
    Column("skew", "1", "share of step time in which ranks waited for others in a collective"),
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
        ("request_latency", REQUEST_LATENCY),
    )
}


def describe(table: str, name: str) -> Column:
    """Return the documentation of a column, empty for an unknown one."""
    return COLUMNS[table].get(name, Column(name, "", ""))
