"""Steps: what became of each rank's time, by hand and as a sum that has to come out."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from netsim.running.step_times import StepTime, step_times

COLUMNS = ("rank", "stream", "kind", "what", "begin_ps", "end_ps", "waited_for", "group")


def table_of(*rows: tuple[Any, ...], step: Any = 0, formula: bool = False) -> dict[str, Any]:
    """A table of operations with `COLUMNS`."""
    table = {
        name: np.array(column)
        for name, column in zip(COLUMNS, zip(*rows, strict=True), strict=True)
    }
    n = len(rows)
    table["formula"] = np.full(n, formula)
    table["step"] = np.broadcast_to(step, n)
    return table


def check(found: StepTime) -> dict[str, list[int]]:
    """The sum is the step; what there is, by name."""
    total = found.compute_ps + found.bubble_ps + found.other_ps + found.exposed_ps.sum(1)
    assert (total == found.end_ps - found.begin_ps).all()
    exposed = dict(zip(found.kinds, found.exposed_ps.T.tolist(), strict=True))
    return {"compute": found.compute_ps.tolist(), "bubble": found.bubble_ps.tolist(), **exposed}


def test_two_stages_that_pass_one_batch() -> None:
    found = step_times(
        table_of(
            (0, 0, "", "compute", 0, 10, -1, -1),
            (0, 1, "pp", "send", 10, 13, 0, 0),
            (1, 1, "pp", "receive", 11, 15, 1, 0),
            (1, 0, "", "compute", 15, 35, 2, -1),
            (1, 1, "pp", "send", 35, 38, 3, 1),
            (0, 1, "pp", "receive", 36, 40, 4, 1),
            (0, 0, "", "compute", 40, 60, 5, -1),
        )
    )
    # Stage 1 waits for the first compute and the message; stage 0 for two messages and the other's
    # computes; at the end stage 1 for the message, and stage 0's last compute.
    assert [check(one) for one in found] == [
        {"compute": [30, 20], "bubble": [20, 30], "pp": [10, 10]}
    ]
    assert found[0].other_ps.tolist() == [0, 0]


def test_a_receive_whose_message_was_there_takes_no_time() -> None:
    # Rank 1 waits for its own send of kind "x" and receives then what has been there for long.
    (found,) = step_times(
        table_of(
            (0, 1, "pp", "send", 0, 3, -1, 0),
            (1, 1, "x", "send", 0, 9, -1, 1),
            (1, 1, "pp", "receive", 1, 9, 1, 0),
            (1, 0, "", "compute", 9, 12, 2, -1),
        )
    )
    assert check(found) == {"compute": [0, 3], "bubble": [3, 0], "x": [9, 9]}


def test_covered_communication_is_not_exposed_and_what_is_not_covered_is() -> None:
    rows = [
        (0, 0, "", "compute", 0, 10, -1, -1),
        (0, 1, "dp", "all_reduce", 4, 16, 2, 7),
        (0, 0, "", "compute", 0, 4, -1, -1),
        (0, 0, "", "compute", 16, 20, 1, -1),
        (1, 0, "", "compute", 0, 6, -1, -1),
        (1, 1, "dp", "all_reduce", 6, 18, 4, 7),
        (1, 0, "", "compute", 18, 19, 5, -1),
    ]
    (found,) = step_times(table_of(*rows))
    # Rank 0 computes until 10 while both reduce from 6 on; rank 1 is idle from 6 to 18.
    assert check(found) == {"compute": [14, 7], "bubble": [0, 1], "dp": [6, 12]}
    # By formula, each is busy by itself.
    (alone,) = step_times(table_of(*rows, formula=True))
    assert check(alone) == check(found)


def test_the_last_to_begin_keeps_the_others_waiting() -> None:
    rows = [
        (0, 1, "tp", "all_gather", 0, 14, -1, 0),
        (1, 0, "", "compute", 0, 10, -1, -1),
        (1, 1, "tp", "all_gather", 10, 14, 1, 0),
        (0, 0, "", "compute", 14, 15, 0, -1),
        (1, 0, "", "compute", 14, 15, 2, -1),
    ]
    (found,) = step_times(table_of(*rows))
    assert check(found) == {"compute": [1, 11], "bubble": [10, 0], "tp": [4, 4]}


def test_the_launch_of_a_collective_is_communication() -> None:
    rows = [
        (0, 0, "forward", "compute", 0, 10, -1, -1),
        (0, 1, "tp", "compute", 10, 12, 0, -1),
        (0, 1, "tp", "all_reduce", 12, 15, 1, 0),
        (0, 0, "forward", "compute", 15, 20, 2, -1),
    ]
    (found,) = step_times(table_of(*rows))
    assert check(found) == {"compute": [15], "bubble": [0], "tp": [5]}


def test_steps_follow_one_another_and_undone_ones_are_left_out() -> None:
    rows = [
        (0, 0, "", "compute", 0, 10, -1, -1),
        (0, 1, "dp", "all_gather", 10, 12, 0, -1),
        (0, 2, "dp", "all_reduce", 10, 15, 0, -1),
        (0, 0, "", "compute", 12, 22, 1, -1),
        (0, 1, "dp", "all_reduce", 22, 25, 3, -1),
        (0, 0, "", "compute", 25, -1, 4, -1),
    ]
    found = step_times(table_of(*rows, step=[0, 0, 0, 1, 1, 2], formula=True))
    assert [(one.begin_ps, one.end_ps) for one in found] == [(0, 15), (15, 25)]
    assert check(found[0]) == {"compute": [13], "bubble": [0], "dp": [2]}
    assert check(found[1]) == {"compute": [7], "bubble": [0], "dp": [3]}


@pytest.mark.parametrize("seed", range(5))
def test_random_tables_add_up(seed: int) -> None:
    """Ranks that compute and communicate at random, each after something that ended as it began."""
    rng = np.random.default_rng(seed)
    rows: list[tuple[Any, ...]] = []
    for k in range(300):
        before = int(rng.integers(-1, k)) if k else -1
        begin = rows[before][5] if before >= 0 else 0
        what = ("compute", "all_reduce", "join", "send")[int(rng.integers(4))]
        end = begin + (0 if what == "join" else int(rng.integers(0, 50)))
        kind = ("tp", "dp")[int(rng.integers(2))] if what != "compute" else ""
        rows.append((int(rng.integers(8)), 0, kind, what, begin, end, before, k))
    (found,) = step_times(table_of(*rows, formula=bool(seed % 2)))
    check(found)
    assert found.end_ps == max(row[5] for row in rows)
    assert not found.other_ps.any()  # every chain leads back to 0
    assert min(part.min() for part in (found.bubble_ps, found.exposed_ps, found.compute_ps)) >= 0
