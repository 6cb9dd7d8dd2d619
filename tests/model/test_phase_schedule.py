"""Phase-driven circuit switches: validation, days in slots, and circuit up time."""

from typing import Any

import numpy as np
import pytest
from circuit_racks import racks
from hypothesis import given, settings
from hypothesis import strategies as st
from raises_input import raises_input

from netsim.model.circuit_times import time_up_ps
from netsim.model.circuits import END_PS, Schedule, days_of

US = 10**6
PAIRS = [[1, 0, 3, 2], [2, 3, 0, 1], [1, 0, 3, 2]]


@pytest.mark.parametrize(
    ("slots_ps", "given", "message"),
    [
        (None, {}, "control_delay_ps"),
        (None, {"control_delay_ps": -1}, ("control_delay_ps", "-1")),
        (None, {"control_delay_ps": 1, "offset_ps": 1}, "phase"),
        (None, {"control_delay_ps": 1, "repeats": False}, "phase"),
        (US, {"control_delay_ps": 1}, "control_delay_ps"),
    ],
)
def test_invalid_phase_driven_schedules_are_rejected(
    slots_ps: int | None, given: dict[str, Any], message: str
) -> None:
    with raises_input(message):
        Schedule(slots_ps, PAIRS, **given)


def test_phase_driven_switches_must_share_slots_and_control_delay() -> None:
    one = Schedule(None, PAIRS, control_delay_ps=9 * US, reconfiguration_delay_ps=US)
    with raises_input("ocs0", "3", "ocs2", "2"):
        racks(one, Schedule(US, PAIRS), Schedule(None, PAIRS[:2], control_delay_ps=9 * US))
    with raises_input("ocs0", "9us", "ocs1", "8us"):
        racks(one, Schedule(None, PAIRS, control_delay_ps=8 * US))
    network = racks(one, Schedule(US, PAIRS), Schedule(None, PAIRS, control_delay_ps=9 * US))
    assert network.circuits is not None
    phase_schedule = network.circuits.phase_schedule
    assert phase_schedule is not None
    assert (phase_schedule.n_slots, phase_schedule.night_ps) == (3, US)
    assert phase_schedule.control_delay_ps == 9 * US
    assert phase_schedule.reconfiguration_ps == 2 * 10 * US


@st.composite
def tables(draw: st.DrawFn) -> np.ndarray:
    """Partial permutations of up to five ports, in up to six slots."""
    n = draw(st.integers(2, 5))
    table = np.full((draw(st.integers(1, 6)), n), -1)
    for row in table:
        others = draw(st.permutations(range(n)))
        for port, other in enumerate(others):
            if port != other and draw(st.booleans()):
                row[port] = other
    return table


@given(tables())
@settings(max_examples=80, deadline=None)
def test_days_of_phase_driven_circuits_are_runs_of_slots(table: np.ndarray) -> None:
    """Compare with each slot of the table; a permanently joined pair has no days."""
    times = {"control_delay_ps": 9 * US, "reconfiguration_delay_ps": 3, "sync_delay_ps": 4}
    schedule = Schedule(None, table, bidirectional=False, **times)
    days = days_of(schedule)
    n_slots = len(table)
    for k, (a, b) in enumerate(days.pairs.tolist()):
        own = slice(*days.first_day[k : k + 2])
        lit = np.zeros(n_slots, bool)
        for (first, behind), (up_ps, down_ps) in zip(
            days.slots[own].tolist(), days.days_ps[own].tolist(), strict=True
        ):
            assert not lit[max(0, first - 1) : behind + 1].any()
            lit[first:behind] = True
            assert (up_ps, down_ps) == (7 if first else -END_PS, END_PS)
        expected = table[:, a] == b
        assert expected.any()
        assert lit.tolist() == (expected & ~expected.all()).tolist()


@given(tables(), st.data())
@settings(max_examples=60, deadline=None)
def test_recorded_slot_starts_give_the_time_circuits_were_up(
    table: np.ndarray, data: st.DataObject
) -> None:
    """Compare the up time with a count of each picosecond of the slots that started."""
    night_ps, n_slots = 3, len(table)
    schedule = Schedule(
        None, table, bidirectional=False, control_delay_ps=9 * US, reconfiguration_delay_ps=night_ps
    )
    circuits = racks(schedule).circuits
    assert circuits is not None
    if not circuits.follow:
        return
    begun = data.draw(st.integers(1, n_slots))
    begins = np.cumsum([0, *(data.draw(st.integers(4, 9)) for _ in range(begun - 1))])
    came = circuits.with_slot_starts(np.append(begins, np.full(n_slots - begun, -1)))
    end_ps = int(begins[-1]) + 6
    found = time_up_ps(came, end_ps)
    assert circuits.up_in_slot is not None
    for port in np.flatnonzero(circuits.calendar >= 0).tolist():
        if not circuits.ever[circuits.calendar[port]]:
            continue
        lit = 0
        for now in range(end_ps):
            slot = int(np.searchsorted(begins, now, side="right")) - 1
            there = circuits.up_in_slot[slot, port]
            turned = slot > 0 and not circuits.up_in_slot[slot - 1, port]
            lit += there and not (turned and now < begins[slot] + night_ps)
        assert found[circuits.calendar[port]] == lit
