"""Timelines of synthetic tasks and operations: rows, bars, ranges, the critical path, traces."""

import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import polars as pl
import pytest
from click.testing import CliRunner
from fakes import FakePoint, fake_result
from golden_pictures import assert_golden
from raises_input import mentions, raises_input

from netsim.cli import app
from netsim.results import COLUMNS, Result, load, write_result
from netsim.workloads.plots import timeline
from netsim.workloads.plots.timeline import (
    RESOLUTION,
    View,
    first_of_stages,
    path_line,
    ranks_of,
    timeline_of,
)

US = 10**6
TASKS = {
    "task": np.arange(6),
    "host": np.array([0, 0, 0, 1, 1, 1]),
    "kind": np.array(["compute", "compute", "send", "receive", "join", "compute"]),
    "stream": np.array([0, 3, -1, -1, -1, 0]),
    "flow": np.array([-1, -1, 0, 0, -1, -1]),
    "ready_ps": np.array([0, 0, 5, 0, 90, 90]) * US,
    "start_ps": np.array([0, 0, 5, 80, 90, -1]) * US,
    "end_ps": np.array([5, 9, 40, 90, 90, -1]) * US,
}
ROWS = (
    # rank, host, stream, kind, operation type, group, start and end in us, label
    (0, 4, 0, "forward", "compute", -1, 0, 10, "forward 0"),
    (0, 4, 2, "pp", "send", 0, 10, 14, "forward 0"),
    (1, 6, -1, "pp", "receive", 0, 10, 16, "forward 0"),
    (1, 6, 0, "backward", "compute", -1, 16, 40, "backward 0"),
    (1, 6, 1, "tp", "all_reduce", 1, 40, 60, ""),
    (1, 6, 1, "tp", "compute", -1, 38, 40, "launch"),
    (1, 6, 0, "", "join", -1, 60, 60, ""),
    (0, 4, 0, "backward", "compute", -1, 70, -1, "backward 0"),
)


def written(tmp_path: Path, tables: dict[str, dict[str, Any]]) -> Result:
    result: Any = fake_result(2)
    for name, table in tables.items():
        result.more[name] = {key: np.array(column) for key, column in table.items()}
    result.flows["start_ps"][0] = 7 * US
    result.summary |= {"tasks": 6, "tasks_done": 5, "makespan_ps": 90 * US}
    loaded = load(write_result(tmp_path / "tasks", FakePoint(), result))
    assert isinstance(loaded, Result)
    return loaded


@pytest.fixture
def with_tasks(tmp_path: Path) -> Result:
    return written(tmp_path, {"tasks": TASKS})


def operations(rows: Any = ROWS) -> dict[str, Any]:
    names = (
        "rank",
        "host",
        "stream",
        "kind",
        "operation_type",
        "group",
        "start_ps",
        "end_ps",
        "label",
    )
    table: dict[str, Any] = dict(zip(names, map(np.array, zip(*rows, strict=True)), strict=True))
    for name in ("start_ps", "end_ps"):
        table[name] = np.where(table[name] < 0, -1, table[name] * US)
    n = len(rows)
    table["operation_type"] = table["operation_type"].astype(str)
    columns = [name for name in COLUMNS["operations"] if name != "job"]  # a single job
    return {name: table.get(name, np.zeros(n, np.int64)) for name in columns}


@pytest.fixture
def with_operations(tmp_path: Path) -> Result:
    return written(tmp_path, {"tasks": TASKS, "operations": operations()})


def bars_of(result: Result, *view: Any) -> list[tuple[Any, ...]]:
    found = timeline_of([result], View(*view)).merged(RESOLUTION)
    columns = ("row", "start_ps", "end_ps", "place", "category", "text")
    return found.bars.select(columns).rows()


def test_each_finished_task_has_a_bar(with_tasks: Result) -> None:
    found = timeline_of([with_tasks], View())
    assert found.rows["title"].to_list() == ["h0  stream 0", "stream 3", "flows", "h1  flows"]
    assert bars_of(with_tasks) == [
        (0, 0, 5 * US, 0, "compute", ""),
        (1, 0, 9 * US, 0, "compute", ""),
        (2, 5 * US, 40 * US, 1, "send", ""),
        (3, 7 * US, 90 * US, 2, "receive", ""),  # from its flow's start
    ]
    axes = timeline.timeline([with_tasks]).figure.axes[0]
    names = [label.get_text() for label in axes.get_yticklabels()]
    assert names == found.rows["title"].to_list()
    assert axes.get_xlabel() == "time (us)"
    ends = [path.get_extents() for bars in axes.collections for path in bars.get_paths()]
    assert [(box.x0, box.x1) for box in ends] == [(0, 5), (0, 9), (5, 40), (7, 90)]


def test_each_finished_operation_has_a_bar(with_operations: Result) -> None:
    found = timeline_of([with_operations], View())
    assert found.rows["title"].to_list() == [
        "rank 0 (h4)  compute",
        "pp",
        "rank 1 (h6)  compute",
        "pp",
        "tp",
    ]
    assert bars_of(with_operations) == [
        (0, 0, 10 * US, 0, "forward", "0"),
        (1, 10 * US, 14 * US, 1, "pp", "0"),
        (2, 16 * US, 40 * US, 0, "backward", "0"),
        (3, 10 * US, 16 * US, 2, "pp", "0"),
        (4, 38 * US, 40 * US, 0, "tp", ""),  # the launch of the next operation
        (4, 40 * US, 60 * US, 0, "tp", ""),
    ]
    figure = timeline.timeline([with_operations]).figure
    _, names = figure.axes[0].get_legend_handles_labels()
    assert names == ["forward", "backward", "pp", "tp"]
    assert [text.get_text() for text in figure.axes[0].texts] == ["0", "0"]
    hatches = [bars.get_hatch() for bars in figure.axes[0].collections]
    assert hatches[:2] == [None, None]
    assert hatches[2] != hatches[3]


def test_timeline_is_limited_to_hosts_and_time_range(with_operations: Result) -> None:
    assert bars_of(with_operations, [4], 0, 90 * US) == [
        (0, 0, 10 * US, 0, "forward", "0"),
        (1, 10 * US, 14 * US, 1, "pp", "0"),
    ]
    late = bars_of(with_operations, None, 14 * US, 39 * US)
    assert [bar[4] for bar in late] == ["backward", "pp", "tp"]
    axes = timeline.draw([with_operations], View(None, 14 * US, 39 * US)).figure.axes[0]
    assert axes.get_xlim() == (14, 39)
    with raises_input(key="--hosts"):
        timeline.draw([with_operations], View([5]))
    with raises_input():
        timeline.draw([with_operations], View(None, 70 * US))
    with raises_input(key="--from"):
        timeline.draw([with_operations], View(None, 20 * US, 10 * US))


def test_bars_below_the_resolution_are_merged(tmp_path: Path) -> None:
    # 100,000 short computes back to back, a gap, and a long one.
    n = 100_000
    short = [(0, 0, 0, "", "compute", -1, k, k + 1, f"a {k}") for k in range(n)]
    rows = [*short, (0, 0, 0, "", "compute", -1, 2 * n, 4 * n, "a 7")]
    result = written(tmp_path, {"tasks": TASKS, "operations": operations(rows)})
    begin = time.process_time()
    found = timeline_of([result], View(to_ps=4 * n * US)).merged(RESOLUTION)
    assert time.process_time() - begin < 5
    assert found.bars.select("start_ps", "end_ps", "text").rows() == [
        (0, n * US, ""),
        (2 * n * US, 4 * n * US, "7"),
    ]
    # At a higher zoom, each has its own bar.
    assert len(bars_of(result, None, 0, RESOLUTION // 100 * US)) == RESOLUTION // 100


def test_training_step_shows_one_host_per_stage(with_operations: Result) -> None:
    """Ranks 0 and 1 exchange a pipeline message, so they are stages."""
    assert first_of_stages(with_operations) is None
    with_operations.experiment["resolved"]["traffic"] = {"kind": "training"}
    assert first_of_stages(with_operations) == [4, 6]
    titles = timeline_of([with_operations], View()).rows["title"].to_list()
    assert [title for title in titles if "h" in title] == [
        "stage 0 (h4)  compute",
        "stage 1 (h6)  compute",
    ]
    # 2 stages, 3 replicas and 2 tensor-parallel ranks: 12 ranks, 24 rows.
    rows = [(rank, rank, 0, "forward", "compute", -1, 0, 10, "") for rank in range(12)]
    rows += [(rank, rank, -1, "tp", "all_reduce", rank // 2, 10, 20, "") for rank in range(12)]
    rows += [(rank, rank, -1, "pp", "send", 6 + rank, 20, 30, "") for rank in range(6)]
    rows += [(rank, rank, -1, "pp", "receive", rank, 20, 30, "") for rank in range(6, 12)]
    table = {name: pl.Series(column) for name, column in operations(rows).items()}
    table["group"] = pl.Series([-1 if one[5] < 0 else one[5] for one in rows])
    table["ranks"] = pl.Series([2] * len(rows))
    with_operations.operations = pl.DataFrame(table).with_columns(
        group=pl.when(pl.col("group") >= 0).then("group")
    )
    ranks = ranks_of(with_operations)
    assert (ranks.pp, ranks.dp, ranks.tp) == (2, 3, 2)
    titles = timeline_of([with_operations], View([6, 9])).rows["title"].to_list()
    assert [title for title in titles if "h" in title] == [
        "stage 1, dp 0 (h6)  compute",
        "stage 1, dp 1, tp 1 (h9)  compute",
    ]


def test_critical_path_is_a_line_through_the_bars(with_operations: Result) -> None:
    names = ("segment_type", "host", "to", "stream", "kind", "start_ps", "end_ps")
    segments = pl.DataFrame(
        [
            ("compute", 4, None, 0, "forward", 0, 10 * US),
            ("flow", 4, 6, None, "pp", 10 * US, 16 * US),
            ("compute", 6, None, 0, "backward", 16 * US, 38 * US),
            ("compute", 6, None, 1, "tp", 38 * US, 40 * US),
            ("flow", 6, 9, None, "tp", 40 * US, 60 * US),
        ],
        schema=list(names),
        orient="row",
    )
    rows = timeline_of([with_operations], View()).rows
    x, y = path_line(segments, rows)
    assert (x / US).tolist() == [0, 10, 10, 16, 16, 38, 38, 40, 40, 60]
    np.testing.assert_allclose(y, [0.3, 0.3, 0.8, 3.2, 2.3, 2.3, 4.3, 4.3, 3.8, 3.8])
    # Segments shorter than 17 us are merged; the first two appear in the row of the longer one.
    x, y = path_line(segments, rows, 17 * US)
    assert (x / US).tolist() == [0, 16, 16, 38, 38, 40, 40, 60]
    np.testing.assert_allclose(y, [0.3, 0.3, 2.3, 2.3, 4.3, 4.3, 3.8, 3.8])
    x, y = path_line(segments, rows.filter(pl.col("host") == 4))
    np.testing.assert_allclose(y[:5], [0.3, 0.3, 0.8, 0.8, np.nan])
    path: Any = SimpleNamespace(segments=segments)
    axes = timeline.draw([with_operations], View(path=path)).figure.axes[0]
    assert [line.get_label() for line in axes.get_lines() if line.get_label()[0] != "_"] == [
        "critical path"
    ]


def test_plot_command_writes_timeline_and_trace(with_operations: Result) -> None:
    def plot(*options: str) -> Any:
        return CliRunner().invoke(app, ["plot", str(with_operations.path), *options])

    options = ("--kind", "timeline", "--hosts", "4,6..7", "--from", "1us", "--to", "50us")
    outcome = plot(*options)
    assert outcome.exit_code == 0, outcome.output
    assert (with_operations.path / "timeline.png").stat().st_size > 5000
    trace = with_operations.path.parent / "a.pftrace"
    assert plot(*options, "--out", str(trace)).exit_code == 0
    assert trace.stat().st_size > 200
    assert "--kind timeline" in plot("--hosts", "4").stderr
    assert mentions(plot("--kind", "timeline", "--hosts", "0..1000000").stderr, "host")
    assert mentions(plot("--kind", "timeline", "--hosts", "4..x").stderr, "host")
    assert plot("--kind", "timeline", "--hosts", "1").exit_code == 2


def decoded(content: bytes) -> dict[int, list[Any]]:
    """Decode the fields of a protobuf message into numbers and bytes."""
    fields: dict[int, list[Any]] = {}
    at = 0

    def varint() -> int:
        nonlocal at
        value = shift = 0
        while True:
            byte = content[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    while at < len(content):
        key = varint()
        if key & 7 == 0:
            value: Any = varint()
        else:
            length = 8 if key & 7 == 1 else varint()
            value = content[at : at + length]
            assert len(value) == length
            at += length
        fields.setdefault(key >> 3, []).append(value)
    return fields


def test_perfetto_trace_has_tracks_and_events(with_operations: Result, tmp_path: Path) -> None:
    path = timeline.write([with_operations], tmp_path / "run.pftrace")
    packets = [decoded(packet) for packet in decoded(path.read_bytes())[1]]
    assert all(packet[10] == [1] for packet in packets)  # all in one sequence
    assert packets[0][13] == [1]
    tracks = {}
    for packet in packets:
        if 60 in packet:
            track = decoded(packet[60][0])
            process = decoded(track[3][0])[6][0] if 3 in track else b""
            tracks[track[1][0]] = (track.get(5, [0])[0], (track.get(2, [process])[0]).decode())
    assert tracks == {
        1: (0, "rank 0 (h4)"),
        2: (1, "compute"),
        3: (1, "pp"),
        4: (0, "rank 1 (h6)"),
        5: (4, "compute"),
        6: (4, "pp, received"),
        7: (4, "tp"),
    }
    events = [(packet[8][0], decoded(packet[11][0])) for packet in packets if 11 in packet]
    begins = [(at, one) for at, one in events if one[9] == [1]]
    ends = [(at, one[11][0]) for at, one in events if one[9] == [2]]
    slices = [(at, one[11][0], one[23][0].decode(), one[22][0].decode()) for at, one in begins]
    assert sorted(slices) == [
        (0, 2, "forward 0", "forward"),
        (10_000, 3, "forward 0", "pp"),
        (10_000, 6, "forward 0", "pp"),
        (16_000, 5, "backward 0", "backward"),
        (38_000, 7, "launch", "tp"),
        (40_000, 7, "all_reduce", "tp"),
    ]
    assert sorted(ends) == [
        (10_000, 2),
        (14_000, 3),
        (16_000, 6),
        (40_000, 5),
        (40_000, 7),
        (60_000, 7),
    ]
    # The arrow goes from the send to the receive although both start at the same time.
    (arrow,) = [one for _, one in begins if 47 in one]
    (last,) = [one for _, one in begins if 48 in one]
    assert arrow[47] == last[48] == [(1).to_bytes(8, "little")]
    assert (arrow[11], last[11]) == ([3], [6])
    assert begins[-1][1] == last
    notes = [decoded(note) for note in begins[0][1][4]]
    assert {note[10][0]: note[4][0] for note in notes} == {
        b"start_ps": 0,
        b"duration_ps": 10 * US,
        b"number": 0,
    }


def test_perfetto_trace_has_queue_counters(tmp_path: Path) -> None:
    names = ["leaf0:1", "leaf0:1", "leaf0:2", "leaf0:2", "h4"]
    series = {
        "time_ps": np.array([20, 40, 20, 40, 20]) * US,
        "interval_ps": np.full(5, 20 * US),
        "entity": np.array(["port"] * 4 + ["host"]),
        "entity_index": np.array([9, 9, 10, 10, 4]),
        "name": np.array(names),
        "traffic_class": np.array([0, 0, 0, 0, -1]),
        "max_queue_bytes": np.array([500, 0, 0, 0, -1]),
    }
    required = [one.name for one in COLUMNS["series"].values() if not one.optional]
    series |= {name: np.zeros(5, np.int64) for name in required if name not in series}
    tables = {"tasks": TASKS, "operations": operations(), "series": series}
    result = written(tmp_path, tables)
    path = timeline.write([result], tmp_path / "run.pftrace")
    packets = [decoded(packet) for packet in decoded(path.read_bytes())[1]]
    described = [decoded(packet[60][0]) for packet in packets if 60 in packet]
    (track,) = [one for one in described if 8 in one]
    assert track[2] == [b"leaf0:1, class 0"]  # the other queue stays empty
    assert decoded(track[8][0]) == {3: [3], 7: [b"queue"]}
    events = [(packet[8][0], decoded(packet[11][0])) for packet in packets if 11 in packet]
    counted = [(at, one[30][0]) for at, one in events if one[9] == [4] and one[11] == track[1]]
    assert counted == [(0, 500), (20_000, 0), (40_000, 0)]


def test_pictures_are_the_golden_ones(with_operations: Result, tmp_path: Path) -> None:
    assert_golden("timeline of operations", timeline.timeline([with_operations]))
    tasks = written(tmp_path / "other", {"tasks": TASKS})
    assert_golden("timeline of tasks", timeline.timeline([tasks]))
