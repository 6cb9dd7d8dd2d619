"""Circuit switches: what they join when, and the cables that this makes between other switches.

A circuit switch has no buffers and looks at no packet: light that comes in by a port leaves by the
one that its map joins to that port now. So what it puts between two switches is a cable that is
there on some days only. Those are the cables that a network has; the circuit switch itself
is no node of it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from netsim.errors import InputError
from netsim.limits import DELAY_PS, HORIZON_PS
from netsim.units import format_rate, format_time

Ints = NDArray[np.int64]

END_PS = 2 * HORIZON_PS
"""Until when the last slot of a schedule lasts that does not repeat: behind the end of all runs."""

NONE = -1
"""In the place of a port that no other is joined to, of a circuit switch, of a calendar."""


def tournament(n: int) -> NDArray[np.int64]:
    """Matchings of `n` ports in which each meets each other one once: int64[rounds, n].

    The circle method: one port stays, the others go round. With an odd number each has one round
    without a partner.
    """
    even = n + n % 2
    rounds = np.arange(even - 1)[:, None]
    ports = np.arange(even - 1)[None, :]
    partner = (rounds - ports) % (even - 1)
    alone = partner == ports  # meets the one that stays
    matchings = np.empty((even - 1, even), np.int64)
    matchings[:, :-1] = np.where(alone, even - 1, partner)
    matchings[:, -1] = np.nonzero(alone)[1]
    if n < even:
        matchings = matchings[:, :n]
        matchings[matchings == n] = NONE
    return matchings


class Schedule:
    """What a circuit switch joins, slot by slot.

    Attributes:
        slots_ps: int64[slots], how long each lasts.
        matchings: int64[slots, ports], the port that each port is joined to in a slot, which is
            joined to it as well; -1, or the port itself, if none is.
        switching_ps, sync_ps: how long the mirrors take to turn, and receivers to find the beat
            of what they then see. So long, one after the other, ports are dark whose partner
            is another one than before.
        offset_ps: when the first slot begins.
        repeats: whether the slots are gone through again and again, before `offset_ps` as well. If
            not, nothing is joined before, and the last slot stays.
    """

    def __init__(
        self,
        slots_ps: ArrayLike,
        matchings: ArrayLike,
        *,
        switching_ps: int = 0,
        sync_ps: int = 0,
        offset_ps: int = 0,
        repeats: bool = True,
    ) -> None:
        """As the attributes; one length may stand for all slots.

        Raises InputError, without a name, for what cannot be a schedule.
        """
        self.matchings = _table(matchings)
        self.slots_ps = _lengths(slots_ps, len(self.matchings))
        self.switching_ps = _time(switching_ps, "switching_ps")
        self.sync_ps = _time(sync_ps, "sync_ps")
        self.offset_ps = _time(offset_ps, "offset_ps")
        self.repeats = bool(repeats)
        self._check()

    @property
    def n_ports(self) -> int:
        return int(self.matchings.shape[1])

    @property
    def dark_ps(self) -> int:
        """How long a port that gets another partner carries nothing."""
        return self.switching_ps + self.sync_ps

    @property
    def period_ps(self) -> int:
        """After which everything is as it was; one that no run sees the end of, if it never is."""
        return int(self.slots_ps.sum()) if self.repeats else 2 * END_PS

    def _check(self) -> None:
        at, n = np.arange(self.n_ports), self.n_ports
        matchings = self.matchings
        matchings[matchings == at] = NONE
        for slot, port in np.argwhere((matchings < NONE) | (matchings >= n))[:1].tolist():
            raise InputError(
                f"slot {slot} joins port {port} to port {matchings[slot, port]}",
                hint=f"its ports are 0 to {n - 1}; -1 for none",
            )
        back = np.take_along_axis(matchings, np.maximum(matchings, 0), axis=1)
        for slot, port in np.argwhere((matchings != NONE) & (back != at))[:1].tolist():
            other = int(matchings[slot, port])
            raise InputError(
                f"slot {slot} joins port {port} to port {other}, and port {other} to "
                f"{_port(int(matchings[slot, other]))}",
                hint="light goes both ways: matching[i] = j and matching[j] = i",
            )
        for slot in np.flatnonzero(self.slots_ps <= self.dark_ps)[:1].tolist():
            raise InputError(
                f"slot {slot} of {format_time(int(self.slots_ps[slot]), 4)} ends before light "
                f"passes: switching and sync take {format_time(self.dark_ps, 4)}",
                hint="a longer slot",
            )
        if float(self.slots_ps.sum(dtype=float)) + self.offset_ps >= HORIZON_PS:
            raise InputError("the slots are longer together than a run's clock", hint="2^56 ps")


def _table(matchings: ArrayLike) -> Ints:
    try:
        table = np.array(matchings)
    except ValueError:
        table = np.zeros(0)
    if table.ndim != 2 or 0 in table.shape or not np.issubdtype(table.dtype, np.integer):
        raise InputError(
            "the matchings of a schedule are no table of whole numbers",
            hint="a row for each slot, in it for each port the one that it is joined to",
        )
    return table.astype(np.int64)


def _lengths(slots_ps: ArrayLike, n_slots: int) -> Ints:
    lengths = np.atleast_1d(np.array(slots_ps))
    if lengths.ndim != 1 or not np.issubdtype(lengths.dtype, np.integer):
        raise InputError("the lengths of slots are not whole numbers of ps")
    if lengths.size not in (1, n_slots):
        raise InputError(f"{lengths.size} lengths for {n_slots} slots", hint="one, or one for each")
    for length in lengths[(lengths <= 0) | (lengths >= HORIZON_PS)][:1].tolist():
        raise InputError(f"a slot of {length} ps", hint="more than 0, and less than 2^56")
    return np.broadcast_to(lengths, n_slots).astype(np.int64)


def _time(value: Any, name: str) -> int:
    whole = isinstance(value, (int, np.integer)) and not isinstance(value, bool)
    if not whole or not 0 <= value < HORIZON_PS:
        raise InputError(f"{name} is {value!r}", hint="a whole number of ps, at least 0")
    return int(value)


def _port(port: int) -> str:
    return "none" if port == NONE else f"port {port}"


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


class Days(NamedTuple):
    """The pairs of ports that a schedule ever joins, and when light passes between them.

    `pairs` is int64[n, 2], the lower port first, in ascending order. `days_ps`, int64[k, 2], are
    from when until when, in the first period; those of pair i are `first_day[i]` to
    `first_day[i + 1]`. A pair that is never dark has none.
    """

    pairs: Ints
    first_day: Ints
    days_ps: Ints


def days_of(schedule: Schedule) -> Days:
    """When light passes a circuit switch between which ports.

    A pair that is joined in slots one behind the other is not disturbed in between, nor where the
    last slot is followed by the first one. The day of such a pair ends in the next period.
    """
    n_slots, n = schedule.matchings.shape
    slot, low = np.nonzero(schedule.matchings > np.arange(n))
    key = low * n + schedule.matchings[slot, low]
    order = np.lexsort((slot, key))
    slot, key = slot[order], key[order]
    # Runs of slots in which a pair stays joined.
    begins = np.ones(slot.size, bool)
    begins[1:] = (key[1:] != key[:-1]) | (slot[1:] != slot[:-1] + 1)
    ends = np.append(begins[1:], True)[: slot.size]
    pair, first, last = key[begins], slot[begins], slot[ends]
    starts_ps = schedule.offset_ps + np.concatenate([[0], np.cumsum(schedule.slots_ps)])
    up_ps, down_ps = starts_ps[first] + schedule.dark_ps, starts_ps[last + 1]
    kept = np.ones(pair.size, bool)
    if schedule.repeats:
        kept = (first > 0) | (last < n_slots - 1)  # the others are never dark
        own = np.unique(pair, return_index=True)[1]
        final = np.append(own, pair.size)[1:] - 1  # the last run of the same pair
        round_the_end = (own < final) & (first[own] == 0) & (last[final] == n_slots - 1)
        down_ps[final[round_the_end]] = down_ps[own[round_the_end]] + schedule.period_ps
        kept[own[round_the_end]] = False
    else:
        down_ps[last == n_slots - 1] = END_PS
    pairs, which = np.unique(pair, return_inverse=True)
    count = np.bincount(which.reshape(-1), kept, pairs.size).astype(np.int64)
    return Days(
        pairs=np.stack([pairs // n, pairs % n], axis=1),
        first_day=np.concatenate([[0], np.cumsum(count)]).astype(np.int64),
        days_ps=np.stack([up_ps, down_ps], axis=1)[kept],
    )


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
