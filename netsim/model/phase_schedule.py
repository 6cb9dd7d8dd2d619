"""Phase-driven circuit switches: when they reconfigure, and after which flows."""

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
