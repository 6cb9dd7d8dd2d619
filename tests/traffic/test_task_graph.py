"""Tasks listed in a file: what it says, and every mistake in it with its line."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from traffic_cases import made

from netsim.errors import InputError
from netsim.flows import COMPUTE, JOIN, RECEIVE, SEND
from netsim.model.tasks import Workload

GOOD = """\
# a host computes, sends, and gets an answer
kind,host,duration,stream,to,size,of,after,done_when,label
compute,0,10us,1,,,,,,forward
send,0,1us,,2,2MB,,0,acked,

receive,2,,,,,1,,,
send,2,,,0,100B,,2,,
join,2,,,,,,2 3,,
receive,0,500ns,,,,3,,,
"""


def graph(tmp_path: Path, text: str) -> Workload:
    (tmp_path / "tasks.csv").write_text(text)
    return made("task_graph", 4, directory=tmp_path, file="tasks.csv")


def test_a_file_is_read(tmp_path: Path) -> None:
    load = graph(tmp_path, GOOD)
    flows, tasks = load.flows, load.tasks
    assert tasks is not None
    assert (flows.src.tolist(), flows.dst.tolist()) == ([0, 2], [2, 0])
    assert flows.size_bytes.tolist() == [2_000_000, 100]
    assert tasks.kind.tolist() == [COMPUTE, SEND, RECEIVE, SEND, JOIN, RECEIVE]
    assert tasks.host.tolist() == [0, 0, 2, 2, 2, 0]
    assert tasks.duration_ps.tolist() == [10**7, 10**6, 0, 0, 0, 500_000]
    assert tasks.stream.tolist() == [1, 0, 0, 0, 0, 0]
    assert tasks.flow.tolist() == [-1, 0, 0, 1, -1, 1]
    assert tasks.done_when.tolist() == [0, 1, 0, 0, 0, 0]
    first, then = tasks.edges()
    assert list(zip(first, then, strict=True)) == [(0, 1), (2, 3), (2, 4), (3, 4)]
    assert tasks.name(0) == "task 0 (compute, forward) of host 0"


def test_columns_that_concern_no_task_may_be_left_out(tmp_path: Path) -> None:
    load = graph(tmp_path, "kind,host,to,size\nsend,0,1,1KB\nsend,1,2,1KB\n")
    assert load.tasks is not None
    assert load.tasks.flow.tolist() == [0, 1]
    assert load.tasks.label is None


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("compute,0", "think,0", r"tasks\.csv:3: kind: \"think\" is none of compute, send, "),
        ("compute,0,10us", "compute,4,10us", r"tasks\.csv:3: host 4: hosts are 0\.\.3"),
        ("compute,0,10us", "compute,,10us", r"tasks\.csv:3: host -1: hosts are"),
        ("compute,0,10us", "compute,0,", r"tasks\.csv:3: duration: a compute task needs it"),
        ("compute,0,10us", "compute,0,10", r"tasks\.csv:3: duration: .*unit"),
        ("compute,0,10us,1", "compute,0,10us,x", r"tasks\.csv:3: stream: \"x\" is not a number"),
        ("send,0,1us,,2,", "send,0,1us,,9,", r"tasks\.csv:4: to 9: hosts are"),
        ("send,0,1us,,2,", "send,0,1us,,,", r"tasks\.csv:4: to: a send task needs it"),
        ("send,0,1us,,2,", "send,0,1us,,0,", r"tasks\.csv:4: host 0 sends to itself"),
        ("2MB", "0B", r"tasks\.csv:4: size: at least 1 B"),
        ("acked", "soon", r"tasks\.csv:4: done_when: \"soon\" is none of sent, acked"),
        ("receive,2,,,,,1", "receive,2,,,,,2", r"tasks\.csv:6: task 2 is no send task"),
        ("receive,2,,,,,1", "receive,2,,,,,", r"tasks\.csv:6: of: a receive task needs it"),
        ("receive,2,,,,,1", "receive,2,,,,,77", r"tasks\.csv:6: of 77: tasks are 0\.\.5"),
        ("receive,2,,,,,1,", "receive,2,,,,,3,", r"tasks\.csv:6: task 3 sends to host 0, not to"),
        ("join,2,", "join,2,1us", r"tasks\.csv:8: duration: means nothing to a join task"),
        ("2 3,,", "2 5,,", r"tasks\.csv:8: after: task 5 is on host 0, this one on host 2"),
        ("2 3,,", "2 6,,", r"tasks\.csv:8: after: task 6 does not exist"),
        ("2 3,,", "2 4,,", r"tasks\.csv:8: waits, through others, for itself"),
        ("join,2,,,,,,2 3", "receive,2,,,,,1,2 3", r"tasks\.csv:8: the flow of task 1 has a rec"),
        ("stream", "steam", 'column "?steam"? is not known.*stream'),
        ("kind,", "of_kind,", "column"),
    ],
)
def test_a_mistake_is_told_with_its_line(tmp_path: Path, old: str, new: str, message: str) -> None:
    assert old in GOOD
    with pytest.raises(InputError, match=message):
        graph(tmp_path, GOOD.replace(old, new, 1))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is empty"),
        ("kind,host\n", "has no tasks"),
        ("kind\njoin\n", "there is no column host"),
        ("kind,host\njoin,0\n", "has no send task"),
        ("kind,host\njoin\n", r"tasks\.csv:2: has 1 values for 2 columns"),
    ],
)
def test_a_file_that_is_none(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        graph(tmp_path, text)


JSON = """[
{"kind": "compute", "host": 0, "duration": "10us", "stream": 1, "label": "forward"},
{"kind": "send", "host": 0, "duration": "1us", "to": 2, "size": "2MB", "after": [0],
 "done_when": "acked"},
{"kind": "receive", "host": 2, "of": 1, "label": null},
{"kind": "send", "host": 2, "to": 0, "size": "100B", "after": "2"},
{"kind": "join", "host": 2, "after": [2, 3]},
{"kind": "receive", "host": 0, "duration": "500ns", "of": 3}
]"""
"""What `GOOD` says."""


def json_graph(tmp_path: Path, text: str) -> Workload:
    (tmp_path / "tasks.json").write_text(text)
    return made("task_graph", 4, directory=tmp_path, file="tasks.json")


def test_a_json_file_says_the_same(tmp_path: Path) -> None:
    one, other = json_graph(tmp_path, JSON), graph(tmp_path, GOOD)
    assert one.tasks is not None
    assert other.tasks is not None
    for name in ("kind", "host", "duration_ps", "stream", "flow", "done_when", "label"):
        assert list(getattr(one.tasks, name)) == list(getattr(other.tasks, name))
    assert np.array_equal(one.tasks.edges(), other.tasks.edges())
    for name in ("src", "dst", "size_bytes"):
        assert list(getattr(one.flows, name)) == list(getattr(other.flows, name))


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('"compute", "host": 0', '"compute", "host": 4', r"tasks\.json: \[0\]: host 4: hosts are"),
        ('"compute", "host": 0', '"compute", "host": 0.5', r'\[0\]: host: "0\.5" is not a number'),
        (
            '"compute", "host": 0',
            '"compute", "host": true',
            r"\[0\]: .*host.*: .* is neither text nor",
        ),
        ('"compute", "host": 0', '"compute"', r"\[0\]: host -1: hosts are"),
        ('"stream": 1', '"stream": 1, "stream": 2', r"\[0\]: names a key twice"),
        ('"stream": 1', '"steam": 1', 'column "?steam"? is not known.*stream'),
        (
            '"after": [2, 3]',
            '"after": [[2], 3]',
            r"\[4\]: .*after.*: .* is neither text nor a number",
        ),
        ('"after": [2, 3]', '"after": [2, 4]', r"\[4\]: waits, through others, for itself"),
        ('"after": [2, 3]', '"after": {}', r"\[4\]: .*after.*: .* is neither text"),
        ('"duration": "10us"', '"duration": 10', r"\[0\]: duration: .*unit"),
        ('"10us", ', '"10us" ', r"tasks\.json:2: is not JSON: Expecting ',' delimiter"),
        (JSON, "", r"tasks\.json:1: is not JSON"),
        (JSON, "[]", "has no tasks|there is no column kind"),
        (JSON, "{}", "is not a list of objects"),
        (JSON, "[3]", "is not a list of objects"),
        (JSON, "[" * 100_000, "is nested too deeply"),
        (
            JSON,
            '[{"kind": "join", "host": 1' + "0" * 5000 + "}]",
            r"\[0\]: host: .*is not a number",
        ),
    ],
)
def test_a_mistake_in_json_is_told(tmp_path: Path, old: str, new: str, message: str) -> None:
    assert old in JSON
    with pytest.raises(InputError, match=message):
        json_graph(tmp_path, JSON.replace(old, new, 1))


def test_tasks_behind_themselves_across_hosts(tmp_path: Path) -> None:
    text = """\
kind,host,to,size,of,after
receive,0,,,3,
send,0,1,1KB,,0
receive,1,,,1,
send,1,0,1KB,,2
"""
    with pytest.raises(InputError, match=r"tasks\.csv:[2-5]: waits, through others, for itself"):
        graph(tmp_path, text)


@pytest.mark.parametrize(
    ("kind", "given", "message"),
    [
        ("ring_all_reduce", {"group_size": 3}, "rings of 3 hosts do not fill 4 hosts"),
        ("ring_all_reduce", {"size": "15B", "chunks": 4}, "15 bytes cannot be cut into 16"),
        ("pipeline_1f1b", {"stages": 3}, "pipelines of 3 stages do not fill 4 hosts"),
    ],
)
def test_patterns_that_do_not_fit(kind: str, given: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        made(kind, 4, **given)  # type: ignore[arg-type]


def test_pieces_of_a_ring_carry_all_bytes() -> None:
    load = made("ring_all_reduce", 4, size="1003B", chunks=2, group_size=2)
    assert load.flows.total_bytes == 2 * 2 * 1003  # each shard of a ring of two goes twice
    assert set(load.flows.size_bytes.tolist()) == {250, 251}
    ring = (load.flows.src // 2 == load.flows.dst // 2).all()
    assert ring
