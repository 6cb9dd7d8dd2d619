"""Flow sizes drawn from a cumulative distribution.

A distribution is a list of points (size, probability of a flow no larger than it). The first
point's probability is that of its size. Between two points, sizes are uniform. Two points of one
size make a step, so 1 kB and 1 MB in equal parts is

    [["1KB", 0.5], ["1MB", 0.5], ["1MB", 1.0]]
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from netsim.errors import InputError, did_you_mean
from netsim.inputs import at_line, read_lines, user_path, whole
from netsim.limits import SIZE_BYTES
from netsim.traffic._homa_sizes import HOMA
from netsim.units import written

Points = tuple[tuple[int, float], ...]

LINEAR, STEP = BETWEEN = ("linear", "step")
"""Interpolation between two points: uniform sizes, or only the larger size.

Published tables mean one or the other and rarely say which; the means differ by about a third.
"""

_PACKET = 1460

BUILT_IN: dict[str, Points] = {
    # Alizadeh et al., "Data center TCP (DCTCP)", SIGCOMM 2010, as tabulated with HPCC (2019).
    "web_search": (
        (0, 0.0),
        (10_000, 0.15),
        (20_000, 0.20),
        (30_000, 0.30),
        (50_000, 0.40),
        (80_000, 0.53),
        (200_000, 0.60),
        (1_000_000, 0.70),
        (2_000_000, 0.80),
        (5_000_000, 0.90),
        (10_000_000, 0.97),
        (30_000_000, 1.0),
    ),
    # Roy et al., "Inside the social network's (datacenter) network", SIGCOMM 2015, Hadoop, as
    # tabulated with HPCC (2019).
    "hadoop": (
        (0, 0.0),
        (100, 0.01),
        (200, 0.02),
        (300, 0.05),
        (350, 0.15),
        (400, 0.20),
        (500, 0.30),
        (600, 0.40),
        (700, 0.50),
        (1_000, 0.60),
        (2_000, 0.67),
        (7_000, 0.70),
        (30_000, 0.72),
        (50_000, 0.82),
        (80_000, 0.87),
        (120_000, 0.90),
        (300_000, 0.95),
        (1_000_000, 0.975),
        (2_000_000, 0.99),
        (10_000_000, 1.0),
    ),
    # Greenberg et al., "VL2", SIGCOMM 2009, in packets of 1,460 bytes as tabulated with
    # pFabric (2013).
    "data_mining": (
        (1 * _PACKET, 0.5),
        (2 * _PACKET, 0.6),
        (3 * _PACKET, 0.7),
        (7 * _PACKET, 0.8),
        (267 * _PACKET, 0.9),
        (2_107 * _PACKET, 0.95),
        (66_667 * _PACKET, 0.99),
        (666_667 * _PACKET, 1.0),
    ),
    **HOMA,
}


@dataclass(frozen=True, eq=False)
class SizeDistribution:
    """A distribution of flow sizes; `sizes` and `below` are float64[k] and never decrease."""

    sizes: NDArray[np.float64]
    below: NDArray[np.float64]

    @classmethod
    def from_points(cls, points: Points) -> SizeDistribution:
        sizes, below = zip(*points, strict=True)
        return cls(np.array(sizes, np.float64), np.array(below, np.float64))

    def draw(self, n: int, rng: np.random.Generator) -> NDArray[np.int64]:
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

        A flow has more than k packets if it exceeds k payloads. So the mean is 1 plus these
        probabilities for k = 1, 2, ... Between two points of the distribution they decrease
        linearly with k, and are summed at once.
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
    return _read_points(path)


def _read_points(path: Path) -> Points:
    """Read a file with a size in bytes and a probability on each line.

    Probabilities end at 1, or at 100 if they are percentages.
    """
    points: list[tuple[int, float]] = []
    number = 0
    for number, line in read_lines(path):
        words = line.replace(",", " ").split()
        try:
            size, probability = whole(words[0]), float(words[1])
        except (ValueError, IndexError):
            size, probability = -1, -1.0
        if len(words) != 2 or not (0 <= size < SIZE_BYTES and 0 <= probability <= 100):
            raise at_line(path, number, f"{written(line)} must be a size and a probability")
        if points and (size < points[-1][0] or probability < points[-1][1]):
            raise at_line(path, number, "sizes and cumulative probabilities must not decrease")
        points.append((size, probability))
    if not points or points[-1][1] not in (1.0, 100.0):
        raise at_line(path, number, "the last cumulative probability must be 1 or 100")
    return tuple((size, probability / points[-1][1]) for size, probability in points)
