"""Time-slotted routes, such as those over circuits that come and go."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from netsim.errors import InputError
from netsim.limits import HORIZON_PS
from netsim.model.circuits import Circuits
from netsim.model.routing import NO_ROUTE, RoutingTable, Wiring, shortest_paths
from netsim.units import format_time

Ints = NDArray[np.int64]

MAX_SLOTS = 20_000
"""In a period, for each of which all routes are made: some 10 ms each for a hundred switches."""


@dataclass(frozen=True, eq=False)
class TimeSlotTables:
    """Tables of slots that last `slots_ps` (int64[n]); slot 0 begins at `offset_ps`."""

    slots_ps: Ints
    offset_ps: int
    tables: Iterable[RoutingTable]


@dataclass(frozen=True, eq=False)
class CompactSlotTables:
    """The rows of all switches in every slot; equal ones are there once.

    Attributes:
        slots_ps: int64[n], how long each slot lasts.
        offset_ps: when slot 0 begins. They repeat for ever, before that as well.
        row_first: int64[n, n_switches], where a row begins in `route`.
        route, route_ports: as in `RoutingTable`.
    """

    slots_ps: Ints
    offset_ps: int
    row_first: Ints
    route: Ints
    route_ports: NDArray[np.int32]

    @property
    def nbytes(self) -> int:
        """Bytes of memory that they take."""
        return self.row_first.nbytes + self.route.nbytes + self.route_ports.nbytes


class TimeSlotRouting(ABC):
    """A `Routing` with a table for each time slot; called, it returns that of slot 0."""

    @abstractmethod
    def __call__(self, wiring: Wiring) -> RoutingTable: ...

    @abstractmethod
    def by_slot(self, wiring: Wiring) -> TimeSlotTables:
        """All tables of a period."""


@dataclass(frozen=True)
class Expander(TimeSlotRouting):
    """Shortest paths over the circuits that are there, and stay for a while.

    A circuit is on paths from when its light passes until `drain_ps` before it ends; cables that
    are no circuits always are. So a packet finds a circuit open if `drain_ps` is at least what it
    waits in queues for it, and then takes to send and to reach the circuit switch, with guard time
    and error of clocks. It takes several circuits one after the other, at once, in place of waiting
    for the direct one: these are the paths of small flows in Opera (W. M. Mellette et al.,
    "Expanding across time to deliver bandwidth efficiency and low latency", NSDI 2020), in which
    switches turn one after the other, so that what the others join hangs together at any time.
    """

    drain_ps: int

    def __call__(self, wiring: Wiring) -> RoutingTable:
        circuits = wiring.circuits
        if circuits is None or not circuits.change:
            return shortest_paths(wiring)
        slots_ps, begin_ps = self._slots(circuits)
        return shortest_paths(wiring.only(self._there(circuits, begin_ps, int(slots_ps[0]))))

    def by_slot(self, wiring: Wiring) -> TimeSlotTables:
        """All tables of a period.

        Raises InputError if slots are too many or schedules do not repeat, and, as tables are
        taken, if in a slot some edge switch cannot reach another one.
        """
        circuits = wiring.circuits
        if circuits is None or not circuits.change:
            return TimeSlotTables(np.array([HORIZON_PS]), 0, [shortest_paths(wiring)])
        slots_ps, first_ps = self._slots(circuits)
        begins_ps = first_ps + np.cumsum(slots_ps) - slots_ps

        def tables() -> Iterable[RoutingTable]:
            for begin_ps, slot_ps in zip(begins_ps.tolist(), slots_ps.tolist(), strict=True):
                table = shortest_paths(wiring.only(self._there(circuits, begin_ps, slot_ps)))
                _check_joined(wiring, table, f"from {format_time(begin_ps, 6)} on")
                yield table

        return TimeSlotTables(slots_ps, first_ps, tables())

    def _slots(self, circuits: Circuits) -> tuple[Ints, int]:
        """How long slots last, between two times at which circuits come or leave paths, and when
        the first begins."""
        if circuits.follow:
            raise InputError("paths over circuits that follow the workload are not known before")
        changing = np.flatnonzero(circuits.ever)
        periods = circuits.period_ps[changing]
        if (periods >= HORIZON_PS).any():
            raise InputError(
                "routes that take turns with circuits go by schedules that repeat",
                hint="repeats=True",
            )
        period_ps = math.lcm(*np.unique(periods).tolist())
        up_ps, down_ps = circuits.days_ps.T
        of_day = np.repeat(circuits.period_ps, np.diff(circuits.first_day))
        begins: list[Ints] = [np.zeros(0, np.int64)]
        for own_ps in np.unique(periods).tolist():
            if period_ps // own_ps > MAX_SLOTS:
                raise self._too_many(period_ps)
            these = (of_day == own_ps) & (down_ps - up_ps > self.drain_ps)
            times = np.unique(
                np.concatenate([up_ps[these], down_ps[these] - self.drain_ps]) % own_ps
            )
            begins.append((times + own_ps * np.arange(period_ps // own_ps)[:, None]).reshape(-1))
        found = np.unique(np.concatenate(begins))
        if found.size > MAX_SLOTS:
            raise self._too_many(period_ps)
        if not found.size:
            return np.array([period_ps]), 0
        return np.diff(found, append=found[0] + period_ps), int(found[0])

    def _too_many(self, period_ps: int) -> InputError:
        return InputError(
            "routes would take turns with circuits more than "
            f"{MAX_SLOTS:,} times in {format_time(period_ps, 6)}, after which all is as it was",
            hint="periods of circuit switches that have much in common",
        )

    def _there(self, circuits: Circuits, begin_ps: int, slot_ps: int) -> NDArray[np.bool_]:
        """bool[n_ports]: ports whose light passes during a slot, and for `drain_ps` after it."""
        up_ps, down_ps = circuits.days_ps.T
        of_day = np.repeat(circuits.period_ps, np.diff(circuits.first_day))
        stays = (begin_ps - up_ps) % of_day + slot_ps <= down_ps - self.drain_ps - up_ps
        there = np.logical_or.reduceat(stays, circuits.first_day[:-1])
        found: NDArray[np.bool_] = np.append(there, True)[circuits.calendar]
        return found


def _check_joined(wiring: Wiring, table: RoutingTable, when: str) -> None:
    """Refuse a slot in which edge switches of one network do not reach each other."""
    for begin, end in pairwise(wiring.first_group.tolist()):
        edges = wiring.edge_switch[begin:end]
        rows = table.route[wiring.route_first[edges][:, None] + np.arange(end - begin)]
        for a, b in np.argwhere(rows == NO_ROUTE)[:1].tolist():
            raise InputError(
                f"{when} no circuits that are there join edge switches {a} and {b}",
                hint="more circuit switches, which turn one after the other, other matchings, or "
                "less time to drain",
            )
