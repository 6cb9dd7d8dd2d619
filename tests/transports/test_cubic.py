"""TCP CUBIC on a dumbbell: window and throughput compared with RFC 9438; loss recovery."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from engine_runs import (
    DROP_TAIL,
    PACKET,
    US,
    acked_ps,
    assert_conserved,
    build,
    changed,
    counter,
    dumbbell,
    fabric_with,
    fct_ps,
    flow_table,
    hit,
    run,
)
from shared_link import bottleneck

from netsim.blocks import rtt
from netsim.engine.engine import Engine
from netsim.model.builder import NetworkBuilder
from netsim.model.fabric import PacketFormat
from netsim.model.faults import LinkFault, combine
from netsim.model.network import Network
from netsim.transports import cubic
from netsim.units import parse_time_ps

MS = 10**9
S = 10**12
PAYLOAD, FULL = 8936, 9000
PACKETS = PacketFormat(payload_bytes=PAYLOAD, header_bytes=FULL - PAYLOAD)
DEEP = 10**9
C, BETA = 0.4, 0.7

RTT = 60 * MS + (0.72 + 7.2 + 0.72 + 0.00512 + 0.0512 + 0.00512) * US
"""Round-trip time of a full packet and its ACK over `path(60)`: serialization and propagation."""


def path(rtt_ms: int, hosts: int = 1, rate: str = "10Gbps") -> Network:
    """Return a dumbbell: hosts at 100 Gbps and 1 ms, and a bottleneck between the switches."""
    return dumbbell(
        hosts=hosts, bottleneck_rate=rate, host_delay="1ms", bottleneck_delay=f"{rtt_ms // 2 - 2}ms"
    )


def transfer(
    network: Network,
    packets: list[int],
    *,
    starts_ps: list[int] | None = None,
    buffer_bytes: int = DEEP,
    loss: float = 0.0,
    back: float = 0.0,
    hits: tuple[tuple[int, int], ...] = (),
    seed: int = 1,
    **params: Any,
) -> Engine:
    """Run flow i with ``packets[i]`` packets from left to right over the bottleneck. The bottleneck
    loses packets at rate ``loss``, its way back at rate ``back``, and every full packet sent in one
    of the intervals ``hits`` is lost."""
    n = len(packets)
    starts_ps = starts_ps or [0] * n
    flows = [(i, n + i, packets[i] * PAYLOAD, starts_ps[i]) for i in range(n)]
    port = bottleneck(network)
    send_ps = int(FULL * 8e12 / network.port_rate_bps[port])
    faults = [LinkFault(np.array([port]), loss=loss), *(hit(port, *one, send_ps) for one in hits)]
    if back:
        faults.append(LinkFault(network.port_peer[[port]], loss=back))
    given = {"packets": PACKETS, "faults": combine(faults, network.n_ports), "params": params}
    fabric = fabric_with(queue_bytes=buffer_bytes)
    return build(network, flow_table(flows), "cubic", fabric, seed=seed, **given)


def sender(engine: Engine, field: str, flow: int = 0) -> Any:
    return engine.state.hosts.tx[field][flow]


def lost(engine: Engine) -> int:
    """Packets that the faulty link lost."""
    return int(engine.link_counters().lost_packets.sum())


def test_cube_root() -> None:
    for a in [1e-9, 0.3, 1.0, 7.0, 27.0, 1000.0, 6840.0, 1e12]:
        assert cubic.cube_root(a) == pytest.approx(a ** (1 / 3), rel=1e-12)


def test_slow_start_doubles_every_round_trip() -> None:
    """The rounds send 10, 20, 40, 80 and 50 packets: five rounds to deliver, six to acknowledge."""
    engine = run(transfer(path(60), [200]))
    assert_conserved(engine)
    assert 270 * MS < fct_ps(engine)[0] < 271 * MS
    assert 300 * MS < acked_ps(engine)[0] < 301 * MS
    assert counter(engine, "drops") == 0


def w_cubic(t_s: float, w_max: float) -> float:
    """The window t seconds after a loss at w_max; it starts at beta * w_max."""
    k = (w_max * (1 - BETA) / C) ** (1 / 3)
    return C * (t_s - k) ** 3 + w_max


@pytest.mark.slow
def test_window_after_a_loss_follows_the_cubic_function() -> None:
    """One packet of the first round is lost; K is 9.6 s. Nothing else limits the window."""
    hit = 3 * MS  # while the first thousand packets are on the bottleneck
    engine = transfer(path(60), [10**7], hits=((hit, hit + 1),), initial_window=1000)
    run(engine, int(2.5 * RTT))
    assert (lost(engine), sender(engine, "retransmits")) == (1, 1)
    assert sender(engine, "in_recovery") == 0
    w_max, epoch_ps = sender(engine, "w_max"), int(sender(engine, "epoch_ps"))
    assert sender(engine, "cwnd_prior") == w_max
    assert sender(engine, "ssthresh") == pytest.approx(BETA * w_max)
    errors = []
    for t_s in np.arange(0.2, 22.0, 0.2):
        run(engine, epoch_ps + int(t_s * S))
        errors.append(sender(engine, "cwnd") / w_cubic(t_s, w_max) - 1)
    assert sender(engine, "cwnd") > 1.5 * w_max  # far beyond the plateau
    assert max(map(abs, errors)) < 0.005
    assert (lost(engine), counter(engine, "drops")) == (1, 0)


@pytest.mark.slow
def test_fast_convergence_lowers_w_max_after_a_second_loss() -> None:
    """Two losses a second apart: the second happens far below the first w_max (section 4.7)."""
    hits = tuple((t, t + 1) for t in (3 * MS, int(16 * RTT) + 3 * MS))
    w_max = {}
    for fast in (True, False):
        engine = transfer(path(60), [10**5], hits=hits, initial_window=1000, fast_convergence=fast)
        run(engine, int(19 * RTT))
        assert lost(engine) == 2
        assert 0.7 * 1279 < sender(engine, "cwnd_prior") < 0.95 * 1279
        w_max[fast] = sender(engine, "w_max") / sender(engine, "cwnd_prior")
    assert w_max == pytest.approx({True: (1 + BETA) / 2, False: 1})


@pytest.mark.slow
def test_periodic_losses_give_the_window_of_the_rfc() -> None:
    """Section 5.1: with 1/p packets between losses the mean window is 1.054 (RTT / p^1/3)^3/4."""
    w_max = 1300
    period = round(((w_max * (1 - BETA) / C) ** (1 / 3) * S + 2 * RTT) / RTT)  # in round trips
    losses = [int(k * RTT) + 3 * MS for k in range(0, 5 * period, period)]
    hits = tuple((t, t + 1) for t in losses)
    engine = transfer(path(60), [10**7], hits=hits, initial_window=1020, fast_convergence=False)
    acked, peaks = [], []
    for t in losses:
        run(engine, t + 2 * int(RTT))
        acked.append(int(sender(engine, "n_acked")))
        peaks.append(sender(engine, "cwnd_prior"))
    assert lost(engine) == len(hits)
    assert peaks == pytest.approx([w_max] * len(hits), rel=0.02)
    p = 1 / np.diff(acked)
    window = np.diff(acked) / period
    assert window == pytest.approx(mean_window(p, 0.06), rel=0.03)


def mean_window(p: Any, rtt_s: float) -> Any:
    """RFC 9438, section 5.1, figure 5."""
    return (C * (3 + BETA) / (4 * (1 - BETA))) ** 0.25 * rtt_s**0.75 / p**0.75


def mean_window_of_random_losses(p: float, rtt_s: float, n_losses: int) -> float:
    """CUBIC without a network: a window per round trip and random losses, found a round later."""
    rng = np.random.default_rng(1)
    w_max = prior = est = w = mean_window(p, rtt_s)
    alpha = 3 * (1 - BETA) / (1 + BETA)
    sent = rounds = losses = 0
    k = t = 0.0
    next_loss = rng.geometric(p)

    def send() -> bool:
        nonlocal sent, rounds, next_loss
        sent += w
        rounds += 1
        hit = sent >= next_loss
        while sent >= next_loss:
            next_loss += rng.geometric(p)
        return hit

    hit = False
    while losses < n_losses:
        again = send()
        if hit:
            losses += 1
            w_max = w * (1 + BETA) / 2 if w < w_max else w
            prior, w, est, t = w, BETA * w, BETA * w, 0.0
            again = send()
            k = max(0.0, (w_max - w) / C) ** (1 / 3)
            w_max = max(w, w_max)
        else:
            t += rtt_s
            est += alpha if est < prior else 1.0
            w = max(w, est, min(C * (t - k) ** 3 + w_max, 1.5 * w))
        hit = again
    return sent / rounds


@pytest.mark.slow
@pytest.mark.parametrize(
    ("rtt_ms", "p", "n"), [(200, 1e-4, 3 * 10**6), (200, 3e-5, 10**7), (60, 1e-5, 2 * 10**7)]
)
def test_random_losses_give_the_expected_window(rtt_ms: int, p: float, n: int) -> None:
    """Compare with the RFC's formula, which assumes even spacing, and a model of random losses."""
    window = mean_window(p, rtt_ms / 1e3)
    engine = transfer(path(rtt_ms, rate="100Gbps"), [n], loss=p, initial_window=round(window))
    now = 0
    while sender(engine, "n_acked") < n // 5:  # slow start ended far above
        now += 5 * S
        run(engine, now)
    acked, found = int(sender(engine, "n_acked")), lost(engine)
    run(engine)
    took_s = (acked_ps(engine)[0] - now) / S
    measured = (n - acked) / took_s * rtt_ms / 1e3
    p = (lost(engine) - found) / (n - acked)
    assert sender(engine, "retransmits") == lost(engine)
    assert measured == pytest.approx(mean_window(p, rtt_ms / 1e3), rel=0.2)
    expected = mean_window_of_random_losses(p, rtt_ms / 1e3, 5000)
    assert measured == pytest.approx(expected, rel=0.08)


@pytest.mark.slow
def test_flow_without_loss_fills_the_path() -> None:
    """HyStart++ ends slow start by delay; then the bottleneck is never idle and nothing drops."""
    engine = transfer(path(60), [10**6])
    run(engine, 3 * S)
    assert 8_334 < sender(engine, "ssthresh") < 1e18
    before = counter_of_bottleneck(engine)
    run(engine, 4 * S)
    assert counter_of_bottleneck(engine) - before == pytest.approx(10**10 / 8, rel=1e-4)
    assert counter(engine, "drops") == 0
    assert sender(engine, "retransmits") == 0


def counter_of_bottleneck(engine: Engine) -> int:
    """Bytes that the bottleneck has sent."""
    return int(engine.link_counters().sent_bytes[bottleneck(engine.network)])


@pytest.mark.slow
def test_staggered_flows_share_the_bottleneck_fairly() -> None:
    """Eight flows over 1 Gbps start 370 ms apart: the link stays busy, shares are nearly equal."""
    network = path(22, hosts=8, rate="1Gbps")
    starts = [i * 370 * MS for i in range(8)]
    engine = transfer(network, [10**6] * 8, starts_ps=starts, buffer_bytes=2_750_000)
    run(engine, 10 * S)
    payload = np.array(engine.flow_states().received_bytes)
    sent = counter_of_bottleneck(engine)
    run(engine, 50 * S)
    shares = (np.array(engine.flow_states().received_bytes) - payload).astype(float)
    assert counter_of_bottleneck(engine) - sent > 0.995 * 40 * 10**9 / 8
    assert shares.sum() ** 2 / (8 * (shares**2).sum()) > 0.95
    tx = engine.state.hosts.tx
    assert int(tx["retransmits"].sum()) <= counter(engine, "drops") > 100
    assert_conserved(engine)


def test_slow_start_in_a_datacenter_ends_before_a_queue_has_lost_a_window() -> None:
    """The round trip is 13 us and the queue holds 100 packets. With RFC 9406's minimum of 4 ms,
    168 packets are dropped. The ACK train ends slow start when the path is full, before the delay
    has grown by half a round trip."""
    builder = NetworkBuilder()
    hosts, switch = builder.add_hosts(2), builder.add_switch("s")
    builder.cable(hosts[0], switch, 100 * 10**9, 3 * US)
    builder.cable(hosts[1], switch, 50 * 10**9, 3 * US)
    fabric = changed(DROP_TAIL, queue_bytes=100 * PACKET)
    flows, network = flow_table([(0, 1, 600 * 4096, 0)]), builder.build("slower")
    drops = []
    for params in ({}, {"hystart_train": 0.0}, {"initial_ssthresh": "64KiB"}):
        engine = run(build(network, flows, "cubic", fabric, params=params, jit=False))
        drops.append(int(counter(engine, "drops")))
    assert drops[0] == drops[2] == 0
    assert 0 < drops[1] < 60


class HyStart:
    """HyStart++ as in RFC 9406, section 4.2, with windows in packets; `phases` names those
    entered."""

    def __init__(self, cwnd: float, params: dict[str, Any]) -> None:
        self.cwnd, self.phases = cwnd, ["slow start"]
        given = {"hystart_divisor": 8, "hystart_samples": 8, "css_divisor": 4, "css_rounds": 5}
        self.given = given | {"hystart_burst": 8, "hystart_max": "16ms"} | params
        self.window_end = 0  # SND.NXT before the first packet
        self.last_min = self.current_min = self.baseline = float("inf")
        self.samples = self.rounds = 0

    def enter(self, phase: str) -> None:
        self.phases.append(phase)
        self.rounds = 0

    def acknowledge(self, n: int, rtt_ps: int, snd_una: int, snd_nxt: int) -> None:
        """Process the ACK of n packets."""
        given, css = self.given, self.phases[-1] == "css"
        if snd_una > self.window_end:
            self.window_end = snd_nxt
            self.last_min, self.current_min = self.current_min, float("inf")
            self.samples = 0
            self.rounds += 1
        self.cwnd += min(n, given["hystart_burst"]) / (given["css_divisor"] if css else 1)
        self.current_min = min(self.current_min, rtt_ps)
        self.samples += 1
        if css and self.rounds == given["css_rounds"]:
            self.enter("congestion avoidance")
        elif self.samples < given["hystart_samples"]:
            return
        elif css and self.current_min < self.baseline:
            self.enter("slow start")
        elif not css and self.last_min < float("inf"):
            least, most = (parse_time_ps(given[f"hystart_{name}"]) for name in ("min", "max"))
            threshold = max(least, min(self.last_min / given["hystart_divisor"], most))
            if self.current_min >= self.last_min + threshold:
                self.baseline = self.current_min
                self.enter("css")


def test_hystart_follows_its_rfc_for_any_round_trips() -> None:
    """Random constants, and round-trip times that wander: every window and phase is the RFC's."""
    entered = []
    for seed in range(40):
        rng = np.random.default_rng(seed)
        names = ("hystart_divisor", "hystart_samples", "css_divisor", "css_rounds", "hystart_burst")
        params = dict(zip(names, rng.integers(1, (20, 12, 6, 6, 4)).tolist(), strict=True))
        params |= {"hystart_min": "1us", "hystart_max": f"{rng.integers(2, 9)}us"}
        rfc = HyStart(4, params)
        times = {name: parse_time_ps(params[name]) for name in ("hystart_min", "hystart_max")}
        par = SimpleNamespace(hystart=1, hystart_train=0.0, **params | times)
        tx = SimpleNamespace(
            cwnd=4.0, ssthresh=cubic.UNLIMITED, rounds=0, full_round=0, base_rtt_ps=0, css_rounds=0,
            css_baseline_ps=0, round_samples=0, round_min_ps=cubic.INF, last_min_ps=cubic.INF,
        )  # fmt: skip
        una, rtt_ps = 0, 20 * US
        while una < 2000 and tx.ssthresh == cubic.UNLIMITED:
            tx.newly_acked = int(rng.integers(1, 5))
            rtt_ps += int(rng.normal(0.02, 0.3) * US)
            tx.last_rtt_ps = rtt_ps
            una += tx.newly_acked
            next_seq = una + int(tx.cwnd)
            new_round = una > rfc.window_end
            rfc.acknowledge(tx.newly_acked, rtt_ps, una, next_seq)
            cubic.slow_start(SimpleNamespace(par=par), 0, tx, new_round)
            assert abs(tx.cwnd - rfc.cwnd) < 1e-9
            assert (tx.css_rounds > 0) == (rfc.phases[-1] != "slow start")
        assert (tx.ssthresh == tx.cwnd) == (rfc.phases[-1] == "congestion avoidance")
        entered.append(len(rfc.phases))
    assert min(entered) < 3 < max(entered)


STEP = 1000 * rtt.UNIT_PS
SHORT = {"hystart_min": "3us", "hystart_train": 0.0}


@pytest.mark.parametrize(
    ("delay", "packets", "params", "phases"),
    [
        (3, 300, {"hystart_min": "4ms", "hystart_train": 0.0}, []),  # the preset rfc9406
        (3, 1000, SHORT, ["css", "congestion avoidance"]),
        (30, 400, SHORT, ["css", "slow start"]),
    ],
)
def test_hystart_of_a_flow_follows_its_rfc(
    monkeypatch: pytest.MonkeyPatch,
    delay: int, packets: int, params: dict[str, Any], phases: list[str],
) -> None:  # fmt: skip
    """A flow over a slower link, and on the longer path 30 packets of another flow ahead of its
    second round. All times are multiples of the resolution of time stamps, so rounds are exact."""
    builder = NetworkBuilder()
    hosts, switch = builder.add_hosts(3), builder.add_switch("s")
    for host, gbps in zip(hosts, (100, 25, 100), strict=True):
        builder.cable(host, switch, gbps * 10**9, delay * STEP)
    params = params | {"initial_window": delay}
    rfc, errors, slow_start = HyStart(delay, params), [], cubic.slow_start

    def compare(env: Any, now: int, tx: Any, new_round: int) -> None:
        slow_start(env, now, tx, new_round)
        if packets == tx.n_packets > tx.next_seq:
            rfc.acknowledge(tx.newly_acked, tx.last_rtt_ps, tx.high, tx.next_seq)
            errors.append(tx.cwnd - rfc.cwnd)

    monkeypatch.setattr(cubic, "slow_start", compare)
    flows = [(0, 1, packets * 4096, 0), (2, 1, 30 * 4096, 112 * STEP)][: 1 if delay == 3 else 2]
    fabric, network = changed(DROP_TAIL, queue_bytes=DEEP), builder.build("slower")
    run(build(network, flow_table(flows), "cubic", fabric, params=params, jit=False))
    assert max(map(abs, errors)) < 1e-9
    assert rfc.phases == ["slow start", *phases]


FORTH = 30 * MS + 8.64 * US  # one-way time of a full packet over `path(60)`
GAP = 7.2 * US  # transmission time of a full packet on the bottleneck


def at_bottleneck(sent_ps: float, packet: int = 0) -> tuple[int, int]:
    """Interval in which the bottleneck sends only this packet of a burst sent at `sent_ps`."""
    begin = int(sent_ps + MS + 0.72 * US + (packet + 0.5) * GAP)
    return begin, begin + 1


def burst(*hits: tuple[int, int], packets: int = 100, **params: Any) -> Engine:
    """A flow whose first 100 packets are sent at once."""
    return run(transfer(path(60), [packets], hits=hits, initial_window=100, **params))


def test_burst_without_loss_takes_the_ideal_time() -> None:
    assert fct_ps(burst())[0] == pytest.approx(FORTH + 99 * GAP, abs=10)


def test_single_loss_costs_one_round_trip() -> None:
    """Packet 50 is sent again when the third duplicate ACK, that of packet 53, arrives."""
    engine = burst(at_bottleneck(0, 50))
    assert fct_ps(engine)[0] == pytest.approx(RTT + 53 * GAP + FORTH, abs=10)
    assert (lost(engine), sender(engine, "retransmits")) == (1, 1)
    assert sender(engine, "ssthresh") == pytest.approx(BETA * 50)  # 50 to 99 were in flight


def test_lost_tail_is_repaired_by_a_probe() -> None:
    """RFC 8985, section 7: the probe is sent 2 SRTT after the last ACK and takes a one-way trip."""
    engine = burst(at_bottleneck(0, 99))
    assert fct_ps(engine)[0] == pytest.approx(RTT + 98 * GAP + 2 * RTT + FORTH, abs=10_000)
    assert sender(engine, "retransmits") == 1
    # The probe's ACK reveals the other two losses; PRR sends one packet per ACK.
    three = burst(*(at_bottleneck(0, packet) for packet in (97, 98, 99)))
    assert fct_ps(three)[0] == pytest.approx(RTT + 96 * GAP + 4 * RTT + FORTH, abs=10_000)
    assert sender(three, "retransmits") == 3


def test_lost_tail_without_probes_costs_a_timeout() -> None:
    engine = burst(at_bottleneck(0, 99), tail_loss_probe=False)
    timeout = RTT + 200 * MS
    assert fct_ps(engine)[0] == pytest.approx(RTT + 98 * GAP + timeout + FORTH, abs=10_000)


def test_lost_retransmission_is_detected_without_a_timeout() -> None:
    """RACK detects it a round trip after it was sent, plus a quarter for reordering at most."""
    again = RTT + 53 * GAP
    engine = transfer(
        path(60), [1000], hits=(at_bottleneck(0, 50), at_bottleneck(again)), initial_window=100
    )
    run(engine, int(again + 0.99 * RTT))
    assert (lost(engine), sender(engine, "retransmits")) == (2, 1)
    run(engine, int(again + 1.3 * RTT))
    assert sender(engine, "retransmits") == 2
    run(engine, int(again + 2.3 * RTT))
    assert sender(engine, "una") > 100
    run(engine)
    assert sender(engine, "retransmits") == 2


def test_retransmission_timeout_doubles() -> None:
    """The link is down for 2.5 s, so the packet goes at 0, 1 s and 3 s."""
    engine = run(transfer(path(60), [1], hits=((0, 2_500 * MS),)))
    assert fct_ps(engine)[0] == pytest.approx(3 * S + FORTH, abs=10)
    assert sender(engine, "retransmits") == 2


def test_window_restarts_at_one_after_a_timeout() -> None:
    """The link is down for the second round of slow start, which starts at 100 packets."""
    down = int(RTT) - 5 * MS, int(2 * RTT) - 5 * MS
    engine = transfer(path(60), [1200], hits=(down,), initial_window=100, tail_loss_probe=False)
    run(engine, int(RTT + 99 * GAP + RTT + 200 * MS) + MS)
    assert sender(engine, "cwnd") == 1
    assert sender(engine, "in_recovery") == 2
    assert sender(engine, "ssthresh") == pytest.approx(BETA * 200, abs=1)
    run(engine)
    assert sender(engine, "retransmits") == lost(engine) == 200


@pytest.mark.slow
def test_lost_acknowledgments_cause_no_retransmissions() -> None:
    """One ACK in ten is lost; the next ACK carries the same information."""
    engine = run(transfer(path(60), [20_000], back=0.1))
    assert lost(engine) > 1000
    assert sender(engine, "retransmits") <= 1  # a probe, if the last ACK was lost


@pytest.mark.parametrize("loss", [0.01, 0.3])
@pytest.mark.parametrize("back", [0.0, 0.2])
def test_random_losses_are_all_repaired(loss: float, back: float) -> None:
    """Everything arrives; without lost ACKs no packet that arrived is sent again."""
    network = path(6, hosts=3, rate="1Gbps")
    forward = bottleneck(network)
    links = {forward: loss, int(network.port_peer[forward]): back}
    faults = [LinkFault(np.array([port]), loss=p) for port, p in links.items()]
    flows = flow_table([(i, 3 + i, (1, 40, 700)[i] * PAYLOAD - 1, i * MS) for i in range(3)])
    given = {"packets": PACKETS, "faults": combine(faults, network.n_ports)}
    engine = run(build(network, flows, "cubic", fabric_with(queue_bytes=40 * FULL), **given))
    tx = engine.state.hosts.tx
    assert np.array(tx["finished"]).tolist() == [1, 1, 1]
    assert (np.array(tx["n_acked"]) == np.array(tx["n_packets"])).all()
    if back == 0:
        assert int(tx["retransmits"].sum()) == lost(engine) + counter(engine, "drops") > 0


@pytest.mark.slow
def test_slow_start_overshoot_is_repaired_once() -> None:
    """A small buffer drops thousands of packets in one round trip; each is sent again once."""
    engine = run(transfer(path(60), [100_000], buffer_bytes=2000 * FULL))
    assert counter(engine, "drops") > 1000
    assert sender(engine, "retransmits") == counter(engine, "drops")
    assert fct_ps(engine)[0] < 2 * S
    assert_conserved(engine)
