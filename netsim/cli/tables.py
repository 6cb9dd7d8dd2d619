"""The tables that commands print."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from netsim.cli.progress import format_duration, format_speed
from netsim.cli.wide import Column, Wide, plain_table
from netsim.units import format_bytes, format_number, format_time, written

if TYPE_CHECKING:
    from rich.table import Table

    from netsim.plots import sweeps
    from netsim.running.estimate import Estimate

STATISTICS = ("mean", "p50", "p99", "max")
TIMES = (*(f"fct_{name}_ps" for name in STATISTICS), "ideal_max_ps", "fair_max_ps")
TIME_TITLES = (*(f"FCT {name}" for name in STATISTICS), "ideal max", "fair max")
TIME_RANKS = (1, 7, 0, 0, 6, 5)
"""The sooner a column is left out for want of room, the higher its rank."""

SLOWDOWNS = ("slowdown_p50", "slowdown_p99", "slowdown_max")
COUNTS = ("drops", "lost", "unroutable", "trims", "ecn_marks", "retransmits", "pfc_pauses")
FAULTS = {"down": "outages", "rate": "other rates", "loss": "losses", "reroute": "new routes"}
"""What happened to links and routes ("faults" of the summary), and how it is told."""

UNITS = (("ps", 1), ("ns", 10**3), ("us", 10**6), ("ms", 10**9), ("s", 10**12))

Row = Mapping[str, Any]


def result_table(row: Row, summary: Mapping[str, Any], axes: Sequence[str] = ()) -> Table:
    """The figures of one point, one below the other; `summary` is that of its result."""
    from rich.text import Text

    table = plain_table("", "", title=str(row["point"]))
    table.show_header = False
    for name, value in _lines(row, summary, axes):
        table.add_row(name, Text(value))
    return table


def sweep_table(rows: Sequence[Row], axes: Sequence[str]) -> Wide:
    """The figures of the points of a sweep, one row for each."""
    unit, scale = common_unit([row.get(name) for row in rows for name in TIMES])
    columns = axis_columns(rows, axes)
    columns.append(Column("flows", [flows(row) for row in rows], rank=3))
    for name, title, rank in zip(TIMES, TIME_TITLES, TIME_RANKS, strict=True):
        if name == "fair_max_ps" and not any_of(rows, name):
            continue
        cells = [number(row.get(name), scale) for row in rows]
        columns.append(Column(f"{title}\n{unit}", cells, rank=rank))
    for name, title, rank in zip(SLOWDOWNS, ("p50", "p99", "max"), (9, 2, 8), strict=True):
        cells = [number(row.get(name)) for row in rows]
        columns.append(Column(f"slowdown\n{title}", cells, rank=rank))
    for name in COUNTS:
        if name in ("drops", "trims") or any_of(rows, name):
            # What happened is kept for longer than what did not.
            rank = 4 if any_of(rows, name) else 11
            columns.append(Column(name, [count(row.get(name)) for row in rows], rank=rank))
    if any_of(rows, "silent_flows"):
        unit, scale = common_unit([row.get("recovery_max_ps") for row in rows])
        columns.append(Column("silent\nflows", [count(row.get("silent_flows")) for row in rows], 4))
        for name, title in (("recovery_p50_ps", "p50"), ("recovery_max_ps", "max")):
            cells = [number(row.get(name), scale) for row in rows]
            columns.append(Column(f"recovery\n{title} {unit}", cells, rank=3))
    if any_of(rows, "step_ps"):
        unit, scale = common_unit([row.get("step_ps") for row in rows])
        columns.append(Column(f"step\n{unit}", [number(row.get("step_ps"), scale) for row in rows]))
        for name in ("mfu", "exposed", "bubble", "skew"):
            cells = [number(row.get(name)) for row in rows]
            columns.append(Column(name, cells, rank=2 if any_of(rows, name) else 12))
    columns += _serving_columns(rows)
    if any_of(rows, "circuit_duty_cycle"):
        columns.append(
            Column("duty\ncycle", [number(row.get("circuit_duty_cycle")) for row in rows], rank=6)
        )
        columns.append(
            Column(
                "no circuit\ndrops", [count(row.get("no_circuit_drops")) for row in rows], rank=4
            )
        )
    speeds = [number(row.get("packet_hops_per_s"), 1e6) for row in rows]
    columns.append(Column("M packet-\nhops/s", speeds, rank=10))
    columns.append(Column("wall", [wall(row) for row in rows], rank=5))
    columns.append(Column("status", [str(row["status"]) for row in rows], rank=0, left=True))
    return Wide(columns, elsewhere="sweep.parquet has all")


def _serving_columns(rows: Sequence[Row]) -> Iterator[Column]:
    """Columns of the table of a sweep, if any of its points served requests."""
    if not any_of(rows, "requests_per_s"):
        return
    for name, title, rank in (
        ("offered_per_s", "offered\n1/s", 4),
        ("tokens_per_s", "tokens\n1/s", 5),
        ("goodput_per_s", "goodput\n1/s", 0),
    ):
        yield Column(title, [number(row.get(name)) for row in rows], rank)
    shares = [
        None if row.get("slo_attainment") is None else 100 * row["slo_attainment"] for row in rows
    ]
    yield Column("met\n%", [number(share) for share in shares], 0)
    if any_of(rows, "stalled"):
        yield Column("stalled", [count(row.get("stalled")) for row in rows], 0)
    for what, title, statistics in (
        ("ttft", "TTFT", (("p50", 3), ("p99", 0))),
        ("second_token", "first gap", (("p99", 0),)),
        ("tbt", "TBT", (("p50", 3), ("p99", 0), ("max", 2))),
    ):
        unit, scale = common_unit([row.get(f"{what}_p99_ps") for row in rows])
        for statistic, rank in statistics:
            cells = [number(row.get(f"{what}_{statistic}_ps"), scale) for row in rows]
            yield Column(f"{title} {statistic}\n{unit}", cells, rank)


def axis_columns(rows: Sequence[Row], axes: Sequence[str]) -> list[Column]:
    """A column for each axis, under its last word."""
    return [
        Column(axis.rpartition(".")[2], [_axis(row.get(axis)) for row in rows], left=True)
        for axis in axes
    ]


def class_table(
    rows: Sequence[Row], classes: Sequence[Sequence[Mapping[str, Any]]], axes: Sequence[str]
) -> Wide:
    """The figures of each flow class (summary.json, "flow_classes") of each point."""
    points = [row for row, these in zip(rows, classes, strict=True) for _ in these]
    found = [one for these in classes for one in these]
    times = [[one["fct_ps"].get(name) for one in found] for name in STATISTICS]
    unit, scale = common_unit([time for these in times for time in these])
    columns = axis_columns(points, axes)
    columns.append(Column("class", [one["flow_class"] or "-" for one in found], left=True))
    columns.append(Column("transport", [one["transport"] for one in found], left=True))
    columns.append(Column("flows", [flows(one) for one in found]))
    for name, these, rank in zip(STATISTICS, times, (1, 2, 0, 0), strict=True):
        columns.append(Column(f"FCT {name}\n{unit}", [number(t, scale) for t in these], rank))
    slowdowns = [number(one["slowdown"].get("p99")) for one in found]
    columns.append(Column("slowdown\np99", slowdowns, rank=3))
    return Wide(columns, title="By flow class", elsewhere="summary.json has all")


def comparison_table(compared: sweeps.Table) -> Wide:
    """The table of a figure that compares the points of a sweep."""
    columns = [
        Column(header, [row[index] for row in compared.rows], max(0, index - 2), left=index == 0)
        for index, header in enumerate(compared.headers)
    ]
    return Wide(columns, elsewhere="a wider terminal or a pipe shows them")


def common_unit(times_ps: Sequence[float | None]) -> tuple[str, int]:
    """The unit of time, and its picoseconds, in which the largest of some times is 1 to 1000."""
    largest = max((time for time in times_ps if time is not None), default=0)
    fitting = [unit for unit in UNITS if unit[1] <= largest]
    return fitting[-1] if fitting else UNITS[0]


def any_of(rows: Sequence[Row], name: str) -> bool:
    """Whether a counter is above zero in any row."""
    return any(row.get(name) for row in rows)


def number(value: float | None, scale: float = 1) -> str:
    """A number with four significant digits, never as 1e+03; a dash if there is none."""
    if value is None or math.isnan(value):
        return "-"
    return format_number(value / scale)


def count(value: int | None) -> str:
    """A counter with its thousands set apart."""
    return "-" if value is None else f"{value:,}"


def flows(row: Row) -> str:
    """Flows of a point: the number of them, or "done/all" where some are unfinished."""
    done, total = row.get("flows_finished"), row.get("flows")
    if done is None or total is None:
        return "-"
    return f"{total:,}" if done == total else f"{done:,}/{total:,}"


def wall(row: Row) -> str:
    """Wall-clock time of a point."""
    seconds = row.get("wall_s")
    return "-" if seconds is None else format_duration(seconds)


def _axis(value: Any) -> str:
    if value is None:
        return "-"  # an axis of other tables of plugins than this point's
    return value if isinstance(value, str) else written(value)


def _time(value: float | None, digits: int = 5) -> str:
    return "-" if value is None else format_time(round(value), digits)


def _lines(row: Row, summary: Mapping[str, Any], axes: Sequence[str]) -> list[tuple[str, str]]:
    lines = [(axis, _axis(row.get(axis))) for axis in axes]
    lines += [("transport", str(row["transport"]))] if "transport" not in axes else []
    lines += [("status", str(row["status"])), ("flows", flows(row))]
    for title in STATISTICS:
        lines.append((f"FCT {title}", _time(row.get(f"fct_{title}_ps"))))
    lines.append(("ideal max", _time(row.get("ideal_max_ps"))))
    if row.get("fair_max_ps") is not None:
        lines.append(("max-min fair shares, max", _time(row["fair_max_ps"])))
    slowdowns = " / ".join(number(row.get(name)) for name in SLOWDOWNS)
    lines.append(("slowdown p50 / p99 / max", slowdowns))
    lines += [(name, count(row.get(name))) for name in COUNTS]
    if row.get("circuit_duty_cycle") is not None:
        lost = f"{count(row.get('no_circuit_drops'))} packets lost without one"
        lines.append(
            ("circuits", f"up {100 * row['circuit_duty_cycle']:.3g} % of the time, {lost}")
        )
    lines += _of_some_points(summary)
    lines.append(("simulated", _time(row.get("simulated_ps"))))
    speed = row.get("packet_hops_per_s")
    hops = count(row.get("packet_hops"))
    lines.append(("packet-hops", f"{hops}, {format_speed(speed)}" if speed else hops))
    compiled = row.get("compile_s")
    extra = f" and {format_duration(compiled)} of compilation" if compiled else ""
    lines.append(("wall", wall(row) + extra))
    return lines


def _of_some_points(summary: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Lines on what not every experiment has: tasks, faults, series."""
    lines = []
    if "tasks" in summary:
        done = {"flows": summary["tasks"], "flows_finished": summary["tasks_done"]}
        lines.append(("tasks", flows(done)))
    if "faults" in summary:
        numbers = [(summary["faults"][kind], name) for kind, name in FAULTS.items()]
        told = ", ".join(f"{name}: {n:,}" for n, name in numbers if n)
        lines.append(("faults", told or "none yet"))
    if "recovery" in summary:
        lines.append(("recovery", _recovery(summary["recovery"])))
    if "series" in summary:
        lines.append(("series", summary["series"]["said"]))
    return lines


def _recovery(found: Mapping[str, Any]) -> str:
    """How long flows got nothing after links went down."""
    if not found["flows"]:
        return "no flow was silent"
    told = f"{found['flows']:,} flows were silent"
    if found["flows_not_back"]:
        told += f", {found['flows_not_back']:,} to the end"
    if found["max_ps"] is not None:
        told += (
            f"; back after {_time(found['p50_ps'], 4)} (median), {_time(found['max_ps'], 4)} (max)"
        )
    return told


def estimate_table(names: Sequence[str], estimates: Sequence[Estimate]) -> Wide:
    """What `netsim check` predicts of each point."""
    columns = [Column("point", list(names), left=True)]
    cells: tuple[tuple[str, int, Callable[[Estimate], str]], ...] = (
        ("hosts", 5, lambda one: count(one.n_hosts)),
        ("switches", 7, lambda one: count(one.n_switches)),
        ("links", 6, lambda one: count(one.n_links)),
        ("flows", 4, lambda one: count(one.n_flows)),
        ("packets", 3, lambda one: count(one.packets)),
        ("packet-hops", 0, lambda one: count(one.packet_hops)),
        ("simulated", 1, lambda one: _time(one.simulated_ps, 3)),
        ("memory", 0, lambda one: format_bytes(one.memory_bytes, 3)),
        ("wall", 0, lambda one: format_duration(one.seconds)),
    )
    for header, rank, cell in cells:
        columns.append(Column(header, [cell(one) for one in estimates], rank))
    return Wide(columns, title="Prediction", elsewhere="a wider terminal or a pipe shows them")
