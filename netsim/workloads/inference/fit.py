"""Fit the overheads of a machine and its software to measured times, for the presets.

Four numbers are fitted: prefill efficiency, overhead per layer, overhead per sequence, and the
prefill floor. The others are fixed in the preset, with sources. The fit minimizes the squared
relative errors of a group's fitted rows (Gauss-Newton with step halving).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from netsim.workloads.inference.deployment import Overheads
from netsim.workloads.inference.validation import rows

START = (0.5, 400.0, 200.0, 60_000.0)
"""Share of the peak; overheads per layer and per sequence, and floor, in microseconds."""

PS_PER_US = 1e6
SMALLEST_STEP = 1e-3
MAX_STEPS = 50

Floats = NDArray[np.float64]


def fitted_overheads(group: str, **fixed: Any) -> Overheads:
    """Return a group's overheads, fitted, with other fixed values."""
    chosen = [row for row in rows() if row.group == group and row.fitted]
    base = replace(chosen[0].deployment.overheads, **fixed)

    def errors(x: Floats) -> Floats:
        overheads = _overheads(base, x)
        return np.array([row.with_overheads(overheads).error for row in chosen])

    x = np.array(START)
    for _ in range(MAX_STEPS):
        now = errors(x)
        near = [np.where(np.arange(x.size) == k, x * 1.0001, x) for k in range(x.size)]
        slopes = [(errors(one) - now) / (one[k] - x[k]) for k, one in enumerate(near)]
        step = np.linalg.lstsq(np.stack(slopes, axis=1), -now, rcond=None)[0]
        part = 1.0
        while part > SMALLEST_STEP and np.sum(errors(x + part * step) ** 2) >= np.sum(now**2):
            part /= 2
        if part <= SMALLEST_STEP:
            break
        x = x + part * step
    return _overheads(base, x)


def _overheads(base: Overheads, x: Floats) -> Overheads:
    share = float(np.clip(x[0], 0.01, 1.0))
    layer, sequence, floor = (max(0, round(value * PS_PER_US)) for value in x[1:])
    return replace(
        base,
        prefill_efficiency=share,
        decode_efficiency=share,
        layer_overhead=layer,
        sequence_overhead=sequence,
        prefill_floor=floor,
    )
