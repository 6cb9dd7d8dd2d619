"""Iterations of one instance and the times of tokens, against hand-computed values."""

from __future__ import annotations

from pathlib import Path

from served import US, Served, all_served_once, cost, decode_ps, deployment, prefill_ps

from netsim.workloads.inference import iteration_cost, kv_bytes_of_token, load_deployment
from netsim.workloads.inference.roofline import weight_bytes

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
