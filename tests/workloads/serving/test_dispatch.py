"""Assignment of requests to instances."""

from __future__ import annotations

import numpy as np

from netsim.workloads.serving.plan import DISPATCH, dispatch


def machines(how: str, at: list[int], work: list[int], n: int = 2) -> list[int]:
    rng = np.random.default_rng(1)
    return dispatch(how, np.array(at), np.array(work), n, rng).instance.tolist()


def test_least_work_picks_the_instance_that_finishes_first() -> None:
    # Instance 0 has work until 100; instance 1 until 30, then 60, then 130.
    assert machines("least_work", [0, 0, 10, 20], [100, 30, 30, 70]) == [0, 1, 1, 1]


def test_expected_end_times_follow_fifo_service() -> None:
    """Each instance serves its requests one at a time, in order of arrival."""
    for how in DISPATCH:
        rng = np.random.default_rng(3)
        at, work = rng.integers(0, 1000, 300), rng.integers(1, 30, 300)
        found = dispatch(how, at, work, 4, rng)
        for one in range(4):
            free = 0
            for request in np.argsort(at, kind="stable").tolist():
                if found.instance[request] == one:
                    free = max(free, int(at[request])) + int(work[request])
                    assert found.done_ps[request] == free
        assert set(found.instance.tolist()) == {0, 1, 2, 3}


def test_least_work_waits_less_than_round_robin_and_random() -> None:
    rng = np.random.default_rng(5)
    at = np.sort(rng.integers(0, 10_000_000, 10_000))
    work = rng.exponential(7000, 10_000).astype(np.int64)
    waits = {how: (dispatch(how, at, work, 8, rng).done_ps - at).mean() for how in DISPATCH}
    assert waits["least_work"] < 0.5 * waits["round_robin"] < 0.5 * waits["random"]
