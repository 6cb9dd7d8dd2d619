"""What the figures share: size, colours, labels, units of time, and how one is saved.

Figures are made without pyplot: no window, no global state, and nothing to be closed.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from netsim.errors import InputError

if TYPE_CHECKING:
    import numpy as np
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from netsim.results import Result

# Okabe and Ito's colours, which those who do not tell red from green can tell apart.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
IDEAL = "#888888"
MAX_POINTS = 4000
MAX_LEGEND_INSIDE = 8
OUTSIDE = "outside right upper"
TIME_UNITS = (("ps", 1.0), ("ns", 1e3), ("µs", 1e6), ("ms", 1e9), ("s", 1e12))


def new_figure(columns: int = 1) -> tuple[Figure, list[Axes]]:
    """An empty figure with `columns` panels side by side."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.4 if columns == 1 else 5.2 * columns, 4.2), layout="constrained")
    panels = figure.subplots(1, columns, squeeze=False)[0]
    for axes in panels:
        axes.grid(alpha=0.25, linewidth=0.6)
        axes.spines[["top", "right"]].set_visible(False)
    return figure, list(panels)


def colour(index: int) -> str:
    """The colour of the curve number `index`."""
    return COLOURS[index % len(COLOURS)]


def labels(results: Sequence[Result]) -> list[str]:
    """A label for each result: what sets it apart from the others, else its transport."""
    axes = list(dict.fromkeys(axis for result in results for axis in result.experiment["axes"]))
    texts = []
    for result in results:
        values = result.experiment["axes"]
        parts = [
            str(values[axis]) if axis == "transport" else f"{axis.split('.')[-1]} {values[axis]}"
            for axis in axes
            if axis in values
        ]
        text = ", ".join(parts) or transport(result)
        texts.append(text if result.complete else f"{text} (partial)")
    return texts


def title(results: Sequence[Result]) -> str:
    """The name of the experiment, with the transport if there is only one result."""
    name = str(results[0].experiment["resolved"].get("name", results[0].name))
    return f"{name}: {transport(results[0])}" if len(results) == 1 else name


def transport(result: Result) -> str:
    """The name of the transport of a result."""
    for plugin in result.experiment["plugins"]:
        if plugin["kind"] == "transport":
            return str(plugin["name"])
    return ""


def time_unit(times_ps: Iterable[float]) -> tuple[str, float]:
    """The unit, and its picoseconds, in which the largest of some times is 1 to 1000."""
    largest = max(times_ps, default=0.0)
    fitting = [unit for unit in TIME_UNITS if unit[1] <= largest]
    return fitting[-1] if fitting else TIME_UNITS[0]


def thin(count: int) -> np.ndarray:
    """Indices, the first and the last among them, that stand for `count` sorted values.

    A curve of a million points is no sharper on paper than one of a few thousand.
    """
    import numpy as np

    if count <= MAX_POINTS:
        return np.arange(count)
    return np.unique(np.linspace(0, count - 1, MAX_POINTS).round().astype(np.int64))


def legend(figure: Figure, axes: Axes, loc: str) -> None:
    """The legend of `axes`: at `loc` inside if it is short, else beside all panels."""
    handles, texts = axes.get_legend_handles_labels()
    inside = len(texts) <= MAX_LEGEND_INSIDE and loc != OUTSIDE
    look: dict[str, Any] = {"frameon": False, "fontsize": "small"}
    look["loc"] = loc if inside else OUTSIDE
    (axes if inside else figure).legend(handles, texts, **look)


def save(figure: Figure, path: Path) -> Path:
    """Write `figure` to `path`, whose ending chooses the format. Returns the path.

    Raises InputError if that format is not known or the file cannot be written.
    """
    known = figure.canvas.get_supported_filetypes()
    ending = path.suffix.lstrip(".").lower()
    if ending not in known:
        raise InputError(
            f'"{path.suffix}" is no format for figures', file=str(path), hint="use .png"
        )
    scratch = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        figure.savefig(scratch, format=ending, dpi=150)
        os.replace(scratch, path)
    except OSError as error:
        raise InputError(f"cannot be written: {error.strerror}", file=str(path)) from error
    finally:
        scratch.unlink(missing_ok=True)
    return path
