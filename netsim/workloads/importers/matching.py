"""Which receive takes which message: by source and tag, in order, as MPI has it.

Messages of one source, destination and tag are taken by receives in the order in which they were
sent, and by those in the order in which they were posted. A receive may take any source or any tag;
which message it takes depends, where there is a choice, on when they come. Here it is the one that
is sent first, in the order that is given, among those that no receive of that source and tag needs.
"""

from __future__ import annotations

from collections import defaultdict, deque
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from netsim.errors import InputError

Ints = NDArray[np.int64]

ANY = -1
"""The source or the tag of a receive that takes any."""

MAX_NAMED = 4
"""So many of what does not match is named; the rest is counted."""


@dataclass(frozen=True)
class PostedMessages:
    """Sends or receives, in the order in which they are posted at their rank: int64[n] each.

    `tag` may be anything but ANY where it stands for a message; of receives `peer` and `tag` may be
    ANY.
    """

    rank: Ints
    peer: Ints
    tag: Ints


def match(sends: PostedMessages, receives: PostedMessages) -> Ints:
    """int64[receives]: the send that each receive takes.

    Raises:
        InputError: some are left; it names some of them with their counts.
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
    """Numbers for source, destination and tag of sends and of receives; -1 where one is any."""
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
    """Give the receives that take any a key each, in the order in which they are posted.

    Of each destination the messages wait in the order of the sends.
    """
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
    """The error of sends and receives whose numbers differ."""
    n_keys = int(max(key.max(initial=-1), wanted.max(initial=-1))) + 1
    counts = [np.bincount(one, minlength=n_keys) for one in (key, wanted[given])]
    told = []
    for one in np.flatnonzero(counts[0] != counts[1]).tolist():
        k = int(np.flatnonzero(key == one)[0]) if counts[0][one] else -1
        at = int(np.flatnonzero(wanted == one)[0]) if k < 0 else -1
        src, dst, tag = (
            (sends.rank[k], sends.peer[k], sends.tag[k])
            if k >= 0
            else (receives.peer[at], receives.rank[at], receives.tag[at])
        )
        n_sends, n_receives = counts[0][one], counts[1][one]
        told.append(f"from {src} to {dst} with tag {tag}: {n_sends} sent, {n_receives} received")
        if len(told) == MAX_NAMED:
            break
    rest = int((counts[0] != counts[1]).sum()) - len(told)
    any_left = int((~given).sum())
    more = [f"{rest} more such"] * (rest > 0)
    more += [f"{any_left} receives of any source or tag take none"] * (any_left > 0)
    return InputError(
        "sends and receives do not match: " + "; ".join([*told, *more]),
        hint="each send has one receive of its source and tag",
    )
