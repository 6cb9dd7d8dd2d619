"""Ctrl-C and SIGTERM: a run is asked to stop, and what it has done is written.

Python handles a signal in the main thread, between two of its instructions; while compiled code
runs there are none. So a thread is told of signals as well: it answers at once, and ends the
process if the main thread does not.
"""

from __future__ import annotations

import signal
import socket
import threading
import time
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, Any

import click

from netsim.cli.ending import end_now

if TYPE_CHECKING:
    from netsim.running.point import Progress

SIGNALS = (signal.SIGINT, signal.SIGTERM)

GRACE_S = 1.5
"""Seconds that the main thread has to stop at once before the process is ended."""

CHUNK_PATIENCE_S = 1.2
"""Seconds that a chunk of windows may take in plain Python once it is asked to be the last one."""

ANSWER = "interrupted: stopping after the present step, to write what is done; again stops at once"


class Interruption:
    """While entered, the first Ctrl-C (or SIGTERM) only sets a flag; the second one interrupts.

    The object is the `should_stop` of a run: calling it tells whether the flag is set. While
    `at_once` is true, the first one interrupts already: where nothing looks at the flag, such as
    in a plugin's `build`, or while code is compiled.
    """

    def __init__(self, *, at_once: bool = False) -> None:
        self.signal: int | None = None
        self.at_once = at_once
        self._handled = 0
        self._in_chunk = False
        self._left = threading.Event()
        self._former: dict[int, Any] = {}
        self._former_fd = -1
        self._sockets: tuple[socket.socket, socket.socket] | None = None

    def __call__(self) -> bool:
        self._in_chunk = self.signal is None
        return self.signal is not None

    def watching(
        self, told: Callable[[Progress], None] | None = None
    ) -> Callable[[Progress], None]:
        """A run begins whose progress is to be told to what this gives, which tells `told`.

        Until it drives the engine, an interruption is at once.
        """
        self.at_once, self._in_chunk = True, False

        def note(progress: Progress) -> None:
            self.at_once, self._in_chunk = progress.phase != "run", False
            if told is not None:
                told(progress)

        return note

    @property
    def stopped_at_once(self) -> bool:
        """Whether the first signal interrupted, and there was no second one."""
        return self._handled == 1 and self.at_once

    @property
    def exit_code(self) -> int:
        """The exit status that shells expect: 128 + the number of the signal; 0 without one."""
        return 0 if self.signal is None else 128 + self.signal

    def __enter__(self) -> Interruption:
        if threading.current_thread() is threading.main_thread():
            self._sockets = socket.socketpair()
            for end in self._sockets:
                end.setblocking(False)
            self._sockets[0].setblocking(True)
            threading.Thread(target=self._listen, name="signals", daemon=True).start()
            self._former = {number: signal.signal(number, self._handle) for number in SIGNALS}
            self._former_fd = signal.set_wakeup_fd(self._sockets[1].fileno())
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._left.set()
        if self._sockets is not None:
            signal.set_wakeup_fd(self._former_fd)
            for number, handler in self._former.items():
                signal.signal(number, handler)
            self._sockets[1].close()  # ends the thread
            self._sockets = None

    def _handle(self, number: int, _: FrameType | None) -> None:
        self._handled += 1
        self.signal = self.signal or number
        if self.at_once or self._handled > 1:
            raise KeyboardInterrupt

    def _listen(self) -> None:
        """Answer signals as they come, whatever the main thread is doing."""
        assert self._sockets is not None
        listening, heard = self._sockets[0], 0
        with listening:
            while numbers := listening.recv(1):
                if numbers[0] not in SIGNALS:
                    continue
                heard += 1
                self.signal = self.signal or numbers[0]
                if not self.at_once and heard == 1:
                    click.echo(ANSWER, err=True)
                    if not self._stuck():
                        continue
                    # A handler in plain Python does not come back, but can be interrupted.
                    self.at_once = True
                    signal.pthread_kill(threading.main_thread().ident or 0, numbers[0])
                if not self._left.wait(GRACE_S):
                    click.echo("error: interrupted", err=True)
                    end_now(self.exit_code)

    def _stuck(self) -> bool:
        """Whether the chunk of windows that is being simulated in plain Python does not end."""
        from netsim.engine.compiling.specialize import jit_enabled

        end = time.monotonic() + CHUNK_PATIENCE_S
        while self._in_chunk and not jit_enabled() and not self._left.wait(0.05):
            if time.monotonic() > end:
                return True
        return False
