"""Largest batches within memory and latency limits; Lite-GPUs against H100."""

from dataclasses import replace
from functools import cache

import pytest

from netsim.workloads.inference.deployment import (
    iteration_cost,
    iteration_ps,
    load_deployment,
    prompt_pairs,
    with_tp,
)
from netsim.workloads.inference.limits import (
    ALL,
    ASSUMPTIONS,
    MODELS,
    PHASES,
    VARIANTS,
    Assumption,
    best_batch,
    best_size,
    comparison,
    lite_table,
    phase_time,
    sizes,
)


def deployment(model="llama3_70b", machine="lite", limits=None, **options):
    table = {"model": model, "machine": machine, "options": options}
    return load_deployment({**table, "limits": limits or {}})


@pytest.mark.parametrize("phase", PHASES)
@pytest.mark.parametrize(
    ("model", "machine"),
    [
        ("llama3_70b", "h100"),
        ("gpt3_175b", "lite"),
        ("llama3_405b", "lite_netbw_flops"),
        ("mixtral_8x7b", "lite"),
    ],
)
def test_best_batch_is_the_largest_allowed(model, machine, phase):
    for one in sizes(deployment(model, machine)):
        best, time = best_batch(one, phase), phase_time(one, phase)
        longest = one.limits.longest_ps(phase)
        assert best.memory_batch == best.capacity_tokens // 1500
        assert time(best.time_batch + 1) > longest
        if best.batch:
            assert best.time_ps == time(best.batch) <= longest
            assert best.limit == "memory" or best.batch == best.time_batch
            smaller = [time(n) / n for n in range(1, best.batch, 7)]
            assert all(best.time_ps / best.batch <= each * (1 + 1e-9) for each in smaller)


def test_best_batch_matches_expected_values():
    one = deployment(tp=8, machine="h100")
    best = best_batch(one, "decode")
    assert (best.memory_batch, best.time_batch, best.limit) == (2325, 2191, "TBT")
    assert best.time_ps == iteration_ps(iteration_cost(one), 2191, 0, 2191, 2191 * 1500)
    assert best.tokens_per_s == pytest.approx(2191 / 8 / best.time_ps * 1e12)
    assert best.tokens_per_s_sm == pytest.approx(best.tokens_per_s / 132)
    prefill = best_batch(one, "prefill")
    pairs = prompt_pairs(True, 0, 1500)
    assert (prefill.batch, prefill.limit) == (48, "TTFT")
    assert prefill.time_ps == iteration_ps(iteration_cost(one), 48 * 1500, 48 * pairs, 0, 0)
    assert prefill.tokens_per_s == pytest.approx(48 * 1500 / 8 / prefill.time_ps * 1e12)


def test_no_size_fits_memory_or_latency_limit():
    """One model exceeds the memory of the whole domain; another fits but is too slow."""
    assert best_size(deployment("deepseek_v3", "lite", embeddings=True), "decode") is None
    slow = best_size(deployment(tp=32, limits={"tbt": "1us"}), "decode")
    assert slow is not None
    assert (slow.batch, slow.limit, slow.tokens_per_s) == (0, "TBT", 0.0)


@pytest.mark.parametrize("model", ["llama3_70b", "mixtral_8x7b"])
def test_sizes_divide_domain_and_heads(model):
    one = deployment(model)
    for gpus in (1, 24, 32, 96):
        joined = replace(one, machine=replace(one.machine, domain_gpus=gpus))
        expected = [tp for tp in range(1, gpus + 1) if gpus % tp == 0 and with_tp(joined, tp)]
        assert [found.tp for found in sizes(joined)] == expected


@cache
def table():
    return {
        (row.model, row.phase, row.assumption, row.machine): row for row in lite_table(comparison())
    }


def ratios(phase, assumption, machine):
    return [table()[model, phase, assumption, machine].ratio for model in MODELS]


def test_every_combination_has_a_row():
    assert len(table()) == len(MODELS) * 2 * 8 * (1 + len(VARIANTS))
    assert len({one.name for one in ASSUMPTIONS}) == 8


@pytest.mark.parametrize("phase", PHASES)
def test_claim_holds_only_with_all_three_assumptions(phase):
    assert all(table()[model, phase, ALL, "lite_netbw"].matches for model in MODELS)
    for one in ASSUMPTIONS:
        if one != ALL:
            rows = [table()[model, each, one, "lite_netbw"] for model in MODELS for each in PHASES]
            assert not all(row.matches for row in rows)


def test_replicated_kv_reduces_the_decode_batch():
    copied = Assumption(overlap=True, tp_searched=True)
    row, shared = (table()["llama3_405b", "decode", one, "lite"] for one in (copied, ALL))
    assert (row.best.memory_batch, shared.best.memory_batch) == (145, 615)
    assert row.ratio < 0.5 < shared.ratio < 1


def test_ratios_are_relative_to_h100():
    for row in table().values():
        if row.machine == "h100":
            assert row.ratio == 1.0
        else:
            reference = table()[row.model, row.phase, row.assumption, "h100"]
            expected = row.best.tokens_per_s_sm / reference.best.tokens_per_s_sm
            assert row.ratio == pytest.approx(expected)
