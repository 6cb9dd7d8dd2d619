"""FLOPs and bytes of a layer match the formulas of the Lite-GPU paper for its models.

For B requests with prompts of S tokens and contexts of C, in FP8: P_l = 2 h^2 + 2 h kvd + n h f.
Prefill takes 2 B S P_l + 2 B S^2 h FLOPs, decode 2 B P_l + 4 B C h. A token has 2 kvd bytes of keys
and values. Each layer has two ring all-reduces; a GPU sends 2 (t - 1) / t of the buffer in each.
"""

from dataclasses import dataclass

import pytest

from netsim.workloads.inference import (
    all_reduce_bytes,
    compute_ps,
    iteration_cost,
    iteration_ps,
    kv_bytes_of_token,
    kv_capacity_tokens,
    load_deployment,
    network_ps,
    prompt_pairs,
)
from netsim.workloads.inference.roofline import layer_counts


@dataclass(frozen=True)
class Shape:
    """Symbols of the paper's formulas."""

    layers: int
    h: int
    kvd: int
    n: int
    f: int
    parameters: int
    """P_l, calculated by hand."""


MODELS = {
    "llama3_70b": Shape(80, 8192, 1024, 3, 28672, 855_638_016),
    "gpt3_175b": Shape(96, 12288, 12288, 2, 49152, 1_811_939_328),
    "llama3_405b": Shape(126, 16384, 1024, 3, 53248, 3_187_671_040),
}
S, TP = 1500, 8


def deployment(model, **options):
    roomy = {"preset": "h100", "memory": "1TB"}
    return load_deployment({"model": model, "machine": roomy, "options": {"tp": TP, **options}})


@pytest.mark.parametrize("model", MODELS)
def test_flops_of_prefill_and_decode_match_formulas(model):
    shape, one = MODELS[model], deployment(model)
    p = 2 * shape.h**2 + 2 * shape.h * shape.kvd + shape.n * shape.h * shape.f
    assert one.model.attention_parameters + one.model.mlp_parameters == p == shape.parameters
    cost, rate = iteration_cost(one), 2000e12 * TP
    for b in (1, 3):
        prefill = 2 * b * S * p + 2 * b * S**2 * shape.h
        pairs = b * prompt_pairs(True, 0, S)
        expected = shape.layers * prefill / rate * 1e12
        assert compute_ps(cost, b * S, pairs, 0, 0) == pytest.approx(expected, abs=1)
        row, attention = 2 * b * p, 4 * b * S * shape.h
        seconds = shape.layers * row / rate, shape.layers * attention / rate
        assert cost.decode_row_ps * b == pytest.approx(seconds[0] * 1e12, rel=1e-12)
        assert cost.context_ps * b * S == pytest.approx(seconds[1] * 1e12, rel=1e-12)


COUNTED = {
    "llama3_70b": (2_603_778_048_000, 1_760_428_032, 2048, 12_288_000),
    "gpt3_175b": (5_491_113_984_000, 3_697_606_656, 24576, 18_432_000),
    "llama3_405b": (9_636_741_120_000, 6_473_646_080, 2048, 24_576_000),
}
"""FLOPs of a prompt and of a decoded token, bytes of keys and values and of an all-reduce."""


@pytest.mark.parametrize("model", MODELS)
def test_layer_counts_match_formulas(model):
    shape, found = MODELS[model], layer_counts(deployment(model))
    p = shape.parameters
    assert found[1:] == COUNTED[model]
    assert found == (
        p,
        2 * S * p + 2 * S**2 * shape.h,
        2 * p + 4 * S * shape.h,
        2 * shape.kvd,
        S * shape.h,
    )


KV_BYTES_OF_PROMPT = {
    "llama3_70b": 245_760_000,
    "gpt3_175b": 3_538_944_000,
    "llama3_405b": 387_072_000,
}


@pytest.mark.parametrize("model", MODELS)
def test_kv_cache_size_and_capacity_match_formulas(model):
    shape, one = MODELS[model], deployment(model)
    assert kv_bytes_of_token(one) == 2 * shape.kvd * shape.layers
    assert kv_bytes_of_token(one) * S == KV_BYTES_OF_PROMPT[model]
    held = shape.layers * shape.parameters / TP
    room = (1e12 - held) / (2 * shape.kvd * shape.layers / TP)
    assert kv_capacity_tokens(one) == int(room)


@pytest.mark.parametrize("model", MODELS)
def test_ring_all_reduce_bytes_and_time_match_formulas(model):
    shape = MODELS[model]
    for tokens in (S, 7):
        cost = iteration_cost(deployment(model))
        assert all_reduce_bytes(cost, tokens) == tokens * shape.h
        assert cost.all_reduces == 2 * shape.layers
        sent = shape.layers * 2 * 2 * (TP - 1) / TP * tokens * shape.h
        assert network_ps(cost, tokens) == pytest.approx(sent / 450e9 * 1e12, abs=1)
    both = deployment(model), deployment(model, overlap=True)
    sequential, overlapped = (
        iteration_ps(iteration_cost(one), S, prompt_pairs(True, 0, S), 0, 0) for one in both
    )
    parts = compute_ps(cost, S, prompt_pairs(True, 0, S), 0, 0), network_ps(cost, S)
    assert (sequential, overlapped) == (sum(parts), max(parts))


def test_kv_heads_are_replicated_or_split_across_gpus():
    copied, shared = (
        load_deployment(
            {
                "model": "llama3_70b",
                "machine": "lite",
                "options": {"tp": 32, "kv_replicated": replicated},
            }
        )
        for replicated in (True, False)
    )
    narrow, p = 2 * 8192 * 1024, MODELS["llama3_70b"].parameters
    held = (p - narrow) / 32 + narrow / 8
    costs = iteration_cost(copied), iteration_cost(shared)
    assert costs[0].weights_ps == pytest.approx(80 * held / 838e9 * 1e12)
    assert costs[1].weights_ps == pytest.approx(80 * p / 32 / 838e9 * 1e12)
    assert costs[0].kv_ps == 4 * costs[1].kv_ps
    assert kv_capacity_tokens(copied) == int((20e9 - 80 * held) / (163_840 / 8))
    assert kv_capacity_tokens(shared) == int((20e9 - 80 * p / 32) / (163_840 / 32))


def test_batch_reads_only_the_experts_it_uses():
    one = load_deployment({"model": "mixtral_8x7b", "machine": "h100", "options": {"tp": 1}})
    cost, expert = iteration_cost(one), 3 * 4096 * 14336
    attention = 2 * 4096 * 4096 + 2 * 4096 * 1024
    met = 32 * (attention + 4096 * 8)
    assert cost.weights_ps == pytest.approx(met / 3352e9 * 1e12)
    for batch, read in ((1, 2), (2, 4), (4, 8), (64, 8)):
        expected = (met + 32 * read * expert) / 3352e9 * 1e12
        assert compute_ps(cost, batch, 0, batch, 0) == pytest.approx(expected, abs=1)
    assert cost.prompt_row_ps == pytest.approx(2 * (met + 32 * 2 * expert) / 2000e12 * 1e12)


def test_latent_attention_caches_the_compressed_vector():
    one = load_deployment({"model": "deepseek_v3", "machine": {"preset": "h100", "memory": "1TB"}})
    assert kv_bytes_of_token(one) == 61 * (512 + 64)
