"""Measured iterations, prediction errors, and the fit of overheads to measured times.

Four numbers are fitted: prefill efficiency, overhead per layer, overhead per sequence, and the
prefill floor. The others are fixed in the preset, with sources. The fit minimizes the squared
relative errors of a group's fitted rows (Gauss-Newton with step halving).
"""

from dataclasses import replace
from statistics import mean

import numpy as np

from netsim.workloads.inference.deployment import LONG_PROMPT
from netsim.workloads.validation.measures import PROMPT, measured_iterations

GROUPS = ("h100", "a100")  # groups with fitted rows


def is_large(row):
    """Return whether the prompts of a row have more than LONG_PROMPT tokens in total."""
    tokens = {"prefill": row.size, "prefills": row.size * PROMPT, "decode": 0}[row.phase]
    return tokens > LONG_PROMPT


def predicted(group, *, large=False):
    """Return a group's rows not used for fitting, with few or many tokens."""
    chosen = [row for row in measured_iterations() if row.group == group and not row.fitted]
    return [row for row in chosen if is_large(row) is large]


def error(row):
    """Return ours over theirs, minus one, of a measured time or a formula."""
    return row.ms / (row.stated_ms if hasattr(row, "stated_ms") else row.measured_ms) - 1


def with_overheads(row, overheads):
    """Return the row with other overheads."""
    return replace(row, deployment=replace(row.deployment, overheads=overheads))


def errors(found):
    """Return the mean and the largest absolute error."""
    all_of = [abs(error(one)) for one in found]
    return mean(all_of), max(all_of)


START = (0.5, 400.0, 200.0, 60_000.0)
"""Share of the peak; overheads per layer and per sequence, and floor, in microseconds."""

PS_PER_US = 1e6
SMALLEST_STEP = 1e-3
MAX_STEPS = 50


def fitted_overheads(group, **fixed):
    """Return a group's overheads, fitted, with other fixed values."""
    chosen = [row for row in measured_iterations() if row.group == group and row.fitted]
    base = replace(chosen[0].deployment.overheads, **fixed)

    def errors(x):
        overheads = _overheads(base, x)
        return np.array([error(with_overheads(row, overheads)) for row in chosen])

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


def _overheads(base, x):
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
