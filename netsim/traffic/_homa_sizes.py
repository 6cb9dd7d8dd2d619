"""The message sizes W1 to W5 of the Homa paper.

Montazeri et al., "Homa", SIGCOMM 2018, figure 1: W1 is Facebook's key-value store (Atikoglu et
al., SIGMETRICS 2012), W2 a search application and W3 all applications of a Google datacenter,
W4 a Hadoop cluster (Roy et al., SIGCOMM 2015), W5 web search (Alizadeh et al., SIGCOMM 2010).

The numbers are those of the paper's own tools (PlatformLab/HomaModule, util/dist.cc, and
PlatformLab/HomaSimulation, sizeDistributions). They tabulate only what was measured, the knots
below, and fill in between: in W2 and W3 the probability grows linearly with 1/size, in W4 with
the logarithm of the size. A message has one of the sizes tabulated, as in the paper.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise

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
