"""Circuit switches: ports, matchings and duty cycles."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from netsim.model.circuits import Circuits
from netsim.model.network import Network
from netsim.model.schedules import END_PS


@dataclass(frozen=True)
class CircuitRow:
    """Equal circuit switches.

    Attributes:
        names: names of the first and the last.
        count: number of switches.
        ports: fibers per switch.
        rate_bps: rate of a fiber.
        matchings: matchings per period; 1 if it never changes.
        period_ps: period of the schedule; 0 if it never changes.
        phase_driven: whether it follows the phases of flows; there is then no period.
        night_ps: how long a reconfigured port is down.
        duty: average fraction of time that a port has a circuit.
    """

    names: tuple[str, str]
    count: int
    ports: int
    rate_bps: int
    matchings: int
    period_ps: int
    phase_driven: bool
    night_ps: int
    duty: float


def up_shares(circuits: Circuits) -> NDArray[np.float64]:
    """Return float64[n_ports], the fraction of time that a port's circuit is up; 1 for other
    cables.

    Schedules that do not repeat count by their last slot, which stays; phase-driven ones count all
    slots equally.
    """
    circuits = circuits.with_unit_slots()
    day_ps = np.diff(circuits.days_ps, axis=1).reshape(-1)
    of_day = np.repeat(np.arange(circuits.period_ps.size), np.diff(circuits.first_day))
    up_ps = np.bincount(of_day, day_ps, circuits.period_ps.size)
    share = up_ps / circuits.period_ps
    ends_ps = circuits.days_ps[circuits.first_day[1:] - 1, 1]
    share = np.where(circuits.period_ps >= END_PS, ends_ps >= END_PS, share)
    shares = np.ones(circuits.calendar.size)
    dated = circuits.calendar >= 0
    shares[dated] = share[circuits.calendar[dated]]
    return shares


def circuit_switches(network: Network) -> tuple[CircuitRow, ...]:
    """Return a row for each kind of circuit switch of a network."""
    circuits = network.circuits
    if circuits is None:
        return ()
    shares, phase_schedule = up_shares(circuits), circuits.phase_schedule
    circuits = circuits.with_unit_slots()
    rows: dict[tuple[object, ...], list[CircuitRow]] = {}
    for number, name in enumerate(circuits.names):
        ports = np.flatnonzero(circuits.of_port == number)
        n_fibers = np.unique(circuits.fiber[ports]).size
        calendars = np.unique(circuits.calendar[ports])
        calendars = calendars[calendars >= 0]
        calendars = calendars[circuits.ever[calendars]]
        days = [np.arange(*circuits.first_day[one : one + 2]) for one in calendars.tolist()]
        here = np.concatenate([np.zeros(0, np.int64), *days])
        starts = circuits.days_ps[here, 0]
        period_ps = int(circuits.period_ps[calendars].max(initial=0))
        row = CircuitRow(
            names=(name, name),
            count=1,
            ports=n_fibers,
            rate_bps=int(network.port_rate_bps[ports].max(initial=0)),
            matchings=max(1, np.unique(starts % max(period_ps, 1)).size),
            period_ps=0 if period_ps >= END_PS else period_ps,
            phase_driven=phase_schedule is not None
            and bool((phase_schedule.slots[here, 0] >= 0).any()),
            night_ps=int(circuits.night_ps[number]),
            duty=float(shares[ports].sum() / max(n_fibers, 1)),
        )
        alike = (
            n_fibers,
            row.rate_bps,
            row.matchings,
            row.period_ps,
            row.phase_driven,
            row.night_ps,
        )
        rows.setdefault((*alike, round(row.duty, 9)), []).append(row)
    return tuple(
        replace(these[0], names=(these[0].names[0], these[-1].names[0]), count=len(these))
        for these in rows.values()
    )
