"""Ways: over which cables each of them has routes, and which one packets take."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .lanes import Lane
    from .simulator import Simulator


@dataclass(frozen=True)
class Ways:
    """The ways of a case, known by their numbers, and the rule.

    ``cables`` are those that each way has routes over, by their places in the list. Of the way
    ``turning``, if there is one, they are those of slot 0; ``by_slot`` has those of all slots,
    which last ``slots_ps`` and begin at ``offset_ps``.
    """

    cables: tuple[frozenset[int], ...]
    large_bytes: int = 0
    by_phase: bool = False
    small: int = 0
    control: int | None = None
    otherwise: int | None = None
    turning: int | None = None
    by_slot: tuple[frozenset[int], ...] = ()
    slots_ps: tuple[int, ...] = ()
    offset_ps: int = 0

    def slot_at(self, time: int) -> int:
        """The slot at a time."""
        left = (time - self.offset_ps) % sum(self.slots_ps)
        for slot, length in enumerate(self.slots_ps):
            if left < length:
                return slot
            left -= length
        raise AssertionError

    def slots_of(self, way: int) -> tuple[frozenset[int], ...]:
        """The cables of a way in each of its slots; it has one only, unless they take turns."""
        return self.by_slot if way == self.turning else (self.cables[way],)


def data_way(sim: Simulator, flow: int, lane: Lane) -> int:
    """The way of data packets on a lane, which leads from the flow's source to its destination."""
    ways = sim.case.ways
    if ways is None:
        return 0
    first = max(0, sim.case.phases[flow]) if ways.by_phase else 0
    way = first if sim.flows[flow].listed_bytes >= ways.large_bytes else ways.small
    if ways.otherwise is not None and not sim.leads(way, *lane):
        way = ways.otherwise
    return way


def control_way(sim: Simulator, flow: int, lane: Lane) -> int:
    """The way of control packets of both sides, of a lane as above."""
    ways = sim.case.ways
    if ways is None:
        return 0
    way = data_way(sim, flow, lane) if ways.control is None else ways.control
    there_and_back = sim.leads(way, *lane) and sim.leads(way, *lane[::-1])
    if ways.otherwise is not None and not there_and_back:
        way = ways.otherwise
    return way
