"""Can circuit switches follow the phases of a workload? What network and flows together tell."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from netsim.errors import InputError
from netsim.model.circuit_times import KEY as RULES
from netsim.model.circuit_times import longest_send_ps
from netsim.model.circuits import Circuits
from netsim.model.fabric import DIRECT, VLB, CircuitRules, PacketFormat
from netsim.model.flows import FlowTable
from netsim.model.network import Network
from netsim.model.phase_schedule import PhaseSchedule
from netsim.model.port_pairs import PortPairs
from netsim.model.routing import COUNT_BITS, COUNT_MASK
from netsim.model.schedules import NONE
from netsim.units import format_time

Ints = NDArray[np.int64]

KEY = "topology"


def check_phases(network: Network, flows: FlowTable, port_pairs: PortPairs) -> None:
    """Refuse a workload that phase-driven circuit switches cannot follow.

    Args:
        port pairs: those that its flows use.

    Raises InputError, without a file: flows have no phases, or one waits for a circuit that waits
    for this flow.
    """
    circuits = network.circuits
    if circuits is None or circuits.phase_schedule is None:
        return
    phase_schedule, names = circuits.phase_schedule, circuits.names[0]
    phase = phase_schedule.phase_of_flow
    if phase is None:
        raise InputError(
            f"circuit switches, {names} among them, go on as the flows of a phase are delivered, "
            "and nothing says which flows those are",
            key=KEY,
            hint="a topology calls Network.with_phases",
        )
    if phase.size != len(flows):
        raise InputError(f"{phase.size} phases are given for {len(flows)} flows", key=KEY)
    comes = _first_slots(network, circuits, phase_schedule, port_pairs)
    comes = np.minimum.reduceat(comes, port_pairs.first[:-1])
    for flow in np.flatnonzero((phase >= 0) & (comes > phase))[:1].tolist():
        raise InputError(
            f"flow {flow} (host {flows.src[flow]} to host {flows.dst[flow]}) is of phase "
            f"{phase[flow]}, and its circuit comes with slot {comes[flow]}, which waits for it",
            key=KEY,
            hint="a flow's phase is that of a slot with its circuit, or of a later one",
        )


def _first_slots(
    network: Network, circuits: Circuits, phase_schedule: PhaseSchedule, port_pairs: PortPairs
) -> Ints:
    """int64[n_pairs]: the first slot in which a packet of a port pair can leave its edge switch."""
    n = port_pairs.src_port.size
    first = np.zeros(network.n_ports, np.int64)
    dated = np.flatnonzero(circuits.calendar != NONE)
    first[dated] = phase_schedule.slots[circuits.first_day[circuits.calendar[dated]], 0]
    switch = network.next_switch(port_pairs.src_port)
    entry = network.route[network.route_first[switch] + network.host_group[port_pairs.data_to]]
    count = entry & COUNT_MASK
    port_pair = np.repeat(np.arange(n), count)
    index = np.arange(port_pair.size) - np.repeat(np.cumsum(count) - count, count)
    local = network.route_ports[(entry >> COUNT_BITS)[port_pair] + index]
    found = np.where(count > 0, phase_schedule.n_slots, 0)
    np.minimum.at(
        found,
        port_pair,
        first[network.node_first_port[switch + network.n_hosts][port_pair] + local],
    )
    return found


def least_control_ps(network: Network, rules: CircuitRules | None, packets: PacketFormat) -> int:
    """How long an order of phase-driven circuit switches takes at least; 0 if no circuit follows
    one.

    What ports do until then must not depend on it (netsim/engine/MODEL.md, "Circuits"). Links
    through circuit switches have the rate that they were built with (`place_faults.py`).
    """
    circuits, rules = network.circuits, rules or CircuitRules()
    if circuits is None or circuits.phase_schedule is None or not circuits.follow:
        return 0
    dated = np.flatnonzero(circuits.calendar != NONE)
    ports = dated[
        circuits.phase_schedule.slots[circuits.first_day[circuits.calendar[dated]], 0] != NONE
    ]
    send_ps = longest_send_ps(network, packets)[ports]
    away_ps = int(circuits.near_ps[ports].max()) + int(send_ps.max())
    return network.lookahead_ps + away_ps + 2 * rules.guard_ps + rules.clock_offset_ps


def check_control(network: Network, rules: CircuitRules | None, packets: PacketFormat) -> None:
    """Refuse orders that would be there before anybody can know of them, and rules for switches at
    the edge that do not go with orders.

    Raises InputError, without a file.
    """
    follows = network.circuits is not None and network.circuits.follow
    if follows and rules is not None and rules.indirect == VLB:
        raise InputError(
            "packets would take circuits of later slots, which wait for these packets",
            key=f"{RULES}.indirect",
            hint=f'"{DIRECT}" where circuit switches follow the workload',
        )
    least_ps = least_control_ps(network, rules, packets)
    phase_schedule = None if network.circuits is None else network.circuits.phase_schedule
    if phase_schedule is not None and phase_schedule.control_delay_ps < least_ps:
        raise InputError(
            f"circuit switches reconfigure {format_time(phase_schedule.control_delay_ps, 4)} "
            f"after the "
            "last delivery of a phase, while packets and acknowledgments of it are in flight",
            key=KEY,
            hint=f"a time for control of at least {format_time(least_ps, 4)}",
        )
