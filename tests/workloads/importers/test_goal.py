"""Reading GOAL schedules from text and binary files."""

from pathlib import Path

from foreign_goal import CALC, RECV, SEND, Op, Rank, as_binary, as_text
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from raises_input import mentions

from netsim.errors import InputError
from netsim.workloads.traffic.goal import (
    GoalSchedule,
    is_binary,
    read_goal_binary,
    read_goal_text,
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


def error_of(directory: Path, content: str | bytes) -> str:
    """Return the only error for a file, or "" if it is read."""
    try:
        read(directory, content)
    except InputError as error:
        assert len(error.errors) == 1  # noqa: PT017
        return str(error)
    return ""


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


def test_invalid_texts_are_rejected(tmp_path: Path) -> None:
    for text, message in [
        ("", "s.goal: must begin with num_ranks"),
        ("num_ranks 0\n", "0 ranks in a file of 12 bytes"),
        ("num_ranks 1\nnum_ranks 1\n", ":2: num_ranks must appear once, before all ranks"),
        ("rank 0 {\n}\n", ":1: rank 0 of 0, expected none"),
        ("num_ranks 1\n", ":1: ends after 0 of 1 ranks"),
        ("num_ranks 1\nrank 0 {\n", ":2: missing } of rank 0"),
        ("num_ranks 2\nrank 1 {\n}\n", ":2: rank 1 of 2, expected rank 0"),
        ("num_ranks 1\nrank 0 {\nrank 1 {\n", ":3: missing } of rank 0"),
        ("num_ranks 1\nrank 0 {\n}\n}\n", ":4: } without an open rank"),
        ("num_ranks 1\nrank 0 {\n}\ncalc 5\n", ":4: is outside of a rank"),
        ("num_ranks 1\nrank 0 {\nclac 5\n}\n", ':3: "clac 5" is not understood'),
        ("num_ranks 1\nrank 0 {\nsend 5b from 0\n}\n", ":3: is not an operation"),
        (
            "num_ranks 1\nrank 0 {\nsend 5b to 1\n}\n",
            "line 3 (send of rank 0): unknown peer: ranks are 0..0",
        ),
        ("num_ranks 1\nrank 0 {\nsend 5b to 0 tag -1\n}\n", "a send needs a tag"),
        (f"num_ranks 1\nrank 0 {{\nsend {2**50}b to 0\n}}\n", "has 1 PiB or more"),
        (f"num_ranks 1\nrank 0 {{\ncalc {10**17}\n}}\n", "takes 20 h or more"),
        (f"num_ranks 1\nrank 0 {{\ncalc {'9' * 5000}\n}}\n", ":3: size 9999"),
        ("num_ranks 1\nrank 0 {\ncalc 5 cpu 256\n}\n", ":3: cpu 256 exceeds 255"),
        ("num_ranks 1\nrank 0 {\na: calc 5\na: calc 5\n}\n", ':4: duplicate label "a"'),
        ("num_ranks 1\nrank 0 {\na: calc 5\na requires b\n}\n", ':4: unknown label "b"'),
        (
            "num_ranks 1\nrank 0 {\na: calc 1\na requires b\nb: calc 1\n}\n",
            ':4: unknown label "b", defined below on line 5',
        ),
        ("num_ranks 1\nrank 0 {\na: calc 5\na requires a\n}\n", ":4: waits for itself"),
        ("num_ranks 1\nrank 0 {\n/* calc 5\n}\n", ":3: unterminated comment"),
        (b"num_ranks 1\nrank 0 {\n\xff\n}\n", "is not UTF-8 text"),
    ]:
        assert message in error_of(tmp_path, text)


def test_invalid_binary_files_are_rejected(tmp_path: Path) -> None:
    for place, value, message in [
        (0, 2342, "was modified by LogGOPSim with --save-mem"),
        (8, 3, "rank 2: its part exceeds the file, which may be truncated"),
        (46, 3, "rank 0: 3 nodes and 1 roots do not fill 94 bytes"),
        (58, 9, "rank 0: node 0 should wait for 9 others, but 0 name it"),
        (54, 1, "rank 0: its 1 roots are not the nodes without dependencies"),
        (81, 400_000_000, "rank 0: 1 dependencies, but records claim 400,000,000"),
        (30, 38, "its ranks claim 282 bytes of 188"),
        (136, 5, "rank 0: unknown node 5 waits for node 0"),
    ]:
        content = bytearray(BINARY)
        content[place : place + 4] = value.to_bytes(4, "little")
        assert message in error_of(tmp_path, bytes(content))
