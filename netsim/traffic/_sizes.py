"""Flow sizes drawn from a cumulative distribution, such as W1 to W5 of the Homa paper.

A distribution is a list of points (size, probability of a flow no larger than it). The first
point's probability is that of its size. Between two points, sizes are uniform. Two points of one
size make a step, so 1 kB and 1 MB in equal parts is

    [["1KB", 0.5], ["1MB", 0.5], ["1MB", 1.0]]

W1 to W5 are those of Montazeri et al., "Homa", SIGCOMM 2018, figure 1: W1 is Facebook's key-value
store (Atikoglu et al., SIGMETRICS 2012), W2 a search application and W3 all applications of a
Google datacenter, W4 a Hadoop cluster (Roy et al., SIGCOMM 2015), W5 web search (Alizadeh et al.,
SIGCOMM 2010).

The numbers are those of the paper's own tools (PlatformLab/HomaModule, util/dist.cc, and
PlatformLab/HomaSimulation, sizeDistributions). They tabulate only what was measured, the knots
below, and fill in between: in W2 and W3 the probability grows linearly with 1/size, in W4 with
the logarithm of the size. A message has one of the sizes tabulated, as in the paper.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from netsim.common.inputs import at_line, read_lines, user_path, whole
from netsim.errors import InputError, did_you_mean
from netsim.limits import SIZE_BYTES
from netsim.units import written

Points = tuple[tuple[int, float], ...]
Steps = tuple[int, ...]

# Key sizes up to 15 bytes as measured, values above that follow a generalized Pareto law.
_W1_SMALL: Points = (
    (8, 0.31094),
    (9, 0.31931),
    (10, 0.32768),
    (11, 0.41757),
    (12, 0.41849),
    (13, 0.42175),
    (14, 0.44155),
    (15, 0.47),
)
_W1_SHAPE, _W1_SCALE = 0.348238, 214.476
_W1_LARGEST, _W1_STEPS = 100_000, 300

_W2: Points = (
    (8, 0.170107627909139),
    (32, 0.189008475454599),
    (64, 0.326435928252878),
    (128, 0.341703173597455),
    (256, 0.463839540642395),
    (512, 0.910400619997895),
    (1_024, 0.958110136514154),
    (2_048, 0.981010712777766),
    (4_096, 0.995323561778495),
    (8_192, 0.998424683031419),
    (16_384, 0.99890177775002),
    (32_768, 0.999140325109321),
    (65_536, 0.999349054281293),
    (131_072, 0.999870877211223),
    (262_144, 0.999975241797209),
    (524_288, 0.999982696460333),
    (3_529_904, 1.0),
)
_W2_STEPS: Steps = (1,) + 15 * (10,)

_W3: Points = (
    (8, 0.0648826230027598),
    (32, 0.0973239345041398),
    (64, 0.155270736542611),
    (128, 0.351573142510763),
    (256, 0.497900763354628),
    (512, 0.784921250116593),
    (1_024, 0.863199568388467),
    (2_048, 0.908861924105788),
    (4_096, 0.934954649374235),
    (8_192, 0.964309064519002),
    (16_384, 0.984694041115598),
    (32_768, 0.990401835580264),
    (65_536, 0.993255726452483),
    (131_072, 0.997128873150657),
    (262_144, 0.998453102760117),
    (524_288, 0.999498229936155),
    (15_158_197, 1.0),
)
_W3_STEPS: Steps = (1, 5, 6, 8, 11, 14, 18, 24, 31, 41, 53, 69, 90, 118, 153, 199)

_W4: Points = (
    (50, 0.0),
    (92, 0.0074),
    (217, 0.0149),
    (271, 0.0409),
    (300, 0.0520),
    (326, 0.1375),
    (376, 0.2026),
    (425, 0.2230),
    (480, 0.2639),
    (600, 0.4591),
    (679, 0.5167),
    (737, 0.5520),
    (800, 0.5762),
    (885, 0.5912),
    (1_042, 0.6097),
    (1_277, 0.6282),
    (1_413, 0.6394),
    (1_534, 0.6468),
    (1_664, 0.6673),
    (2_214, 0.6747),
    (3_396, 0.6840),
    (5_210, 0.6933),
    (7_830, 0.7082),
    (31_946, 0.7212),
    (36_844, 0.7305),
    (39_973, 0.7398),
    (44_260, 0.7584),
    (47_050, 0.7788),
    (51_046, 0.8160),
    (62_583, 0.8234),
    (70_722, 0.8327),
    (75_180, 0.8420),
    (81_565, 0.8717),
    (102_058, 0.8885),
    (115_331, 0.8978),
    (133_013, 0.9070),
    (156_563, 0.9164),
    (184_284, 0.9257),
    (212_546, 0.9349),
    (240_177, 0.9442),
    (288_520, 0.9535),
    (470_507, 0.9628),
    (736_642, 0.9684),
    (940_700, 0.9721),
    (1_769_244, 0.9814),
    (2_169_118, 0.9870),
    (10_000_000, 1.0),
)
_W4_STEPS = 10

# In packets; 1,470 bytes each.
_W5: Points = (
    (0, 0.0),
    (6, 0.15),
    (13, 0.2),
    (19, 0.3),
    (33, 0.4),
    (53, 0.53),
    (133, 0.6),
    (667, 0.7),
    (1_333, 0.8),
    (3_333, 0.9),
    (6_667, 0.9),
    (20_000, 1.0),
)
_W5_PACKET = 1_470


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
    smallest, below = _W1_SMALL[-1]
    points = list(_W1_SMALL)
    for i in range(1, _W1_STEPS):
        size = round((smallest + 1) * (_W1_LARGEST / (smallest + 1)) ** ((i - 1) / _W1_STEPS))
        beyond = (1 + _W1_SHAPE * (size - smallest) / _W1_SCALE) ** (-1 / _W1_SHAPE)
        if size > points[-1][0]:
            points.append((size, round(1 - (1 - below) * beyond, 9)))
    return (*points, (_W1_LARGEST, 1.0))


HOMA: dict[str, Points] = {
    "homa_w1": _one_of(_w1()),
    "homa_w2": _one_of(_linear_in_inverse(_W2, _W2_STEPS)),
    "homa_w3": _one_of(_linear_in_inverse(_W3, _W3_STEPS)),
    "homa_w4": _one_of(_linear_in_logarithm(_W4, _W4_STEPS)),
    "homa_w5": tuple((packets * _W5_PACKET, below) for packets, below in _W5),
}


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
