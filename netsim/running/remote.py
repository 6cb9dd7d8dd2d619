"""Points on other machines: what runs there, for any scheduler.

A scheduler's own process must not end with a point, nor wait while one compiles. So it gives each
point to a worker process (`worker.py`), as `netsim run --jobs` does.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Mapping
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any

from netsim.running.point_run import PointOutcome, PointRun, RunOptions
from netsim.running.point_spec import point_spec
from netsim.running.processes import input_error, outcome_of
from netsim.running.worker_process import WorkerProcess

POLL_S = 0.2
ATTEMPTS = 2
IDLE_S = 60.0
"""Seconds after which worker processes with nothing to do end."""

ENDS = ("done", "error", "hang")
"""Messages that end a point."""

_active: list[WorkerProcess] = []
_idle: list[WorkerProcess] = []
_lock = threading.Lock()


def remote_spec(run: PointRun, options: RunOptions, lock: int) -> dict[str, Any]:
    """Return the spec of a point for another machine, which may share the result directory: there
    the lock file has the same content.
    """
    path = os.readlink(f"/proc/self/fd/{lock}") if Path("/proc/self/fd").is_dir() else ""
    token = os.pread(lock, 64, 0).decode("ascii", "replace")
    return {**point_spec(run, options), "store": {"lock": path, "token": token}}


def run_remotely(spec: Mapping[str, Any], should_stop: Callable[[], bool]) -> dict[str, Any]:
    """Run a point in a worker process; return its answer: "directory", "error", perhaps "files".

    If it is stopped before there is something to save, the answer is {"stopped": True}; for wrong
    input, it is {"input_error": [...]}. A process that is killed is replaced once.
    """
    reason = ""
    for _ in range(ATTEMPTS):
        if should_stop():
            return {"stopped": True}
        worker = _take()
        worker.send({"kind": "run", "spec": spec})
        kind, content = _answer(worker, should_stop)
        if kind == "done" and isinstance(content, dict):
            _give_back(worker)
            return content
        if kind == "error":
            _give_back(worker)
            return {"input_error": content}
        reason = worker.end()
        _give_back(worker, ended=True)
        if kind == "hang":
            return {"directory": None, "error": str(content)}
    return {"stopped": True} if should_stop() else {"directory": None, "error": f"{reason} twice"}


def reply_outcome(run: PointRun, reply: Mapping[str, Any]) -> PointOutcome | None:
    """Return the outcome of a point from an answer of `run_remotely`; None if it was stopped.

    Raises InputError if its input is wrong.
    """
    if "input_error" in reply:
        raise input_error(reply["input_error"])
    return None if "stopped" in reply else outcome_of(run, reply)


def _end_if_idle() -> None:
    if not _active:
        end_idle()


def stop_and_wait() -> None:
    """Stop the points that run; return when they have been written."""
    for worker in _active:
        worker.send({"kind": "stop"})
    for worker in _active:
        while (message := worker.receive()) is not None and message[0] not in ENDS:
            pass


def adopt(started: Iterable[WorkerProcess]) -> None:
    """Use worker processes that have been started already."""
    with _lock:
        _idle.extend(started)


def end_idle() -> None:
    """End the worker processes that have nothing to do."""
    with _lock:
        while _idle:
            _idle.pop().end()


def _take() -> WorkerProcess:
    with _lock:
        _active.append(_idle.pop() if _idle else WorkerProcess())
        return _active[-1]


def _give_back(worker: WorkerProcess, *, ended: bool = False) -> None:
    with _lock:
        _active.remove(worker)
        if not ended:
            _idle.append(worker)
    if not _active:
        timer = threading.Timer(IDLE_S, _end_if_idle)
        timer.daemon = True
        timer.start()


def _answer(worker: WorkerProcess, should_stop: Callable[[], bool]) -> tuple[str, Any]:
    """Return the message that ends a point; "ended" if the process has ended."""
    stopped = False
    while True:
        if not stopped and should_stop():
            stopped = True
            worker.send({"kind": "stop"})
        if not wait([worker.channel], POLL_S):
            continue
        message = worker.receive()
        if message is None:
            return "ended", None
        if message[0] in ENDS:
            return message
