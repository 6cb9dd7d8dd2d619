"""Iterations of instances: batches, their times, and failures."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from served import US, Served, all_served_once, cost, decode_ps, deployment, prefill_ps
from traffic_cases import made

from netsim.workloads.inference import iteration_cost, kv_bytes_of_token, load_deployment
from netsim.workloads.inference.roofline import weight_bytes
from netsim.workloads.serving.data import ServingPlan
from netsim.workloads.serving.failures import Outages, transitions_of
from netsim.workloads.serving.instance import DOWN, SHRUNK, WHOLE

COST = cost()


def test_single_request_runs_prefill_then_decode(tmp_path: Path) -> None:
    run = Served(tmp_path, [(7, 100, 3)], instances=1)
    first = 7 * US + prefill_ps(COST, 100)
    second = first + decode_ps(COST, 101)
    third = second + decode_ps(COST, 102)
    assert run.iterations() == [
        (7 * US, first, 100, 0),
        (first, second, 0, 1),
        (second, third, 0, 1),
    ]
    assert run.times("prefill start") == {0: 7 * US}
    assert run.times("first token") == {0: first}
    assert run.times("decode start") == {0: first}
    assert run.times("done") == {0: third}
    assert [row["attention_pairs"] for row in run.told("iteration")] == [5000, 0, 0]
    all_served_once(run.plan, run)


def test_prompts_join_decoding_sequences(tmp_path: Path) -> None:
    # The second request arrives during the first one's prefill, and the third at its end.
    end = prefill_ps(COST, 100)
    run = Served(tmp_path, [(0, 100, 3), (1, 50, 2), (end / US, 20, 1)], instances=1)
    iterations = run.iterations()
    assert [(tokens, batch) for _, _, tokens, batch in iterations] == [(100, 0), (70, 1), (0, 2)]
    begin, finish = iterations[1][:2]
    assert begin == end
    pairs = 50 * 50 // 2 + 20 * 20 // 2
    assert run.told("iteration")[1]["attention_pairs"] == pairs
    assert run.told("iteration")[1]["context_tokens"] == 101
    assert run.told("iteration")[2]["context_tokens"] == 102 + 51
    assert run.times("first token") == {0: end, 1: finish, 2: finish}
    all_served_once(run.plan, run)


def test_long_prompt_is_chunked_while_others_decode(tmp_path: Path) -> None:
    run = Served(tmp_path, [(0, 100, 5), (1, 250, 2)], instances=1, token_budget=100)
    parts = [(tokens, batch) for _, _, tokens, batch in run.iterations()]
    assert parts == [(100, 0), (99, 1), (99, 1), (52, 1), (0, 2)]
    pairs = [row["attention_pairs"] for row in run.told("iteration")][1:4]
    assert pairs == [99 * 99 // 2, 99 * 99 + 99 * 99 // 2, 52 * 198 + 52 * 52 // 2]
    assert len(run.told("prefill start")) == 2
    all_served_once(run.plan, run)


def test_unchunked_prompts_wait_or_exceed_the_token_budget(tmp_path: Path) -> None:
    asked = [(0, 60, 1), (0, 50, 1), (0, 250, 1), (0, 10, 1)]
    run = Served(tmp_path, asked, instances=1, token_budget=100, chunked=False)
    assert [tokens for _, _, tokens, _ in run.iterations()] == [60, 50, 250, 10]
    all_served_once(run.plan, run)


def test_request_waits_for_kv_cache_space(tmp_path: Path) -> None:
    # Memory holds the weights and 250 tokens: two requests of 110 at a time.
    table = deployment(machine={"memory": "1MB"})
    one = load_deployment(table)
    memory = weight_bytes(one) + 250 * kv_bytes_of_token(one) / 2
    table = deployment(machine={"memory": f"{round(memory)}B"})
    run = Served(tmp_path, [(0, 100, 10)] * 3, instances=1, deployment=table)
    assert run.load.host_state["room"][0] == 250
    parts = [(tokens, batch) for _, _, tokens, batch in run.iterations()]
    assert parts == [(200, 0)] + [(0, 2)] * 9 + [(100, 0)] + [(0, 1)] * 9
    all_served_once(run.plan, run)


def test_leader_record_holds_the_iteration_cost(tmp_path: Path) -> None:
    table = deployment(
        layer_overhead="3us",
        sequence_overhead="1us",
        step_latency="2us",
        async_launch=True,
        prefill_floor="1us",
        empirical_long_prompt="1us",
        activation_passes=2,
    )
    table["options"] |= {"tp": 4, "overlap": True, "embeddings": True, "roofline": "layer"}
    run = Served(tmp_path, [(0, 10, 2)], instances=1, deployment=table)
    record = run.engine.state.hosts.program_hosts[0]
    wanted = iteration_cost(load_deployment(table))
    assert {name: record[name] for name in wanted._fields} == wanted._asdict()
    # All are nonzero, so that an unset field cannot match.
    assert all(value != 0 for name, value in wanted._asdict().items() if "expert" not in name)


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
