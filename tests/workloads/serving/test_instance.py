"""Instances in plain Python: iterations, failures, KV caches, memory pools, all-reduces."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from raises_input import raises_input
from served import US, Served, all_served_once, cost, decode_ps, deployment, prefill_ps
from traffic_cases import made, star

from netsim.workloads.collectives import closed_form_ps
from netsim.workloads.collectives.steps import ONE_WAY, CollectiveOptions
from netsim.workloads.inference.deployment import (
    all_reduce_bytes,
    compute_ps,
    iteration_cost,
    kv_bytes_of_token,
    load_deployment,
    prompt_pairs,
    weight_bytes,
)
from netsim.workloads.operations import Wires
from netsim.workloads.serving.failures import Outages, transitions_of
from netsim.workloads.serving.instance import DOWN, SHRUNK, WHOLE
from netsim.workloads.serving.plan import ServingPlan
from netsim.workloads.serving.workload import flows_between, partition

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
    assert run.load.program.host_state["room"][0] == 250
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


@pytest.mark.parametrize("token_budget", [1, 7, 2048])
def test_rows_reserved_for_the_log_are_enough_but_not_many(
    tmp_path: Path, token_budget: int
) -> None:
    """The engine ends a run with more rows. A failed instance computes its prompts again."""
    down = "\n".join(f"0,{at}us,{at + 100}us" for at in range(2000, 40_000, 2000))
    asked = [(3000 * k, 20 + 3 * k, 1 + 9 * (k % 2)) for k in range(10)]
    run = failing(tmp_path, down, asked, instances=1, token_budget=token_budget)
    assert len(run.told("lost")) > 3
    assert run.load.program.log_rows[0] < 12 * len(run.rows)


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
    times = [np.array(one.program.task_state["at_ps"]) for one in found]
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


HALVES = {"prefill_instances": 1, "decode_instances": 1}


def idle_ps(*n_bytes: int) -> int:
    """Return the time of one host's flows: all packets on its link, a full one on the next."""
    packets = sum(-(-size // 4096) for size in n_bytes)
    return (sum(n_bytes) + 64 * packets + min(max(n_bytes), 4096) + 64) * 80 + 2 * US


def test_kv_partition_balances_sources_and_sinks() -> None:
    for sources, sinks in [(1, 1), (2, 2), (4, 1), (1, 3), (8, 32), (3, 2), (6, 4)]:
        flows = partition(sources, sinks)
        assert len(flows) == flows_between(sources, sinks)
        whole = 12 * sources * sinks
        sizes = flows.sizes(np.array([whole]), 2)[0]
        assert sizes.sum() == whole
        sent = np.bincount(flows.source, weights=sizes.sum(0))
        came = np.bincount(flows.sink, weights=sizes.sum(0))
        assert set(sent.tolist()) == {whole / sources}
        assert set(came.tolist()) == {whole / sinks}
        # Source and sink of a flow both own the part that it carries.
        part = flows.bounds[:-1] + 0.5
        assert (part * sources // flows.bounds[-1] == flows.source).all()
        assert (part * sinks // flows.bounds[-1] == flows.sink).all()


def test_kv_transfer_between_single_gpus_matches_hand_calculation(tmp_path: Path) -> None:
    run = Served(tmp_path, [(3, 100, 3)], deployment=deployment(1), **HALVES)
    one = cost(1)
    first = 3 * US + prefill_ps(one, 100)
    there = first + idle_ps(100 * 256)
    second = there + decode_ps(one, 101)
    assert run.times("first token") == {0: first}
    assert run.times("kv transfer end") == run.times("decode start") == {0: there}
    assert run.iterations(1) == [
        (there, second, 0, 1),
        (second, second + decode_ps(one, 102), 0, 1),
    ]
    assert run.load.flows.size_bytes.tolist() == [100 * 256]
    assert (run.plan.kv_first_flow.tolist(), run.plan.kv_flows.tolist()) == ([0], [1])
    all_served_once(run.plan, run)


def test_layerwise_kv_transfer_overlaps_prefill(tmp_path: Path) -> None:
    table = deployment(1)
    given: dict[str, Any] = {"deployment": table, **HALVES}
    requests = [(0, 4000, 2), (0, 2000, 2)]
    after = Served(tmp_path, requests, token_budget=8000, **given)
    layers = Served(
        tmp_path, requests, token_budget=8000, kv_transfer="layerwise", kv_layer_groups=4, **given
    )
    end = layers.times("first token")[0]
    assert end == after.times("first token")[0]
    # The two caches share the link; the last quarter of both is sent when the prefill ends.
    assert max(layers.times("kv transfer end").values()) - end == idle_ps(4000 * 64, 2000 * 64)
    assert max(after.times("kv transfer end").values()) - end == idle_ps(4000 * 256, 2000 * 256)
    starts = layers.engine.flow_states().start_ps.reshape(2, 4)
    begin, length = layers.iterations()[0][0], layers.iterations()[0][1]
    assert (starts == [begin + length // 4 * k for k in (1, 2, 3)] + [length]).all()
    all_served_once(layers.plan, layers)


def test_kv_transfer_between_instances_of_different_sizes(tmp_path: Path) -> None:
    run = Served(
        tmp_path,
        [(20 * k, 100 + k, 1 + k % 4) for k in range(6)],
        deployment=deployment(3, options={"kv_replicated": False}),
        decode_deployment=deployment(2),
        prefill_instances=1,
        decode_instances=2,
        kv_transfer="layerwise",
        kv_layer_groups=3,
    )
    # Four requests have more than one token; each has 3 layer groups of 4 flows.
    assert run.plan.kv_flows.tolist() == [0, 12, 12, 12, 0, 12]
    assert run.plan.decode_instance.tolist() == [-1, 1, 2, 1, -1, 2]
    caches = run.load.flows.size_bytes[run.load.flows.kind == 0].sum()
    assert caches == 256 * sum(100 + k for k in (1, 2, 3, 5))
    all_served_once(run.plan, run)


PACKETS: dict[str, Any] = {
    "all_reduces": "packets",
    "all_reduces_per_iteration": 2,
    "max_iterations": 6,
}
TOKEN = 128  # bytes of a token's KV cache at each of two GPUs


def at_rate(n_bytes: float, mbps: int) -> int:
    """Return the picoseconds that this many bytes take at a rate in Mbps."""
    return int(n_bytes * 8 * 10**6 / mbps)


def test_kv_reads_by_formula_extend_decode_iterations(tmp_path: Path) -> None:
    given = {"instances": 1, "pooled": "kv", "pooled_fraction": 0.5, "pool_read_rate": "100Mbps"}
    run = Served(tmp_path, [(0, 100, 4)], **given)
    first = prefill_ps(cost(), 100)
    took = [end - begin for begin, end, _, _ in run.iterations()]
    reads = [at_rate(TOKEN / 2 * context, 100) for context in (101, 102, 103)]
    added = [decode_ps(cost(), 101 + k) - 100 * US for k in range(3)]
    assert took[0] == first
    # Reads take about 500 us; all-reduces add less than 1 us.
    assert took[1:] == pytest.approx(reads, abs=max(added))
    assert all(one >= read for one, read in zip(took[1:], reads, strict=True))
    fast = Served(tmp_path, [(0, 100, 4)], **{**given, "pool_read_rate": "100Gbps"})
    assert fast.iterations()[1][1] - first == decode_ps(cost(), 101)


@pytest.mark.parametrize("pool", [1, 3])
def test_pooled_kv_cache_is_sent_as_flows(tmp_path: Path, pool: int) -> None:
    run = Served(tmp_path, [(0, 400, 4)], instances=1, pool_hosts=pool, pooled="kv", **PACKETS)
    flows, states = run.load.flows, run.engine.flow_states()
    reads = (flows.kind == flows.kinds.index("pool")).reshape(-1)
    assert set(flows.src[reads].tolist()) == set(range(2, 2 + pool))
    assert set(flows.dst[reads].tolist()) == {0, 1}
    size = np.asarray(states.size_bytes)[reads].reshape(6, -1)
    there = np.asarray(states.done_ps)[reads].reshape(6, -1) >= 0
    assert there[:4].all()
    assert not there[4:].any()
    # A prefill reads nothing; decode reads are quantized to 1/65,536 of the longest, 404 tokens.
    assert (size[0] == 1).all()
    for slot, context in enumerate((401, 402, 403), start=1):
        assert size[slot].sum() == pytest.approx(2 * TOKEN * context, abs=8)
    all_served_once(run.plan, run)


def test_iteration_waits_for_pooled_weights(tmp_path: Path) -> None:
    # Sending 10 MB of weights from one host to two GPUs takes longer than everything else.
    table = deployment(model={"feed_forward": 200_000})
    given = {"deployment": table, "instances": 1, "pooled": "weights", **PACKETS}
    run = Served(tmp_path, [(0, 1, 2)], pool_hosts=1, pooled_fraction=0.1, **given)
    n_bytes = weight_bytes(load_deployment(table)) * 2 * 0.1
    alone = n_bytes * (4160 / 4096) * 80
    assert alone > 300 * US
    took = [end - begin for begin, end, _, _ in run.iterations()]
    assert took == pytest.approx([alone + 10 * US] * 2, abs=10 * US)
    both = Served(tmp_path, [(0, 1, 2)], pool_hosts=2, pooled_fraction=0.1, **given)
    took = [end - begin for begin, end, _, _ in both.iterations()]
    assert took == pytest.approx([alone / 2 + 10 * US] * 2, abs=10 * US)


FOUR = {"all_reduces": "packets", "all_reduces_per_iteration": 4}
WIRE = Wires(star(8), 4096, 64).wire(ONE_WAY, np.arange(4))


def all_reduce_ps(tp: int, rows: int, how: CollectiveOptions, merged: int = 1) -> int:
    """Return the time of an all-reduce of this many tokens in an idle network."""
    size = all_reduce_bytes(cost(tp), rows) * merged
    return closed_form_ps("all_reduce", tp, size, WIRE, how)


def test_iteration_time_is_compute_plus_all_reduces(tmp_path: Path) -> None:
    for algorithm in ["ring", "direct", "halving_doubling"]:
        # Blocks are whole packets, so that the closed form includes the exact time at the switch.
        given: dict[str, Any] = {"instances": 1, "latency": "1us", "algorithm": algorithm, **FOUR}
        run = Served(tmp_path, [(0, 512, 1)], deployment=deployment(4), max_iterations=1, **given)
        computing = compute_ps(cost(4), 512, prompt_pairs(True, 0, 512), 0, 0)
        wanted = computing + 4 * all_reduce_ps(4, 512, CollectiveOptions(algorithm, latency_ps=US))
        # The other GPUs begin when the control message reaches them.
        control = 2 * US + 2 * 3 * 5000 * 80
        assert wanted <= run.iterations()[0][1] <= 1.005 * wanted + control
        all_served_once(run.plan, run)


def test_all_reduce_and_control_sizes_follow_iteration_tokens(tmp_path: Path) -> None:
    given: dict[str, Any] = {"instances": 1, "algorithm": "direct", **FOUR}
    run = Served(tmp_path, [(0, 400, 2)], deployment=deployment(4), max_iterations=2, **given)
    flows, states = run.load.flows, run.engine.flow_states()
    sent = (flows.kind == flows.kinds.index("all_reduce")).reshape(-1)
    size = np.asarray(states.size_bytes)[sent].reshape(2, 4, -1)
    # Each GPU sends two blocks of a quarter of the buffer to each other GPU.
    assert size.shape[2] == 2 * 12
    assert size[0].sum() == 4 * 2 * 3 * all_reduce_bytes(cost(4), 400)
    assert size[1].sum() == 4 * 2 * 3 * all_reduce_bytes(cost(4), 1)
    control = (flows.kind == flows.kinds.index("control")).reshape(-1)
    rows = np.asarray(states.size_bytes)[control].reshape(2, 3, 2)[:, :, 0]
    assert rows.tolist() == [[256 + 8 * 400] * 3, [256 + 8] * 3]


@pytest.mark.parametrize("kv", ["after_prefill", "layerwise"])
def test_split_instances_with_all_reduces_serve_all_requests(tmp_path: Path, kv: str) -> None:
    asked = [(30 * k, 300 + 40 * k, 1 + k % 4) for k in range(5)]
    more = {"kv_layer_groups": 3} if kv == "layerwise" else {}
    run = Served(
        tmp_path, asked, kv_transfer=kv, deployment=deployment(4), **more, **HALVES, **FOUR
    )
    all_served_once(run.plan, run)
    first, there = run.times("first token"), run.times("kv transfer end")
    assert all(there[k] > first[k] for k in there)
    if kv == "layerwise":
        starts = run.engine.flow_states().start_ps
        begin = [row["start_ps"] for row in run.told("iteration", 0)]
        flow = int(run.plan.kv_first_flow[1])
        part = starts[flow : flow + 12].reshape(3, 4)[:, 0]
        assert begin[0] < part[0] < part[1] < part[2] == first[1]


def test_instances_sharing_a_network_serve_all_requests(tmp_path: Path) -> None:
    asked = [(20 * k, 50 + 30 * k, 2 + k % 4) for k in range(6)]
    run = Served(
        tmp_path,
        asked,
        instances=2,
        gpu_stride=2,
        deployment=deployment(4),
        token_budget=100,
        max_batch=3,
        **FOUR,
    )
    assert max(batch for _, _, _, batch in run.iterations(0)) > 1
    all_served_once(run.plan, run)


def test_insufficient_max_iterations_is_rejected_before_the_run(tmp_path: Path) -> None:
    for given, asked, need in [
        ({"instances": 1}, [(0, 10, 9)], 9),
        ({"instances": 1, "token_budget": 5}, [(0, 11, 9)], 11),
        ({**HALVES, "token_budget": 5}, [(0, 10, 1), (0, 11, 1), (0, 9, 2)], 6),
        ({"instances": 1, "token_budget": 5, "chunked": False}, [(0, 11, 3)], 3),
        ({"instances": 2}, [(0, 10, 4), (0, 10, 6), (0, 10, 5)], 6),
        (HALVES, [(0, 10, 9)], 8),
        ({**HALVES, "token_budget": 2}, [(0, 9, 3)], 5),
    ]:
        with raises_input(need - 1, need, key="traffic.max_iterations"):
            Served(tmp_path, asked, max_iterations=need - 1, **given, **FOUR)
        all_served_once(
            (run := Served(tmp_path, asked, max_iterations=need, **given, **FOUR)).plan, run
        )
