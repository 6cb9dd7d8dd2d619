"""Racks of one host at each port of a circuit switch, with uneven delays."""

from engine_runs import NS, US

from netsim.model.fabric import PacketFormat
from netsim.network import Network, NetworkBuilder, Schedule

GBPS = 10**9
PACKETS = PacketFormat(payload_bytes=936, header_bytes=64, control_bytes=64)
FULL_PS = 80 * NS  # serialization time of a full packet of 1,000 bytes at 100 Gbps
NEAR, FAR = 800 * NS, 300 * NS
"""Fiber delays of the first port of a circuit switch, and of all others."""


def racks(schedule: Schedule, host_gbps: int = 100) -> Network:
    """Return one rack of one host per port of a circuit switch; cables of 1 us, 100 Gbps."""
    builder = NetworkBuilder()
    builder.add_hosts(schedule.n_ports)
    edges = builder.add_switches([f"tor{k}" for k in range(schedule.n_ports)])
    circuits = builder.add_circuit_switch("ocs", schedule)
    for host, edge in enumerate(edges):
        builder.cable(host, edge, host_gbps * GBPS, US)
        builder.fiber(edge, circuits, 100 * GBPS, FAR if host else NEAR)
    return builder.build("racks")
