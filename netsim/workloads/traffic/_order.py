"""Topological orders by earliest start."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]


def earliest(n: int, first: Ints, then: Ints, lag: Ints) -> tuple[Ints, Ints]:
    """Return when each of n could start without contention.

    Args:
        first, then, lag: int64[m], `then[i]` starts at least `lag[i]` >= 0 after `first[i]`.

    Returns:
        int64[n], the times, from 0; and int64[n], positions in a topological order; -1 for those in
        or after a cycle.
    """
    waiting = np.bincount(then, minlength=n).tolist()
    order = np.argsort(first, kind="stable")
    followers = list(zip(then[order].tolist(), lag[order].tolist(), strict=True))
    begin = np.searchsorted(first[order], np.arange(n + 1)).tolist()
    start, place = [0] * n, [-1] * n
    free = [k for k in range(n) if not waiting[k]]
    for number, k in enumerate(free):  # `free` grows
        place[k] = number
        now = start[k]
        for other, later in followers[begin[k] : begin[k + 1]]:
            start[other] = max(start[other], now + later)
            waiting[other] -= 1
            if not waiting[other]:
                free.append(other)
    return np.array(start, np.int64), np.array(place, np.int64)


def posted(group: Ints, first: Ints, then: Ints) -> Ints:
    """int64[n]: the members of each group in their likely posting order.

    By index, if none waits for a later one; otherwise by depth in the graph. `first` and `then`
    are edges within groups.
    """
    level = np.zeros(group.size, np.int64)
    if (first >= then).any():
        level, _ = earliest(group.size, first, then, np.ones(first.size, np.int64))
    return np.lexsort((np.arange(group.size), level, group))


def is_chain(members: Ints, group: Ints, first: Ints, then: Ints) -> bool:
    """Return whether each of the ordered `members` waits directly for the one before it in its
    group."""
    order = np.argsort(group, kind="stable")
    members, group = members[order], group[order]
    same = group[1:] == group[:-1]
    n = int(max(first.max(initial=0), then.max(initial=0), members.max(initial=0))) + 1
    edges = np.unique(first * n + then)
    wanted = members[:-1][same] * n + members[1:][same]
    return bool(np.isin(wanted, edges).all())
