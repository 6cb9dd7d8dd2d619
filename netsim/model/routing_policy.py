"""Policy routing: several routing tables in one network, and which packets use which.

A network whose switches are joined by circuits and by a packet fabric has a table over each. A
packet is addressed to a port of a host by one table: the ports of hosts are counted once for each,
and a switch's row has all edge switches for each.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from netsim.errors import InputError, did_you_mean
from netsim.limits import HORIZON_PS
from netsim.memory import require_room
from netsim.model.circuits import Circuits
from netsim.model.routing import (
    COUNT_BITS,
    NO_ROUTE,
    Routing,
    RoutingTable,
    TableWriter,
    Wiring,
    shortest_paths,
)
from netsim.model.schedules import NONE
from netsim.units import format_time

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


Ints = NDArray[np.int64]


def circuit_routes(wiring: Wiring) -> RoutingTable:
    """All shortest paths over circuits, and over nothing else."""
    return shortest_paths(wiring.only(_by_circuit(wiring)))


def direct_circuit_routes(wiring: Wiring) -> RoutingTable:
    """Circuits that join a switch to the one at which a packet is to arrive, and no others."""
    table = circuit_routes(wiring)
    lengths = np.diff(wiring.first_group)[wiring.switch_network]
    switch = np.repeat(np.arange(wiring.n_switches), lengths)
    place = np.arange(switch.size) - np.repeat(wiring.route_first, lengths)
    edge = wiring.edge_switch[wiring.first_group[wiring.switch_network[switch]] + place]
    led = np.flatnonzero(table.route > 0)
    local = table.route_ports[table.route[led] >> COUNT_BITS]
    next_switch = wiring.peer_switch[wiring.node_first_port[switch[led] + wiring.n_hosts] + local]
    route = table.route.copy()
    route[led[next_switch != edge[led]]] = NO_ROUTE
    return RoutingTable(route, table.route_ports)


def routes_in_slot(slot: int, routing: Routing = circuit_routes) -> Routing:
    """Routes over what is there in one slot of phase-driven circuit switches, by another
    routing."""

    def found(wiring: Wiring) -> RoutingTable:
        return routing(
            wiring if wiring.up_in_slot is None else wiring.only(wiring.up_in_slot[slot])
        )

    return found


def packet_fabric_routes(wiring: Wiring) -> RoutingTable:
    """All shortest paths over cables that go through no circuit switch."""
    return shortest_paths(wiring.only(~_by_circuit(wiring)))


def _by_circuit(wiring: Wiring) -> NDArray[np.bool_]:
    """bool[n_ports]: ports whose cables go through circuit switches."""
    found = np.zeros(wiring.port_node.size, bool)
    if wiring.circuits is not None:
        found = wiring.circuits.of_port != NONE
    return found


@dataclass(frozen=True)
class NamedRouting:
    """A routing table: its name, which results report, and the routing that makes it.

    At most one of a policy is a `TimeSlotRouting`.
    """

    name: str
    routing: Routing = shortest_paths


@dataclass(frozen=True)
class RoutingPolicy:
    """The routing tables of a network, and which packets use which; a `Routing` of them all.

    Attributes:
        routings: at least one. A port pair uses one for its data and one for its control packets.
        large_min_bytes: data of flows of at least this size uses the first table.
        by_phase: flows with a phase of phase-driven circuit switches use the table of that number
            instead.
        small_table: the table of smaller flows; None: the first.
        control_table: the table of all control packets; None: that of their flow's data.
        fallback: the table of packets without a route in theirs; None: the flow is refused.
    """

    routings: Sequence[NamedRouting]
    large_min_bytes: int = 0
    by_phase: bool = False
    small_table: str | None = None
    control_table: str | None = None
    fallback: str | None = None

    def __post_init__(self) -> None:
        names = self.names
        if not names or len(set(names)) < len(names):
            raise InputError("the routing tables of a network need distinct names")
        if sum(isinstance(routing.routing, TimeSlotRouting) for routing in self.routings) > 1:
            raise InputError("more than one routing table is time-slotted", hint="one at most")
        for what in ("small_table", "control_table", "fallback"):
            name = getattr(self, what)
            if name is not None and name not in names:
                hint = did_you_mean(name, names)
                raise InputError(f"{what}: no routing table is named {name!r}", hint=hint)

    @property
    def names(self) -> list[str]:
        return [routing.name for routing in self.routings]

    def __call__(self, wiring: Wiring) -> RoutingTable:
        """The rows of all switches; in each the entries of all tables, one after the other."""
        writer = TableWriter()
        return writer.table(
            _joined(writer, wiring, [routing.routing(wiring) for routing in self.routings])
        )

    def time_slots(self, wiring: Wiring) -> CompactSlotTables | None:
        """Those rows in every slot, if a table is time-slotted.

        Raises InputError if they do not fit into memory.
        """
        for routing in self.routings:
            if isinstance(routing.routing, TimeSlotRouting):
                found = routing.routing.by_slot(wiring)
                others = [None if one is routing else one.routing(wiring) for one in self.routings]
                return _compact(wiring, found, others)
        return None

    def number(self, name: str | None) -> int:
        """Return the number of the table of a name, 0 for None."""
        return 0 if name is None else self.names.index(name)


def _joined(writer: TableWriter, wiring: Wiring, tables: Sequence[RoutingTable]) -> Ints:
    """The entries of several tables for each switch one behind the other, as `writer` has them."""
    length = np.diff(wiring.first_group)[wiring.switch_network]
    before = np.repeat(wiring.route_first, length)
    within = np.arange(before.size) - before
    route = np.empty(before.size * len(tables), np.int64)
    for number, table in enumerate(tables):
        place = before * len(tables) + number * np.repeat(length, length) + within
        route[place] = writer.translated(table.route, table.route_ports)
    return route


def _compact(
    wiring: Wiring, found: TimeSlotTables, others: Sequence[RoutingTable | None]
) -> CompactSlotTables:
    """The rows of all tables, one of which (None among `others`) has a table for each slot."""
    writer = TableWriter()
    first = len(others) * np.append(wiring.route_first, wiring.n_entries)
    known: dict[bytes, int] = {}
    rows: list[Ints] = []
    row_first = np.zeros((found.slots_ps.size, wiring.n_switches), np.int64)
    used = 0
    for slot, table in enumerate(found.tables):
        route = _joined(writer, wiring, [table if one is None else one for one in others])
        for switch, (begin, end) in enumerate(pairwise(first.tolist())):
            row = route[begin:end]
            place = known.setdefault(blake2b(row.tobytes(), digest_size=16).digest(), used)
            if place == used and row.size:
                rows.append(row)
                used += row.size
            row_first[slot, switch] = place
        require_room(2 * 8 * used, what=f"the routes of {slot + 1:,} slots", key="topology")
    table = writer.table(np.concatenate(rows))
    return CompactSlotTables(
        found.slots_ps, found.offset_ps, row_first, table.route, table.route_ports
    )
