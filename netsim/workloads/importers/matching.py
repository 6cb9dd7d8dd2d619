"""Posting order of operations, and matching of messages and receives in it, as in MPI.

Messages of one source, destination and tag are received in the order in which they were sent, by
receives in the order in which they were posted. Which message a wildcard receive takes depends on
arrival times; here it is the first one in the given order that no receive of its exact source and
tag needs.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from netsim.errors import InputError

Ints = NDArray[np.int64]

ANY = -1
"""Wildcard source or tag of a receive."""

MAX_NAMED = 4
"""Largest number of mismatches named in an error."""


@dataclass(frozen=True)
class PostedMessages:
    """Sends or receives, in the order in which their rank posts them: int64[n] each.

    `peer` and `tag` of receives may be ANY.
    """

    rank: Ints
    peer: Ints
    tag: Ints


def match(sends: PostedMessages, receives: PostedMessages) -> Ints:
    """int64[receives]: the send that each receive takes.

    Raises InputError, with some of the mismatches, unless all match.
    """
    exact = (receives.peer != ANY) & (receives.tag != ANY)
    key, wanted = _keys(sends, receives)
    n_keys = int(max(key.max(initial=-1), wanted.max(initial=-1))) + 1
    there = np.bincount(key, minlength=n_keys)
    needed = np.bincount(wanted[exact], minlength=n_keys)
    left = there - needed
    if (left < 0).any() or (exact.all() and left.any()):
        raise _unmatched(sends, receives, key, wanted, exact)
    if not exact.all():
        _choose(sends, receives, key, wanted, left)
    taken = np.empty(wanted.size, np.int64)
    taken[np.argsort(wanted, kind="stable")] = np.argsort(key, kind="stable")
    return taken


def _keys(sends: PostedMessages, receives: PostedMessages) -> tuple[Ints, Ints]:
    """Return keys of source, destination and tag; -1 for wildcards."""
    n = sends.rank.size
    _, tag = np.unique(np.concatenate([sends.tag, receives.tag]), return_inverse=True)
    src = np.concatenate([sends.rank, receives.peer])
    dst = np.concatenate([sends.peer, receives.rank])
    _, pair = np.unique(dst << 31 | src & 0x7FFFFFFF, return_inverse=True)
    _, key = np.unique(
        pair.reshape(-1) * (tag.max(initial=0) + 1) + tag.reshape(-1), return_inverse=True
    )
    key = key.reshape(-1)
    wanted = np.where((receives.peer == ANY) | (receives.tag == ANY), -1, key[n:])
    return key[:n], wanted


def _choose(
    sends: PostedMessages, receives: PostedMessages, key: Ints, wanted: Ints, left: Ints
) -> None:
    """Assign wildcard receives, in posted order, the earliest unneeded sends to their rank."""
    waiting: defaultdict[tuple[int, int, int], deque[int]] = defaultdict(deque)
    for send in np.flatnonzero(left[key] > 0).tolist():
        src, dst, tag = int(sends.rank[send]), int(sends.peer[send]), int(sends.tag[send])
        for of in ((dst, src, ANY), (dst, ANY, tag), (dst, ANY, ANY)):
            waiting[of].append(send)
    used = np.zeros(key.size, bool)
    for receive in np.flatnonzero(wanted < 0).tolist():
        rank, peer, tag = (
            int(one[receive]) for one in (receives.rank, receives.peer, receives.tag)
        )
        messages = waiting[rank, peer, tag]
        while messages and (used[messages[0]] or not left[key[messages[0]]]):
            messages.popleft()
        if messages:
            send = messages.popleft()
            used[send] = True
            wanted[receive] = key[send]
            left[key[send]] -= 1
    if left.any() or (wanted < 0).any():
        raise _unmatched(sends, receives, key, wanted, wanted >= 0)


def _unmatched(
    sends: PostedMessages,
    receives: PostedMessages,
    key: Ints,
    wanted: Ints,
    given: NDArray[np.bool_],
) -> InputError:
    n_keys = int(max(key.max(initial=-1), wanted.max(initial=-1))) + 1
    counts = [np.bincount(one, minlength=n_keys) for one in (key, wanted[given])]
    mismatches = []
    for one in np.flatnonzero(counts[0] != counts[1]).tolist():
        k = int(np.flatnonzero(key == one)[0]) if counts[0][one] else -1
        at = int(np.flatnonzero(wanted == one)[0]) if k < 0 else -1
        src, dst, tag = (
            (sends.rank[k], sends.peer[k], sends.tag[k])
            if k >= 0
            else (receives.peer[at], receives.rank[at], receives.tag[at])
        )
        n_sends, n_receives = counts[0][one], counts[1][one]
        mismatches.append(
            f"from {src} to {dst} with tag {tag}: {n_sends} sent, {n_receives} received"
        )
        if len(mismatches) == MAX_NAMED:
            break
    rest = int((counts[0] != counts[1]).sum()) - len(mismatches)
    any_left = int((~given).sum())
    more = [f"{rest} more such"] * (rest > 0)
    more += [f"{any_left} wildcard receives take none"] * (any_left > 0)
    return InputError(
        "sends and receives do not match: " + "; ".join([*mismatches, *more]),
        hint="each send needs one receive of its source and tag",
    )


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


def order_by_start(n: int, edges: Sequence[tuple[Ints, Ints, Ints]]) -> Ints:
    """int64[n]: the place of each of n by when it could start without contention.

    `edges` are columns of `first`, `then` and `lag`, as of `earliest`.
    """
    start, place = earliest(n, *(np.concatenate(side) for side in zip(*edges, strict=True)))
    order = np.empty(n, np.int64)
    order[np.lexsort((place, start))] = np.arange(n)
    return order


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
