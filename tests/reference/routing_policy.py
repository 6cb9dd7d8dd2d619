"""Routing tables: the cables of each, and the table of each packet."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .port_pairs import PortPair
    from .simulator import Simulator


@dataclass(frozen=True)
class RoutingPolicy:
    """The policy of a case.

    ``cables`` are each table's cables, by their positions in the list. For the table ``slotted``,
    if any, they are for slot 0; ``by_slot`` has the cables of all slots, which last ``slots_ps``
    and begin at ``offset_ps``. ``of_flow`` has the table that a flow, or a rule, names.
    """

    cables: tuple[frozenset[int], ...]
    large_min_bytes: int = 0
    by_phase: bool = False
    small_table: int = 0
    control_table: int | None = None
    fallback: int | None = None
    slotted: int | None = None
    by_slot: tuple[frozenset[int], ...] = ()
    slots_ps: tuple[int, ...] = ()
    offset_ps: int = 0
    of_flow: dict[int, int] = field(default_factory=dict)

    def slot_at(self, time: int) -> int:
        left = (time - self.offset_ps) % sum(self.slots_ps)
        for slot, length in enumerate(self.slots_ps):
            if left < length:
                return slot
            left -= length
        raise AssertionError

    def slots_of(self, table: int) -> tuple[frozenset[int], ...]:
        """Return the cables of a table in each of its slots; one unless it is time-slotted."""
        return self.by_slot if table == self.slotted else (self.cables[table],)


def data_table(sim: Simulator, flow: int, port_pair: PortPair) -> int:
    """Return the table of data packets on a port pair from source to destination."""
    policy = sim.case.policy
    if policy is None:
        return 0
    first = max(0, sim.case.phases[flow]) if policy.by_phase else 0
    table = first if sim.flows[flow].listed_bytes >= policy.large_min_bytes else policy.small_table
    table = policy.of_flow.get(flow, table)
    if policy.fallback is not None and not sim.leads(table, *port_pair):
        table = policy.fallback
    return table


def control_table(sim: Simulator, flow: int, port_pair: PortPair) -> int:
    """Return the table of control packets of both sides, on such a port pair."""
    policy = sim.case.policy
    if policy is None:
        return 0
    table = (
        data_table(sim, flow, port_pair) if policy.control_table is None else policy.control_table
    )
    there_and_back = sim.leads(table, *port_pair) and sim.leads(table, *port_pair[::-1])
    if policy.fallback is not None and not there_and_back:
        table = policy.fallback
    return table
