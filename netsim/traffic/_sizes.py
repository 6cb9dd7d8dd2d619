"""Flow sizes drawn from a cumulative distribution, such as W1 to W5 of the Homa paper.

A distribution is a list of points (size, probability of a flow no larger than it). The first
point's probability is that of exactly its size. Between two points, sizes are uniform. Two points
with the same size make a step, so equal shares of 1 kB and 1 MB are

    [["1KB", 0.5], ["1MB", 0.5], ["1MB", 1.0]]

W1 to W5 are from Montazeri et al., "Homa", SIGCOMM 2018, figure 1: W1 is Facebook's key-value
store (Atikoglu et al., SIGMETRICS 2012), W2 a search application and W3 all applications of a
Google datacenter, W4 a Hadoop cluster (Roy et al., SIGCOMM 2015), W5 web search (Alizadeh et al.,
SIGCOMM 2010).

The numbers are from the paper's own tools (PlatformLab/HomaModule, util/dist.cc, and
PlatformLab/HomaSimulation, sizeDistributions). They tabulate only the measured knots below, and
interpolate: in W2 and W3 the probability grows linearly with 1/size, in W4 with the logarithm of
the size. Messages have only tabulated sizes, as in the paper.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from netsim.common.inputs import read_distribution, user_path
from netsim.errors import InputError, did_you_mean
from netsim.flows import Rng
from netsim.frozen import frozen
from netsim.limits import SIZE_BYTES
from netsim.units import written

Points = tuple[tuple[int, float], ...]
Steps = tuple[int, ...]

TABLES = Path(__file__).with_name("sizes")  # folder of built-in tables, in the form of users' files

# Key sizes up to 15 bytes as measured; larger values follow a generalized Pareto distribution.
_W1_SMALL = (0.31094, 0.31931, 0.32768, 0.41757, 0.41849, 0.42175, 0.44155, 0.47)  # from 8 bytes on
_W1_SHAPE, _W1_SCALE = 0.348238, 214.476
_W1_LARGEST, _W1_STEPS = 100_000, 300

# Parts between two knots.
_W2_STEPS: Steps = (1,) + 15 * (10,)
_W3_STEPS: Steps = (1, 5, 6, 8, 11, 14, 18, 24, 31, 41, 53, 69, 90, 118, 153, 199)
_W4_STEPS = 10


def _table(name: str) -> Points:
    lines = (TABLES / f"{name}.txt").read_text("utf-8").splitlines()
    pairs = (line.split() for line in lines if line[0] != "#")
    return tuple((int(size), float(below)) for size, below in pairs)


def _one_of(points: Iterable[tuple[int, float]]) -> Points:
    """Steps at the sizes listed, so that no size between them is drawn."""
    steps: list[tuple[int, float]] = []
    for size, below in points:
        steps += [(size, steps[-1][1] if steps else 0.0), (size, below)]
    return tuple(steps)


def _linear_in_inverse(knots: Points, steps: Steps) -> Points:
    """Knots and ``steps`` parts between two, the probability linear in 1/size."""
    points = [knots[0]]
    for ((low, below), (high, up_to)), n in zip(pairwise(knots), steps, strict=True):
        for i in range(1, n + 1):
            size = round(low * high * n / (high * n - i * (high - low)))
            points.append((size, below + (up_to - below) * i / n if i < n else up_to))
    return tuple(points)


def _linear_in_logarithm(knots: Points, n: int) -> Points:
    """Knots and ``n`` parts between two, the probability linear in log(size)."""
    points = []
    for (low, below), (high, up_to) in pairwise(knots):
        for i in range(1, n + 1):
            points.append((round(low * (high / low) ** (i / n)), below + (up_to - below) * i / n))
    return (*points[:-1], knots[-1])


def _w1() -> Points:
    points = list(enumerate(_W1_SMALL, 8))
    smallest, below = points[-1]
    for i in range(1, _W1_STEPS):
        size = round((smallest + 1) * (_W1_LARGEST / (smallest + 1)) ** ((i - 1) / _W1_STEPS))
        beyond = (1 + _W1_SHAPE * (size - smallest) / _W1_SCALE) ** (-1 / _W1_SHAPE)
        if size > points[-1][0]:
            points.append((size, round(1 - (1 - below) * beyond, 9)))
    return (*points, (_W1_LARGEST, 1.0))


LINEAR, STEP = BETWEEN = ("linear", "step")
"""Interpolation between two points: uniform sizes, or only the larger size.

Published tables rarely say which one they mean; the mean sizes differ by about a third.
"""

BUILT_IN: dict[str, Points] = {
    **{name: _table(name) for name in ("web_search", "hadoop", "data_mining")},
    "homa_w1": _one_of(_w1()),
    "homa_w2": _one_of(_linear_in_inverse(_table("homa_w2"), _W2_STEPS)),
    "homa_w3": _one_of(_linear_in_inverse(_table("homa_w3"), _W3_STEPS)),
    "homa_w4": _one_of(_linear_in_logarithm(_table("homa_w4"), _W4_STEPS)),
    "homa_w5": _table("homa_w5"),
}


@frozen(eq=False)
class SizeDistribution:
    """A distribution of flow sizes; `sizes` and `below` are float64[k] and never decrease."""

    sizes: NDArray[np.float64]
    below: NDArray[np.float64]

    @classmethod
    def from_points(cls, points: Points) -> SizeDistribution:
        sizes, below = zip(*points, strict=True)
        return cls(np.array(sizes, np.float64), np.array(below, np.float64))

    def draw(self, n: int, rng: Rng) -> NDArray[np.int64]:
        """Return n sizes in bytes, at least 1 each."""
        if (self.sizes == self.sizes[0]).all():
            return np.full(n, max(1, round(self.sizes[0])), np.int64)
        drawn = np.interp(rng.random(n), self.below, self.sizes)
        return np.maximum(1, np.rint(drawn)).astype(np.int64)

    def mean_bytes(self) -> float:
        middles = (self.sizes[1:] + self.sizes[:-1]) / 2
        return float(self.sizes[0] * self.below[0] + (middles * np.diff(self.below)).sum())

    def mean_packets(self, payload_bytes: int) -> float:
        """Return the mean number of packets of `payload_bytes` per flow.

        A flow has more than k packets if it exceeds k payloads. So the mean is 1 plus the
        probabilities of that for k = 1, 2, ... They decrease linearly with k between two points of
        the distribution, so each such stretch has a closed sum.
        """
        # Each stretch ends at a point; the first starts at 0 with probability 0.
        low = np.concatenate([[0.0], self.sizes[:-1]])
        below = np.concatenate([[0.0], self.below[:-1]])
        rise = np.concatenate([[0.0], np.diff(self.below)])
        first = np.maximum(1.0, np.ceil(low / payload_bytes))
        last = np.ceil(self.sizes / payload_bytes) - 1.0
        count = np.maximum(0.0, last - first + 1.0)
        middle = (first + last) / 2.0 * payload_bytes
        reached = rise * (middle - low) / np.maximum(self.sizes - low, 1.0)
        return 1.0 + float((count * (1.0 - below - reached)).sum())


def find_sizes(given: str | Points, directory: Path, between: str = LINEAR) -> SizeDistribution:
    """Return the distribution of a parameter of unit "sizes".

    ``given`` is points, a built-in's name, or a file name, relative to ``directory``; ``between``
    is LINEAR or STEP.

    Raises InputError for an unknown name or a bad file.
    """
    points = _points(given, directory)
    return SizeDistribution.from_points(points if between == LINEAR else in_steps(points))


def in_steps(points: Points) -> Points:
    """Return the table with a step at each point, so no sizes lie between points."""
    below = [0.0, *(probability for _, probability in points[:-1])]
    pairs = zip(points, below, strict=True)
    return tuple(one for (size, up_to), before in pairs for one in ((size, before), (size, up_to)))


def _points(given: str | Points, directory: Path) -> Points:

    if not isinstance(given, str):
        return given
    if given in BUILT_IN:
        return BUILT_IN[given]
    path = user_path(given, directory)
    if not os.path.lexists(path):
        hint = did_you_mean(given, BUILT_IN)
        raise InputError(
            f"{written(given)} is neither a distribution nor a file", key="traffic.sizes", hint=hint
        )
    return tuple(read_distribution(path, "size", SIZE_BYTES - 1))
