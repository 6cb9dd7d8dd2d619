"""The processes of a run that is divided among several (`partitioned.py`)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from netsim.engine.kernels.fields import Array


class Led(Protocol):
    """The engine of rank 0, which those of other ranks follow."""

    def close(self) -> None:
        """Let the other ranks go on."""


class Ranks(Protocol):
    """The processes of a run."""

    rank: int
    n: int

    def broadcast(self, array: Array | None, root: int = 0) -> Array:
        """Return the array of ``root`` (uint8[...]) on all ranks."""

    def all_gather(self, row: Array) -> Array:
        """Return the rows of all ranks (int64[k]) as int64[n, k]."""

    def gather(self, array: Array) -> list[Array]:
        """Return the arrays of all ranks (uint8[...]) on rank 0, and nothing on others."""

    def swap(self, out: Mapping[int, Array]) -> Mapping[int, Array]:
        """Send an array (int64[...]) to some ranks; return those that they send."""

    def fill(self, out: Mapping[int, Array], into: Mapping[int, Array]) -> None:
        """Send arrays (uint8[...]) to some ranks, and receive those of known lengths."""

    def build(self, engine: Led) -> None:
        """Let the other ranks build theirs, which follow ``engine`` of rank 0."""
