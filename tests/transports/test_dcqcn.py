"""DCQCN: rate changes step by step, the fixed point on one bottleneck, and the effect on PFC."""

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import engine_runs
import numpy as np
import pytest
from engine_runs import (
    US,
    assert_conserved,
    counter,
    fabric_with,
    fat_tree,
    fct_ps,
    flow_table,
    run,
)
from shared_link import measure

from netsim.engine.engine import Engine
from netsim.experiment.resolve_fabric import fabric_defaults, resolve_fabric
from netsim.model.builder import NetworkBuilder
from netsim.model.fabric import Ecn, Fabric, PacketFormat
from netsim.model.network import Network
from netsim.plugins import registry
from netsim.transports import dcqcn

G = 10**9
MS = 1000 * US
KB = PacketFormat(payload_bytes=1000, header_bytes=48)
PAPER_ECN = Ecn(kmin_bytes=5_000, kmax_bytes=200_000, pmax=0.01)
EVERY_PACKET, NO_PACKET = Ecn(0, 0, at="dequeue"), Ecn(10**12, 10**12)
NEVER = 10**18


def lossless(ecn: Ecn | None) -> Fabric:
    """The paper's switch: 12 MB shared, dynamic XOFF thresholds (section 4, beta = 8)."""
    sizes = {"shared_buffer_bytes": 12_000_000, "alpha": 1.0, "xon_gap_bytes": 3000}
    return fabric_with("lossless", n_traffic_classes=2, ecn=ecn, **sizes)


def star(n_hosts: int, rate_bps: int, last_bps: int | None = None) -> Network:
    """One switch with links of 1 us; the last host may have another rate."""
    builder = NetworkBuilder()
    hosts = builder.add_hosts(n_hosts)
    switch = builder.add_switch()
    for host in hosts:
        given = last_bps if last_bps and host == hosts[-1] else rate_bps
        builder.cable(host, switch, rate_bps=given, delay_ps=US)
    return builder.build("star")


def build(
    network: Network,
    flows: list[tuple[int, int, int, int]],
    fabric: Fabric,
    *,
    transport: str = "dcqcn",
    preset: str | None = None,
    params: Mapping[str, Any] | None = None,
    jit: bool = True,
) -> Engine:
    chosen = registry.find("transport", transport).presets[preset] if preset else {}
    paper = {"window": 0.0} if transport == "dcqcn" else {}
    given = {**paper, **chosen, **(params or {})}
    table = flow_table(flows)
    return engine_runs.build(network, table, transport, fabric, params=given, packets=KB, jit=jit)


class Reference:
    """Rates over time of one flow whose packets are all marked, written from the paper.

    Every packet arrives a fixed time after it was sent and may cause a CNP, which arrives another
    fixed time later. The gap between two packets follows from the current rate.
    """

    def __init__(self, line: int, there_ps: int, back_ps: int, size: int, n: int, **p: Any) -> None:
        self.line, self.there, self.back = line, there_ps, back_ps
        self.size, self.n, self.p = size, n, p
        self.rate = self.target = line
        self.alpha, self.alpha_at = 1.0, NEVER
        self.events_t = self.events_b = self.counted = 0
        self.base, self.timer, self.next_cnp, self.changed = -self.gap(), NEVER, 0, 0
        self.cnps: list[int] = []

    def gap(self) -> int:
        return 8 * 10**12 * self.size // self.rate

    def run(self, until: int) -> None:
        """Process all events before `until`."""
        while True:
            send = max(self.base + self.gap(), self.changed) if self.n else NEVER
            cnp = self.cnps[0] if self.cnps else NEVER
            now = min(send, cnp, self.timer, self.alpha_at)
            if now >= until:
                return
            if now == cnp:
                self.on_cnp(now)
            elif now == self.alpha_at:
                self.alpha *= 1 - self.p["g"]
                self.alpha_at += self.p["alpha_interval"]
            elif now == self.timer:
                self.timer = NEVER
                if self.rate < self.line:
                    self.rise()
                    self.events_t += 1
                    self.timer = now + self.p["rate_interval"]
                self.changed = now
            else:
                self.send(now)

    def send(self, now: int) -> None:
        self.base = max(self.base + self.gap(), now - self.gap())
        self.n -= 1
        arrival = now + self.there
        if arrival >= self.next_cnp:
            self.next_cnp = arrival + self.p["cnp_interval"]
            self.cnps.append(arrival + self.back)
        if self.rate < self.line:
            self.counted += self.size
            if self.counted >= self.p["byte_counter"]:
                self.counted = 0
                self.rise()
                self.events_b += 1
        self.changed = now

    def on_cnp(self, now: int) -> None:
        self.cnps.pop(0)
        self.target = self.rate
        self.rate = max(int(self.rate * (1 - self.alpha / 2)), self.p["min_rate"])
        self.alpha = (1 - self.p["g"]) * self.alpha + self.p["g"]
        self.alpha_at = now + self.p["alpha_interval"]
        self.timer = now + self.p["rate_interval"]
        self.events_t = self.events_b = self.counted = 0
        self.changed = now

    def rise(self) -> None:
        few, many = sorted((self.events_t, self.events_b))
        if many < self.p["f"]:
            step = 0
        elif few > self.p["f"]:
            step = self.p["rate_hai"] * (few - self.p["f"])
        else:
            step = self.p["rate_ai"]
        self.target = min(self.target + step, self.line)
        self.rate = -(-(self.target + self.rate) // 2)


def test_rates_match_the_paper_after_each_event() -> None:
    """Cuts, fast recovery, additive and hyper increase by timer and byte counter match to the bit.
    A CNP every 60 us brings the rate down; then one every 1.5 ms lets it rise, also by bytes."""
    line, size, a = 40 * G, 1048, 64 * 200
    given = {"byte_counter": "10MB", "fast_recovery": 2, "g": 0.1, "min_rate": "100Mbps"}
    given |= {"cnp_interval": "60us", "rate_ai": "100Mbps", "rate_hai": "300Mbps"}
    given |= {"ack_every": 10**6, "rto": "1s"}
    fabric = lossless(EVERY_PACKET)
    engine = build(star(2, line), [(0, 1, 10**9, 0)], fabric, params=given, jit=False)
    reference = Reference(
        line, there_ps=2 * (size * 200 + US), back_ps=2 * (a + US), size=size, n=10**6,
        cnp_interval=60 * US, alpha_interval=55 * US, rate_interval=55 * US, byte_counter=10**7,
        g=0.1, f=2, rate_ai=G // 10, rate_hai=3 * G // 10, min_rate=G // 10,
    )  # fmt: skip
    tx = engine.state.hosts.tx
    hyper = 0
    for t in range(10 * US, 5 * MS, 10 * US):
        if t == 2 * MS:
            assert tx["rate_bps"][0] < 2 * G
            for name, value in (("cnp_interval", 1500 * US), ("byte_counter", 20_000)):
                engine.state.hosts.pars["transport0"][name] = reference.p[name] = value
        run(engine, t)
        reference.run(t)
        fields = ("rate_bps", "target_bps", "n_timer", "n_bytes", "sent_packets")
        seen = tuple(int(tx[name][0]) for name in fields)
        events = reference.events_t, reference.events_b, 10**6 - reference.n
        assert seen == (reference.rate, reference.target, *events), t
        hyper += min(events[:2]) > 3 and reference.target < line
    assert hyper > 4
    assert tx["rate_bps"][0] > 10 * G


def test_alpha_rises_and_decays_by_timer() -> None:
    """As in Mellanox NICs, alpha rises in each interval with a CNP and decays in the others."""
    env = SimpleNamespace(par=SimpleNamespace(alpha_interval=US, g=1 / 256))
    tx = SimpleNamespace(alpha=0.25, alpha_ps=3 * US, cnp_came=1)
    dcqcn.settle_alpha(env, 3 * US + 999_999, tx)
    assert (tx.alpha, tx.alpha_ps, tx.cnp_came) == (0.25, 3 * US, 1)
    dcqcn.settle_alpha(env, 1003 * US + 500_000, tx)
    once = 0.25 * 255 / 256 + 1 / 256
    assert tx.alpha == pytest.approx(once * (255 / 256) ** 999, rel=1e-12)
    assert (tx.alpha_ps, tx.cnp_came) == (1003 * US, 0)


@pytest.mark.parametrize("own_class", [True, False])
def test_pfc_does_not_delay_cnps_in_their_own_class(own_class: bool) -> None:
    """Host 1 is paused because it sends to a slow host; packets from host 0 to it are marked. Its
    CNP takes the ideal time if it has class 0 to itself, as by default."""
    fabric = fabric_with(
        "lossless", n_traffic_classes=2, xoff_bytes=8 * 1048, xon_bytes=4 * 1048, ecn=EVERY_PACKET
    )
    flows = [(1, 2, 10**7, 0), (0, 1, 10**6, 50 * US)]
    params = {"min_rate": "40Gbps"} | ({} if own_class else {"cnp_class": "none"})
    engine = build(star(3, 40 * G, G), flows, fabric, params=params, jit=False)
    cnp_ps = 2 * (1048 * 200 + US) + 2 * (64 * 200 + US)
    run(engine, 50 * US + cnp_ps + 2 * 1048 * 200)
    assert counter(engine, "pfc_pauses") > 0
    assert (engine.state.hosts.tx["alpha_ps"][1] > 0) == own_class


def test_unmarked_flows_are_as_fast_as_roce() -> None:
    """Only the line rate limits a flow; SimAI's window of one round trip just suffices."""
    network, flows = fat_tree(4, 2, "40Gbps"), [(0, 7, 100_500, 0), (1, 2, 500, US)]
    roce = run(build(network, flows, lossless(None), transport="roce", jit=False))
    for preset in ["paper-40g", "author-ns3", "cx4", "cx4-100g", "simai-400g"]:
        fast = run(build(network, flows, lossless(NO_PACKET), preset=preset, jit=False))
        late = 1048 * 200 * 2 if preset == "simai-400g" else 0
        assert (fct_ps(fast) - fct_ps(roce) <= late).all()


def test_preset_sets_the_fabric_of_the_paper() -> None:
    """The switch of the tests below is the one that preset paper-40g declares."""
    expected, used = resolve_fabric(fabric_defaults(dcqcn, "paper-40g"), KB), lossless(PAPER_ECN)
    assert expected.ecn == used.ecn
    assert expected.queue.name == used.queue.name
    for name in ("shared_buffer_bytes", "alpha", "xon_gap_bytes"):
        assert expected.queue.params[name] == used.queue.params[name]
    assert set(dcqcn.PRESET_FABRIC) == set(dcqcn.PRESETS)


def fixed_point_bytes(n: int, rate_bps: int, size: int) -> float:
    """The queue at which marks balance the rate increases of n flows.

    Zhu et al., "ECN or Delay: Lessons Learnt from Analysis of DCQCN and TIMELY", CoNEXT 2016,
    equation 14, in packets: p^3 = R_AI N^2 / (tau' C^2) * (1 / B + N / (T C))^2.
    """
    capacity, ai = rate_bps / 8 / size, 40e6 / 8 / size
    events = 1 / (10e6 / size) + n / (55e-6 * capacity)
    p = float(np.cbrt(ai * n**2 / (55e-6 * capacity**2) * events**2))
    ecn = PAPER_ECN
    return ecn.kmin_bytes + p / ecn.pmax * (ecn.kmax_bytes - ecn.kmin_bytes)


@pytest.mark.slow
def test_long_flows_share_fairly_at_the_modeled_queue() -> None:
    """Long flows to one host at 40 Gbps with the paper's parameters.

    With few flows the queue is at the fluid model's fixed point. With 8 it swings between empty and
    Kmax; with 16, as here, the model needs more marks than Pmax allows.
    """
    for n in [4, 16]:
        flows = [(i + 1, 0, 10**10, i * 100 * US) for i in range(n)]
        engine = build(star(n + 1, 40 * G), flows, lossless(PAPER_ECN), preset="paper-40g")
        run(engine, 60 * MS)
        pauses = counter(engine, "pfc_pauses")
        to_host = int(engine.network.port_peer[0])
        seen = measure(engine, to_host, 60 * MS, 120 * MS, 20 * US, traffic_class=1)
        assert seen.jain > 0.95
        assert seen.rate_bps > 0.94 * 40 * G
        assert PAPER_ECN.kmin_bytes < seen.held.mean() < PAPER_ECN.kmax_bytes
        if n <= 4:
            assert seen.held.mean() == pytest.approx(fixed_point_bytes(n, 40 * G, 1048), rel=0.3)
        assert counter(engine, "pfc_pauses") == pauses
        assert counter(engine, "drops") == 0
        assert_conserved(engine)


@pytest.mark.slow
def test_incast_causes_no_pauses_after_the_first_burst() -> None:
    """In a 32-to-1 incast nothing is paused once the first burst has drained. Unmarked flows, which
    are as fast as RoCE's, are always paused."""
    network = fat_tree(8, 8, "40Gbps")
    flows = [(63 - i, 0, 10**10, 0) for i in range(32)]
    pauses, bytes_late = {}, {}
    for kind, ecn in (("unmarked", NO_PACKET), ("marked", PAPER_ECN)):
        engine = build(network, flows, lossless(ecn))
        run(engine, 10 * MS)
        before = counter(engine, "pfc_pauses"), engine.counts.payload_bytes
        run(engine, 30 * MS)
        pauses[kind] = counter(engine, "pfc_pauses") - before[0]
        bytes_late[kind] = int(engine.flow_states().received_bytes.sum())
        assert counter(engine, "drops") == 0
        assert_conserved(engine)
    assert pauses["unmarked"] > 1000
    assert pauses["marked"] < pauses["unmarked"] / 1000
    assert bytes_late["marked"] > 0.85 * bytes_late["unmarked"]
