"""Confidence intervals."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np

STUDENT_95 = (
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228,
    2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086,
    2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
)  # fmt: skip
"""97.5 % quantiles of Student's t distribution for 1, 2, ... degrees of freedom."""

NORMAL_95 = 1.960

ONE_SEED = "one seed: differences may be chance; --seed 1..4 runs every point with four"

RESAMPLES = 1000
"""Resamples of a bootstrap, fewer if they would draw more than MOST_DRAWN values."""
MOST_DRAWN = 20_000_000
FEWEST = 100


def margin_95(values: Sequence[float]) -> float | None:
    """Return half the 95 % confidence interval of the mean (Student's t); None for one value."""
    count = len(values)
    if count < 2:
        return None
    mean = sum(values) / count
    variance = sum((value - mean) ** 2 for value in values) / (count - 1)
    factor = STUDENT_95[count - 2] if count - 2 < len(STUDENT_95) else NORMAL_95
    return factor * math.sqrt(variance / count)


def bootstrap_95(
    pairs: np.ndarray, statistic: Callable[[np.ndarray], np.ndarray]
) -> tuple[float, float]:
    """Return the 95 % bootstrap interval (percentiles) of the relative change of a statistic.

    `pairs` is float64[2, n], before and after. `statistic` maps arrays [..., n] to [...]. The draws
    are the same for the same n.
    """
    import numpy as np

    n = pairs.shape[1]
    rng = np.random.default_rng(n)
    changes = []
    for _ in range(max(FEWEST, min(RESAMPLES, MOST_DRAWN // n))):
        before, after = statistic(pairs[:, rng.integers(0, n, n)])
        changes.append(after / before - 1)
    low, high = np.quantile(changes, (0.025, 0.975))
    return float(low), float(high)
