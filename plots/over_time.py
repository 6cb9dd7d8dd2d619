"""Pictures over time: sampled series of a run, and the packets of a flow.

For a run: queues with their maxima as a band, rates, and flow state. For a flow: its packets by
number (sent, received, dropped, marked), its state and round trips, the highest-tier switch that
each data packet crossed, and the bytes ahead of the packet at each hop.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import polars as pl

from netsim.errors import InputError
from netsim.plots import style
from netsim.plots.sweeps import Picture

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from netsim.results import Result
    from netsim.tracing import FlowTrace

PLOTS = {"timeseries": "queues, rates and state over time, of a run with [outputs] sample_interval"}

MAX_CURVES = 6  # maximum number of curves on a panel


def timeseries(results: Sequence[Result]) -> Picture:
    """Draw a panel each for queues, rates of ports, hosts and flows, and each field.

    Only the fullest queues and the highest rates of ports and hosts are drawn, and flows that did
    not finish or finished last. Raises InputError for several results, or one without series.
    """
    if len(results) != 1:
        raise InputError(
            f"a plot of series shows one result, not {len(results)}",
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
    return Picture(figure)


def _panels(
    series: pl.DataFrame, flows_table: pl.DataFrame
) -> list[tuple[str, pl.DataFrame, str, str]]:
    """Return the panels: axis label, rows with names of curves, column, column of the band. Rows of
    flows have `end_ps`, the time of their end, null for unfinished ones."""

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
    """Draw a panel's curves, at most `MAX_CURVES`, with one step per interval.

    If there are more, it keeps the curves that end last or reach the highest values."""
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


OUTCOMES = {
    "drop": ("dropped", "x", style.VERMILION),
    "lost": ("lost on the wire", "X", style.VERMILION),
    "trim": ("trimmed", "v", style.PINK),
    "mark": ("marked", "^", style.ORANGE),
}
"""Event -> (label, marker, color)."""

DATA = ("DATA", "TRIMMED")
MAX_STATE_PANELS = 4
MAX_NAMED = 30  # maximum number of switches named on the axis of paths


def traced_flow(trace: FlowTrace, events: pl.DataFrame, state: Sequence[str]) -> Figure:
    """Draw the panels of a trace for some events and state columns. Raises InputError if no packet
    was sent."""
    packets = events.filter(pl.col("seq").is_not_null())
    if not len(packets):
        raise InputError("no packet was sent: nothing to plot")
    unit, scale = style.time_unit([float(events["time_ps"][-1])])
    groups = _groups(events, state)
    panels: list[tuple[float, Any, tuple[Any, ...]]] = [(2.2, _sequence, (events, scale))]
    panels += [(1.0, _state, (events, group, scale)) for group in groups]
    if packets["rtt_ps"].drop_nulls().len():
        panels.append((1.2, _round_trips, (packets, scale)))
    panels.append((1.2, _paths, (packets, scale)))
    panels.append((1.2, _queues, (packets, scale)))
    figure, column = style.new_column([1.35 * height for height, *_ in panels])
    for axes, (_, paint, arguments) in zip(column, panels, strict=True):
        paint(axes, *arguments)
        style.legend_beside(axes, markerscale=2)
    column[-1].set_xlabel(f"time ({unit})")
    figure.suptitle(
        f"{trace.point}, flow {trace.flow} ({trace.transport}): {trace.src} to {trace.dst}",
        fontsize="medium",
    )
    return figure


def _points(
    axes: Axes, rows: pl.DataFrame, y: str, scale: float, y_scale: float = 1.0, **options: Any
) -> None:
    """Draw a dot per row, at most a few thousand."""
    chosen = style.thin(len(rows)) if options.pop("thin", True) else slice(None)
    times = rows["time_ps"].to_numpy()[chosen] / scale
    axes.plot(times, rows[y].to_numpy()[chosen] / y_scale, linestyle="none", **options)


def _sequence(axes: Axes, events: pl.DataFrame, scale: float) -> None:
    data = events.filter(pl.col("kind").is_in(DATA))
    sent = data.filter(pl.col("event") == "send")
    first, again = sent.filter(~pl.col("is_retransmit")), sent.filter(pl.col("is_retransmit"))
    received = data.filter((pl.col("event") == "receive") & (pl.col("kind") == "DATA"))
    dot: dict[str, Any] = {"marker": ".", "markersize": 2}
    _points(axes, first, "seq", scale, color=style.color(0), label="sent", **dot)
    if len(again):
        _points(
            axes, again, "seq", scale, color=style.color(6), label="retransmitted", thin=False,
            marker="+", markersize=5,
        )  # fmt: skip
    _points(axes, received, "seq", scale, color=style.color(2), label="received", **dot)
    for event, (label, marker, color) in OUTCOMES.items():
        found = data.filter(pl.col("event") == event)
        if len(found):
            _points(
                axes, found, "seq", scale, color=color, label=label, thin=False, marker=marker,
                markersize=4,
            )  # fmt: skip
    for index, (since, until) in enumerate(_pauses(events)):
        label = "paused by PFC" if index == 0 else ""
        axes.axvspan(since / scale, until / scale, color=style.IDEAL, alpha=0.15, lw=0, label=label)
    axes.set_ylabel("packet number")


def _pauses(events: pl.DataFrame) -> list[tuple[int, int]]:
    """Return the intervals in which the sender's NIC was paused."""
    spans, since = [], None
    changes = events.filter(pl.col("event").is_in(["pause", "resume"]))
    for time, event in changes.select("time_ps", "event").iter_rows():
        if event == "pause" and since is None:
            since = time
        elif event == "resume" and since is not None:
            spans.append((since, time))
            since = None
    return spans if since is None else [*spans, (since, int(events["time_ps"][-1]))]


def _groups(events: pl.DataFrame, state: Sequence[str]) -> list[list[str]]:
    """Group state columns of one unit and similar magnitude into panels."""
    groups: dict[tuple[str, int], list[str]] = {}
    for name in state:
        values = events[name].drop_nulls()
        if not len(values) or (len(state) > 1 and ((values == 0) | (values == 1)).all()):
            continue  # a flag
        unit = next((u for u in ("_ps", "_bytes", "_bps") if name.endswith(u)), "")
        extremes: list[Any] = [values.min(), values.max()]
        largest = max(*(abs(float(value)) for value in extremes), 1.0)
        groups.setdefault((unit, round(math.log10(largest)) // 2), []).append(name)
    return list(groups.values())[:MAX_STATE_PANELS]


def _state(axes: Axes, events: pl.DataFrame, names: Sequence[str], scale: float) -> None:
    for index, name in enumerate(names):
        rows = events.select("time_ps", name).drop_nulls()
        chosen = style.thin(len(rows))
        times = rows["time_ps"].to_numpy()[chosen] / scale
        axes.step(
            times, rows[name].to_numpy()[chosen], where="post", color=style.color(index),
            linewidth=1, label=name,
        )  # fmt: skip
    axes.set_ylabel("state")


def _round_trips(axes: Axes, packets: pl.DataFrame, scale: float) -> None:
    rows = packets.drop_nulls("rtt_ps")
    longest: Any = rows["rtt_ps"].max()
    unit, size = style.time_unit([float(longest)])
    _points(axes, rows, "rtt_ps", scale, size, marker=".", markersize=2, color=style.color(0))
    axes.set_ylim(bottom=0)
    axes.set_ylabel(f"round trip ({unit})")


def _paths(axes: Axes, packets: pl.DataFrame, scale: float) -> None:
    """Draw the middle switch of each data packet's path."""
    crossed = packets.filter(pl.col("kind").is_in(DATA) & (pl.col("event") == "forward"))
    crossed = crossed.drop_nulls("packet")
    middle = pl.col("hops") == (pl.col("hops").max().over("packet") + 2) // 2
    crossed = crossed.filter(middle)
    switches = crossed.select("node", "node_name").unique().sort("node")
    place = {node: index for index, node in enumerate(switches["node"])}
    rows = crossed.with_columns(pl.col("node").replace_strict(place, default=0).alias("place"))
    _points(axes, rows, "place", scale, marker="|", markersize=4, color=style.color(3))
    axes.set_ylabel("path through")
    if 0 < len(switches) <= MAX_NAMED:
        labels = switches["node_name"].to_list()
        step = 1 + len(labels) // 9
        axes.set_yticks(range(0, len(labels), step), labels[::step], fontsize="x-small")
        axes.set_ylim(-0.5, len(labels) - 0.5)


def _queues(axes: Axes, packets: pl.DataFrame, scale: float) -> None:
    found = packets.filter(pl.col("kind").is_in(DATA) & (pl.col("event") == "arrive"))
    for index, ((hop,), rows) in enumerate(
        sorted(found.group_by("hops", maintain_order=True), key=lambda group: group[0])
    ):
        _points(
            axes, rows, "queue_bytes", scale, 1e3, marker=".", markersize=2,
            color=style.color(index), label=f"hop {hop}",
        )  # fmt: skip
    axes.set_ylim(bottom=0)
    axes.set_ylabel("queue ahead (KB)")
