"""Time series: queues with their maxima as a band, rates, and state of flows.

Only the fullest queues and the highest rates of ports and hosts are drawn, and of flows those that
did not finish and then those that finished last.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from netsim.errors import InputError
from netsim.plots import style

if TYPE_CHECKING:
    import polars as pl
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from netsim.results import Result

PLOT = "queues, rates and state over time, of a run with [outputs] sample_interval"

MAX_CURVES = 6
"""Maximum number of curves on a panel."""


def draw(results: Sequence[Result]) -> Figure:
    """Draw a panel each for queues, rates of ports, hosts and flows, and each field.

    Raises InputError for several results, or one without series.
    """
    if len(results) != 1:
        raise InputError(
            f"{len(results)} results exceed the one that a plot of series shows",
            hint="name the directory of one point",
        )
    (result,) = results
    series = result.series
    if series is None or not len(series):
        raise InputError(
            "the result has no series",
            file=str(result.path),
            hint='set sample_interval = "10us" in [outputs] and run again',
        )
    panels = _panels(series, result.flows)
    unit, scale = style.time_unit([float(series["time_ps"].to_numpy().max())])
    figure, column = style.new_column([2.0] * len(panels))
    for axes, (label, rows, name, band) in zip(column, panels, strict=True):
        _curves(axes, rows, name, band, scale)
        axes.set_ylabel(label)
        style.legend_beside(axes)
    column[-1].set_xlabel(f"time ({unit})")
    figure.suptitle(f"{result.name}: {result.summary['series']['said']}", fontsize="medium")
    return figure


def _panels(
    series: pl.DataFrame, flows_table: pl.DataFrame
) -> list[tuple[str, pl.DataFrame, str, str]]:
    """Return the panels: axis label, rows with names of curves, column, column of the band.

    Rows of flows have `end_ps`, the time of their end, null for unfinished ones.
    """
    import polars as pl

    def rows(what: str) -> pl.DataFrame:
        found = series.filter(pl.col("entity") == what).with_columns(
            pl.col("name").cast(pl.String).alias("curve"),
            *(
                (8e3 * pl.col(column) / pl.col("interval_ps")).alias(f"{column}_gbps")
                for column in ("sent_bytes", "delivered_bytes")
            ),
        )
        if what == "port":
            name = pl.format("{} class {}", "curve", "traffic_class")
            several = found["traffic_class"].n_unique() > 1
            found = found.with_columns(name.alias("curve")) if several else found
        return found.with_columns(
            (pl.col("mean_queue_bytes") / 1e3).alias("mean_kb"),
            (pl.col("max_queue_bytes") / 1e3).alias("max_kb"),
        )

    ports, hosts, flows = rows("port"), rows("host"), rows("flow")
    ends = flows_table.select(
        pl.col("flow").alias("entity_index").cast(flows["entity_index"].dtype),
        (pl.col("start_ps") + pl.col("fct_ps")).alias("end_ps"),
    )
    flows = flows.join(ends, on="entity_index", how="left")
    panels = [
        ("queue (KB), band: maximum", ports, "mean_kb", "max_kb"),
        ("port sends (Gbps)", ports, "sent_bytes_gbps", ""),
        ("host receives (Gbps)", hosts, "delivered_bytes_gbps", ""),
        ("flow delivers (Gbps)", flows, "delivered_bytes_gbps", ""),
    ]
    panels += [(name, flows, name, "") for name in series.columns if "." in name]
    return [panel for panel in panels if len(panel[1])]


def _curves(axes: Axes, rows: pl.DataFrame, name: str, band: str, scale: float) -> None:
    """Draw some curves of a panel in the order of their numbers, a step per interval: those that
    end last, or with the highest values."""
    import polars as pl

    ranked = rows.group_by("curve").agg(
        pl.col("end_ps" if "end_ps" in rows.columns else band or name).max().alias("most"),
        pl.col("entity_index").first(),
    )
    ranked = ranked.sort("most", "entity_index", descending=[True, False], nulls_last=False)
    chosen = ranked.head(MAX_CURVES).sort("entity_index", "curve")["curve"]
    for index, curve in enumerate(chosen):
        these = rows.filter(pl.col("curve") == curve).sort("time_ps")
        keep = style.thin(len(these))
        begins = (these["time_ps"] - these["interval_ps"]).to_numpy()[keep] / scale
        options: dict[str, Any] = {"color": style.color(index)}
        axes.step(begins, these[name].to_numpy()[keep], where="post", lw=1, label=curve, **options)
        if band:
            top = these[band].to_numpy()[keep]
            axes.fill_between(begins, top, step="post", alpha=0.15, lw=0, **options)
    axes.set_ylim(bottom=min(0.0, axes.get_ylim()[0]))
