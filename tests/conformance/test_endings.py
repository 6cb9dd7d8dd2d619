"""The suite continues whatever a handler does, and reports the handler and line."""

from __future__ import annotations

from pathlib import Path

import pytest
from conformance_case import tried
from raises_input import mentions

from netsim.conformance import handler_monitor
from netsim.conformance.finding import PASS

FIRST = "    first = 0\n"
NEXT = "    tx.next_seq += 1\n"


@pytest.mark.parametrize("case", ["sizes", "windows"])
def test_exception_is_reported_with_its_line(tmp_path: Path, case: str) -> None:
    (finding,) = tried(tmp_path, [case], (NEXT, NEXT + "    tx.next_seq //= tx.acked\n")).values()
    assert finding.failed
    assert mentions(finding.detail, "build_packet")
    assert mentions(finding.detail, "variant.py", "line 30", "tx.next_seq", "tx.acked")


def test_exit_in_a_handler_does_not_end_the_suite(tmp_path: Path) -> None:
    changes = (
        (NEXT, NEXT + "    sys.exit(0)\n"),
        ("from netsim.params", "import sys\nfrom netsim.params"),
    )
    found = tried(tmp_path, ["sizes", "windows"], *changes)
    assert mentions(found["sizes"].detail, "build_packet", "0", "variant.py")
    assert mentions(found["windows"].detail, "size")


def test_endless_loop_times_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handler_monitor, "TIMEOUT_S", 0.3)
    change = ("    tx.next_seq = first\n", "    while first >= 0:\n        first += 1\n")
    found = tried(tmp_path, ["sizes", "full queues", "windows"], change)
    assert found["sizes"].status == found["windows"].status == PASS
    assert mentions(found["full queues"].detail, "on_timer", "variant.py", "line 5")
