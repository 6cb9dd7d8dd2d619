"""Collectives simulated on one switch, against their closed forms."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np

from netsim.accuracy.bed import GBPS, US, simulated, star
from netsim.accuracy.cases import EXACT, Case, Row
from netsim.workloads.collectives import ALGORITHMS, CollectiveOptions, Wire, closed_form_ps
from netsim.workloads.operations import Operations

PAYLOAD, HEADER, RATE_BPS = 4096, 64, 100 * GBPS
CHUNKED, PAIRWISE = ("ring", "pat", "chain"), ("halving_doubling", "binomial_tree")
"""Algorithms that send in chunks, and those that are exact for powers of two only."""

ABOUT = ("double_binary_tree", "in_network")
"""Algorithms whose closed forms are approximate, or need switches that reduce."""


def collectives(algorithm: str) -> Iterator[Row]:
    """Compare all collectives of an algorithm."""
    for what in ALGORITHMS[algorithm].WHATS:
        n = 4 if algorithm in PAIRWISE else 6
        size = 0 if what == "barrier" else 4 * n * PAYLOAD
        chunk = PAYLOAD if algorithm in CHUNKED else None
        how = CollectiveOptions(algorithm, latency_ps=1_500_000, chunk_bytes=chunk, node=2)
        # Two links of 1 us, and a switch between them that sends the last packet once more.
        last_ps = ((PAYLOAD if size else 1) + HEADER) * 8 * 10**12 // RATE_BPS
        wire = Wire(RATE_BPS, last_ps + 2 * US, PAYLOAD, HEADER)
        ops = Operations(n)
        ops.collective(what, np.arange(n), size, how)
        load = ops.lower(np.arange(n))
        yield Row(
            f"{algorithm}: {what} of {n} GPUs",
            simulated(star(n, RATE_BPS), load) / US,
            closed_form_ps(what, n, size, wire, how) / US,
            "us",
            EXACT,
            "steps of latency, serialization and delay, in the order of the algorithm",
        )


def cases() -> Iterator[Case]:
    for name in ALGORITHMS:
        if name not in ABOUT:
            yield Case(f"collective_{name}", partial(collectives, name), 0.2, quick=True)
