"""Times at which circuits are up for packets of each port, and checks of rules and phases."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from netsim.errors import InputError
from netsim.limits import HORIZON_PS
from netsim.model.arithmetic import PURPOSE_CLOCK, below, byte_quotient, mix, salt, send_time
from netsim.model.circuits import NONE, Circuits, PhaseSchedule
from netsim.model.columns import Ints, offsets, rows_of
from netsim.model.fabric import DIRECT, VLB, WAIT, CircuitRules, PacketFormat
from netsim.model.flows import FlowTable
from netsim.model.network import Network
from netsim.model.port_pairs import PortPairs
from netsim.model.routing import COUNT_BITS, COUNT_MASK
from netsim.units import format_time

RULES_KEY = "fabric.circuits"


class PortTimes(NamedTuple):
    """Intervals in the first period, for ports in ascending order.

    `spans_ps` is int64[k, 2], start and end (exclusive); port p has rows `first[p]` to
    `first[p + 1]`. A port whose cable is always up has none.
    """

    first: Ints
    spans_ps: Ints


def light_times(circuits: Circuits) -> PortTimes:
    """Return when bits must leave each port to reach the circuit switch while the circuit is up."""
    return _by_port(circuits, -circuits.near_ps, -circuits.near_ps)


def start_times(
    network: Network, circuits: Circuits, rules: CircuitRules, packets: PacketFormat, seed: int
) -> PortTimes:
    """Return when each port may start a transmission, by its switch's clock."""
    error_ps = clock_errors(rules.clock_offset_ps, network.n_nodes, seed)[network.port_node]
    begins = error_ps + rules.guard_ps
    ends = error_ps - rules.guard_ps
    if rules.at_circuit_end == WAIT:
        begins = begins - circuits.near_ps
        ends = ends - circuits.near_ps - longest_send_ps(network, packets) + 1
    return _by_port(circuits, begins, ends)


def clock_errors(most_ps: int, n_nodes: int, seed: int) -> Ints:
    """Return int64[n_nodes], the delay of each node's clock, between -`most_ps` and `most_ps`."""
    draws = mix(salt(seed, PURPOSE_CLOCK, np.arange(n_nodes, dtype=np.int64)))
    errors: Ints = below(draws, 2 * most_ps + 1) - most_ps
    return errors


def time_up_ps(circuits: Circuits, end_ps: int) -> Ints:
    """Return int64[n_calendars], how long each circuit is up from time 0 to `end_ps`."""
    begin, end = circuits.days_ps.T
    period_ps = np.repeat(circuits.period_ps, np.diff(circuits.first_day))

    def until(time_ps: int) -> Ints:
        whole, rest = np.divmod(time_ps - begin, period_ps)
        up: Ints = whole * (end - begin) + np.minimum(rest, end - begin)
        return up

    of_calendar: Ints = np.add.reduceat(until(end_ps) - until(0), circuits.first_day[:-1])
    return of_calendar


def longest_period_ps(circuits: Circuits | None) -> int:
    """Return the longest period of a circuit, 0 if none repeats."""
    if circuits is None:
        return 0
    return int(circuits.period_ps[circuits.period_ps < HORIZON_PS].max(initial=0))


def duty(circuits: Circuits) -> NDArray[np.float64]:
    """Return float64[n_ports], the fraction of time that each cable is up. It is 1 for plain
    cables, schedules that do not repeat and directions without a circuit."""
    share = np.ones(circuits.period_ps.size + 1)
    if circuits.change:
        lengths = np.diff(circuits.days_ps, axis=1).reshape(-1)
        up = np.add.reduceat(lengths, circuits.first_day[:-1])
        repeat = circuits.period_ps < HORIZON_PS
        share[:-1][repeat] = up[repeat] / circuits.period_ps[repeat]
    found: NDArray[np.float64] = share[circuits.calendar]
    return found


def longest_send_ps(network: Network, packets: PacketFormat) -> Ints:
    """Return int64[n_ports], the time to send the largest packet."""
    largest = max(packets.data_bytes, packets.control_bytes)
    times: Ints = send_time(largest, byte_quotient(network.port_rate_bps))
    return times


def _by_port(circuits: Circuits, begins: Ints, ends: Ints) -> PortTimes:
    """Return the days of each port's cable with offsets added to their starts and ends."""
    dated = np.flatnonzero(circuits.calendar >= 0)
    calendar = circuits.calendar[dated]
    count = np.diff(circuits.first_day)[calendar]
    port = np.repeat(dated, count)
    day = rows_of(circuits.first_day[calendar], count)
    spans = circuits.days_ps[day] + np.stack([begins[port], ends[port]], axis=1)
    there = spans[:, 0] < spans[:, 1]
    counts = np.bincount(port[there], minlength=circuits.calendar.size)
    first = offsets(counts)
    return PortTimes(first, spans[there])


def check_rules(network: Network, rules: CircuitRules | None, packets: PacketFormat) -> None:
    """Refuse [fabric.circuits] rules that do not fit the circuits."""
    circuits = network.circuits
    if circuits is None or not circuits.ever.any():
        if rules is not None:
            message = "has no effect: no circuit of this network changes"
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
        full = f"the largest packet ({format_time(full_ps, 4)})"
        gap_ps = int(circuits.night_ps[number]) + 2 * rules.guard_ps
        if not held and gap_ps < full_ps:
            raise InputError(
                f"a port of {name} could send to two switches at once: its night of "
                f"{format_time(gap_ps, 4)}, guard times included, is shorter than {full}",
                key=f"{RULES_KEY}.at_circuit_end",
                hint=f'"{WAIT}", or a longer guard',
            )
        needs_ps = 2 * rules.guard_ps + (full_ps if held else 1)
        shortest_ps = _shortest_day(circuits, ports)
        if shortest_ps < needs_ps:
            takes = f"two guard times and {full}" if held else "two guard times"
            raise InputError(
                f"the shortest day of {name}, {format_time(shortest_ps, 4)}, is too short: "
                f"{takes} take {format_time(needs_ps, 4)}",
                key=f"{RULES_KEY}.guard",
                hint="a shorter guard, or longer slots",
            )


def _shortest_day(circuits: Circuits, ports: Ints) -> int:
    lengths = np.diff(circuits.days_ps, axis=1).reshape(-1)
    shortest = np.minimum.reduceat(lengths, circuits.first_day[:-1])
    return int(shortest[circuits.calendar[ports]].min())


def check_phases(network: Network, flows: FlowTable, port_pairs: PortPairs) -> None:
    """Refuse a workload that phase-driven circuit switches cannot follow.

    Raises InputError without a file if flows have no phases, or if a flow needs a circuit that is
    up only after that flow is delivered. `port_pairs` are the port pairs of its flows.
    """
    circuits = network.circuits
    if circuits is None or circuits.phase_schedule is None:
        return
    phase_schedule, names = circuits.phase_schedule, circuits.names[0]
    phase = phase_schedule.phase_of_flow
    if phase is None:
        message = f"{names} reconfigures when a phase is delivered, but no flow has a phase"
        raise InputError(message, key="topology", hint="the topology must call Network.with_phases")
    if phase.size != len(flows):
        raise InputError(f"{phase.size} phases for {len(flows)} flows", key="topology")
    slots = _first_slots(network, circuits, phase_schedule, port_pairs)
    slots = np.minimum.reduceat(slots, port_pairs.first[:-1])
    for flow in np.flatnonzero((phase >= 0) & (slots > phase))[:1].tolist():
        raise InputError(
            f"flow {flow} (host {flows.src[flow]} to host {flows.dst[flow]}) has phase "
            f"{phase[flow]}, but its circuit is up only from slot {slots[flow]}, after that phase",
            key="topology",
            hint="the phase of a slot with its circuit, or a later one",
        )


def _first_slots(
    network: Network, circuits: Circuits, phase_schedule: PhaseSchedule, port_pairs: PortPairs
) -> Ints:
    """Return int64[n_pairs], the first slot in which packets of a port pair can leave the rack."""
    n = port_pairs.src_port.size
    first = np.zeros(network.n_ports, np.int64)
    dated = np.flatnonzero(circuits.calendar != NONE)
    first[dated] = phase_schedule.slots[circuits.first_day[circuits.calendar[dated]], 0]
    switch = network.next_switch(port_pairs.src_port)
    entry = network.route[network.route_first[switch] + network.host_group[port_pairs.data_to]]
    count = entry & COUNT_MASK
    port_pair = np.repeat(np.arange(n), count)
    local = network.route_ports[rows_of(entry >> COUNT_BITS, count)]
    found = np.where(count > 0, phase_schedule.n_slots, 0)
    np.minimum.at(
        found,
        port_pair,
        first[network.node_first_port[switch + network.n_hosts][port_pair] + local],
    )
    return found


def least_control_ps(network: Network, rules: CircuitRules | None, packets: PacketFormat) -> int:
    """Return the smallest allowed `control_delay_ps` of phase-driven circuits; 0 if there are none.

    Until a reconfiguration starts, ports must not depend on it (netsim/engine/MODEL.md,
    "Circuits"). Links through circuit switches keep their built rate (`place_faults.py`).
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
    """Refuse a short `control_delay_ps`, and rules that do not allow phase-driven circuits."""
    follows = network.circuits is not None and network.circuits.follow
    if follows and rules is not None and rules.indirect == VLB:
        message = f'"{VLB}" conflicts with phase-driven circuits: packets would need later slots'
        raise InputError(message, key=f"{RULES_KEY}.indirect", hint=f'"{DIRECT}"')
    least_ps = least_control_ps(network, rules, packets)
    phase_schedule = None if network.circuits is None else network.circuits.phase_schedule
    if phase_schedule is not None and phase_schedule.control_delay_ps < least_ps:
        raise InputError(
            f"a control delay of {format_time(phase_schedule.control_delay_ps, 4)} is too short: "
            "packets and acknowledgments of the phase may still be in flight",
            key="topology",
            hint=f"at least {format_time(least_ps, 4)}",
        )
