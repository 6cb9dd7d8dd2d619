"""The router: which machine serves which request, settled by its own estimate before the run.

It knows what has arrived and how long machines take by the analytic model, and is not told what
becomes of requests: so whom it sends a request to depends on nothing that happens on the network.

- round_robin: one machine after the other;
- random: each equally likely;
- least_work: the machine that will be done first with all that it was given, by the estimate
  that it works on one request after the other. Of machines without work it is the one that has been
  so for longest.

Where a request is decoded by another machine, that is settled likewise, in the order in which
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
    """Who serves each of n requests, of machines counted from 0, and when it would be done.

    Attributes:
        machine: int32[n].
        done_ps: int64[n], by the router's estimate.
    """

    machine: NDArray[np.int32]
    done_ps: Ints


def dispatch(
    how: str, at_ps: Ints, work_ps: Ints, n_machines: int, rng: np.random.Generator
) -> Dispatched:
    """Machines for requests.

    Args:
        how: one of `DISPATCH`.
        at_ps: int64[n], when each request comes to the machines, in any order.
        work_ps: int64[n], for how long it keeps a machine.
        n_machines: at least 1.
        rng: of "random".
    """
    n = at_ps.size
    order = np.argsort(at_ps, kind="stable")
    machine = np.zeros(n, np.int32)
    if how == ROUND_ROBIN:
        machine[order] = np.arange(n) % n_machines
    elif how == RANDOM:
        machine[order] = rng.integers(0, n_machines, n)
    done = np.zeros(n, np.int64)
    free: list[tuple[int, int]] = [(0, one) for one in range(n_machines)]
    chosen, ends = [], []
    arrivals, work = at_ps[order].tolist(), work_ps[order].tolist()
    if how == MIN_WORK:
        for at, takes in zip(arrivals, work, strict=True):
            free_at, one = free[0]
            end = max(free_at, at) + takes
            heapq.heapreplace(free, (end, one))
            chosen.append(one)
            ends.append(end)
        machine[order] = chosen
    else:
        free_at_of = [0] * n_machines
        for at, takes, one in zip(arrivals, work, machine[order].tolist(), strict=True):
            free_at_of[one] = max(free_at_of[one], at) + takes
            ends.append(free_at_of[one])
    done[order] = ends
    return Dispatched(machine, done)
