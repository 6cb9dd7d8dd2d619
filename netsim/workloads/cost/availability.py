"""Availability, blast radius and spares, as exact sums."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

import numpy as np
from numpy.typing import NDArray

STOP, SHRINK = "stop", "shrink"
ON_FAILURE = (STOP, SHRINK)
"""Reaction of a group to a failed GPU: it stops, or loses only that GPU's share."""

MAX_SPARES = 1 << 20
"""Largest number of spares searched."""


def availability(mtbf_hours: float, repair_hours: float) -> float:
    """Return MTBF / (MTBF + MTTR), for any distributions (Barlow and Proschan 1975).

    `mtbf_hours` is the mean up time.
    """
    return mtbf_hours / (mtbf_hours + repair_hours)


def group_availability(mtbf_hours: float, repair_hours: float, group: int) -> float:
    """Return the availability of a group that stops at each failure of its GPUs.

    GPUs of a stopped group do not fail, so the group is a renewal process with `group` times the
    failure rate: 1 / (1 + group x MTTR / MTBF).
    """
    return availability(mtbf_hours / group, repair_hours)


def blast_radius(gpus: int, group: int, on_failure: str = STOP) -> float:
    """Return the share of the capacity lost by one failed GPU: its group's, or its own.

    Raises ValueError for an `on_failure` not in ON_FAILURE.
    """
    if on_failure not in ON_FAILURE:
        raise ValueError(f"unknown {on_failure!r} (one of {', '.join(ON_FAILURE)})")
    return (group if on_failure == STOP else 1) / gpus


def up_shares(n: int, share_up: float) -> NDArray[np.float64]:
    """float64[n + 1]: probability that k of n independent GPUs are up (binomial)."""
    if share_up in (0.0, 1.0):
        found = np.zeros(n + 1)
        found[n if share_up else 0] = 1.0
        return found
    k = np.arange(1, n + 1)
    ratios = np.log((n - k + 1) / k) + (math.log(share_up) - math.log1p(-share_up))
    logs = np.concatenate([[0.0], np.cumsum(ratios)])
    return _normalized(logs)


def up_shares_cold(
    n: int, spares: int, mtbf_hours: float, repair_hours: float
) -> NDArray[np.float64]:
    """float64[n + spares + 1]: probability that k GPUs are up, with cold spares.

    At most n GPUs run and can fail. Each is repaired independently and becomes a spare; a spare
    takes over immediately. This is Palm's machine interference model with spares, a closed network
    of two stations: only the mean repair time matters (Baskett, Chandy, Muntz and Palacios 1975).
    Up times are exponential.
    """
    broken = np.arange(1, n + spares + 1)
    running = np.minimum(n, n + spares - broken + 1)
    logs = np.concatenate([[0.0], np.cumsum(np.log(running * repair_hours / mtbf_hours / broken))])
    return _normalized(logs)[::-1]


def _normalized(logs: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return shares of sum 1 from the logarithms of weights."""
    weights = np.exp(logs - logs.max())
    shares: NDArray[np.float64] = weights / weights.sum()
    return shares


def goodput_of_groups(
    up: NDArray[np.float64], gpus: int, group: int, on_failure: str = STOP
) -> float:
    """Return the mean share of `gpus` that work, if k are up with probability up[k].

    With "stop" only whole groups work, formed from any GPUs that are up, as a switched network
    allows; with "shrink" every GPU that is up works, up to `gpus`.
    """
    k = np.minimum(np.arange(up.size), gpus)
    if on_failure == STOP:
        k = k // group * group
    return float(up @ k) / gpus


def full_capacity(up: NDArray[np.float64], gpus: int) -> float:
    """Return the probability that at least `gpus` are up (k-of-n)."""
    return float(up[gpus:].sum())


def spares_for_goodput(
    gpus: int,
    group: int,
    share_up: float,
    goodput: float,
    on_failure: str = STOP,
    swapped: float = 1.0,
) -> int | None:
    """Return the fewest spares for a mean goodput; None if a million are not enough.

    Spares fail like other GPUs. `swapped` is the availability of a group (with "shrink": a GPU)
    while spares take over, which bounds the goodput.
    """
    measure = partial(goodput_of_groups, gpus=gpus, group=group, on_failure=on_failure)
    if measure(up_shares(gpus, share_up)) >= goodput:
        return 0
    return _fewest(gpus, share_up, measure, goodput / swapped) if goodput < swapped else None


def spares_for_capacity(gpus: int, share_up: float, probability: float) -> int | None:
    """Return the fewest spares for which `gpus` are up with this probability, or None."""
    measure = partial(full_capacity, gpus=gpus)
    if measure(up_shares(gpus, share_up)) >= probability:
        return 0
    return _fewest(gpus, share_up, measure, probability)


def _fewest(
    gpus: int, share_up: float, measure: Callable[[NDArray[np.float64]], float], target: float
) -> int | None:
    """Return the fewest spares, at least one, for which an increasing measure reaches `target`."""

    def reached(spares: int) -> bool:
        return measure(up_shares(gpus + spares, share_up)) >= target

    # Neither measure exceeds the mean number of GPUs up over `gpus` (probability: Markov).
    fewest = gpus * (target / share_up - 1) if share_up > 0 else math.inf
    if fewest > MAX_SPARES:
        return None
    many = max(math.ceil(fewest - 1e-6), 1)
    few = many - 1
    while not reached(many):
        few, many = many, 2 * many
        if many > MAX_SPARES:
            return None
    while many - few > 1:
        middle = (few + many) // 2
        few, many = (few, middle) if reached(middle) else (middle, many)
    return many
