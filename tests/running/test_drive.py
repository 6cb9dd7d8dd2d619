"""The loop around an engine: how long it runs, what it reports, and why it ends."""

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
from netsim.running.drive import StepReport, drive
from netsim.running.stall import StallDetector

FLOWS = flow_table([(0, 3, 200_000, 0), (1, 2, 400_000, 50 * US)])


def engine(transport: str = "ndp") -> Engine:
    fabric = TRIM if transport == "ndp" else DROP_TAIL
    return build(fat_tree(2, 2, "100Gbps"), FLOWS, transport, fabric, jit=False)


def test_run_ends_when_all_flows_are_done() -> None:
    """The network need not be empty: NDP's last acknowledgments arrive after the last delivery."""
    one, drained = engine(), engine()
    assert drive(one) == "finished"
    assert drive(drained, stop_when_done=False) == "undelivered"
    assert one.counts.delivered == one.counts.finished == len(FLOWS)
    assert one.counts.hops <= drained.counts.hops
    assert drained.conservation().packets.in_flight == 0


def test_run_stops_at_the_time_limit_and_can_continue() -> None:
    one = engine()
    assert drive(one, until_ps=60 * US) == "time_limit"
    assert one.now_ps == 60 * US
    assert drive(one) == "finished"  # and can continue


def test_observer_sees_every_step() -> None:
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


def test_observer_can_end_the_run() -> None:
    """The observer's reason takes precedence over the engine's and over an interruption."""

    def first_flow(report: StepReport) -> str | None:
        return "the first flow is done" if report.counts.delivered else None

    one = engine()
    why = drive(one, first_flow, windows=1, should_stop=lambda: one.counts.delivered > 0)
    assert mentions(why, "flow")
    assert one.counts.delivered == 1


def test_handler_error_names_file_handler_and_source_line(tmp_path: Path) -> None:
    one = broken(tmp_path, in_handler("on_control", "tx.n_acked //= now - now"))
    with pytest.raises(RunError) as caught:
        drive(one)
    message = str(caught.value)
    assert mentions(message, "mine.py", "on_control")
    assert "ZeroDivisionError" in message
    assert ": tx.n_acked //= now - now)" in message


def test_setup_error_names_file_and_host(tmp_path: Path) -> None:
    with raises(RunError, "mine.py", "host 0", "3"):
        broken(tmp_path, in_handler("setup", "raise SystemExit(3)"))


def test_stall_detector_limits_time_and_windows_without_progress() -> None:
    """The limits are 10 ps and 3 windows; exceeding either one is a stall."""

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
