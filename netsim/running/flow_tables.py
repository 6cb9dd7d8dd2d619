"""The tables of flows, and of the segments of those that are relayed."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from netsim.bounds.ideal import ideal_times
from netsim.model.fabric import PATH_FOR_LIFE, packet_counts

if TYPE_CHECKING:
    from netsim.engine.state_views import FlowStates
    from netsim.experiment import Point
    from netsim.experiment.scenario import Scenario
    from netsim.model.flows import FlowTable
    from netsim.model.relays import RelaySegments
    from netsim.results.run_result import Table


def simulated_flows(
    point: Point, scenario: Scenario, states: FlowStates
) -> tuple[Table, Table | None]:
    """Return the tables of simulated flows and of relay segments."""
    done_ps, segments = states.done_ps, scenario.segments
    start_ps = np.where(states.waits_for > 0, -1, states.start_ps)
    acked_ps = np.where(done_ps >= 0, states.acked_ps, -1)
    counts = np.array(states.sent_packets), np.array(states.retransmits)
    cls = np.array(states.traffic_class)
    table = None
    if segments is not None:
        table = _segments(scenario, segments, start_ps, done_ps)
        n = len(segments.flows)
        start_ps, cls = start_ps[:n], cls[:n]
        done_ps, acked_ps = segments.latest(done_ps), segments.latest(acked_ps)
        counts = segments.total(counts[0]), segments.total(counts[1])
    flows = _table(
        point,
        scenario,
        start_ps=start_ps,
        fct_ps=np.where(done_ps >= 0, done_ps - start_ps, -1),
        acked_ps=np.where(acked_ps >= 0, acked_ps - start_ps, -1),
        packets_sent=counts[0],
        retransmits=counts[1],
        cls=cls,
    )
    return flows, table


def as_sent(point: Point, scenario: Scenario, states: FlowStates) -> Scenario:
    """The scenario with the sizes that a program has set, and with ideal times for these."""
    flows = scenario.flows.of_sizes(states.size_bytes)
    if flows is scenario.flows:
        return scenario
    multipath = scenario.fabric.load_balancing not in PATH_FOR_LIFE
    network, lanes = scenario.network, scenario.lanes
    ideal = ideal_times(network, flows, point.packets, multipath=multipath, lanes=lanes)
    return replace(scenario, load=replace(scenario.load, flows=flows), ideal=ideal)


def ideal_flows(point: Point, scenario: Scenario) -> Table:
    """The flows of a transport whose completion times are the ideal ones."""
    flows, ideal, segments = scenario.flows, scenario.ideal, scenario.segments
    packets = packet_counts(flows.size_bytes, point.packets)
    if segments is not None and scenario.alone is not None:
        flows, ideal, packets = segments.flows, scenario.alone, segments.total(packets)
    return _table(
        point,
        scenario,
        start_ps=flows.start_ps,
        fct_ps=ideal.fct_ps,
        acked_ps=ideal.acked_ps,
        packets_sent=packets,
        retransmits=np.zeros(len(flows), np.int64),
        cls=flows.cls,
    )


def _kinds(flows: FlowTable) -> Table:
    """The column `flow_kind`, if the traffic names kinds."""
    return {} if flows.kind is None else {"flow_kind": np.array(flows.kinds, str)[flows.kind]}


def _ways(scenario: Scenario, n: int) -> Table:
    """By which way the data of the first `n` flows goes: of each by its first lane."""
    network, lanes = scenario.network, scenario.lanes
    if network.ways is None:
        return {}
    number = lanes.data_to[lanes.first[:n]] // network.n_host_ports
    return {"routing_table": np.array(network.ways.names)[number]}


def _segments(
    scenario: Scenario, segments: RelaySegments, start_ps: np.ndarray, done_ps: np.ndarray
) -> Table:
    """One row for each chunk of a relayed message on each of its two segments."""
    of = np.flatnonzero(segments.segment > 0)
    of = of[np.lexsort((segments.segment[of], segments.chunk[of], segments.message[of]))]
    flows = scenario.flows
    return {
        "segment": of,
        "flow": segments.message[of],
        "chunk": segments.chunk[of],
        "hop": segments.segment[of],
        "src": flows.src[of],
        "dst": flows.dst[of],
        "size_bytes": flows.size_bytes[of],
        "start_ps": start_ps[of],
        "fct_ps": np.where(done_ps >= 0, done_ps - start_ps, -1)[of],
        "ideal_ps": scenario.ideal.fct_ps[of],
    }


def _table(
    point: Point,
    scenario: Scenario,
    *,
    start_ps: np.ndarray,
    fct_ps: np.ndarray,
    acked_ps: np.ndarray,
    packets_sent: np.ndarray,
    retransmits: np.ndarray,
    cls: np.ndarray,
) -> Table:
    """One row a flow of the traffic; the columns are documented in `netsim.results.columns`."""
    segments, flows, ideal = scenario.segments, scenario.flows, scenario.ideal
    packets = packet_counts(flows.size_bytes, point.packets)
    if segments is not None and scenario.alone is not None:
        flows, ideal, packets = segments.flows, scenario.alone, segments.total(packets)
    names = np.array(["", *(flow_class.name for flow_class in point.classes)])
    slowdown = np.where(fct_ps >= 0, fct_ps / ideal.fct_ps, np.nan)
    return {
        "flow": np.arange(len(flows)),
        "src": flows.src,
        "dst": flows.dst,
        "size_bytes": flows.size_bytes,
        "start_ps": start_ps,
        "fct_ps": fct_ps,
        "acked_ps": acked_ps,
        "ideal_ps": ideal.fct_ps,
        "slowdown": slowdown,
        "packets": packets,
        "packets_sent": packets_sent,
        "retransmits": retransmits,
        "traffic_class": cls,
        **_kinds(flows),
        **_ways(scenario, len(flows)),
        **({"flow_class": names[scenario.class_of_flow[: len(flows)]]} if point.classes else {}),
    }
