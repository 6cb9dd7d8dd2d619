"""Closed forms from the literature, in bytes, seconds and bit/s."""

from __future__ import annotations

import heapq
import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray


def dctcp_mean_queue(n: int, k: float, product: float) -> float:
    """Return K + N - A/2 with A = sqrt(2 N (C RTT + K)) / 2, all in packets.

    Alizadeh et al., SIGCOMM 2010, section 3.3, for synchronized flows: between K + N - A and K + N.
    """
    return k + n - math.sqrt(2 * n * (product + k)) / 4


def hpcc_load(eta: float, n: int, ai_share: float) -> float:
    """Return the fixed point of W = W eta / U + W_AI: U = eta + n W_AI / W_max."""
    return eta + n * ai_share


def swift_delay(window: float, hops: int, base: float, scaling: Sequence[float]) -> float:
    """Return base + hops h + clamp(alpha / sqrt(w) + beta); Kumar et al., SIGCOMM 2020, 3.5."""
    hop, most, least_window, most_window = scaling
    alpha = most / (1 / math.sqrt(least_window) - 1 / math.sqrt(most_window))
    flow = alpha / math.sqrt(window) - alpha / math.sqrt(most_window)
    return base + hops * hop + min(max(flow, 0.0), most)


def credit_share(packet_bytes: int, credit_bytes: int) -> float:
    """Return the share of a link that credits leave for data."""
    return packet_bytes / (packet_bytes + credit_bytes)


def cubic_epoch(w_max: float, c: float = 0.4, beta: float = 0.7) -> float:
    """Return K, the seconds from a loss at ``w_max`` packets until it is regained; RFC 9438."""
    return float(np.cbrt(w_max * (1 - beta) / c))


def bbr_probing_queue(gain: float = 1.25, phases: int = 8) -> float:
    """Return a lone flow's mean queue, in bandwidth-delay products.

    It grows by gain - 1 in one of ``phases`` round trips and drains in the next.
    """
    return (gain - 1) / phases


def incast_bound(
    n: int, packets: int, packet_bytes: int, links: Sequence[tuple[float, float]]
) -> float:
    """Return the seconds until n flows arrive over links of (bit/s, delay), sharing the last."""
    first = sum(packet_bytes * 8 / rate + delay for rate, delay in links)
    return first + (n * packets - 1) * packet_bytes * 8 / links[-1][0]


def srpt_times(starts: Sequence[int], works: Sequence[int]) -> NDArray[np.int64]:
    """Return each job's time in one server under preemptive SRPT; jobs are in start order."""
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
