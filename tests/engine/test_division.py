"""Ranks forward about equal numbers of packets and cut few cables."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from netsim.engine.division import divide
from netsim.engine.simulation import Options
from netsim.experiment import Experiment
from netsim.experiment.scenario import prepare
from netsim.running.drive import drive
from netsim.running.point import build_engine

TREE = {"kind": "fat_tree", "host_rate": "400Gbps", "hosts_per_leaf": 4, "leaves": 4, "spines": 4}
THREE_TIERS = {"kind": "fat_tree", "host_rate": "400Gbps", "tiers": 3, "radix": 4}
PLANES = {"kind": "multi_plane", "planes": 2, "plane": TREE}
RAILS = {"kind": "multi_rail", "gpus_per_rack": 4, "rail": TREE}
TWO = {"kind": "wan", "datacenter": TREE, "link_rate": "400Gbps", "delay": "10us"}

EVEN = {"kind": "permutation", "size": "100KB"}


@pytest.mark.parametrize(
    ("topology", "traffic", "n", "cut", "balance"),
    [
        (TREE, EVEN, 2, 8, 1.05),  # of 32 cables: 2 leaves to 2 spines, twice
        (THREE_TIERS, EVEN, 2, 8, 1.1),  # of 48: pods to the core switches of others
        (THREE_TIERS, EVEN, 4, 12, 1.15),
        (PLANES, EVEN, 2, 16, 1.05),  # of 64: 8 in each plane
        (RAILS, EVEN, 2, 32, 1.1),  # of 192: only between racks and rails
        (TWO, EVEN, 2, 1, 1.05),  # of 73: the long one
        (TWO, {**EVEN, "load": 0.8}, 2, 1, 1.1),
        ({**THREE_TIERS, "radix": 8}, {**EVEN, "load": 0.3}, 4, 120, 1.1),  # of 384
    ],
)
def test_ranks_have_equal_shares_and_cut_few_cables(
    topology: dict[str, Any], traffic: dict[str, Any], n: int, cut: int, balance: float
) -> None:
    given = {"name": "x", "transport": "ndp", "topology": topology, "traffic": traffic}
    [point] = Experiment.from_mapping(given).points()
    scenario = prepare(point)
    jit = False if topology in (PLANES, RAILS) else None  # the others share compiled code
    engine = build_engine(point, scenario, Options(jit=jit))
    drive(engine)
    state, network = engine.state, scenario.network
    parts = divide(state.net, network.port_delay_ps, scenario.flows, n)
    here, there = parts[network.port_node], parts[network.port_node[network.port_peer]]
    of_parts = np.bincount(here, weights=state.links.readers["head"], minlength=n)
    found = int((here != there).sum()) // 2, float(of_parts.max() / of_parts.mean())
    assert found[0] <= cut
    assert found[1] <= balance
