"""Run `netsim` in its own process; stop it with Ctrl-C, then by force."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from .command import Outcome

HANG_TIMEOUT_S = 20.0
"""Time that a process may take to exit after Ctrl-C."""

INTERRUPTED = 130


def run(
    arguments: Sequence[str], folder: Path, seconds: float, environment: Mapping[str, str]
) -> Outcome:
    """Run `netsim ARGUMENTS` in `folder`; send Ctrl-C after `seconds`.

    A process that then exits has `status` 130 and no trouble; one that does not exit has the
    trouble "time".
    """
    with tempfile.TemporaryFile(dir=folder) as out, tempfile.TemporaryFile(dir=folder) as err:
        process = subprocess.Popen(
            [sys.executable, "-m", "netsim", *arguments],
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            env={**os.environ, **environment},
            start_new_session=True,
        )
        trouble = "" if _ends(process, seconds) else _stop(process)
        status: int | None = process.returncode
        if status is not None and status < 0 and not trouble:
            trouble = f"signal {-status}"
        out.seek(0)
        err.seek(0)
        texts = [stream.read().decode("utf-8", "backslashreplace") for stream in (out, err)]
    return Outcome(None if trouble else status, texts[0], texts[1], trouble)


def _ends(process: subprocess.Popen[bytes], seconds: float) -> bool:
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        return False
    return True


def _stop(process: subprocess.Popen[bytes]) -> str:
    """Send Ctrl-C; if the process does not exit, kill it and return the trouble."""
    process.send_signal(signal.SIGINT)
    if _ends(process, HANG_TIMEOUT_S):
        return ""
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    return "time: does not end by Ctrl-C"
