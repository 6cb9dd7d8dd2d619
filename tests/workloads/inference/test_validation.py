"""Times that others measured: one deployment of a machine is fitted, the others are predicted."""

from dataclasses import replace

import pytest
from measured_rows import GROUPS, errors, predicted

from netsim.workloads.inference.deployment import Overheads
from netsim.workloads.inference.fit import fitted_overheads
from netsim.workloads.inference.validation import formulas, groups, rows
from netsim.workloads.job.load import presets, read_toml

FITTED = (
    *("prefill_efficiency", "decode_efficiency"),
    *("layer_overhead", "sequence_overhead", "prefill_floor"),
)


def bare(row):
    """Error of the roofline alone."""
    return row.with_overheads(Overheads()).error


def fitted(group):
    return [row for row in rows() if row.group == group and row.fitted]


def test_what_is_fitted_is_one_deployment_of_four_gpus():
    for group in GROUPS:
        found = {(row.model, row.deployment.tp) for row in fitted(group)}
        assert found == {("llama2_70b", 4)}
        assert len(fitted(group)) == 10
        others = {(row.model, row.deployment.tp) for row in predicted(group)}
        assert {("llama2_70b", 2), ("llama2_70b", 8), ("bloom_176b", 8)} < others


@pytest.mark.parametrize("group", GROUPS)
def test_the_presets_are_what_the_fit_gives(group):
    overheads, anew = fitted(group)[0].deployment.overheads, fitted_overheads(group)
    for name in FITTED:
        assert getattr(anew, name) == pytest.approx(getattr(overheads, name), rel=1e-3)
    stated = read_toml(presets("overheads")[groups()[group]["overheads"]])
    assert stated["step_latency"] == "3.4us"


@pytest.mark.parametrize("group", GROUPS)
def test_what_was_not_fitted_is_predicted_within_a_fifth(group):
    """But for four prompts on four A100, which took 450 to 587 ms; one of as many tokens, 403."""
    beyond = [row for row in predicted(group) if abs(row.error) > 0.2]
    found = [(row.deployment.tp, row.phase, row.size) for row in beyond]
    assert found == ([(4, "prefills", 4)] if group == "a100" else [])
    assert errors(predicted(group))[0] < 0.07
    assert errors(fitted(group))[1] < 0.07
    decoding = [row for row in predicted(group) if row.phase == "decode"]
    assert errors(decoding)[1] < 0.15


@pytest.mark.parametrize("group", GROUPS)
def test_many_tokens_on_many_gpus_were_slower_than_these_overheads_say(group):
    for row in predicted(group, large=True):
        assert (abs(row.error) < 0.13) if row.deployment.tp == 2 else (row.error < -0.1)


@pytest.mark.parametrize(("group", "us", "error"), [("h100", 19, 0.034), ("a100", 45, 0.132)])
def test_the_empirical_term_fits_long_prompts_and_leaves_the_others_alone(group, us, error):
    def changed(row):
        overheads = replace(row.deployment.overheads, empirical_long_prompt=us * 1_000_000)
        return row.with_overheads(overheads)

    assert errors([changed(row) for row in predicted(group, large=True)])[0] < error
    assert all(changed(row).ms == row.ms for row in rows() if row.group == group and not row.large)


@pytest.mark.parametrize("group", GROUPS)
def test_launches_beside_computing_fit_and_predict_worse(group):
    beside = fitted_overheads(group, async_launch=True)
    for chosen in (fitted(group), predicted(group)):
        others = [row.with_overheads(beside) for row in chosen]
        assert errors(others)[0] > errors(chosen)[0]


def test_overheads_are_those_of_one_server():
    """FasterTransformer launches faster than vLLM did: its overheads are others."""
    found = {(row.deployment.tp, row.phase): row for row in predicted("other")}
    assert found[1, "decode"].error > 0.2
    assert found[2, "decode"].error > found[1, "decode"].error
    assert all(bare(row) < 0 for row in found.values())


def test_the_roofline_alone_is_too_fast_by_up_to_eight_times():
    small = [row for row in rows() if not row.large]
    assert all(bare(row) < -0.2 for row in small)
    decoding = min((row for row in small if row.phase == "decode"), key=bare)
    assert (decoding.deployment.tp, decoding.size) == (8, 64)
    assert 1 / (1 + bare(decoding)) == pytest.approx(8.1, abs=0.1)


def test_formulas_of_others_give_the_same_times():
    assert errors(formulas())[0] < 0.03
    assert errors(formulas())[1] < 0.11
