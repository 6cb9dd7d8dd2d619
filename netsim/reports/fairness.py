"""Fairness: Jain's index of the throughputs of flows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from netsim.engine.engine import Engine
from netsim.model.arithmetic import byte_quotient, send_time
from netsim.model.fabric import DROP_TAIL
from netsim.results.columns import Metric
from netsim.results.run_result import Run
from netsim.units import format_time

if TYPE_CHECKING:
    from numpy.typing import NDArray

SWEEP = (
    Metric(
        "jain_index",
        "1",
        "Jain's fairness index of the finished flows' throughputs: 1 if all are equal, 1/n if one "
        "of n has all",
        rank=12,
    ),
)
ORDER = 12

LONG_PACKETS, UNEQUAL = 100, 0.1
"""Flows of so many packets are compared, and a difference of so much of their bytes is named."""


def report(run: Run) -> dict[str, Any]:
    """Return Jain's index (DEC-TR-301) of size / completion time, if a flow finished."""
    flows = run.tables["flows"]
    done = flows["fct_ps"] > 0
    rates = flows["size_bytes"][done] / flows["fct_ps"][done]
    total = float(np.square(rates).sum())
    return {"jain_index": float(rates.sum() ** 2 / (rates.size * total))} if total > 0 else {}


def lines(summary: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the index."""
    if "jain_index" in summary:
        yield "Jain's fairness index", f"{summary['jain_index']:.3f}"


def locked_senders(engine: Engine, keep_pace: NDArray[np.bool_], packet_bytes: int) -> str:
    """Return a note if some long flows to a host lost far more than others at drop-tail queues,
    else "". Of flows, only those that `keep_pace` (bool[n_flows]) whatever is lost are compared.

    Simulated clocks do not drift, so such senders stay in step (MODEL.md, "No favorites").
    """
    if engine.fabric.queue_discipline != DROP_TAIL or engine.fabric.host_jitter_ps:
        return ""
    states, dst = engine.flow_states(), engine.flows.dst
    chosen = keep_pace & (states.finished != 0) & (states.sent_packets >= LONG_PACKETS)
    lost = 1 - states.received_bytes[chosen] / states.size_bytes[chosen]
    most, least = np.zeros(engine.network.n_hosts), np.ones(engine.network.n_hosts)
    np.maximum.at(most, dst[chosen], lost)
    np.minimum.at(least, dst[chosen], lost)
    host = int(np.argmax(most - least))
    if most[host] - least[host] < UNEQUAL:
        return ""
    slowest = engine.network.port_rate_bps[: engine.network.n_host_ports].min(keepdims=True)
    packet_ps = int(send_time(packet_bytes, byte_quotient(slowest))[0])
    return (
        f"flows to host {host} lost {least[host]:.0%} to {most[host]:.0%}: without losses to react "
        f"to, senders stay in step at a full drop-tail queue, since simulated clocks do not drift; "
        f'add host_jitter = "{format_time(packet_ps, 3)}" to [fabric]'
    )
