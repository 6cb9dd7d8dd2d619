"""The critical path as a line through the rows of a timeline."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    import polars as pl


SENT, RECEIVED, LEVEL = -0.2, 0.2, 0.3
"""Vertical offset of the line within a row: where it leaves or enters messages, and elsewhere."""


def path_line(
    segments: pl.DataFrame, rows: pl.DataFrame, short_ps: float = 0
) -> tuple[np.ndarray, np.ndarray]:
    """Return float64[m] times in ps and row positions, two per part; NaN if hidden.

    A flow goes from its source's send row to its destination's receive row, or stays in whichever
    is shown. Consecutive segments shorter than `short_ps` form one part, in the visible row with
    most of their time.
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
"""Rows of a host's compute streams, and of its kinds of communication."""


def _ends(segment: Mapping[str, Any], places: Places) -> tuple[float, float]:
    """Return the rows where a segment begins and ends."""
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
    """Return rows by host; for several ranks of a host, those of the first."""
    found: Places = {}, {}
    for row in rows.iter_rows(named=True):
        if row["communicates"]:
            found[1].setdefault((row["host"], row["kind"]), row["row"])
        else:
            found[0].setdefault((row["host"], row["stream"]), row["row"])
    return found
