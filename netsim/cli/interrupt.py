"""Ctrl-C: the run is asked to stop, and what it has done is written."""

from __future__ import annotations

import signal
import threading
from types import FrameType, TracebackType
from typing import Any

SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Interruption:
    """While entered, the first Ctrl-C (or SIGTERM) only sets a flag; the second one interrupts.

    The object is the `should_stop` of a run: calling it tells whether the flag is set.
    """

    def __init__(self) -> None:
        self.signal: int | None = None
        self._former: dict[int, Any] = {}

    def __call__(self) -> bool:
        return self.signal is not None

    @property
    def exit_code(self) -> int:
        """The exit status that shells expect: 128 + the number of the signal; 0 without one."""
        return 0 if self.signal is None else 128 + self.signal

    def __enter__(self) -> Interruption:
        if threading.current_thread() is threading.main_thread():
            self._former = {number: signal.signal(number, self._handle) for number in SIGNALS}
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for number, handler in self._former.items():
            signal.signal(number, handler)
        self._former = {}

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self.signal is not None:
            raise KeyboardInterrupt
        self.signal = number
