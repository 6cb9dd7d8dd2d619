"""Step times: the components of each rank's time, in hand-made cases and as a sum."""

from typing import Any

import numpy as np

from netsim.workloads.operations.table import MeasuredStep, step_times

COLUMNS = (
    "rank",
    "kind",
    "operation_type",
    "ready_ps",
    "start_ps",
    "end_ps",
    "blocked_by",
    "group",
)


def table_of(*rows: tuple[Any, ...], step: Any = 0, formula: bool = False) -> dict[str, Any]:
    """Return an operations table whose rows have `COLUMNS`."""
    columns = [np.array(column) for column in zip(*rows, strict=True)]
    table: dict[str, Any] = dict(zip(COLUMNS, columns, strict=True))
    n = len(rows)
    table["is_analytic"] = np.full(n, formula)
    table["step"] = np.broadcast_to(step, n)
    return table


def check(found: MeasuredStep) -> dict[str, list[int]]:
    """Check that the components add up to the step; return the nonzero ones by name."""
    total = found.compute_ps + found.bubble_ps + found.skew_ps + found.other_ps
    assert (total + found.exposed_ps.sum(1) == found.end_ps - found.start_ps).all()
    parts = {name: getattr(found, f"{name}_ps") for name in ("compute", "bubble", "skew", "other")}
    parts |= dict(zip(found.kinds, found.exposed_ps.T, strict=True))
    return {name: part.tolist() for name, part in parts.items() if part.any()}


def test_two_stage_pipeline_has_bubbles_and_exposed_transfers() -> None:
    (found,) = step_times(
        table_of(
            (0, "", "compute", 0, 0, 10, -1, -1),
            (0, "pp", "send", 10, 10, 13, 0, 0),
            (1, "pp", "receive", 0, 11, 15, -1, 0),
            (1, "", "compute", 15, 15, 35, 2, -1),
            (1, "pp", "send", 35, 35, 38, 3, 1),
            (0, "pp", "receive", 0, 36, 40, -1, 1),
            (0, "", "compute", 40, 40, 60, 5, -1),
        )
    )
    # Stage 1 waits for the sender, then for the message. At the end it sends its own message and
    # waits for stage 0, which did the same before.
    assert check(found) == {"compute": [30, 20], "bubble": [22, 10 + 22], "pp": [3 + 5, 5 + 3]}


def test_receive_of_an_arrived_message_takes_no_time() -> None:
    # Rank 1 waits for its own send of kind "x", then receives a message that arrived earlier.
    (found,) = step_times(
        table_of(
            (0, "pp", "send", 0, 0, 3, -1, 0),
            (1, "x", "send", 0, 0, 9, -1, 1),
            (1, "pp", "receive", 9, 1, 9, 1, 0),
            (1, "", "compute", 9, 9, 12, 2, -1),
        )
    )
    assert check(found) == {"compute": [0, 3], "bubble": [9, 0], "pp": [3, 0], "x": [0, 9]}


def test_receive_counts_only_the_rest_of_the_transfer() -> None:
    (found,) = step_times(
        table_of(
            (0, "pp", "send", 0, 0, 20, -1, 0),
            (1, "x", "send", 0, 0, 9, -1, 1),
            (1, "pp", "receive", 9, 1, 21, 1, 0),
            (1, "", "compute", 21, 21, 22, 2, -1),
        )
    )
    assert check(found) == {"compute": [0, 1], "bubble": [2, 0], "pp": [20, 12], "x": [0, 9]}


def test_only_communication_without_compute_is_exposed() -> None:
    rows = [
        (0, "", "compute", 0, 0, 10, -1, -1),
        (0, "dp", "all_reduce", 4, 4, 16, 2, 7),
        (0, "", "compute", 0, 0, 4, -1, -1),
        (0, "", "compute", 16, 16, 20, 1, -1),
        (1, "", "compute", 0, 0, 6, -1, -1),
        (1, "dp", "all_reduce", 6, 6, 18, 4, 7),
        (1, "", "compute", 18, 18, 19, 5, -1),
    ]
    (found,) = step_times(table_of(*rows))
    # Rank 0 computes until 10 while both reduce from 6 on; rank 1 is idle from 6 to 18.
    assert check(found) == {"compute": [14, 7], "bubble": [0, 1], "dp": [6, 12]}
    # With times from a formula, each rank is busy independently.
    (analytic,) = step_times(table_of(*rows, formula=True))
    assert check(analytic) == check(found)


def test_waiting_for_the_last_rank_to_start_is_skew() -> None:
    rows = [
        (0, "dp", "reduce", 0, 0, 3, -1, -1),
        (0, "tp", "all_gather", 3, 3, 14, 0, 0),
        (1, "", "compute", 0, 0, 10, -1, -1),
        (1, "tp", "all_gather", 10, 10, 14, 2, 0),
        (0, "", "compute", 14, 14, 15, 1, -1),
        (1, "", "compute", 14, 14, 15, 3, -1),
    ]
    (found,) = step_times(table_of(*rows))
    # Before it was ready for the all-gather, rank 0 waited for the reduce.
    assert check(found) == {"compute": [1, 11], "skew": [7, 0], "tp": [4, 4], "dp": [3, 0]}


def test_rank_that_finishes_a_collective_early_has_no_skew() -> None:
    rows = [
        (0, "tp", "broadcast", 0, 0, 5, -1, 0),
        (1, "", "compute", 0, 0, 9, -1, -1),
        (1, "tp", "broadcast", 9, 9, 12, 1, 0),
        (0, "", "compute", 5, 5, 12, 0, -1),
    ]
    (found,) = step_times(table_of(*rows))
    assert check(found) == {"compute": [7, 9], "tp": [5, 3]}


def test_overlapping_communication_during_a_wait_counts_once() -> None:
    rows = [
        (0, "", "compute", 0, 0, 20, -1, -1),
        (0, "pp", "send", 20, 20, 22, 0, 0),
        (1, "tp", "all_reduce", 0, 0, 5, -1, -1),
        (1, "tp", "all_reduce", 4, 4, 8, -1, -1),
        (1, "dp", "all_reduce", 6, 6, 10, -1, -1),
        (1, "dp", "all_reduce", 18, 18, 30, -1, -1),
        (1, "pp", "receive", 0, 20, 24, -1, 0),
        (1, "", "compute", 24, 24, 30, 6, -1),
    ]
    # The operation waited for last takes precedence, then the earliest; no time counts twice.
    (found,) = step_times(table_of(*rows, formula=True))
    parts = {"compute": [20, 6], "bubble": [8, 8], "pp": [2, 4], "tp": [0, 8], "dp": [0, 4]}
    assert check(found) == parts


def test_launch_of_a_collective_is_communication() -> None:
    rows = [
        (0, "forward", "compute", 0, 0, 10, -1, -1),
        (0, "tp", "compute", 10, 10, 12, 0, -1),
        (0, "tp", "all_reduce", 12, 12, 15, 1, 0),
        (0, "forward", "compute", 15, 15, 20, 2, -1),
    ]
    (found,) = step_times(table_of(*rows))
    assert check(found) == {"compute": [15], "tp": [5]}


def test_steps_are_contiguous_and_unfinished_ones_are_omitted() -> None:
    rows = [
        (0, "", "compute", 0, 0, 10, -1, -1),
        (0, "dp", "all_gather", 10, 10, 12, 0, -1),
        (0, "dp", "all_reduce", 10, 10, 15, 0, -1),
        (0, "", "compute", 12, 12, 22, 1, -1),
        (0, "dp", "all_reduce", 22, 22, 25, 3, -1),
        (1, "", "compute", 0, 0, 14, -1, -1),
        (1, "", "compute", 14, 17, 20, -1, -1),
        (0, "", "compute", 25, 25, -1, 4, -1),
    ]
    found = step_times(table_of(*rows, step=[0, 0, 0, 1, 1, 0, 1, 2], formula=True))
    assert [(one.start_ps, one.end_ps) for one in found] == [(0, 15), (15, 25)]
    # Rank 0 begins the second step before the first one ends; rank 1 finishes both earlier, and
    # the table has no cause for its wait from 15 to 17.
    assert check(found[0]) == {"compute": [13, 14], "dp": [2, 0], "bubble": [0, 1]}
    assert check(found[1]) == {"compute": [7, 3], "dp": [3, 0], "bubble": [0, 5], "other": [0, 2]}


def test_components_of_random_tables_add_up() -> None:
    """Ranks compute and communicate at random, each operation after an earlier one of its rank."""
    for seed in range(5):
        rng = np.random.default_rng(seed)
        rows: list[tuple[Any, ...]] = []
        of_rank: list[list[int]] = [[] for _ in range(8)]
        for k in range(300):
            rank = int(rng.integers(8))
            earlier = of_rank[rank]
            before = earlier[int(rng.integers(len(earlier)))] if earlier else -1
            begin = rows[before][5] if before >= 0 else 0
            what = ("compute", "all_reduce", "join", "send")[int(rng.integers(4))]
            end = begin + (0 if what == "join" else int(rng.integers(0, 50)))
            kind = ("tp", "dp")[int(rng.integers(2))] if what != "compute" else ""
            rows.append((rank, kind, what, begin, begin, end, before, k // 3))
            earlier.append(k)
        (found,) = step_times(table_of(*rows, formula=bool(seed % 2)))
        check(found)
        assert found.end_ps == max(row[5] for row in rows)
        assert not found.other_ps.any()  # every chain leads back to 0
        parts = (found.bubble_ps, found.skew_ps, found.exposed_ps, found.compute_ps)
        assert min(part.min() for part in parts) >= 0
        assert seed % 2 == 0 or not found.skew_ps.any()
