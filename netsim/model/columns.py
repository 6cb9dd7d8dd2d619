"""What tables of flows and of tasks have in common: columns of numbers, and who waits for whom."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from netsim.errors import InputError


def column_of(values: ArrayLike, n: int, dtype: Any, name: str) -> NDArray[Any]:
    """`values` as a contiguous array of n integers of `dtype`; a lone number is repeated."""
    given = np.asarray(values)
    if given.size and not np.issubdtype(given.dtype, np.integer):
        raise InputError(f"{name} must hold whole numbers, not {given.dtype}")
    if given.ndim != 0 and given.shape != (n,):
        raise InputError(f"{name} has shape {given.shape}, expected ({n},)")
    if given.size:
        limits = np.iinfo(dtype)
        if int(given.min()) < limits.min or int(given.max()) > limits.max:
            raise InputError(f"{name} has a value beyond {limits.max}")
    return np.ascontiguousarray(np.broadcast_to(given.astype(dtype), (n,)))


def first_of(bad: NDArray[np.bool_]) -> list[int]:
    """The first index that is true, in a list, or an empty list."""
    return [int(flow) for flow in np.flatnonzero(bad)[:1]]


def join_names(
    columns: Sequence[tuple[NDArray[np.int16], tuple[str, ...]]],
) -> tuple[NDArray[np.int16], tuple[str, ...]]:
    """Several columns of indices into names in one, whose names are those of all, each once."""
    names = tuple(dict.fromkeys(name for _, own in columns for name in own))
    index = {name: k for k, name in enumerate(names)}
    parts = [
        np.array([index[name] for name in own], np.int16)[column] if own else column
        for column, own in columns
    ]
    return np.concatenate(parts), names


Ints = NDArray[np.int64]

NARROW = 48
"""So few that are free at once are gone through one by one; more of them as arrays."""


def find_cycle(n: int, waiter: NDArray[np.integer], after: NDArray[np.int64]) -> list[int]:
    """A cycle among n, where each `waiter[i]` waits for `after[i]`; empty if there is none.

    Each of those in it waits for the next one, and the last one for the first.
    """
    order = in_order(n, waiter, after)
    if order.size == n:
        return []
    blocked = np.ones(n, np.bool_)
    blocked[order] = False
    # Going backwards from a blocked one along blocked ones must end in the cycle.
    inside = blocked[waiter] & blocked[after]
    before = np.zeros(n, np.int64)
    before[waiter[inside]] = after[inside]
    seen: dict[int, int] = {}
    one = int(blocked.argmax())
    while one not in seen:
        seen[one] = len(seen)
        one = int(before[one])
    return list(seen)[seen[one] :]


def in_order(n: int, waiter: NDArray[np.integer], after: NDArray[np.int64]) -> Ints:
    """Those of n that wait for no cycle, each behind all that it waits for.

    Each `waiter[i]` waits for `after[i]`.
    """
    rounds = [free for free, _ in rounds_in_order(n, waiter, after)]
    return np.concatenate([np.zeros(0, np.int64), *rounds])


def rounds_in_order(
    n: int, waiter: NDArray[np.integer], after: NDArray[np.int64]
) -> Iterator[tuple[Ints, bool]]:
    """As `in_order`, in rounds: whether those of a round wait for none of the same round."""
    waiting = np.bincount(waiter, minlength=n)
    released = np.asarray(waiter, np.int64)[np.argsort(after, kind="stable")]
    first = np.concatenate([[0], np.cumsum(np.bincount(after, minlength=n))])
    left, followers, begin = waiting.data, released.data, first.data
    free = np.flatnonzero(waiting == 0)
    while free.size:
        if free.size > NARROW:
            yield free, True
            these = released[indices(first, free)]
            np.subtract.at(waiting, these, 1)
            free = np.sort(these[waiting[these] == 0])
            free = free[np.diff(free, prepend=-1) > 0]
            continue
        some, gone = free.tolist(), []
        while 0 < len(some) <= NARROW:
            one = some.pop()
            gone.append(one)
            for follower in followers[begin[one] : begin[one + 1]]:
                left[follower] -= 1
                if not left[follower]:
                    some.append(follower)
        yield np.array(gone, np.int64), False
        free = np.array(some, np.int64)


def indices(first: Ints, some: Ints) -> Ints:
    """The indices first[k] .. first[k + 1] - 1 of each of some k, one k after the other."""
    counts = first[some + 1] - first[some]
    found: Ints = np.repeat(first[some] - np.cumsum(counts) + counts, counts)
    found += np.arange(found.size)
    return found
