"""Class weights: backlogged classes share a port by weight, max-min fairly if some send less."""

import numpy as np
import pytest
from engine_runs import DROP_TAIL, NS, PACKET, build, fabric_with, resolve, run
from numpy.typing import NDArray
from raises_input import raises_input
from small_networks import rails

from netsim.engine.engine import Engine
from netsim.model.fabric import Fabric
from netsim.model.flows import FlowTable
from netsim.plugins import registry
from netsim.plugins.registry import PluginSpec

GBPS = 10**9
PACKET_PS = PACKET * 80  # at 100 Gbps
TIMES = 400  # packet times of a run
DISCIPLINES = {
    "drop_tail": {"queue_bytes": 10**9},
    "trim": {"queue_bytes": 10**9, "header_queue_bytes": 10**9, "lower_queue_bytes": 10**9},
    "lossless": {"xoff_bytes": 60 * PACKET, "xon_bytes": 50 * PACKET},
    "pfc": {"xoff_bytes": 60 * PACKET, "xon_bytes": 50 * PACKET},
    "credits": {"buffer_bytes": 60 * PACKET},
}


def weighted(discipline: str, weights: str) -> Fabric:
    given = {"class_weights": weights, "n_traffic_classes": weights.count(":") + weights.count(">")}
    given["n_traffic_classes"] += 1
    return fabric_with(discipline, **DISCIPLINES[discipline], **given)


def senders(fabric: Fabric, rates_gbps: list[int | None]) -> Engine:
    """Build hosts that each send to the last one, host k in class k, at a rate or 100 Gbps."""
    n, plugin = len(rates_gbps), registry.find("transport", "datagram")
    uses = [
        PluginSpec(plugin, resolve(plugin, {"data_class": k, "rate": f"{rate or 100}Gbps"}))
        for k, rate in enumerate(rates_gbps)
    ]
    flows = FlowTable(np.arange(n), np.full(n, n), np.full(n, 2 * TIMES * 4096))
    return build(
        rails(n + 1, [100], 500 * NS),
        flows,
        "datagram",
        fabric,
        params={"rate": f"{rates_gbps[0] or 100}Gbps"},
        beside=uses[1:],
        transport_of_flow=np.arange(n),
        jit=False,
    )


def received(fabric: Fabric, rates_gbps: list[int | None]) -> NDArray[np.float64]:
    """Return the packets that each class has received between a fifth and all of the run."""
    engine = senders(fabric, rates_gbps)
    counts = []
    for end in (TIMES // 5, TIMES):
        run(engine, end * PACKET_PS)
        counts.append(engine.flow_states().received_bytes / 4096)
    return counts[1] - counts[0]


@pytest.mark.parametrize("discipline", DISCIPLINES)
def test_backlogged_classes_share_the_port_by_weight(discipline: str) -> None:
    """With a quantum of W packets, a round of all classes takes 10 packet times."""
    got = received(weighted(discipline, "1:2:3:4"), [None] * 4)
    assert got.sum() == pytest.approx(0.8 * TIMES, abs=1)
    assert np.abs(got - np.array([1, 2, 3, 4]) / 10 * got.sum()).max() <= 4


def test_first_groups_are_served_first() -> None:
    """Class 0 sends 30 Gbps, class 1 40 Gbps; classes 2 and 3 share the other 30, 2 to 1."""
    got = received(weighted("drop_tail", "7>1>2:1"), [30, 40, None, None])
    assert np.abs(got - np.array([0.3, 0.4, 0.2, 0.1]) * 0.8 * TIMES).max() <= 3


def test_groups_of_several_classes_are_high_and_low_tables() -> None:
    """Classes 0 and 1 fill the port in the ratio 1 to 3; classes 2 and 3 get nothing."""
    got = received(weighted("credits", "1:3>5:5"), [None] * 4)
    assert np.abs(got - np.array([0.25, 0.75, 0, 0]) * 0.8 * TIMES).max() <= 3


def test_what_a_class_leaves_is_shared_by_weight() -> None:
    """Class 0 sends 10 Gbps of its 50, so classes 1 and 2 get 60 and 30: weighted max-min."""
    got = received(weighted("drop_tail", "3:2:1"), [10, None, None])
    assert np.abs(got - np.array([0.1, 0.6, 0.3]) * 0.8 * TIMES).max() <= 3


def test_short_packets_count_by_their_bytes() -> None:
    """Classes of weights 3 and 2 get quanta of 1.5 packets and 1 packet."""
    got = received(weighted("drop_tail", "3:2"), [None] * 2)
    assert np.abs(got - np.array([0.6, 0.4]) * 0.8 * TIMES).max() <= 2


@pytest.mark.parametrize(
    ("weights", "classes", "hint"),
    [("1:x", 2, "like"), ("1:2", 3, "one for each"), ("0:1", 2, "1 to 1000"), ("", 1, "like")],
)
def test_wrong_weights_are_refused(weights: str, classes: int, hint: str) -> None:
    fabric = fabric_with(class_weights=weights, n_traffic_classes=classes)
    (error,) = fabric.conflicts({})
    assert error.key == "class_weights"
    assert hint in str(error)


def test_discipline_that_makes_classes_wait_is_refused() -> None:
    fabric = fabric_with("credit_shaper", class_weights="1:2", n_traffic_classes=2)
    with raises_input(key="fabric.class_weights"):
        build(rails(2, [100], 500 * NS), FlowTable([0], [1], [1]), "datagram", fabric, jit=False)


def test_weights_off_need_no_memory() -> None:
    flow = FlowTable([0], [1], [1])
    engine = build(rails(2, [100], 500 * NS), flow, "datagram", DROP_TAIL, jit=False)
    assert engine.state.links.class_weights.shape[0] == 1
