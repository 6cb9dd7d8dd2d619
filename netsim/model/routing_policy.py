"""Policy routing: several routing tables in one network, and which packets use which.

A network whose switches are joined by circuits and by a packet fabric has a table over each. A
packet is addressed to a port of a host by one table: the ports of hosts are counted once for each,
and a switch's row has all edge switches for each.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from netsim.errors import InputError, did_you_mean
from netsim.memory import require_room
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
from netsim.model.time_slots import CompactSlotTables, TimeSlotRouting, TimeSlotTables

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
