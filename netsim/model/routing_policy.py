"""Policy routing: several routing tables in a network, and which packets use which.

A network whose switches are connected by circuits and by a packet fabric has a table for each. A
packet is addressed to a host's port in one table: addresses number the ports of hosts once for each
table, and a switch's row has all edge switches for each table. A table may be time-slotted, such as
over circuits.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from hashlib import blake2b
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from netsim.common.memory import require_room
from netsim.errors import InputError, did_you_mean
from netsim.frozen import frozen
from netsim.limits import HORIZON_PS
from netsim.model.circuits import NONE, Circuits
from netsim.model.columns import Flags, Ints, ranks_within
from netsim.model.flows import FlowTable
from netsim.model.routing import (
    COUNT_BITS,
    NO_ROUTE,
    Routing,
    RoutingTable,
    TableWriter,
    Wiring,
    shortest_paths,
)
from netsim.units import format_time

MAX_SLOTS = 20_000  # most slots per period: routes of each take 10 ms for a hundred switches


@frozen(eq=False)
class TimeSlotTables:
    """Tables of slots that last `slots_ps` (int64[n]); slot 0 starts at `offset_ps`."""

    slots_ps: Ints
    offset_ps: int
    tables: Iterable[RoutingTable]


@frozen(eq=False)
class CompactSlotTables:
    """The rows of all switches in every slot; equal rows are stored once."""

    slots_ps: Ints  # int64[n], duration of each slot
    offset_ps: int  # start of slot 0; slots repeat forever, also before it
    row_first: Ints  # int64[n, n_switches], start of a row in `route`
    # route, route_ports: as in `RoutingTable`
    route: Ints
    route_ports: NDArray[np.int32]

    @property
    def nbytes(self) -> int:
        return self.row_first.nbytes + self.route.nbytes + self.route_ports.nbytes


class TimeSlotRouting(ABC):
    """A `Routing` with a table for each time slot; a call returns slot 0's table."""

    @abstractmethod
    def __call__(self, wiring: Wiring) -> RoutingTable: ...

    @abstractmethod
    def by_slot(self, wiring: Wiring) -> TimeSlotTables:
        """Return all tables of a period."""


@frozen
class Expander(TimeSlotRouting):
    """Shortest paths over circuits that are up and stay up for a while.

    A circuit is on paths from the start of its day until `drain_ps` before its end; other cables
    always are. Packets then find every circuit up if `drain_ps` covers queueing for it,
    transmission, propagation to the circuit switch, guard time and clock error. They immediately
    take several circuits in a row instead of waiting for the direct one. These are the paths of
    small flows in Opera (W. M. Mellette et al., "Expanding across time to deliver bandwidth
    efficiency and low latency", NSDI 2020), where switches reconfigure one after another and the
    others always connect all racks.
    """

    drain_ps: int

    def __call__(self, wiring: Wiring) -> RoutingTable:
        circuits = wiring.circuits
        if circuits is None or not circuits.change:
            return shortest_paths(wiring)
        slots_ps, begin_ps = self._slots(circuits)
        return shortest_paths(wiring.only(self._there(circuits, begin_ps, int(slots_ps[0]))))

    def by_slot(self, wiring: Wiring) -> TimeSlotTables:
        """Return all tables of a period. Raises InputError for too many slots, schedules that do
        not repeat and, while tables are read, edge switches without a route in a slot."""
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
        """Return slot durations, between changes of circuits on paths, and the first start."""
        if circuits.follow:
            raise InputError("an expander needs circuits on a timetable, not phase-driven ones")
        changing = np.flatnonzero(circuits.ever)
        periods = circuits.period_ps[changing]
        if (periods >= HORIZON_PS).any():
            message = "time-slotted routes need schedules that repeat"
            raise InputError(message, hint="repeats=True")
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
            f"the combined circuit schedule of {format_time(period_ps, 6)} has more than "
            f"{MAX_SLOTS:,} slots",
            hint="choose periods of circuit switches with a short common multiple",
        )

    def _there(self, circuits: Circuits, begin_ps: int, slot_ps: int) -> Flags:
        """Return bool[n_ports], whether a port has a circuit in a slot and `drain_ps` longer."""
        up_ps, down_ps = circuits.days_ps.T
        of_day = np.repeat(circuits.period_ps, np.diff(circuits.first_day))
        stays = (begin_ps - up_ps) % of_day + slot_ps <= down_ps - self.drain_ps - up_ps
        there = np.logical_or.reduceat(stays, circuits.first_day[:-1])
        found: Flags = np.append(there, True)[circuits.calendar]
        return found


def _check_joined(wiring: Wiring, table: RoutingTable, when: str) -> None:
    """Refuse a slot in which edge switches of a network do not reach each other."""
    for begin, end in pairwise(wiring.first_group.tolist()):
        edges = wiring.edge_switch[begin:end]
        rows = table.route[table.row_first(wiring)[edges][:, None] + np.arange(end - begin)]
        for a, b in np.argwhere(rows == NO_ROUTE)[:1].tolist():
            message = f"no circuits connect edge switches {a} and {b} {when}"
            hint = "use more staggered circuit switches, other matchings, or a shorter drain"
            raise InputError(message, hint=hint)


def circuit_routes(wiring: Wiring) -> RoutingTable:
    """Return all shortest paths over circuits only."""
    return shortest_paths(wiring.only(_by_circuit(wiring)))


def direct_circuit_routes(wiring: Wiring) -> RoutingTable:
    """Return only circuits to the edge switch of the destination."""
    table = circuit_routes(wiring)
    switch = np.repeat(np.arange(wiring.n_switches), wiring.row_lengths)
    place = ranks_within(wiring.row_lengths)
    edge = wiring.edge_switch[wiring.first_group[wiring.switch_network[switch]] + place]
    route = table.dense(wiring).copy()
    led = np.flatnonzero(route > 0)
    local = table.route_ports[route[led] >> COUNT_BITS]
    next_switch = wiring.peer_switch[wiring.node_first_port[switch[led] + wiring.n_hosts] + local]
    route[led[next_switch != edge[led]]] = NO_ROUTE
    return RoutingTable(route, table.route_ports)


def routes_in_slot(slot: int, routing: Routing = circuit_routes) -> Routing:
    """Return a routing over the circuits in one slot of phase-driven circuit switches."""

    def found(wiring: Wiring) -> RoutingTable:
        up = None if wiring.circuits is None else wiring.circuits.up_in_slot
        return routing(wiring if up is None else wiring.only(up[slot]))

    return found


def packet_fabric_routes(wiring: Wiring) -> RoutingTable:
    """Return all shortest paths over cables that are not circuits."""
    return shortest_paths(wiring.only(~_by_circuit(wiring)))


def _by_circuit(wiring: Wiring) -> Flags:
    found = np.zeros(wiring.port_node.size, bool)
    if wiring.circuits is not None:
        found = wiring.circuits.of_port != NONE
    return found


@frozen
class NamedRouting:
    """A routing table: its name, which results report, and the routing that makes it. At most one
    in a policy is a `TimeSlotRouting`."""

    name: str
    routing: Routing = shortest_paths


@frozen
class RoutingPolicy:
    """The routing tables of a network, and which packets use which; a `Routing` of them all.

    Attributes:
        routings: at least one. A port pair uses one for its data and one for its control packets.
        large_min_bytes: data of flows of at least this size uses the first table.
        by_phase: flows with a phase of phase-driven circuit switches use the table of that number
            instead.
        small_table: the table of smaller flows; None: the first.
        control_table: the table of all control packets; None: the table of their flow's data.
        fallback: the table of packets without a route in theirs; None: the flow is refused.
        table_of: returns int64[n], the numbers of the tables of flows' data, -1 for flows under the
        rules above; None: all flows. A flow may also name its table itself.
    """

    routings: Sequence[NamedRouting]
    large_min_bytes: int = 0
    by_phase: bool = False
    small_table: str | None = None
    control_table: str | None = None
    fallback: str | None = None
    table_of: Callable[[FlowTable], Ints] | None = None

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
        """Return the rows of all switches, each with the entries of all tables in order."""
        writer = TableWriter()
        route = _joined(writer, wiring, [routing.routing(wiring) for routing in self.routings])
        return writer.table(route, len(self.routings) * wiring.route_first)

    def time_slots(self, wiring: Wiring) -> CompactSlotTables | None:
        """Return these rows for every slot if a table is time-slotted. Raises InputError if they
        do not fit into memory."""
        for routing in self.routings:
            if isinstance(routing.routing, TimeSlotRouting):
                found = routing.routing.by_slot(wiring)
                others = [None if one is routing else one.routing(wiring) for one in self.routings]
                return _compact(wiring, found, others)
        return None

    def number(self, name: str | None) -> int:
        """Return the number of the table with this name, 0 for None."""
        return 0 if name is None else self.names.index(name)


def _joined(writer: TableWriter, wiring: Wiring, tables: Sequence[RoutingTable]) -> Ints:
    """Return the entries of several tables, joined for each switch, with offsets of `writer`."""
    length = wiring.row_lengths
    before = np.repeat(wiring.route_first, length)
    within = np.arange(before.size) - before
    route = np.empty(before.size * len(tables), np.int64)
    for number, table in enumerate(tables):
        place = before * len(tables) + number * np.repeat(length, length) + within
        route[place] = writer.translated(table.dense(wiring), table.route_ports)
    return route


def _compact(
    wiring: Wiring, found: TimeSlotTables, others: Sequence[RoutingTable | None]
) -> CompactSlotTables:
    """Return the rows of all tables, of which one (None in `others`) has a table for each slot."""
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
