"""The load that open arrivals offer the links between switches."""

from __future__ import annotations

import pytest
from experiment_text import load

from netsim.running.estimate import estimate


@pytest.mark.parametrize(("oversubscription", "told"), [(1, False), (2, True)])
def test_load_above_the_capacity_between_switches_is_told(tmp_path, oversubscription, told):
    content = f"""
name = "over"
transport = "ndp"
[topology]
kind = "fat_tree"
hosts_per_leaf = 8
leaves = 8
oversubscription = {oversubscription}
[traffic]
kind = "poisson"
sizes = "100KB"
load = 0.9
n_flows = 5000
"""
    (point,) = load(tmp_path, content).points()
    assert any("between switches" in note for note in estimate(point).notes) == told
