"""Racks of one host at each port of circuit switches."""

from typing import Any

from engine_runs import NS, US

from netsim.model.fabric import PacketFormat
from netsim.network import Network, NetworkBuilder, Schedule

GBPS = 10**9
PACKETS = PacketFormat(payload_bytes=936, header_bytes=64, control_bytes=64)
FULL_PS = 80 * NS  # serialization time of a full packet of 1,000 bytes at 100 Gbps
NEAR, FAR = 800 * NS, 300 * NS
"""Fiber delays of the first port of a circuit switch, and of all others."""


def racks(
    *schedules: Schedule, host_gbps: int = 100, fiber_ps: int | None = None, **given: Any
) -> Network:
    """Return one rack of one host per port of circuit switches ocs0, ocs1, ...; cables have 1 us,
    all links 100 Gbps, and fibers NEAR and FAR, unless they have the same delay."""
    builder = NetworkBuilder()
    builder.add_hosts(schedules[0].n_ports)
    tors = builder.add_switches([f"tor{k}" for k in range(schedules[0].n_ports)])
    for host, tor in enumerate(tors):
        builder.cable(host, tor, host_gbps * GBPS, US)
    for number, schedule in enumerate(schedules):
        switch = builder.add_circuit_switch(f"ocs{number}", schedule)
        for host, tor in enumerate(tors):
            builder.fiber(tor, switch, 100 * GBPS, fiber_ps or (FAR if host else NEAR))
    return builder.build("racks", **given)
