"""One flow over time: packets, state, round trips, paths and queues.

Packets are drawn at their number: sent, received, dropped, marked. The panel of paths shows the
switch of the highest tier that each data packet crossed; the one of queues the bytes ahead of it
at each hop.
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

    from netsim.tracing import FlowTrace

OUTCOMES = {
    "drop": ("dropped", "x", "#D55E00"),
    "lost": ("lost on the wire", "X", "#D55E00"),
    "trim": ("trimmed", "v", "#CC79A7"),
    "mark": ("marked", "^", "#E69F00"),
}
"""Event -> (label, marker, color)."""

DATA = ("DATA", "TRIMMED")
MAX_STATE_PANELS = 4
MAX_NAMED = 30
"""Maximum number of switches named on the axis of paths."""


def draw(trace: FlowTrace, events: pl.DataFrame, state: Sequence[str]) -> Figure:
    """Draw the panels of a trace for some events and state columns.

    Raises InputError if no packet was sent.
    """
    import polars as pl

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
    import polars as pl

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
    import polars as pl

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
    import math

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
    import polars as pl

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
    import polars as pl

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
