"""A critical path as a line through the rows of a timeline."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    import polars as pl


SENT, RECEIVED, LEVEL = -0.2, 0.2, 0.3
"""Where the line is within a row, from its middle down: with messages, else below the texts."""


def path_line(pieces: pl.DataFrame, rows: pl.DataFrame) -> tuple[np.ndarray, np.ndarray]:
    """float64[m] times in ps and places among rows, two for each piece; NaN where none is shown.

    A flow goes from the row in which its source sends to that in which its destination receives.
    """
    import numpy as np

    of_streams, of_kinds = _places(rows)
    x, y = np.full((2, 2 * len(pieces)), np.nan)
    for k, piece in enumerate(pieces.iter_rows(named=True)):
        x[2 * k : 2 * k + 2] = piece["from_ps"], piece["until_ps"]
        ends = [(piece["host"], LEVEL)] * 2
        if piece["what"] == "flow":
            ends = [(piece["host"], SENT), (piece["to"], RECEIVED)]
        for end, (host, beside) in enumerate(ends):
            place = of_kinds.get((host, piece["kind"]))
            if place is None or (piece["what"] == "compute" and not piece["kind"]):
                place = of_streams.get((host, piece["stream"]), place)
            if place is not None:
                y[2 * k + end] = place + beside
    return x, y


def _places(rows: pl.DataFrame) -> tuple[dict[tuple[int, int], int], dict[tuple[int, str], int]]:
    """Where the row of a host's stream is that computes, and that of a kind of communication.

    Of several ranks of a host those of the first one.
    """
    of_streams: dict[tuple[int, int], int] = {}
    of_kinds: dict[tuple[int, str], int] = {}
    for row in rows.iter_rows(named=True):
        if row["communicates"]:
            of_kinds.setdefault((row["host"], row["kind"]), row["row"])
        else:
            of_streams.setdefault((row["host"], row["stream"]), row["row"])
    return of_streams, of_kinds
