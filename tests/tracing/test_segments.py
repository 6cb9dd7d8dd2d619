"""Segments of a flow's completion time: they add up for every transport."""

from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import polars as pl
import pytest
from engine_runs import PACKET, flow_table

from netsim.conformance import Testbed, networks
from netsim.engine.kernels.layout import INF, RUNNING
from netsim.engine.kernels.trace import TraceEntries
from netsim.model.arithmetic import send_time
from netsim.model.faults import LinkFault, combine
from netsim.plugins import registry
from netsim.tracing.flow_trace import kind_names, timer_names
from netsim.tracing.segments import order_trace, segment_table

TRANSPORTS = [name for name in registry.names("transport") if name not in ("ideal", "roce")]
TRANSPORTS.append("roce:htsim")  # whose small XOFF pauses this incast
TREE = networks.tree()
INCAST = [(i, 0, 60_000, 1000 * i) for i in range(1, 8)] + [(7, 0, 60_000, 0), (7, 1, 60_000, 0)]
LOSSY = combine([LinkFault(np.arange(TREE.n_ports), loss=0.02)], TREE.n_ports)


def traced(transport, traced_flows, rows=INCAST, faults=None, seed=1):
    """The segments of the given flows of a run, and when each started and was done (-1: never)."""
    testbed = Testbed.of(transport, seed=seed)
    engine = testbed.engine(flow_table(rows), TREE, jit=False, trace=traced_flows, faults=faults)
    parts, status = [], RUNNING
    while status == RUNNING:
        status = engine.advance(1000, INF)
        parts.append(engine.drain_trace())
    states, module = engine.flow_states(), testbed.plugin.module
    names = (kind_names(module), timer_names(module))
    entries = TraceEntries.joined(parts)
    for flow in traced_flows:
        times = int(states.start_ps[flow]), int(states.done_ps[flow])
        ordered = order_trace(TREE, entries.of_flow(flow))
        table = segment_table(TREE, ordered, rows[flow][:2], times, names)
        yield SimpleNamespace(table=table, start_ps=times[0], done_ps=times[1], engine=engine)


def trace_single_flow(size, start_ps, faults=None):
    (found,) = traced("ndp", (0,), [(7, 0, size, start_ps)], faults)
    return found


def kinds_of(found):
    """Check that segments fill the time from start to completion; return their kinds."""
    rows = found.table.rows(named=True)
    times = [(row["start_ps"], row["end_ps"]) for row in rows]
    assert times[0][0] == found.start_ps
    assert times[-1][1] == found.done_ps
    assert all(begin < end for begin, end in times)
    assert all(before[1] == after[0] for before, after in pairwise(times))
    kinds = set(found.table["segment_type"])
    assert "other" not in kinds
    return kinds


REASONS = {
    "bbr": {"pacing"},
    "expresspass": {"receiver"},
    "ndp": {"receiver"},
    "roce:htsim": {"paused", "nic", "sending"},
}
"""Segment kinds expected for the last flow of the incast in a network without faults."""


@pytest.mark.parametrize("faults", [None, LOSSY], ids=["lossless", "lossy"])
def test_segments_add_up_to_the_completion_time(faults):
    for transport in TRANSPORTS:
        kinds, resent = set(), 0
        for found in traced(transport, (0, 7), faults=faults, seed=5):
            if found.done_ps >= 0:
                kinds |= kinds_of(found)
                resent += len(found.table.drop_nulls("lost_seq"))
        if transport != "datagram" or faults is None:  # a lost datagram is not sent again
            assert kinds >= {"transmission", "propagation"}, transport
        if faults is None:
            assert kinds >= REASONS.get(transport, set()), transport
            assert "timeout" not in kinds, transport
        elif transport in ("ndp", "homa", "pfabric", "smartt", "dctcp"):
            assert "timeout" in kinds, transport
            assert resent > 0, transport


def test_single_flow_has_sending_and_path_time_only():
    """Its last packet waits for those sent before it and then crosses the path."""
    found = trace_single_flow(10 * 4096, 5000)
    assert kinds_of(found) == {"sending", "transmission", "propagation"}
    length = pl.col("end_ps") - pl.col("start_ps")
    spent = dict(found.table.group_by("segment_type").agg(length.sum()).rows())
    full_ps = send_time(PACKET, int(found.engine.state.links.ports["ps_per_byte_q20"][0]))
    assert spent == {
        "sending": 9 * full_ps,
        "transmission": 4 * full_ps,
        "propagation": 4 * networks.DELAY_PS,
    }
    assert found.table.filter(pl.col("segment_type") == "sending").height == 1


def test_lost_packet_costs_its_timeout():
    """The packet is lost on its host's link; the timer set at its sending sends it again."""
    lost = combine([LinkFault(np.array([7]), loss=1.0, until_ps=1)], TREE.n_ports)
    found = trace_single_flow(4096, 0, lost)
    assert kinds_of(found) == {"timeout", "transmission", "propagation"}
    waits = found.table.filter(pl.col("segment_type") == "timeout").rows(named=True)
    assert {wait["timer"] for wait in waits} == {"RTO"}
    assert {wait["lost_seq"] for wait in waits} == {0}
    # One wait during the transmission, one after it.
    assert [wait["blocked"] for wait in waits] == [None, "RTO"]
    assert waits[0]["start_ps"] == 0
    rest_ps = found.done_ps - waits[-1]["end_ps"]
    assert rest_ps == trace_single_flow(4096, 0).done_ps
