"""Scaling laws and the stages of the paper's models."""

from collections import Counter
from dataclasses import replace

import pytest

from netsim.workloads.job.metrics import AGREEMENTS, computed, figures, fullest_link
from netsim.workloads.job.paper import (
    BASE,
    JOBS,
    WAN_DELAY_S,
    exposed_seconds,
    paper_job,
    stage_seconds,
    wan_needed_bps,
)
from netsim.workloads.job.plan import (
    LOSS_A,
    LOSS_ALPHA,
    LOSS_B,
    LOSS_BETA,
    ideal_layers,
    optimal_parameters,
    width,
)


def test_hoffmann3_minimizes_its_loss():
    flops = 5.76e23

    def loss(n):
        return LOSS_A / n**LOSS_ALPHA + LOSS_B / (flops / 6 / n) ** LOSS_BETA

    best = optimal_parameters("hoffmann3", flops)
    assert loss(best) < min(loss(best * 1.01), loss(best / 1.01))


def test_optimal_width_matches_its_source():
    """30K is optimal for 10^12 parameters: the abstract of Levine et al."""
    layers = ideal_layers(1e12)
    assert 12 * layers * width(layers) ** 2 == pytest.approx(1e12)
    assert width(layers) == pytest.approx(30_000, rel=0.02)


@pytest.mark.parametrize("name", JOBS)
def test_hierarchical_stages_take_half_of_full_all_reduces(name):
    full, parts = (stage_seconds(paper_job(name, how)) for how in ("paper", "hierarchical"))
    assert parts.s1_s == pytest.approx(full.s1_s / 2)
    assert parts.s2_s == pytest.approx(full.s2_s / 2)
    same = replace(full, s1_s=parts.s1_s, s2_s=parts.s2_s)
    assert parts == same


@pytest.mark.parametrize("name", JOBS)
@pytest.mark.parametrize("round_trips", [0, 1])
def test_wan_time_is_exposed_below_needed_rate(name, round_trips):
    stages = stage_seconds(paper_job(name))
    needed = wan_needed_bps(stages, round_trips)
    hidden = exposed_seconds(stages)
    for share, is_exposed in ((1.001, False), (0.9, True)):
        network = replace(BASE, wan_bps=share * needed, wan_round_trips=round_trips)
        assert (exposed_seconds(stages, network) > hidden + 1e-6) == is_exposed
    late = replace(stages, forward_s=WAN_DELAY_S / 4, s2_s=0.0)
    assert wan_needed_bps(late) == float("inf")


def agrees(one):
    """Return whether our value, rounded or truncated, equals the stated one or meets its bound."""
    if one.number is None:
        return False
    if one.stated[0] in "<>":
        return (one.ours > one.number) == (one.stated[0] == ">")
    digits, _, power = one.stated.partition("e")
    last = 10.0 ** (int(power or 0) - len(digits.partition(".")[2]))
    return -0.5 <= (one.ours - one.number) / last < 1  # truncation loses up to a digit


def test_figures_marked_yes_match_all_stated_digits():
    found = {one.name: one for one in figures()}
    assert len(found) == 86
    wrong = [one for one in found.values() if one.agreement == "yes" and not agrees(one)]
    assert wrong == []
    assert {one.agreement for one in found.values()} == set(AGREEMENTS)
    marks = Counter(one.agreement for one in found.values())
    assert (marks["yes"], marks["approx"], marks["no"]) == (46, 27, 6)


def test_figures_agree_with_independent_calculations():
    ours = computed()
    assert ours["mem_grad"] + ours["mem_model"] + ours["mem_opt"] == pytest.approx(
        ours["mem_total_dense"]
    )
    assert ours["dp_s4"] == pytest.approx(ours["dp_s2"] / 2)
    assert ours["dp_s5_moe"] == pytest.approx(ours["dp_s1_moe"] / 2)
    assert ours["devices_per_dc"] * 2 == paper_job("dense").layout.gpus
    # The paper's 7 ms on a single path are about 7 times the 0.974 ms of an idle path.
    assert 6 < fullest_link(trials=20, seed=5) < 8
