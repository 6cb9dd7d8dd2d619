"""Times that others measured: one row of a machine is fitted, the others are predicted."""

import pytest

from netsim.inference.fit import fitted_costs
from netsim.inference.load import presets
from netsim.inference.validation import errors, fitted_groups, formulas, groups, rows
from netsim.job.load import read_toml

FITTED = ("prefill_efficiency", "decode_efficiency", "layer_overhead", "sequence_overhead")


def of(group, *, fitted):
    return [row for row in rows() if row.group == group and row.fitted is fitted]


def test_what_is_fitted_is_one_deployment_of_four_gpus():
    for group in fitted_groups():
        found = {(row.model, row.deployment.tp) for row in of(group, fitted=True)}
        assert found == {("llama2_70b", 4)}
    assert len(rows()) == 4 * 8 + 2 * 16 + 4


@pytest.mark.parametrize("group", fitted_groups())
def test_the_presets_are_what_the_fit_gives(group):
    costs, fitted = of(group, fitted=True)[0].deployment.costs, fitted_costs(group)
    for name in FITTED:
        assert getattr(fitted, name) == pytest.approx(getattr(costs, name), rel=1e-3)
    stated = read_toml(presets("costs")[groups()[group]["costs"]])
    assert stated["step_latency"] == "3.4us"


@pytest.mark.parametrize("group", fitted_groups())
def test_all_that_was_not_fitted_is_predicted(group):
    average, worst = errors(of(group, fitted=False))
    assert worst < 0.2
    assert average < 0.07
    assert errors(of(group, fitted=True))[1] < 0.07


@pytest.mark.parametrize("group", fitted_groups())
def test_launches_beside_computing_fit_and_predict_worse(group):
    beside = fitted_costs(group, "launches beside computing")
    for fitted in (True, False):
        others = [row.with_costs(beside) for row in of(group, fitted=fitted)]
        assert errors(others)[0] > errors(of(group, fitted=fitted))[0]
        assert errors(others)[1] > errors(of(group, fitted=fitted))[1]


def test_costs_are_those_of_one_server():
    """FasterTransformer launches faster than vLLM did: its costs are others."""
    found = {(row.deployment.tp, row.phase): row.error for row in of("other", fitted=False)}
    assert found[1, "decode"] > 0.2
    assert found[2, "decode"] > found[1, "decode"]
    assert all(row.bare_error < 0 for row in of("other", fitted=False))


def test_the_roofline_alone_is_too_fast_by_up_to_eight_times():
    assert all(row.bare_error < -0.2 for row in rows())
    slowest = min(rows(), key=lambda row: row.bare_error)
    assert (slowest.deployment.tp, slowest.phase, slowest.size) == (8, "decode", 64)
    assert 1 / (1 + slowest.bare_error) == pytest.approx(8.1, abs=0.1)


def test_formulas_of_others_give_the_same_times():
    assert errors(formulas())[0] < 0.03
    assert errors(formulas())[1] < 0.11
