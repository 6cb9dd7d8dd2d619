"""Tables and metrics built from the log of a run; capacity under failures."""

import math
import random
from collections import defaultdict
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from serving_case import Row, log_of, lost_shares, mixed_plan, row, split_run

from netsim.errors import RunError
from netsim.workloads.serving.failures import Policy, draw_outages
from netsim.workloads.serving.outcome import (
    ServingTables,
    _slo,
    audit,
    capacity_metrics,
    distribution,
    expected_capacity,
    met,
    outcome,
    serving_metrics,
    stays,
    tokens,
)
from netsim.workloads.serving.plan import (
    DECODE_START,
    DONE,
    DOWN,
    FIRST_TOKEN,
    ITERATION,
    LOST,
    PREFILL_START,
    UP,
    ServingPlan,
)

FLOW_STARTS = np.array([300, 310, 420, 400])


def of(plan: ServingPlan, rows: list[Row]) -> ServingTables:
    return outcome(plan, log_of(rows), FLOW_STARTS[: plan.kv_flows.sum()])


def test_request_table_of_a_split_run() -> None:
    found = of(*split_run()).requests
    expected = {
        "prefill_instance": [0, 0],
        "decode_instance": [1, 1],
        "prefill_start_ps": [200, 300],
        "first_token_ps": [300, 400],
        "kv_transfer_start_ps": [300, 400],
        "kv_transfer_end_ps": [440, 470],
        "decode_start_ps": [440, 500],
        "end_ps": [560, 700],
        "queueing_ps": [100, 150],
        "ttft_ps": [200, 250],
        "generated_tokens": [3, 4],
        "second_token_ps": [200, 160],
        "tpot_ps": [130.0, 100.0],
        "tbt_p50_ps": [60, 80],
        "tbt_p99_ps": [200, 160],
        "tbt_max_ps": [200, 160],
        "restarts": [0, 0],
    }
    assert {name: found[name].tolist() for name in expected} == expected


def test_token_gaps_of_a_split_run() -> None:
    values, counts = of(*split_run()).gaps
    assert values.tolist() == [60, 80, 160, 200]
    assert counts.tolist() == [2, 1, 1, 1]


def test_iteration_table_of_a_split_run() -> None:
    found = of(*split_run()).iterations
    assert found["instance"].tolist() == [0, 0, 1, 1, 1, 1]
    assert found["role"].tolist() == ["prefill"] * 2 + ["decode"] * 4
    assert found["start_ps"].tolist() == [200, 300, 440, 500, 560, 640]
    assert found["end_ps"].tolist() == [300, 400, 500, 560, 640, 700]
    assert found["decode_batch"].tolist() == [0, 0, 1, 2, 1, 1]
    assert found["prompt_tokens"].tolist() == [10, 20, 0, 0, 0, 0]


def restarted() -> tuple[ServingPlan, list[Row]]:
    """Return a run that fails in its third iteration, with two of four tokens generated."""
    return mixed_plan([(0, 8, 4)]), [
        row(0, 0, PREFILL_START, 0),
        row(0, 10, ITERATION, start_ps=0, count=8),
        row(0, 10, FIRST_TOKEN, 0),
        row(0, 10, DECODE_START, 0),
        row(0, 20, ITERATION, start_ps=10, decode_batch=1, context_tokens=9),
        row(0, 25, LOST, 0, count=2),
        row(0, 25, DOWN),
        row(0, 100, UP),
        row(0, 100, PREFILL_START, 0),
        row(0, 112, ITERATION, start_ps=100, count=10),
        row(0, 112, FIRST_TOKEN, 0),
        row(0, 112, DECODE_START, 0),
        row(0, 122, ITERATION, start_ps=112, decode_batch=1, context_tokens=11),
        row(0, 122, DONE, 0, count=4),
    ]


def test_restarted_request_keeps_its_first_ttft() -> None:
    plan, rows = restarted()
    found = of(plan, rows)
    assert found.requests["restarts"].tolist() == [1]
    assert found.requests["generated_tokens"].tolist() == [4]
    assert found.requests["ttft_ps"].tolist() == [10]
    assert found.requests["second_token_ps"].tolist() == [10]
    assert found.requests["tbt_max_ps"].tolist() == [92]
    assert audit(found.requests, log_of(rows), complete=True)["done"] == 1


def test_interrupted_run_reports_open_requests() -> None:
    plan, rows = split_run()
    rows = [one for one in rows if one["time_ps"] <= 600]
    found = of(plan, rows)
    assert found.requests["end_ps"].tolist() == [560, -1]
    assert found.requests["generated_tokens"].tolist() == [3, 2]
    assert audit(found.requests, log_of(rows), complete=False) == {
        "done": 1,
        "under_way": 1,
        "waiting": 0,
        "tokens": 5,
    }


def changed(rows: list[Row], at: int, **more: int) -> list[Row]:
    return [{**one, **more} if one is rows[at] else one for one in rows]


def test_audit_rejects_lost_and_duplicate_requests() -> None:
    for change, message in [
        (lambda rows: rows[:-1], "request 1 got 4 tokens of 4 but is not done"),
        (lambda rows: rows[:-2] + rows[-1:], "request 1 got 3 tokens of 4"),
        (lambda rows: [*rows, rows[-1]], "request 1 was served twice"),
        (lambda rows: changed(rows, -1, count=3), "request 1 ended with 3 tokens of 4"),
        (
            lambda rows: [*rows, row(0, 900, PREFILL_START, 0)],
            'request 0 has an event "prefill start" after',
        ),
        (lambda rows: rows[:3] + rows[4:], "request 1 is done but never started"),
        (lambda rows: rows[:8], "request 0 is lost"),
    ]:
        plan, rows = split_run()
        rows = change(rows)
        with pytest.raises(RunError) as error:
            audit(of(plan, rows).requests, log_of(rows), complete=True)
        assert message in str(error.value)


def random_run(seed: int) -> tuple[ServingPlan, list[Row], dict[int, list[int]]]:
    """Return a random run of two mixed instances and the token times of each request."""
    rng = random.Random(seed)
    asked = [rng.choice([1, 2, 3, 20, 150]) for _ in range(40)]
    token_times: dict[int, list[int]] = defaultdict(list)
    rows: list[Row] = []
    for instance in (0, 1):
        host, now = 2 * instance, rng.randrange(50)
        waiting = [one for one in range(40) if one % 2 == instance]
        running: list[int] = []
        while waiting or running:
            starts = waiting.pop(0) if waiting and rng.random() < 0.3 else None
            begin = now
            if starts is not None:
                rows.append(row(host, now, PREFILL_START, starts))
            now += rng.randrange(1, 9)
            rows.append(row(host, now, ITERATION, start_ps=begin, decode_batch=len(running)))
            for one in list(running):
                token_times[one].append(now)
                if len(token_times[one]) == asked[one]:
                    running.remove(one)
                    rows.append(row(host, now, DONE, one, count=asked[one]))
            if starts is not None:
                token_times[starts].append(now)
                rows.append(row(host, now, FIRST_TOKEN, starts))
                if asked[starts] == 1:
                    rows.append(row(host, now, DONE, starts, count=1))
                else:
                    running.append(starts)
                    rows.append(row(host, now, DECODE_START, starts))
    return mixed_plan([(0, 5, n) for n in asked], instances=2), rows, token_times


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("at_once", [1, 100, 10**6])
def test_token_times_match_random_runs(seed: int, at_once: int) -> None:
    _, rows, token_times = random_run(seed)
    log = log_of(rows)
    found: dict[int, list[int]] = defaultdict(list)
    bounds = []
    for part in tokens(40, log, stays(log), at_once):
        bounds += [part.first, part.end]
        for request, time in zip(part.request.tolist(), part.time_ps.tolist(), strict=True):
            assert part.first <= request < part.end
            found[request].append(time)
    assert found == token_times
    assert [bounds[0], bounds[-1]] == [0, 40]
    assert bounds[1:-1:2] == bounds[2::2]


def test_token_gaps_match_random_runs() -> None:
    for seed in range(5):
        plan, rows, token_times = random_run(seed)
        found = of(plan, rows)
        audit(found.requests, log_of(rows), complete=True)
        every = []
        for request, times in token_times.items():
            gaps = sorted(b - a for a, b in pairwise(times))
            every += gaps
            for name, share in (("p50", 0.5), ("p99", 0.99), ("max", 1.0)):
                expected = gaps[math.ceil(share * len(gaps)) - 1] if gaps else -1
                assert found.requests[f"tbt_{name}_ps"][request] == expected
            if gaps:
                mean = found.requests["tpot_ps"][request]
                assert mean == pytest.approx(sum(gaps) / len(gaps))
        every.sort()
        shown = distribution(*found.gaps)
        assert shown["mean"] == pytest.approx(sum(every) / len(every))
        for name, share in (("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("max", 1.0)):
            assert shown[name] == every[math.ceil(share * len(every)) - 1]


def figures(**objective: int | None) -> dict[str, Any]:
    plan, rows = split_run()
    plan = replace(plan, **objective)
    log = log_of(rows)
    return serving_metrics(plan, outcome(plan, log, np.array([300, 310, 400, 420])), log)


def test_rates_span_first_arrival_to_last_token() -> None:
    found = figures()
    assert found["span_ps"] == 600
    assert found["requests_per_s"] == pytest.approx(2 / 600e-12)
    assert found["tokens_per_s"] == pytest.approx(7 / 600e-12)
    assert found["offered_per_s"] == pytest.approx(1 / 50e-12)


def test_latency_distributions_match_the_log() -> None:
    found = figures()
    assert found["ttft_ps"] == {"mean": 225.0, "p50": 200, "p90": 250, "p99": 250, "max": 250}
    assert found["queueing_ps"]["max"] == 150
    assert found["tbt_ps"] == {"mean": 112.0, "p50": 80, "p90": 200, "p99": 200, "max": 200}
    assert found["second_token_ps"]["p50"] == 160
    assert found["tpot_ps"]["max"] == 130
    assert found["latency_ps"]["p50"] == 460
    assert found["kv_ps"]["max"] == 140


def test_goodput_counts_requests_that_meet_all_slos() -> None:
    for ttft, tbt, stall, shares in [
        (None, None, None, (1.0, 1.0, 1.0)),
        (200, None, None, (0.5, 1.0, 0.5)),
        (200, 160, None, (0.5, 0.5, 0.0)),
        (250, 200, 200, (1.0, 1.0, 1.0)),
        (250, 200, 199, (1.0, 1.0, 0.5)),
    ]:
        found = figures(ttft_ps=ttft, tbt_ps=tbt, stall_ps=stall)["slo"]
        assert (found["ttft_attainment"], found["tbt_attainment"], found["attainment"]) == shares
        assert found["stalled"] == (stall == 199)
        assert found["goodput_per_s"] == pytest.approx(shares[2] / 50e-12)


def test_single_long_token_gap_is_a_stall() -> None:
    """With one gap of 9 s and 150 of 10 ms, the 99th percentile meets 50 ms."""
    plan, _ = split_run()
    plan = replace(plan, tbt_ps=5 * 10**10, stall_ps=5 * 10**11)
    columns = ("end_ps", "ttft_ps", "tbt_p99_ps", "tbt_max_ps")
    table = {name: np.array([10**12, 10**12]) for name in columns}
    table["tbt_p99_ps"] = np.array([10**10, 10**10])
    table["tbt_max_ps"] = np.array([9 * 10**12, 10**10])
    assert [one.tolist() for one in met(plan, table)] == [[True] * 2, [True] * 2, [False, True]]
    assert _slo(plan, table, 1.0)["stalled"] == 1


def test_percentiles_of_nothing_are_none() -> None:
    names = ("mean", "p50", "p90", "p99", "max")
    assert distribution(np.zeros(0, np.int64)) == dict.fromkeys(names)


MTBF, REPAIR, UNTIL = 8_000_000, 300_000, 20_000_000_000


@pytest.mark.parametrize(
    "policy",
    [
        Policy(MTBF, REPAIR, swap_ps=30_000),
        Policy(MTBF, 5 * REPAIR, swap_ps=30_000, spares=1),
        Policy(MTBF, 5 * REPAIR, swap_ps=30_000, spares=3),
        Policy(MTBF, REPAIR, swap_ps=9_000, on_failure="shrink", restart_ps=30_000),
    ],
)
@pytest.mark.parametrize("gpus", [1, 4])
def test_expected_capacity_matches_drawn_failures(policy: Policy, gpus: int) -> None:
    machines = 6
    found = draw_outages(policy, np.full(machines, gpus), UNTIL, np.random.default_rng(5))
    down, short = (float(one.mean()) for one in lost_shares(found, machines, UNTIL))
    expected = expected_capacity(policy, gpus, machines)
    assert expected is not None
    assert down + short / gpus == pytest.approx(1 - expected, rel=0.08)


def test_expected_capacity_is_none_for_shrink_with_spares() -> None:
    policy = Policy(MTBF, REPAIR, spares=1, on_failure="shrink", restart_ps=1)
    assert expected_capacity(policy, 4, 2) is None


def test_capacity_metrics_sum_down_and_shrunk_time() -> None:
    plan = mixed_plan([(100, 10, 3)], instances=3)
    host, size = int(plan.instances.leader[0]), int(plan.instances.size[0])
    every = int(plan.instances.size.sum())
    rows = [
        row(host, 200, DOWN, count=0),
        row(host, 300, UP, count=size - 1),
        row(host, 700, UP, count=size),
        row(host, 1000, DOWN, count=0),
        row(host, 5000, UP, count=size),
    ]
    found = capacity_metrics(plan, log_of(rows), 100, 1100)
    assert found["count"] == 2
    lost = size * 100 + 400 + size * 100
    assert found["available_gpu_share"] == pytest.approx(1 - lost / (1000 * every))
    assert capacity_metrics(plan, log_of([]), 100, 1100) == {"count": 0, "available_gpu_share": 1.0}
