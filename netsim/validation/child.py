"""Run a program, watch what it prints, and measure its time and memory."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from netsim.errors import InputError

MAX_QUOTED = 400
LIMITED = (
    "a stock csg-htsim asserts at most 96 and 64 ports per switch, too few for 8,192 hosts: raise "
    "the limit in the file that it names and build it again, or use fewer hosts"
)
"""Hint for an assertion of the other simulator."""

LAUNCHER = """
import json, os, sys, time
report, cores, argv = int(sys.argv[1]), json.loads(sys.argv[2]), sys.argv[3:]
os.set_inheritable(report, False)
if cores:
    os.sched_setaffinity(0, cores)
began = time.monotonic()
try:
    child = os.posix_spawn(argv[0], argv, os.environ)
except OSError as error:
    sys.exit(error.strerror)
_, status, used = os.wait4(child, 0)
whole = time.monotonic() - began
code = os.waitstatus_to_exitcode(status)
os.write(report, json.dumps([code, whole, used.ru_utime + used.ru_stime, used.ru_maxrss]).encode())
"""
"""Starts the program and waits for it. A process's peak memory counts from before it becomes
another program, when it has its parent's, so the parent must be small."""


@dataclass(frozen=True)
class Usage:
    """What a program used: time from start to end, processor time, peak of resident memory."""

    whole_s: float
    processor_s: float
    peak_bytes: int


def run(
    argv: Sequence[str],
    directory: Path,
    cores: Sequence[int],
    limit_s: float,
    read: Callable[[float, bytes], None] = lambda _, __: None,
) -> Usage:
    """Run a program in `directory`, on these cores (none: all), for at most `limit_s`.

    `read` gets each line with the time when it came. Raises InputError, with the program as its
    file, if the program cannot run, fails or takes too long, or if `read` does.
    """
    heard, report = os.pipe()
    arguments = [sys.executable, "-I", "-S", "-c", LAUNCHER, str(report), json.dumps([*cores])]
    process = subprocess.Popen(
        [*arguments, *argv],
        cwd=directory,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        pass_fds=(report,),
        start_new_session=True,
    )
    os.close(report)
    assert process.stdout is not None
    late, last = threading.Event(), b""

    def stop() -> None:
        late.set()
        _kill(process)

    timer = threading.Timer(limit_s, stop)
    timer.start()
    try:
        for line in process.stdout:
            read(time.monotonic(), line.rstrip(b"\n"))
            last = line.strip() or last
        figures = os.read(heard, 1000)
    except InputError as error:
        raise error.at(file=argv[0]) from None
    finally:
        timer.cancel()
        os.close(heard)
        _kill(process)
        process.wait()
        process.stdout.close()
    if late.is_set():
        message = f"did not end within {limit_s:g} s"
        raise InputError(message, file=argv[0], hint="--time-limit")
    code, whole_s, processor_s, peak = json.loads(figures) if figures else (1, 0.0, 0.0, 0)
    if code != 0:
        how = f"was ended by signal {-code}" if code < 0 else "failed"
        said = last.decode("utf-8", "replace")
        hint = LIMITED if "ssertion" in said else None
        message = f"{how}: {said[:MAX_QUOTED] or 'it printed nothing'}"
        raise InputError(message, file=argv[0], hint=hint)
    return Usage(whole_s, processor_s, peak * (1 if sys.platform == "darwin" else 1024))


def _kill(process: subprocess.Popen[bytes]) -> None:
    """Kill a process and all that it started."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
