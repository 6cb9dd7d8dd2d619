"""CUBIC flows over one bottleneck, and access to their state."""

from __future__ import annotations

from typing import Any

import numpy as np
from engine_runs import (
    build,
    dumbbell,
    fabric_with,
    flow_table,
    hit,
)
from shared_link import bottleneck

from netsim.engine.engine import Engine
from netsim.model.fabric import PacketFormat
from netsim.model.faults import LinkFault, combine
from netsim.model.network import Network

US = 10**6
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
        hosts=hosts,
        bottleneck_rate=rate,
        host_delay="1ms",
        bottleneck_delay=f"{rtt_ms // 2 - 2}ms",
    )


def transfer(
    network: Network,
    packets: list[int],
    *,
    starts_ps: list[int] | None = None,
    buffer_bytes: int = DEEP,
    loss: float = 0.0,
    hits: tuple[tuple[int, int], ...] = (),
    seed: int = 1,
    **params: Any,
) -> Engine:
    """Run flow i with ``packets[i]`` packets from left to right over the bottleneck.

    The bottleneck loses packets at rate ``loss``, and every full packet sent in one of the
    intervals ``hits``.
    """
    n = len(packets)
    starts_ps = starts_ps or [0] * n
    flows = [(i, n + i, packets[i] * PAYLOAD, starts_ps[i]) for i in range(n)]
    port = bottleneck(network)
    send_ps = int(FULL * 8e12 / network.port_rate_bps[port])
    faults = [LinkFault(np.array([port]), loss=loss), *(hit(port, *one, send_ps) for one in hits)]
    return build(
        network,
        flow_table(flows),
        "cubic",
        fabric_with(queue_bytes=buffer_bytes),
        seed=seed,
        params=params,
        packets=PACKETS,
        faults=combine(faults, network.n_ports),
    )


def sender(engine: Engine, field: str, flow: int = 0) -> Any:
    return engine.state.hosts.tx[field][flow]


def lost(engine: Engine) -> int:
    """Packets that the faulty link lost."""
    return int(engine.link_counters().lost_packets.sum())
