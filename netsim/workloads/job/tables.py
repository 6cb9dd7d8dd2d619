"""Efficiency as a function of the size of an operation: steps, as measured tables have them."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from netsim.errors import InputError
from netsim.units import written


@dataclass(frozen=True)
class Efficiency:
    """The share of a peak that operations reach, by their size.

    `sizes` rise from 0; an operation of a size has the efficiency of the last step that is not
    larger. One step is a constant.
    """

    sizes: tuple[float, ...] = (0.0,)
    shares: tuple[float, ...] = (1.0,)

    def at(self, size: float) -> float:
        """The efficiency of one operation of that size."""
        return self.shares[bisect_right(self.sizes, size) - 1]


def steps(size_of: Callable[[Any], float], unit: str) -> tuple[str, Callable[[Any], Any]]:
    """How a table of efficiencies is written: pairs of the size from which, and the share."""

    def read(value: Any) -> Efficiency:
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            return Efficiency((0.0,), (_share(value),))
        if not isinstance(value, list) or not value:
            hint = f'a number, or pairs from small to large: [[0, 0.1], ["{unit}", 0.9]]'
            raise InputError(f"{written(value)} is no table of efficiencies", hint=hint)
        pairs = [_pair(one, size_of) for one in value]
        sizes = tuple(size for size, _ in pairs)
        if sizes[0] != 0 or any(a >= b for a, b in pairwise(sizes)):
            raise InputError("sizes do not rise from 0", hint="begin with [0, share], then larger")
        return Efficiency(sizes, tuple(share for _, share in pairs))

    return f"share of the peak by size ({unit})", read


def _pair(value: Any, size_of: Callable[[Any], float]) -> tuple[float, float]:
    if not isinstance(value, list) or len(value) != 2:
        raise InputError(f"{written(value)} is not a pair of a size and a share")
    start = 0.0 if value[0] == 0 and not isinstance(value[0], (bool, str)) else size_of(value[0])
    return start, _share(value[1])


def _share(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value <= 1:
        raise InputError(f"{written(value)} is no share", hint="above 0, at most 1")
    return float(value)
