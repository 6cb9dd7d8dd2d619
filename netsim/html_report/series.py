"""Heat maps of sampled ports, hosts and flows against time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from netsim.documents import DAMAGED
from netsim.errors import InputError
from netsim.html_report import parts
from netsim.html_report.graph import natural
from netsim.html_report.parts import Section
from netsim.html_report.report import Point, Report, unit_of

if TYPE_CHECKING:
    import polars as pl

ORDER = 40

Floats = NDArray[np.float64]

MAX_ROWS, MAX_TIMES = 512, 400
"""Rows and intervals of a heat map; the rows with the most bytes are chosen, intervals joined."""

QUANTITIES = {
    "port": (
        ("max_queue_bytes", "largest queue (KB)", "max"),
        ("paused_ps", "share of time paused", "time"),
        ("drops", "packets dropped", "sum"),
        ("trims", "packets trimmed", "sum"),
        ("ecn_marks", "packets marked", "sum"),
    ),
    "host": (("received_bytes", "rate received (Gbit/s)", "rate"),),
    "flow": (("delivered_bytes", "rate delivered (Gbit/s)", "rate"),),
}
"""Entity -> column, title, and how intervals are joined."""


def of_point(_report: Report, point: Point) -> Iterator[Section]:
    """Yield a heat map per kind of entity that was sampled."""
    series = point.result.series
    if series is None or not len(series):
        return
    maps = [one for entity in QUANTITIES if (one := _map(point, series, entity)) is not None]
    if maps:
        text = "Click a row to see it as a line; choose what is shown above the map."
        yield Section("series", "Over time", (text,), tuple(maps))


def _map(point: Point, series: pl.DataFrame, entity: str) -> parts.Part | None:
    """Return the heat map of the entities of a kind."""
    rows = series.filter(series["entity"] == entity)
    if not len(rows):
        return None
    names, times, cells = matrices(rows, [column for column, _, _ in QUANTITIES[entity]])
    if entity == "port" and point.graph is not None:
        index = np.unique(rows["entity_index"].to_numpy()).tolist()
        names = [point.graph.link_names[k] for k in index]
    sent = cells.pop("sent_bytes")
    busiest = sorted(np.argsort(-sent.sum(axis=1), kind="stable")[:MAX_ROWS].tolist(),
                     key=lambda k: natural(names[k]))  # fmt: skip
    lengths = np.diff(times, prepend=0)
    found = {}
    if entity == "port":
        rates = _rates(point, rows)
        used = 8e12 * sent / np.maximum(rates[:, None] * lengths[None], 1)
        found[parts.USED] = 100 * used
    for column, title, how in QUANTITIES[entity]:
        if column in cells and cells[column].any():
            matrix = cells[column]
            if how == "time":
                matrix = matrix / lengths
            elif how == "rate":
                matrix = 8e3 * matrix / lengths
            found[title] = matrix / 1e3 if title.endswith("(KB)") else matrix
    step = -(-len(times) // MAX_TIMES)
    joined = {title: _joined(matrix[busiest], step) for title, matrix in found.items()}
    unit, scale = unit_of([times[-1]])
    ends = np.append(times[step - 1 : -1 : step], times[-1])[: -(-len(times) // step)] / scale
    shown = f", the {len(busiest):,} busiest of {len(names):,}" if len(busiest) < len(names) else ""
    title = f"{entity.capitalize()}s{shown}"
    return parts.heatmap(title, [names[k] for k in busiest], ends, unit, joined)


def matrices(
    rows: pl.DataFrame, columns: list[str]
) -> tuple[list[str], NDArray[np.int64], dict[str, Floats]]:
    """Return names, ends of intervals, and float64[entities, intervals] of each column.

    Ports with several classes have one row, with the sum.
    """
    index, first, place = np.unique(
        rows["entity_index"].to_numpy(), return_index=True, return_inverse=True
    )
    times, at = np.unique(rows["time_ps"].to_numpy(), return_inverse=True)
    if len(index) * len(times) > 2 * len(rows):
        raise InputError("entities have different intervals", key="series", hint=DAMAGED)
    names = [str(rows["name"][int(k)]) for k in first]
    found = {}
    for column in ("sent_bytes", *columns):
        if column in rows.columns:
            matrix = np.zeros((len(index), len(times)))
            values = rows[column].fill_null(0).to_numpy().astype(float)
            np.add.at(matrix, (place, at), values)
            found[column] = matrix
    return names, times, found


def _joined(matrix: Floats, step: int) -> Floats:
    """Return the largest of each `step` intervals."""
    if step == 1:
        return matrix
    short = -matrix.shape[1] % step
    padded = np.pad(matrix, ((0, 0), (0, short)))
    joined: Floats = padded.reshape(len(matrix), -1, step).max(axis=2)
    return joined


def _rates(point: Point, rows: pl.DataFrame) -> Floats:
    """Return the line rate of each sampled port, in the order of their numbers."""
    links = point.result.links
    rates = dict(zip(links["link"].to_list(), links["rate_bps"].to_list(), strict=True))
    index = np.unique(rows["entity_index"].to_numpy()).tolist()
    return np.array([rates.get(k, 0) for k in index], float)


def utilization_over_time(
    point: Point,
) -> tuple[Floats, str, NDArray[np.int64], Floats] | None:
    """Return times, their unit, links, and float64[links, times] of sampled ports; else None."""
    series = point.result.series
    if series is None:
        return None
    rows = series.filter(series["entity"] == "port")
    if not len(rows):
        return None
    _, times, cells = matrices(rows, [])
    index = np.unique(rows["entity_index"].to_numpy())
    lengths = np.diff(times, prepend=0)
    used = 8e12 * cells["sent_bytes"] / np.maximum(_rates(point, rows)[:, None] * lengths, 1)
    unit, scale = unit_of([times[-1]])
    step = -(-len(times) // MAX_TIMES)
    ends = np.append(times[step - 1 : -1 : step], times[-1])[: -(-len(times) // step)] / scale
    return ends, unit, index, _joined(used, step)
