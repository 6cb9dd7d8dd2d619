"""Circuit switches that follow the workload: who changes, and after the flows of which phases."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from netsim.errors import InputError
from netsim.model.schedules import Schedule
from netsim.units import format_time

Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Steering:
    """The steered circuit switches of a network, which all change at the same times.

    Attributes:
        n_slots: slots that each has, and phases that there are.
        control_ps: from when a phase is over until the mirrors turn.
        dark_ps: how long ports that get another partner are dark then: of all the longest time.
        slots: int64[k, 2], of each of the network's days (`Circuits.days_ps`) the slots that it
            lasts, from ... up to; -1 for days by a timetable.
        phase_of_flow: int64[n_flows], the phase of each flow of the workload, -1 for none; None as
            long as the network is not told.
    """

    n_slots: int
    control_ps: int
    dark_ps: int
    slots: Ints
    phase_of_flow: Ints | None = None

    @property
    def turns_ps(self) -> int:
        """How long all orders and turns take together."""
        return (self.n_slots - 1) * (self.control_ps + self.dark_ps)


def steering_of(switches: Sequence[tuple[str, Schedule]], slots: Ints) -> Steering | None:
    """That of a network with these circuit switches, by name; None if none is steered.

    Raises InputError if two of them cannot change together.
    """
    steered = [(name, schedule) for name, schedule in switches if schedule.steered]
    if not steered:
        return None
    first, one = steered[0]
    for name, other in steered[1:]:
        if len(other.matchings) != len(one.matchings):
            raise InputError(
                f"{first} has {len(one.matchings)} slots, and {name} {len(other.matchings)}",
                hint="steered circuit switches have a slot for each phase; a matching may be twice",
            )
        if other.control_ps != one.control_ps:
            times = [format_time(each.control_ps or 0, 4) for each in (one, other)]
            raise InputError(
                f"{first} is given its orders in {times[0]}, and {name} in {times[1]}",
                hint="one control_ps for all steered circuit switches of a network",
            )
    assert one.control_ps is not None
    dark_ps = max(schedule.dark_ps for _, schedule in steered)
    return Steering(len(one.matchings), one.control_ps, dark_ps, slots)
