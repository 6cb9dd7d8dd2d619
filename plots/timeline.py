"""When hosts computed, sent and received: a row for each stream of a host, one for its flows.

On a stream stands a bar for each compute task. Of a host's flows, those that it sends lie in the
upper half of the row, from their send task's start to its end; those that it receives in the
lower half, from the flow's start to the end of their receive task.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from netsim.errors import InputError
from netsim.plots import pool, style

if TYPE_CHECKING:
    import polars as pl
    from matplotlib.figure import Figure

    from netsim.results import Result

MOST_ROWS = 64
"""More cannot be told apart; the first hosts are shown."""

Bars = list[tuple[float, float]]
"""Where each begins, and how long it is."""

COMPUTE, SENT, RECEIVED = "compute", "send", "receive"
EXTENT = {COMPUTE: (-0.4, 0.8), SENT: (-0.4, 0.4), RECEIVED: (0.0, 0.4)}
"""Of a kind of bar, within its row: where it begins, from above, and its height."""


@dataclass
class Row:
    """What stands in one row, by kind."""

    name: str
    bars: dict[str, Bars] = field(default_factory=dict)


def draw(results: Sequence[Result]) -> Figure:
    """The timeline of one run. Raises InputError if there are several, or it has no tasks."""
    if len(results) != 1:
        raise InputError(f"{len(results)} results", hint="a timeline is of one")
    (result,) = results
    if result.tasks is None:
        raise InputError("the result has no tasks", file=str(result.path))
    found = rows(result.tasks, result.flows)
    if not found:
        raise InputError("no task is done", file=str(result.path))
    shown = found[:MOST_ROWS]
    unit, scale = style.time_unit([result.summary["makespan_ps"]])
    figure, (axes,) = style.new_figure()
    figure.set_figheight(1.5 + 0.22 * max(8, len(shown)))
    for index, (kind, (top, height)) in enumerate(EXTENT.items()):
        label = kind
        for place, row in enumerate(shown):
            bars = [(start / scale, length / scale) for start, length in row.bars.get(kind, [])]
            if bars:
                axes.broken_barh(
                    bars, (place + top, height), color=style.colour(index), label=label, linewidth=0
                )
                label = "_"
    axes.set_yticks(range(len(shown)), [row.name for row in shown])
    axes.set_ylim(len(shown) - 0.4, -0.6)
    axes.set_xlabel(f"time ({unit})")
    figure.suptitle(pool.title([result]), fontsize="medium")
    left_out = len(found) - len(shown)
    caption = f"{left_out} more rows are not shown" if left_out else ""
    style.legend(figure, axes, style.OUTSIDE, caption)
    return figure


def rows(tasks: pl.DataFrame, flows: pl.DataFrame) -> list[Row]:
    """The rows, host by host: its streams, then its flows. Only what is done has a bar."""
    import polars as pl

    starts = flows.select("flow", pl.col("start_ps").alias("flow_start_ps"))
    done = tasks.filter(pl.col("end_ps").is_not_null() & (pl.col("kind") != "join"))
    begin = pl.when(pl.col("kind") == RECEIVED).then("flow_start_ps").otherwise("start_ps")
    bars = (
        done.join(starts, on="flow", how="left", maintain_order="left")
        .with_columns(begin.alias("begin_ps"), pl.col("kind").cast(pl.String))
        .sort("host", "stream", "task", nulls_last=True)
    )
    found: dict[tuple[int, int | None], Row] = {}
    for one in bars.iter_rows(named=True):
        key = one["host"], one["stream"]
        what = "flows" if one["stream"] is None else f"stream {one['stream']}"
        row = found.setdefault(key, Row(f"h{one['host']} {what}"))
        length = one["end_ps"] - one["begin_ps"]
        row.bars.setdefault(one["kind"], []).append((one["begin_ps"], length))
    return list(found.values())
