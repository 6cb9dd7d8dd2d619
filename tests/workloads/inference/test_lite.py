"""Lite-GPUs against H100: when the claim holds, and that each of three assumptions matters."""

from functools import cache

import pytest

from netsim.workloads.inference.limits import (
    ALL,
    ASSUMPTIONS,
    MODELS,
    PHASES,
    VARIANTS,
    Assumption,
    comparison,
    lite_table,
)


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
