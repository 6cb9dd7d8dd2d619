"""Where the time of a step went: computing, exposed communication by kind, bubble.

A step ends as the last of its operations ends, and begins as the one before it ended (the first one
at 0). In that time each rank computes, in whatever streams, or is idle. An idle interval ends
with a compute of that rank, or with the step. It is divided along the chain of what its end waited
for: that compute waited for an operation last, this one for another one, and so on, back to the
interval's begin. In the chain

- a message is under way from when its sender began with it (its software's latency counts) until it
  was delivered; a collective from when the last of its ranks began until it ended at the rank from
  which the chain comes. That is **exposed** communication of its kind;
- a compute, of another rank, is **bubble**: nothing to do for this rank until that one is done;
- a compute of a kind that messages or collectives have as well, such as the launch of one, is no
  computing, but communication of that kind;
- what no operation explains is left over as **other**.

So compute + exposed + bubble + other is the time of the step, for every rank, to the picosecond.
Communication that computes of its rank cover is in none of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from netsim.model.operations import COLLECTIVES

if TYPE_CHECKING:
    from netsim.results.run_result import Table

Ints = NDArray[np.int64]

INF = np.iinfo(np.int64).max


@dataclass(frozen=True, eq=False)
class StepTime:
    """A step, and what became of its time at each of n ranks.

    Attributes:
        begin_ps, end_ps: of the step.
        ranks: int64[n], which ranks they are.
        compute_ps, bubble_ps, other_ps: int64[n].
        kinds, exposed_ps: names of kinds, and int64[n, n_kinds].
    """

    begin_ps: int
    end_ps: int
    ranks: Ints
    compute_ps: Ints
    bubble_ps: Ints
    other_ps: Ints
    kinds: tuple[str, ...]
    exposed_ps: Ints


def step_times(table: Table) -> list[StepTime]:
    """The steps of a table of operations, in order, as far as all of their operations are done."""
    found: list[StepTime] = []
    chains = _Chains(table)
    for step in range(int(table["step"].max(initial=-1)) + 1):
        its = np.flatnonzero(table["step"] == step)
        if not its.size or (table["end_ps"][its] < 0).any():
            break
        last = int(its[np.argmax(table["end_ps"][its])])
        begin = found[-1].end_ps if found else 0
        found.append(chains.step(begin, int(table["end_ps"][last]), last))
    return found


class _Idle(NamedTuple):
    """Idle intervals: of which rank (its place), from when until when, and the operations whose end
    ended them; -1: of none that is known."""

    rank: Ints
    from_ps: Ints
    until_ps: Ints
    ended_by: Ints


class _Chains:
    """What is the same for all steps of a table."""

    def __init__(self, table: Table) -> None:
        self.begin, self.end = table["begin_ps"], table["end_ps"]
        self.before = table["waited_for"]
        self.what = table["what"]
        self.kinds, self.kind = np.unique(table["kind"], return_inverse=True)
        self.ranks, self.rank = np.unique(table["rank"], return_inverse=True)
        of_messages = np.setdiff1d(self.kinds[self.kind[table["group"] >= 0]], [""])
        self.computes = (self.what == "compute") & ~np.isin(table["kind"], of_messages)
        self.packets = np.isin(self.what, COLLECTIVES) & ~table["formula"]
        self.last_to_begin = self._last_to_begin(table["group"])
        receive = (self.what == "receive") & (self.before >= 0)
        self.message = receive & (self.what[self.before] == "send")
        self.message &= table["group"][self.before] == table["group"]
        self.idle = self._idle()

    def _last_to_begin(self, group: Ints) -> Ints:
        """int64[n]: of a collective's operation the one of its group that began last; else itself.

        Itself as well if it ended before that began, as the root of a broadcast may.
        """
        found = np.arange(group.size)
        its = np.flatnonzero(self.packets)
        its = its[np.lexsort((self.begin[its], group[its]))]
        if its.size:
            ends = np.append(np.flatnonzero(group[its][1:] != group[its][:-1]), its.size - 1)
            sizes = np.diff(ends, prepend=-1)
            last = np.repeat(its[ends], sizes)
            found[its] = np.where(self.begin[last] <= self.end[its], last, its)
        return found

    def _idle(self) -> _Idle:
        """All idle intervals of all ranks; behind its last compute each has one until INF."""
        computes = np.flatnonzero(self.computes & (self.begin >= 0))
        computes = computes[np.lexsort((self.begin[computes], self.rank[computes]))]
        n, rank, end = computes.size, self.rank[computes], self.end[computes]
        end = np.where(end < 0, INF, end)  # under way as the run was cut off
        # The latest end so far within each rank: of places among all ends, moved up by rank.
        by_end = np.argsort(end, kind="stable")
        place = np.empty(n, np.int64)
        place[by_end] = np.arange(n)
        latest = end[by_end[np.maximum.accumulate(place + rank * n) - rank * n]]
        is_last = np.append(rank[1:] != rank[:-1], True)[:n]
        free = np.append(0, latest[:-1])[:n]
        free[np.append(True, is_last[:-1])[:n]] = 0
        after = np.zeros(self.ranks.size, np.int64)
        after[rank[is_last]] = latest[is_last]
        gap = np.flatnonzero(self.begin[computes] > free)
        every = np.arange(self.ranks.size)
        return _Idle(
            np.concatenate([rank[gap], every]),
            np.concatenate([free[gap], after]),
            np.concatenate([self.begin[computes[gap]], np.full(every.size, INF)]),
            np.concatenate([self.before[computes[gap]], np.full(every.size, -1)]),
        )

    def _in_step(self, begin_ps: int, end_ps: int, last: int) -> _Idle:
        """What of these lies between two times, the second of which is the end of ``last``."""
        idle = self.idle
        some = (idle.from_ps < end_ps) & (idle.until_ps > begin_ps)
        rank, from_ps, until_ps, ended_by = (column[some] for column in idle)
        ended_by = np.where(until_ps > end_ps, last, ended_by)
        return _Idle(rank, np.maximum(from_ps, begin_ps), np.minimum(until_ps, end_ps), ended_by)

    def step(self, begin_ps: int, end_ps: int, last: int) -> StepTime:
        """The step between two times, which ends with operation `last`."""
        n, n_kinds = self.ranks.size, self.kinds.size
        idle = self._in_step(begin_ps, end_ps, last)
        length = np.bincount(idle.rank, idle.until_ps - idle.from_ps, n).astype(np.int64)
        exposed, bubble = np.zeros((n, n_kinds), np.int64), np.zeros(n, np.int64)
        at, until, floor, of = idle.ended_by, idle.until_ps, idle.from_ps, idle.rank
        while True:
            open_ = np.flatnonzero((at >= 0) & (until > floor))
            if not open_.size:
                break
            at, until, floor, of = at[open_], until[open_], floor[open_], of[open_]
            message = self.message[at]
            first = np.where(message, self.before[at], self.last_to_begin[at])
            since = np.clip(self.begin[first], floor, until)
            # A receive for which its message was there already took no time.
            since = np.where((self.what[at] == "receive") & ~message, until, since)
            computes = self.computes[at]
            np.add.at(bubble, of[computes], (until - since)[computes])
            np.add.at(
                exposed, (of[~computes], self.kind[at[~computes]]), (until - since)[~computes]
            )
            at, until = self.before[first], since
        other = length - bubble - exposed.sum(1)
        compute = (end_ps - begin_ps) - length
        used = exposed.any(0)
        return StepTime(
            begin_ps,
            end_ps,
            self.ranks,
            compute,
            bubble,
            other,
            tuple(self.kinds[used].tolist()),
            exposed[:, used],
        )
