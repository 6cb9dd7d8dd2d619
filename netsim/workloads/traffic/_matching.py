"""Posting order of operations, and matching of messages and receives in that order, as in MPI.

Messages with the same source, destination and tag, in sending order, match receives in posting
order. Which message a wildcard receive takes depends on arrival times; here it is the first one in
the given order that no receive of its exact source and tag needs.
"""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Sequence

import numpy as np
import polars as pl

from netsim.errors import InputError
from netsim.frozen import frozen
from netsim.model.columns import Ints

ANY = -1  # wildcard source or tag of a receive
MAX_NAMED = 4  # largest number of mismatches named in an error


@frozen
class PostedMessages:
    """Sends or receives, in the order in which their rank posts them: int64[n] each. `peer` and
    `tag` of receives may be ANY."""

    rank: Ints
    peer: Ints
    tag: Ints


KEYS = ("src", "dst", "tag")


def match(sends: PostedMessages, receives: PostedMessages) -> Ints:
    """int64[receives]: the send that each receive takes. Raises InputError, with some of the
    mismatches, unless all match."""
    peer, tag = receives.peer, receives.tag
    if ((peer == ANY) | (tag == ANY)).any():
        peer, tag = _chosen(sends, receives)
    turn, at = pl.int_range(pl.len()).over(KEYS), pl.int_range(pl.len())
    sent, wanted = (
        pl.DataFrame(dict(zip(KEYS, ends, strict=True))).with_columns(turn=turn, at=at)
        for ends in ((sends.rank, sends.peer, sends.tag), (peer, receives.rank, tag))
    )
    pairs = wanted.join(sent, on=[*KEYS, "turn"], how="left", maintain_order="left")
    if len(sent) != len(wanted) or pairs["at_right"].has_nulls():
        raise _unmatched(sent, wanted)
    found: Ints = pairs["at_right"].to_numpy()
    return found


def _chosen(sends: PostedMessages, receives: PostedMessages) -> tuple[Ints, Ints]:
    """Return sources and tags of receives: wildcards take, in posted order, the earliest send to
    their rank that no other receive needs, or remain wildcards."""
    peer, tag = receives.peer.copy(), receives.tag.copy()
    is_any = (peer == ANY) | (tag == ANY)
    keys = list(zip(*(one.tolist() for one in (sends.rank, sends.peer, sends.tag)), strict=True))
    left = Counter(keys)
    exact = np.stack([peer, receives.rank, tag], axis=1)[~is_any]
    left.subtract(map(tuple, exact.tolist()))
    waiting: defaultdict[tuple[int, int, int], deque[int]] = defaultdict(deque)
    for send, (src, dst, its) in enumerate(keys):
        for of in ((dst, src, ANY), (dst, ANY, its), (dst, ANY, ANY)):
            waiting[of].append(send)
    used = np.zeros(len(keys), bool)
    for receive in np.flatnonzero(is_any).tolist():
        messages = waiting[int(receives.rank[receive]), int(peer[receive]), int(tag[receive])]
        while messages and (used[messages[0]] or left[keys[messages[0]]] <= 0):
            messages.popleft()
        if messages:
            send = messages.popleft()
            used[send] = True
            left[keys[send]] -= 1
            peer[receive], _, tag[receive] = keys[send]
    return peer, tag


def _unmatched(sent: pl.DataFrame, wanted: pl.DataFrame) -> InputError:
    is_any = (pl.col("src") == ANY) | (pl.col("tag") == ANY)
    counts = (
        sent.group_by(KEYS)
        .len()
        .join(wanted.filter(~is_any).group_by(KEYS).len(), on=KEYS, how="full", coalesce=True)
        .fill_null(0)
        .filter(pl.col("len") != pl.col("len_right"))
        .sort("dst", "src", "tag")
    )
    texts = [
        f"from {src} to {dst} with tag {tag}: {n_sends} sent, {n_receives} received"
        for src, dst, tag, n_sends, n_receives in counts.head(MAX_NAMED).rows()
    ]
    if len(counts) > MAX_NAMED:
        texts.append(f"{len(counts) - MAX_NAMED} more such")
    if any_left := len(wanted.filter(is_any)):
        texts.append(f"{any_left} wildcard receives take none")
    return InputError(
        "sends and receives do not match: " + "; ".join(texts),
        hint="each send needs one receive of its source and tag",
    )


def earliest(n: int, first: Ints, then: Ints, lag: Ints) -> tuple[Ints, Ints]:
    """Return when each of n operations could start without contention.

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
    """int64[n]: the position of each of n operations by its start without contention. `edges` are
    columns `first`, `then` and `lag`, as for `earliest`."""
    start, place = earliest(n, *(np.concatenate(side) for side in zip(*edges, strict=True)))
    order = np.empty(n, np.int64)
    order[np.lexsort((place, start))] = np.arange(n)
    return order


def posted(group: Ints, first: Ints, then: Ints) -> Ints:
    """int64[n]: the members of each group in their likely posting order. By index if none waits for
    a later one, else by depth in the graph. `first` and `then` are edges within groups."""
    level = np.zeros(group.size, np.int64)
    if (first >= then).any():
        level, _ = earliest(group.size, first, then, np.ones(first.size, np.int64))
    return np.lexsort((np.arange(group.size), level, group))


def is_chain(members: Ints, group: Ints, first: Ints, then: Ints) -> bool:
    """Return whether each of the ordered `members` waits directly for its predecessor in its
    group."""
    order = np.argsort(group, kind="stable")
    members, group = members[order], group[order]
    same = group[1:] == group[:-1]
    n = int(max(first.max(initial=0), then.max(initial=0), members.max(initial=0))) + 1
    edges = np.unique(first * n + then)
    wanted = members[:-1][same] * n + members[1:][same]
    return bool(np.isin(wanted, edges).all())
