"""Schedules of circuit switches: what they join slot by slot, and when light passes."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from netsim.errors import InputError
from netsim.limits import HORIZON_PS
from netsim.units import format_time

Ints = NDArray[np.int64]

END_PS = 2 * HORIZON_PS
"""Until when the last slot of a schedule lasts that does not repeat: behind the end of all runs."""

NONE = -1
"""In the place of a port that no other is joined to, of a circuit switch, of a calendar."""


def round_robin_matchings(n: int) -> NDArray[np.int64]:
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

    It is a timetable, or **phase-driven**: slot k then lasts until the flows of phase k are
    delivered (`Network.with_phases`), and the last one stays.

    Attributes:
        slots_ps: int64[slots], how long each lasts; of a phase-driven one 0.
        matchings: int64[slots, ports], the port that each port is joined to in a slot: by that one
            leaves the light that comes in by this one. -1, or the port itself: none.
        bidirectional: whether light goes both ways: the other port is joined to this one as well.
        If not,
            it may be joined to any, or to none.
        reconfiguration_delay_ps, sync_delay_ps: how long the mirrors take to turn, and receivers to
        find the beat
            of what they then see. So long, one after the other, ports are dark whose partner
            is another one than before.
        offset_ps: when the first slot begins.
        repeats: whether the slots are gone through again and again, before `offset_ps` as well. If
            not, nothing is joined before, and the last slot stays.
        control_delay_ps: of a phase-driven one, the time from when a phase is over until the
        mirrors turn: to
            notice that, and to give the order. Of a timetable None.
    """

    def __init__(
        self,
        slots_ps: ArrayLike | None,
        matchings: ArrayLike,
        *,
        bidirectional: bool = True,
        reconfiguration_delay_ps: int = 0,
        sync_delay_ps: int = 0,
        offset_ps: int = 0,
        repeats: bool = True,
        control_delay_ps: int | None = None,
    ) -> None:
        """As the attributes; one length may stand for all slots, and None for a phase-driven one.

        Raises InputError, without a name, for what cannot be a schedule.
        """
        self.matchings = _table(matchings)
        self.bidirectional = bool(bidirectional)
        self.control_delay_ps = None
        if slots_ps is None:
            self.control_delay_ps = _time(
                control_delay_ps, "control_delay_ps of slots without lengths"
            )
            if offset_ps or not repeats:
                raise InputError("slots without lengths begin when phases are over")
            self.slots_ps, repeats = np.zeros(len(self.matchings), np.int64), False
        else:
            self.slots_ps = _lengths(slots_ps, len(self.matchings))
            if control_delay_ps is not None:
                message = "control_delay_ps is of slots without lengths, and these have some"
                raise InputError(message, hint="None for slots_ps, or no control_delay_ps")
        self.reconfiguration_delay_ps = _time(reconfiguration_delay_ps, "reconfiguration_delay_ps")
        self.sync_delay_ps = _time(sync_delay_ps, "sync_delay_ps")
        self.offset_ps = _time(offset_ps, "offset_ps")
        self.repeats = bool(repeats)
        self._check()

    @property
    def n_ports(self) -> int:
        return int(self.matchings.shape[1])

    @property
    def phase_driven(self) -> bool:
        """Does it follow the phases of the workload?"""
        return self.control_delay_ps is not None

    @property
    def night_ps(self) -> int:
        """How long a port that gets another partner carries nothing."""
        return self.reconfiguration_delay_ps + self.sync_delay_ps

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
        self._check_ways()
        if self.phase_driven:
            return
        for slot in np.flatnonzero(self.slots_ps <= self.night_ps)[:1].tolist():
            raise InputError(
                f"slot {slot} of {format_time(int(self.slots_ps[slot]), 4)} ends before light "
                f"passes: each night takes {format_time(self.night_ps, 4)}",
                hint="a longer slot",
            )
        if float(self.slots_ps.sum(dtype=float)) + self.offset_ps >= HORIZON_PS:
            raise InputError("the slots are longer together than a run's clock", hint="2^56 ps")

    def _check_ways(self) -> None:
        """Light leaves by a port that comes in by one; if both ways, by the same one."""
        at, matchings = np.arange(self.n_ports), self.matchings
        ordered = np.sort(matchings, axis=1)
        twice = (ordered[:, 1:] == ordered[:, :-1]) & (ordered[:, 1:] != NONE)
        if not self.bidirectional:
            for slot, index in np.argwhere(twice)[:1].tolist():
                other = int(ordered[slot, index])
                a, b = np.flatnonzero(matchings[slot] == other)[:2].tolist()
                raise InputError(
                    f"slot {slot} joins both port {a} and port {b} to port {other}",
                    hint="each port stands once in a matching",
                )
            return
        back = np.take_along_axis(matchings, np.maximum(matchings, 0), axis=1)
        for slot, port in np.argwhere((matchings != NONE) & (back != at))[:1].tolist():
            other = int(matchings[slot, port])
            raise InputError(
                f"slot {slot} joins port {port} to port {other}, and port {other} to "
                f"{_port(int(matchings[slot, other]))}",
                hint="matching[i] = j and matching[j] = i, or bidirectional=False for light one "
                "way",
            )


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


class Days(NamedTuple):
    """The pairs of ports that a schedule ever joins, and when light passes between them.

    `pairs` is int64[n, 2] in ascending order: if light goes both ways the lower port comes first,
    if not, the one by which it comes in. `days_ps`, int64[k, 2], are from when until when, in the
    first period; those of pair i are `first_day[i]` to `first_day[i + 1]`. A pair that is never
    dark has none.

    Of a phase-driven schedule a day begins as if its slot began at 0, or has no begin (-END_PS),
    and has no end (END_PS). `slots`, int64[k, 2], are the slots that a day lasts, from ... up to.
    """

    pairs: Ints
    first_day: Ints
    days_ps: Ints
    slots: Ints


def days_of(schedule: Schedule) -> Days:
    """When light passes a circuit switch between which ports.

    A pair that is joined in slots one behind the other is not disturbed in between, nor where the
    last slot is followed by the first one. The day of such a pair ends in the next period.
    """
    n_slots, n = schedule.matchings.shape
    slot, port = np.nonzero(schedule.matchings > (np.arange(n) if schedule.bidirectional else NONE))
    key = port * n + schedule.matchings[slot, port]
    order = np.lexsort((slot, key))
    slot, key = slot[order], key[order]
    # Runs of slots in which a pair stays joined.
    begins = np.ones(slot.size, bool)
    begins[1:] = (key[1:] != key[:-1]) | (slot[1:] != slot[:-1] + 1)
    ends = np.append(begins[1:], True)[: slot.size]
    pair, first, last = key[begins], slot[begins], slot[ends]
    starts_ps = schedule.offset_ps + np.concatenate([[0], np.cumsum(schedule.slots_ps)])
    up_ps, down_ps = starts_ps[first] + schedule.night_ps, starts_ps[last + 1]
    kept = np.ones(pair.size, bool)
    if schedule.repeats or schedule.phase_driven:
        kept = (first > 0) | (last < n_slots - 1)  # the others are never dark
    if schedule.phase_driven:
        up_ps[first == 0] = -END_PS
        down_ps[:] = END_PS
    elif schedule.repeats:
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
        slots=np.stack([first, last + 1], axis=1)[kept],
    )


SWAPS = 10
"""For each round, exchanges with others; measured: with more nothing comes nearer."""


def random_rounds(racks: int, rng: np.random.Generator) -> Ints:
    """Matchings in which each rack meets each other one once, int64[rounds, racks].

    A 1-factorization of the complete graph. It starts with round-robin matchings in each half,
    and then all of one against those of the other, in a random order; then two rounds at a time
    exchange one of the cycles that they make together. With an odd number of racks each has one
    round without a partner.
    """
    rounds = _halves(racks + racks % 2, rng).tolist()
    for _ in range(SWAPS * len(rounds) if len(rounds) > 1 else 0):
        one, other = rng.choice(len(rounds), 2, replace=False).tolist()
        _exchange(rounds[one], rounds[other], int(rng.integers(racks)))
    found = np.array(rounds, np.int64)[rng.permutation(len(rounds)), :racks]
    found[found >= racks] = NONE
    return found


def _halves(racks: int, rng: np.random.Generator) -> Ints:
    """The rounds of an even number of racks before they exchange anything."""
    half = racks // 2
    sides = rng.permutation(racks).reshape(2, half)
    within = round_robin_matchings(half)
    rounds = np.full((len(within), racks), NONE)
    for side in sides:
        rounds[:, side] = np.where(within == NONE, NONE, side[within])
    left, right = sides
    if half % 2:
        # In each round one of each half is left over: these two meet, and not again.
        left, right = (side[(within == NONE).argmax(axis=1)] for side in sides)
        at = np.arange(half)
        rounds[at, left], rounds[at, right] = right, left
    across = np.full((half - half % 2, racks), NONE)
    for shift, matching in enumerate(across, half % 2):
        others = np.roll(right, shift)
        matching[left], matching[others] = others, left
    return np.concatenate([rounds, across])


def _exchange(one: list[int], other: list[int], start: int) -> None:
    """Exchange between two rounds the pairs on their cycle through a rack."""
    cycle, rack = [start], start
    while (rack := other[one[rack]]) != start:
        cycle.append(rack)
    for rack in [*cycle, *(one[rack] for rack in cycle)]:
        one[rack], other[rack] = other[rack], one[rack]


def pairs_by_circuits(partners: Ints) -> list[int]:
    """How many ordered pairs of racks are 1, 2, ... circuits from each other.

    `partners` (int64[n, k]) are the racks to which each has a circuit, itself in place of none.
    Pairs that no circuits join, however many, are not counted.
    """
    reached = np.packbits(np.eye(len(partners), dtype=bool), axis=1)
    counts: list[int] = []
    while True:
        further = reached.copy()
        for column in partners.T:
            further |= reached[column]
        more = int(np.bitwise_count(further).sum()) - int(np.bitwise_count(reached).sum())
        if not more:
            return counts
        counts.append(more)
        reached = further
