"""Collectives simulated on one switch, against their closed forms."""

from __future__ import annotations

import numpy as np

from netsim.conformance.networks import star
from netsim.validation.bed import GBPS, US, simulated
from netsim.validation.laws import CONTROL, PAYLOAD, Measured
from netsim.workloads.collectives import ALGORITHMS, closed_form_ps
from netsim.workloads.collectives.steps import CollectiveOptions, Wire
from netsim.workloads.operations import Operations

RATE_BPS = 100 * GBPS


def collectives(algorithm: str, n: int = 6, chunk_bytes: int | None = None) -> Measured:
    """Measure all collectives of an algorithm among n GPUs."""
    for what in ALGORITHMS[algorithm].whats:
        size = 0 if what == "barrier" else 4 * n * PAYLOAD
        how = CollectiveOptions(algorithm, latency_ps=1_500_000, chunk_bytes=chunk_bytes, node=2)
        # Two links of 1 us, and a switch between them that sends the last packet once more.
        last_ps = ((PAYLOAD if size else 1) + CONTROL) * 8 * 10**12 // RATE_BPS
        wire = Wire(RATE_BPS, last_ps + 2 * US, PAYLOAD, CONTROL)
        ops = Operations(n)
        ops.collective(what, np.arange(n), size, how)
        load = ops.lower(np.arange(n))
        yield {
            "title": f"{algorithm}: {what} of {n} GPUs",
            "ours": simulated(star(n, RATE_BPS), load) / US,
            "theirs": closed_form_ps(what, n, size, wire, how) / US,
        }
