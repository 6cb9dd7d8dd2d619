"""BBR on a dumbbell, compared with the BBR article and the IETF draft."""

from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from engine_runs import PACKET, build, dumbbell, fabric_with, flow_table, run

from netsim.engine.engine import Engine
from netsim.model.fabric import PacketFormat
from netsim.model.faults import LinkFault, combine
from netsim.model.network import Network
from netsim.transports import bbr

G = 10**9
MS = 10**9
S = 10**12
ENDLESS = 10**10  # size of a flow that no test finishes, in bytes
STARTUP, DRAIN, PROBE_BW, PROBE_RTT = range(4)


def bottleneck(network: Network) -> int:
    """The port that feeds the link from left to right."""
    return int(np.argmax(network.port_delay_ps))


def wan(transport: str = "bbr", *, loss: float = 0.0, queue: int = 40_000, **given: Any) -> Engine:
    """One endless flow, or one per entry of ``starts``; ``queue`` is the buffer in packets. Packets
    are lost on the bottleneck or, with ``ahead``, on the first host's link before it."""
    starts, ahead = given.pop("starts", [0]), given.pop("ahead", False)
    options = {name: given.pop(name) for name in ("seed", "packets") if name in given}
    network = dumbbell(hosts=len(starts), **given)
    port = 0 if ahead else bottleneck(network)
    faults = combine([LinkFault(np.array([port]), loss=loss)], network.n_ports)
    flows = flow_table([(i, len(starts) + i, ENDLESS, at) for i, at in enumerate(starts)])
    fabric = fabric_with(queue_bytes=queue * PACKET)
    return build(network, flows, transport, fabric, faults=faults, **options)


def rates_bps(engine: Engine, since_ps: int, until_ps: int) -> np.ndarray:
    """Each flow's goodput from ``since_ps`` to ``until_ps``, headers included."""
    run(engine, since_ps)
    before = np.array(engine.flow_states().received_bytes)
    run(engine, until_ps)
    got = np.array(engine.flow_states().received_bytes) - before
    par = engine.state.hosts.pars["transport0"][0]
    on_the_wire = (par["payload_bytes"] + par["header_bytes"]) / par["payload_bytes"]
    return got * on_the_wire * 8 * S / (until_ps - since_ps)


def test_startup_doubles_the_window_every_round_trip() -> None:
    """The window doubles, and the bandwidth estimate one round trip later."""
    engine = wan()
    tx = engine.state.hosts.tx
    windows, rates = [], []
    for i in range(2, 7):
        run(engine, i * 60 * MS)
        windows.append(float(tx["cwnd"][0]))
        rates.append(int(tx["max_bps"][0]))
    assert int(tx["state"][0]) == STARTUP
    assert windows[:4] == [20.0, 40.0, 80.0, 160.0]
    assert all(1.8 < b / a <= 2 for a, b in pairwise(windows))
    assert all(1.7 < b / a < 2.5 for a, b in pairwise(rates))


def test_saved_window_is_the_largest_since_recovery_began() -> None:
    for in_recovery, state, saved in ((0, PROBE_BW, 10), (1, PROBE_BW, 40), (0, PROBE_RTT, 40)):
        tx = SimpleNamespace(state=state, prior_cwnd=40.0, cwnd=10.0)
        bbr.save_cwnd(tx, in_recovery)
        assert tx.prior_cwnd == saved


@pytest.mark.slow
def test_lossless_path_is_full_with_a_small_queue() -> None:
    """At 10 Gbps x 60 ms Startup fills the buffer and Drain empties it. After that the queue is 1/4
    of the bandwidth-delay product in one of eight round trips and nearly empty in the others."""
    engine = wan()
    tx, port = engine.state.hosts.tx, bottleneck(engine.network)
    queue = engine.state.links.queues
    bdp = 10 * G * 60 * MS // 8 // S
    run(engine, 1200 * MS)
    assert int(queue["max_bytes"][port]) > 1.5 * bdp
    run(engine, 1500 * MS)
    assert int(tx["state"][0]) == PROBE_BW
    assert int(tx["max_bps"][0]) == pytest.approx(10 * G, rel=1e-3)
    assert int(tx["rtprop_ps"][0]) == pytest.approx(60.04 * MS, rel=1e-3)
    held, rate = [], []
    for i in range(96):
        at = (1500 + 10 * i) * MS
        rate.append(rates_bps(engine, at, at + 10 * MS)[0])
        held.append(int(queue["bytes"][port]))
    assert np.mean(rate) > 0.99 * 10 * G
    assert max(held) < 0.3 * bdp
    assert np.mean(held) < 0.06 * bdp
    assert np.median(held) < 10 * PACKET
    assert int(queue["drops"][port]) == 0


@pytest.mark.slow
def test_bbr_uses_a_lossy_link_where_cubic_cannot() -> None:
    """At 10 Gbps x 60 ms and 1 % random loss BBR uses 90 % of the link, CUBIC less than 1 %."""
    fast, slow = (
        rates_bps(wan(transport, loss=0.01), 3000 * MS, 4000 * MS)[0]
        for transport in ("bbr", "cubic")
    )
    assert 0.9 * 10 * G < fast <= 0.991 * 10 * G
    assert slow < 0.01 * 10 * G


ARTICLE = {"host_rate": "1Gbps", "bottleneck_rate": "100Mbps", "bottleneck_delay": "50ms"}


@pytest.mark.slow
def test_loss_after_the_bottleneck_reduces_goodput_twice() -> None:
    """BBR paces at its delivery rate. Loss after the bottleneck lowers that rate by 1 - loss and
    then loses the same share again; loss before the bottleneck does not lower the rate."""
    loss = 0.15
    for ahead, arrives in ((False, (1 - loss) ** 2), (True, 1 - loss)):
        engine = wan(loss=loss, ahead=ahead, packets=PacketFormat(1448, 52), **ARTICLE)
        share = rates_bps(engine, 10 * S, 30 * S)[0] / 10**8
        assert share == pytest.approx(arrives, rel=0.08)


@pytest.mark.slow
def test_goodput_under_loss_matches_the_article() -> None:
    """The article's flows on 100 Mbps and 100 ms for 30 s: CUBIC drops to a tenth at 0.1 % loss and
    stalls above 1 %; BBR collapses when more is lost than its probing adds (1/4)."""
    for transport, loss, least, most in [
        ("bbr", 0.25, 0.0, 0.3),
        ("cubic", 0.001, 0.03, 0.15),
        ("cubic", 0.01, 0.0, 0.03),
    ]:
        engine = wan(transport, loss=loss, packets=PacketFormat(1448, 52), **ARTICLE)
        share = rates_bps(engine, 0, 30 * S)[0] / 10**8
        assert least < share <= most


@pytest.mark.slow
def test_five_flows_converge_to_fair_shares() -> None:
    """The article's five flows on 100 Mbps and 10 ms start 2 s apart. They share fairly after the
    first ProbeRTT, about ten seconds after the last start."""
    given = ARTICLE | {"bottleneck_delay": "5ms"}
    engine = wan(starts=[2 * S * i for i in range(5)], queue=250, **given)
    early = rates_bps(engine, 10 * S, 15 * S)
    late = rates_bps(engine, 30 * S, 50 * S)
    assert late.sum() > 0.95 * 10**8
    assert late.max() < 1.4 * late.min()
    assert early.max() > 4 * early.min()


@pytest.mark.slow
def test_probe_rtt_drains_the_queue_and_restores_windows() -> None:
    """Two flows keep a queue. Ten seconds after their start they cut their windows to four packets
    for 200 ms, measure the propagation delay and return to their previous windows."""
    engine = wan(starts=[0, 300 * MS], host_rate="1Gbps", bottleneck_rate="100Mbps", queue=2000)
    tx, port = engine.state.hosts.tx, bottleneck(engine.network)
    run(engine, 9 * S)
    before = np.array(tx["cwnd"])
    assert tx["state"].tolist() == [PROBE_BW, PROBE_BW]
    assert int(engine.link_counters().queue_bytes[port]) > 50 * PACKET
    smallest, states = np.array(before), set()
    seen = []
    for i in range(400):
        run(engine, 9 * S + i * 10 * MS)
        smallest = np.minimum(smallest, np.array(tx["cwnd"]))
        states |= set(tx["state"].tolist())
        seen.append(PROBE_RTT in tx["state"].tolist())
    assert smallest.tolist() == [4.0, 4.0]
    assert states == {PROBE_BW, PROBE_RTT}
    assert 20 <= sum(seen) <= 60  # at least 200 ms, plus the time to drain two windows
    assert tx["rtprop_ps"].tolist() == pytest.approx([61 * MS, 61 * MS], rel=0.02)
    assert (np.array(tx["cwnd"]) > 0.5 * before).all()
