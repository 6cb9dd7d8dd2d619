"""Worker processes, which run points one after the other, and how to ask them for answers.

A process that ends before it has answered costs only its point, which is tried once more. This file
imports little, so that processes start early.
"""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from multiprocessing.connection import Connection, wait
from multiprocessing.reduction import send_handle
from typing import Any

CODE = "import sys; sys.path[:] = {path}; from netsim.running.worker import main; main({fd})"
"""Program of a worker process, which imports from the same path as this process."""

MAX_BYTES = 1 << 30  # longest message
END_S = 0.1  # seconds that a process has to end once its socket is closed

POLL_S = 0.1
ATTEMPTS = 2
STOP_S = 3.0  # seconds after a stop in which a process must start to simulate, or it is killed
ENDS = ("done", "estimate", "error", "hang")  # final messages for a point

Reply = dict[str, Any]
Heard = Callable[[str, Any], None]


class WorkerProcess:
    """A process that runs points (`worker.py`)."""

    def __init__(self, lock: int | None = None) -> None:
        ours, theirs = socket.socketpair()
        program = CODE.format(path=repr(sys.path), fd=theirs.fileno())
        with theirs:
            self.process = subprocess.Popen(
                [sys.executable, "-P", "-c", program],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
            )
        self.channel = Connection(ours.detach())
        if lock is not None:
            self.share(lock)

    def share(self, lock: int) -> None:
        """Share the lock on the result directory, which then lasts until this process ends."""
        self.send({"kind": "lock"})
        with suppress(OSError):
            send_handle(self.channel, lock, self.process.pid)

    def send(self, message: Mapping[str, Any]) -> None:
        """Send a message; a process that has ended is noticed when its answer is read."""
        with suppress(OSError):
            self.channel.send_bytes(json.dumps(message).encode())

    def receive(self) -> tuple[str, Any] | None:
        """Return kind and content of the next message; None if the process has ended."""
        try:
            message = json.loads(self.channel.recv_bytes(MAX_BYTES))
            return str(message["kind"]), message["content"]
        except (EOFError, OSError, ValueError, KeyError, TypeError):
            return None

    def answer(self, should_stop: Callable[[], bool], heard: Heard) -> tuple[str, Any]:
        """Return the message that ends a point, or "ended" if the process has ended; `heard` gets
        the others."""
        stopped_s: float | None = None
        is_simulating = False
        while True:
            if stopped_s is None and should_stop():
                stopped_s = time.monotonic()
                self.send({"kind": "stop"})
            waited_s = 0.0 if stopped_s is None else time.monotonic() - stopped_s
            if waited_s > STOP_S and not is_simulating:
                self.process.kill()
            if not wait([self.channel], POLL_S):
                continue
            message = self.receive()
            if message is None:
                return "ended", None
            if message[0] in ENDS:
                return message
            if message[0] == "progress":
                is_simulating = message[1]["phase"] == "run"
            heard(*message)

    def end(self) -> str:
        """End the process at once; return how it ended."""
        with suppress(OSError):
            self.channel.close()
        if self.process.poll() is None:
            with suppress(subprocess.TimeoutExpired):
                self.process.wait(END_S)  # its socket closed, so it ends by itself
        self.process.kill()
        status = self.process.wait()
        if status >= 0:
            return f"its process ended with status {status}"
        name = signal.Signals(-status).name
        hint = ", perhaps for lack of memory" if name == "SIGKILL" else ""
        return f"its process was ended by {name}{hint}"


class Workers:
    """Worker processes to be used by several threads; idle ones end after `idle_s` seconds."""

    def __init__(self, started: Iterable[WorkerProcess] = (), idle_s: float | None = None) -> None:
        self.idle = [*started]
        self.active: list[WorkerProcess] = []
        self.lock: int | None = None
        self._idle_s = idle_s
        self._changing = threading.Lock()

    def open(self, lock: int) -> None:
        """Share the lock on the result directory with all processes."""
        self.lock = lock
        for worker in self.idle:
            worker.share(lock)

    def start(self, n: int) -> None:
        """Start processes, up to n in total."""
        while len(self.idle) + len(self.active) < n:
            self.idle.append(WorkerProcess(self.lock))

    def ask(
        self,
        kind: str,
        spec: Mapping[str, Any],
        should_stop: Callable[[], bool],
        heard: Heard = lambda *_: None,
    ) -> Reply:
        """Return the answer for a point: {"directory": ..., "error": ...} of a run, or an estimate.

        {"stopped": True} if it is stopped before there is something to save, {"input_error": [...]}
        for wrong input. With "lost", a process ended before it answered.
        """
        reason = ""
        lost: Reply = {}
        for attempt in range(ATTEMPTS):
            if should_stop():
                return {"stopped": True, **lost}
            worker = self._take()
            worker.send({"kind": kind, "spec": spec})
            answer, content = worker.answer(should_stop, heard)
            if answer in ("done", "estimate", "error"):
                self._give_back(worker)
                return {"input_error": content} if answer == "error" else {**content, **lost}
            reason = worker.end()
            self._give_back(worker, ended=True)
            lost = {"lost": True}
            if answer == "hang":
                return {"directory": None, "error": str(content), **lost}
            if attempt == 0 and not should_stop():
                heard("note", f"{spec['name']}: {reason}: tried once more")
        if should_stop():
            return {"stopped": True, **lost}
        return {"directory": None, "error": f"{reason} twice", **lost}

    def stop_and_wait(self) -> None:
        """Stop the running points; return once their results are written."""
        for worker in self.active:
            worker.send({"kind": "stop"})
        for worker in self.active:
            while (message := worker.receive()) is not None and message[0] not in ENDS:
                pass

    def end_idle(self, left: int = 0) -> None:
        """End all idle processes except `left`."""
        with self._changing:
            ending = self.idle[left:]
            del self.idle[left:]
        for worker in ending:
            worker.end()

    def kill(self) -> None:
        """End all processes, without waiting for results."""
        for worker in [*self.active, *self.idle]:
            worker.process.kill()
        self.end_idle()

    def _end_unused(self) -> None:
        if not self.active:
            self.end_idle()

    def _take(self) -> WorkerProcess:
        with self._changing:
            worker = self.idle.pop(0) if self.idle else WorkerProcess(self.lock)
            self.active.append(worker)
        return worker

    def _give_back(self, worker: WorkerProcess, *, ended: bool = False) -> None:
        with self._changing:
            self.active.remove(worker)
            if not ended:
                self.idle.append(worker)
        if self._idle_s is not None and not self.active:
            timer = threading.Timer(self._idle_s, self._end_unused)
            timer.daemon = True
            timer.start()
