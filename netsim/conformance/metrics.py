"""Cases that measure slowdown, fairness and utilization of a bottleneck."""

from __future__ import annotations

import numpy as np

from netsim.conformance import networks
from netsim.conformance.finding import NotApplicableError
from netsim.conformance.flow_patterns import PACKET
from netsim.conformance.testbed import Testbed, run_until
from netsim.model.fabric import PacketFormat
from netsim.model.flows import FlowTable

FLOWS = 4
START_PS = 100_000_000
"""Time between the starts of two flows."""

SIZE_BYTES = 10**9
HALF_PS = 20 * 10**9
"""Times for which endless flows settle, and are then measured."""


def jain(shares: np.ndarray) -> float:
    """Jain's fairness index: 1 if all shares are equal, 1/n if one has everything.

    Jain, Chiu and Hawe, DEC-TR-301, 1984.
    """
    total = float(shares.sum())
    return total * total / (shares.size * float((shares * shares).sum())) if total else 0.0


def alone(testbed: Testbed) -> dict[str, float]:
    metrics = {}
    for n in (1, testbed.packets(10), testbed.packets(100)):
        run = testbed.run(FlowTable([0], [7], n * PACKET))
        metrics[f"slowdown of {n} packet" + "s" * (n > 1)] = float(run.slowdown()[0])
    return metrics


def slow_alone(metrics: dict[str, float]) -> str:
    """Return a warning if the longest flow takes over 1 % longer than the idle network allows."""
    slowdown = [*metrics.values()][-1]
    if slowdown <= 1.01:
        return ""
    return "alone it takes longer than the network: slow start, or a rate or window too small?"


def shared_link(testbed: Testbed) -> dict[str, float]:
    """Four flows over one link between two switches, each to its own host."""
    src = np.arange(FLOWS)
    return _measure(testbed, FlowTable(src, src + FLOWS, SIZE_BYTES, src * START_PS))


def shared_receiver(testbed: Testbed) -> dict[str, float]:
    src = np.arange(FLOWS)
    return _measure(testbed, FlowTable(src + FLOWS, 0, SIZE_BYTES, src * START_PS))


def _measure(testbed: Testbed, flows: FlowTable) -> dict[str, float]:
    engine = testbed.engine(flows, networks.dumbbell(FLOWS), jit=True)
    run_until(engine, HALF_PS)
    before = np.array(engine.flow_states().received_bytes)
    run_until(engine, 2 * HALF_PS)
    got = (engine.flow_states().received_bytes - before).astype(float)
    if not got.any():
        raise NotApplicableError("nothing arrived while measuring")
    packets = PacketFormat()
    most = networks.RATE_BPS / 8e12 * HALF_PS * packets.payload_bytes / packets.data_bytes
    queue = int(engine.link_counters().max_queue_bytes.max()) / packets.data_bytes
    return {
        "Jain index": jain(got),
        "share of the link": float(got.sum()) / most,
        "largest queue in packets": queue,
    }
