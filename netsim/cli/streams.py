"""Standard output and error that may be closed, or be read by nobody, without harm to a run."""

from __future__ import annotations

import errno
import os
import sys
from typing import Any, TextIO

from netsim.errors import RunError

NOBODY_READS = (errno.EPIPE, errno.EBADF, errno.EIO)
"""A pipe whose reader has left (`| head -1`), a closed stream, a terminal that is gone."""


class Tolerant:
    """A text stream that falls silent when nobody reads it any more.

    Any other failure to write, such as a full disk, is a RunError, or with `always` is let pass.
    """

    def __init__(self, stream: TextIO, *, always: bool) -> None:
        self._stream = stream
        self._always = always

    def write(self, text: str) -> int:
        """As that of the stream."""
        try:
            return self._stream.write(text)
        except OSError as error:
            self._failed(error)
            return len(text)

    def flush(self) -> None:
        """As that of the stream."""
        try:
            self._stream.flush()
        except OSError as error:
            self._failed(error)

    def _failed(self, error: OSError) -> None:
        # What is still in the buffer goes nowhere, now and when Python ends.
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, self._stream.fileno())
        os.close(nowhere)
        if error.errno not in NOBODY_READS and not self._always:
            raise RunError(f"cannot write to standard output: {error.strerror}") from None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def tolerate_closed_streams() -> None:
    """Let this process run to its end whatever becomes of its standard streams."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            # Taken, so that no file that is opened later gets the number of a standard stream.
            # It is the lowest that is free.
            os.open(os.devnull, os.O_RDWR)
    nowhere = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115, it stays open
    sys.stdout = Tolerant(sys.stdout or nowhere, always=False)
    sys.stderr = Tolerant(sys.stderr or nowhere, always=True)
