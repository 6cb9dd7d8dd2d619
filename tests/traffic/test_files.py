"""Flow lists and task graphs from files."""

import os
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from unittest.mock import patch

import numpy as np
import polars as pl
import pytest
from raises_input import mentions, raises_input
from traffic_cases import made, make, pairs

from netsim.flows import COMPUTE, JOIN, RECEIVE, SEND
from netsim.model.flows import FlowTable
from netsim.model.workload import Workload


def flow_list(directory: Path, text: str, n_hosts: int = 4) -> FlowTable:
    (directory / "flows.csv").write_text(text)
    return make("flow_list", n_hosts, directory=directory, n_traffic_classes=2, file="flows.csv")


def test_flow_list_csv_is_read(tmp_path: Path) -> None:
    flows = flow_list(
        tmp_path,
        "# three flows\nsrc, dst,size_bytes,start_us,class,after\n"
        "0,1,1000,0,0,\n\n1,2,2000,1.5,1,0\n2,3,3000,1e3,0,0 1\n",
    )
    assert pairs(flows) == [(0, 1), (1, 2), (2, 3)]
    assert flows.size_bytes.tolist() == [1000, 2000, 3000]
    assert flows.start_ps.tolist() == [0, 1_500_000, 10**9]
    assert flows.cls.tolist() == [0, 1, 0]
    assert [flows.awaited(flow) for flow in range(3)] == [[], [0], [0, 1]]


def test_flow_list_values_may_have_units(tmp_path: Path) -> None:
    flows = flow_list(tmp_path, "src,dst,size,start\n0,1,2MB,1.5us\n1,0,64KiB,0ns\n")
    assert flows.size_bytes.tolist() == [2_000_000, 65_536]
    assert flows.start_ps.tolist() == [1_500_000, 0]


def test_flow_list_parquet_is_read(tmp_path: Path) -> None:
    columns = {"src": [0, 1], "dst": [1, 0], "size_bytes": [10, 20], "start_ns": [0.5, 2.0]}
    pl.DataFrame({**columns, "after": [[], [0]]}).write_parquet(tmp_path / "flows.parquet")
    flows = make("flow_list", 2, directory=tmp_path, file="flows.parquet")
    assert pairs(flows) == [(0, 1), (1, 0)]
    assert flows.start_ps.tolist() == [500, 2000]
    assert flows.awaited(1) == [0]


def test_invalid_parquet_error_names_the_row(tmp_path: Path) -> None:
    for change, message in [
        ({"src": [0, None]}, "column"),
        ({"src": [0.5, 1.0]}, "column"),
        ({"src": [False, True]}, "column"),
        ({"src": pl.Series([2**63, 1], dtype=pl.UInt64)}, ("row 0", "9223372036854775808")),
        ({"start_us": ["1", "2"]}, "start_us"),
        ({"start_us": [Decimal(1), Decimal(2)]}, ("start_us", "Decimal")),
        ({"start_ps": [[1], [2]]}, "start_ps"),
        ({"start": [datetime(2020, 1, 1)] * 2}, "column"),
        ({"start": [b"1us", b"1us"]}, "column"),
        ({"start_ps": [0, None]}, "start_ps"),
        ({"after": [[1.5], []]}, "column"),
        ({"after": [[None, 1], []]}, "row 0"),
        ({"class": [0, 1]}, ("row 1", "class 1", "class 0")),
        ({"dst": [1, 1]}, ("row 1", "host 1")),
    ]:
        columns = {"src": [0, 1], "dst": [1, 0], "size_bytes": [10, 20]} | change
        pl.DataFrame(columns).write_parquet(tmp_path / "flows.parquet")
        with raises_input(message):
            make("flow_list", 2, directory=tmp_path, file="flows.parquet")


def test_parquet_larger_than_memory_is_rejected_without_reading(tmp_path: Path) -> None:
    """Equal values compress to almost nothing, so a small file can hold many rows."""
    ones = np.ones(1_000_000, np.int64)
    table = pl.DataFrame(dict.fromkeys(("src", "dst", "size_bytes"), ones))
    table.write_parquet(tmp_path / "flows.parquet")
    assert (tmp_path / "flows.parquet").stat().st_size < 20_000
    with (
        patch("netsim.common.memory.available_bytes", return_value=100_000_000),
        raises_input("1,000,000", key="traffic.file"),
    ):
        make("flow_list", 2, directory=tmp_path, file="flows.parquet")


def test_pipes_and_directories_are_rejected(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.csv")
    (tmp_path / "folder.parquet").mkdir()
    for name in ("pipe.csv", "folder.parquet"):
        for kind in ("flow_list", "htsim_cm"):
            with raises_input(name):
                make(kind, 2, directory=tmp_path, file=name)


MATRIX = """\
Nodes 4
Connections 4
Triggers 2
# a barrier, then a chain
0->1 id 1 start 0 size 2000000 send_done_trigger 7
2->1 id 2 start 2500000 size 3000000 recv_done_trigger 7

1->3 id 3 trigger 7 size 4000000 recv_done_trigger 8 prio 1
3->0 id 4 trigger 8 size 5000000
trigger id 7 barrier count 2
trigger id 8 oneshot
"""


def matrix(directory: Path, text: str, **given_: object) -> FlowTable:
    (directory / "flows.cm").write_text(text)
    return make("htsim_cm", 4, directory=directory, file="flows.cm", **given_)


def test_htsim_matrix_is_read(tmp_path: Path) -> None:
    flows = matrix(tmp_path, MATRIX)
    assert pairs(flows) == [(0, 1), (2, 1), (1, 3), (3, 0)]
    assert flows.size_bytes.tolist() == [2_000_000, 3_000_000, 4_000_000, 5_000_000]
    assert flows.start_ps.tolist() == [0, 2_500_000, 0, 0]
    assert [flows.awaited(flow) for flow in range(4)] == [[], [], [0, 1], [2]]


def test_multishot_trigger_starts_one_flow_per_event(tmp_path: Path) -> None:
    text = (
        "0->1 id 1 start 0 size 9 send_done_trigger 1\n1->2 id 2 trigger 1 size 9\n"
        "trigger id 1 multishot\n"
    )
    assert matrix(tmp_path, text).awaited(1) == [0]
    with raises_input("cm:4", "trigger 1"):
        matrix(tmp_path, "2->3 id 3 trigger 1 size 9\n" + text)


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


@pytest.mark.parametrize("size", ["9" * 5000, "9" * 200_000], ids=len)
def test_number_of_thousands_of_digits_is_rejected(tmp_path: Path, size: str) -> None:
    with raises_input("csv:2"):
        flow_list(tmp_path, f"src,dst,size_bytes\n0,1,{size}\n")
    with raises_input("cm:6"):
        matrix(tmp_path, MATRIX.replace("start 2500000", f"start {size}"))


@pytest.mark.parametrize("text", ["[" * 100_000, '[{"kind": "join", "host": 1' + "0" * 5000 + "}]"])
def test_json_too_deep_or_too_long_is_rejected(tmp_path: Path, text: str) -> None:
    with raises_input():
        json_graph(tmp_path, text)
