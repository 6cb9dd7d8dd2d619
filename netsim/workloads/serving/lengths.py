"""Distributions of prompt and output tokens.

| length_distribution | tokens of a request |
|---|---|
| fixed | the given number |
| uniform | `least` to `most`, each with equal probability |
| lognormal | exp of a normal variable, with the given mean and coefficient of variation |
| zipf | `least` + k - 1, up to `most`, with probability proportional to k^-exponent |
| table | from a file of token counts and cumulative probabilities |
| trace | from the trace |

All are rounded to integers of at least 1. Vidur draws the fixed, uniform and Zipf distributions
(microsoft/vidur, vidur/request_generator), but for prompt and output together.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from netsim.errors import InputError
from netsim.inputs import at_line, read_lines, whole
from netsim.limits import COUNT
from netsim.units import written

FIXED, UNIFORM, LOGNORMAL, ZIPF, TABLE, TRACE = LENGTHS = (
    "fixed",
    "uniform",
    "lognormal",
    "zipf",
    "table",
    "trace",
)

MAX_TOKENS = 1 << 24
"""Largest number of tokens drawn: no model has a context of 16 million tokens."""


@dataclass(frozen=True)
class Lengths:
    """A distribution of tokens, as in the table above; a kind ignores the fields it does not use.

    `mean` is for fixed and lognormal, `cv` for lognormal, `least` and `most` for uniform and zipf,
    `exponent` for zipf, `table` for table.
    """

    kind: str
    mean: int
    cv: float
    least: int
    most: int
    exponent: float
    table: Path | None

    def draw(self, n: int, rng: np.random.Generator) -> NDArray[np.int64]:
        """int64[n], at least 1 each.

        Raises InputError if `most` is below `least`, or for an invalid table.
        """
        if self.kind == FIXED:
            return np.full(n, self.mean, np.int64)
        if self.kind == LOGNORMAL:
            spread = np.log1p(self.cv**2)
            drawn = rng.lognormal(np.log(self.mean) - spread / 2, np.sqrt(spread), n)
            return _tokens(np.minimum(drawn, MAX_TOKENS))
        if self.kind == TABLE and self.table is not None:
            tokens, below = read_table(self.table)
            if tokens.size == 1:
                return np.full(n, int(tokens[0]), np.int64)
            return _tokens(np.interp(rng.random(n), below, tokens))
        if self.most < self.least:
            message = f"{self.most} is below the minimum, {self.least}"
            raise InputError(message, key="max")
        if self.kind == UNIFORM:
            return rng.integers(self.least, self.most + 1, n)
        weights = np.arange(1, self.most - self.least + 2) ** -float(self.exponent)
        chances = np.cumsum(weights)
        above = np.searchsorted(chances, rng.random(n) * chances[-1], side="right")
        found: NDArray[np.int64] = (self.least + above).astype(np.int64)
        return found


def _tokens(drawn: NDArray[np.float64]) -> NDArray[np.int64]:
    return np.maximum(1, np.rint(drawn)).astype(np.int64)


def read_table(path: Path) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Read a cumulative distribution: tokens and probabilities, float64[k], not decreasing.

    Tokens are uniform between two points; two points with equal tokens make a step. The last
    probability is 1, or 100 for percentages.
    """
    points: list[tuple[int, float]] = []
    number = 0
    for number, line in read_lines(path):
        words = line.replace(",", " ").split()
        try:
            tokens, probability = whole(words[0]), float(words[1])
        except (ValueError, IndexError):
            tokens, probability = -1, -1.0
        if len(words) != 2 or not (0 <= tokens <= COUNT and 0 <= probability <= 100):
            raise at_line(
                path, number, f"{written(line)} is not a number of tokens and a probability"
            )
        if points and (tokens < points[-1][0] or probability < points[-1][1]):
            raise at_line(path, number, "tokens and cumulative probabilities must not decrease")
        points.append((tokens, probability))
    if not points or points[-1][1] not in (1.0, 100.0):
        raise at_line(path, number, "the last cumulative probability must be 1 or 100")
    found = np.array(points, np.float64)
    return found[:, 0], found[:, 1] / found[-1, 1]
