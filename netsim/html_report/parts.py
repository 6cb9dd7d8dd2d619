"""Parts of a section: plain data that `static/report.js` draws.

Each function returns a JSON object with its `kind`. Arrays become base64 of little-endian numbers.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from netsim.frozen import frozen
from netsim.plots.style import CurveStyle

Part = dict[str, Any]

DASHES: dict[str, list[int]] = {"-": [], "--": [6, 4], ":": [2, 3], "-.": [6, 3, 2, 3]}
"""Lines of matplotlib as dashes and gaps in pixels."""

USED = "utilization (%)"  # its colors are absolute: the darkest means a full link
MAX_ROWS = 200  # most rows of a table, in the order given


@frozen
class Section:
    """A section of the page: an anchor, a title, sentences, and parts below them."""

    key: str
    title: str
    text: tuple[str, ...] = ()
    parts: tuple[Part, ...] = ()
    order: int = 0  # position, unless its file's


def array(values: ArrayLike, kind: str = "f4") -> Part:
    """Return numbers as base64: `kind` is f4 (default), u1, u2, i4 or f8."""
    packed = np.ascontiguousarray(values, dtype=f"<{kind}").tobytes()
    return {"array": kind, "data": b64encode(packed).decode("ascii")}


def tiles(values: Iterable[tuple[str, str, str]]) -> Part:
    """Return large numbers: (name, value, note) each."""
    return {"kind": "tiles", "tiles": [list(one) for one in values]}


def line(
    name: str,
    x: ArrayLike,
    y: ArrayLike,
    look: CurveStyle,
    *,
    steps: bool = False,
    dots: bool = False,
) -> Part:
    """Return a line of a chart, in the style that it has on plots; x increases."""
    return {
        "name": name, "x": array(x), "y": array(y), "color": look.color,
        "dash": DASHES[look.line], "steps": steps, "dots": dots,
    }  # fmt: skip


def chart(
    title: str, x: str, y: str, lines: Sequence[Part], *, log: str = "", names: Sequence[str] = ()
) -> Part:
    """Return a chart with axes titled `x` and `y`; `log` has the letters of logarithmic axes. With
    `names`, x counts these names from 0."""
    return {
        "kind": "chart", "title": title, "x": x, "y": y, "lines": list(lines), "log": log,
        "names": list(names),
    }  # fmt: skip


def grid(parts: Sequence[Part]) -> Part:
    """Return parts side by side."""
    return {"kind": "grid", "parts": list(parts)}


def table(
    columns: Sequence[str], rows: Sequence[Sequence[Any]], *, links: Sequence[int] = ()
) -> Part:
    """Return a table that can be sorted; cells are texts or numbers. `links` are lines of the
    network drawing that the rows mark when clicked, -1 for none."""
    cells = [[_cell(one) for one in row] for row in rows[:MAX_ROWS]]
    return {"kind": "table", "columns": list(columns), "rows": cells,
            "all": len(rows), "links": list(links)}  # fmt: skip


def _cell(value: Any) -> Any:
    value = value.item() if isinstance(value, np.generic) else value
    if isinstance(value, float):
        return round(value, 6) if np.isfinite(value) else None
    return value if value is None or isinstance(value, int) else str(value)


def heatmap(
    title: str, rows: Sequence[str], times: ArrayLike, unit: str, values: Mapping[str, NDArray[Any]]
) -> Part:
    """Return rows against time: `values` are float[rows, times] by the name of a quantity. `times`
    (in `unit`) are the ends of the intervals, the first of which begins at 0."""
    levels = {}
    for name, matrix in values.items():
        top = 100.0 if name == USED else float(np.nanmax(matrix, initial=0)) or 1.0
        scaled = np.nan_to_num(matrix) / top * 255
        # Keep all values above zero visible.
        shown = np.where((scaled > 0) & (scaled < 1), 1, np.round(scaled))
        levels[name] = {"top": top, "cells": array(shown, "u1")}
    return {"kind": "heatmap", "title": title, "rows": list(rows), "times": array(times, "f8"),
            "unit": unit, "values": levels}  # fmt: skip


def tree(roots: Sequence[Mapping[str, Any]]) -> Part:
    """Return a tree: nodes with `text`, `share` (0 to 1, of a bar) and `children`."""
    return {"kind": "tree", "roots": list(roots)}


def bars(categories: Sequence[tuple[str, str]], unit: str, rows: Sequence[Part]) -> Part:
    """Return a stacked bar per row: (category, color) each, and rows of `bar_row`."""
    return {"kind": "bars", "categories": [list(one) for one in categories], "unit": unit,
            "rows": list(rows)}  # fmt: skip


def bar_row(title: str, values: Sequence[float], text: Sequence[str]) -> Part:
    """Return a row of `bars`: a value per category, and sentences below."""
    return {"title": title, "values": [round(float(one), 6) for one in values], "text": list(text)}


def code(title: str, text: str) -> Part:
    """Return text in a fixed-width font, with a button that copies it."""
    return {"kind": "code", "title": title, "text": text}
