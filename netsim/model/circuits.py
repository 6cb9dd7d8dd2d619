"""Circuit switches: their schedules, and the cables that they create between other switches.

A circuit switch has no buffers and does not inspect packets: bits that enter a port leave by the
port joined to it at that time. Between two switches it acts as a cable that is up on some days
only. The network has these cables, and no node for the circuit switch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from netsim.errors import InputError
from netsim.frozen import frozen
from netsim.limits import DELAY_PS, HORIZON_PS
from netsim.model.columns import Flags, Ints, Rng, offsets
from netsim.units import format_rate, format_time

END_PS = 2 * HORIZON_PS  # last slot of a schedule that does not repeat: after all runs have ended
NONE = -1  # no port, circuit switch or calendar


def round_robin_matchings(n: int) -> Ints:
    """Return matchings of `n` ports in which every two ports meet once: int64[rounds, n].

    Circle method: one port stays, the others rotate. If n is odd, each port has one round without a
    partner.
    """
    even = n + n % 2
    rounds = np.arange(even - 1)[:, None]
    ports = np.arange(even - 1)[None, :]
    partner = (rounds - ports) % (even - 1)
    alone = partner == ports  # meets the port that stays
    matchings = np.empty((even - 1, even), np.int64)
    matchings[:, :-1] = np.where(alone, even - 1, partner)
    matchings[:, -1] = np.nonzero(alone)[1]
    if n < even:
        matchings = matchings[:, :n]
        matchings[matchings == n] = NONE
    return matchings


class Schedule:
    """The matchings of a circuit switch, slot by slot.

    It is a timetable, or **phase-driven**: slot k then lasts until the flows of phase k are
    delivered (`Network.with_phases`), and the last slot stays.

    Attributes:
        slots_ps: int64[slots], duration of each slot; 0 if phase-driven.
        matchings: int64[slots, ports], output port of each input port; -1 or the port itself: none.
        bidirectional: circuits join both directions; otherwise a matching defines only one.
        reconfiguration_delay_ps, sync_delay_ps: time to reconfigure the switch, then time for
            receivers to synchronize. Ports with a new partner are down for both, the night.
        offset_ps: start of the first slot.
        repeats: whether the slots repeat, also before `offset_ps`. If not, nothing is joined
            before, and the last slot stays.
        control_delay_ps: if phase-driven, time from the end of a phase to the start of the
            reconfiguration, to detect that end and distribute the command; None for a timetable.
    """

    def __init__(
        self,
        slots_ps: ArrayLike | None,
        matchings: ArrayLike,
        *,
        bidirectional: bool = True,
        reconfiguration_delay_ps: int = 0,
        sync_delay_ps: int = 0,
        offset_ps: int = 0,
        repeats: bool = True,
        control_delay_ps: int | None = None,
    ) -> None:
        """Take the attributes; a single duration applies to all slots, None means phase-driven.
        Raises InputError, without a name, for an invalid schedule."""
        self.matchings = _table(matchings)
        self.bidirectional = bool(bidirectional)
        self.control_delay_ps = None
        if slots_ps is None:
            self.control_delay_ps = _time(control_delay_ps, "control_delay_ps")
            if offset_ps or not repeats:
                raise InputError("a phase-driven schedule has no offset_ps and does not repeat")
            self.slots_ps, repeats = np.zeros(len(self.matchings), np.int64), False
        else:
            self.slots_ps = _lengths(slots_ps, len(self.matchings))
            if control_delay_ps is not None:
                message = "control_delay_ps conflicts with slots_ps"
                raise InputError(message, hint="use slots_ps=None for a phase-driven schedule")
        self.reconfiguration_delay_ps = _time(reconfiguration_delay_ps, "reconfiguration_delay_ps")
        self.sync_delay_ps = _time(sync_delay_ps, "sync_delay_ps")
        self.offset_ps = _time(offset_ps, "offset_ps")
        self.repeats = bool(repeats)
        self._check()

    @property
    def n_ports(self) -> int:
        return int(self.matchings.shape[1])

    @property
    def phase_driven(self) -> bool:
        """Whether it follows the phases of the workload."""
        return self.control_delay_ps is not None

    @property
    def night_ps(self) -> int:
        """Time that a port with a new partner is down."""
        return self.reconfiguration_delay_ps + self.sync_delay_ps

    @property
    def period_ps(self) -> int:
        """Time until the schedule repeats; longer than any run if it never does."""
        return int(self.slots_ps.sum()) if self.repeats else 2 * END_PS

    def _check(self) -> None:
        at, n = np.arange(self.n_ports), self.n_ports
        matchings = self.matchings
        matchings[matchings == at] = NONE
        for slot, port in np.argwhere((matchings < NONE) | (matchings >= n))[:1].tolist():
            message = f"slot {slot} joins port {port} to port {matchings[slot, port]}"
            raise InputError(message, hint=f"0 to {n - 1}, or -1 for none")
        self._check_ways()
        if self.phase_driven:
            return
        for slot in np.flatnonzero(self.slots_ps <= self.night_ps)[:1].tolist():
            raise InputError(
                f"slot {slot} of {format_time(int(self.slots_ps[slot]), 4)} has no day: the night "
                f"takes {format_time(self.night_ps, 4)}",
                hint="use longer slots",
            )
        if float(self.slots_ps.sum(dtype=float)) + self.offset_ps >= HORIZON_PS:
            raise InputError("the total of all slots exceeds 2^56 ps, the longest run")

    def _check_ways(self) -> None:
        """Refuse output ports used twice and, if bidirectional, asymmetric matchings."""
        at, matchings = np.arange(self.n_ports), self.matchings
        ordered = np.sort(matchings, axis=1)
        twice = (ordered[:, 1:] == ordered[:, :-1]) & (ordered[:, 1:] != NONE)
        if not self.bidirectional:
            for slot, index in np.argwhere(twice)[:1].tolist():
                other = int(ordered[slot, index])
                a, b = np.flatnonzero(matchings[slot] == other)[:2].tolist()
                message = f"slot {slot} joins both port {a} and port {b} to port {other}"
                raise InputError(message, hint="each port may occur once in a matching")
            return
        back = np.take_along_axis(matchings, np.maximum(matchings, 0), axis=1)
        for slot, port in np.argwhere((matchings != NONE) & (back != at))[:1].tolist():
            other = int(matchings[slot, port])
            raise InputError(
                f"slot {slot} joins port {port} to port {other}, but port {other} to "
                f"{_port(int(matchings[slot, other]))}",
                hint="matching[i] = j and matching[j] = i, or bidirectional=False",
            )


def _table(matchings: ArrayLike) -> Ints:
    try:
        table = np.array(matchings)
    except ValueError:
        table = np.zeros(0)
    if table.ndim != 2 or 0 in table.shape or not np.issubdtype(table.dtype, np.integer):
        message = "matchings must be a table of whole numbers"
        raise InputError(message, hint="a row for each slot, with the partner of each port")
    return table.astype(np.int64)


def _lengths(slots_ps: ArrayLike, n_slots: int) -> Ints:
    lengths = np.atleast_1d(np.array(slots_ps))
    if lengths.ndim != 1 or not np.issubdtype(lengths.dtype, np.integer):
        raise InputError("slots_ps must be whole numbers of ps")
    if lengths.size not in (1, n_slots):
        message = f"{lengths.size} slots_ps for {n_slots} slots"
        raise InputError(message, hint="one, or one for each")
    for length in lengths[(lengths <= 0) | (lengths >= HORIZON_PS)][:1].tolist():
        raise InputError(f"slot of {length} ps is out of range", hint="more than 0, less than 2^56")
    return np.broadcast_to(lengths, n_slots).astype(np.int64)


def _time(value: Any, name: str) -> int:
    whole = isinstance(value, (int, np.integer)) and not isinstance(value, bool)
    if not whole or not 0 <= value < HORIZON_PS:
        raise InputError(f"{name} {value!r} is invalid", hint="a whole number of ps, at least 0")
    return int(value)


def _port(port: int) -> str:
    return "none" if port == NONE else f"port {port}"


class Days(NamedTuple):
    """The pairs of ports that a schedule ever joins, and when these circuits are up.

    `pairs` is int64[n, 2] in ascending order: the lower port first if bidirectional, else the input
    port. `days_ps`, int64[k, 2], are start and end in the first period; pair i has `first_day[i]`
    to `first_day[i + 1]`. A pair that is always up has none.

    In a phase-driven schedule, a day starts as if its slot started at 0, or has no start (-END_PS),
    and has no end (END_PS). `slots`, int64[k, 2], are the first slot of a day and the slot after
    its last.
    """

    pairs: Ints
    first_day: Ints
    days_ps: Ints
    slots: Ints


def days_of(schedule: Schedule) -> Days:
    """Return the port pairs of a circuit switch, and when their circuits are up.

    A pair that is joined in consecutive slots stays up in between, also from the last slot to the
    first. The day of such a pair ends in the next period.
    """
    n_slots, n = schedule.matchings.shape
    slot, port = np.nonzero(schedule.matchings > (np.arange(n) if schedule.bidirectional else NONE))
    key = port * n + schedule.matchings[slot, port]
    order = np.lexsort((slot, key))
    slot, key = slot[order], key[order]
    # Runs of slots in which a pair stays joined.
    begins = np.ones(slot.size, bool)
    begins[1:] = (key[1:] != key[:-1]) | (slot[1:] != slot[:-1] + 1)
    ends = np.append(begins[1:], True)[: slot.size]
    pair, first, last = key[begins], slot[begins], slot[ends]
    starts_ps = schedule.offset_ps + offsets(schedule.slots_ps)
    up_ps, down_ps = starts_ps[first] + schedule.night_ps, starts_ps[last + 1]
    kept = np.ones(pair.size, bool)
    if schedule.repeats or schedule.phase_driven:
        kept = (first > 0) | (last < n_slots - 1)  # pairs joined in all slots have no night
    if schedule.phase_driven:
        up_ps[first == 0] = -END_PS
        down_ps[:] = END_PS
    elif schedule.repeats:
        own = np.unique(pair, return_index=True)[1]
        final = np.append(own, pair.size)[1:] - 1  # the last run of the same pair
        round_the_end = (own < final) & (first[own] == 0) & (last[final] == n_slots - 1)
        down_ps[final[round_the_end]] = down_ps[own[round_the_end]] + schedule.period_ps
        kept[own[round_the_end]] = False
    else:
        down_ps[last == n_slots - 1] = END_PS
    pairs, which = np.unique(pair, return_inverse=True)
    count = np.bincount(which.reshape(-1), kept, pairs.size).astype(np.int64)
    return Days(
        pairs=np.stack([pairs // n, pairs % n], axis=1),
        first_day=offsets(count),
        days_ps=np.stack([up_ps, down_ps], axis=1)[kept],
        slots=np.stack([first, last + 1], axis=1)[kept],
    )


SWAPS = 10  # exchanges per round; measured: more do not shorten paths


def random_rounds(racks: int, rng: Rng) -> Ints:
    """Return random matchings in which every two racks meet once, int64[rounds, racks].

    Circuits of several of these rounds form an expander. Round-robin matchings are reflections,
    whose union has longer paths. This 1-factorization of the complete graph starts with round-robin
    matchings in each half, then all pairs between the halves, in random order; then pairs of rounds
    exchange one of the cycles that they form. With an odd number of racks, each has one round
    without a partner.
    """
    rounds = _halves(racks + racks % 2, rng).tolist()
    for _ in range(SWAPS * len(rounds) if len(rounds) > 1 else 0):
        one, other = rng.choice(len(rounds), 2, replace=False).tolist()
        _exchange(rounds[one], rounds[other], int(rng.integers(racks)))
    found = np.array(rounds, np.int64)[rng.permutation(len(rounds)), :racks]
    found[found >= racks] = NONE
    return found


def _halves(racks: int, rng: Rng) -> Ints:
    """Return the rounds of an even number of racks before any exchange."""
    half = racks // 2
    sides = rng.permutation(racks).reshape(2, half)
    within = round_robin_matchings(half)
    rounds = np.full((len(within), racks), NONE)
    for side in sides:
        rounds[:, side] = np.where(within == NONE, NONE, side[within])
    left, right = sides
    if half % 2:
        # Each round leaves one rack of each half over; these two are joined only once.
        left, right = (side[(within == NONE).argmax(axis=1)] for side in sides)
        at = np.arange(half)
        rounds[at, left], rounds[at, right] = right, left
    across = np.full((half - half % 2, racks), NONE)
    for shift, matching in enumerate(across, half % 2):
        others = np.roll(right, shift)
        matching[left], matching[others] = others, left
    return np.concatenate([rounds, across])


def _exchange(one: list[int], other: list[int], start: int) -> None:
    """Swap two rounds' pairs along the cycle that they form through a rack."""
    cycle, rack = [start], start
    while (rack := other[one[rack]]) != start:
        cycle.append(rack)
    for rack in [*cycle, *(one[rack] for rack in cycle)]:
        one[rack], other[rack] = other[rack], one[rack]


def pairs_by_circuits(partners: Ints) -> list[int]:
    """Return the number of ordered pairs of racks that are 1, 2, ... circuits apart.

    `partners` (int64[n, k]) are the racks to which each has a circuit, or itself. Unconnected pairs
    are not counted.
    """
    reached = np.packbits(np.eye(len(partners), dtype=bool), axis=1)
    counts: list[int] = []
    while True:
        further = reached.copy()
        for column in partners.T:
            further |= reached[column]
        more = int(np.bitwise_count(further).sum()) - int(np.bitwise_count(reached).sum())
        if not more:
            return counts
        counts.append(more)
        reached = further


# --- cables ---------------------------------------------------------------------------------------

CABLE_COLUMNS = 7
NIC, WEIGHT, DIMENSION = range(4, CABLE_COLUMNS)  # columns of a cable, after nodes, bit/s and ps


@frozen(eq=False)
class PhaseSchedule:
    """The phase-driven circuit switches of a network, which all reconfigure at the same times."""

    n_slots: int  # slots of each switch, equal to the number of phases
    control_delay_ps: int  # from the end of a phase to the start of the reconfiguration
    night_ps: int  # how long reconfigured circuits are down; the maximum over all switches
    # int64[k, 2], for each of `Circuits.days_ps` its first slot and the slot after its last; -1 for
    # days on a timetable
    slots: Ints
    # int64[n_flows], the phase of each flow, -1 for none; None until known
    phase_of_flow: Ints | None = None

    @property
    def reconfiguration_ps(self) -> int:
        """Total time of all control delays and reconfigurations."""
        return (self.n_slots - 1) * (self.control_delay_ps + self.night_ps)


def phase_schedule_of(
    switches: Sequence[tuple[str, Schedule]], slots: Ints
) -> PhaseSchedule | None:
    """Return the phase schedule of these circuit switches (name, schedule), None if none is
    phase-driven. Raises InputError if two of them cannot reconfigure together."""
    phase_driven = [(name, schedule) for name, schedule in switches if schedule.phase_driven]
    if not phase_driven:
        return None
    first, one = phase_driven[0]
    for name, other in phase_driven[1:]:
        if len(other.matchings) != len(one.matchings):
            raise InputError(
                f"{first} has {len(one.matchings)} slots, but {name} has {len(other.matchings)}",
                hint="each needs one slot for each phase; a matching may repeat",
            )
        if other.control_delay_ps != one.control_delay_ps:
            times = [format_time(each.control_delay_ps or 0, 4) for each in (one, other)]
            message = f"{first} has a control delay of {times[0]}, but {name} of {times[1]}"
            hint = "the same control_delay_ps for all phase-driven circuit switches"
            raise InputError(message, hint=hint)
    assert one.control_delay_ps is not None
    night_ps = max(schedule.night_ps for _, schedule in phase_driven)
    return PhaseSchedule(len(one.matchings), one.control_delay_ps, night_ps, slots)


@dataclass
class CircuitSwitch:
    """A circuit switch under construction: its fibers, port by port."""

    name: str
    schedule: Schedule
    edges: list[int] = field(default_factory=list)
    delays_ps: list[int] = field(default_factory=list)
    rate_bps: int = 0

    def add(self, edge: int, edge_name: str, rate_bps: int, delay_ps: int) -> int:
        """Connect the next port to switch `edge` by a fiber; return the port's number."""
        port, what = len(self.edges), f"the fiber {edge_name} - {self.name}"
        if port == self.schedule.n_ports:
            raise InputError(f"{what} exceeds the {port} ports of {self.name}")
        if rate_bps <= 0 or not 0 < delay_ps < DELAY_PS:
            hint = f"both positive, the delay less than {format_time(DELAY_PS, 4)}"
            raise InputError(f"{what} has {rate_bps} bit/s and a delay of {delay_ps} ps", hint=hint)
        if port and rate_bps != self.rate_bps:
            raise InputError(
                f"{what} has {format_rate(rate_bps)}, earlier ones {format_rate(self.rate_bps)}",
                hint="the same rate for all fibers of a circuit switch",
            )
        self.rate_bps = rate_bps
        self.edges.append(edge)
        self.delays_ps.append(delay_ps)
        return port


@frozen(eq=False)
class Circuits:
    """The cables of a network that go through circuit switches, by the ports at their ends."""

    names: tuple[str, ...]  # names of the circuit switches
    night_ps: Ints  # int64[n_switches], how long a reconfigured port of each is down
    of_port: NDArray[np.int32]  # int32[n_ports], circuit switch of a port's cable, or -1
    # int32[n_ports], fiber at the port's end of its cable, or -1. At most one of the cables of a
    # fiber is up at a time.
    fiber: NDArray[np.int32]
    near_ps: Ints  # int64[n_ports], delay of that fiber
    # int32[n_ports], set of days on which packets leaving by a port meet a circuit; -1: always
    calendar: NDArray[np.int32]
    first_day: Ints  # int64[n_calendars + 1], first day of each calendar; each has at least one
    # int64[k, 2], start and end of each day in the first period. A direction that is never up has
    # one day of length 0.
    days_ps: Ints
    period_ps: Ints  # int64[n_calendars], period of each calendar
    # of phase-driven circuit switches; None if there are none
    phase_schedule: PhaseSchedule | None = None

    @property
    def change(self) -> bool:
        """Whether any cable is ever down, in at least one direction."""
        return bool(self.period_ps.size)

    @property
    def follow(self) -> bool:
        """Whether any cable follows the phases of the workload."""
        return self.phase_schedule is not None and bool((self.phase_schedule.slots >= 0).any())

    @cached_property
    def up_in_slot(self) -> Flags | None:
        """bool[n_slots, n_ports], whether a port's circuit is up in each slot of phase-driven
        switches. True for ports without such a circuit; None if there are no such switches."""
        if self.phase_schedule is None:
            return None
        of_day = np.repeat(np.arange(self.period_ps.size), np.diff(self.first_day))
        up = np.zeros((self.phase_schedule.n_slots + 1, self.period_ps.size + 1), np.int64)
        follows = self.phase_schedule.slots[:, 0] != NONE
        first, end = self.phase_schedule.slots[follows].T
        np.add.at(up, (first, of_day[follows]), 1)
        np.add.at(up, (end, of_day[follows]), -1)
        found = np.cumsum(up, axis=0)[:-1] > 0
        found[:, of_day[~follows]] = True
        found[:, -1] = True  # no calendar
        return found[:, self.calendar]

    def with_unit_slots(self) -> Circuits:
        """Return these circuits with repeating slots of 1 ps for phase-driven switches."""
        if self.phase_schedule is None:
            return self
        return self._with_days(self.phase_schedule.slots, self.phase_schedule.n_slots)

    def with_slot_starts(self, begin_ps: Ints) -> Circuits:
        """Return these circuits with the times at which phase-driven switches reconfigured.
        `begin_ps` (int64[n_slots]) is the start of each of their slots, -1 if unknown."""
        if self.phase_schedule is None:
            return self
        after = np.where(begin_ps < 0, END_PS, begin_ps)
        first, end = self.phase_schedule.slots.T
        days_ps = self.days_ps.copy()
        night_ps = np.where(first > 0, days_ps[:, 0], 0)
        days_ps[:, 0] = np.where(first > 0, after[first] + night_ps, -END_PS)
        days_ps[:, 1] = np.append(after, END_PS)[end]
        days_ps[after[first] == END_PS] = -END_PS
        return self._with_days(days_ps, 2 * END_PS)

    def _with_days(self, days_ps: Ints, period_ps: int) -> Circuits:
        """Return these circuits with other days for circuits that follow the workload."""
        assert self.phase_schedule is not None
        follows = self.phase_schedule.slots[:, 0] != NONE
        return replace(
            self,
            days_ps=np.where(follows[:, None], days_ps, self.days_ps),
            period_ps=np.where(follows[self.first_day[:-1]], period_ps, self.period_ps),
            phase_schedule=None,
        )

    @cached_property
    def ever(self) -> Flags:
        """bool[n_calendars], whether a calendar has a day longer than 0."""
        ever: Flags = (
            self.days_ps[self.first_day[1:] - 1, 1] > (self.days_ps[self.first_day[:-1], 0])
        )
        return ever

    @cached_property
    def ever_up(self) -> Flags | None:
        """bool[n_ports], False if a cable is only up in the other direction; None if all are up."""
        return None if self.ever.all() else np.append(self.ever, True)[self.calendar]


class CircuitCables(NamedTuple):
    """All cables of circuit switches as rows, before ports are numbered.

    `cables` is as in `NetworkBuilder`; the others hold, for each cable or its two ends (`fiber`,
    `near_ps`, `calendar`), the values that `Circuits` holds for ports.
    """

    cables: Ints
    of_cable: Ints
    fiber: Ints
    near_ps: Ints
    calendar: Ints
    first_day: Ints
    days_ps: Ints
    period_ps: Ints
    slots: Ints


def cables_of(switches: list[CircuitSwitch]) -> CircuitCables:
    """Return the cables of circuit switches, switch by switch, in ascending order of their
    ports. Raises InputError for a port without a fiber, or one that connects a switch to itself."""
    parts: list[tuple[Ints, ...]] = []
    n_fibers = n_calendars = 0
    for number, one in enumerate(switches):
        if len(one.edges) < one.schedule.n_ports:
            message = f"port {len(one.edges)} of circuit switch {one.name} has no fiber"
            hint = f"{one.schedule.n_ports} fibers, one for each port of its schedule"
            raise InputError(message, hint=hint)
        days = days_of(one.schedule)
        pairs, way = _both_ways(days.pairs, one.schedule.bidirectional)
        edges, delays = np.array(one.edges), np.array(one.delays_ps)
        ends, near = edges[pairs], delays[pairs]
        for a, b in pairs[ends[:, 0] == ends[:, 1]][:1].tolist():
            message = f"circuit switch {one.name} joins ports {a} and {b} of the same switch"
            raise InputError(message)
        cables = np.zeros((len(pairs), CABLE_COLUMNS), np.int64)
        cables[:, :2], cables[:, 2], cables[:, 3] = ends, one.rate_bps, near.sum(axis=1)
        cables[:, WEIGHT] = 1
        count = np.diff(days.first_day)
        dated = count > 0
        n_dated = int(dated.sum())
        of_way = np.where(dated, n_calendars + np.cumsum(dated) - 1, NONE)
        count, days_ps = count[dated], days.days_ps
        slots = days.slots if one.schedule.phase_driven else np.full_like(days.slots, NONE)
        periods = np.full(n_dated, one.schedule.period_ps, np.int64)
        if (way == len(days.pairs)).any():
            of_way = np.append(of_way, n_calendars + n_dated)
            count, periods = np.append(count, 1), np.append(periods, 2 * END_PS)
            days_ps = np.concatenate([days_ps, np.zeros((1, 2), np.int64)])
            slots = np.concatenate([slots, np.full((1, 2), NONE)])
        own = np.full(len(pairs), number)
        parts.append(
            (cables, own, pairs + n_fibers, near, of_way[way], count, days_ps, periods, slots)
        )
        n_fibers += len(one.edges)
        n_calendars += count.size
    found = CircuitCables(*(np.concatenate(column) for column in zip(*parts, strict=True)))
    return found._replace(first_day=offsets(found.first_day))


def _both_ways(pairs: Ints, bidirectional: bool) -> tuple[Ints, Ints]:
    """Return the port pairs that become cables, and the row of `pairs` of each direction.

    Both are int64[n, 2], the lower port first, in ascending order. A direction that is never up has
    row n.
    """
    n = len(pairs)
    if bidirectional:
        return pairs, np.repeat(np.arange(n), 2).reshape(n, 2)
    low, high = pairs.min(axis=1), pairs.max(axis=1)
    scale = int(high.max(initial=0)) + 1
    cables, which = np.unique(low * scale + high, return_inverse=True)
    way = np.full((cables.size, 2), n)
    way[which.reshape(-1), (pairs[:, 0] > pairs[:, 1]).astype(np.int64)] = np.arange(n)
    return np.stack([cables // scale, cables % scale], axis=1), way


def circuits_of(switches: list[CircuitSwitch], rows: CircuitCables, ends: Ints) -> Circuits:
    """Return the role of each port in circuits. `ends` (int64[n_ports]) is 2 * cable + end
    of each port, counted from the first circuit cable; negative for others."""
    here = ends >= 0

    def by_port(values: Ints, dtype: type) -> Any:
        found: Any = np.full(ends.size, NONE, dtype)
        found[here] = values.reshape(-1)[ends[here]]
        return found

    return Circuits(
        names=tuple(one.name for one in switches),
        night_ps=np.array([one.schedule.night_ps for one in switches], np.int64),
        of_port=by_port(np.repeat(rows.of_cable, 2), np.int32),
        fiber=by_port(rows.fiber, np.int32),
        near_ps=by_port(rows.near_ps, np.int64),
        calendar=by_port(rows.calendar, np.int32),
        first_day=rows.first_day,
        days_ps=rows.days_ps,
        period_ps=rows.period_ps,
        phase_schedule=phase_schedule_of(
            [(one.name, one.schedule) for one in switches], rows.slots
        ),
    )
