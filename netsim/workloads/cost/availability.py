"""What failures take: availability, blast radius, spares. Exact sums, no simulation."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

import numpy as np
from numpy.typing import NDArray

STOP, SHRINK = "stop", "shrink"
ON_FAILURE = (STOP, SHRINK)
"""What a group does without one of its GPUs: nothing, or as much less as that GPU is of it."""

MAX_SPARES = 1 << 20
"""More are not looked for."""


def availability(mtbf_hours: float, repair_hours: float) -> float:
    """The share of time that something is up: MTBF / (MTBF + MTTR), of an alternating renewal
    process, whatever the distributions (Barlow and Proschan 1975). `mtbf_hours` is mean time up."""
    return mtbf_hours / (mtbf_hours + repair_hours)


def group_availability(mtbf_hours: float, repair_hours: float, group: int) -> float:
    """The share of time that a group is up which stops for each failure of any of its GPUs.

    `mtbf_hours` is one GPU's. GPUs of a group that is down do not fail, so that the group is one
    renewal process with `group` times the rate: 1 / (1 + group x MTTR / MTBF).
    """
    return availability(mtbf_hours / group, repair_hours)


def blast_radius(gpus: int, group: int, on_failure: str = STOP) -> float:
    """The share of all capacity that one failed GPU takes, of `gpus` in groups of `group`.

    With "stop" its whole group, with "shrink" itself. Raises ValueError for another word.
    """
    if on_failure not in ON_FAILURE:
        raise ValueError(f"there is no {on_failure!r}: one of {', '.join(ON_FAILURE)}")
    return (group if on_failure == STOP else 1) / gpus


def up_shares(n: int, share_up: float) -> NDArray[np.float64]:
    """float64[n + 1]: how likely k of n independent GPUs are up; the binomial distribution."""
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
    """float64[n + spares + 1]: how likely k GPUs are in order, where spares lie idle and are whole.

    At most n are at work and fail; each is repaired by itself and becomes a spare; a spare takes
    over at once. It is Palm's machine interference with spares: a closed network of two stations,
    in which only the mean of the repair time counts (Baskett, Chandy, Muntz and Palacios 1975).
    Times up are exponential.
    """
    broken = np.arange(1, n + spares + 1)
    at_work = np.minimum(n, n + spares - broken + 1)
    logs = np.concatenate([[0.0], np.cumsum(np.log(at_work * repair_hours / mtbf_hours / broken))])
    return _normalized(logs)[::-1]


def _normalized(logs: NDArray[np.float64]) -> NDArray[np.float64]:
    """Shares that add up to 1, from logarithms of what they are in proportion to."""
    weights = np.exp(logs - logs.max())
    shares: NDArray[np.float64] = weights / weights.sum()
    return shares


def goodput_of_groups(
    up: NDArray[np.float64], gpus: int, group: int, on_failure: str = STOP
) -> float:
    """The mean share of `gpus` at work, in groups of `group`, if k are in order with share up[k].

    With "stop" only whole groups work, and GPUs in order are put together to groups, as a switched
    network allows; with "shrink" every GPU in order works, up to `gpus`.
    """
    k = np.minimum(np.arange(up.size), gpus)
    if on_failure == STOP:
        k = k // group * group
    return float(up @ k) / gpus


def full_capacity(up: NDArray[np.float64], gpus: int) -> float:
    """How likely at least `gpus` are in order (k-of-n)."""
    return float(up[gpus:].sum())


def spares_for_goodput(
    gpus: int,
    group: int,
    share_up: float,
    goodput: float,
    on_failure: str = STOP,
    swapped: float = 1.0,
) -> int | None:
    """The fewest spare GPUs, which fail as others do, for a mean goodput; None if a million are not
    enough.

    See `goodput_of_groups`. `swapped` is the share of its time that is left to a group, or with
    "shrink" to a GPU, of which a spare takes over each time that it fails: what spares cannot mend.
    """
    measure = partial(goodput_of_groups, gpus=gpus, group=group, on_failure=on_failure)
    if measure(up_shares(gpus, share_up)) >= goodput:
        return 0
    return _fewest(gpus, share_up, measure, goodput / swapped) if goodput < swapped else None


def spares_for_capacity(gpus: int, share_up: float, probability: float) -> int | None:
    """The fewest spare GPUs with which `gpus` are in order so likely; None if a million are not
    enough."""
    measure = partial(full_capacity, gpus=gpus)
    if measure(up_shares(gpus, share_up)) >= probability:
        return 0
    return _fewest(gpus, share_up, measure, probability)


def _fewest(
    gpus: int, share_up: float, measure: Callable[[NDArray[np.float64]], float], wanted: float
) -> int | None:
    """The fewest spares, at least one, for a measure, which grows with them, to reach `wanted`."""

    def reached(spares: int) -> bool:
        return measure(up_shares(gpus + spares, share_up)) >= wanted

    # Neither mean is above the mean number in order over `gpus` (for the likelihood: Markov).
    fewest = gpus * (wanted / share_up - 1) if share_up > 0 else math.inf
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
