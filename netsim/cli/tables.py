"""The tables that commands print."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from netsim.cli.progress import format_speed
from netsim.common.steps import format_duration
from netsim.common.terminal import (
    Column,
    Row,
    Wide,
    any_of,
    axis_columns,
    axis_text,
    count,
    done_of,
    number,
    pairs_table,
    time_columns,
    time_text,
)
from netsim.results.columns import each, metrics
from netsim.units import format_bytes

if TYPE_CHECKING:
    from rich.table import Table

    from netsim.plots import sweeps
    from netsim.running.estimate import Estimate

STATISTICS = ("mean", "p50", "p99", "max")
TIMES = (
    *(("FCT", name, f"fct_{name}_ps", rank)
      for name, rank in zip(STATISTICS, (5, 7, 0, 0), strict=True)),
    ("ideal", "max", "ideal_max_ps", 3),
    ("fair", "max", "fair_max_ps", 3),
)  # fmt: skip
"""Two lines of a title, name and rank: columns of the highest rank are left out first."""

OF_WORK = 20  # added to ranks of flow columns if job or request columns come first

SLOWDOWNS = ("slowdown_p50", "slowdown_p99", "slowdown_max")
COUNTS = ("drops", "lost", "unroutable", "trims", "ecn_marks", "retransmits", "pfc_pauses")


def result_table(row: Row, summary: Mapping[str, Any], axes: Sequence[str] = ()) -> Table:
    """Return the summary table of one point, a line for each figure."""
    return pairs_table(str(row["point"]), _lines(row, summary, axes))


def sweep_table(rows: Sequence[Row], axes: Sequence[str]) -> Wide:
    """Return the summary table of a sweep, a row for each point."""
    first = [column for more in each("first_columns") for column in more(rows)]
    columns = [Column("flows", [flows(row) for row in rows], rank=6)]
    columns += time_columns(
        (f"{what}\n{statistic}", [row.get(name) for row in rows], rank)
        for what, statistic, name, rank in TIMES
        if name != "fair_max_ps" or any_of(rows, name)
    )
    for name, title, rank in zip(SLOWDOWNS, ("p50", "p99", "max"), (9, 2, 8), strict=True):
        cells = [number(row.get(name)) for row in rows]
        columns.append(Column(f"slowdown\n{title}", cells, rank))
    for name in COUNTS:
        if name in ("drops", "trims") or any_of(rows, name):
            # Nonzero columns are dropped later.
            rank = 4 if any_of(rows, name) else 11
            columns.append(Column(name, [count(row.get(name)) for row in rows], rank))
    for more in each("sweep_columns"):
        columns += more(rows)
    columns += _titled(rows)
    speeds = [number(row.get("packet_hops_per_s"), 1e6) for row in rows]
    columns.append(Column("M packet-\nhops/s", speeds, rank=10))
    columns.append(Column("wall", [wall(row) for row in rows], rank=7))
    if first:
        columns = [replace(column, rank=column.rank + OF_WORK) for column in columns]
    status = Column("status", [str(row["status"]) for row in rows], left=True)
    columns = [*axis_columns(rows, axes), *first, *columns, status]
    return Wide(columns, elsewhere="all columns: sweep.parquet")


def class_table(
    rows: Sequence[Row], classes: Sequence[Sequence[Mapping[str, Any]]], axes: Sequence[str]
) -> Wide:
    """Return the table of flow classes (summary.json, "flow_classes") of each point."""
    points = [row for row, these in zip(rows, classes, strict=True) for _ in these]
    found = [one for these in classes for one in these]
    columns = axis_columns(points, axes)
    columns.append(Column("class", [one["flow_class"] or "-" for one in found], left=True))
    columns.append(Column("transport", [one["transport"] for one in found], left=True))
    columns.append(Column("flows", [flows(one) for one in found]))
    columns += time_columns(
        (f"FCT\n{name}", [one["fct_ps"].get(name) for one in found], rank)
        for name, rank in zip(STATISTICS, (1, 2, 0, 0), strict=True)
    )
    slowdowns = [number(one["slowdown"].get("p99")) for one in found]
    columns.append(Column("slowdown\np99", slowdowns, rank=3))
    return Wide(columns, title="By flow class", elsewhere="all columns: summary.json")


def comparison_table(compared: sweeps.Table) -> Wide:
    """Return the table of a plot that compares points."""
    columns = [
        Column(header, [row[index] for row in compared.rows], max(0, index - 2), left=index == 0)
        for index, header in enumerate(compared.headers)
    ]
    return Wide(columns, elsewhere="widen the terminal or use a pipe")


def flows(row: Row) -> str:
    """Format the number of flows without control messages, or "done/all" if some are unfinished."""
    every, done = row.get("flows"), row.get("flows_finished")
    if every is None or done is None:
        return "-"
    control = row.get("control_flows") or 0, row.get("control_flows_finished") or 0
    return done_of(done - control[1], every - control[0])


def _titled(rows: Sequence[Row]) -> Iterator[Column]:
    """Yield the columns of titled metrics that any point has."""
    for one in metrics():
        values = [row.get(one.name) for row in rows]
        if not one.title or all(value is None for value in values):
            continue
        if one.unit == "ps":
            yield from time_columns([(one.title, values, one.rank)])
            continue
        title = one.title if one.unit in ("", "1") else f"{one.title}\n{one.unit}"
        yield Column(title, [number(value) for value in values], one.rank)


def wall(row: Row) -> str:
    """Format the wall-clock time of a point."""
    seconds = row.get("wall_s")
    return "-" if seconds is None else format_duration(seconds)


def _lines(row: Row, summary: Mapping[str, Any], axes: Sequence[str]) -> list[tuple[str, str]]:
    lines = [(axis, axis_text(row.get(axis))) for axis in axes]
    lines += [("transport", str(row["transport"]))] if "transport" not in axes else []
    lines += [("status", str(row["status"])), ("flows", flows(row))]
    for title in STATISTICS:
        lines.append((f"FCT {title}", time_text(row.get(f"fct_{title}_ps"))))
    lines.append(("ideal max", time_text(row.get("ideal_max_ps"))))
    if row.get("fair_max_ps") is not None:
        lines.append(("max-min fair shares, max", time_text(row["fair_max_ps"])))
    slowdowns = " / ".join(number(row.get(name)) for name in SLOWDOWNS)
    lines.append(("slowdown p50 / p99 / max", slowdowns))
    lines += [(name, count(row.get(name))) for name in COUNTS]
    for more in each("lines"):
        lines += more(summary)
    lines.append(("simulated", time_text(row.get("simulated_ps"))))
    speed = row.get("packet_hops_per_s")
    hops = count(row.get("packet_hops"))
    lines.append(("packet-hops", f"{hops}, {format_speed(speed)}" if speed else hops))
    compiled = row.get("compile_s")
    extra = f" and {format_duration(compiled)} of compilation" if compiled else ""
    lines.append(("wall", wall(row) + extra))
    return lines


def estimate_table(names: Sequence[str], estimates: Sequence[Estimate]) -> Wide:
    """Return the table of `netsim check`."""
    columns = [Column("point", list(names), left=True)]
    cells: tuple[tuple[str, int, Callable[[Estimate], str]], ...] = (
        ("hosts", 5, lambda one: count(one.n_hosts)),
        ("switches", 7, lambda one: count(one.n_switches)),
        ("links", 6, lambda one: count(one.n_links)),
        ("flows", 4, lambda one: count(one.n_flows)),
        ("packets", 3, lambda one: count(one.packets)),
        ("packet-hops", 0, lambda one: count(one.packet_hops)),
        ("simulated", 1, lambda one: time_text(one.simulated_ps, 3)),
        ("memory", 0, lambda one: format_bytes(one.memory_bytes, 3)),
        ("wall", 0, lambda one: format_duration(one.seconds)),
    )
    for header, rank, cell in cells:
        columns.append(Column(header, [cell(one) for one in estimates], rank))
    return Wide(columns, title="Prediction", elsewhere="widen the terminal or use a pipe")
