"""The loop around an engine: how long it goes on, what it is told, and why it ends."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest
from changed_handlers import engine as broken
from changed_handlers import in_handler
from engine_runs import DROP_TAIL, TRIM, US, build, fat_tree, flow_table
from raises_input import mentions, raises

from netsim.engine.engine import Engine
from netsim.engine.state_views import Counts, Status
from netsim.errors import RunError
from netsim.running.drive import StepReport, Tuner, drive
from netsim.running.stall import StallDetector

FLOWS = flow_table([(0, 3, 200_000, 0), (1, 2, 400_000, 50 * US)])


def engine(transport: str = "ndp") -> Engine:
    fabric = TRIM if transport == "ndp" else DROP_TAIL
    return build(fat_tree(2, 2, "100Gbps"), FLOWS, transport, fabric, jit=False)


def test_a_run_ends_when_all_flows_have() -> None:
    """Before the network is empty: NDP's last acknowledgments arrive after the last delivery."""
    one, drained = engine(), engine()
    assert drive(one) == "finished"
    assert drive(drained, stop_when_done=False) == "undelivered"
    assert one.counts.delivered == one.counts.finished == len(FLOWS)
    assert one.counts.hops <= drained.counts.hops
    assert drained.conservation().packets.in_flight == 0


def test_a_run_ends_at_the_time_asked_for() -> None:
    one = engine()
    assert drive(one, until_ps=60 * US) == "time_limit"
    assert one.now_ps == 60 * US
    assert drive(one) == "finished"  # and can go on


def test_every_chunk_is_shown() -> None:
    for windows in [1, 10, None]:
        seen: list[StepReport] = []
        one = engine()
        assert drive(one, seen.append, windows=windows) == "finished"
        assert seen[-1].status is Status.DONE
        assert seen[-1].counts == one.counts
        assert all(report.is_running for report in seen[:-1])
        lengths = [b.counts.windows - a.counts.windows for a, b in pairwise(seen)]
        assert windows is None or set(lengths[:-1]) == {windows}
        assert sorted(report.wall_s for report in seen) == [report.wall_s for report in seen]


def test_whoever_looks_may_end_the_run() -> None:
    """Its reason comes before those of the engine, and before an interruption."""

    def first_flow(report: StepReport) -> str | None:
        return "the first flow is done" if report.counts.delivered else None

    one = engine()
    why = drive(one, first_flow, windows=1, should_stop=lambda: one.counts.delivered > 0)
    assert mentions(why, "flow")
    assert one.counts.delivered == 1


def test_a_run_can_be_interrupted() -> None:
    one = engine()
    assert drive(one, windows=1, should_stop=lambda: one.counts.windows == 5) == "interrupted"
    assert one.counts.windows == 5


def test_an_error_of_a_handler_in_plain_python_names_it(tmp_path: Path) -> None:
    one = broken(tmp_path, in_handler("on_control", "tx.n_acked //= now - now"))
    with pytest.raises(RunError) as caught:
        drive(one)
    said = str(caught.value)
    assert mentions(said, "mine.py", "on_control")
    assert "ZeroDivisionError" in said
    assert ": tx.n_acked //= now - now)" in said


def test_so_does_an_error_in_setup(tmp_path: Path) -> None:
    with raises(RunError, "mine.py", "host 0", "3"):
        broken(tmp_path, in_handler("setup", "raise SystemExit(3)"))


def test_patience() -> None:
    """It is lost after more than 10 ps, or more than 3 windows, in which nothing has moved."""

    def at(now_ps: int, windows: int) -> Counts:
        return Counts(now_ps, windows, hops=0, delivered=0, finished=0, payload_bytes=0)

    stall_detector = StallDetector(10, 3)
    assert not stall_detector.is_stalled(at(20, 1), 0)
    assert not stall_detector.is_stalled(at(30, 4), 0)
    assert stall_detector.is_stalled(at(31, 4), 0)
    assert stall_detector.is_stalled(at(30, 5), 0)
    assert not stall_detector.is_stalled(at(35, 6), 1)
    assert stall_detector.since_ps == 35
    assert not StallDetector(10).is_stalled(at(5, 1000), 0)


def test_a_rank_may_have_no_window_in_a_call() -> None:
    tuner = Tuner(2)
    tuner.learn(1, 0, 1000, 0.5)
    assert tuner.speeds == {1: 2000.0}
