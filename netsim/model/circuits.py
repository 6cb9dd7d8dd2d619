"""Circuit switches: the cables that they make between other switches.

A circuit switch has no buffers and looks at no packet: light that comes in by a port leaves by the
one that its map joins to that port now. So what it puts between two switches is a cable that is
there on some days only. Those are the cables that a network has; the circuit switch itself
is no node of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from netsim.errors import InputError
from netsim.limits import DELAY_PS
from netsim.model.schedules import END_PS, NONE, Schedule, days_of
from netsim.units import format_rate, format_time


@dataclass(frozen=True, eq=False)
class PhaseSchedule:
    """The phase-driven circuit switches of a network, which all change at the same times.

    Attributes:
        n_slots: slots of each switch, which is the number of phases.
        control_delay_ps: from the end of a phase to the start of the reconfiguration.
        night_ps: how long reconfigured circuits are down; the longest time of all switches.
        slots: int64[k, 2], for each of the network's days (`Circuits.days_ps`) its first slot and
            the one past its last; -1 for days on a timetable.
        phase_of_flow: int64[n_flows], the phase of each flow, -1 for none; None until the network
            knows them.
    """

    n_slots: int
    control_delay_ps: int
    night_ps: int
    slots: Ints
    phase_of_flow: Ints | None = None

    @property
    def reconfiguration_ps(self) -> int:
        """Return how long all control delays and reconfigurations take together."""
        return (self.n_slots - 1) * (self.control_delay_ps + self.night_ps)


def phase_schedule_of(
    switches: Sequence[tuple[str, Schedule]], slots: Ints
) -> PhaseSchedule | None:
    """Return the phase schedule of a network with these circuit switches, by name; None if it has
    none.

    Raise InputError if two of them cannot reconfigure together.
    """
    phase_driven = [(name, schedule) for name, schedule in switches if schedule.phase_driven]
    if not phase_driven:
        return None
    first, one = phase_driven[0]
    for name, other in phase_driven[1:]:
        if len(other.matchings) != len(one.matchings):
            raise InputError(
                f"{first} has {len(one.matchings)} slots, and {name} {len(other.matchings)}",
                hint="each needs one slot for each phase; a matching may repeat",
            )
        if other.control_delay_ps != one.control_delay_ps:
            times = [format_time(each.control_delay_ps or 0, 4) for each in (one, other)]
            raise InputError(
                f"{first} has a control delay of {times[0]}, and {name} of {times[1]}",
                hint="one control_delay_ps for all phase-driven circuit switches of a network",
            )
    assert one.control_delay_ps is not None
    night_ps = max(schedule.night_ps for _, schedule in phase_driven)
    return PhaseSchedule(len(one.matchings), one.control_delay_ps, night_ps, slots)


Ints = NDArray[np.int64]


@dataclass
class CircuitSwitch:
    """A circuit switch as it is being built: the fibers that lead to it, port by port."""

    name: str
    schedule: Schedule
    edges: list[int] = field(default_factory=list)
    delays_ps: list[int] = field(default_factory=list)
    rate_bps: int = 0

    def add(self, edge: int, edge_name: str, rate_bps: int, delay_ps: int) -> int:
        """Give the next port a fiber to the switch `edge`; returns the port's number."""
        port, what = len(self.edges), f"the fiber {edge_name} - {self.name}"
        if port == self.schedule.n_ports:
            raise InputError(f"{what} is one more than {self.name} has ports, {port}")
        if rate_bps <= 0 or not 0 < delay_ps < DELAY_PS:
            hint = f"both more than 0, the delay less than {format_time(DELAY_PS, 4)}"
            raise InputError(f"{what} has {rate_bps} bit/s and a delay of {delay_ps} ps", hint=hint)
        if port and rate_bps != self.rate_bps:
            raise InputError(
                f"{what} has {format_rate(rate_bps)}, but those before it "
                f"{format_rate(self.rate_bps)}",
                hint="a circuit switch turns light and no rate into another: the same on all",
            )
        self.rate_bps = rate_bps
        self.edges.append(edge)
        self.delays_ps.append(delay_ps)
        return port


@dataclass(frozen=True, eq=False)
class Circuits:
    """The cables of a network that go through circuit switches, by the ports at their ends.

    Attributes:
        names: of the circuit switches.
        dark_ps: int64[n_switches], how long ports of each that get another partner are dark.
        of_port: int32[n_ports], the circuit switch of a port's cable, or -1.
        fiber: int32[n_ports], the fiber of a port's cable at its own end, or -1. The cables of one
            fiber are never there at the same time.
        near_ps: int64[n_ports], the delay of that fiber.
        calendar: int32[n_ports], the days of the light that leaves by a port; -1 if it always
            passes.
        first_day: int64[n_calendars + 1], where those of a calendar begin; each has one at least.
        days_ps: int64[k, 2], from when until when light passes the circuit switch, in the first
            period. A way that light never goes has one day, which ends as it begins.
        period_ps: int64[n_calendars], after which it is the same again.
        steering: of circuit switches that follow the workload; None if there are none.
    """

    names: tuple[str, ...]
    night_ps: Ints
    of_port: NDArray[np.int32]
    fiber: NDArray[np.int32]
    near_ps: Ints
    calendar: NDArray[np.int32]
    first_day: Ints
    days_ps: Ints
    period_ps: Ints
    phase_schedule: PhaseSchedule | None = None

    @property
    def change(self) -> bool:
        """Is any of the cables dark at any time, one way at least?"""
        return bool(self.period_ps.size)

    @property
    def follow(self) -> bool:
        """Is any of them there at times that the workload decides?"""
        return self.phase_schedule is not None and bool((self.phase_schedule.slots >= 0).any())

    @cached_property
    def up_in_slot(self) -> NDArray[np.bool_] | None:
        """bool[n_slots, n_ports]: in which slots of phase-driven circuit switches light that leaves
        by a port passes; True for all other ports. None if there are no such switches."""
        if self.phase_schedule is None:
            return None
        of_day = np.repeat(np.arange(self.period_ps.size), np.diff(self.first_day))
        up = np.zeros((self.phase_schedule.n_slots + 1, self.period_ps.size + 1), np.int64)
        follows = self.phase_schedule.slots[:, 0] != NONE
        first, behind = self.phase_schedule.slots[follows].T
        np.add.at(up, (first, of_day[follows]), 1)
        np.add.at(up, (behind, of_day[follows]), -1)
        found = np.cumsum(up, axis=0)[:-1] > 0
        found[:, of_day[~follows]] = True
        found[:, -1] = True  # of no calendar
        return found[:, self.calendar]

    def in_turn(self) -> Circuits:
        """The same, had each slot of phase-driven circuit switches a picosecond and they
        repeated."""
        if self.phase_schedule is None:
            return self
        return self._with_days(self.phase_schedule.slots, self.phase_schedule.n_slots)

    def as_it_came(self, begin_ps: Ints) -> Circuits:
        """The same, by a timetable of what phase-driven circuit switches did.

        `begin_ps` (int64[n_slots]) is when each of their slots began, -1 if that is not known yet.
        """
        if self.phase_schedule is None:
            return self
        after = np.where(begin_ps < 0, END_PS, begin_ps)
        first, behind = self.phase_schedule.slots.T
        days_ps = self.days_ps.copy()
        night_ps = np.where(first > 0, days_ps[:, 0], 0)
        days_ps[:, 0] = np.where(first > 0, after[first] + night_ps, -END_PS)
        days_ps[:, 1] = np.append(after, END_PS)[behind]
        days_ps[after[first] == END_PS] = -END_PS
        return self._with_days(days_ps, 2 * END_PS)

    def _with_days(self, days_ps: Ints, period_ps: int) -> Circuits:
        """The same with other days in place of those that the workload decides."""
        assert self.phase_schedule is not None
        follows = self.phase_schedule.slots[:, 0] != NONE
        return replace(
            self,
            days_ps=np.where(follows[:, None], days_ps, self.days_ps),
            period_ps=np.where(follows[self.first_day[:-1]], period_ps, self.period_ps),
            phase_schedule=None,
        )

    @cached_property
    def ever(self) -> NDArray[np.bool_]:
        """bool[n_calendars]: is there any light on these days?"""
        ever: NDArray[np.bool_] = (
            self.days_ps[self.first_day[1:] - 1, 1] > (self.days_ps[self.first_day[:-1], 0])
        )
        return ever

    @cached_property
    def ever_up(self) -> NDArray[np.bool_] | None:
        """bool[n_ports]: False where light never passes, since the cable goes the other way only.

        None if there is no such port.
        """
        return None if self.ever.all() else np.append(self.ever, True)[self.calendar]


class CircuitCables(NamedTuple):
    """All cables of circuit switches as rows, before ports are numbered.

    `cables` is as `NetworkBuilder` has them, the others say of each, or of each and its two ends
    (`fiber`, `near_ps`, `calendar`), what `Circuits` says of ports.
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
    """The cables that circuit switches make: of each one behind the other, by the ports that it
    joins, in ascending order.

    Raises InputError for a port without a fiber, or one that joins a switch to itself.
    """
    parts: list[tuple[Ints, ...]] = []
    n_fibers = n_calendars = 0
    for number, one in enumerate(switches):
        if len(one.edges) < one.schedule.n_ports:
            raise InputError(
                f"port {len(one.edges)} of circuit switch {one.name} has no fiber",
                hint=f"its schedule has {one.schedule.n_ports} ports",
            )
        days = days_of(one.schedule)
        pairs, way = _both_ways(days.pairs, one.schedule.bidirectional)
        edges, delays = np.array(one.edges), np.array(one.delays_ps)
        ends, near = edges[pairs], delays[pairs]
        for a, b in pairs[ends[:, 0] == ends[:, 1]][:1].tolist():
            raise InputError(
                f"circuit switch {one.name} joins its ports {a} and {b}, which lead to one switch"
            )
        cables = np.zeros((len(pairs), 5), np.int64)
        cables[:, :2], cables[:, 2], cables[:, 3] = ends, one.rate_bps, near.sum(axis=1)
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
    columns = [np.concatenate(column) for column in zip(*parts, strict=True)]
    cables, of_cable, fiber, near_ps, calendar, counts, days_ps, period_ps, slots = columns
    return CircuitCables(
        cables=cables,
        of_cable=of_cable,
        fiber=fiber,
        near_ps=near_ps,
        calendar=calendar,
        first_day=np.concatenate([[0], np.cumsum(counts)]).astype(np.int64),
        days_ps=days_ps,
        period_ps=period_ps,
        slots=slots,
    )


def _both_ways(pairs: Ints, bidirectional: bool) -> tuple[Ints, Ints]:
    """The pairs of ports that become cables, and which of `pairs` is the light from either end.

    Both are int64[n, 2]. The lower port comes first, in ascending order. A way that light never
    goes is as if it were one more pair behind the others.
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
    """What ports are to circuits. `ends` (int64[n_ports]) is 2 * cable + end of each port, counted
    from the first cable of circuit switches on, so that others are negative."""
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
