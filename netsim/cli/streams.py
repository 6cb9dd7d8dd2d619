"""Standard streams that may be closed during a run."""

from __future__ import annotations

import errno
import os
import sys
from typing import Any, TextIO

from netsim.errors import RunError

NO_READER = (errno.EPIPE, errno.EBADF, errno.EIO)
"""Errors of a pipe without a reader (`| head -1`), a closed stream, a lost terminal."""


class Tolerant:
    """A text stream that discards output once it has no reader.

    Other errors, such as a full disk, raise RunError unless `always` is set.
    """

    def __init__(self, stream: TextIO, *, always: bool) -> None:
        self._stream = stream
        self._always = always

    def write(self, text: str) -> int:
        """Write to the stream."""
        try:
            return self._stream.write(text)
        except OSError as error:
            self._failed(error)
            return len(text)

    def flush(self) -> None:
        """Flush the stream."""
        try:
            self._stream.flush()
        except OSError as error:
            self._failed(error)

    def _failed(self, error: OSError) -> None:
        # Discard the buffer, now and when Python exits.
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, self._stream.fileno())
        os.close(nowhere)
        if error.errno not in NO_READER and not self._always:
            raise RunError(f"cannot write to standard output: {error.strerror}") from None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def tolerate_closed_streams() -> None:
    """Make this process survive the loss of its standard streams."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            # Occupy the lowest free number, so that no later file gets that of a standard stream.
            os.open(os.devnull, os.O_RDWR)
    nowhere = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115, it stays open
    sys.stdout = Tolerant(sys.stdout or nowhere, always=False)
    sys.stderr = Tolerant(sys.stderr or nowhere, always=True)
