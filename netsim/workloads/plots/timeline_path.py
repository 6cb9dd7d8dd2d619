"""A critical path as a line through the rows of a timeline."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    import polars as pl


SENT, RECEIVED, LEVEL = -0.2, 0.2, 0.3
"""Where the line is within a row, from its middle down: with messages, else below the texts."""


def path_line(
    segments: pl.DataFrame, rows: pl.DataFrame, short_ps: float = 0
) -> tuple[np.ndarray, np.ndarray]:
    """float64[m] times in ps and places among rows, two for each part; NaN where none is shown.

    A flow goes from the row in which its source sends to that in which its destination receives, or
    stays in the one of these that is shown. Segments that take less than `short_ps` and follow one
    another are one part, in the row of those shown in which they are for longest.
    """
    import numpy as np

    places = _places(rows)
    x: list[float] = []
    y: list[float] = []
    some: dict[float, int] | None = None  # of a part of several segments, its rows and their times
    for segment in segments.iter_rows(named=True):
        begin, end = segment["start_ps"], segment["end_ps"]
        here, there = _ends(segment, places)
        if end - begin >= short_ps:
            some = None
            x += [begin, end]
            y += [here, there]
            continue
        if some is None or end - x[-2] > short_ps:
            some = {}
            x += [begin, end]
            y += [math.nan, math.nan]
        x[-1] = end
        if not math.isnan(here):
            place = round(here) + LEVEL
            some[place] = some.get(place, 0) + end - begin
            y[-2:] = [max(some, key=some.__getitem__)] * 2
    return np.array(x, np.float64), np.array(y, np.float64)


Places = tuple[dict[tuple[int, int | None], int], dict[tuple[int, str], int]]
"""Rows of a host's streams that compute, and of its kinds of communication."""


def _ends(segment: Mapping[str, Any], places: Places) -> tuple[float, float]:
    """Where a segment begins and ends among the rows."""
    of_streams, of_kinds = places
    ends = [(segment["host"], LEVEL)] * 2
    if segment["segment_type"] == "flow":
        ends = [(segment["host"], SENT), (segment["to"], RECEIVED)]
    found = []
    for host, beside in ends:
        place = of_kinds.get((host, segment["kind"]))
        if place is None or (segment["segment_type"] == "compute" and not segment["kind"]):
            place = of_streams.get((host, segment["stream"]), place)
        found.append(math.nan if place is None else place + beside)
    here, there = found
    return (there if math.isnan(here) else here), (here if math.isnan(there) else there)


def _places(rows: pl.DataFrame) -> Places:
    """Of several ranks of a host the rows of the first one."""
    found: Places = {}, {}
    for row in rows.iter_rows(named=True):
        if row["communicates"]:
            found[1].setdefault((row["host"], row["kind"]), row["row"])
        else:
            found[0].setdefault((row["host"], row["stream"]), row["row"])
    return found
