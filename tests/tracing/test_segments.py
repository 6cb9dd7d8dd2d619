"""Segments of flows and critical paths."""

from collections import Counter
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import polars as pl
import pytest
from engine_case import engine_for, flows_of, tasks_of
from engine_runs import DROP_TAIL, PACKET, build, flow_table, run
from raises_input import mentions, raises_input
from reference.cases import random_case
from small_runs import Netsim
from traffic_cases import made, star

from netsim.conformance import Testbed, networks
from netsim.engine.engine import Engine
from netsim.engine.kernels.layout import INF, RUNNING
from netsim.engine.kernels.trace import TraceEntries
from netsim.flows import COMPUTE, RECEIVE, FlowTable, TaskTable, Workload
from netsim.model.arithmetic import send_time
from netsim.model.builder import NetworkBuilder
from netsim.model.fabric import Nic, PacketFormat
from netsim.model.faults import LinkFault, combine
from netsim.plugins import registry
from netsim.results import COLUMNS, load_result
from netsim.tracing.critical_path_search import (
    SEGMENT_TYPES,
    START_REASONS,
    PathSegment,
    Times,
    path_segments,
)
from netsim.tracing.flow_trace import kind_names, timer_names
from netsim.tracing.segments import order_trace, segment_table
from netsim.workloads.tracing.critical_path import critical_path

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
        table = segment_table(TREE, PacketFormat(), ordered, rows[flow][:2], times, names)
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
    """The packet is lost on its host's link; the timer set when it was sent resends it."""
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


US = 10**6


def times_of(engine: Engine) -> Times:
    flows, states = engine.flow_states(), engine.task_states()
    started = np.where(flows.waits_for > 0, -1, flows.start_ps)
    return Times(states.ready_ps, states.start_ps, states.end_ps, started, flows.done_ps)


def path_of(load: Workload, n_hosts: int) -> tuple[list[PathSegment], Times]:
    tasks = load.tasks or TaskTable([], [])
    given: dict[str, Any] = {"tasks": load.tasks} if load.tasks is not None else {}
    engine = run(build(star(n_hosts), load.flows, "datagram", DROP_TAIL, jit=False, **given))
    times = times_of(engine)
    return path_segments(tasks, load.flows, times), times


def check(path: list[PathSegment], tasks: TaskTable, flows: FlowTable, times: Times) -> None:
    """Check that segments fill the time to the last end and each one waited for its predecessor."""
    edges = set(zip(*(side.tolist() for side in tasks.edges()), strict=True))
    streams = set(zip(*(side.tolist() for side in tasks.stream_edges()), strict=True))
    ends = np.concatenate([times.end_ps, times.delivered_ps])
    assert sum(one.end_ps - one.start_ps for one in path) == ends.max()
    assert path[0].start_ps == 0
    assert path[0].start_reason == "begin"
    for before, one in pairwise(path):
        assert before.end_ps == one.start_ps <= one.end_ps
        assert one.host == before.host or before.segment_type == "flow"
        if one.start_reason == "task":
            assert before.segment_type != "flow"
            assert (before.task, one.task) in edges
        elif one.start_reason == "stream":
            assert (before.task, one.task) in streams
        elif one.start_reason == "same_flow":
            assert one.segment_type in ("flow", "send")
            assert before.flow == one.flow
            assert before.segment_type in ("latency", "start")
        else:
            assert one.start_reason == "flow"
            assert before.segment_type == "flow"
            assert flows.dst[before.flow] == one.host or one.task < 0
            if one.task < 0:
                assert before.flow in flows.awaited(one.flow)
            else:
                assert tasks.kind[one.task] == RECEIVE
                assert tasks.flow[one.task] == before.flow


def test_random_workloads_have_a_tight_path() -> None:
    seen: Counter[str] = Counter()
    for seed in range(20):
        case = random_case(seed, tasks=True, program=False)
        engine = engine_for(case, trace=False, jit=False)
        run(engine, *([case.until_ps] if case.until_ps is not None else []))
        tasks, flows, times = tasks_of(case), flows_of(case), times_of(engine)
        assert tasks is not None
        path = path_segments(tasks, flows, times)
        check(path, tasks, flows, times)
        seen.update(one.start_reason for one in path)
        seen.update(one.segment_type for one in path)
    assert seen.keys() >= {*START_REASONS, *SEGMENT_TYPES} - {"stream"}


def test_path_follows_flows_that_wait_for_flows() -> None:
    # The second waits at its own host, with a delay; the third waits for a flow of other hosts.
    flows = FlowTable([0, 1, 3], [1, 2, 0], 4096, [3 * US, 2 * US, 0], [0, 0, 1, 2], [0, 1])
    path, times = path_of(Workload(flows), 4)
    check(path, TaskTable([], []), flows, times)
    assert [(one.segment_type, one.flow) for one in path] == [
        ("start", 0),
        ("flow", 0),
        ("latency", 1),
        ("flow", 1),
        ("latency", 2),
        ("flow", 2),
    ]
    assert [one.end_ps - one.start_ps for one in path[::2]] == [3 * US, 2 * US, US]


def test_path_of_a_two_stage_pipeline_is_exact() -> None:
    durations = {"forward": "10us", "backward": "20us", "latency": "1us"}
    load = made("pipeline_1f1b", 2, microbatches=3, activations="4096B", **durations)
    path, times = path_of(load, 2)
    assert load.tasks is not None
    check(path, load.tasks, load.flows, times)
    # Micro-batches 0 and 2 go forward through both stages and back; forward 2 follows backward 0
    # in the stream of stage 0.
    last = [one for one in path if one.end_ps > one.start_ps]
    forward, backward, transfer = ("compute", 10 * US), ("compute", 20 * US), ("flow", 2665600)
    send = [("latency", US), transfer]
    round_trip = [*send, forward, backward, *send, backward]
    expected = [forward, *round_trip, forward, *round_trip]
    assert [(one.segment_type, one.end_ps - one.start_ps) for one in last] == expected
    assert [one.host for one in last if one.start_reason == "stream"] == [0]


def test_empty_and_inconsistent_times_are_handled() -> None:
    tasks = TaskTable([COMPUTE, COMPUTE], 0, [US, US], stream=[0, 1])
    tasks.wait_for([[], [0]])
    flows, none = FlowTable([0], [1], [1]), np.array([-1])
    nothing = Times(*np.full((3, 2), -1), none, none)
    assert path_segments(tasks, flows, nothing) == []
    ready, start, end = np.array([[0, 2], [0, 2], [1, 3]])
    with raises_input("task 1", "host 0"):
        path_segments(tasks, flows, Times(ready, start, end, none, none))


EXPERIMENT = """
name = "small"
transport = "{transport}"
[topology]
kind = "fat_tree"
hosts_per_leaf = 2
leaves = 2
host_rate = "100Gbps"
[traffic]
{traffic}
"""
PIPELINE = """
kind = "pipeline_1f1b"
microbatches = 2
activations = "8KB"
latency = "1us"
"""


def write(transport: str, traffic: str) -> None:
    Path("small.toml").write_text(EXPERIMENT.format(transport=transport, traffic=traffic))


def test_trace_command_prints_and_writes_the_path(netsim: Netsim) -> None:
    write("ndp", PIPELINE)
    assert netsim("run", "small.toml", "--out", "r").exit_code == 0
    outcome = netsim("trace", "r", "--critical-path", "--limit", "3")
    assert outcome.exit_code == 0, outcome.output
    lines = [line.split() for line in outcome.stdout.splitlines()]
    assert ["0", "0.1", "h0", "compute", "task", "0", "(forward", "0)", "begin"] in lines
    assert mentions(outcome.stdout, "--limit", "0")
    assert "small" in outcome.stdout
    assert (
        netsim(
            "trace", "r", "--critical-path", "--csv", "c.csv", "--parquet", "c.parquet"
        ).exit_code
        == 0
    )
    csv, table = pl.read_csv("c.csv"), pl.read_parquet("c.parquet")
    assert csv.columns == table.columns == list(COLUMNS["critical"])
    makespan = load_result("r").summary["makespan_ps"]
    assert (table["end_ps"] - table["start_ps"]).sum() == makespan
    found = critical_path(load_result("r")).by_kind()
    assert found["time_ps"].sum() == makespan
    flows = found.row(by_predicate=pl.col("segment_type") == "flow", named=True)
    assert flows["ideal_ps"] + flows["waited_ps"] == flows["time_ps"]
    assert flows["ideal_ps"] > 0


def test_missing_critical_path_is_an_error(netsim: Netsim) -> None:
    def fails(*arguments: str) -> str:
        outcome = netsim("trace", *arguments)
        assert outcome.exit_code == 2, outcome.output
        assert "Traceback" not in outcome.output
        return str(outcome.stderr)

    write("ideal", 'kind = "permutation"\nsize = "8KB"')
    assert netsim("run", "small.toml", "--out", "i").exit_code == 0
    assert mentions(fails("i", "--critical-path"), "ideal")
    write("ndp", 'kind = "batch_server"\nrequests = 2')
    assert netsim("run", "small.toml", "--out", "p").exit_code == 0
    assert mentions(fails("p", "--critical-path"), "batch_server")
    assert mentions(fails("p"), "--flow", "--critical-path", "--request")
    assert mentions(fails("p", "--request", "0"), "request")
    assert mentions(fails("p", "--request", "0", "--flow", "1"), "--flow", "--request")
    assert mentions(
        fails("p", "--request", "0", "--experiment-dir", "."), "--experiment-dir", "--request"
    )
    assert mentions(fails("p", "--critical-path", "--seq", "1"), "--seq", "--critical-path")
    write("ndp", PIPELINE)
    assert netsim("run", "small.toml", "--out", "r").exit_code == 0
    table = Path("r/experiment.json")
    table.write_text(table.read_text().replace('"microbatches": 2', '"microbatches": 3'))
    assert "traffic" in fails("r", "--critical-path")


@pytest.mark.parametrize("nic", [None, Nic(20_000, 300_000, 5_000, 100_000)])
def test_cut_through_and_nic_processing_are_parts_of_the_path(nic):
    """A packet over three switches: one transmission, three headers, and NIC processing."""
    builder, n = NetworkBuilder(), 20
    builder.add_hosts(2)
    nodes = [0, *(builder.add_switch() for _ in range(3)), 1]
    for near, far in pairwise(nodes):
        builder.cable(near, far, 100 * 10**9, 1_000_000)
    network, packets = builder.build("chain"), PacketFormat(cut_through_bytes=64, nic=nic)
    flows = flow_table([(0, 1, n * 4096, 0)])
    given = {"packets": packets, "jit": False, "trace": [0]}
    engine = build(network, flows, "datagram", DROP_TAIL, **given)
    assert engine.advance(10**6, INF) != RUNNING
    done_ps, module = (
        int(engine.flow_states().done_ps[0]),
        registry.find("transport", "datagram").module,
    )
    ordered = order_trace(network, engine.drain_trace().of_flow(0))
    names = kind_names(module), timer_names(module)
    table = segment_table(network, packets, ordered, (0, 1), (0, done_ps), names)
    spent = Counter()
    for start, end, what in table.select("start_ps", "end_ps", "segment_type").rows():
        spent[what] += end - start
    full_ps, header_ps = 4160 * 80, 64 * 80
    assert spent == {
        "sending": (n - 1) * full_ps,
        "transmission": full_ps + 3 * header_ps,
        "propagation": 4_000_000 + (0 if nic is None else 320_000),
    }
