"""Columns and dependencies, shared by flow and task tables."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from netsim.errors import InputError
from netsim.units import parse_range, written

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]
Rng = np.random.Generator
Edges = tuple[Ints, Ints]  # pairs of rows: one, and one that waits for it


def column_of(values: ArrayLike, n: int, dtype: Any, name: str) -> NDArray[Any]:
    """Return `values` as a contiguous array of n integers of `dtype`; repeat a single number."""
    given = np.asarray(values)
    if given.size and not np.issubdtype(given.dtype, np.integer):
        raise InputError(f"{name} must contain whole numbers, not {given.dtype}")
    if given.ndim != 0 and given.shape != (n,):
        raise InputError(f"{name} has shape {given.shape}, expected ({n},)")
    if given.size:
        limits = np.iinfo(dtype)
        if int(given.min()) < limits.min or int(given.max()) > limits.max:
            raise InputError(f"{name} has a value out of range", hint=f"at most {limits.max}")
    return np.ascontiguousarray(np.broadcast_to(given.astype(dtype), (n,)))


def first_of(bad: NDArray[np.bool_]) -> list[int]:
    """Return a list with the index of the first true entry; empty if there is none."""
    return [int(flow) for flow in np.flatnonzero(bad)[:1]]


def join_names(
    columns: Sequence[tuple[NDArray[np.int16], tuple[str, ...]]],
) -> tuple[NDArray[np.int16], tuple[str, ...]]:
    """Concatenate columns of indices into names; each name appears once in the result."""
    names = tuple(dict.fromkeys(name for _, own in columns for name in own))
    index = {name: k for k, name in enumerate(names)}
    parts = [
        np.array([index[name] for name in own], np.int16)[column] if own else column
        for column, own in columns
    ]
    return np.concatenate(parts), names


NARROW = 48  # largest round that is processed item by item; larger ones are processed as arrays


def find_cycle(n: int, waiter: NDArray[np.integer], after: Ints) -> list[int]:
    """Return a cycle among n items where `waiter[i]` waits for `after[i]`, [] if there is none.
    Each item of the cycle waits for the next, and the last for the first."""
    order = in_order(n, waiter, after)
    if order.size == n:
        return []
    blocked = np.ones(n, np.bool_)
    blocked[order] = False
    # Following dependencies among blocked items ends in the cycle.
    inside = blocked[waiter] & blocked[after]
    before = np.zeros(n, np.int64)
    before[waiter[inside]] = after[inside]
    seen: dict[int, int] = {}
    one = int(blocked.argmax())
    while one not in seen:
        seen[one] = len(seen)
        one = int(before[one])
    return list(seen)[seen[one] :]


def in_order(n: int, waiter: NDArray[np.integer], after: Ints) -> Ints:
    """Return items in topological order, `waiter[i]` after `after[i]`; omit any that wait for a
    cycle."""
    rounds = [free for free, _ in rounds_in_order(n, waiter, after)]
    return np.concatenate([np.zeros(0, np.int64), *rounds])


def rounds_in_order(
    n: int, waiter: NDArray[np.integer], after: Ints
) -> Iterator[tuple[Ints, bool]]:
    """Yield `in_order` in rounds, and whether the items of a round are independent."""
    waiting = np.bincount(waiter, minlength=n)
    released = np.asarray(waiter, np.int64)[np.argsort(after, kind="stable")]
    first = offsets(np.bincount(after, minlength=n))
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


def offsets(counts: ArrayLike) -> Ints:
    """Return int64[n + 1], the first of each item's consecutive entries."""
    return np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)


def rows_of(first: Ints, counts: Ints | int) -> Ints:
    """Return the row numbers of runs of `counts` rows that start at `first`, concatenated."""
    counts = np.broadcast_to(counts, first.shape)
    begin = np.cumsum(counts) - counts
    rows: Ints = np.repeat(first - begin, counts) + np.arange(int(counts.sum()))
    return rows


def numbers_of(items: Iterable[int | str], n: int, of: str) -> Ints:
    """Return the numbers that a list names, such as [0, "5..9"], in its order. Raises InputError,
    without a key, unless all are in 0..n-1; `of` says what they count."""
    found = [np.zeros(0, np.int64)]
    for item in items:
        ends = (item, item) if isinstance(item, int) else parse_range(item)
        if ends is None:
            hint = 'use numbers and ranges: [0, "5..9"]'
            raise InputError(f"{written(item)} does not name {of}", hint=hint)
        if not 0 <= ends[0] <= ends[1] < n:
            hint = f"0 to {n - 1}"
            raise InputError(f"{written(item)} is out of range", hint=hint, code="out_of_range")
        found.append(np.arange(ends[0], ends[1] + 1))
    return np.concatenate(found)


def ranks_within(counts: Ints) -> Ints:
    """Return 0 to `count` - 1 for each of `counts`, concatenated."""
    return rows_of(np.zeros(counts.size, np.int64), counts)


def rank_of_each(owner: NDArray[np.integer], counts: Ints) -> Ints:
    """Return the rank of each entry among its owner's entries; `counts` are their numbers."""
    ranks = np.empty(owner.size, np.int64)
    ranks[np.argsort(owner, kind="stable")] = ranks_within(counts)
    return ranks


def indices(first: Ints, some: Ints) -> Ints:
    """Return the indices first[k] .. first[k + 1] - 1 of each k in `some`, concatenated."""
    return rows_of(first[some], first[some + 1] - first[some])


def edges_of(after_ptr: Ints | None, after: Ints | None) -> Edges:
    """Return the pairs of rows in which the second waits for the first: row k for all of
    `after[after_ptr[k]:after_ptr[k + 1]]`; none without these."""
    if after_ptr is None or after is None:
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    return after, np.repeat(np.arange(after_ptr.size - 1), np.diff(after_ptr))


def by_waiter(n: int, first: ArrayLike, then: ArrayLike) -> tuple[Ints, Ints]:
    """Return `after_ptr` and `after` of n rows whose `edges_of` are these, row by row."""
    one, other = np.asarray(first, np.int64), np.asarray(then, np.int64)
    return offsets(np.bincount(other, minlength=n)), one[np.argsort(other, kind="stable")]


def flattened(lists: Sequence[Iterable[int]]) -> tuple[Ints, Ints]:
    """Return `offsets` of some lists, and their numbers, concatenated."""
    kept = [list(one) for one in lists]
    return offsets([len(one) for one in kept]), np.array([k for one in kept for k in one], np.int64)


def distinct_columns(matrix: NDArray[np.bool_]) -> tuple[NDArray[np.bool_], Ints]:
    """Return the distinct columns of a boolean matrix, bool[k, rows], and each column's index."""
    rows = matrix.shape[0]
    packed = np.ascontiguousarray(np.packbits(matrix, axis=0).T)
    keys = packed.view(np.dtype((np.void, packed.shape[1]))).reshape(-1)
    _, first, which = np.unique(keys, return_index=True, return_inverse=True)
    distinct = np.unpackbits(packed[first], axis=1, count=rows).view(bool)
    return distinct, which.reshape(-1).astype(np.int64)


def longest_chains(n: int, first: Ints, then: Ints, length: Ints) -> Ints:
    """Return int64[n], the longest chain of links up to each item, 0 without any. Link k leads from
    `first[k]` to `then[k]` and has `length[k]`; items of a cycle get the longest chain up to the
    cycle."""
    by_first = np.argsort(first, kind="stable")
    begins = offsets(np.bincount(first, minlength=n))
    followers, lengths, found = then[by_first], length[by_first], np.zeros(n, np.int64)
    begin, follower, step, reached = begins.data, followers.data, lengths.data, found.data
    for some, apart in rounds_in_order(n, then, first):
        if apart:
            links = indices(begins, some)
            ends = np.repeat(found[some], begins[some + 1] - begins[some]) + lengths[links]
            np.maximum.at(found, followers[links], ends)
            continue
        for one in some.tolist():
            at = reached[one]
            for k in range(begin[one], begin[one + 1]):
                reached[follower[k]] = max(reached[follower[k]], at + step[k])
    return found
