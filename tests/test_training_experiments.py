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
