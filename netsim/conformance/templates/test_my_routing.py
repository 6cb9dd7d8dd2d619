"""Tests of my_routing: pytest test_my_routing.py

To install pytest: pip install pytest
"""

from pathlib import Path

import numpy as np

from netsim.conformance import RoutingTestbed, check, failures
from netsim.conformance.networks import tree
from netsim.flows import FlowTable

ROUTING = Path(__file__).with_name("my_routing.py")
PACKETS = 12


def test_conformance() -> None:
    assert not failures(check(ROUTING))


def test_flowlets_take_the_uplinks_in_turn() -> None:
    """With packets 333 ns apart, a gap of 300 ns spreads all of them, and 400 ns spreads none."""
    for gap, per_uplink in (("300ns", [3, 3, 3, 3]), ("400ns", [0, 0, 0, 12])):
        testbed = RoutingTestbed.of(ROUTING, settings={"flowlet_gap": gap})
        run = testbed.run(FlowTable(0, 4, PACKETS * 4096), tree(leaves=2, per_leaf=4))
        network, sent = run.engine.network, run.engine.link_counters().sent_packets
        uplinks = network.node_first_port[network.n_hosts] + 4 + np.arange(4)
        assert sorted(sent[uplinks].tolist()) == per_uplink
