"""Racks that are joined by circuits and, beside them, by a switch."""

from __future__ import annotations

from typing import Any

from netsim.network import (
    Network,
    NetworkBuilder,
    Schedule,
    Way,
    Ways,
    over_cables,
    over_circuits,
    tournament,
)

NS, US, GBPS = 10**3, 10**6, 10**9
CIRCUITS, PACKETS = Way("circuits", over_circuits), Way("packets", over_cables)
TO_RACK, FIBRE, TO_SPINE = US, 300 * NS, 500 * NS
"""Delays of cables."""


def hybrid(schedule: Schedule | None = None, **rule: Any) -> Network:
    """A host in each of four racks; circuits have 100 Gbps, the packet fabric 10 Gbps.

    By default each rack is joined to another one by circuits that never change, and packets wait
    for nothing.
    """
    schedule = schedule or Schedule(10 * US, tournament(4)[:1])
    builder = NetworkBuilder()
    racks = schedule.n_ports
    builder.add_hosts(racks)
    tors = builder.add_switches([f"tor{k}" for k in range(racks)])
    spine = builder.add_switch("spine", 1)
    for host, tor in enumerate(tors):
        builder.cable(host, tor, 100 * GBPS, TO_RACK)
        builder.cable(tor, spine, 10 * GBPS, TO_SPINE)
    ocs = builder.add_circuit_switch("ocs", schedule)
    for tor in tors:
        builder.fibre(tor, ocs, 100 * GBPS, FIBRE)
    return builder.build("hybrid", ways=Ways((CIRCUITS, PACKETS), **rule))
