"""The suite goes on, whatever a handler does, and says where it did it."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner
from conformance_case import tried, variant

from netsim.cli import app
from netsim.conformance import watch
from netsim.conformance.finding import PASS

FIRST = "    first = 0\n"
NEXT = "    tx.next_seq += 1\n"


@pytest.mark.parametrize("case", ["sizes", "windows"])
def test_an_error_is_told_with_its_line(tmp_path: Path, case: str) -> None:
    (finding,) = tried(tmp_path, [case], (NEXT, NEXT + "    tx.next_seq //= tx.acked\n")).values()
    assert finding.failed
    assert finding.detail.startswith("build_packet: ZeroDivisionError")
    assert finding.detail.endswith("(variant.py, line 30: tx.next_seq //= tx.acked)")


def test_what_ready_returns(tmp_path: Path) -> None:
    found = tried(tmp_path, ["sizes"], ("return BLOCKED", "return cancel_timer(env, tx, 0)"))
    assert found["sizes"].detail == "ready: returned None, not a time in ps, or BLOCKED"
    found = tried(tmp_path, ["sizes"], ("return BLOCKED", 'return "never"'))
    assert "returned 'never'" in found["sizes"].detail


def test_an_exit_is_not_one_of_the_suite(tmp_path: Path) -> None:
    changes = (
        (NEXT, NEXT + "    sys.exit(0)\n"),
        ("from netsim.plugins.params", "import sys\nfrom netsim.plugins.params"),
    )
    found = tried(tmp_path, ["sizes", "windows"], *changes)
    assert "build_packet: SystemExit: 0 (variant.py" in found["sizes"].detail
    assert found["windows"].detail == "as in sizes"


def test_an_endless_loop_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch, "PATIENCE_S", 0.3)
    change = ("    tx.next_seq = first\n", "    while first >= 0:\n        first += 1\n")
    found = tried(tmp_path, ["sizes", "full queues", "windows"], change)
    assert found["sizes"].status == found["windows"].status == PASS
    assert "on_timer: does not come back: an endless loop? (variant.py, line 5" in (
        found["full queues"].detail
    )


def test_telemetry_is_watched(tmp_path: Path) -> None:
    handler = "def on_forward(now, pkt, port, queue):\n    queue.bytes // 0\n\n\ndef build_packet("
    found = tried(tmp_path, ["sizes"], ("def build_packet(", handler))
    assert "on_forward: ZeroDivisionError" in found["sizes"].detail


def test_rows_are_shown_as_cases_end(tmp_path: Path) -> None:
    """Ctrl-C comes in the second case."""
    path = variant(tmp_path, (FIRST, FIRST + "    raise KeyboardInterrupt\n"))
    arguments = ["check-transport", str(path), "--case", "sizes", "--case", "full queues"]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 130
    assert [line.split()[:2] for line in result.stdout.splitlines()] == [
        ["case", "result"],
        ["sizes", "pass"],
    ]
