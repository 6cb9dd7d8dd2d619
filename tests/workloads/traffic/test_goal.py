"""GOAL schedules: reading text and binary files; dependencies, simulated without compiling."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from engine_runs import DROP_TAIL, NS, US, build, run
from foreign_goal import CALC, RECV, SEND, Op, Rank, as_binary, as_text
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from raises_input import mentions
from task_times import operations_of
from traffic_cases import made, star

from netsim.flows import COMPUTE
from netsim.model.workload import Workload
from netsim.workloads.operations.table import WHATS
from netsim.workloads.traffic.goal import GoalSchedule, is_binary, read_goal_binary, read_goal_text

ONE_PACKET = 2 * (4160 * 80 + 1 * US)
"""Host to host over two links of 100 Gbps and 1 us: 4096 bytes of payload and the header."""
CONTROL = 2 * ((64 + 64) * 80 + 1 * US)  # the same for 64 bytes

Times = dict[str, tuple[int, int]]


def goal(directory: Path, content: str | bytes, n_hosts: int = 3, **given: Any) -> Workload:
    path = directory / "s.goal"
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return made("goal", n_hosts, directory=directory, file="s.goal", **given)


def times(load: Workload, n_hosts: int = 3) -> Times:
    """Return the start and end of each operation by kind and line, without control messages."""
    engine = build(star(n_hosts), load.flows, "datagram", DROP_TAIL, tasks=load.tasks, jit=False)
    states = run(engine).task_states()
    table = operations_of(load)
    assert table is not None
    assert table.label is not None
    assert (states.end_ps >= 0).all()
    begins, ends = states.start_ps[table.begin_task], states.end_ps[table.end_task]
    return {
        f"{WHATS[table.what[k]]} {table.label[k]}": (int(begins[k]), int(ends[k]))
        for k in range(len(table))
        if table.kinds[table.kind[k]] != "control"
    }


VECTOR = [
    Rank([Op(CALC, 5000), Op(SEND, 4096, 1, 7)], [(0, 1, False)]),
    Rank([Op(RECV, 4096, 0, 7), Op(CALC, 2000)], [(0, 1, False)]),
]


@pytest.mark.parametrize("content", [as_text(VECTOR), as_binary(VECTOR)])
def test_message_runs_between_two_calculations(tmp_path: Path, content: str | bytes) -> None:
    load = goal(tmp_path, content, 2)
    ends = sorted(end for _, end in times(load, 2).values())
    assert ends[0] == 5 * US
    assert ends[-1] == 5 * US + ONE_PACKET + 2 * US
    assert load.notes == ()


def two(*lines: str) -> str:
    """Return a schedule of two ranks; rank 1's lines follow "|", and rank 0's start on line 3."""
    cut = lines.index("|")
    one, other = lines[:cut], lines[cut + 1 :]
    return "\n".join(["num_ranks 2", "rank 0 {", *one, "}", "rank 1 {", *other, "}"])


def test_overhead_occupies_the_cpu(tmp_path: Path) -> None:
    text = two("s: send 4096b to 1", "c: calc 5000", "c requires s", "|", "recv 4096b from 0")
    spans = times(goal(tmp_path, text, overhead="1us"))
    assert spans["compute line 4"] == (1 * US, 6 * US)
    assert spans["receive line 3 to 8"][1] == 1 * US + ONE_PACKET
    assert spans["compute line 8"] == (1 * US + ONE_PACKET, 2 * US + ONE_PACKET)


def test_only_sends_above_the_eager_threshold_wait_for_the_receiver(tmp_path: Path) -> None:
    text = two(
        *("s: send 4096b to 1", "c: calc 5", "c requires s", "|"),
        *("a: calc 9000", "r: recv 4096b from 0", "r requires a"),
    )
    eager = times(goal(tmp_path, text))
    assert eager["compute line 4"][0] == 0
    assert eager["receive line 3 to 9"][1] == 9 * US
    for limit, waits in (("4096B", False), ("4095B", True), ("0B", True), ("none", False)):
        load = goal(tmp_path, text, eager_threshold=limit)
        late = times(load)
        assert late["receive line 3 to 9"][1] == 9 * US + waits * (CONTROL + ONE_PACKET)
        sent = 9 * US + CONTROL + 4160 * 80
        assert late["compute line 4"][0] == (sent if waits else 0)
        assert len(load.notes) == waits


def test_irequires_waits_for_the_start_of_an_operation(tmp_path: Path) -> None:
    text = two(
        *("a: calc 9000", "s: send 4096b to 1", "s irequires a", "|"),
        *("r: recv 4096b from 0", "b: calc 1000 cpu 1", "b irequires r"),
    )
    spans = times(goal(tmp_path, text))
    assert spans["receive line 4 to 8"][1] == ONE_PACKET
    assert spans["compute line 9"] == (0, 1 * US)


def test_cpu_runs_one_operation_at_a_time_and_cpus_run_in_parallel(tmp_path: Path) -> None:
    text = two(
        "calc 1000", "calc 2000", "calc 4000 cpu 1", "s: send 1b to 1", "|", "recv 1b from 0"
    )
    spans = times(goal(tmp_path, text))
    assert spans["compute line 3"] == (0, 1 * US)
    assert spans["compute line 4"] == (1 * US, 3 * US)
    assert spans["compute line 5"] == (0, 4 * US)


def test_deviations_from_the_file_are_reported(tmp_path: Path) -> None:
    text = two(
        *("send 0b to 0 tag 1 nic 1", "recv 0b from 0 tag 1", "send 0b to 1", "|", "recv 5b from 0")
    )
    load = goal(tmp_path, text)
    assert len(load.flows) == 1
    assert mentions(load.notes, "s.goal", "2", "0", "1", "NIC")


def random_schedule(seed: int, n_ranks: int = 3) -> list[Rank]:
    """Return a schedule without deadlock: all edges and messages follow one global order."""
    rng = np.random.default_rng(seed)
    ranks = [Rank() for _ in range(n_ranks)]
    for tag in range(14):
        src, dst = rng.permutation(n_ranks)[:2].tolist()
        cpu = int(rng.integers(2))
        if rng.random() < 0.5:
            ranks[src].ops.append(Op(CALC, int(rng.integers(0, 3000)), cpu=cpu))
        else:
            size = int(rng.choice([0, 64, 9000]))
            ranks[src].ops.append(Op(SEND, size, dst, tag % 2, cpu))
            ranks[dst].ops.append(Op(RECV, size, src, tag % 2, cpu))
    for rank in ranks:
        n = len(rank.ops)
        pairs = [(a, b) for b in range(n) for a in range(b) if rng.random() < 0.3]
        rank.edges = [(a, b, bool(rng.integers(2))) for a, b in pairs]
    return ranks


def _of_line(spans: Times, line: int, op: Op) -> tuple[int, int]:
    """Return the start and end of the operation on a line; messages name the lines of both ends."""
    sends, takes = (f" line {line}", f" to {line}")
    found = [
        when
        for name, when in spans.items()
        if name in (f"compute{sends}", f"join{sends}")
        or (op.kind == SEND and name.startswith(f"send{sends} to"))
        or (op.kind == RECV and name.startswith("receive") and name.endswith(takes))
    ]
    return min(begin for begin, _ in found), max(end for _, end in found)


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("given", [{}, {"eager_threshold": "100B", "overhead": "1us"}])
def test_random_schedules_respect_their_dependencies(
    tmp_path: Path, seed: int, given: dict[str, str]
) -> None:
    ranks = random_schedule(seed)
    load = goal(tmp_path, as_text(ranks), **given)
    spans = times(load)
    line = 1
    for rank in ranks:
        line += 1
        own = [_of_line(spans, line + 1 + k, op) for k, op in enumerate(rank.ops)]
        for first, then, at_start in rank.edges:
            op, (begin, end) = rank.ops[first], own[first]
            eager = op.kind == SEND and not (given and op.size > 100)
            over = begin + US * bool(given) if eager else end
            assert own[then][0] >= (begin if at_start else over)
        line += len(rank.ops) + len(rank.edges) + 1
    tasks = load.tasks
    assert tasks is not None
    computes = np.flatnonzero(tasks.kind == COMPUTE)
    expected = sum(op.kind == CALC and op.size > 0 for rank in ranks for op in rank.ops)
    messages = sum(op.kind == SEND for rank in ranks for op in rank.ops)
    assert computes.size == expected + 2 * messages * bool(given)
    assert tasks.duration_ps.max(initial=0) >= max(
        (op.size * NS for rank in ranks for op in rank.ops if op.kind == CALC), default=0
    )


SAME_FILE = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)

TEXT = """num_ranks 2
rank 0 {
a: calc 5000
b: send 4096b to 1 tag 7
b requires a
}
rank 1 {
a: recv 4096b from 0 tag 7
b: calc 2000
b requires a
}
"""
BINARY = bytes.fromhex(
    "7f10000000000000020000000000260000000000000084000000000000008400000000000000e200000000"
    "00000002000000010000000000000000000000030000000088130000000000000000000000000100000000"
    "00000000000000010000000100000001010000000010000000000000070000000000000000000100000000"
    "00000001000000010000000200000001000000000000000000000002000000000010000000000000070000"
    "00000001000000000000000000000001000000010000000300000000d00700000000000000000000000000"
    "00000001000000000000000100000001000000"
)


def read(directory: Path, content: str | bytes) -> GoalSchedule:
    path = directory / "s.goal"
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return read_goal_binary(path) if is_binary(path) else read_goal_text(path)


def rows(schedule: GoalSchedule) -> list[tuple[int, ...]]:
    names = ("rank", "kind", "peer", "size", "tag", "cpu", "nic")
    return list(zip(*(getattr(schedule, name).tolist() for name in names), strict=True))


def edges(schedule: GoalSchedule) -> set[tuple[int, int, bool]]:
    columns = schedule.first.tolist(), schedule.then.tolist(), schedule.at_start.tolist()
    return set(zip(*columns, strict=True))


def test_recorded_schedule_is_read_from_text_and_binary(tmp_path: Path) -> None:
    assert len(BINARY) == 234
    assert (
        as_binary(
            [
                Rank([Op(CALC, 5000), Op(SEND, 4096, 1, 7)], [(0, 1, False)]),
                Rank([Op(RECV, 4096, 0, 7), Op(CALC, 2000)], [(0, 1, False)]),
            ]
        ).hex()
        == BINARY.hex()
    )
    for content in (TEXT, BINARY):
        schedule = read(tmp_path, content)
        assert schedule.n_ranks == 2
        assert rows(schedule) == [
            (0, CALC, -1, 5000, 0, 0, 0),
            (0, SEND, 1, 4096, 7, 0, 0),
            (1, RECV, 0, 4096, 7, 0, 0),
            (1, CALC, -1, 2000, 0, 0, 0),
        ]
        assert edges(schedule) == {(0, 1, False), (2, 3, False)}
    assert mentions(read(tmp_path, TEXT).name(2), "line 8", "rank 1")
    assert mentions(read(tmp_path, BINARY).name(2), "node 0", "rank 1")


@st.composite
def schedules(draw) -> list[Rank]:
    n_ranks = draw(st.integers(1, 4))
    ranks = []
    for _ in range(n_ranks):
        ops = []
        for _ in range(draw(st.integers(0, 6))):
            kind = draw(st.sampled_from([SEND, RECV, CALC]))
            peer, tag = draw(st.integers(0, n_ranks - 1)), draw(st.integers(0, 2**32 - 2))
            if kind == RECV:
                peer, tag = draw(st.sampled_from([(peer, tag), (-1, tag), (peer, -1), (-1, -1)]))
            if kind == CALC:
                peer = tag = 0
            nic = 0 if kind == CALC else draw(st.integers(0, 255))
            size = draw(st.integers(0, 2**40))
            ops.append(Op(kind, size, peer, tag, draw(st.integers(0, 255)), nic))
        pairs = [(a, b) for b in range(len(ops)) for a in range(b)]
        chosen = draw(st.lists(st.sampled_from(pairs), unique=True)) if pairs else []
        ranks.append(Rank(ops, [(a, b, draw(st.booleans())) for a, b in chosen]))
    return ranks


@settings(SAME_FILE, max_examples=50)
@given(ranks=schedules())
def test_text_and_binary_schedules_are_equal(tmp_path: Path, ranks: list[Rank]) -> None:
    """Random schedules."""
    text = read(tmp_path, as_text(ranks))
    binary = read(tmp_path, as_binary(ranks))
    assert rows(text) == rows(binary)
    assert edges(text) == edges(binary)
    expected = [(op.kind, op.size) for rank in ranks for op in rank.ops]
    assert [(kind, size) for _, kind, _, size, *_ in rows(text)] == expected
    assert len(text.first) == sum(len(rank.edges) for rank in ranks)


def test_all_forms_of_the_text_grammar_are_read(tmp_path: Path) -> None:
    """No blanks, comments, several statements on a line, CRLF, and any peer and tag."""
    text = (
        "// made by hand { }\n/* num_ranks 9 // */ num_ranks 2 rank 0 {\r\n"
        "x1:send 1b to 1tag 5cpu 3nic 2\r\n  \t\n/* rank 1 {\nrequires */\n"
        "send7bto1\n// calc 5\nrecvx: recv 8b from -1 tag -1\ncalc0cpu 9\n"
        "recvx irequires x1\n} rank 1{ \n}"
    )
    schedule = read(tmp_path, text)
    assert rows(schedule) == [
        (0, SEND, 1, 1, 5, 3, 2),
        (0, SEND, 1, 7, 0, 0, 0),
        (0, RECV, -1, 8, -1, 0, 0),
        (0, CALC, -1, 0, 0, 9, 0),
    ]
    assert edges(schedule) == {(0, 2, True)}
    assert schedule.place.tolist() == [3, 7, 9, 10]
