"""Flows and relay segments: tables, metrics and fairness."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from netsim.errors import InputError
from netsim.model.arithmetic import byte_quotient, send_time
from netsim.model.fabric import DROP_TAIL, ECMP, packet_counts
from netsim.model.ideal import hashed_times, ideal_times
from netsim.model.port_pairs import DEALT_EVENLY, ENTROPY
from netsim.results.columns import Metric, TableSpec
from netsim.results.run_result import Run, Table
from netsim.units import format_time

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from netsim.engine.engine import Engine
    from netsim.engine.state_views import FlowStates
    from netsim.experiment import Point
    from netsim.experiment.scenario import Scenario
    from netsim.model.columns import Ints
    from netsim.model.flows import FlowTable
    from netsim.model.ideal import IdealTimes
    from netsim.model.relays import RelaySegments


FLOWS = TableSpec.of(
    "flows",
    """
    flow              index    flow, in the order of the traffic
    src               host     source
    dst               host     destination
    size_bytes        B        payload, without headers
    start_ps?         ps       start; null if the flow did not start
    fct_ps?           ps       flow completion time: from the start until the receiver has every
        byte; null if unfinished
    acked_ps?         ps       from the start until every byte is acknowledged; null if unfinished
    ideal_ps          ps       completion time of the flow alone in the network, without faults
    slowdown          1        fct_ps / ideal_ps; null if unfinished
    packets           packets  data packets of the flow
    packets_sent      packets  data packets sent, including retransmissions
    retransmits       packets  data packets retransmitted
    delivered_bytes*  B        payload that the receiver has at the end
    window_bytes*     B        payload delivered in the window of [measure]
    flow_kind*        -        kind of the flow, such as tp or pp; empty if the traffic names none
    flow_class*       -        name of the flow class, or empty
    job*              -        name of the job of traffic `jobs`, or empty
    traffic_class     index    traffic class of the data, 0 is the highest
    routing_table*    -        routing table of the data, if the network has several
    label*            -        name of the flow in the traffic
    """,
    hash_order=1,
)

RELAY_SEGMENTS = TableSpec.of(
    "relay_segments",
    """
    segment     index  segment; the first one of a message has the number of its flow
    flow        index  flow (flows.parquet) that is relayed or sent over several queue pairs
    chunk       index  chunk of the flow, in the order of sending
    hop         -      1: from the source to the relay; 2: from the relay to the destination; 0: not
        relayed
    queue_pair* index  queue pair of the chunk, if there are several
    src         host   host that sends the segment
    dst         host   host that receives it
    size_bytes  B      payload, without headers
    start_ps?   ps     start; null if the segment did not start
    fct_ps?     ps     from the start until the receiver has every byte; null if unfinished
    ideal_ps    ps     completion time of the segment alone in the network
    """,
)

CONTROL = "control"  # kind of flows that only announce others, as in serving

TABLES = (FLOWS, RELAY_SEGMENTS)
ORDER = 10

SWEEP = Metric.each("""
flows                   flows    flows                   number of flows
flows_finished          flows    flows_finished          flows whose receiver has every byte
control_flows           flows    control_flows           flows of kind control, which no statistics
    include
control_flows_finished  flows    control_flows_finished  those of them whose receiver has every byte
fct_mean_ps             ps       fct_ps.mean             mean flow completion time of the finished
    flows
fct_p50_ps              ps       fct_ps.p50              median flow completion time
fct_p99_ps              ps       fct_ps.p99              99th percentile of the flow completion time
fct_max_ps              ps       fct_ps.max              longest flow completion time
slowdown_mean           1        slowdown.mean           mean slowdown of the finished flows
slowdown_p50            1        slowdown.p50            median slowdown
slowdown_p99            1        slowdown.p99            99th percentile of the slowdown
slowdown_max            1        slowdown.max            largest slowdown
ideal_max_ps#           ps       ideal_max_ps            longest ideal completion time
fair_max_ps             ps       fair_ps.max             longest completion time with max-min fair
    shares of all links; for ecmp with one path per flow, and flows of one size that start together
retransmits             packets  retransmits             data packets retransmitted
jain_index              1        jain_index              Jain's fairness index of the finished
    flows' throughputs: 1 if all are equal, 1/n if one of n has all
""")


def simulated_flows(
    point: Point, scenario: Scenario, states: FlowStates
) -> tuple[Table, Table | None]:
    """Return the tables of simulated flows and of relay segments."""
    done_ps, segments = states.done_ps, scenario.segments
    start_ps = np.where(states.waits_for > 0, -1, states.start_ps)
    acked_ps = np.where(done_ps >= 0, states.acked_ps, -1)
    counts = np.array(states.sent_packets), np.array(states.retransmits)
    delivered = np.array(states.received_bytes)
    cls = np.array(states.traffic_class)
    table = None
    if segments is not None:
        table = _segments(scenario, segments, start_ps, done_ps)
        n = len(segments.flows)
        start_ps, cls = start_ps[:n], cls[:n]
        done_ps, acked_ps = segments.latest(done_ps), segments.latest(acked_ps)
        counts = segments.total(counts[0]), segments.total(counts[1])
        delivered = segments.at_destination(delivered)
    outcome: Table = {
        "start_ps": start_ps,
        "fct_ps": np.where(done_ps >= 0, done_ps - start_ps, -1),
        "acked_ps": np.where(acked_ps >= 0, acked_ps - start_ps, -1),
        "packets_sent": counts[0],
        "retransmits": counts[1],
        "delivered_bytes": delivered,
        "traffic_class": cls,
    }
    return _table(point, scenario, outcome), table


def as_sent(point: Point, scenario: Scenario, states: FlowStates) -> Scenario:
    """Return the scenario with the sizes that a program set, and their ideal times."""
    flows = scenario.flows.with_sizes(states.size_bytes)
    if flows is scenario.flows:
        return scenario
    multipath = not scenario.fabric.one_path
    network, port_pairs = scenario.network, scenario.port_pairs
    ideal = ideal_times(network, flows, point.packets, multipath=multipath, port_pairs=port_pairs)
    return replace(scenario, load=replace(scenario.load, flows=flows), ideal=ideal)


def ideal_flows(point: Point, scenario: Scenario) -> Table:
    """Return the table of flows of the transport `ideal`."""
    flows, ideal, packets = _of_traffic(point, scenario)
    outcome: Table = {
        "start_ps": flows.start_ps,
        "fct_ps": ideal.fct_ps,
        "acked_ps": ideal.acked_ps,
        "packets_sent": packets,
        "retransmits": np.zeros(len(flows), np.int64),
        "delivered_bytes": flows.size_bytes,
        "traffic_class": flows.cls,
    }
    return _table(point, scenario, outcome)


def _of_traffic(point: Point, scenario: Scenario) -> tuple[FlowTable, IdealTimes, Ints]:
    """Return the traffic's flows, their ideal times, and the number of data packets of each."""
    flows, segments = scenario.flows, scenario.segments
    packets = packet_counts(flows.size_bytes, point.packets)
    if segments is not None and scenario.alone is not None:
        return segments.flows, scenario.alone, segments.total(packets)
    return flows, scenario.ideal, packets


def _kinds(flows: FlowTable) -> Table:
    """Return the column `flow_kind`, if the traffic names kinds."""
    return {} if flows.kind is None else {"flow_kind": np.array(flows.kinds, str)[flows.kind]}


def _tables(scenario: Scenario, n: int) -> Table:
    """Return the column `routing_table` of `n` flows, by the first port pair of each."""
    network, port_pairs = scenario.network, scenario.port_pairs
    if network.policy is None:
        return {}
    number = port_pairs.data_to[port_pairs.first[:n]] // network.n_host_ports
    return {"routing_table": np.array(network.policy.names)[number]}


def _segments(
    scenario: Scenario, segments: RelaySegments, start_ps: np.ndarray, done_ps: np.ndarray
) -> Table:
    """Return one row per flow of each message that has several flows."""
    of = np.flatnonzero(np.bincount(segments.message)[segments.message] > 1)
    columns = (segments.queue_pair, segments.segment, segments.chunk, segments.message)
    of = of[np.lexsort([column[of] for column in columns])]
    flows = scenario.flows
    pair = {"queue_pair": segments.queue_pair[of]} if segments.queue_pair.any() else {}
    return {
        "segment": of,
        "flow": segments.message[of],
        "chunk": segments.chunk[of],
        "hop": segments.segment[of],
        **pair,
        "src": flows.src[of],
        "dst": flows.dst[of],
        "size_bytes": flows.size_bytes[of],
        "start_ps": start_ps[of],
        "fct_ps": np.where(done_ps >= 0, done_ps - start_ps, -1)[of],
        "ideal_ps": scenario.ideal.fct_ps[of],
    }


def _table(point: Point, scenario: Scenario, outcome: Table) -> Table:
    """Return one row per flow of the traffic. `outcome` has the times and counts of each flow."""
    flows, ideal, packets = _of_traffic(point, scenario)
    fct_ps = outcome["fct_ps"]
    names = np.array(["", *(flow_class.name for flow_class in point.classes)])
    slowdown = np.where(fct_ps >= 0, fct_ps / ideal.fct_ps, np.nan)
    return {
        "flow": np.arange(len(flows)),
        "src": flows.src,
        "dst": flows.dst,
        "size_bytes": flows.size_bytes,
        "ideal_ps": ideal.fct_ps,
        "slowdown": slowdown,
        "packets": packets,
        **outcome,
        **_kinds(flows),
        **_tables(scenario, len(flows)),
        **({"flow_class": names[scenario.class_of_flow[: len(flows)]]} if point.classes else {}),
    }


def report(run: Run) -> dict[str, Any]:
    """Add the tables of flows and relay segments; return metrics of all flows and each class."""
    point, scenario, engine = run.point, run.scenario, run.engine
    if engine is None:
        flows = run.tables["flows"] = ideal_flows(point, scenario)
        return {
            **flow_metrics(flows),
            **fair_metrics(point, scenario),
            **traffic_notes(scenario),
            **jain_index(flows),
        }
    flows, segments = simulated_flows(point, scenario, engine.flow_states())
    run.tables["flows"] = flows
    if segments is not None:
        run.tables["relay_segments"] = segments
    return {
        **flow_metrics(flows),
        **({"flows_unstarted": int((flows["start_ps"] < 0).sum())} if engine.has_program else {}),
        **class_metrics(point, flows),
        **fair_metrics(point, scenario),
        **relay_metrics(scenario),
        **traffic_notes(scenario),
        **jain_index(flows),
    }


def traffic_notes(scenario: Scenario) -> dict[str, list[str]]:
    """Return the notes of the traffic."""
    return {"traffic": list(scenario.notes)} if scenario.notes else {}


def relay_metrics(scenario: Scenario) -> dict[str, dict[str, int]]:
    """Return the counts of relayed messages, if there are any."""
    segments = scenario.segments
    if segments is None or (segments.peer < 0).all():
        return {}
    counts = {
        "messages": int((segments.peer >= 0).sum()),
        "segments": int((segments.segment > 0).sum()),
    }
    return {"relays": counts}


def fair_metrics(point: Point, scenario: Scenario) -> dict[str, dict[str, float]]:
    """Return completion times with max-min fair shares on the ECMP paths of the flows. Return {}
    unless each flow, or each of its port pairs, has one path and fair shares are defined."""
    network, fabric, load = scenario.network, scenario.fabric, scenario.load
    by_hash = fabric.routing.plugin.name == ECMP
    if network.has_several_ports and fabric.plane_balancing == ENTROPY:
        by_hash = False
    if not by_hash or load.tasks is not None or network.circuits is not None:
        return {}
    try:
        evenly = fabric.plane_balancing in DEALT_EVENLY
        pairs = scenario.port_pairs
        times = hashed_times(network, load.flows, point.packets, pairs, point.seed, evenly=evenly)
    except InputError:
        return {}
    if scenario.segments is not None:
        whole_ps = np.rint(times).astype(np.int64)
        times = scenario.segments.latest(whole_ps).astype(np.float64)
    return {"fair_ps": {"mean": float(times.mean()), "max": float(times.max())}}


def flow_metrics(flows: Table) -> dict[str, Any]:
    """Return flow counts and statistics; the statistics exclude control messages."""
    done = flows["fct_ps"] >= 0
    control = flows.get("flow_kind", np.empty(done.size, "U1")) == CONTROL
    figures: dict[str, Any] = {
        "flows": int(done.size),
        "flows_finished": int(done.sum()),
        "bytes": int(flows["size_bytes"].sum()),
        "ideal_max_ps": int(flows["ideal_ps"].max()) if done.size else None,
        "retransmits": int(flows["retransmits"].sum()),
    }
    if control.any():
        figures["control_flows"] = int(control.sum())
        figures["control_flows_finished"] = int((done & control).sum())
    for name in ("fct_ps", "slowdown", "ideal_ps"):
        values = flows[name][done & ~control]
        figures[name] = dict.fromkeys(("mean", "p50", "p99", "max"))
        if values.size:
            p50, p99 = np.percentile(values, [50, 99])
            figures[name] = {
                "mean": float(values.mean()),
                "p50": float(p50),
                "p99": float(p99),
                "max": float(values.max()),
            }
    return figures


def class_metrics(point: Point, flows: Table) -> dict[str, list[dict[str, Any]]]:
    """Return the metrics of each flow class, if any; "" is the main traffic."""
    if not point.classes:
        return {}
    found = []
    names = ("", *(one.name for one in point.classes))
    for name, use in zip(names, point.transport_of_class, strict=True):
        these = {key: column[flows["flow_class"] == name] for key, column in flows.items()}
        found.append({"flow_class": name, "transport": use.name, **flow_metrics(these)})
    return {"flow_classes": found}


# --- fairness -------------------------------------------------------------------------------------

LONG_PACKETS, UNEQUAL = 100, 0.1
"""Flows with at least this many packets are compared; a difference of at least this share of their
bytes is reported."""


def jain_index(flows: Table) -> dict[str, float]:
    """Return Jain's index (DEC-TR-301) of size / completion time, if a flow finished."""
    done = flows["fct_ps"] > 0
    rates = flows["size_bytes"][done] / flows["fct_ps"][done]
    total = float(np.square(rates).sum())
    return {"jain_index": float(rates.sum() ** 2 / (rates.size * total))} if total > 0 else {}


def lines(summary: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the index."""
    if "jain_index" in summary:
        yield "Jain's fairness index", f"{summary['jain_index']:.3f}"


def locked_senders(engine: Engine, keep_pace: NDArray[np.bool_], packet_bytes: int) -> str:
    """Return a note if some long flows to a host lost far more than others at drop-tail queues,
    else "". Only flows that `keep_pace` (bool[n_flows]) despite losses are compared.

    Simulated clocks do not drift, so such senders stay in step (MODEL.md, "No favorites").
    """
    if engine.fabric.queue_discipline != DROP_TAIL or engine.fabric.host_jitter_ps:
        return ""
    states, dst = engine.flow_states(), engine.flows.dst
    chosen = keep_pace & (states.finished != 0) & (states.sent_packets >= LONG_PACKETS)
    lost = 1 - states.received_bytes[chosen] / states.size_bytes[chosen]
    most, least = np.zeros(engine.network.n_hosts), np.ones(engine.network.n_hosts)
    np.maximum.at(most, dst[chosen], lost)
    np.minimum.at(least, dst[chosen], lost)
    host = int(np.argmax(most - least))
    if most[host] - least[host] < UNEQUAL:
        return ""
    slowest = engine.network.port_rate_bps[: engine.network.n_host_ports].min(keepdims=True)
    packet_ps = int(send_time(packet_bytes, byte_quotient(slowest))[0])
    return (
        f"flows to host {host} lost {least[host]:.0%} to {most[host]:.0%}: without losses to react "
        f"to, senders stay in step at a full drop-tail queue, since simulated clocks do not drift; "
        f'add host_jitter = "{format_time(packet_ps, 3)}" to [fabric]'
    )
