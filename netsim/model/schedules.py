"""Schedules of circuit switches: their matchings, slot by slot, and when circuits are up."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from netsim.errors import InputError
from netsim.limits import HORIZON_PS
from netsim.units import format_time

Ints = NDArray[np.int64]

END_PS = 2 * HORIZON_PS
"""End of the last slot of a schedule that does not repeat: after the end of all runs."""

NONE = -1
"""No port, circuit switch or calendar."""


def round_robin_matchings(n: int) -> Ints:
    """Return matchings of `n` ports in which every two meet once: int64[rounds, n].

    Circle method: one port stays, the others rotate. If n is odd, each port has one round without a
    partner.
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
    """The matchings of a circuit switch, slot by slot.

    It is a timetable, or **phase-driven**: slot k then lasts until the flows of phase k are
    delivered (`Network.with_phases`), and the last slot stays.

    Attributes:
        slots_ps: int64[slots], duration of each slot; 0 if phase-driven.
        matchings: int64[slots, ports], output port of each input port; -1 or the port itself: none.
        bidirectional: circuits join both directions; otherwise a matching defines only one.
        reconfiguration_delay_ps, sync_delay_ps: time to reconfigure the switch, then time for
            receivers to synchronize. Ports with a new partner are down for both, the night.
        offset_ps: start of the first slot.
        repeats: whether the slots repeat, also before `offset_ps`. If not, nothing is joined
            before, and the last slot stays.
        control_delay_ps: if phase-driven, time from the end of a phase to the start of the
            reconfiguration, to detect that end and distribute the command; None for a timetable.
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
        """Take the attributes; a single duration applies to all slots, None means phase-driven.
        Raises InputError, without a name, for an invalid schedule."""
        self.matchings = _table(matchings)
        self.bidirectional = bool(bidirectional)
        self.control_delay_ps = None
        if slots_ps is None:
            self.control_delay_ps = _time(control_delay_ps, "control_delay_ps")
            if offset_ps or not repeats:
                raise InputError("a phase-driven schedule has no offset_ps and does not repeat")
            self.slots_ps, repeats = np.zeros(len(self.matchings), np.int64), False
        else:
            self.slots_ps = _lengths(slots_ps, len(self.matchings))
            if control_delay_ps is not None:
                message = "control_delay_ps conflicts with slots_ps"
                raise InputError(message, hint="use slots_ps=None for a phase-driven schedule")
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
        """Whether it follows the phases of the workload."""
        return self.control_delay_ps is not None

    @property
    def night_ps(self) -> int:
        """Time that a port with a new partner is down."""
        return self.reconfiguration_delay_ps + self.sync_delay_ps

    @property
    def period_ps(self) -> int:
        """Time until the schedule repeats; longer than any run if it never does."""
        return int(self.slots_ps.sum()) if self.repeats else 2 * END_PS

    def _check(self) -> None:
        at, n = np.arange(self.n_ports), self.n_ports
        matchings = self.matchings
        matchings[matchings == at] = NONE
        for slot, port in np.argwhere((matchings < NONE) | (matchings >= n))[:1].tolist():
            message = f"slot {slot} joins port {port} to port {matchings[slot, port]}"
            raise InputError(message, hint=f"0 to {n - 1}, or -1 for none")
        self._check_ways()
        if self.phase_driven:
            return
        for slot in np.flatnonzero(self.slots_ps <= self.night_ps)[:1].tolist():
            raise InputError(
                f"slot {slot} of {format_time(int(self.slots_ps[slot]), 4)} has no day: the night "
                f"takes {format_time(self.night_ps, 4)}",
                hint="use longer slots",
            )
        if float(self.slots_ps.sum(dtype=float)) + self.offset_ps >= HORIZON_PS:
            raise InputError("the total of all slots exceeds 2^56 ps, the longest run")

    def _check_ways(self) -> None:
        """Refuse output ports used twice and, if bidirectional, asymmetric matchings."""
        at, matchings = np.arange(self.n_ports), self.matchings
        ordered = np.sort(matchings, axis=1)
        twice = (ordered[:, 1:] == ordered[:, :-1]) & (ordered[:, 1:] != NONE)
        if not self.bidirectional:
            for slot, index in np.argwhere(twice)[:1].tolist():
                other = int(ordered[slot, index])
                a, b = np.flatnonzero(matchings[slot] == other)[:2].tolist()
                message = f"slot {slot} joins both port {a} and port {b} to port {other}"
                raise InputError(message, hint="each port may occur once in a matching")
            return
        back = np.take_along_axis(matchings, np.maximum(matchings, 0), axis=1)
        for slot, port in np.argwhere((matchings != NONE) & (back != at))[:1].tolist():
            other = int(matchings[slot, port])
            raise InputError(
                f"slot {slot} joins port {port} to port {other}, but port {other} to "
                f"{_port(int(matchings[slot, other]))}",
                hint="matching[i] = j and matching[j] = i, or bidirectional=False",
            )


def _table(matchings: ArrayLike) -> Ints:
    try:
        table = np.array(matchings)
    except ValueError:
        table = np.zeros(0)
    if table.ndim != 2 or 0 in table.shape or not np.issubdtype(table.dtype, np.integer):
        message = "matchings must be a table of whole numbers"
        raise InputError(message, hint="a row for each slot, with the partner of each port")
    return table.astype(np.int64)


def _lengths(slots_ps: ArrayLike, n_slots: int) -> Ints:
    lengths = np.atleast_1d(np.array(slots_ps))
    if lengths.ndim != 1 or not np.issubdtype(lengths.dtype, np.integer):
        raise InputError("slots_ps must be whole numbers of ps")
    if lengths.size not in (1, n_slots):
        message = f"{lengths.size} slots_ps for {n_slots} slots"
        raise InputError(message, hint="one, or one for each")
    for length in lengths[(lengths <= 0) | (lengths >= HORIZON_PS)][:1].tolist():
        raise InputError(f"slot of {length} ps is out of range", hint="more than 0, less than 2^56")
    return np.broadcast_to(lengths, n_slots).astype(np.int64)


def _time(value: Any, name: str) -> int:
    whole = isinstance(value, (int, np.integer)) and not isinstance(value, bool)
    if not whole or not 0 <= value < HORIZON_PS:
        raise InputError(f"{name} {value!r} is invalid", hint="a whole number of ps, at least 0")
    return int(value)


def _port(port: int) -> str:
    return "none" if port == NONE else f"port {port}"


class Days(NamedTuple):
    """The pairs of ports that a schedule ever joins, and when these circuits are up.

    `pairs` is int64[n, 2] in ascending order: the lower port first if bidirectional, else the input
    port. `days_ps`, int64[k, 2], are start and end in the first period; pair i has `first_day[i]`
    to `first_day[i + 1]`. A pair that is always up has none.

    In a phase-driven schedule, a day starts as if its slot started at 0, or has no start (-END_PS),
    and has no end (END_PS). `slots`, int64[k, 2], are the first slot of a day and the one after its
    last.
    """

    pairs: Ints
    first_day: Ints
    days_ps: Ints
    slots: Ints


def days_of(schedule: Schedule) -> Days:
    """Return the port pairs of a circuit switch, and when their circuits are up.

    A pair that is joined in consecutive slots stays up in between, also from the last slot to the
    first. The day of such a pair ends in the next period.
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
        kept = (first > 0) | (last < n_slots - 1)  # the others have no night
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
"""Exchanges per round; measured: more do not shorten paths."""


def random_rounds(racks: int, rng: np.random.Generator) -> Ints:
    """Return random matchings in which every two racks meet once, int64[rounds, racks].

    Circuits of several of these rounds form an expander. Round-robin matchings are reflections,
    whose union has longer paths. This 1-factorization of the complete graph starts with round-robin
    matchings in each half, then all of one half against the other, in random order; then pairs of
    rounds exchange one of the cycles that they form. With an odd number of racks, each has one
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
    """Return the rounds of an even number of racks before any exchange."""
    half = racks // 2
    sides = rng.permutation(racks).reshape(2, half)
    within = round_robin_matchings(half)
    rounds = np.full((len(within), racks), NONE)
    for side in sides:
        rounds[:, side] = np.where(within == NONE, NONE, side[within])
    left, right = sides
    if half % 2:
        # Each round leaves one rack of each half over; these two are joined only once.
        left, right = (side[(within == NONE).argmax(axis=1)] for side in sides)
        at = np.arange(half)
        rounds[at, left], rounds[at, right] = right, left
    across = np.full((half - half % 2, racks), NONE)
    for shift, matching in enumerate(across, half % 2):
        others = np.roll(right, shift)
        matching[left], matching[others] = others, left
    return np.concatenate([rounds, across])


def _exchange(one: list[int], other: list[int], start: int) -> None:
    """Swap two rounds' pairs along their cycle through a rack."""
    cycle, rack = [start], start
    while (rack := other[one[rack]]) != start:
        cycle.append(rack)
    for rack in [*cycle, *(one[rack] for rack in cycle)]:
        one[rack], other[rack] = other[rack], one[rack]


def pairs_by_circuits(partners: Ints) -> list[int]:
    """Return the number of ordered pairs of racks that are 1, 2, ... circuits apart.

    `partners` (int64[n, k]) are the racks to which each has a circuit, or itself. Unconnected pairs
    are not counted.
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
