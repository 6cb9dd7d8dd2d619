"""Task graphs from CSV and JSON files: their tasks, and errors with their lines."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from raises_input import mentions, raises_input
from traffic_cases import made

from netsim.flows import COMPUTE, JOIN, RECEIVE, SEND
from netsim.model.workload import Workload

GOOD = """\
# a host computes, sends, and receives a reply
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


def test_csv_file_is_read(tmp_path: Path) -> None:
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
    assert mentions(tasks.name(0), "task 0", "host 0")


def test_invalid_csv_error_names_the_line(tmp_path: Path) -> None:
    for old, new, message in [
        ("compute,0", "think,0", ("tasks.csv:3", "think")),
        ("compute,0,10us", "compute,4,10us", ("tasks.csv:3", "host 4", "0..3")),
        ("compute,0,10us", "compute,,10us", ("tasks.csv:3", "-1")),
        ("compute,0,10us", "compute,0,", "tasks.csv:3"),
        ("compute,0,10us", "compute,0,10", "tasks.csv:3"),
        ("compute,0,10us,1", "compute,0,10us,x", ("tasks.csv:3", "x")),
        ("send,0,1us,,2,", "send,0,1us,,9,", ("tasks.csv:4", "9")),
        ("send,0,1us,,2,", "send,0,1us,,,", "tasks.csv:4"),
        ("send,0,1us,,2,", "send,0,1us,,0,", ("tasks.csv:4", "host 0")),
        ("2MB", "0B", ("tasks.csv:4", "1")),
        ("acked", "soon", ("tasks.csv:4", "done_when", "soon")),
        ("receive,2,,,,,1", "receive,2,,,,,2", ("tasks.csv:6", "task 2")),
        ("receive,2,,,,,1", "receive,2,,,,,", "tasks.csv:6"),
        ("receive,2,,,,,1", "receive,2,,,,,77", ("tasks.csv:6", "77", "0..5")),
        ("receive,2,,,,,1,", "receive,2,,,,,3,", ("tasks.csv:6", "task 3", "host 0")),
        ("join,2,", "join,2,1us", "tasks.csv:8"),
        ("2 3,,", "2 5,,", ("tasks.csv:8", "task 5", "host 0", "host 2")),
        ("2 3,,", "2 6,,", ("tasks.csv:8", "task 6")),
        ("2 3,,", "2 4,,", "tasks.csv:8"),
        ("join,2,,,,,,2 3", "receive,2,,,,,1,2 3", ("tasks.csv:8", "task 1")),
        ("stream", "steam", "steam"),
        ("kind,", "of_kind,", "column"),
    ]:
        assert old in GOOD
        with raises_input(message):
            graph(tmp_path, GOOD.replace(old, new, 1))


def test_csv_without_tasks_is_rejected(tmp_path: Path) -> None:
    for text, message in [
        ("", ""),
        ("kind,host\n", "task"),
        ("kind\njoin\n", "column"),
        ("kind,host\njoin,0\n", "task"),
        ("kind,host\njoin\n", ("tasks.csv:2", "1", "2")),
    ]:
        with raises_input(message):
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
"""The tasks of `GOOD` in JSON."""


def json_graph(tmp_path: Path, text: str) -> Workload:
    (tmp_path / "tasks.json").write_text(text)
    return made("task_graph", 4, directory=tmp_path, file="tasks.json")


def test_json_and_csv_files_give_the_same_tasks(tmp_path: Path) -> None:
    one, other = json_graph(tmp_path, JSON), graph(tmp_path, GOOD)
    assert one.tasks is not None
    assert other.tasks is not None
    for name in ("kind", "host", "duration_ps", "stream", "flow", "done_when", "label"):
        assert list(getattr(one.tasks, name)) == list(getattr(other.tasks, name))
    assert np.array_equal(one.tasks.edges(), other.tasks.edges())
    for name in ("src", "dst", "size_bytes"):
        assert list(getattr(one.flows, name)) == list(getattr(other.flows, name))


def test_invalid_json_is_rejected(tmp_path: Path) -> None:
    for old, new, message in [
        ('"compute", "host": 0', '"compute", "host": 4', ("tasks.json", "0", "host 4")),
        ('"compute", "host": 0', '"compute", "host": 0.5', ("0", "0.5")),
        (
            '"compute", "host": 0',
            '"compute", "host": true',
            "0",
        ),
        ('"compute", "host": 0', '"compute"', ("0", "-1")),
        ('"stream": 1', '"stream": 1, "stream": 2', "0"),
        ('"stream": 1', '"steam": 1', "steam"),
        (
            '"after": [2, 3]',
            '"after": [[2], 3]',
            "4",
        ),
        ('"after": [2, 3]', '"after": [2, 4]', "4"),
        ('"after": [2, 3]', '"after": {}', "4"),
        ('"duration": "10us"', '"duration": 10', "0"),
        ('"10us", ', '"10us" ', ("tasks.json:2", "JSON", ",")),
        (JSON, "", ("tasks.json:1", "JSON")),
        (JSON, "[]", "task"),
        (JSON, "{}", ""),
        (JSON, "[3]", ""),
        (JSON, "[" * 100_000, ""),
        (
            JSON,
            '[{"kind": "join", "host": 1' + "0" * 5000 + "}]",
            "0",
        ),
    ]:
        assert old in JSON
        with raises_input(message):
            json_graph(tmp_path, JSON.replace(old, new, 1))


def test_dependency_cycle_across_hosts_is_rejected(tmp_path: Path) -> None:
    text = """\
kind,host,to,size,of,after
receive,0,,,3,
send,0,1,1KB,,0
receive,1,,,1,
send,1,0,1KB,,2
"""
    with raises_input("tasks.csv"):
        graph(tmp_path, text)


def test_invalid_ring_and_pipeline_parameters_are_rejected() -> None:
    for kind, given, message in [
        ("collective", {"group_size": 3}, ("3", "4")),
        ("pipeline_1f1b", {"stages": 3}, ("3", "4")),
    ]:
        with raises_input(message):
            made(kind, 4, **given)  # type: ignore[arg-type]
