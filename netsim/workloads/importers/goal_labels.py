"""Labels of operations in GOAL texts, and the dependencies that name them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from netsim.inputs import at_line
from netsim.units import written

Ints = NDArray[np.int64]
Places = list[tuple[Any, Ints, Ints, Ints]]


class Labels:
    """Labels and pending dependencies, resolved rank by rank. Texts are polars Series."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.defined: Places = []  # texts, operations, lines, ranks
        self.waiting: Places = []  # structs of two texts and what is between, lines, ranks
        self.found: list[tuple[Ints, Ints, NDArray[np.bool_]]] = []

    def define(self, labels: Any, ops: Ints, lines: Ints, ranks: Ints) -> None:
        """Add labeled operations."""
        self.defined.append((labels, ops, lines, ranks))

    def wait(self, edges: Any, lines: Ints, ranks: Ints) -> None:
        """Add dependencies: the waiting label, "requires" or "irequires", and the label it waits
        for."""
        self.waiting.append((edges, lines, lines, ranks))

    def edges(self) -> tuple[Ints, Ints, NDArray[np.bool_]]:
        """Return the resolved dependencies, and which of them wait for a start."""
        none = np.zeros(0, np.int64)
        parts = [*self.found, (none, none, none != 0)]
        first, then, at_start = (np.concatenate(side) for side in zip(*parts, strict=True))
        return first, then, at_start

    def settle(self, closed: int) -> None:
        """Resolve the dependencies of the ranks below `closed`.

        Raises InputError, with the line, for a duplicate, unknown or not yet defined label.
        """
        import polars as pl

        self.defined, (labels, ops, defined_at, of) = _taken(self.defined, closed)
        self.waiting, (edges, _, lines, ranks) = _taken(self.waiting, closed)
        then, what, first = (edges.struct.field(name) for name in ("then", "what", "first"))
        texts = pl.concat([labels.alias(""), then.alias(""), first.alias("")])
        known = texts.unique()
        codes = texts.cast(pl.Enum(known)).to_physical().to_numpy().astype(np.int64)
        codes += np.concatenate([of, ranks, ranks]) * len(known)
        defined, waits, awaited = np.split(codes, [ops.size, ops.size + lines.size])
        order = np.argsort(defined, kind="stable")
        twice = np.flatnonzero(defined[order[1:]] == defined[order[:-1]])
        for one, other in zip(order[twice].tolist(), order[twice + 1].tolist(), strict=True):
            text = f"duplicate label {written(labels[other])}"
            raise at_line(self.path, int(defined_at[other]), f"{text} (line {defined_at[one]})")
        ends = []
        for texts, codes in ((then, waits), (first, awaited)):
            place = np.searchsorted(defined[order], codes)
            at = np.append(order, -1)[place]
            there = (at >= 0) & (np.append(defined, -1)[at] == codes)
            above = there & (np.append(defined_at, 0)[at] <= lines)
            for k in np.flatnonzero(~above)[:1].tolist():
                where = f", defined below on line {defined_at[at[k]]}" if there[k] else ""
                text = f"unknown label {written(texts[k])}{where}"
                raise at_line(self.path, int(lines[k]), text)
            ends.append(ops[at])
        for k in np.flatnonzero(ends[0] == ends[1])[:1].tolist():
            raise at_line(self.path, int(lines[k]), "waits for itself")
        at_start = (what == "irequires").to_numpy()
        self.found.append((ends[1], ends[0], at_start))


def _taken(places: Places, closed: int) -> tuple[Places, tuple[Any, Ints, Ints, Ints]]:
    """Split off the ranks below `closed`; return the rest and the joined parts."""
    import polars as pl

    texts = pl.concat([one[0] for one in places])
    ops, lines, ranks = (np.concatenate([one[k] for one in places]) for k in (1, 2, 3))
    cut = int(np.searchsorted(ranks, closed))
    left = (texts[cut:], ops[cut:], lines[cut:], ranks[cut:])
    return [left], (texts[:cut], ops[:cut], lines[:cut], ranks[:cut])
