"""Ctrl-C and SIGTERM: a run is asked to stop, and what it has done is written.

Python handles a signal in the main thread, between two of its instructions; while compiled code
runs there are none. So a thread is told of signals as well: it answers at once, and ends the
process if the main thread does not.
"""

from __future__ import annotations

import signal
import socket
import threading
from types import FrameType, TracebackType
from typing import Any

import click

from netsim.cli.ending import end_now

SIGNALS = (signal.SIGINT, signal.SIGTERM)

GRACE_S = 0.7
"""Seconds that the main thread has to stop at once before the process is ended."""

ANSWER = "interrupted: stopping after the present step, to write what is done; again stops at once"


class Interruption:
    """While entered, the first Ctrl-C (or SIGTERM) only sets a flag; the second one interrupts.

    The object is the `should_stop` of a run: calling it tells whether the flag is set. With
    `at_once` the first one interrupts already.
    """

    def __init__(self, *, at_once: bool = False) -> None:
        self.signal: int | None = None
        self._enough = 1 if at_once else 2
        self._handled = 0
        self._left = threading.Event()
        self._former: dict[int, Any] = {}
        self._former_fd = -1
        self._sockets: tuple[socket.socket, socket.socket] | None = None

    def __call__(self) -> bool:
        return self.signal is not None

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
        if self._handled >= self._enough:
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
                if heard < self._enough:
                    click.echo(ANSWER, err=True)
                elif not self._left.wait(GRACE_S):
                    end_now(self.exit_code)
