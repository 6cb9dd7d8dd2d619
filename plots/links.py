"""How busy the links were, and how long their queues grew, by the stage of the network.

A stage is all links from one kind of node to another ("leaf to spine"), told by the nodes' names
without their numbers. Within a stage the links stand in order, the busiest first: a flat curve is
a balanced load, a steep one a few hot links.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from netsim.errors import InputError
from netsim.plots import style

if TYPE_CHECKING:
    import polars as pl
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from netsim.results import Result

LINES = ("-", "--", ":", "-.")
"""One style of line for each result; the colour tells the stage."""


def draw(results: Sequence[Result]) -> Figure:
    """Utilisation (left) and largest queue (right) of every link of each result.

    Raises InputError if the results have no links, or if there are more than four of them.
    """
    if len(results) > len(LINES):
        raise InputError(
            f"{len(results)} results on one figure of links cannot be told apart",
            hint="give the directory of one point",
        )
    figure, (left, right) = style.new_figure(columns=2)
    names = style.labels(results) if len(results) > 1 else [""]
    for result, name, line in zip(results, names, LINES, strict=False):
        _draw_result(left, right, result, name, line)
    left.set_ylabel("utilisation")
    left.set_ylim(0, 1.05)
    right.set_ylabel("largest queue (kB)")
    right.set_ylim(bottom=0)
    for axes in (left, right):
        axes.set_xlabel("share of the stage's links, highest first")
    figure.suptitle(style.title(results), fontsize="medium")
    style.legend(figure, right, style.OUTSIDE)
    return figure


def stages(links: pl.DataFrame) -> pl.DataFrame:
    """One row per link (its classes added up) with columns stage, utilisation and queue_bytes."""
    import polars as pl

    kinds = [
        pl.col(column).cast(pl.String).str.replace_all(r"[\s\d_.:\-/\[\]]+", "").alias(column)
        for column in ("from_name", "to_name")
    ]
    return (
        links.with_columns(kinds)
        .group_by("link", maintain_order=True)
        .agg(
            pl.col("from_name", "to_name").first(),
            pl.col("utilisation").sum(),
            pl.col("max_queue_bytes").sum().alias("queue_bytes"),
        )
        .with_columns(pl.format("{} to {}", "from_name", "to_name").alias("stage"))
    )


def _draw_result(left: Axes, right: Axes, result: Result, name: str, line: str) -> None:
    if not len(result.links):
        raise InputError("the result has no links", file=str(result.path))
    groups = stages(result.links).partition_by("stage", maintain_order=True)
    for index, group in enumerate(groups):
        stage = group["stage"][0]
        label = f"{stage}, {name}" if name else stage
        for axes, column, scale in ((left, "utilisation", 1.0), (right, "queue_bytes", 1e3)):
            values = group[column].sort(descending=True).to_numpy() / scale
            chosen = style.thin(len(values))
            share = chosen / max(1, len(values) - 1)
            axes.plot(share, values[chosen], line, color=style.colour(index), label=label)
