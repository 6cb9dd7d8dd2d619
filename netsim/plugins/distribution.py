"""Flow sizes as parameters: one size, a list with probabilities, or the name of a distribution."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

from netsim.errors import InputError
from netsim.units import parse_bytes, written

Sizes = str | tuple[tuple[int, float], ...]
"""A name, or (bytes, cumulative probability)."""


def parse_sizes(value: object, fraction: Callable[[object], float]) -> Sizes:
    """Return a distribution as a plugin receives it; ``fraction`` converts a probability.

    Raises InputError without file and key.
    """
    if isinstance(value, str):
        if value[:1].isdigit():
            return ((parse_bytes(value), 1.0),)
        return value
    if not isinstance(value, (list, tuple)) or not value:
        raise _sizes_error(f"{written(value)} is not a distribution of sizes")
    points = []
    for item in value:
        if not is_pair(item):
            raise _sizes_error(f"{written(item)} is not a pair of a size and a probability")
        points.append((parse_bytes(item[0]), fraction(item[1])))
    for (size, below), (next_size, probability) in pairwise(points):
        if next_size < size or probability < below:
            raise _sizes_error("sizes and cumulative probabilities must not decrease")
    if points[-1][1] != 1.0:
        raise _sizes_error(f"the last cumulative probability must be 1, not {points[-1][1]}")
    return tuple(points)


def _sizes_error(message: str) -> InputError:
    return InputError(
        message,
        hint="pairs of size and cumulative probability ending at 1, "
        'like [["1KB", 0.5], ["1MB", 1.0]]',
    )


def is_pair(item: object) -> bool:
    """Return whether it is a list of two, the second a number."""
    return (
        isinstance(item, (list, tuple))
        and len(item) == 2
        and isinstance(item[1], (int, float))
        and not isinstance(item[1], bool)
    )
