"""Predictions of a demand that are wrong."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

Entry = tuple[int, int, int]


def mispredicted(
    entries: Sequence[Entry], n: int, share: float, rng: np.random.Generator
) -> list[Entry]:
    """The entries (row, column, bytes) of n racks as somebody expects them who errs.

    A share of the bytes of each is expected of a pair of two other racks, drawn at random; the sum
    stays the same.
    """
    rows, columns, amounts = np.array(entries, np.int64).reshape(-1, 3).T
    moved = np.rint(amounts * share).astype(np.int64)
    pair = rng.integers(0, n * (n - 1), rows.size)
    to_row, to_column = np.divmod(pair, n - 1)
    to_column += to_column >= to_row
    found = np.concatenate(
        [np.stack([rows, columns, amounts - moved]), np.stack([to_row, to_column, moved])], axis=1
    )
    return [(row, column, amount) for row, column, amount in found.T.tolist() if amount]
