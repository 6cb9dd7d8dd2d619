"""Circuit switches: the cables that they make between other switches.

A circuit switch has no buffers and looks at no packet: light that comes in by a port leaves by the
one that its map joins to that port now. So what it puts between two switches is a cable that is
there on some days only. Those are the cables that a network has; the circuit switch itself
is no node of it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from netsim.errors import InputError
from netsim.limits import DELAY_PS
from netsim.model.schedules import NONE, Schedule, days_of
from netsim.units import format_rate, format_time

Ints = NDArray[np.int64]


@dataclass
class CircuitSwitch:
    """A circuit switch as it is being built: the fibres that lead to it, port by port."""

    name: str
    schedule: Schedule
    edges: list[int] = field(default_factory=list)
    delays_ps: list[int] = field(default_factory=list)
    rate_bps: int = 0

    def add(self, edge: int, edge_name: str, rate_bps: int, delay_ps: int) -> int:
        """Give the next port a fibre to the switch `edge`; returns the port's number."""
        port, what = len(self.edges), f"the fibre {edge_name} - {self.name}"
        if port == self.schedule.n_ports:
            raise InputError(f"{what} is one more than {self.name} has ports, {port}")
        if rate_bps <= 0 or not 0 < delay_ps < DELAY_PS:
            hint = f"both more than 0, the delay less than {format_time(DELAY_PS, 4)}"
            raise InputError(f"{what} has {rate_bps} bit/s and a delay of {delay_ps} ps", hint=hint)
        if port and rate_bps != self.rate_bps:
            raise InputError(
                f"{what} has {format_rate(rate_bps)}, but those before it "
                f"{format_rate(self.rate_bps)}",
                hint="a circuit switch turns light and no rate into another: the same on all",
            )
        self.rate_bps = rate_bps
        self.edges.append(edge)
        self.delays_ps.append(delay_ps)
        return port


@dataclass(frozen=True, eq=False)
class Circuits:
    """The cables of a network that go through circuit switches, by the ports at their ends.

    Attributes:
        names: of the circuit switches.
        dark_ps: int64[n_switches], how long ports of each that get another partner are dark.
        of_port: int32[n_ports], the circuit switch of a port's cable, or -1.
        fibre: int32[n_ports], the fibre of a port's cable at its own end, or -1. The cables of one
            fibre are never there at the same time.
        near_ps: int64[n_ports], the delay of that fibre.
        calendar: int32[n_ports], the days of a port's cable; -1 for one that is always there.
        first_day: int64[n_calendars + 1], where those of a calendar begin.
        days_ps: int64[k, 2], from when until when light passes the circuit switch, in the first
            period.
        period_ps: int64[n_calendars], after which it is the same again.
    """

    names: tuple[str, ...]
    dark_ps: Ints
    of_port: NDArray[np.int32]
    fibre: NDArray[np.int32]
    near_ps: Ints
    calendar: NDArray[np.int32]
    first_day: Ints
    days_ps: Ints
    period_ps: Ints

    @property
    def change(self) -> bool:
        """Is any of the cables dark at any time?"""
        return bool(self.period_ps.size)


class CircuitCables(NamedTuple):
    """All cables of circuit switches as rows, before ports are numbered.

    `cables` is as `NetworkBuilder` has them, the others say of each, or of each and its two ends,
    what `Circuits` says of ports.
    """

    cables: Ints
    of_cable: Ints
    fibre: Ints
    near_ps: Ints
    calendar: Ints
    first_day: Ints
    days_ps: Ints
    period_ps: Ints


def cables_of(switches: list[CircuitSwitch]) -> CircuitCables:
    """The cables that circuit switches make: of each one behind the other, by the ports that it
    joins, in ascending order.

    Raises InputError for a port without a fibre, or one that joins a switch to itself.
    """
    parts: list[tuple[Ints, ...]] = []
    n_fibres, calendars = 0, [np.zeros(1, np.int64)]
    for number, one in enumerate(switches):
        if len(one.edges) < one.schedule.n_ports:
            raise InputError(
                f"port {len(one.edges)} of circuit switch {one.name} has no fibre",
                hint=f"its schedule has {one.schedule.n_ports} ports",
            )
        days = days_of(one.schedule)
        edges, delays = np.array(one.edges), np.array(one.delays_ps)
        ends, near = edges[days.pairs], delays[days.pairs]
        for a, b in days.pairs[ends[:, 0] == ends[:, 1]][:1].tolist():
            raise InputError(
                f"circuit switch {one.name} joins its ports {a} and {b}, which lead to one switch"
            )
        n = len(days.pairs)
        own = np.full(n, number)
        count = np.diff(days.first_day)
        cables = np.zeros((n, 5), np.int64)
        cables[:, :2], cables[:, 2], cables[:, 3] = ends, one.rate_bps, near.sum(axis=1)
        parts.append((cables, own, days.pairs + n_fibres, near, count, days.days_ps))
        calendars.append(np.full(int((count > 0).sum()), one.schedule.period_ps, np.int64))
        n_fibres += len(one.edges)
    columns = [np.concatenate(column) for column in zip(*parts, strict=True)]
    cables, of_cable, fibre, near_ps, counts, days_ps = columns
    dated = counts > 0
    return CircuitCables(
        cables=cables,
        of_cable=of_cable,
        fibre=fibre,
        near_ps=near_ps,
        calendar=np.where(dated, np.cumsum(dated) - 1, NONE),
        first_day=np.concatenate([[0], np.cumsum(counts[dated])]).astype(np.int64),
        days_ps=days_ps,
        period_ps=np.concatenate(calendars)[1:],
    )


def circuits_of(switches: list[CircuitSwitch], rows: CircuitCables, ends: Ints) -> Circuits:
    """What ports are to circuits. `ends` (int64[n_ports]) is 2 * cable + end of each port, counted
    from the first cable of circuit switches on, so that others are negative."""
    here = ends >= 0

    def by_port(values: Ints, dtype: type) -> Any:
        found: Any = np.full(ends.size, NONE, dtype)
        found[here] = values.reshape(-1)[ends[here]]
        return found

    return Circuits(
        names=tuple(one.name for one in switches),
        dark_ps=np.array([one.schedule.dark_ps for one in switches], np.int64),
        of_port=by_port(np.repeat(rows.of_cable, 2), np.int32),
        fibre=by_port(rows.fibre, np.int32),
        near_ps=by_port(rows.near_ps, np.int64),
        calendar=by_port(np.repeat(rows.calendar, 2), np.int32),
        first_day=rows.first_day,
        days_ps=rows.days_ps,
        period_ps=rows.period_ps,
    )
