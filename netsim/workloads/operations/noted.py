"""Operations as added, before they become tasks and flows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from netsim.errors import InputError
from netsim.workloads.collectives import CollectiveOptions
from netsim.workloads.operations.table import WHATS

Ints = NDArray[np.int64]

UNIT = -1
"""Rank of a reduction unit."""

COLUMNS = ("rank", "what", "kind", "stream", "duration_ps", "size_bytes", "group", "n", "label")


@dataclass(frozen=True)
class Messages:
    """Messages of one call: `n` send operations from `first` on, followed by as many receives.

    `batch` is the batch of the sends; the receives are the next one.
    """

    first: int
    n: int
    batch: int


@dataclass(frozen=True, eq=False)
class Collective:
    """Collectives of one call, a batch of operations, group by group.

    The n ranks of a group may be followed by the unit of their switch, as rank `UNIT`.
    """

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


@dataclass
class Noted:
    """Operations in batches, one or two per call; a batch has a value or an array for each of
    `COLUMNS`. Kinds and labels are indices into `names`."""

    n_ranks: int
    n_operations: int = 0
    n_groups: int = 0
    batches: list[tuple[int, tuple[Any, ...]]] = field(default_factory=list)
    names: dict[str, int] = field(default_factory=lambda: {"": 0})
    messages: list[Messages] = field(default_factory=list)
    collectives: list[Collective] = field(default_factory=list)
    after: list[tuple[Ints, Ints]] = field(default_factory=list)
    after_start: list[tuple[Ints, Ints]] = field(default_factory=list)
    order: list[tuple[Ints, Ints]] = field(default_factory=list)

    def add(
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
        row = tuple(_flat(values[name]) for name in COLUMNS)
        self.batches.append((rank.size, row))
        first = self.n_operations
        self.n_operations += rank.size
        return (first + np.arange(rank.size)).reshape(rank.shape)[()]

    def new_groups(self, n: int) -> Ints:
        """Return the indices of `n` new messages or collectives."""
        self.n_groups += n
        return np.arange(self.n_groups - n, self.n_groups)

    def groups(self) -> Iterator[tuple[Collective, int]]:
        """Yield the calls of collectives, each with its first operation."""
        first = np.cumsum([0, *(n for n, _ in self.batches)]).tolist()
        for call in self.collectives:
            yield call, first[call.batch]

    def columns(self) -> dict[str, Ints]:
        """Return each of `COLUMNS` for all operations."""
        sizes = [n for n, _ in self.batches]
        found = {}
        for k, name in enumerate(COLUMNS):
            given = [row[k] for _, row in self.batches]
            if all(np.ndim(one) == 0 for one in given):
                found[name] = np.repeat(np.array(given, np.int64), sizes)
            else:
                found[name] = np.empty(self.n_operations, np.int64)
                at = 0
                for n, one in zip(sizes, given, strict=True):
                    found[name][at : at + n] = one
                    at += n
        return found

    def _name(self, text: str) -> int:
        return self.names.setdefault(text, len(self.names))


def _flat(values: ArrayLike) -> Any:
    """Return a flat integer array; a single value as an int."""
    given = np.asarray(values)
    if given.size and not np.issubdtype(given.dtype, np.integer):
        raise InputError(f"operations take integers, not {given.dtype}")
    return given.astype(np.int64).reshape(-1) if given.ndim else int(given)
