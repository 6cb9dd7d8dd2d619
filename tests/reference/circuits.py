"""Circuits: when ports of a circuit switch are joined, when a port may send; phase-driven slots."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from .model import CircuitSwitch, Flow, below, rand32, serialization_ps

if TYPE_CHECKING:
    from .port import Port
    from .simulator import Simulator


CLOCK = 12  # purpose of the random draws for clock offsets

FOR_EVER = 1 << 60


class Day(NamedTuple):
    """A day, in the circuit switch's time."""

    up_ps: int
    down_ps: int


@dataclass
class Circuit:
    """A circuit as seen by the port that feeds it."""

    sim: Simulator
    switch: CircuitSwitch
    near: int
    far: int

    def _begin(self, slot: int) -> int:
        switch = self.switch
        n = len(switch.slots_ps)
        if switch.control_delay_ps is not None:
            if slot <= 0:
                return -FOR_EVER
            known = self.sim.phase_schedule.begins_ps
            return known[slot] if slot < len(known) else FOR_EVER
        if switch.repeats:
            period = sum(switch.slots_ps)
            return switch.offset_ps + slot // n * period + sum(switch.slots_ps[: slot % n])
        return FOR_EVER if slot >= n else switch.offset_ps + sum(switch.slots_ps[:slot])

    def _joined(self, slot: int) -> bool:
        switch = self.switch
        n = len(switch.matchings)
        if not switch.repeats and not 0 <= slot < n:
            return False
        return switch.matchings[slot % n][self.near] == self.far

    def _slot_at(self, time: int) -> int:
        switch = self.switch
        n = len(switch.slots_ps)
        if switch.repeats:
            slot = (time - switch.offset_ps) // sum(switch.slots_ps) * n
        else:
            slot = -1
            if time < switch.offset_ps:
                return slot
            slot = 0
        while self._begin(slot + 1) <= time:
            slot += 1
        return slot

    @property
    def is_ever_there(self) -> bool:
        return self.switch.ever_joins(self.near, self.far)

    @property
    def changes(self) -> bool:
        """Return whether the circuit is ever down."""
        slots = range(len(self.switch.matchings))
        ever = self.switch.repeats or self.switch.control_delay_ps is not None
        return not (ever and all(self._joined(slot) for slot in slots))

    def _day_with(self, slot: int) -> Day | None:
        """Return the day that a slot is part of, for a circuit with nights."""
        if not self._joined(slot):
            return None
        first = last = slot
        while self._joined(first - 1):
            first -= 1
        while self._joined(last + 1):
            last += 1
        dark = self.switch.reconfiguration_delay_ps + self.switch.sync_delay_ps
        return Day(self._begin(first) + dark, self._begin(last + 1))

    def passes(self, start: int, end: int) -> bool:
        """Return whether a packet sent between two times passes the circuit switch."""
        if not self.changes:
            return True
        away = self.switch.fibers[self.near][1]
        day = self._day_with(self._slot_at(start + away))
        return day is not None and day.up_ps <= start + away and end + away <= day.down_ps

    def _starts_in(self, day: Day, port: Port) -> tuple[int, int]:
        """Return the first and last time at which the port may start in a day."""
        case = self.sim.case
        rules = case.fabric["circuits"]
        most, guard = rules["clock_offset_ps"], rules["guard_ps"]
        error = below(rand32(case.seed, CLOCK, port.node.index, 0), 2 * most + 1) - most
        first, last = day.up_ps + error + guard, day.down_ps + error - guard
        if rules["at_circuit_end"] == "drop":
            return first, last - 1
        packets = case.packets
        largest = max(packets["payload_bytes"] + packets["header_bytes"], packets["control_bytes"])
        away = self.switch.fibers[self.near][1]
        return first - away, last - away - serialization_ps(largest, port.rate_bps)

    def _openings(self, port: Port, now: int) -> list[tuple[int, int]]:
        """Return the first and last start times of the days around a time."""
        days = (self._day_with(slot) for slot in self._near(now))
        there = [day for day in days if day is not None and day.up_ps < FOR_EVER]
        starts = (self._starts_in(day, port) for day in there)
        return [(first, last) for first, last in starts if first <= last]

    def first_start(self, port: Port, now: int) -> int | None:
        """Return the first time from now on at which the port may start, or None."""
        if not self.changes:
            return now
        there = (max(now, first) for first, last in self._openings(port, now) if now <= last)
        return next(there, None)

    def next_opening(self, port: Port, now: int) -> int | None:
        """Return the next first start time of a day, or None."""
        if not self.changes:
            return None
        return min((first for first, _ in self._openings(port, now) if first > now), default=None)

    def _near(self, now: int) -> range:
        """Return the slots that include the next one in which the port may start."""
        if self.switch.control_delay_ps is not None:
            return range(len(self.switch.matchings))
        # Clock offsets span at most some slots, which are added on both sides.
        here = self._slot_at(now)
        reach = 3 * len(self.switch.slots_ps) + 3
        shortest = min(self.switch.slots_ps)
        rules = self.sim.case.fabric["circuits"]
        away = rules["clock_offset_ps"] + self.switch.fibers[self.near][1]
        reach += away // shortest
        return range(here - reach, here + reach)


class PhaseSchedule:
    """The slots of all phase-driven circuit switches."""

    def __init__(self, sim: Simulator) -> None:
        self.sim = sim
        self.switches = [one for one in sim.case.circuits if one.control_delay_ps is not None]
        self.begins_ps = [0]  # of the slots with a known start
        self.last_ps: dict[int, int] = {}  # phase -> its last delivery
        self.left = [0] * (len(self.switches[0].matchings) if self.switches else 0)
        for phase in sim.case.phases:
            if phase >= 0 and self.left:
                self.left[phase] += 1
        self._order()

    def on_delivered(self, flow: Flow) -> None:
        phase = self.sim.case.phases[flow.index] if self.left else -1
        if phase >= 0:
            self.left[phase] -= 1
            self.last_ps[phase] = self.sim.now
            self._order()

    def begun(self) -> list[int]:
        """Return the starts of slots that began before now."""
        return [at for at in self.begins_ps if at < self.sim.now] if self.left else []

    def _order(self) -> None:
        """Set the start of slots whose previous phases have ended, and notify ports."""
        while len(self.begins_ps) < len(self.left) and not self.left[len(self.begins_ps) - 1]:
            phase = len(self.begins_ps) - 1
            up_ps = self.begins_ps[-1]
            if phase:
                up_ps += max(
                    one.reconfiguration_delay_ps + one.sync_delay_ps for one in self.switches
                )
            over_ps = max(up_ps, self.last_ps.get(phase, 0))
            control_delay_ps = self.switches[0].control_delay_ps
            assert control_delay_ps is not None
            self.begins_ps.append(over_ps + control_delay_ps)
            for switch in self.sim.switches:
                for port in switch.ports:
                    port.hear_of_order()
