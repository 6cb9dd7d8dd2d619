"""Where the time of a step went: computing, exposed communication by kind, bubble, skew.

A step ends as the last of its operations ends, and begins as the one before it ended (the first one
at 0). In that time each rank computes, in whatever streams, or is idle. An idle interval ends as a
compute of the rank begins, or as its last operation of the step ends; what is left then until the
step ends is bubble. It is divided along what its end waited for at this rank: that compute waited
for an operation last, this one for another one, and so on, back to the interval's begin:

- a message that it received is **exposed** communication of its kind from when the rank was ready
  for it and its sender had begun with it (software's latency counts) until it was delivered; if the
  rank was ready sooner, it is **bubble** until then: nothing to do before others have come so far;
- a collective is exposed from when the last of its ranks began until it ended at this one; the time
  before that, from when this rank had begun, is **skew**: others were late;
- a message that it sent is exposed until it was handed over to the network, and so are computes of
  a kind that messages or collectives have as well, such as the launch of one;
- what no operation explains is **other**.

Of bubble and skew it is exposed, too, what communication of the rank takes that is under way then,
though nothing waits for it here: the sum of a layer, say, that the next stage waits for.

So compute + exposed + bubble + skew + other is the time of the step, for every rank, to the
picosecond. Communication that computes of its rank cover is in none of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from netsim.workloads.collectives.steps import COLLECTIVES

if TYPE_CHECKING:
    from netsim.results.run_result import Table

Ints = NDArray[np.int64]

INF = np.iinfo(np.int64).max

OTHERS = -2
"""In place of an operation that ends an idle interval: those of other ranks."""


@dataclass(frozen=True, eq=False)
class MeasuredStep:
    """A step, and what became of its time at each of n ranks.

    Attributes:
        start_ps, end_ps: of the step.
        ranks: int64[n], which ranks they are.
        compute_ps, bubble_ps, skew_ps, other_ps: int64[n].
        kinds, exposed_ps: names of kinds, and int64[n, n_kinds].
    """

    start_ps: int
    end_ps: int
    ranks: Ints
    compute_ps: Ints
    bubble_ps: Ints
    skew_ps: Ints
    other_ps: Ints
    kinds: tuple[str, ...]
    exposed_ps: Ints


def step_times(table: Table) -> list[MeasuredStep]:
    """The steps of a table of operations, in order, as far as all of their operations are done."""
    found: list[MeasuredStep] = []
    chains = _Chains(table)
    for step in range(int(table["step"].max(initial=-1)) + 1):
        its = table["end_ps"][table["step"] == step]
        if not its.size or its.min() < 0:
            break
        begin = found[-1].end_ps if found else 0
        found.append(chains.step(step, begin, int(its.max())))
    return found


class _Idle(NamedTuple):
    """Idle intervals: of which rank (its place), from when until when, and the operations whose end
    ended them; -1: of none that is known."""

    rank: Ints
    start_ps: Ints
    end_ps: Ints
    ended_by: Ints


class _Busy(NamedTuple):
    """Intervals in order that do not overlap."""

    start_ps: Ints
    end_ps: Ints

    def until(self, times_ps: Ints) -> Ints:
        """How much of them lies before each of some times."""
        sums = np.append(0, np.cumsum(self.end_ps - self.start_ps))
        place = np.searchsorted(self.end_ps, times_ps)
        begin = np.append(self.start_ps, INF)[place]
        found: Ints = sums[place] + np.maximum(0, times_ps - begin)
        return found


class _Chains:
    """What is the same for all steps of a table."""

    def __init__(self, table: Table) -> None:
        self.begin, self.end, self.ready = (
            table[name] for name in ("start_ps", "end_ps", "ready_ps")
        )
        self.before = table["blocked_by"]
        self.kinds, self.kind = np.unique(table["kind"], return_inverse=True)
        self.ranks, self.rank = np.unique(table["rank"], return_inverse=True)
        self.step_of, what, group = table["step"], table["operation_type"], table["group"]
        of_messages = np.setdiff1d(self.kinds[self.kind[group >= 0]], [""])
        self.computes = (what == "compute") & ~np.isin(table["kind"], of_messages)
        self.receives = what == "receive"
        self.first = self._under_way(what, group, table["is_analytic"])
        self.communication = self._communication()
        self.idle = self._idle()

    def _under_way(self, what: NDArray[np.str_], group: Ints, formula: NDArray[np.bool_]) -> Ints:
        """int64[n], in ps: from when on each operation is under way.

        A collective from when the last of its ranks began; but if it ended before at this one, as
        at the root of a broadcast, from when this one did. A message from when it was begun to be
        sent, and its receive was ready.
        """
        found = self.begin.copy()
        its = np.flatnonzero(np.isin(what, COLLECTIVES) & ~formula)
        if its.size:
            latest = np.zeros(int(group[its].max()) + 1, np.int64)
            np.maximum.at(latest, group[its], self.begin[its])
            late = latest[group[its]]
            found[its] = np.where(late <= self.end[its], late, self.begin[its])
        sends, receives = np.flatnonzero(what == "send"), np.flatnonzero(self.receives)
        if sends.size:
            sent = np.zeros(int(group[sends].max()) + 1, np.int64)
            sent[group[sends]] = self.begin[sends]
            found[receives] = np.maximum(sent[group[receives]], self.ready[receives])
        return found

    def _communication(self) -> list[tuple[Ints, Ints, Ints]]:
        """For each rank when which kinds of its communication were under way: from, until, kind.

        Intervals are in order and do not overlap: of several at once it is the first one's.
        """
        its = np.flatnonzero(~self.computes & (self.end > self.first) & (self.first >= 0))
        its = its[np.lexsort((self.first[its], self.rank[its]))]
        bounds = np.searchsorted(self.rank[its], np.arange(self.ranks.size + 1))
        found = []
        for begin, end in pairwise(bounds.tolist()):
            those = its[begin:end]
            latest = np.maximum.accumulate(self.end[those])
            since = np.maximum(self.first[those], np.append(0, latest[:-1])[: those.size])
            new = since < self.end[those]
            found.append((since[new], self.end[those][new], self.kind[those][new]))
        return found

    def _waiting(self, waits: list[tuple[Ints, Ints, Ints]], exposed: Ints) -> Ints:
        """int64[n], how long each rank waited in some intervals, which are given by rank, from when
        and until when; what it communicated in that time is added to ``exposed`` instead."""
        rank, since, until = (np.concatenate(parts) for parts in zip(*waits, strict=True))
        found = np.zeros(self.ranks.size, np.int64)
        np.add.at(found, rank, until - since)
        order = np.argsort(rank, kind="stable")
        bounds = np.searchsorted(rank[order], np.arange(self.ranks.size + 1))
        for r, (begin, end) in enumerate(pairwise(bounds.tolist())):
            those = order[begin:end]
            for kind in np.unique(self.communication[r][2]).tolist():
                its = self.communication[r][2] == kind
                busy = _Busy(*(side[its] for side in self.communication[r][:2]))
                covered = int((busy.until(until[those]) - busy.until(since[those])).sum())
                exposed[r, kind] += covered
                found[r] -= covered
        return found

    def _idle(self) -> _Idle:
        """The idle intervals of all ranks that computes end."""
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
        self.free = np.zeros(self.ranks.size, np.int64)  # behind its last compute
        self.free[rank[is_last]] = latest[is_last]
        gap = np.flatnonzero(self.begin[computes] > free)
        ended_by = self.before[computes[gap]]
        return _Idle(rank[gap], free[gap], self.begin[computes[gap]], ended_by)

    def _in_step(self, step: int, start_ps: int, end_ps: int) -> _Idle:
        """What is idle in a step: parts of these intervals, and what is behind the last compute.

        The last operation of a rank ends an interval, and so does the end of the step.
        """
        idle, n = self.idle, self.ranks.size
        some = np.flatnonzero((idle.start_ps < end_ps) & (idle.end_ps > start_ps))
        whole = idle.end_ps[some] <= end_ps
        cut = some[~whole]
        free = self.free.copy()
        free[idle.rank[cut]] = idle.start_ps[cut]
        rest = np.flatnonzero(free < end_ps)
        its = np.flatnonzero(self.step_of == step)
        its = its[np.lexsort((self.end[its], self.rank[its]))]
        own = np.full(n, -1, np.int64)
        own[self.rank[its]] = its
        done = np.where(own[rest] >= 0, self.end[own[rest]], 0)
        middle = np.maximum(done, free[rest])
        inside = some[whole]
        rank, begin, end, ended_by = (
            np.concatenate(parts)
            for parts in (
                (idle.rank[inside], rest, rest),
                (idle.start_ps[inside], free[rest], middle),
                (idle.end_ps[inside], middle, np.full(rest.size, end_ps)),
                (idle.ended_by[inside], own[rest], np.full(rest.size, OTHERS)),
            )
        )
        begin = np.maximum(begin, start_ps)
        return _Idle(rank, begin, np.maximum(begin, end), ended_by)

    def step(self, step: int, start_ps: int, end_ps: int) -> MeasuredStep:
        """What is between the begin and the end of a step."""
        n = self.ranks.size
        idle = self._in_step(step, start_ps, end_ps)
        length = np.zeros(n, np.int64)
        np.add.at(length, idle.rank, idle.end_ps - idle.start_ps)
        exposed = np.zeros((n, self.kinds.size), np.int64)
        at, until, floor, of = idle.ended_by, idle.end_ps, idle.start_ps, idle.rank
        others = at == OTHERS
        bubble = [(of[others], floor[others], until[others])]
        skew = [(of[:0], floor[:0], until[:0])]
        while True:
            open_ = np.flatnonzero((at >= 0) & (until > floor))
            if not open_.size:
                break
            at, until, floor, of = at[open_], until[open_], floor[open_], of[open_]
            receives = self.receives[at]
            here = np.where(receives, self.ready[at], self.begin[at])
            since = np.clip(self.first[at], floor, until)
            begun = np.clip(here, floor, since)
            np.add.at(exposed, (of, self.kind[at]), until - since)
            for waits, those in ((bubble, receives), (skew, ~receives)):
                waits.append((of[those], begun[those], since[those]))
            at, until = self.before[at], begun
        waited, late = (self._waiting(waits, exposed) for waits in (bubble, skew))
        compute = (end_ps - start_ps) - length
        other = length - waited - late - exposed.sum(1)
        used = exposed.any(0)
        kinds = tuple(self.kinds[used].tolist())
        parts = (compute, waited, late, other)
        return MeasuredStep(start_ps, end_ps, self.ranks, *parts, kinds, exposed[:, used])
