"""The operations table and the step metrics of simulated jobs."""

from typing import Any

import numpy as np
import pytest
from engine_runs import DROP_TAIL, build, run
from operations_case import random_operations
from task_times import operations_of
from traffic_cases import star

from netsim.flows import Workload
from netsim.workloads.operations import CollectiveOptions, Operations
from netsim.workloads.operations.table import (
    JobRows,
    JobSteps,
    factors,
    job_metrics,
    operation_table,
    step_times,
)

US = 10**6


def simulated(ops: Operations, step: Any = None) -> dict[str, Any]:
    """Simulate each rank on the host of its number; return the operations table."""
    load = ops.lower(range(ops.n_ranks))
    load.validate(ops.n_ranks)
    return table_of(load, ops.n_ranks, step)


def table_of(load: Workload, n_hosts: int, step: Any = None) -> dict[str, Any]:
    engine = build(star(n_hosts), load.flows, "datagram", DROP_TAIL, tasks=load.tasks, jit=False)
    flows, states = run(engine).flow_states(), engine.task_states()
    started = np.where(flows.waits_for > 0, -1, flows.start_ps)
    assert load.tasks is not None
    return operation_table(operations_of(load), load.tasks, states, started, step)


def metrics_of(table: dict[str, Any], steps: JobSteps | None = None) -> dict[str, Any]:
    job = JobRows("traffic", table["rank"].size, steps)
    return job_metrics(table, job, star(int(table["host"].max()) + 1))


def test_operation_starts_when_its_blocker_ends() -> None:
    for seed in range(8):
        table = simulated(random_operations(seed)[0])
        before, receive = table["blocked_by"], table["operation_type"] == "receive"
        assert (table["end_ps"] >= table["start_ps"]).all()
        assert (table["start_ps"] >= table["ready_ps"])[~receive].all()
        waits = np.flatnonzero(before >= 0)
        assert (table["rank"][before[waits]] == table["rank"][waits]).all()
        ready = np.where(receive, table["ready_ps"], table["start_ps"])
        assert (table["end_ps"][before[waits]] == ready[waits]).all()
        assert (ready[before < 0] == 0).all()


def test_step_time_components_add_up() -> None:
    for seed in range(8):
        (found,) = step_times(simulated(random_operations(seed)[0]))
        assert not found.other_ps.any()
        total = found.compute_ps + found.bubble_ps + found.skew_ps + found.exposed_ps.sum(1)
        assert (total == found.end_ps).all()


def test_pipeline_bubble_matches_the_formula() -> None:
    for batches in [1, 3, 5]:
        # All forwards, then all backwards, through three stages: (stages - 1) (F + B).
        stages, forward, backward, transfer = 3, 10 * US, 20 * US, 2_665_600
        ops = Operations(stages)
        last = {}
        for up, duration in ((True, forward), (False, backward)):
            for batch in range(batches):
                for stage in range(stages) if up else range(stages)[::-1]:
                    last[up, batch, stage] = one = ops.compute(stage, duration)
                    before = stage - 1 if up else stage + 1
                    if 0 <= before < stages:
                        sent, got = ops.send(before, stage, 4096)
                        ops.after(last[up, batch, before], sent)
                        ops.after(got, one)
        (found,) = step_times(simulated(ops))
        assert found.kinds == ("pp",)
        assert (found.compute_ps == batches * (forward + backward)).all()
        # One transfer is exposed at the first stage, after it sent its last message; the others
        # are part of its bubble.
        transfers = 2 * (stages - 1) * transfer
        assert found.end_ps == (batches + stages - 1) * (forward + backward) + transfers
        idle = (stages - 1) * (forward + backward) + transfers
        assert (found.bubble_ps + found.exposed_ps[:, 0] == idle).all()
        assert found.exposed_ps[0, 0] == transfer + 4160 * 80


def test_bandwidths_and_step_metrics_of_an_all_reduce() -> None:
    ops = Operations(4)
    grads = ops.compute(range(4), [3 * US, 5 * US, 4 * US, 4 * US], kind="backward")
    reduced = ops.collective("all_reduce", range(4), 40_960, CollectiveOptions("ring"), 1, "dp")
    ops.after(grads, reduced)
    steps = JobSteps(np.zeros(8, np.int32), model_flops=6e9, peak_flops=1e15)
    table = simulated(ops, steps.step)
    its = table["operation_type"] == "all_reduce"
    length = table["end_ps"][its].max() - 5 * US
    assert np.isnan(table["busbw_bps"][~its]).all()
    assert table["algbw_bps"][its] == pytest.approx(40_960 * 8e12 / length)
    assert table["busbw_bps"][its] == pytest.approx(1.5 * table["algbw_bps"][its])
    job = metrics_of(table, steps)
    (first,) = job["steps"]
    assert first["time_ps"] == 5 * US + length
    assert first["compute_ps"] == 4 * US
    # Skew: the other ranks wait for the one that computes longest. Bubble: ranks that finish the
    # ring early wait for the last one.
    assert first["skew_ps"] == US
    done = table["end_ps"][its].max() - table["end_ps"][its]
    assert first["bubble_ps"] == done.mean()
    assert first["exposed_ps"] == {"scale-out dp": length - done.mean()}
    assert first["mfu"] == pytest.approx(6e9 / (first["time_ps"] / 1e12 * 1e15))
    assert job["step_ps"] == first["time_ps"]
    assert job["exposed"] == first["exposed_ps"]["scale-out dp"] / first["time_ps"]
    (collective,) = job["collectives"]
    assert (collective["kind"], collective["operation_type"], collective["ranks"]) == (
        "dp",
        "all_reduce",
        4,
    )
    assert collective["time_max_ps"] == length
    assert collective["busbw_bps"] == pytest.approx(table["busbw_bps"][its][0])
    assert metrics_of(table)["mfu"] is None


def test_bus_bandwidth_factors_by_operation_type() -> None:
    what = np.array(["all_reduce", "all_gather", "all_to_all", "broadcast", "send"])
    assert factors(what, np.array([8, 8, 4, 8, 2])).tolist() == [1.75, 0.875, 0.75, 1, 1]
