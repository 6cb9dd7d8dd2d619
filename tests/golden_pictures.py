"""Descriptions of pictures: titles, labels, ticks, legends, colors, values and tables are those in
data/pictures.json.

`NETSIM_GOLDEN=write pytest FILE` rewrites a test file's descriptions; look at the diff.
"""

import json
import os
import re
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axis import Axis
from matplotlib.colors import to_hex
from matplotlib.ticker import FixedLocator

from netsim.plots.sweeps import Picture
from netsim.workloads.plots.paper_figures import PaperFigure

GOLDEN = Path(__file__).with_name("data") / "pictures.json"


def assert_golden(name: str, picture: Picture | PaperFigure) -> None:
    """Check that a picture has its golden description, or write that."""
    found = json.loads(json.dumps(described(picture)))
    golden = json.loads(GOLDEN.read_text("utf-8")) if GOLDEN.is_file() else {}
    if os.environ.get("NETSIM_GOLDEN") == "write":
        text = json.dumps(golden | {name: found}, indent=1, sort_keys=True, ensure_ascii=False)
        text = re.sub(r"\[\s+([^][{}]*?)\s+\]", lambda it: re.sub(r"\n\s*", " ", it[0]), text)
        GOLDEN.write_text(text + "\n", "utf-8")
        return
    assert found == golden[name]


def rounded(values: Any) -> list[float]:
    """Return up to five values along a curve, to four digits."""
    array = np.ma.filled(np.ma.asarray(values, float), np.nan).ravel()
    chosen = np.linspace(0, len(array) - 1, min(5, len(array))).round().astype(int)
    return [float(f"{array[k]:.4g}") for k in chosen]


def named_ticks(axis: Axis) -> list[str]:
    """Return labels that were given, not those that matplotlib chose."""
    given = isinstance(axis.get_major_locator(), FixedLocator)
    return [text.get_text() for text in axis.get_ticklabels()] if given else []


def described(picture: Picture | PaperFigure) -> dict[str, Any]:
    """Return what a reader sees."""
    figure = picture.figure
    found: dict[str, Any] = {"title": figure.get_suptitle(), "caption": figure.get_supxlabel()}
    for legend in figure.legends:
        found["legend"] = [text.get_text() for text in legend.get_texts()]
        found["caption"] = legend.get_title().get_text()
    found["panels"] = []
    for axes in figure.axes:
        legend_inside = axes.get_legend()
        panel: dict[str, Any] = {
            "title": axes.get_title(),
            "labels": [axes.get_xlabel(), axes.get_ylabel()],
            "scales": [axes.get_xscale(), axes.get_yscale()],
            "ends": [rounded(axes.get_xlim()), rounded(axes.get_ylim())],
            "ticks": [named_ticks(axis) for axis in (axes.xaxis, axes.yaxis)],
            "legend": [text.get_text() for text in legend_inside.get_texts()]
            if legend_inside
            else [],
            "texts": [text.get_text() for text in axes.texts],
            "bands": len(axes.collections),
            "bars": rounded([bar.get_width() for bar in axes.patches]),  # type: ignore[attr-defined]
            "bar colors": [to_hex(bar.get_facecolor()) for bar in axes.patches],
            "lines": [
                [
                    line.get_label() if not str(line.get_label()).startswith("_") else "",
                    f"{to_hex(line.get_color())} {line.get_linestyle()} {line.get_marker()}",
                    len(line.get_xdata()),  # type: ignore[arg-type]
                    rounded(line.get_xdata()),
                    rounded(line.get_ydata()),
                ]
                for line in axes.get_lines()
            ],
        }
        found["panels"].append(panel)
    if isinstance(picture, PaperFigure):
        found["values"] = [
            [
                value.what,
                value.paper,
                float(f"{value.ours:.6g}"),
                value.unit,
                value.bound,
                value.standing,
            ]
            for value in picture.values
        ]
    if picture.table is not None:
        found["table"] = [list(picture.table.headers), *map(list, picture.table.rows)]
        found["notes"] = list(picture.table.notes)
    return found
