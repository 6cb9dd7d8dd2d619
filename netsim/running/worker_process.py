"""Start a worker process and talk to it; light, so that processes start before much is imported."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from multiprocessing.connection import Connection
from multiprocessing.reduction import send_handle
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from netsim.running.point import Progress
    from netsim.running.point_run import PointRun

CODE = "import sys; sys.path[:] = {path}; from netsim.running.worker import main; main({fd})"
"""Program of a worker process: like this one, it finds only what this one finds."""

MAX_BYTES = 1 << 30
"""Longest message."""

END_S = 0.1
"""Seconds that a process has to end once its socket is closed."""


class WorkerProcess:
    """A process that runs points (`worker.py`), and the point that it has."""

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
        self.run: PointRun | None = None
        self.report: Callable[[Progress], None] | None = None
        self.is_simulating = False

    def share(self, lock: int) -> None:
        """Share the lock on the result directory: it holds until this process has ended, too."""
        self.send({"kind": "lock"})
        with suppress(OSError):
            send_handle(self.channel, lock, self.process.pid)

    def give(self, kind: str, run: PointRun, spec: Mapping[str, Any]) -> None:
        """Give the process a point to estimate or run."""
        self.run, self.is_simulating = run, False
        self.send({"kind": kind, "spec": spec})

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
