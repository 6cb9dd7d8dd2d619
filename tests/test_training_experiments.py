"""Shipped training experiments give the results that their comments state."""

from __future__ import annotations

import pytest

from netsim.experiment import Experiment, built_in
from netsim.running.point import simulate


@pytest.mark.slow
def test_each_stage_of_a_step_matches_its_formula() -> None:
    points = Experiment.load(built_in()["training_stages"]).points()
    packets, formula = (simulate(point, threads=1).summary["job"]["steps"][0] for point in points)
    assert packets["compute_ps"] == formula["compute_ps"]
    assert packets["exposed_ps"].keys() == formula["exposed_ps"].keys()
    for kind, exposed in packets["exposed_ps"].items():
        # 2 % for headers, propagation delays and the transport; transfers are packets in both.
        assert formula["exposed_ps"][kind] <= 1.001 * exposed, kind
        assert exposed <= 1.02 * formula["exposed_ps"][kind], kind
