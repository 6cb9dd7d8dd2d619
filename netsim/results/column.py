"""One column of a table that netsim writes."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Column:
    """One column of a results table."""

    name: str
    unit: str
    doc: str
    null_below_zero: bool = False
    """In memory a negative number says "there is none"; on disk that is null."""
