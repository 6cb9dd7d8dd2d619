"""wan_fec: admission, pacing and forward error correction on wide-area links."""

from math import comb
from typing import Any

import numpy as np
import pytest
from engine_runs import (
    NS,
    PACKET,
    acked_ps,
    assert_conserved,
    build,
    counter,
    dumbbell,
    fabric_with,
    fct_ps,
    flow_table,
    hit,
    run,
)
from small_networks import rails

from netsim.conformance import Testbed
from netsim.engine.engine import Engine
from netsim.engine.kernels.layout import INF, RUNNING
from netsim.model.faults import LinkFault, LinkFaults, combine
from netsim.model.network import Network
from netsim.model.port_pairs import HASH, pairs_used
from netsim.plugins import registry

G = 10**9
MS = 10**9
PAYLOAD = 4096
ONE_WAY = 30 * MS + 20_000 * NS  # one-way propagation delay of the dumbbell


def bottleneck(hosts: int, host_rate: str = "10Gbps", rate: str = "10Gbps") -> Network:
    return dumbbell(hosts=hosts, host_rate=host_rate, bottleneck_rate=rate)


def lossy(network: Network, loss: float, *, back: float = 0.0) -> LinkFaults:
    """Random loss on the wide-area link and, with rate ``back``, on the reverse direction."""
    there = int(np.argmax(network.port_delay_ps))
    ports = [LinkFault(np.array([there]), loss=loss)]
    ports.append(LinkFault(network.port_peer[[there]], loss=back))
    return combine(ports, network.n_ports)


def lost(engine: Engine) -> int:
    return int(engine.link_counters().lost_packets.sum())


def wan(network: Network, flows: list[tuple[int, int, int, int]], **given: Any) -> Engine:
    """Build an engine; ``queue`` is the switches' buffer in packets."""
    transport = given.pop("transport", "wan_fec")
    fabric = fabric_with(queue_bytes=given.pop("queue", 100) * PACKET)
    options = {name: given.pop(name) for name in ("faults", "seed", "jit") if name in given}
    # Always with faults, even of no effect: without them the engine would be compiled again.
    options.setdefault("faults", lossy(network, 0.0))
    return build(network, flow_table(flows), transport, fabric, params=given, **options)


def binomial(n: int, i: int, p: float) -> float:
    """Probability that i of n packets are lost."""
    return comb(n, i) * p**i * (1 - p) ** (n - i)


def block_failure(k: int, m: int, p: float) -> float:
    """Probability that more than m of the k + m packets of a block are lost."""
    return sum(binomial(k + m, i, p) for i in range(m + 1, k + m + 1))


def test_presets_meet_their_block_failure_bound() -> None:
    """A block fails with less than 1e-6 at the preset's loss rate, one parity packet fewer exceeds
    that, and the code fits into 255 symbols."""
    plugin = registry.find("transport", "wan_fec")
    default = {p.name: p.default for p in plugin.params}
    assert block_failure(default["k"], default["m"], 1e-3) == pytest.approx(8.1e-8, rel=0.01)
    for preset, loss in (("loss_0.1%", 1e-3), ("loss_1%", 1e-2)):
        k, m = (plugin.presets[preset][name] for name in ("k", "m"))
        assert block_failure(k, m, loss) < 1e-6 < block_failure(k, m - 1, loss)
        assert k + m <= 255


def test_single_flow_takes_the_paced_time() -> None:
    """Data is paced, together with the parity of all groups except the last."""
    for k, m, interleave in [(200, 5, 1), (16, 3, 4), (7, 0, 2)]:
        n = 300
        code = {"k": k, "m": m, "interleave": interleave}
        engine = run(wan(bottleneck(1), [(0, 1, n * PAYLOAD, 0)], rate="5Gbps", **code))
        groups_before = (n - 1) // (k * interleave)
        sent_before = n - 1 + groups_before * m * interleave
        gap, hop = PACKET * 8_000 // 5, PACKET * 800
        done = sent_before * gap + 3 * hop + ONE_WAY
        assert fct_ps(engine).tolist() == [done]
        assert acked_ps(engine).tolist() == [done + 3 * 64 * 800 + ONE_WAY]
        left = n - groups_before * k * interleave
        blocks = groups_before * interleave + min(interleave, left)
        assert engine.flow_states().sent_packets.tolist() == [n + m * blocks]
        assert engine.flow_states().retransmits.tolist() == [0]
        assert_conserved(engine)


def test_flow_waits_until_its_rate_is_available() -> None:
    """Of six flows of 4 Gbps two fit into 10 Gbps; each later one starts when one ends."""
    n = 150
    flows = [(0, 2 + i % 2, n * PAYLOAD, 0) for i in range(6)]
    engine = wan(bottleneck(2), flows, rate="4Gbps")
    hosts = engine.state.hosts.nics
    most = 0
    while engine.advance(1, INF) == RUNNING:
        most = max(most, int(hosts["admitted_bps"].max()))
    assert most == 8 * G
    gap, n_parity = PACKET * 2_000, 5
    rounds = (n + n_parity) * gap
    first = fct_ps(engine)[0]
    for pair in range(3):
        for flow in (2 * pair, 2 * pair + 1):
            late = fct_ps(engine)[flow] - first - pair * rounds
            assert 0 <= late <= 2 * PACKET * 800
    assert int(hosts["admitted_bps"].sum()) == 0
    assert int(hosts["has_waiting"].sum()) == 0


def test_admission_counts_each_plane_separately() -> None:
    """Two flows of a host are on a plane each, so both are admitted at once."""
    testbed, network = Testbed.of("wan_fec", seed=4), rails(3, [100, 100])
    rows = [(0, 1, 50 * PAYLOAD, 0), (0, 2, 50 * PAYLOAD, 0)]
    flows = flow_table(rows)
    assert pairs_used(network, flows, HASH, testbed.seed).src_port.tolist() == [1, 0]
    both = testbed.run(flows, network).fct_ps()
    (alone,) = testbed.run(flow_table(rows[:1]), network).fct_ps()
    assert both.tolist() == [alone, alone]


@pytest.mark.slow
def test_admitted_rates_that_fit_cause_no_loss() -> None:
    """The capacities add up to the bottleneck's rate: two packets per flow wait at most."""
    rng = np.random.default_rng(1)
    sizes = rng.integers(1, 600 * PAYLOAD, 80)
    starts = rng.integers(0, 2 * MS, 80)
    flows = [(i % 8, 8 + i % 8, int(sizes[i]), int(starts[i])) for i in range(80)]
    network = bottleneck(8)
    engine = run(wan(network, flows, rate="625Mbps", capacity="1.25Gbps", queue=2 * 8 * 2))
    assert counter(engine, "drops") == 0
    assert (fct_ps(engine) > 0).all()
    assert engine.flow_states().retransmits.sum() == 0
    sent = int(engine.state.hosts.nics["sent_bytes"][:8].sum())
    assert sent * 8 * 10**12 / (10 * G) > 0.5 * float(fct_ps(engine).max() - ONE_WAY)


@pytest.mark.parametrize("interleave", [1, 4])
@pytest.mark.parametrize(("rate", "least_loss"), [("4Gbps", 0.15), ("1Gbps", 0.7)])
def test_flow_completes_far_beyond_the_design_loss(
    rate: str, least_loss: float, interleave: int
) -> None:
    """The bottleneck is slower than the admitted rate and drops much; everything arrives."""
    n = 250
    network = bottleneck(1, rate=rate)
    flows = [(0, 1, n * PAYLOAD, 0)]
    engine = run(wan(network, flows, rate="5Gbps", queue=4, interleave=interleave))
    sent = int(engine.flow_states().sent_packets[0])
    assert counter(engine, "drops") > least_loss * sent
    assert fct_ps(engine)[0] > 2 * ONE_WAY
    assert int(engine.state.hosts.nics["admitted_bps"].sum()) == 0
    assert_conserved(engine)


MESSAGE = 57_000_000  # bytes that one GPU sends per iteration (HotNets 2024, section 5)


@pytest.mark.slow
@pytest.mark.parametrize(("preset", "loss"), [("loss_0.1%", 1e-3), ("loss_1%", 1e-2)])
def test_design_loss_causes_no_tail(preset: str, loss: float) -> None:
    """Of ten messages none needs a repair or ends 0.1 % later than without loss. At worst the last
    packet is restored when its block's parity arrives, never earlier."""
    params = registry.find("transport", "wan_fec").presets[preset]
    network = bottleneck(1)
    flows = [(0, 1, MESSAGE, 0)]
    clean = fct_ps(run(wan(network, flows, rate="5Gbps", **params)))[0]
    for seed in range(1, 11):
        faults = lossy(network, loss)
        engine = run(wan(network, flows, rate="5Gbps", faults=faults, seed=seed, **params))
        share = lost(engine) / int(engine.flow_states().sent_packets[0])
        assert 0.5 * loss < share < 2 * loss
        assert engine.flow_states().retransmits[0] == 0
        assert clean <= fct_ps(engine)[0] <= clean + params["m"] * PACKET * 8_000 // 5
        assert params["m"] * PACKET * 8_000 // 5 < clean / 1000


@pytest.mark.slow
def test_loss_without_parity_costs_a_round_trip() -> None:
    """With m = 0 a repair arrives a round trip after the lost packet, and some packets of the last
    round trip are lost. Only lost packets are sent again."""
    network = bottleneck(1)
    flows = [(0, 1, MESSAGE, 0)]
    clean = fct_ps(run(wan(network, flows, rate="5Gbps", m=0)))[0]
    engine = run(wan(network, flows, rate="5Gbps", m=0, faults=lossy(network, 1e-3)))
    assert engine.flow_states().retransmits[0] == lost(engine) > 5
    assert fct_ps(engine)[0] > clean + ONE_WAY


def test_lost_last_packet_costs_fec_no_round_trip() -> None:
    """TCP detects the loss of the last data packet by a timeout of a round trip or more; wan_fec
    restores the packet as soon as a parity packet arrives."""
    for transport, params in [("cubic", {}), ("bbr", {}), ("wan_fec", {"rate": "5Gbps"})]:
        network = bottleneck(1)
        there = int(np.argmax(network.port_delay_ps))
        flows = [(0, 1, 500 * PAYLOAD, 0)]
        given = {"transport": transport, "queue": 3000, "jit": False, **params}
        clean = fct_ps(run(wan(network, flows, **given)))[0]
        sent = clean - (30 * MS + 10_000 * NS) - 2 * PACKET * 800
        faults = combine([hit(there, sent + 1, sent + 2, PACKET * 800)], network.n_ports)
        engine = run(wan(network, flows, faults=faults, **given))
        assert lost(engine) == 1
        late = fct_ps(engine)[0] - clean
        if transport == "wan_fec":
            assert late == PACKET * 8_000 // 5
        else:
            assert late > 2 * ONE_WAY


@pytest.mark.slow
def test_number_of_repairs_matches_the_binomial_model() -> None:
    """With k = 20, m = 2 and 2 % loss a block that loses i > m packets gets i - m and m more. The
    number of repairs must be within four standard deviations of its expectation."""
    k, m, loss, n_blocks = 20, 2, 0.02, 2000
    network = bottleneck(1)
    flows = [(0, 1, n_blocks * k * PAYLOAD, 0)]
    engine = run(wan(network, flows, k=k, m=m, faults=lossy(network, loss), seed=3))
    chances = [(i, binomial(k + m, i, loss)) for i in range(m + 1, k + m + 1)]
    expected = n_blocks * sum(i * p for i, p in chances)
    deviation = (n_blocks * sum(i * i * p for i, p in chances)) ** 0.5
    repairs = int(engine.flow_states().retransmits[0])
    assert abs(repairs - expected) < 4 * deviation < expected


@pytest.mark.parametrize("interleave", [1, 8])
@pytest.mark.parametrize(("loss", "back"), [(0.05, 0.0), (0.3, 0.3), (0.0, 0.5)])
def test_flow_completes_whatever_is_lost(loss: float, back: float, interleave: int) -> None:
    """Data, parity, repairs, NACKs, probes and the last acknowledgment may all be lost."""
    network = bottleneck(2)
    flows = [(i % 2, 2 + i % 2, 100 * PAYLOAD, 0) for i in range(6)]
    faults = lossy(network, loss, back=back)
    engine = run(wan(network, flows, rate="5Gbps", faults=faults, interleave=interleave))
    assert (acked_ps(engine) > 0).all()
    assert int(engine.state.hosts.nics["admitted_bps"].sum()) == 0


def test_interleaving_survives_a_loss_burst() -> None:
    """The link loses 30 packets in a row: one block fails, eight interleaved blocks do not."""
    network = bottleneck(1)
    there = int(np.argmax(network.port_delay_ps))
    gap = PACKET * 8_000 // 5
    burst = hit(there, 300 * gap, 330 * gap, PACKET * 800)
    faults = combine([burst], network.n_ports)
    repairs = []
    for interleave in (1, 8):
        flows = [(0, 1, 500 * PAYLOAD, 0)]
        engine = run(wan(network, flows, rate="5Gbps", faults=faults, interleave=interleave))
        assert 28 <= lost(engine) <= 32
        repairs.append(int(engine.flow_states().retransmits[0]))
    assert repairs[0] > 20
    assert repairs[1] == 0
