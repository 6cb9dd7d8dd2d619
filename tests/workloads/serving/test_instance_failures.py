"""Serving runs with instance failures: lost and restarted requests, and shrunk instances."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from served import US, Served, all_served_once, cost, decode_ps, deployment, prefill_ps
from traffic_cases import made

from netsim.workloads.serving.data import ServingPlan
from netsim.workloads.serving.failures import Outages, transitions_of
from netsim.workloads.serving.instance import DOWN, SHRUNK, WHOLE

COST = cost()


def failing(
    tmp_path: Path, rows: str, requests: list[tuple[float, int, int]], **given: Any
) -> Served:
    """Run with a failure trace that consists of these rows."""
    (tmp_path / "down.csv").write_text(f"{rows}\n")
    return Served(tmp_path, requests, failure_trace="down.csv", **given)


def test_generated_tokens_are_not_generated_again_after_failure(tmp_path: Path) -> None:
    # It fails in the iteration of the third token: two were generated, and 102 are prefilled again.
    run = failing(tmp_path, "0,250us,1ms", [(0, 100, 4)], instances=1)
    up, again = 1000 * US, prefill_ps(COST, 102)
    first = prefill_ps(COST, 100)
    second = first + decode_ps(COST, 101)
    assert run.iterations() == [
        (0, first, 100, 0),
        (first, second, 0, 1),
        (up, up + again, 102, 0),
        (up + again, up + again + decode_ps(COST, 103), 0, 1),
    ]
    assert [(row["time_ps"], row["count"]) for row in run.told("lost")] == [(250 * US, 2)]
    first_tokens = [(row["time_ps"], row["count"]) for row in run.told("first token")]
    assert first_tokens == [(first, 1), (up + again, 3)]
    assert [row["time_ps"] for row in run.told("down")] == [250 * US]
    assert [(row["time_ps"], row["count"]) for row in run.told("up")] == [(up, 2)]
    all_served_once(run.plan, run)


def test_shrunk_instance_continues_at_reduced_speed(tmp_path: Path) -> None:
    run = failing(tmp_path, "0,50us,150us,500us", [(0, 100, 5)], instances=1)
    slow = 2 * prefill_ps(COST, 100)
    slower = 2 * decode_ps(COST, 101)
    iterations = run.iterations()
    assert iterations[0][:2] == (150 * US, 150 * US + slow)
    assert iterations[1][:2] == (150 * US + slow, 150 * US + slow + slower)
    # An iteration that begins after the repair has full speed.
    assert iterations[2][1] - iterations[2][0] == decode_ps(COST, 102)
    restarts = [(row["time_ps"], row["count"]) for row in run.told("up")]
    assert restarts == [(150 * US, 1), (500 * US, 2)]
    all_served_once(run.plan, run)


@pytest.mark.parametrize("instance", [0, 1])
@pytest.mark.parametrize("kv", ["after_prefill", "layerwise"])
def test_split_instances_serve_all_requests_despite_failures(
    tmp_path: Path, kv: str, instance: int
) -> None:
    rows = "\n".join(f"{instance},{at}us,{at + 130}us" for at in range(40, 4000, 290))
    asked = [(60 * k, 900 + 31 * k, 1 + k % 5) for k in range(12)]
    run = failing(
        tmp_path,
        rows,
        asked,
        prefill_instances=1,
        decode_instances=1,
        kv_transfer=kv,
        token_budget=2000,
        **({"kv_layer_groups": 3} if kv == "layerwise" else {}),
    )
    assert len(run.told("lost", 2 * instance)) > 3
    assert not run.told("lost", 2 - 2 * instance)
    all_served_once(run.plan, run)


def test_random_failures_lose_no_request(tmp_path: Path) -> None:
    rng = np.random.default_rng(7)
    for trial in range(8):
        rows = []
        for instance in range(3):
            times = np.cumsum(rng.integers(20, 700, 12))
            rows += [f"{instance},{a}us,{b}us,{c}us" for a, b, c in times.reshape(-1, 3)]
        sizes = rng.integers(1, [3000, 400, 9], (20, 3)).tolist()
        asked = [(at, prompt, output) for at, prompt, output in sorted(sizes)]
        given: dict[str, Any] = {"instances": 3}
        if trial % 2:
            given = {"prefill_instances": 2, "decode_instances": 1, "kv_transfer": "layerwise"}
        budget = int(rng.integers(50, 500))
        run = failing(
            tmp_path,
            "\n".join(rows),
            asked,
            token_budget=budget,
            max_batch=int(rng.integers(1, 8)),
            chunked=bool(trial % 3),
            **given,
        )
        all_served_once(run.plan, run)


def test_outages_become_ordered_state_transitions() -> None:
    instance = np.array([0, 1, 1], np.int32)
    down, up, whole = (np.array(one) for one in ([10, 20, 50], [25, 30, 60], [40, 30, 70]))
    transitions = transitions_of(Outages(instance, down, up, whole))
    assert transitions.instance.tolist() == [0, 0, 0, 1, 1, 1, 1, 1]
    assert transitions.at_ps.tolist() == [10, 25, 40, 20, 30, 50, 60, 70]
    assert transitions.becomes.tolist() == [DOWN, SHRUNK, WHOLE, DOWN, WHOLE, DOWN, SHRUNK, WHOLE]


def test_failures_are_independent_of_dispatch_and_lengths() -> None:
    """Requests are also independent of failures and dispatch."""
    given = {"deployment": deployment(), "instances": 3, "rate": 1000.0, "requests": 50}
    failing = {"mtbf": "20ms", "repair_time": "1ms"}
    lognormal = {"length_distribution": "lognormal"}
    found = [
        made("serving", 8, **given, **more)
        for more in (
            failing,
            {**failing, "dispatch": "random"},
            {**failing, **lognormal},
            {**lognormal, "dispatch": "random"},
        )
    ]
    times = [np.array(one.task_state["at_ps"]) for one in found]
    transitions = [at[at > 0].tolist() for at in times]
    assert len(transitions[0]) > 4
    assert transitions[0] == transitions[1] == transitions[2]
    router, both = found[1].part(ServingPlan), found[3].part(ServingPlan)
    lengths = found[2].part(ServingPlan)
    assert router is not None
    assert lengths is not None
    assert both is not None
    for column in ("arrival_ps", "prompt_tokens", "output_tokens"):
        assert np.array_equal(getattr(lengths.requests, column), getattr(both.requests, column))
    assert np.array_equal(router.prefill_instance, both.prefill_instance)
