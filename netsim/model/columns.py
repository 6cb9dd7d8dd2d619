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
Edges = tuple[Ints, Ints]  # pairs of rows; the second waits for the first


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


class Waiting:
    """A table in which row k waits for the rows `after[after_ptr[k]:after_ptr[k + 1]]`; both are
    None if no row waits."""

    noun: str  # of a row, such as "flow"
    after_ptr: Ints | None = None
    after: Ints | None = None

    def __len__(self) -> int:
        raise NotImplementedError

    def name(self, row: int) -> str:
        """Return a row's name in messages."""
        return f"{self.noun} {row}"

    def wait_for(self, after: Sequence[Iterable[int]]) -> None:
        """Make each row k wait for the rows `after[k]`; one entry for each row."""
        if len(after) != len(self):
            raise InputError(f"{len(after)} lists of dependencies for {len(self)} {self.noun}s")
        lists = [list(one) for one in after]
        self.after_ptr = offsets([len(one) for one in lists])
        self.after = np.array([row for one in lists for row in one], np.int64)

    def wait_for_pairs(self, first: ArrayLike, then: ArrayLike) -> None:
        """Make each row `then[i]` wait for `first[i]`, replacing all dependencies."""
        one, other = np.asarray(first, np.int64), np.asarray(then, np.int64)
        self.after_ptr = offsets(np.bincount(other, minlength=len(self)))
        self.after = one[np.argsort(other, kind="stable")]

    def awaited(self, row: int) -> list[int]:
        """Return the rows that `row` waits for."""
        if self.after_ptr is None or self.after is None:
            return []
        first, last = self.after_ptr[row : row + 2]
        return [int(one) for one in self.after[first:last]]

    def edges(self) -> Edges:
        """Return the pairs in which the second row waits for the first."""
        if self.after_ptr is None or self.after is None:
            return np.zeros(0, np.int64), np.zeros(0, np.int64)
        return self.after, np.repeat(np.arange(len(self)), np.diff(self.after_ptr))

    def check_edges(self) -> None:
        """Raise InputError for the first row that waits for one that does not exist."""
        ptr, after = self.after_ptr, self.after
        if ptr is None or after is None:
            return
        if ptr[0] != 0 or ptr[-1] != after.size or (np.diff(ptr) < 0).any():
            raise InputError("after_ptr must rise from 0 to the length of after")
        n, (first, then) = len(self), self.edges()
        for i in first_of((first < 0) | (first >= n)):
            message = f"waits for {self.noun} {first[i]}, which does not exist"
            known = f"({self.noun}s are 0..{n - 1})"
            raise InputError(f"{self.name(int(then[i]))}: {message} {known}")


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
