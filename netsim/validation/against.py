"""Run netsim and another simulator alternately on the same input, and measure time and memory."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from numpy.typing import NDArray

from netsim.errors import InputError, RunError
from netsim.frozen import frozen
from netsim.validation.htsim import PeerInput, PeerOutput

MAX_QUOTED = 400
PORTS = "addPort"
PORT_LIMITS = (
    "htsim limits the ports of a switch here: raise 96 and 64 to 256 in every assertion of "
    "fat_tree_topology.cpp that contains addPort, and build again; keep the assertions, since they "
    "also add the ports. Or use fewer hosts, or --topology three-tier"
)
"""Hint if an assertion that contains `PORTS` fails."""

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
"""Starts the program and waits for it. A process's peak memory includes the time before exec, when
it has its parent's memory, so the parent must be small."""


@frozen
class Usage:
    """A program's use: time from start to end, processor time, peak of resident memory."""

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

    `read` gets each line with its arrival time. Raises InputError, with the program as its file, if
    the program cannot run, fails or takes too long, or if `read` raises it.
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
        hint = PORT_LIMITS if PORTS in said else None
        message = f"{how}: {said[:MAX_QUOTED] or 'it printed nothing'}"
        raise InputError(message, file=argv[0], hint=hint)
    return Usage(whole_s, processor_s, peak * (1 if sys.platform == "darwin" else 1024))


def _kill(process: subprocess.Popen[bytes]) -> None:
    """Kill a process and all its children."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


LEAST_END_US, TIMES_LONGER = 1000, 20
"""Limit of the other simulator's time: its minimum, and a multiple of netsim's last finish."""

COMPLETION: dict[str, Callable[[NDArray[np.float64]], Any]] = {
    "mean": np.mean,
    "p50": np.median,
    "p99": lambda times_us: np.quantile(times_us, 0.99),
    "max": np.max,
}
"""Name -> figure of an array of completion times."""

Turn = Mapping[str, float]  # one run: `simulated_s`, the fields of `Usage`, and COMPLETION in us


@frozen
class Comparison:
    """The runs of both simulators, in pairs."""

    netsim: list[Turn]
    peer: list[Turn]

    def medians(self, name: str) -> tuple[float, float, float]:
        """Return the medians of a metric, netsim's first, and the median of the pairs' ratios."""
        own, other = ([turn[name] for turn in turns] for turns in (self.netsim, self.peer))
        ratios = [theirs / max(ours, 1e-9) for ours, theirs in zip(own, other, strict=True)]
        return median(own), median(other), median(ratios)


@frozen
class Limits:
    """Runs of each simulator, netsim's threads, and the time limit of a run. Both simulators have
    as many cores as there are threads."""

    repeats: int
    threads: int
    limit_s: float

    @property
    def cores(self) -> list[int]:
        """Cores that both may use; empty means all."""
        if not hasattr(os, "sched_getaffinity"):
            return []
        return sorted(os.sched_getaffinity(0))[: self.threads]


def compare(
    experiment: Sequence[str],
    program: Path,
    given: PeerInput,
    limits: Limits,
    note: Callable[[str, Turn], None],
) -> Comparison:
    """Alternate runs of `experiment`, arguments of `netsim run`, and `program` with input `given`.

    netsim runs once in advance, so that it does not compile later. `note` gets each run and its
    simulator's name. Raises InputError if the other simulator cannot run or prints something else,
    RunError if netsim fails.
    """
    done = Comparison([], [])
    with tempfile.TemporaryDirectory(prefix="netsim-against-") as name:
        directory = Path(name)
        last_us = _netsim(experiment, directory, limits)["max"]
        end_us = max(LEAST_END_US, round(TIMES_LONGER * last_us))
        argv = [str(program.resolve()), *given.write(directory, end_us)]
        for _ in range(limits.repeats):
            done.netsim.append(_netsim(experiment, directory, limits))
            note("netsim", done.netsim[-1])
            output = PeerOutput(given.flows, end_us)
            usage = run(argv, directory, limits.cores, limits.limit_s, output.read)
            output.check(program)
            simulated_s = output.ended_s - output.began_s
            done.peer.append(_turn(simulated_s, usage, np.array(output.times_us)))
            note(program.name, done.peer[-1])
    return done


def _netsim(experiment: Sequence[str], directory: Path, limits: Limits) -> Turn:
    from netsim.results import load_result

    out = directory / "result"
    options = ("--force", "--quiet", "--threads", str(limits.threads), "--out", str(out))
    argv = [sys.executable, "-P", "-m", "netsim", "run", *experiment, *options]
    try:
        usage = run(argv, Path.cwd(), limits.cores, limits.limit_s)
    except InputError as error:
        raise RunError(f"netsim {error.message}") from None
    result = load_result(out)
    if not result.complete:
        raise RunError(f"netsim: {result.reason}")
    times_us = result.flows["acked_ps"].to_numpy() / 1e6
    return _turn(float(result.summary["wall_s"]), usage, times_us)


def _turn(simulated_s: float, usage: Usage, times_us: NDArray[np.float64]) -> Turn:
    completion = {name: float(figure(times_us)) for name, figure in COMPLETION.items()}
    return {"simulated_s": simulated_s, **asdict(usage), **completion}
