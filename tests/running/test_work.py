"""Estimated packet-hops and seconds of shipped experiments against measured ones.

The seconds are those of one thread on the machine that the constants of
netsim/running/estimate.py were fitted to, so nothing here depends on the machine that runs the
tests.
"""

import pytest
from raises_input import mentions

from netsim.experiment import Experiment, locate
from netsim.running.estimate import estimate

# Experiment, overrides that select the point, packet-hops, and seconds on one thread.
MEASURED = [
    ("all_to_all", ["transport=roce", "traffic.one_by_one=false"], 2_030_101, 0.345),
    ("dcqcn_fairness", ["transport=roce", "traffic.fan_in=16"], 3_281_424, 0.309),
    ("fct_vs_load", ["transport=homa", "traffic.load=1.0", "seed=1"], 470_082, 0.0331),
    ("fct_vs_load", ["transport=roce", "traffic.load=0.5", "seed=1"], 242_642, 0.0570),
    ("homa_w4", ["transport.priorities=8"], 27_533_864, 5.80),
    ("incast", ["transport=ndp", "traffic.fan_in=64"], 205_276, 0.0466),
    ("incast", ["transport=roce", "traffic.fan_in=4"], 8_090, 0.00245),
    ("incast_dcqcn", ["transport=roce", "traffic.size=20MB"], 1_248_406, 0.250),
    ("load_balancing", ["fabric.routing=ecmp", "seed=1"], 1_473_608, 0.0967),
    ("load_balancing", ["fabric.routing=ecmp", "seed=2"], 1_664_864, 0.1076),
    ("load_balancing", ["fabric.routing=spray_round_robin", "seed=1"], 736_484, 0.0568),
    ("md1", ["traffic.load=0.3"], 1_000_000, 0.808),
    ("md1", ["traffic.load=0.9"], 1_000_000, 0.748),
    ("p2p_512", ["transport=ndp:800g"], 2_970_116, 0.178),
    ("p2p_512", ["transport=roce:800g"], 1_983_860, 0.300),
    ("pfc_victim", ["transport=roce"], 14_066, 0.00298),
    ("wan_beside", ["flow_classes.wan.transport.data_class=1"], 9_720_695, 0.426),
    ("wan_fec", ["transport=wan_fec:loss_1%", "faults.errors.loss_rate=1e-4"], 354_166, 0.0502),
    ("wan_tcp", ["transport=cubic", "faults.errors.loss_rate=1e-4"], 26_858_093, 0.949),
]


def point_of(name, overrides):
    return Experiment.load(locate(name), overrides).points()[0]


def todo_of(name, overrides):
    return estimate(point_of(name, overrides))


def test_estimated_hops_and_time_of_shipped_experiments():
    for name, overrides, hops, seconds in MEASURED:
        todo = todo_of(name, overrides)
        assert todo.packet_hops == pytest.approx(hops, rel=0.2)
        assert 0.5 < todo.simulation_s(1) / seconds < 2


@pytest.mark.parametrize(
    ("transport", "hops"),
    # wan_fec sends the parity of a block, expresspass the credits of a round trip.
    [("wan_fec", 168), ("expresspass", 160)],
)
def test_hop_estimate_includes_parity_and_credit_packets(transport, hops):
    """Eight flows of one packet each cross 24 links; the hops were counted in a run."""
    tree = {"kind": "fat_tree", "hosts_per_leaf": 4, "leaves": 2}
    traffic = {"kind": "permutation", "size": "1KB"}
    content = {"topology": tree, "transport": transport, "traffic": traffic}
    (point,) = Experiment.from_mapping(content).points()
    assert 0.5 < estimate(point).packet_hops / hops < 2


def test_two_threads_help_when_windows_have_many_hops():
    """Measured with two threads: p2p_512 0.099 s instead of 0.178 s, homa_w4 6.1 instead of 5.8."""
    busy = todo_of("p2p_512", ["transport=ndp:800g"])
    assert 1.5 < busy.simulation_s(1) / busy.simulation_s(2) < 1.9
    sparse = todo_of("homa_w4", ["transport.priorities=8"])
    assert 0.9 < sparse.simulation_s(1) / sparse.simulation_s(2) < 1.3
    idle = todo_of("incast", ["transport=ndp", "traffic.fan_in=4"])
    assert idle.simulation_s(1) == idle.simulation_s(2)


def test_estimate_includes_retransmits_of_trimmed_packets():
    narrow = ["transport=ndp", "topology.spines=2", "topology.uplinks=2"]
    narrow += ["fabric.routing=spray_round_robin"]
    wide = todo_of("load_balancing", ["fabric.routing=spray_round_robin", "seed=1"])
    todo = todo_of("load_balancing", [*narrow, "seed=1"])
    assert wide.resent == pytest.approx(1)
    assert todo.resent > 2
    calm = todo_of("load_balancing", [*narrow[1:], "transport=smartt", "seed=1"])
    assert calm.resent == 1
    assert calm.simulated_ps > 3 * wide.simulated_ps


def test_serving_estimate_matches_simulated_time():
    small = ["traffic.kv_transfer=after_prefill"]
    # The simulated time was 675 ms.
    assert todo_of("serving_small", small).simulated_ps == pytest.approx(675e9, rel=0.05)
    # A prompt takes 20.7 ms; each of the 1,999 tokens after the first takes 2.6 ms.
    alone = todo_of("serving_small", [*small, "traffic.requests=1", "traffic.output=2000"])
    assert alone.simulated_ps == pytest.approx(20.7e9 + 1999 * 2.57e9, rel=0.05)
    # Three times the capacity of the prefill instances.
    busy = todo_of("serving_small", [*small, "traffic.requests=300", "traffic.rate=300"])
    assert busy.simulated_ps == pytest.approx(150 * 20.7e9, rel=0.1)
    point = point_of("serving_small", small)
    assumptions = estimate(point).assumptions
    assert mentions(assumptions, "request")
    assert "no time" not in assumptions
