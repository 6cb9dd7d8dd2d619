"""No sender, flow or port is favored by its number (MODEL.md, "No favorites")."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from engine_runs import LOSSLESS, NS, PACKET, build, fabric_with, resolve
from engine_runs import run as run_all
from small_networks import rails

import netsim.conformance.templates
from netsim.model.builder import NetworkBuilder
from netsim.model.fabric import Ecn
from netsim.model.flows import FlowTable
from netsim.plugins import registry
from netsim.plugins.registry import PluginSpec
from netsim.reports.flows import locked_senders

PACKETS = 30  # packets of each flow

PACKET_PS = 80 * PACKET

SEEDS = 16

TRIM = {"n_traffic_classes": 2, "queue_bytes": 8 * PACKET, "header_queue_bytes": 10**6}
MARK = {"xoff_bytes": 100 * PACKET, "xon_bytes": 90 * PACKET}
FABRICS = {
    "ndp": fabric_with("trim", **TRIM),
    "expresspass": fabric_with("credit_shaper", routing="ecmp_symmetric", n_traffic_classes=2),
    "roce": LOSSLESS,
    "dcqcn": fabric_with(
        "lossless", n_traffic_classes=3, ecn=Ecn(10 * PACKET, 40 * PACKET, 0.2, "dequeue"), **MARK
    ),
    "homa": fabric_with(n_traffic_classes=8, queue_bytes=10**8),
}


def two_flows_lose(src: tuple[int, int], starts: tuple[int, int], rate: int, **fabric: Any) -> Any:
    """Return the shares that two equal flows lose at a port of `rate` Gbps, and a note."""
    n = 1200
    builder = NetworkBuilder()
    hosts = builder.add_hosts(3)
    switch = builder.add_switch("s")
    for host in hosts:
        builder.cable(host, switch, (rate if host == 2 else 100) * 10**9, 500 * NS)
    flows = FlowTable(np.array(src), np.full(2, 2), np.full(2, n * 4096), np.array(starts))
    limited = fabric_with("drop_tail", queue_bytes=20 * PACKET, **fabric)
    got = run_all(build(builder.build("slow"), flows, "datagram", limited, jit=False))
    lost = 1 - got.flow_states().received_bytes / (n * 4096)
    return lost, locked_senders(got, np.ones(2, bool), PACKET)


@pytest.mark.parametrize(
    ("src", "starts", "rate"),
    [((0, 1), (0, 0), 100), ((0, 1), (0, 1000), 100), ((0, 0), (0, 0), 50)],
    ids=["in step", "1 ns apart", "one host"],
)
def test_equal_flows_lose_equally_with_host_jitter(
    src: tuple[int, int], starts: tuple[int, int], rate: int
) -> None:
    """Senders at line rate, or flows of one host, into a full drop-tail port. Three standard
    deviations; with 64 MiB one is 0.7 %."""
    lost, note = two_flows_lose(src, starts, rate, host_jitter_ps=PACKET_PS)
    assert abs(lost.mean() - 0.5) < 0.02
    assert np.ptp(lost) < 0.08
    assert not note
    lost, note = two_flows_lose(src, starts, rate)
    assert ("host_jitter" in note) == (np.ptp(lost) > 0.1) == (src == (0, 0) or starts != (0, 0))


def test_either_of_two_senders_finishes_first_equally_often() -> None:
    """Also if messages are served one by one. Bound: three standard deviations of 16 coin flips."""
    network = rails(3, [100], 500 * NS)
    for transport, fabric in FABRICS.items():
        flows = FlowTable(np.arange(2), np.full(2, 2), np.full(2, 4 * 4096))
        leads = []
        for seed in range(SEEDS):
            engine = run_all(build(network, flows, transport, fabric, seed=seed, jit=False))
            done = engine.flow_states().done_ps
            assert (done > 0).all()
            leads.append(int(done[1] - done[0]))
        first = sum(lead > 0 for lead in leads)
        assert SEEDS // 2 - 6 <= first <= SEEDS // 2 + 6


def test_round_robin_classes_are_at_most_one_packet_apart() -> None:
    """With the deficit round robin of `netsim new queue`, which begins with class 0."""
    n = 4
    plugin = registry.find("transport", "datagram")
    others = [PluginSpec(plugin, resolve(plugin, {"data_class": k})) for k in range(1, n)]
    drr = str(Path(netsim.conformance.templates.__file__).with_name("my_queue.py"))
    fabric = fabric_with(drr, queue_bytes=20 * PACKET, quantum_bytes=PACKET, n_traffic_classes=8)
    flows = FlowTable(np.arange(n), np.full(n, n), np.full(n, 3 * PACKETS * 4096))
    mixed = {"beside": others, "transport_of_flow": np.arange(n)}
    one = build(rails(n + 1, [100], 500 * NS), flows, "datagram", fabric, jit=False, **mixed)
    got = run_all(one, 3 * PACKETS * PACKET_PS)
    packets = got.flow_states().received_bytes // 4096
    assert packets.min() > PACKETS // 2
    assert np.ptp(packets) <= 1
