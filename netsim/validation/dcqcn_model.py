"""DCQCN's state machine without packets: rates and a fluid queue.

Written from Zhu et al., SIGCOMM 2015, section 3.1, not from `netsim.transports.dcqcn`. The queue is
dq/dt = sum of rates - C. Each packet of a step is marked at random, as by RED. A mark triggers a
CNP if the flow's last CNP is long enough ago.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numba import njit
from numpy.typing import NDArray

PENDING = 4096  # most CNPs of a flow in flight


@dataclass(frozen=True)
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
        """Return the mean queue between two times, with ``n`` flows that start 100 us apart."""
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
