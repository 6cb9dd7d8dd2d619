"""The router: which instance serves which request, settled by its own estimate before the run.

It knows what has arrived and how long instances take by the analytic model, and is not told what
becomes of requests: so whom it sends a request to depends on nothing that happens on the network.

- round_robin: one instance after the other;
- random: each equally likely;
- least_work: the instance that will be done first with all that it was given, by the estimate
  that it works on one request after the other. Of instances without work it is the one that has
  been so for longest.

Where a request is decoded by another instance, that is settled likewise, in the order in which
prompts are done by the same estimate.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

ROUND_ROBIN, RANDOM, MIN_WORK = DISPATCH = ("round_robin", "random", "least_work")

Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Dispatched:
    """Who serves each of n requests, of instances counted from 0, and when it would be done.

    Attributes:
        instance: int32[n].
        done_ps: int64[n], by the router's estimate.
    """

    instance: NDArray[np.int32]
    done_ps: Ints


def dispatch(
    how: str, at_ps: Ints, work_ps: Ints, n_instances: int, rng: np.random.Generator
) -> Dispatched:
    """Instances for requests.

    Args:
        how: one of `DISPATCH`.
        at_ps: int64[n], when each request comes to the instances, in any order.
        work_ps: int64[n], for how long it keeps an instance.
        n_instances: at least 1.
        rng: of "random".
    """
    n = at_ps.size
    order = np.argsort(at_ps, kind="stable")
    instance = np.zeros(n, np.int32)
    if how == ROUND_ROBIN:
        instance[order] = np.arange(n) % n_instances
    elif how == RANDOM:
        instance[order] = rng.integers(0, n_instances, n)
    done = np.zeros(n, np.int64)
    free: list[tuple[int, int]] = [(0, one) for one in range(n_instances)]
    chosen, ends = [], []
    arrivals, work = at_ps[order].tolist(), work_ps[order].tolist()
    if how == MIN_WORK:
        for at, takes in zip(arrivals, work, strict=True):
            free_at, one = free[0]
            end = max(free_at, at) + takes
            heapq.heapreplace(free, (end, one))
            chosen.append(one)
            ends.append(end)
        instance[order] = chosen
    else:
        free_at_of = [0] * n_instances
        for at, takes, one in zip(arrivals, work, instance[order].tolist(), strict=True):
            free_at_of[one] = max(free_at_of[one], at) + takes
            ends.append(free_at_of[one])
    done[order] = ends
    return Dispatched(instance, done)
