"""Shipped training experiments give the results that their comments state."""

import pytest

from netsim.experiment import Experiment, built_in
from netsim.running.point import simulate


@pytest.mark.slow
def test_each_stage_of_a_step_matches_its_formula() -> None:
    points = Experiment.load(built_in()["training_stages"]).points()
    packets, formula = (simulate(point, threads=1).summary["job"]["steps"][0] for point in points)
    assert packets["compute_ps"] == formula["compute_ps"]
    # Without the networks: packets are all on the one that is simulated.
    sent, timed = (
        {named.partition(" ")[2]: time for named, time in step["exposed_ps"].items()}
        for step in (packets, formula)
    )
    assert sent.keys() == timed.keys()
    for kind, exposed in sent.items():
        # 2 % for headers, propagation delays and the transport; transfers are packets in both.
        assert timed[kind] <= 1.001 * exposed, kind
        assert exposed <= 1.02 * timed[kind], kind


@pytest.mark.slow
def test_400_or_800_gbps_is_answered_for_the_whole_job() -> None:
    """The forecast of own_cluster's sample agrees with the formula; so does the sample's saving."""
    points = Experiment.load(built_in()["own_cluster"], ["transport=ndp"]).points()
    slow, fast = (simulate(point, threads=1).summary["job"] for point in points)
    for one in (slow, fast):
        assert one["forecast"]["difference"] == pytest.approx(0, abs=0.02)
    saved = 1 - fast["forecast"]["step_ps"] / slow["forecast"]["step_ps"]
    by_formula = [one["forecast"]["formula"]["step_ps"] for one in (slow, fast)]
    assert saved == pytest.approx(1 - by_formula[1] / by_formula[0], abs=0.005)
    assert 1 - fast["step_ps"] / slow["step_ps"] == pytest.approx(saved, abs=0.005)
