"""The breakdown of a step's time: compute, exposed communication by kind, bubble and skew.

Kinds are those of the table, which may name the network too (`with_networks` in operation_rows.py).

A step ends when its last operation ends, and begins when the previous step ends (the first at 0).
Within it a rank computes, in any stream, or is idle. An idle interval ends when a compute of the
rank begins, or with its last operation of the step; the rest of the step is bubble. An idle
interval is divided along the chain of dependencies at this rank that ends with it: the compute
waited last for some operation, that one for another, and so on, back to the interval's start:

- a received message is **exposed** communication of its kind from when the rank was ready for it
  and its sender had begun it (including software latency) until delivery; the time before, when the
  rank was ready, is **bubble**: the sender was not ready;
- a collective is exposed from its last rank's start until its end at this rank; the time before,
  from this rank's start, is **skew**: others were late;
- a sent message is exposed until it has left, as are computes of a kind that messages or
  collectives share, such as the launch of one;
- time without any operation is **other**.

Communication of the rank that is in progress during bubble or skew also counts as exposed, even if
nothing at this rank waits for it: a layer's all-reduce, for instance, that the next stage waits
    for.

So compute + exposed + bubble + skew + other is the step's time at every rank, to the picosecond.
Communication hidden behind compute is in none of them.
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
"""Marks operations of other ranks that end an idle interval."""


@dataclass(frozen=True, eq=False)
class MeasuredStep:
    """A step and the breakdown of its time at each of n ranks.

    Attributes:
        ranks: int64[n], indices of the ranks.
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
    """Return the complete steps of a table of operations, in order."""
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
    """Idle intervals: rank, start, end, and the operations that ended them; -1: unknown."""

    rank: Ints
    start_ps: Ints
    end_ps: Ints
    ended_by: Ints


class _Busy(NamedTuple):
    """Sorted intervals without overlap."""

    start_ps: Ints
    end_ps: Ints

    def until(self, times_ps: Ints) -> Ints:
        """Return how much of the intervals lies before each time."""
        sums = np.append(0, np.cumsum(self.end_ps - self.start_ps))
        place = np.searchsorted(self.end_ps, times_ps)
        begin = np.append(self.start_ps, INF)[place]
        found: Ints = sums[place] + np.maximum(0, times_ps - begin)
        return found


class _Chains:
    """Data shared by all steps of a table."""

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
        """int64[n], in ps: when each operation was in progress at both or all ends.

        A collective: since its last rank started, or since this rank did if it ended here before
        that, as at the root of a broadcast. A message: since it was sent and its receive was ready.
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
        """Return each rank's communication intervals: starts, ends, kinds.

        Intervals are sorted and do not overlap; among simultaneous ones the first counts.
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
        """int64[n], each rank's waiting time in intervals of (rank, start, end), without the
        communication in progress, which is added to `exposed` instead."""
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
        """Return the idle intervals that end with a compute."""
        computes = np.flatnonzero(self.computes & (self.begin >= 0))
        computes = computes[np.lexsort((self.begin[computes], self.rank[computes]))]
        n, rank, end = computes.size, self.rank[computes], self.end[computes]
        end = np.where(end < 0, INF, end)  # unfinished when the run stopped
        # The latest end so far within each rank: a running maximum of ordinals, offset by rank.
        by_end = np.argsort(end, kind="stable")
        place = np.empty(n, np.int64)
        place[by_end] = np.arange(n)
        latest = end[by_end[np.maximum.accumulate(place + rank * n) - rank * n]]
        is_last = np.append(rank[1:] != rank[:-1], True)[:n]
        free = np.append(0, latest[:-1])[:n]
        free[np.append(True, is_last[:-1])[:n]] = 0
        self.free = np.zeros(self.ranks.size, np.int64)  # after its last compute
        self.free[rank[is_last]] = latest[is_last]
        gap = np.flatnonzero(self.begin[computes] > free)
        ended_by = self.before[computes[gap]]
        return _Idle(rank[gap], free[gap], self.begin[computes[gap]], ended_by)

    def _in_step(self, step: int, start_ps: int, end_ps: int) -> _Idle:
        """Return the idle intervals within a step, including those after the last compute.

        A rank's last operation ends an interval, and so does the step's end.
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
        """Return the breakdown of a step."""
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
