"""HPCC: the window compared with a second version of algorithm 1; one flow, many, incast."""

from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from engine_runs import (
    PACKET,
    US,
    acked_ps,
    assert_conserved,
    build,
    counter,
    fabric_with,
    fat_tree,
    flow_table,
    resolve,
    run,
)
from shared_link import bottleneck, even_dumbbell, measure

from netsim.engine.engine import Engine
from netsim.model.fabric import PacketFormat
from netsim.plugins import registry
from netsim.plugins.registry import PluginSpec

PAYLOAD = 4096
G = 10**9
SHARED = fabric_with("lossless", shared_buffer_bytes=32_000_000, alpha=0.125)
HPCC = registry.find("transport", "hpcc")
hpcc: Any = HPCC.module


@dataclass(frozen=True)
class Link:
    """A switch's telemetry about the link it sends on."""

    ts_s: float
    tx_bytes: int
    qlen: int
    rate: float  # bytes per second


class Algorithm1:
    """Li et al., SIGCOMM 2019, algorithm 1, in bytes and seconds."""

    def __init__(self, nic: float, t: float, w_ai: float, eta: float, max_stage: int) -> None:
        self.T, self.eta, self.max_stage, self.W_AI = t, eta, max_stage, w_ai
        self.W = self.Wc = self.W_max = nic * t
        self.U = 1.0
        self.inc_stage = 0
        self.last_update_seq = 0
        self.L: list[Link] = []

    def measure_inflight(self, links: list[Link]) -> None:
        u, tau = 0.0, 0.0
        for new, old in zip(links, self.L, strict=True):
            tx_rate = (new.tx_bytes - old.tx_bytes) / (new.ts_s - old.ts_s)
            u_link = min(new.qlen, old.qlen) / (new.rate * self.T) + tx_rate / new.rate
            if u_link > u:
                u, tau = u_link, new.ts_s - old.ts_s
        tau = min(tau, self.T)
        self.U = (1 - tau / self.T) * self.U + tau / self.T * u

    def compute_wind(self, update_wc: bool) -> None:
        if self.eta <= self.U or self.inc_stage >= self.max_stage:
            w, stage = self.Wc / (self.U / self.eta) + self.W_AI, 0
        else:
            w, stage = self.Wc + self.W_AI, self.inc_stage + 1
        self.W = min(w, self.W_max)
        if update_wc:
            self.Wc, self.inc_stage = self.W, stage

    def new_ack(self, seq: int, snd_nxt: int, links: list[Link]) -> None:
        update_wc = seq > self.last_update_seq
        if self.L:
            self.measure_inflight(links)
            self.compute_wind(update_wc)
        if update_wc:
            self.last_update_seq = snd_nxt
        self.L = links


def par(**given: Any) -> SimpleNamespace:
    """The parameters as handlers see them."""
    values = {k: -1 if v is None else v for k, v in resolve(HPCC, given).items()}
    return SimpleNamespace(**values, payload_bytes=4096, header_bytes=64)


def flow_state(p: SimpleNamespace) -> SimpleNamespace:
    """A flow of a host at 100 Gbps, after ``setup``."""
    tx = SimpleNamespace(ps_per_byte_q20=80 << 20, base_rtt_ps=9 * US, next_seq=9, heard_ps=0)
    tx.stage = tx.update_seq = tx.n_notes = tx.prio = 0
    tx.notes = [0] * 5
    hpcc.setup(SimpleNamespace(par=p), tx, SimpleNamespace())
    return tx


RATES = (100 * G, 400 * G, 200 * G)


def acknowledgments(seed: int, n: int) -> list[tuple[int, int, list[tuple[int, int, int]]]]:
    """Random telemetry of three links: time, sequence, (ps, bytes sent, bytes queued) per link."""
    rng = np.random.Generator(np.random.Philox(seed))
    now, sent, waiting = 50 * US, [10**9 + 7, 3 * 10**12, 0], [0, 0, 0]
    history = []
    for i in range(n):
        step = int(rng.choice([400_000, 1_500_000, 30 * US], p=[0.7, 0.25, 0.05]))
        now += step
        for k, rate in enumerate(RATES):
            room = step * rate // (8 * 10**12)
            sent[k] += max(1, int(room * rng.uniform(0.2, 1.0)))
            waiting[k] = max(0, waiting[k] + int(rng.normal(-2000, 12_000)))
        stamps = [now - 5 * US + k * US for k in range(3)]
        history.append((now, i + 1, list(zip(stamps, sent, waiting, strict=True))))
    return history


@pytest.mark.parametrize(("eta", "max_stage"), [(0.95, 5), (0.99, 0), (0.9, 2)])
def test_window_follows_algorithm_1(eta: float, max_stage: int) -> None:
    """The tolerance covers the rounding of notes: 256 ps of time and 8 ns of queue."""
    p = par(eta=eta, max_stage=max_stage, w_ai="80B", base_rtt="13us", min_rate="100Mbps")
    tx = flow_state(p)
    paper = Algorithm1(12.5e9, 13e-6, 80, eta, max_stage)
    assert tx.window == pytest.approx(paper.W)
    lowest = paper.W
    for now, seq, links in acknowledgments(0, 800):
        tx.next_seq = seq + 20
        notes = [
            hpcc.note(ts, sent, waiting, (8 * 10**12 << 20) // rate)
            for (ts, sent, waiting), rate in zip(links, RATES, strict=True)
        ]
        hpcc.react(p, now, tx, SimpleNamespace(seq=seq, aux=3, notes=notes))
        links_now = [
            Link(ts / 1e12, sent, waiting, rate / 8)
            for (ts, sent, waiting), rate in zip(links, RATES, strict=True)
        ]
        paper.new_ack(seq, seq + 20, links_now)
        assert tx.load == pytest.approx(paper.U, rel=4e-3)
        # Rounding may put a load near eta on the other side of it.
        if abs(paper.U / eta - 1) < 4e-3:
            tx.window, tx.reference, tx.stage = paper.W, paper.Wc, paper.inc_stage
        assert tx.window == pytest.approx(paper.W, rel=6e-3)
        assert tx.stage == paper.inc_stage
        tx.load, tx.reference = paper.U, paper.Wc
        lowest = min(lowest, paper.W)
    assert lowest < 0.7 * paper.W_max


def test_note_clock_may_wrap() -> None:
    """Differences survive a wrap; after half a wrap without notes measurement restarts."""
    tx = flow_state(par(base_rtt="10us"))
    wrap = 1 << 32

    def hear(now: int, sent: int) -> bool:
        notes = [hpcc.note(now, sent, 0, 80 << 20)]
        return bool(hpcc.measure_load(tx, now, SimpleNamespace(aux=1, notes=notes)))

    assert not hear(wrap - 5 * US, 0)
    assert hear(wrap + 5 * US, 62_500)
    assert tx.load == pytest.approx(0.5, rel=1e-3)
    assert not hear(2 * wrap, 10**6)
    assert tx.load == pytest.approx(0.5, rel=1e-3)


@pytest.mark.parametrize("rate_gbps", [100, pytest.param(800, marks=pytest.mark.slow)])
def test_single_flow_settles_at_eta(rate_gbps: int) -> None:
    """The host's own link is the busiest; the additive step lifts the load slightly above eta."""
    network = fat_tree(8, 4, f"{rate_gbps}Gbps")
    engine = build(network, flow_table([(0, 31, 10**9, 0)]), "hpcc", SHARED)
    seen = measure(engine, 0, 200 * US, 400 * US, 200 * US)
    assert seen.rate_bps == pytest.approx(0.95 * rate_gbps * G, rel=0.01)
    assert engine.link_counters().max_queue_bytes[network.n_hosts :].max() <= PACKET
    notes = np.array(engine.state.hosts.tx["notes"][0])
    assert engine.state.hosts.tx["n_notes"][0] == 3
    assert (notes[:3] > 0).all()
    assert (notes[3:] == 0).all()


N = 8


def staggered(**given: Any) -> Engine:
    """Eight long flows over one link that start 50 us apart."""
    flows = flow_table([(i, N + i, 10**9, i * 50 * US) for i in range(N)])
    return build(even_dumbbell(N, "100Gbps"), flows, "hpcc", SHARED, **given)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("payload", "params", "start_us", "load", "jain"),
    [
        (1000, HPCC.presets["paper"], 11_000, (0.9405, 0.9595), 0.95),
        (4096, {"ai_share": 0.05 / N}, 1500, (0.95, 0.99), 0.97),
    ],
)
def test_staggered_flows_share_fairly_with_short_queues(
    payload: int, params: dict[str, Any], start_us: int, load: tuple[float, float], jain: float
) -> None:
    """With the authors' W_AI, and with one of (1 - eta) / n of the largest window."""
    packets = PacketFormat(payload_bytes=payload)
    engine = staggered(packets=packets, params=params)
    port, since = bottleneck(engine.network), start_us * US
    seen = measure(engine, port, since, since + 2000 * US, 3 * US)
    assert load[0] < seen.rate_bps / (100 * G) < load[1]
    assert seen.jain > jain
    assert seen.held.mean() < 3 * packets.data_bytes
    assert counter(engine, "drops") == counter(engine, "pfc_pauses") == 0


def test_load_counts_all_classes_of_a_port() -> None:
    """A higher class uses half of the link; two flows share the rest up to eta without a queue."""
    network = even_dumbbell(3, "100Gbps")
    datagram = registry.find("transport", "datagram")
    flows = flow_table([(i, 3 + i, 10**8, 0) for i in range(3)])
    fabric = replace(SHARED, n_traffic_classes=2)
    given = {"params": {"data_class": 1, "ai_share": 0.0004}}
    given["beside"] = [PluginSpec(datagram, resolve(datagram, {"rate": "50Gbps"}))]
    engine = build(network, flows, "hpcc", fabric, transport_of_flow=np.array([0, 0, 1]), **given)
    seen = measure(engine, bottleneck(network), 150 * US, 300 * US, 150 * US)
    assert seen.rate_bps == pytest.approx(0.95 * 100 * G, rel=0.02)
    assert engine.link_counters().queue_bytes[2 * bottleneck(network) + 1] <= 2 * PACKET


@pytest.mark.parametrize(
    ("rate_gbps", "packets"), [(25, 15), pytest.param(100, 250, marks=pytest.mark.slow)]
)
def test_incast_drains_and_keeps_the_link_busy(rate_gbps: int, packets: int) -> None:
    """The burst of the first round trip drains; the minimum rate keeps the link busy afterwards."""
    n = 32
    network = fat_tree(33, 1, f"{rate_gbps}Gbps", spines=1, uplinks=1)
    flows = flow_table([(n - i, 0, packets * PAYLOAD, 0) for i in range(n)])
    engine = run(build(network, flows, "hpcc", SHARED))
    ideal = n * packets * PACKET * 8000 // rate_gbps
    assert ideal < acked_ps(engine).max() < 1.4 * ideal
    assert counter(engine, "drops") == 0
    assert engine.flow_states().retransmits.sum() == 0
    assert_conserved(engine)


@pytest.mark.slow
def test_reacting_once_per_round_trip_drains_bursts_slower() -> None:
    """With ``per_ack = false`` the burst of a new flow takes longer to drain."""
    queues = []
    for per_ack in (True, False):
        engine = staggered(params={"per_ack": per_ack})
        queues.append(measure(engine, bottleneck(engine.network), 0, 500 * US, US).held.mean())
    assert 1.1 * queues[0] < queues[1]
