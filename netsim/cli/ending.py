"""The end of a process whose main thread cannot be asked: it may be in compiled code."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from typing import NoReturn

SHOW_CURSOR = "\x1b[?25h"
"""A progress bar hides it."""


def end_now(status: int) -> NoReturn:
    """End the process with that exit status, from any thread, with what was printed shown."""
    with suppress(OSError, ValueError):
        if sys.stderr.isatty():
            sys.stderr.write(SHOW_CURSOR)
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            stream.flush()
    os._exit(status)
