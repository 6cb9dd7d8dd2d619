"""Machine instructions, a clock and parallel loops: stand-ins for plain Python.

`compiling/instructions.py` has their compiled forms.

`prefetch` loads a record early: a switch has more links and queues than a processor's prefetcher
follows, so nearly every packet of a busy port would be a cache miss. `word_of` reads a field that
is chosen only when a run begins.
"""

from __future__ import annotations

import operator
import time
from typing import Any

import numpy as np


def prefetch(array: Any, index: int) -> None:
    """Prefetch ``array[index]``; a no-op in plain Python."""


def lowest_bit(bits: int) -> int:
    """Return the index of the lowest set bit of a nonzero word."""
    return (int(bits) & -int(bits)).bit_length() - 1


def take_tickets(tickets: Any, n: int) -> int:
    """Add ``n`` to ``tickets[0]`` atomically; return the old value."""
    first = int(tickets[0])
    tickets[0] = first + n
    return first


def read_shared(numbers: Any) -> int:
    """Return ``numbers[0]``, with all that its writer wrote before it (`write_shared`)."""
    return int(numbers[0])


def write_shared(numbers: Any, value: int) -> None:
    """Set ``numbers[0]`` after all earlier writes of this thread."""
    numbers[0] = value


def sleep_ns(duration: int) -> None:
    """Yield the core for at least ``duration`` nanoseconds."""
    time.sleep(duration / 1e9)


def read_clock_ns() -> int:
    """Return a monotonic clock in nanoseconds."""
    return time.monotonic_ns()


def bit_length(number: int) -> int:
    """Return the number of bits of a positive number."""
    return number.bit_length()


def word_of(records: Any, index: int, word: int) -> int:
    """Return the 64 bits of ``records[index]`` from byte ``8 * word`` on."""
    array = np.asarray(records)
    return int(array.view(np.int64)[index * (array.itemsize // 8) + word])


def write_behind(table: Any, row: int, values: Any) -> None:
    """Write whole numbers, of any types, to a row of ``table`` after its first column."""
    for column, value in enumerate(values, 1):
        table[row, column] = operator.index(value)
