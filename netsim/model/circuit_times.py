"""When light that a port sends passes the circuit switch, and when the port may start to send."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from netsim.errors import InputError
from netsim.limits import HORIZON_PS
from netsim.model.arithmetic import PURPOSE_CLOCK, below, byte_quotient, mix, salt, send_time
from netsim.model.circuits import Circuits, PhaseSchedule
from netsim.model.fabric import DIRECT, VLB, WAIT, CircuitRules, PacketFormat
from netsim.model.flows import FlowTable
from netsim.model.network import Network
from netsim.model.port_pairs import PortPairs
from netsim.model.routing import COUNT_BITS, COUNT_MASK
from netsim.model.schedules import NONE
from netsim.units import format_time

Ints = NDArray[np.int64]

RULES_KEY = "fabric.circuits"


class PortTimes(NamedTuple):
    """Spans of time in the first period, for each port in ascending order.

    `spans_ps` is int64[k, 2], from when until when (that instant not included); those of port p are
    `first[p]` to `first[p + 1]`, none if its cable is no circuit or one that is always there.
    """

    first: Ints
    spans_ps: Ints


def light_times(circuits: Circuits) -> PortTimes:
    """When light has to leave each port to pass the circuit switch."""
    return _by_port(circuits, -circuits.near_ps, -circuits.near_ps)


def start_times(
    network: Network, circuits: Circuits, rules: CircuitRules, packets: PacketFormat, seed: int
) -> PortTimes:
    """When each port may start a transmission, by its switch's clock."""
    error_ps = clock_errors(rules.clock_offset_ps, network.n_nodes, seed)[network.port_node]
    begins = error_ps + rules.guard_ps
    ends = error_ps - rules.guard_ps
    if rules.at_circuit_end == WAIT:
        begins = begins - circuits.near_ps
        ends = ends - circuits.near_ps - longest_send_ps(network, packets) + 1
    return _by_port(circuits, begins, ends)


def clock_errors(most_ps: int, n_nodes: int, seed: int) -> Ints:
    """int64[n_nodes]: how late each node's clock is, between -`most_ps` and `most_ps`."""
    draws = mix(salt(seed, PURPOSE_CLOCK, np.arange(n_nodes, dtype=np.int64)))
    errors: Ints = below(draws, 2 * most_ps + 1) - most_ps
    return errors


def time_up_ps(circuits: Circuits, end_ps: int) -> Ints:
    """int64[n_calendars]: for how long light passes from time 0 to `end_ps`."""
    begin, end = circuits.days_ps.T
    period_ps = np.repeat(circuits.period_ps, np.diff(circuits.first_day))

    def until(time_ps: int) -> Ints:
        whole, rest = np.divmod(time_ps - begin, period_ps)
        up: Ints = whole * (end - begin) + np.minimum(rest, end - begin)
        return up

    of_calendar: Ints = np.add.reduceat(until(end_ps) - until(0), circuits.first_day[:-1])
    return of_calendar


def longest_period_ps(circuits: Circuits | None) -> int:
    """After which every circuit has been there at the latest; 0 if none comes again."""
    if circuits is None:
        return 0
    return int(circuits.period_ps[circuits.period_ps < HORIZON_PS].max(initial=0))


def duty(circuits: Circuits) -> NDArray[np.float64]:
    """float64[n_ports]: the share of the time in which each cable is there.

    Of one whose schedule does not repeat that is 1, as of those that are no circuits, and of ways
    that light never goes.
    """
    share = np.ones(circuits.period_ps.size + 1)
    if circuits.change:
        lengths = np.diff(circuits.days_ps, axis=1).reshape(-1)
        up = np.add.reduceat(lengths, circuits.first_day[:-1])
        repeat = circuits.period_ps < HORIZON_PS
        share[:-1][repeat] = up[repeat] / circuits.period_ps[repeat]
    found: NDArray[np.float64] = share[circuits.calendar]
    return found


def longest_send_ps(network: Network, packets: PacketFormat) -> Ints:
    """int64[n_ports]: how long the largest packet takes on each link."""
    largest = max(packets.data_bytes, packets.control_bytes)
    times: Ints = send_time(largest, byte_quotient(network.port_rate_bps))
    return times


def _by_port(circuits: Circuits, begins: Ints, ends: Ints) -> PortTimes:
    """The days of each port's cable, with something added to when they begin and end."""
    dated = np.flatnonzero(circuits.calendar >= 0)
    calendar = circuits.calendar[dated]
    count = np.diff(circuits.first_day)[calendar]
    port = np.repeat(dated, count)
    behind = np.cumsum(count)
    day = np.arange(port.size) - np.repeat(behind - count, count)
    day += np.repeat(circuits.first_day[calendar], count)
    spans = circuits.days_ps[day] + np.stack([begins[port], ends[port]], axis=1)
    there = spans[:, 0] < spans[:, 1]
    counts = np.bincount(port[there], minlength=circuits.calendar.size)
    first = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    return PortTimes(first, spans[there])


def check_rules(network: Network, rules: CircuitRules | None, packets: PacketFormat) -> None:
    """Refuse what edge switches cannot do with the circuits that there are.

    Raises InputError, without a file, for [fabric.circuits].
    """
    circuits = network.circuits
    if circuits is None or not circuits.ever.any():
        if rules is not None:
            message = "has no effect: no circuit of this network ever changes"
            raise InputError(message, key=RULES_KEY, hint="remove it")
        return
    rules = rules or CircuitRules()
    send_ps = longest_send_ps(network, packets)
    held = rules.at_circuit_end == WAIT
    for number, name in enumerate(circuits.names):
        ports = np.flatnonzero((circuits.of_port == number) & (circuits.calendar >= 0))
        ports = ports[circuits.ever[circuits.calendar[ports]]]
        if not ports.size:
            continue
        full_ps = int(send_ps[ports[0]])
        full = f"the largest packet, {format_time(full_ps, 4)}"
        gap_ps = int(circuits.night_ps[number]) + 2 * rules.guard_ps
        if not held and gap_ps < full_ps:
            raise InputError(
                f"a port of {name} would send to two switches at once: it is dark for "
                f"{format_time(gap_ps, 4)}, guard times included, less than {full}",
                key=f"{RULES_KEY}.at_circuit_end",
                hint=f'"{WAIT}", or a longer guard',
            )
        needs_ps = 2 * rules.guard_ps + (full_ps if held else 1)
        shortest_ps = _shortest_day(circuits, ports)
        if shortest_ps < needs_ps:
            takes = f"two guard times and {full}" if held else "two guard times"
            raise InputError(
                f"nothing can be sent in the shortest day of {name}: it lasts "
                f"{format_time(shortest_ps, 4)}, {takes} take {format_time(needs_ps, 4)}",
                key=f"{RULES_KEY}.guard",
                hint="a shorter guard, or longer slots",
            )


def _shortest_day(circuits: Circuits, ports: Ints) -> int:
    lengths = np.diff(circuits.days_ps, axis=1).reshape(-1)
    shortest = np.minimum.reduceat(lengths, circuits.first_day[:-1])
    return int(shortest[circuits.calendar[ports]].min())


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
            key="topology",
            hint="a topology calls Network.with_phases",
        )
    if phase.size != len(flows):
        raise InputError(f"{phase.size} phases are given for {len(flows)} flows", key="topology")
    comes = _first_slots(network, circuits, phase_schedule, port_pairs)
    comes = np.minimum.reduceat(comes, port_pairs.first[:-1])
    for flow in np.flatnonzero((phase >= 0) & (comes > phase))[:1].tolist():
        raise InputError(
            f"flow {flow} (host {flows.src[flow]} to host {flows.dst[flow]}) is of phase "
            f"{phase[flow]}, and its circuit comes with slot {comes[flow]}, which waits for it",
            key="topology",
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
            key=f"{RULES_KEY}.indirect",
            hint=f'"{DIRECT}" where circuit switches follow the workload',
        )
    least_ps = least_control_ps(network, rules, packets)
    phase_schedule = None if network.circuits is None else network.circuits.phase_schedule
    if phase_schedule is not None and phase_schedule.control_delay_ps < least_ps:
        raise InputError(
            f"circuit switches reconfigure {format_time(phase_schedule.control_delay_ps, 4)} "
            f"after the "
            "last delivery of a phase, while packets and acknowledgments of it are in flight",
            key="topology",
            hint=f"a time for control of at least {format_time(least_ps, 4)}",
        )
