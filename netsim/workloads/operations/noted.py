"""Operations as added, before they become tasks and flows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from netsim.errors import InputError
from netsim.workloads.collectives import CollectiveOptions
from netsim.workloads.operations.table import WHATS

Ints = NDArray[np.int64]

UNIT = -1
"""Rank of a reduction unit."""

COLUMNS = ("rank", "what", "kind", "stream", "duration_ps", "size_bytes", "group", "n", "label")


class Messages(NamedTuple):
    """Messages of one call: `n` send operations from `first` on, followed by as many receives.

    `batch` is the batch of the sends; the receives are the next one.
    """

    first: int
    n: int
    batch: int


@dataclass(frozen=True, eq=False)
class Collective:
    """Collectives of one call, a batch of operations from `first` on, group by group.

    The n ranks of a group may be followed by the unit of their switch, as rank `UNIT`.
    """

    first: int
    batch: int
    what: str
    groups: int
    n: int
    size_bytes: Ints
    how: CollectiveOptions
    has_unit: bool = False

    @property
    def width(self) -> int:
        """Operations per group."""
        return self.n + self.has_unit

    def of(self, column: NDArray[Any]) -> NDArray[Any]:
        """Return a view [groups, width] of a column of all operations."""
        end = self.first + self.groups * self.width
        return column[self.first : end].reshape(-1, self.width)


class NotedOperations:
    """Operations in batches, one or two per call."""

    def __init__(self, n_ranks: int) -> None:
        self.n_ranks = n_ranks
        self.messages: list[Messages] = []
        self.collectives: list[Collective] = []
        self.ends: list[tuple[Ints, Ints]] = []  # what waits for an end, or for a start
        self.starts: list[tuple[Ints, Ints]] = []
        self.orders: list[tuple[Ints, Ints]] = []
        self.names = {"": 0}  # kinds and labels are indices of names
        self.batch_sizes: list[int] = []
        self._batches: list[tuple[Any, ...]] = []  # for each of COLUMNS a value or an array
        self._n_operations = self._n_groups = 0

    def __len__(self) -> int:
        return self._n_operations

    def columns(self) -> dict[str, Ints]:
        """Return each of `COLUMNS` for all operations."""
        found = {}
        for k, name in enumerate(COLUMNS):
            given = [row[k] for row in self._batches]
            if all(np.ndim(one) == 0 for one in given):
                found[name] = np.repeat(np.array(given, np.int64), self.batch_sizes)
            else:
                found[name] = np.empty(len(self), np.int64)
                at = 0
                for n, one in zip(self.batch_sizes, given, strict=True):
                    found[name][at : at + n] = one
                    at += n
        return found

    def _add(
        self,
        rank: NDArray[Any],
        *,
        what: str,
        kind: str = "",
        label: str | Sequence[str] = "",
        **columns: Any,
    ) -> Any:
        """Add operations of one type at `rank`; return their indices in its shape."""
        values: dict[str, Any] = {"stream": -1, "duration_ps": 0, "size_bytes": 0, "group": -1}
        values |= {"n": 1, "what": WHATS.index(what), "kind": self._name(kind), **columns}
        values["rank"] = rank
        if isinstance(label, str):
            values["label"] = self._name(label)
        elif len(label) != rank.size:
            raise InputError(f"{len(label)} labels for {rank.size} operations")
        else:
            values["label"] = np.array([self._name(text) for text in label], np.int64)
        self._batches.append(tuple(_flat(values[name]) for name in COLUMNS))
        self.batch_sizes.append(rank.size)
        first = self._n_operations
        self._n_operations += rank.size
        return (first + np.arange(rank.size)).reshape(rank.shape)[()]

    def _new_groups(self, n: int) -> Ints:
        """Return the indices of `n` new messages or collectives."""
        self._n_groups += n
        return np.arange(self._n_groups - n, self._n_groups)

    def _name(self, text: str) -> int:
        return self.names.setdefault(text, len(self.names))


def _flat(values: ArrayLike) -> Any:
    """Return a flat integer array; a single value as an int."""
    given = np.asarray(values)
    if given.size and not np.issubdtype(given.dtype, np.integer):
        raise InputError(f"operations take integers, not {given.dtype}")
    return given.astype(np.int64).reshape(-1) if given.ndim else int(given)
