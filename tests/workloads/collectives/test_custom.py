"""Algorithms from files: sends are read and checked; errors name the line and what is missing."""

from pathlib import Path

from collective_play import at_last, play, waits_of
from raises_input import raises_input

from netsim.workloads.collectives import CollectiveOptions, closed_form_ps, schedule
from netsim.workloads.collectives.steps import Wire

EXCHANGE = """\
# Two positions exchange halves, and then the sums.
src, dst, pieces, adds, after, follows
0, 1, 1, yes, ,
1, 0, 0, yes, ,
0, 1, 0, , 1, 0
1, 0, 1, no, 0,
"""


def steps_of(folder: Path, content: str, what: str = "all_reduce", n: int = 2, **how: int):
    path = folder / "mine.csv"
    path.write_text(content)
    return schedule(what, n, 101, CollectiveOptions(str(path), **how))


def test_file_of_sends_computes_the_all_reduce(tmp_path: Path) -> None:
    steps = steps_of(tmp_path, EXCHANGE)
    assert steps.src.tolist() == [0, 1, 0, 1]
    assert steps.size_bytes.tolist() == [50, 51, 51, 50]
    assert steps.follows.tolist() == [-1, -1, 0, -1]
    assert [waits_of(steps, k) for k in range(4)] == [[], [], [1], [0]]
    for seed in range(5):
        held = play(steps, "all_reduce", seed=seed)
        for position, pieces, expected in at_last(steps, "all_reduce", 0):
            assert (held[position][pieces] == expected).all()
    with raises_input():
        closed_form_ps(
            "all_reduce", 2, 8, Wire(10**9), CollectiveOptions(str(tmp_path / "mine.csv"))
        )


def test_invalid_files_are_rejected_with_line(tmp_path: Path) -> None:
    for change, message in [
        (("src,", "source,"), "csv:2"),
        (("adds", "add"), ("csv:2", "add")),
        (("0, 1, 1, yes, ,", "0, 1, 1, yes"), ("csv:3", "4", "6")),
        (("0, 1, 1,", "0, 0, 1,"), ("csv:3", "position 0")),
        (("0, 1, 1,", "0, x, 1,"), ("csv:3", "x")),
        (("0, 1, 1,", "0, 1, 1-,"), ("csv:3", "1-", "4", "7")),
        (("0, 1, 1,", "0, 1, 2-1,"), ("csv:3", "2-1")),
        (("yes", "ja"), ("csv:3", "ja")),
        (("1, 0\n", "0, 0\n"), ("csv:5", "send 0", "position 1", "0")),
        (("1, 0\n", "1, 1\n"), ("csv:5", "send 1", "position 1", "0")),
        (("1, 0\n", "3, 0\n"), ("csv:5", "3")),
        (("0, 1, 0, , 1, 0", "0, 1, 0, yes, 1, 0"), ("csv:5", "position 1", "piece 0")),
        (("0, 1, 0, , 1, 0\n", ""), ("all_reduce", "position 1", "position 0")),
        (("no, 0,\n", "no, 0,\n0, 2, 0, , ,\n"), ("3", "2")),
        ((EXCHANGE, ""), ""),
    ]:
        assert change[0] in EXCHANGE
        with raises_input(message):
            steps_of(tmp_path, EXCHANGE.replace(*change, 1))


def test_missing_piece_or_file_is_rejected(tmp_path: Path) -> None:
    with raises_input("position 0", "piece 1"):
        steps_of(tmp_path, "src,dst,pieces\n0,1,1\n", "all_gather")
    with raises_input("nowhere.csv", code="unreadable"):
        schedule("all_reduce", 2, 100, CollectiveOptions("nowhere.csv"))
