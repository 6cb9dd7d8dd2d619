"""External programs run as children: measured, limited and killed."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import pytest
from raises_input import raises_input

from netsim.validation import child

HOG = "import time; x = bytearray(50_000_000); end = time.process_time() + 0.2"
BUSY = f"{HOG}\nwhile time.process_time() < end: pass\nprint('done', flush=True)"


def run(directory: Path, code: str, limit_s: float = 60.0, **given: object) -> child.Usage:
    argv = [sys.executable, "-I", "-S", "-c", code]
    return child.run(argv, directory, [], limit_s, **given)  # type: ignore[arg-type]


def test_failing_programs_are_reported(tmp_path: Path) -> None:
    for code, value in [
        ("print('no such file'); raise SystemExit(3)", "no such file"),
        ("import os; os.abort()", "signal 6"),
        (
            "print('a.cpp:7: Assertion n <= 96 failed', flush=True); import os; os.abort()",
            "ports per switch",
        ),
        ("print('x' * 100_000)", "too much"),
        ("import time; print('still here', flush=True); time.sleep(60)", "0.5 s"),
        ("import time\nwhile time.sleep(0.1) is None: print('here', flush=True)", "0.5 s"),
    ]:
        with raises_input(value, file=Path(sys.executable).name):
            run(tmp_path, code, 0.5 if "sleep" in code else 60.0)


def test_endless_output_is_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(child, "MAX_OUTPUT", 10_000)
    with raises_input("too much"):
        run(tmp_path, "while True: print('here')")


def test_ctrl_c_kills_the_child(tmp_path: Path) -> None:
    def read(_: float, __: bytes) -> None:
        raise KeyboardInterrupt

    code = """
import time
print("here", flush=True)
while True:
    with open("beats", "a") as file:
        file.write("x")
    time.sleep(0.01)
"""
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path, code, read=read)
    beats = tmp_path / "beats"
    size = beats.stat().st_size if beats.exists() else 0
    time.sleep(0.2)
    assert (beats.stat().st_size if beats.exists() else 0) == size
