"""Link faults: loss rates, outages to the picosecond, and the [faults] section."""

from unittest.mock import patch

import numpy as np
import pytest
from engine_runs import (
    DROP_TAIL,
    LOSSLESS,
    PACKET,
    US,
    build,
    counter,
    fat_tree,
    fct_ps,
    flow_table,
    run,
)
from experiment_text import load, text
from raises_input import raises_input

from netsim.engine.engine import Engine
from netsim.experiment import Experiment
from netsim.experiment.scenario import prepare
from netsim.model.faults import LinkFault, LinkFaults, combine
from netsim.reports.links import conserve

NETWORK = fat_tree(4, 2, "100Gbps")
NIC = np.array([0])  # the link from host 0: ports are numbered from the hosts on, one per host


def one_flow(size: int, *faults: LinkFault, transport: str = "datagram", seed: int = 1) -> Engine:
    flows = flow_table([(0, 1, size, 0)])
    found = combine(list(faults), NETWORK.n_ports)
    engine = build(NETWORK, flows, transport, DROP_TAIL, faults=found, jit=False, seed=seed)
    return run(engine)


def lost(engine: Engine) -> int:
    return int(engine.link_counters().lost_packets.sum())


def test_loss_rate_sets_the_share_of_lost_packets():
    n = 8_000
    engine = one_flow(n * 4096, LinkFault(NIC, loss=0.1))
    assert lost(engine) == pytest.approx(0.1 * n, abs=5 * np.sqrt(0.1 * 0.9 * n))
    conserve(engine)


def test_bit_error_loss_grows_with_packet_size():
    table = combine([LinkFault(NIC, bit_error_rate=1e-6)], NETWORK.n_ports).loss_table[1]
    for size in (64, PACKET, 65_535):
        expected = -np.expm1(8 * size * np.log1p(-1e-6))
        assert table[size] / 2**32 == pytest.approx(expected, rel=1e-6)


def test_faults_that_exceed_memory_are_rejected():
    many = [LinkFault(NIC, bit_error_rate=k * 1e-9) for k in range(100)]
    down = LinkFault(np.arange(NETWORK.n_ports), outages_ps=((0, 1),) * 10**6)
    with patch("netsim.common.memory.available_bytes", return_value=10**8):
        combine(many[:50], NETWORK.n_ports)
        links = [LinkFault(np.array([k]), loss=(k + 1) / 200) for k in range(100)]
        with raises_input("101", "159MB", key="faults"):
            combine(links, 100)
        with raises_input("000,000", key="faults"):
            combine([down], NETWORK.n_ports)


def test_outage_loses_exactly_the_packets_in_flight():
    for down_ps, up_ps, missing in [
        (0, 1, 1),  # the first packet has started
        (100, 332_800, 1),  # the second one starts as the link returns
        (332_800, 332_801, 2),
        (2 * US, 2 * US + 1, 4),  # packets 3 to 6 have started and not arrived
        (4_327_999, 9 * US, 1),  # the last of ten arrives at 10 * 332.8 ns + 1 us
        (4_328_000, 9 * US, 0),
    ]:
        engine = one_flow(10 * 4096, LinkFault(NIC, outages_ps=((down_ps, up_ps),)))
        assert lost(engine) == missing
        conserve(engine)


def test_raised_rate_equals_a_network_built_faster():
    double = LinkFault(np.arange(NETWORK.n_ports), rate_bps=200 * 10**9, at_ps=0)
    network = fat_tree(4, 2, "200Gbps")
    flows = flow_table([(0, 5, 100 * 4096, 0)])
    faster = build(
        NETWORK, flows, "datagram", DROP_TAIL, faults=combine([double], NETWORK.n_ports), jit=False
    )
    built = build(network, flows, "datagram", DROP_TAIL, jit=False)
    assert fct_ps(run(faster))[0] == fct_ps(run(built))[0]


def test_random_losses_depend_only_on_the_seed():
    first, again, other = (
        one_flow(4_096_000, LinkFault(NIC, loss=0.05), seed=seed) for seed in (1, 1, 2)
    )
    arrived = [int(e.flow_states().received_bytes[0]) for e in (first, again, other)]
    assert arrived[0] == arrived[1] != arrived[2]


def test_pfc_pauses_are_never_lost():
    """On links that lose 20 % of packets, a lost pause would overflow a queue."""
    flows = flow_table([(src, 0, 400_000, 0) for src in range(1, 8)])
    faults = combine([LinkFault(np.arange(NETWORK.n_ports), loss=0.2)], NETWORK.n_ports)
    engine = run(build(NETWORK, flows, "roce", LOSSLESS, faults=faults, jit=False), 300 * US)
    assert counter(engine, "pfc_pauses") > 10
    assert counter(engine, "drops") == 0


class TestExperiment:
    def ports(self, tmp_path, links: str) -> list[str]:
        content = text(**{"faults.some": f'links = "{links}"\nloss_rate = 0.1'})
        (point,) = load(tmp_path, content).points()
        scenario = prepare(point)
        assert scenario.faults is not None
        network = scenario.network
        faults = scenario.faults
        ports = np.flatnonzero(faults.interval_profile[faults.interval_ptr[:-1]])
        ends = ((p, network.port_peer[p]) for p in ports)
        return [
            f"{network.node_name(network.port_node[a])}>{network.node_name(network.port_node[b])}"
            for a, b in ends
        ]

    def test_links_all_selects_every_link(self, tmp_path):
        assert len(self.ports(tmp_path, "all")) == 2 * (16 + 16)

        assert len(self.ports(tmp_path, "leaf* -> spine*")) == 16

    def test_link_pattern_with_arrow_selects_one_direction(self, tmp_path):
        assert self.ports(tmp_path, "leaf0 - spine1") == ["leaf0>spine1", "spine1>leaf0"]
        assert self.ports(tmp_path, "leaf0 -> spine1") == ["leaf0>spine1"]
        assert self.ports(tmp_path, "h3 -> *") == ["h3>leaf0"]

    def test_port_name_selects_one_of_parallel_cables(self, tmp_path):
        assert self.ports(tmp_path, "leaf0:1 - h*") == ["h1>leaf0", "leaf0>h1"]
        assert self.ports(tmp_path, "spine* -> leaf0:4") == ["spine0>leaf0"]

    def test_resolved_faults_and_routing_reload_identically(self, tmp_path):
        some = 'node = "spine*"\nrate = "10Gbps"\nmtbf = "1ms"\nmttr = "5us"\nuntil = "2ms"'
        sections = {
            "faults.some": some,
            "routing.convergence_delay": '"leaf*" = "1us"\n"*" = "never"',
        }
        sections["routing"] = 'carrier_delay = "2us"'
        (point,) = load(tmp_path, text(**sections)).points()
        assert point.resolved["faults"]["some"] == {
            "node": "spine*", "loss_rate": 0.0, "bit_error_rate": 0.0, "rate": "10Gbps",
            "mtbf": "1ms", "mttr": "5us", "at": "0ps", "until": "2ms",
        }  # fmt: skip
        assert point.resolved["routing"] == {
            "convergence_delay": {"leaf*": "1us", "*": "never"},
            **dict.fromkeys(("carrier_delay", "peer_carrier_delay"), "2us"),
        }
        again = Experiment.from_tree(point.resolved, "resolved", tmp_path).points()[0]
        assert (again.faults, again.routing) == (point.faults, point.routing)
        faults = prepare(again).faults
        assert faults is not None
        assert faults.carrier == again.routing.carrier

    def failures(self, tmp_path, seed: int = 1, **more: str) -> LinkFaults:
        some = 'links = "leaf* - *"\nmtbf = "1ms"\nmttr = "100us"\nuntil = "50ms"'
        (point,) = load(tmp_path, text(**{"faults.some": some}, **more), f"seed={seed}").points()
        faults = prepare(point).faults
        assert faults is not None
        return faults

    def test_random_failures_have_their_means(self, tmp_path):
        faults = self.failures(tmp_path)
        n = np.diff(faults.outage_ptr)
        network = fat_tree(4, 4, "100Gbps")
        # 32 cables, 50 ms each, a failure every 1.1 ms.
        expected = 32 * 50 / 1.1
        assert abs(n.sum() / 2 - expected) < 4 * np.sqrt(expected)
        down, up = faults.outages_ps.T
        assert (up - down).mean() == pytest.approx(100 * US, rel=0.15)
        assert up.max() <= 50_000 * US
        assert (n == n[network.port_peer]).all()
        first = faults.outage_ptr[:-1]
        both = down[first] == down[first[network.port_peer]]
        assert both.all()  # both directions of a cable fail together
        assert np.unique(down[first]).size == 32  # independently of the others

    def test_random_failures_of_a_link_ignore_other_faults(self, tmp_path):
        faults, other = self.failures(tmp_path), self.failures(tmp_path, seed=2)
        beside = self.failures(tmp_path, **{"faults.more": 'links = "h0 - *"\ndown = "60ms"'})

        def history(faults: LinkFaults, port: int) -> list[list[int]]:
            begin, end = faults.outage_ptr[port : port + 2]
            return faults.outages_ps[begin:end].tolist()

        assert history(faults, 5) == history(beside, 5) != history(other, 5)
        assert history(faults, 0) == history(beside, 0)[:-1]

    def test_failed_node_takes_its_links_down(self, tmp_path):
        content = text(**{"faults.dead": 'node = "spine1"\ndown = "1us"'})
        (point,) = load(tmp_path, content).points()
        scenario = prepare(point)
        assert scenario.faults is not None
        network = scenario.network
        down = np.flatnonzero(np.diff(scenario.faults.outage_ptr))
        ends = {network.port_node[down[k]] for k in range(down.size)}
        assert down.size == 2 * 4
        assert network.n_hosts + 4 + 1 in ends
