"""Iteration times: their parts, and identical picoseconds when compiled with Numba."""

import random

import numba
import pytest

from netsim.workloads.inference import iteration_cost, iteration_ps, load_deployment, prompt_pairs
from netsim.workloads.inference import roofline as module
from netsim.workloads.inference.roofline import compute_ps

OVERHEADS = {
    "prefill_efficiency": 0.6,
    "decode_efficiency": 0.4,
    "memory_efficiency": 0.8,
    "network_efficiency": 0.5,
    "step_latency": "3us",
    "layer_overhead": "100us",
    "iteration_overhead": "5ms",
    "sequence_overhead": "200us",
    "activation_passes": 10,
}


def cost_of(model="llama3_70b", options=None, **overheads):
    table = {"model": model, "machine": {"preset": "h100", "memory": "1TB"}}
    return iteration_cost(
        load_deployment({**table, "options": {"tp": 4, **(options or {})}, "overheads": overheads})
    )


def test_compiled_times_equal_python():
    names = (
        "compute_parts",
        "compute_ps",
        "network_ps",
        "iteration_ps",
        "all_reduce_bytes",
        "prompt_pairs",
    )
    space = dict(vars(module))
    for name in names:
        function = vars(module)[name]
        copy = type(function)(function.__code__, space, name)
        space[name] = numba.njit(copy)
    rng = random.Random(5)
    costs = [
        cost_of(model, {"embeddings": True, **options}, **OVERHEADS, async_launch=bool(options))
        for model in ("llama3_70b", "mixtral_8x7b")
        for options in ({}, {"overlap": True, "roofline": "layer"})
    ]
    for _ in range(200):
        batch, prompt = rng.randrange(300), rng.choice((0, 1, 777, 10**6))
        start = rng.randrange(5000)
        pairs = prompt_pairs(True, start, prompt)
        assert space["prompt_pairs"](True, start, prompt) == pairs
        arguments = (batch + prompt, pairs, batch, batch * rng.randrange(10**5))
        for cost in costs:
            assert space["iteration_ps"](cost, *arguments) == iteration_ps(cost, *arguments)
            found = space["all_reduce_bytes"](cost, arguments[0])
            assert found == module.all_reduce_bytes(cost, arguments[0])


def test_software_overheads_are_added():
    bare = compute_ps(cost_of(), 8, 0, 8, 8000)
    assert compute_ps(cost_of(layer_overhead="100us"), 8, 0, 8, 8000) == bare + 80 * 10**8
    ahead = cost_of(layer_overhead="100us", async_launch=True)
    assert compute_ps(ahead, 8, 0, 8, 8000) == max(bare, 80 * 10**8)
    assert compute_ps(cost_of(iteration_overhead="1ms"), 8, 0, 8, 8000) == bare + 10**9
    more = cost_of(sequence_overhead="1ms")
    assert compute_ps(more, 8, 0, 8, 8000) == bare + 8 * 10**9
    prompts = compute_ps(cost_of(), 2008, 1000, 8, 8000)
    assert compute_ps(more, 2008, 1000, 8, 8000) == prompts + 9 * 10**9


def test_layer_roofline_overlaps_compute_and_reads():
    parts, layer = (cost_of(options={"roofline": one}) for one in ("parts", "layer"))
    rows, weights = 2000 * parts.decode_row_ps, parts.weights_ps
    context = 2000 * 1500
    scores, read = context * parts.context_ps, context * parts.kv_ps
    assert rows > weights
    assert read > scores
    arguments = (2000, 0, 2000, context)
    assert compute_ps(parts, *arguments) == pytest.approx(rows + read, abs=1)
    assert compute_ps(layer, *arguments) == pytest.approx(max(rows + scores, weights + read), abs=1)


def test_prompt_pairs_of_chunks_sum_to_whole_prompt():
    for causal in (True, False):
        whole = prompt_pairs(causal, 0, 1500)
        assert whole == 1500 * 1500 // (2 if causal else 1)
    chunks = (prompt_pairs(True, start, 500) for start in (0, 500, 1000))
    assert sum(chunks) == prompt_pairs(True, 0, 1500)
