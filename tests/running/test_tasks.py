"""Task graphs, from the experiment file to the result."""

from pathlib import Path

import pytest
from experiment_text import load
from raises_input import mentions, raises_input

from netsim.experiment import Point
from netsim.results import load_result, write_result
from netsim.running.estimate import estimate
from netsim.running.point import simulate

TASKS = """\
kind,host,duration,to,size,of,after,label
compute,0,10ms,,,,,think
send,0,,1,8KB,,0,
receive,1,1us,,,1,,
send,1,,0,8KB,,2,
receive,0,,,,3,,
compute,0,10ms,,,,4,think again
"""

EXPERIMENT = """
name = "small"
transport = "{transport}"
[topology]
kind = "fat_tree"
hosts_per_leaf = 2
leaves = 2
host_rate = "100Gbps"
[traffic]
kind = "task_graph"
file = "tasks.csv"
{more}
"""


pytestmark = pytest.mark.usefixtures("plain_python")


def point(tmp_path: Path, transport: str = "datagram", more: str = "") -> Point:
    (tmp_path / "tasks.csv").write_text(TASKS)
    return load(tmp_path, EXPERIMENT.format(transport=transport, more=more)).points()[0]


def test_result_has_a_table_of_task_times(tmp_path: Path) -> None:
    one = point(tmp_path)
    result = simulate(one)
    assert (result.complete, result.stop_reason) == (True, "finished")
    loaded = load_result(write_result(tmp_path / "out", one, result))
    assert loaded.matches_hash()
    tasks = loaded.tasks
    assert tasks is not None
    assert tasks["kind"].to_list() == ["compute", "send", "receive", "send", "receive", "compute"]
    assert tasks["stream"].to_list() == [0, None, None, None, None, 0]
    assert tasks["flow"].to_list() == [None, 0, 0, 1, 1, None]
    assert tasks["label"].to_list()[::5] == ["think", "think again"]
    assert tasks["end_ps"][0] == tasks["start_ps"][1] == loaded.flows["start_ps"][0] == 10**10
    assert tasks["start_ps"][5] == tasks["end_ps"][4]
    assert loaded.summary["makespan_ps"] == tasks["end_ps"].max() > 2 * 10**10
    assert (loaded.summary["tasks"], loaded.summary["tasks_done"]) == (6, 6)


def test_unfinished_tasks_are_named(tmp_path: Path) -> None:
    down = '[faults.cut]\nlinks = "h0 -> *"\ndown = "1ns"'
    result = simulate(point(tmp_path, more=down))
    assert (result.complete, result.stop_reason) == (False, "undelivered")
    assert result.reason is not None
    assert mentions(result.reason, "4", "6")
    assert mentions(result.reason, "task 2", "flow 0", "host 1")
    cut = simulate(point(tmp_path, more='[stop]\nmax_time = "1ms"'))
    assert cut.stop_reason == "time_limit"
    assert "2 of 2 flows" in (cut.reason or "")


def test_ideal_transport_rejects_tasks(tmp_path: Path) -> None:
    with raises_input("ideal", key="transport"):
        simulate(point(tmp_path, "ideal"))


def test_estimate_follows_chains_of_tasks_and_flows(tmp_path: Path) -> None:
    one = point(tmp_path)
    assert estimate(one).simulated_ps == simulate(one).summary["makespan_ps"]
