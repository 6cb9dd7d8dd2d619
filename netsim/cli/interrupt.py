"""Ctrl-C and SIGTERM: stop a run and write finished points.

Python handles signals in the main thread, between two bytecode instructions, so never during
compiled code. A second thread therefore also receives signals: it answers immediately, and ends the
process if the main thread does not.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from types import FrameType
from typing import TYPE_CHECKING, Any, NoReturn

import click

if TYPE_CHECKING:
    from netsim.running.point import Progress

SIGNALS = (signal.SIGINT, signal.SIGTERM)

GRACE_S = 1.5  # seconds that the main thread has to exit before the process is ended
MAX_CHUNK_S = 1.2  # seconds that the last chunk of windows may take in plain Python
RETRY_S = 0.05  # seconds until a signal that cannot be handled now is sent again

ANSWER = "interrupted: writing finished work after the current step (Ctrl-C again: exit now)"


def _is_called_by_llvm(frame: FrameType | None) -> bool:
    """Return whether LLVM called a frame's code, to hand over compiled code."""
    while frame is not None:
        if frame.f_code.co_name.startswith("_raw_object_cache"):
            return True
        frame = frame.f_back
    return False


class Interruption:
    """A context in which the first Ctrl-C or SIGTERM sets a flag and the second interrupts.

    The object is the `should_stop` of a run: call it to read the flag. While `at_once` is true, the
    first signal interrupts, since nothing reads the flag: in a plugin's `build`, or while code is
    compiled.
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
        self, report: Callable[[Progress], None] | None = None
    ) -> Callable[[Progress], None]:
        """Return the progress callback of a new run; it calls `report`. Signals interrupt at once
        until the run drives the engine."""
        self.at_once, self._in_chunk = True, False

        def note(progress: Progress) -> None:
            self.at_once, self._in_chunk = progress.phase != "run", False
            if report is not None:
                report(progress)

        return note

    @property
    def stopped_at_once(self) -> bool:
        """Whether the first signal interrupted and no second one came."""
        return self._handled == 1 and self.at_once

    @property
    def exit_code(self) -> int:
        """The exit status that shells expect: 128 plus the signal's number; 0 without a signal."""
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

    def __exit__(self, *_: object) -> None:
        self._left.set()
        if self._sockets is not None:
            signal.set_wakeup_fd(self._former_fd)
            for number, handler in self._former.items():
                signal.signal(number, handler)
            self._sockets[1].close()  # the thread then ends
            self._sockets = None

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if _is_called_by_llvm(frame):  # LLVM would ignore an exception
            again = (threading.main_thread().ident or 0, number)
            threading.Timer(RETRY_S, signal.pthread_kill, again).start()
            return
        self._handled += 1
        self.signal = self.signal or number
        if self.at_once or self._handled > 1:
            raise KeyboardInterrupt

    def _listen(self) -> None:
        """Answer signals while the main thread is busy."""
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
                    # A handler in plain Python loops forever but can be interrupted.
                    self.at_once = True
                    signal.pthread_kill(threading.main_thread().ident or 0, numbers[0])
                if not self._left.wait(GRACE_S):
                    click.echo("error: interrupted", err=True)
                    end_now(self.exit_code)

    def _stuck(self) -> bool:
        """Return whether the current chunk of windows, in plain Python, hangs."""
        from netsim.engine.compiling.specialize import jit_enabled

        end = time.monotonic() + MAX_CHUNK_S
        while self._in_chunk and not jit_enabled() and not self._left.wait(0.05):
            if time.monotonic() > end:
                return True
        return False


SHOW_CURSOR = "\x1b[?25h"  # terminal code that shows the cursor, which a progress bar hides


def end_now(status: int) -> NoReturn:
    """Flush the streams and end the process from any thread, also while compiled code runs."""
    with suppress(OSError, ValueError):
        if sys.stderr.isatty():
            sys.stderr.write(SHOW_CURSOR)
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            stream.flush()
    os._exit(status)
