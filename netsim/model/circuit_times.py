"""When light that a port sends passes the circuit switch, and when the port may start to send."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from netsim.errors import InputError
from netsim.limits import HORIZON_PS
from netsim.model.arithmetic import PURPOSE_CLOCK, below, byte_quotient, mix, salt, send_time
from netsim.model.circuits import Circuits
from netsim.model.fabric import WAIT, CircuitRules, PacketFormat
from netsim.model.network import Network
from netsim.units import format_time

Ints = NDArray[np.int64]

KEY = "fabric.circuits"


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
    network: Network,
    circuits: Circuits,
    rules: CircuitRules,
    packets: PacketFormat,
    seed: int,
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
            raise InputError(message, key=KEY, hint="remove it")
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
                key=f"{KEY}.at_circuit_end",
                hint=f'"{WAIT}", or a longer guard',
            )
        needs_ps = 2 * rules.guard_ps + (full_ps if held else 1)
        shortest_ps = _shortest_day(circuits, ports)
        if shortest_ps < needs_ps:
            takes = f"two guard times and {full}" if held else "two guard times"
            raise InputError(
                f"nothing can be sent in the shortest day of {name}: it lasts "
                f"{format_time(shortest_ps, 4)}, {takes} take {format_time(needs_ps, 4)}",
                key=f"{KEY}.guard",
                hint="a shorter guard, or longer slots",
            )


def _shortest_day(circuits: Circuits, ports: Ints) -> int:
    lengths = np.diff(circuits.days_ps, axis=1).reshape(-1)
    shortest = np.minimum.reduceat(lengths, circuits.first_day[:-1])
    return int(shortest[circuits.calendar[ports]].min())
