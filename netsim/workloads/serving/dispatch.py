"""The router: assigns requests to instances by its own estimate, before the run.

It knows the arrivals and the analytic duration of requests but gets no feedback from the run, so
its decisions do not depend on the network.

- round_robin: instances in order;
- random: each instance with equal probability;
- least_work: the instance that finishes its assigned requests first, if it serves them one after
  the other; among idle instances, the one idle for longest.

Decode instances are chosen in the same way, in the order in which prefills end by the estimate.
"""

from __future__ import annotations

import heapq
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

ROUND_ROBIN, RANDOM, MIN_WORK = DISPATCH = ("round_robin", "random", "least_work")

Ints = NDArray[np.int64]


class Dispatched(NamedTuple):
    """The instance of each of n requests, and the estimated end.

    Attributes:
        instance: int32[n], counted from 0.
        done_ps: int64[n], by the router's estimate.
    """

    instance: NDArray[np.int32]
    done_ps: Ints


def dispatch(
    how: str, at_ps: Ints, work_ps: Ints, n_instances: int, rng: np.random.Generator
) -> Dispatched:
    """Assign requests to instances.

    Args:
        how: one of `DISPATCH`.
        at_ps: int64[n], arrival at the instances, in any order.
        work_ps: int64[n], time that each request occupies an instance.
    """
    n = at_ps.size
    order = np.argsort(at_ps, kind="stable")
    instance = np.zeros(n, np.int32)
    if how == ROUND_ROBIN:
        instance[order] = np.arange(n) % n_instances
    elif how == RANDOM:
        instance[order] = rng.integers(0, n_instances, n)
    chosen, ends, free_ps = instance[order].tolist(), [], [0] * n_instances
    soonest = [(0, one) for one in range(n_instances)]
    for k, (at, takes) in enumerate(
        zip(at_ps[order].tolist(), work_ps[order].tolist(), strict=True)
    ):
        if how == MIN_WORK:
            chosen[k] = soonest[0][1]
        one = chosen[k]
        free_ps[one] = max(free_ps[one], at) + takes
        ends.append(free_ps[one])
        if how == MIN_WORK:
            heapq.heapreplace(soonest, (free_ps[one], one))
    done = np.empty(n, np.int64)
    instance[order] = chosen
    done[order] = ends
    return Dispatched(instance, done)
