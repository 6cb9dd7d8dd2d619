"""What tables of flows and of tasks have in common: columns of numbers, and who waits for whom."""

from __future__ import annotations

from collections.abc import Sequence
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
    place = {name: k for k, name in enumerate(names)}
    parts = [
        np.array([place[name] for name in own], np.int16)[column] if own else column
        for column, own in columns
    ]
    return np.concatenate(parts), names


def find_cycle(n: int, waiter: NDArray[np.integer], after: NDArray[np.int64]) -> list[int]:
    """A cycle among n, where each `waiter[i]` waits for `after[i]`; empty if there is none.

    Each of those in it waits for the next one, and the last one for the first.
    """
    waiting = np.bincount(waiter, minlength=n).tolist()
    order = np.argsort(after, kind="stable")
    released = waiter[order].tolist()
    first = np.searchsorted(after[order], np.arange(n + 1)).tolist()
    free = [flow for flow in range(n) if not waiting[flow]]
    while free:
        flow = free.pop()
        for follower in released[first[flow] : first[flow + 1]]:
            waiting[follower] -= 1
            if not waiting[follower]:
                free.append(follower)
    blocked = [flow for flow in range(n) if waiting[flow]]
    if not blocked:
        return []
    # Going backwards from a blocked flow along blocked flows must end in the cycle.
    before = {int(w): int(a) for w, a in zip(waiter, after, strict=True) if waiting[int(a)]}
    seen: dict[int, int] = {}
    flow = blocked[0]
    while flow not in seen:
        seen[flow] = len(seen)
        flow = before[flow]
    return list(seen)[seen[flow] :]
