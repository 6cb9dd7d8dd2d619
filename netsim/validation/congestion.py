"""Transports and queues against their authors' models: long flows on a shared link, SRPT.

DCQCN is compared with a packet-free model of its state machine, written from Zhu et al., SIGCOMM
2015, section 3.1, not from `netsim.transports.dcqcn`: rates and a fluid queue, with dq/dt = (sum of
rates) - C. Each packet of a step is marked at random, as by RED. A mark triggers a CNP if the
flow's last CNP was long enough ago.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from netsim.conformance.networks import star
from netsim.frozen import frozen
from netsim.model.fabric import PacketFormat
from netsim.model.faults import LinkFault, combine
from netsim.network import NetworkBuilder
from netsim.validation.bed import (
    GBPS,
    MS,
    US,
    Bed,
    PortUse,
    S,
    bottleneck,
    dumbbell,
    fct_ps,
    port_to,
    run_until,
    watch,
)
from netsim.validation.laws import PACKET, PAYLOAD, Measured

PENDING = 4096  # most CNPs of a flow in flight


@frozen
class DcqcnModel:
    """A bottleneck and the parameters, in bits, bytes and seconds."""

    rate_bps: float
    packet_bytes: float
    kmin_bytes: float
    kmax_bytes: float
    pmax: float
    round_trip_s: float
    most_bytes: float
    ai_bps: float = 40e6
    hai_bps: float = 200e6
    min_bps: float = 100e6
    g: float = 1 / 256
    cnp_s: float = 50e-6
    timer_s: float = 55e-6
    counter_bytes: float = 10e6
    fast: int = 5

    def mean_queue_bytes(self, n: int, seconds: tuple[float, float], seed: int = 1) -> float:
        """Return the mean queue in a time span, with ``n`` flows that start 100 us apart."""
        link = (self.rate_bps, self.packet_bytes, self.round_trip_s, self.most_bytes)
        bottleneck = np.array(link)
        red = np.array([self.kmin_bytes, self.kmax_bytes, self.pmax])
        steps = np.array([self.ai_bps, self.hai_bps, self.min_bps, self.g])
        clocks = np.array([self.cnp_s, self.timer_s, self.counter_bytes, float(self.fast)])
        span = np.array(seconds)
        return float(_mean_queue(n, bottleneck, red, steps, clocks, span, seed))


@njit(cache=False)  # type: ignore[untyped-decorator]
def _mean_queue(
    n: int,
    bottleneck: NDArray[np.float64],
    red: NDArray[np.float64],
    steps: NDArray[np.float64],
    clocks: NDArray[np.float64],
    span: NDArray[np.float64],
    seed: int,
) -> float:
    np.random.seed(seed)
    line, packet, trip, most = bottleneck
    kmin, kmax, pmax = red
    ai, hai, least, g = steps
    cnp, timer, counter, fast = clocks
    dt = 0.2e-6
    rate, target = np.full(n, line), np.full(n, line)
    alpha, alpha_at = np.ones(n), np.full(n, np.inf)
    rises_t, rises_b, sent = np.zeros(n), np.zeros(n), np.zeros(n)
    timer_at, marked_again = np.full(n, np.inf), np.zeros(n)
    cnp_at, came, made = np.zeros((n, PENDING)), np.zeros(n, np.int64), np.zeros(n, np.int64)
    queue, total, looks = 0.0, 0.0, 0
    for step in range(int(span[1] / dt)):
        now = step * dt
        chance = 1.0 if queue > kmax else max(0.0, (queue - kmin) / (kmax - kmin) * pmax)
        inflow = 0.0
        for i in range(n):
            if now < i * 100e-6:
                continue
            inflow += rate[i]
            n_packets = rate[i] * dt / 8 / packet
            if now >= marked_again[i] and np.random.random() < 1 - (1 - chance) ** n_packets:
                marked_again[i] = now + cnp
                cnp_at[i, made[i] % PENDING] = now + trip + queue * 8 / line
                made[i] += 1
            up = False
            if rate[i] < line:
                sent[i] += rate[i] * dt / 8
                if sent[i] >= counter:
                    sent[i], up = 0.0, True
            by_timer = now >= timer_at[i]
            for what in range(2):
                if not (up if what == 0 else by_timer):
                    continue
                few, many = min(rises_t[i], rises_b[i]), max(rises_t[i], rises_b[i])
                if many >= fast:
                    target[i] += ai if few <= fast else hai * (few - fast)
                    target[i] = min(target[i], line)
                rate[i] = (rate[i] + target[i]) / 2
                if what == 0:
                    rises_b[i] += 1
                else:
                    rises_t[i] += 1
                    timer_at[i] = now + timer
            if now >= alpha_at[i]:
                alpha[i] *= 1 - g
                alpha_at[i] = now + timer
            if came[i] < made[i] and now >= cnp_at[i, came[i] % PENDING]:
                came[i] += 1
                target[i] = rate[i]
                rate[i] = max(rate[i] * (1 - alpha[i] / 2), least)
                alpha[i] += g * (1 - alpha[i])
                alpha_at[i] = timer_at[i] = now + timer
                rises_t[i] = rises_b[i] = sent[i] = 0.0
        if queue >= most:  # all are paused; inflow equals outflow
            inflow = min(inflow, line)
        queue = max(0.0, queue + (inflow - line) * dt / 8)
        if now >= span[0]:
            total += queue
            looks += 1
    return total / looks


ETHERNET = PacketFormat(payload_bytes=1436, header_bytes=64)
JUMBO = PacketFormat(payload_bytes=8936, header_bytes=64)
KILOBYTE = PacketFormat(payload_bytes=1000)
TRIP_S = 60e-3  # round trip of long paths: two links of 1 ms and one of 28 ms each way


def _long_path(
    transport: str, n: int, rate_bps: int, gap_ps: int, window: tuple[int, int], **bed: Any
) -> PortUse:
    """Watch the bottleneck of n endless flows on a long path, which start `gap_ps` apart."""
    network = dumbbell(n, 10 * rate_bps, rate_bps, (MS, 28 * MS))
    engine = Bed(transport, network, **bed).engine(
        [(i, n + i, 10**11, i * gap_ps) for i in range(n)]
    )
    return watch(engine, bottleneck(network), *window, 7 * MS)


def dcqcn() -> Measured:
    """Measure the queue of 2 to 10 flows at 40 Gbps."""
    packets = PacketFormat(payload_bytes=1000, header_bytes=48)
    size, trip_s = packets.data_bytes, 2 * (1048 * 8 / 40e9 + 1e-6) + 2 * (64 * 8 / 40e9 + 1e-6)
    model = DcqcnModel(40e9, size, 5e3, 200e3, 0.01, trip_s, 12e6)
    for n in range(2, 11):
        expected = np.mean([model.mean_queue_bytes(n, (0.06, 0.3), seed) for seed in range(4)])
        held = []
        for seed in (1, 2):
            network = star(n + 1, 40 * GBPS)
            bed = Bed("dcqcn:paper-40g", network, packets=packets, seed=seed)
            flows = [(i + 1, 0, 10**11, i * 100 * US) for i in range(n)]
            seen = watch(bed.engine(flows), port_to(network, 0), 60 * MS, 180 * MS, 20 * US)
            held.append(seen.held.mean())
        yield {"n": n, "ours": float(np.mean(held)) / 1e3, "theirs": float(expected) / 1e3}


def dctcp() -> Measured:
    """Measure the mean of the sawtooth at 10 Gbps and 100 us; K is 65 packets of 1500 bytes."""
    full, k = ETHERNET.data_bytes, 65
    for n in (2, 8, 16):
        network = dumbbell(n, 40 * GBPS, 10 * GBPS, (10 * US, 30 * US))
        bed = Bed("dctcp:10g", network, packets=ETHERNET)
        engine = bed.engine([(i, n + i, 10**10, 0) for i in range(n)])
        seen = watch(engine, bottleneck(network), 20 * MS, 60 * MS, 2 * US)
        expected = dctcp_mean_queue(n, k, 10e9 * 100e-6 / 8 / full)
        yield {"n": n, "ours": float(seen.held.mean()) / full, "theirs": expected}


def dctcp_mean_queue(n: int, k: float, product: float) -> float:
    """Return K + N - A/2 with A = sqrt(2 N (C RTT + K)) / 2, all in packets. Alizadeh et al.,
    SIGCOMM 2010, section 3.3, for synchronized flows: between K + N - A and K + N."""
    return k + n - math.sqrt(2 * n * (product + k)) / 4


def dctcp_rates(ecn: Mapping[str, Any], wire: bool) -> Measured:
    """Measure the mean rate of three groups of flows in Mbps, with headers (`wire`) or without.

    Ten and twenty senders share a 10 Gbps link to the switch of ten others. The first and the last
    ten send to one host, the twenty to twenty hosts, all at 1 Gbps. Alizadeh et al., figure 17.
    """
    builder = NetworkBuilder()
    builder.add_hosts(61)
    left, right = builder.add_switch("left"), builder.add_switch("right")
    for host in range(61):
        builder.cable(host, left if host < 30 else right, GBPS, 10 * US)
    builder.cable(left, right, 10 * GBPS, 10 * US)
    packets = PacketFormat(payload_bytes=1448, header_bytes=54)
    fabric = {"queue_bytes": "4MB", "ecn": ecn}
    engine = Bed("dctcp:10g", builder.build("two"), fabric=fabric, packets=packets).engine(
        [(i, 30 + i if 10 <= i < 30 else 60, 10**9, i * 2 * MS) for i in range(40)]
    )
    received = []
    for until in (S // 2, S):
        run_until(engine, until)
        received.append(np.array(engine.flow_states().received_bytes))
    mbps = (received[1] - received[0]) * 8e-6 / 0.5
    factor = packets.data_bytes / packets.payload_bytes if wire else 1.0
    for group in (slice(10), slice(10, 30), slice(30, 40)):
        yield {"ours": float(mbps[group].mean()) * factor}


def hpcc() -> Measured:
    """Measure a shared link's utilization; theirs is the fixed point U of W = W eta / U + W_AI."""
    for n in (2, 8):
        network = dumbbell(n, 100 * GBPS, 100 * GBPS, (US, US))
        bed = Bed("hpcc:paper", network, packets=KILOBYTE)
        engine = bed.engine([(i, n + i, 10**9, i * 50 * US) for i in range(n)])
        seen = watch(engine, bottleneck(network), 7 * MS, 9 * MS, 3 * US)
        theirs = bed.testbed.params["eta"] + n * bed.testbed.params["ai_share"]
        yield {"n": n, "ours": seen.busy, "theirs": theirs}


def swift() -> Measured:
    """Measure the round trip to which flows converge."""
    for n in (2, 8):
        network = dumbbell(n, 100 * GBPS, 100 * GBPS, (US, US))
        bed = Bed("swift", network, fabric={"queue_bytes": "1000pkt"})
        engine = bed.engine([(i, n + i, 10**9, i * 50 * US) for i in range(n)])
        seen = watch(engine, bottleneck(network), 4 * MS, 6 * MS, 3 * US)
        trip_s = (3 * (PACKET + 64) * 8 / 100e9) + 6e-6
        values = bed.testbed.params
        keys = ("hop_scaling", "fs_range", "fs_min_window", "fs_max_window")
        hop, most, least, largest = (values[key] for key in keys)
        scaling = (hop / 1e12, most / 1e12, least, largest)
        target_s = trip_s
        for _ in range(100):  # each flow's window is its share of the bytes within the target
            window = 100e9 * target_s / 8 / PACKET / n
            target_s = swift_delay(window, 2, values["base_target"] / 1e12, scaling)
        ours_s = trip_s + (float(seen.held.mean()) - PACKET) * 8 / 100e9
        yield {"n": n, "ours": ours_s * 1e6, "theirs": target_s * 1e6}


def swift_delay(window: float, hops: int, base: float, scaling: Sequence[float]) -> float:
    """Return base + hops h + clamp(alpha / sqrt(w) + beta); Kumar et al., SIGCOMM 2020, 3.5."""
    hop, most, least_window, most_window = scaling
    alpha = most / (1 / math.sqrt(least_window) - 1 / math.sqrt(most_window))
    flow = alpha / math.sqrt(window) - alpha / math.sqrt(most_window)
    return base + hops * hop + min(max(flow, 0.0), most)


def expresspass() -> Measured:
    """Measure the share of a link that 84-byte credits leave for data."""
    for flows in ("1 flow", "8 flows"):
        n = int(flows[0])
        network = star(n + 1, 100 * GBPS)
        engine = Bed("expresspass", network).engine([(i + 1, 0, 10**9, 0) for i in range(n)])
        seen = watch(engine, port_to(network, 0), 1 * MS, 3 * MS, 10 * US)
        yield {"flows": flows, "ours": seen.busy, "theirs": PACKET / (PACKET + 84)}


def cubic() -> Measured:
    """Measure the time between losses of one flow that fills a buffer, at 1 Gbps and 60 ms."""
    network = dumbbell(1, 10 * GBPS, GBPS, (MS, 28 * MS))
    fabric = {"queue_bytes": f"{416 * JUMBO.data_bytes}B"}
    engine = Bed("cubic", network, {"fast_convergence": False}, fabric, JUMBO).engine(
        [(0, 1, 10**11, 0)]
    )
    losses: list[int] = []
    before = 0
    for at in range(0, 60 * S, 20 * MS):
        run_until(engine, at)
        drops = int(engine.link_counters().drops.sum())
        if drops > before and (not losses or at - losses[-1] > S):
            losses.append(at)
        before = drops
    w_max = 1e9 * TRIP_S / 8 / JUMBO.data_bytes + 416
    expected_s = cubic_epoch_s(w_max) + w_max * JUMBO.data_bytes * 8 / 1e9
    yield {"ours": float(np.diff(losses[1:]).mean()) / 1e12, "theirs": expected_s}


def cubic_epoch_s(w_max: float, c: float = 0.4, beta: float = 0.7) -> float:
    """Return K, the time after a loss at `w_max` packets to regain that window; RFC 9438."""
    return float(np.cbrt(w_max * (1 - beta) / c))


def bbr() -> Measured:
    """Measure the queue of one flow, which probes, and of two window-limited flows."""
    for n, rate_bps in ((1, GBPS), (2, GBPS // 10)):
        fabric = {"queue_bytes": "40000pkt"}
        seen = _long_path("bbr", n, rate_bps, 300 * MS, (4 * S, 9 * S), fabric=fabric)
        yield {"ours": float(seen.held.mean()) / (rate_bps * TRIP_S / 8)}


def bbr_loss(loss: float) -> Measured:
    """Measure a one-minute flow over 100 Mbps and 100 ms that loses packets before that link, in
    Mbps with headers."""
    network = dumbbell(1, GBPS, GBPS // 10, (MS // 2, 49 * MS))
    faults = combine([LinkFault(np.array([0]), loss=loss)], network.n_ports)
    engine = Bed("bbr", network, packets=ETHERNET).engine([(0, 1, 10**10, 0)], faults=faults)
    run_until(engine, 60 * S)
    packets = int(engine.flow_states().received_bytes[0]) / ETHERNET.payload_bytes
    yield {"ours": packets * ETHERNET.data_bytes * 8e-6 / 60, "theirs": 100 * (1 - loss)}


def pie() -> Measured:
    """Measure the delay of CUBIC flows through a PIE queue, at 100 Mbps and 60 ms."""
    rate_bps = GBPS // 10
    fabric = {"queue_discipline": str(Path(__file__).with_name("pie.py"))}
    for n in (5, 20, 50):
        bed: dict[str, Any] = {"fabric": fabric, "packets": ETHERNET}
        seen = _long_path("cubic", n, rate_bps, 10 * MS, (20 * S, 60 * S), **bed)
        yield {"n": n, "ours": float(seen.held.mean()) * 8e3 / rate_bps}


def shortest_first(transport: str, **params: Any) -> Measured:
    """Measure mean slowdowns of messages of 15 senders to one host, against an SRPT server.

    Arrivals are Poisson, at 70 % load. The first row has all messages, the second messages of up to
    10 packets.
    """
    senders, load, n_messages, packet_ps = 15, 0.7, 20_000, PACKET * 80
    rng = np.random.default_rng(1)
    packets = rng.choice((1, 3, 10, 100), n_messages, p=(0.5, 0.25, 0.15, 0.1))
    gap_ps = packets.mean() * PACKET * 8e12 / (100 * GBPS) / load
    starts = np.cumsum(rng.exponential(gap_ps, n_messages)).astype(int).tolist()
    flows = [
        (1 + i % senders, 0, int(n) * PAYLOAD, start)
        for i, (n, start) in enumerate(zip(packets, starts, strict=True))
    ]
    alone = (packets + 1) * packet_ps + 2 * US
    measured = fct_ps(Bed(transport, star(senders + 1, 100 * GBPS), params).engine(flows)) / alone
    served = srpt_times(starts, (packets * packet_ps).tolist())
    expected = (served + alone - packets * packet_ps) / alone
    for chosen in (packets > 0, packets <= 10):
        yield {"ours": float(measured[chosen].mean()), "theirs": float(expected[chosen].mean())}


def srpt_times(starts: Sequence[int], works: Sequence[int]) -> NDArray[np.int64]:
    """Return each job's time at a single server under preemptive SRPT; jobs are in start order."""
    done = np.zeros(len(starts), np.int64)
    waiting: list[tuple[int, int]] = []
    now, following = 0, 0
    while following < len(starts) or waiting:
        if not waiting:
            now = max(now, starts[following])
        while following < len(starts) and starts[following] <= now:
            heapq.heappush(waiting, (works[following], following))
            following += 1
        left, job = heapq.heappop(waiting)
        until = starts[following] if following < len(starts) else now + left
        if now + left <= until:
            now += left
            done[job] = now - starts[job]
        else:
            heapq.heappush(waiting, (left - (until - now), job))
            now = until
    return done
