"""Scaling laws: model size and shape for a compute budget.

| law | parameters for C FLOP | source |
|---|---|---|
| kaplan | 1.3e9 (C / PF-day)^0.73 | Kaplan et al. 2020 (arXiv 2001.08361), N_opt(C_min) |
| hoffmann1 | 67e9 (C / 5.76e23)^0.50 | Hoffmann et al. 2022 (arXiv 2203.15556), approach 1 |
| hoffmann2 | 63e9 (C / 5.76e23)^0.49 | the same, approach 2 |
| hoffmann3 | G (C / 6)^0.452, G = (aA / bB)^(1 / (a + b)) | the same, approach 3 |

Approach 3 minimizes its loss A / N^a + B / D^b with C = 6 N D; its exponent is b / (a + b). The
constants of the first three laws, at 5.76e23 FLOP (Gopher's budget), and those of `width` are as
commonly quoted, not checked against the papers.
"""

from __future__ import annotations

import math

LAWS = ("kaplan", "hoffmann1", "hoffmann2", "hoffmann3")

PF_DAY = 1e15 * 86_400
GOPHER = 5.76e23
"""FLOP of training Gopher."""

YEAR_S = 365 * 86_400

POWER = {"hoffmann1": (67e9, 0.50), "hoffmann2": (63e9, 0.49)}
"""Parameters at Gopher's budget, and the exponent."""

LOSS_A, LOSS_B, LOSS_ALPHA, LOSS_BETA = 406.4, 410.7, 0.34, 0.28
"""Hoffmann et al. 2022, equation 10."""

WIDTH_AT_NONE, WIDTH_PER_LAYER = 5.039, 0.0555
"""ln(hidden) = 5.039 + 0.0555 layers: the fit of Levine et al. 2020 (arXiv 2006.12467)."""

HIDDEN_STEP = 256


def optimal_parameters(law: str, flops: float) -> float:
    """Return the parameters that minimize loss for a training budget in FLOP, by a law in LAWS."""
    if law == "kaplan":
        return float(1.3e9 * (flops / PF_DAY) ** 0.73)
    if law == "hoffmann3":
        total = LOSS_ALPHA + LOSS_BETA
        scale = (LOSS_ALPHA * LOSS_A / (LOSS_BETA * LOSS_B)) ** (1 / total)
        return float(scale * (flops / 6) ** (LOSS_BETA / total))
    anchor, exponent = POWER[law]
    return float(anchor * (flops / GOPHER) ** exponent)


def width(layers: float) -> float:
    """Return the hidden size for a number of layers."""
    return math.exp(WIDTH_AT_NONE + WIDTH_PER_LAYER * layers)


def ideal_layers(n_parameters: float) -> float:
    """Return the layers, a fraction, of a model with 12 hidden^2 parameters per layer."""
    low, high = 0.01, 1000.0
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if _size(middle) < n_parameters else (low, middle)
    return low


def _size(layers: float) -> float:
    return 12 * layers * width(layers) ** 2


def shape(n_parameters: float) -> tuple[int, int]:
    """Return layers (rounded, then up to even) and hidden size (rounded to 256)."""
    layers = ideal_layers(n_parameters)
    even = 2 * math.ceil(round(layers) / 2)
    return even, HIDDEN_STEP * round(width(layers) / HIDDEN_STEP)
