"""Message sizes of the Homa workloads, compared with the paper."""

from __future__ import annotations

import pytest

from netsim.traffic._sizes import BUILT_IN

# Deciles of the message sizes, from the axis ticks of figure 12.
DECILES = {
    "homa_w3": (36, 77, 110, 158, 268, 313, 402, 573, 1_755),
    "homa_w4": (315, 376, 502, 561, 662, 960, 6_387, 49_408, 120_373),
}
LARGEST = {
    "homa_w1": 100_000,
    "homa_w2": 3_529_904,
    "homa_w3": 15_158_197,
    "homa_w4": 10_000_000,
    "homa_w5": 29_400_000,
}


@pytest.mark.parametrize("name", DECILES)
def test_deciles_match_the_paper(name: str) -> None:
    points = BUILT_IN[name]
    for tenth, size in enumerate(DECILES[name], start=1):
        assert size in {at for at, _ in points}
        below = max(p for at, p in points if at < size)
        up_to = max(p for at, p in points if at <= size)
        assert below <= tenth / 10 + 0.004
        assert up_to >= tenth / 10 - 0.004


def test_knots_and_interpolated_steps_match_homamodule() -> None:
    """Values around some knots, from util/dist.cc of PlatformLab/HomaModule."""
    w3, w4 = dict(BUILT_IN["homa_w3"]), dict(BUILT_IN["homa_w4"])
    for size, up_to in {36: 0.108913, 77: 0.220705, 1_024: 0.8632, 1_053: 0.865736}.items():
        assert w3[size] == pytest.approx(up_to, abs=1e-6)
    for size, up_to in {53: 0.00074, 92: 0.0074, 9_012: 0.7095, 8_582_787: 0.9987}.items():
        assert w4[size] == pytest.approx(up_to, abs=1e-6)
