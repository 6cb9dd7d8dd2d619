"""The critical path: its segments follow real dependencies and fill the time from 0 to the end."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from engine_case import engine_for, flows_of, tasks_of
from engine_runs import DROP_TAIL, build, run
from raises_input import mentions, raises_input
from reference.cases import random_case
from small_runs import Netsim
from traffic_cases import made, star

from netsim.engine.engine import Engine
from netsim.flows import COMPUTE, RECEIVE, FlowTable, TaskTable, Workload
from netsim.results import COLUMNS, load_result
from netsim.tracing.critical_path_search import (
    SEGMENT_TYPES,
    START_REASONS,
    PathSegment,
    Times,
    path_segments,
)
from netsim.workloads.tracing.critical_path import critical_path

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
                assert before.flow in flows.waits_for(one.flow)
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


RING = 'kind = "collective"\nalgorithm = "ring"\nsize = "80KB"'
