"""A process that runs points for another one, told by JSON messages over a socket.

It answers each message that is no stop with one that ends the work: "estimate", "done", "error" or
"hang"; before that it sends "progress", "note" and "warning". It ends when the socket closes. It
ignores signals that reach whole groups of processes, such as Ctrl-C: the other process decides.
"""

from __future__ import annotations

import gc
import json
import os
import signal
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, replace
from functools import partial
from multiprocessing.connection import Connection
from multiprocessing.reduction import recv_handle
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, NoReturn

from netsim import errors
from netsim.errors import InputError
from netsim.results.files import plain
from netsim.running.estimate import NO_FEATURES, estimate
from netsim.running.executor import Callbacks, PointOutcome
from netsim.running.point import Progress
from netsim.running.point_spec import rebuild
from netsim.running.worker_process import MAX_BYTES

if TYPE_CHECKING:
    from netsim.experiment import Point

OBJECTS_PER_COLLECTION = 100_000
"""As in the command line: collections go through all that was imported."""

STOPPED, HUNG, ALONE = 0, 3, 4
"""Exit statuses: stopped before there was something to save, hung, the other process is gone."""


def main(descriptor: int) -> None:
    """Serve the process at the other end of a socket until it closes."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2):
        signal.signal(number, signal.SIG_IGN)
    gc.set_threshold(OBJECTS_PER_COLLECTION)
    _load_libraries()
    Worker(Connection(descriptor)).serve()


def _load_libraries() -> None:
    """Load what every point needs and is loaded late elsewhere, before work comes."""
    import polars  # noqa: F401

    from netsim.results.columns import reports

    reports()


class Worker:
    """Does what messages say, one after the other."""

    def __init__(self, channel: Connection) -> None:
        self._channel = channel
        self._sending = threading.Lock()
        self._messages: SimpleQueue[dict[str, Any]] = SimpleQueue()
        self._lock: int | None = None
        self._stopped = False
        self._has_state = False  # nothing is lost by ending at once

    def serve(self) -> None:
        """Work until the channel closes."""
        errors.redirect_warnings(partial(self._send, "warning"))
        threading.Thread(target=self._listen, name="messages", daemon=True).start()
        while True:
            message = self._messages.get()
            try:
                if message["kind"] == "estimate":
                    self._send("estimate", self._estimate(message["spec"]))
                else:
                    self._send("done", self._run(message["spec"]))
            except InputError as error:
                self._send("error", [_parts(one) for one in error.errors])
            self._has_state = False

    def _listen(self) -> None:
        """Receive messages in a thread of their own: a stop must be heard during a run."""
        while True:
            try:
                message = json.loads(self._channel.recv_bytes(MAX_BYTES))
            except (EOFError, OSError):
                os._exit(ALONE)
            if message["kind"] == "lock":
                self._lock = recv_handle(self._channel)  # held until this process ends
            elif message["kind"] == "stop":
                self._stopped = True
                if not self._has_state:
                    os._exit(STOPPED)
            else:
                self._messages.put(message)

    def _send(self, kind: str, content: Any) -> None:
        data = json.dumps(plain({"kind": kind, "content": content})).encode()
        with self._sending, suppress(OSError):  # the thread that listens ends the process
            self._channel.send_bytes(data)

    def _estimate(self, spec: Mapping[str, Any]) -> dict[str, Any]:
        run, _ = rebuild(spec)
        return asdict(replace(estimate(run.point), feature_set=NO_FEATURES))

    def _run(self, spec: Mapping[str, Any]) -> dict[str, Any]:
        run, options = rebuild(spec)
        if not options.force and (kept := run.kept()) is not None:
            return _reply(kept)  # the process before this one was killed after its last step
        callbacks = Callbacks(
            watch=self._watch,
            should_stop=lambda: self._stopped,
            note=partial(self._send, "note"),
        )
        return _reply(run.simulate(options, callbacks, self._hang))

    def _watch(self, _: Point) -> Callable[[Progress], None]:
        def report(progress: Progress) -> None:
            self._has_state = progress.phase == "run"
            self._send("progress", asdict(progress))

        return report

    def _hang(self, outcome: PointOutcome) -> NoReturn:
        self._send("hang", outcome.error)
        os._exit(HUNG)


def _reply(outcome: PointOutcome) -> dict[str, Any]:
    """Return where the result of a point is, or why there is none."""
    directory = str(outcome.directory) if outcome.written else None
    return {"directory": directory, "error": outcome.error}


def _parts(error: InputError) -> dict[str, Any]:
    return {name: getattr(error, name) for name in ("message", "file", "key", "hint", "code")}
