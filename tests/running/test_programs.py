"""Traffic programs, from the experiment file to the result."""

from pathlib import Path

import pytest
from experiment_text import load
from raises_input import mentions, raises, raises_input

from netsim.errors import RunError
from netsim.experiment import Point
from netsim.results import load_result, write_result
from netsim.running.estimate import estimate
from netsim.running.point import Progress, simulate
from netsim.tracing.record import trace_flow

EXPERIMENT = """
name = "small"
transport = "{transport}"
[topology]
kind = "fat_tree"
hosts_per_leaf = 2
leaves = 2
host_rate = "100Gbps"
{more}
[traffic]
kind = "{kind}"
"""

SERVER = """requests = 12
interval = "3us"
max_batch = 3
servers = 1
"""

MINE = '''
"""Two of four flows are sent."""

from netsim.flows import RECEIVE, SEND, FlowTable, TaskTable, Workload
from netsim.program import start, task_at

PARAMS = []


def flows(params, network, rng, context):
    table = FlowTable([0] * 4, [1] * 4, 5000)
    kinds, hosts = [SEND] * 4 + [RECEIVE] * 4, [0] * 4 + [1] * 4
    tasks = TaskTable(kinds, hosts, flow=[*range(4)] * 2, deferred={deferred})
    return Workload(table, tasks)


def on_begin(env, now):
    if env.host.host == 0:
        start(env, now, task_at(env, 1))
        start(env, now, task_at(env, {last}))
'''


SIZED = """        set_size(env, task_at(env, 1), 1000)
        start(env, now, task_at(env, 1))
"""


pytestmark = pytest.mark.usefixtures("plain_python")


def server(tmp_path: Path, transport: str = "ndp", more: str = "") -> Point:
    text = EXPERIMENT.format(transport=transport, kind="batch_server", more=more) + SERVER
    return load(tmp_path, text).points()[0]


def mine(tmp_path: Path, deferred: str = "[True] * 4 + [False] * 4", last: int = 3) -> Point:
    (tmp_path / "mine.py").write_text(MINE.format(deferred=deferred, last=last))
    text = EXPERIMENT.format(transport="ndp", kind="./mine.py", more="")
    return load(tmp_path, text).points()[0]


def test_result_counts_task_runs(tmp_path: Path) -> None:
    one = server(tmp_path)
    result = simulate(one)
    assert (result.complete, result.stop_reason) == (True, "finished")
    loaded = load_result(write_result(tmp_path / "out", one, result))
    assert loaded.matches_hash()
    tasks = loaded.tasks
    assert tasks is not None
    batches = tasks.row(24, named=True)
    assert (batches["kind"], batches["host"]) == ("compute", 0)
    assert 4 <= batches["runs"] < 12
    assert batches["busy_ps"] == batches["runs"] * 10**7 + 12 * 5 * 10**6
    assert loaded.summary["tasks"] == loaded.summary["tasks_done"] == 37
    assert not trace_flow(loaded, 14).warnings  # a reply


def test_run_with_unstarted_deferred_tasks_is_complete(tmp_path: Path) -> None:
    result = simulate(mine(tmp_path))
    assert (result.complete, result.stop_reason) == (True, "finished")
    assert result.summary["flows"] == 4
    assert result.summary["flows_finished"] == 2
    assert result.flows["start_ps"].tolist() == [-1, 0, -1, 0]
    assert result.summary["flows_unstarted"] == 2
    assert result.summary["tasks_done"] == 4
    assert result.summary["fct_ps"]["max"] > 0


def test_result_has_the_programs_log_rows(tmp_path: Path) -> None:
    source = MINE.replace("start, task_at", "log_row, start, task_at") + (
        '\nLOG = ("which", "runs")\n'
        "\n\ndef on_task(env, now, task):\n    log_row(env, now, task.index, task.runs)\n"
    )
    source = source.replace("Workload(table, tasks)", "Workload(table, tasks, log_rows=100)")
    (tmp_path / "mine.py").write_text(source.format(deferred="[True] * 4 + [False] * 4", last=3))
    one = load(tmp_path, EXPERIMENT.format(transport="ndp", kind="./mine.py", more="")).points()[0]
    result = simulate(one)
    loaded = load_result(write_result(tmp_path / "out", one, result))
    assert loaded.matches_hash()
    assert loaded.log is not None
    assert loaded.log.columns == ["host", "time_ps", "which", "runs"]
    assert loaded.log["host"].to_list() == [0, 0, 1, 1]
    assert loaded.log["which"].to_list() == [1, 3, 1, 3]
    ends = result.tasks and result.tasks["end_ps"][[1, 3, 5, 7]].tolist()
    assert loaded.log["time_ps"].to_list() == ends
    assert loaded.summary["log_rows"] == 4


def test_log_rows_beyond_address_space_are_rejected(tmp_path: Path) -> None:
    source = MINE.replace(
        "Workload(table, tasks)", "Workload(table, tasks, log_rows=(1 << 31) - 1)"
    )
    columns = ", ".join(f'"c{k}"' for k in range(64))
    (tmp_path / "mine.py").write_text(
        source.format(deferred="False", last=3) + f"\nLOG = ({columns})\n", "utf-8"
    )
    text = EXPERIMENT.format(transport="ndp", kind="./mine.py", more="").replace(
        "leaves = 2", "leaves = 100"
    )
    with raises_input("log_rows", "429,496,729,400"):
        simulate(load(tmp_path, text).points()[0])


def test_result_has_flow_sizes_set_by_the_program(tmp_path: Path) -> None:
    """Flows are declared with 5,000 bytes, two packets; those not started keep that size."""
    source = MINE.replace("start, task_at", "set_size, start, task_at")
    source = source.replace("        start(env, now, task_at(env, 1))\n", SIZED)
    (tmp_path / "mine.py").write_text(source.format(deferred="[True] * 4 + [False] * 4", last=3))
    one = load(tmp_path, EXPERIMENT.format(transport="ndp", kind="./mine.py", more="")).points()[0]
    reports: list[Progress] = []
    result = simulate(one, progress=reports.append)
    assert (result.complete, result.stop_reason) == (True, "finished")
    assert result.flows["size_bytes"].tolist() == [5000, 1000, 5000, 5000]
    assert result.flows["packets"].tolist() == [2, 1, 2, 2]
    assert result.flows["packets_sent"].tolist() == [0, 1, 0, 2]
    assert result.flows["ideal_ps"][1] == result.flows["fct_ps"][1]
    assert result.flows["slowdown"][1] == 1
    assert result.summary["bytes"] == reports[-1].bytes_total == 16_000
    loaded = load_result(write_result(tmp_path / "out", one, result))
    trace = trace_flow(loaded, 1)
    assert not trace.warnings
    assert (trace.size_bytes, trace.n_packets) == (1000, 1)
    assert mentions(estimate(one).assumptions, "size")


def test_memory_estimate_includes_program_state(tmp_path: Path) -> None:
    small = estimate(mine(tmp_path)).memory_bytes
    (tmp_path / "mine.py").write_text(
        MINE.format(deferred="False", last=3) + 'TASK_STATE = ("one", ("thousand", 1000))\n'
    )
    text = EXPERIMENT.format(transport="ndp", kind="./mine.py", more="")
    large = estimate(load(tmp_path, text).points()[0])
    assert large.memory_bytes - small == 8 * 1001 * 8
    assert mentions(large.assumptions, "program")


def test_invalid_task_index_and_deferred_list_are_rejected(tmp_path: Path) -> None:
    with raises(RunError, "mine.py", "on_begin", "task 9"):
        simulate(mine(tmp_path, last=9))
    with raises_input("task"):
        simulate(mine(tmp_path, deferred="[True]"))
