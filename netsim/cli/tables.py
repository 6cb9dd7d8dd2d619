"""The tables that commands print."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from netsim.cli.progress import format_duration, format_speed
from netsim.units import format_bytes, format_number, format_time, written

if TYPE_CHECKING:
    from rich.table import Table

    from netsim.plots import sweeps

TIMES = ("fct_mean_ps", "fct_p50_ps", "fct_p99_ps", "fct_max_ps", "ideal_max_ps")
SLOWDOWNS = ("slowdown_p50", "slowdown_p99", "slowdown_max")
COUNTS = ("drops", "lost", "trims", "marks", "retransmits", "pauses")
UNITS = (("ps", 1), ("ns", 10**3), ("us", 10**6), ("ms", 10**9), ("s", 10**12))

Row = Mapping[str, Any]


def show(table: Table) -> None:
    """Print a table, as wide as it is: a narrow or absent terminal never cuts a number off."""
    from rich.console import Console
    from rich.measure import Measurement

    console = Console(highlight=False)
    needed = Measurement.get(console, console.options.update(max_width=10_000), table).maximum
    console.width = max(console.width, needed)
    console.print(table)


def plain_table(*headers: str, title: str = "") -> Table:
    """An empty table in the style of all others; `title` stands above it."""
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE, title=title or None, title_justify="left", title_style="bold")
    table.collapse_padding, table.pad_edge = True, False
    for header in headers:
        table.add_column(header)
    return table


def result_table(row: Row, axes: Sequence[str] = ()) -> Table:
    """The figures of one point, one below the other."""
    from rich.text import Text

    table = plain_table("", "", title=str(row["point"]))
    table.show_header = False
    for name, value in _lines(row, axes):
        table.add_row(name, Text(value))
    return table


def sweep_table(rows: Sequence[Row], axes: Sequence[str]) -> Table:
    """The figures of the points of a sweep, one row for each."""
    from rich.text import Text

    unit, scale = common_unit([row.get(name) for row in rows for name in TIMES])
    counts = [name for name in COUNTS if name in ("drops", "trims") or any_of(rows, name)]
    table = plain_table()
    for axis in axes:
        table.add_column(axis.rpartition(".")[2])
    table.add_column("flows", justify="right")
    for title in ("mean", "p50", "p99", "max"):
        table.add_column(f"FCT {title}\n{unit}", justify="right")
    table.add_column(f"ideal max\n{unit}", justify="right")
    for title in ("p50", "p99", "max"):
        table.add_column(f"slowdown\n{title}", justify="right")
    for name in counts:
        table.add_column(name, justify="right")
    table.add_column("M packet-\nhops/s", justify="right")
    table.add_column("wall", justify="right")
    table.add_column("status")
    for row in rows:
        cells = [_axis(row.get(axis)) for axis in axes]
        cells += [flows(row)]
        cells += [number(row.get(name), scale) for name in TIMES]
        cells += [number(row.get(name)) for name in SLOWDOWNS]
        cells += [count(row.get(name)) for name in counts]
        cells += [number(row.get("packet_hops_per_s"), 1e6), wall(row), str(row["status"])]
        table.add_row(*(Text(cell) for cell in cells))
    return table


def comparison_table(compared: sweeps.Table) -> Table:
    """The table of a figure that compares the points of a sweep."""
    from rich.text import Text

    table = plain_table()
    for index, header in enumerate(compared.headers):
        table.add_column(header, justify="right" if index else "left")
    for row in compared.rows:
        table.add_row(*(Text(cell) for cell in row))
    return table


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
    if value is None or value != value:
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
    return value if isinstance(value, str) else written(value)


def _time(value: float | None, digits: int = 5) -> str:
    return "-" if value is None else format_time(round(value), digits)


def _lines(row: Row, axes: Sequence[str]) -> list[tuple[str, str]]:
    lines = [(axis, _axis(row.get(axis))) for axis in axes]
    lines += [("transport", str(row["transport"]))] if "transport" not in axes else []
    lines += [("status", str(row["status"])), ("flows", flows(row))]
    for title in ("mean", "p50", "p99", "max"):
        lines.append((f"FCT {title}", _time(row.get(f"fct_{title}_ps"))))
    lines.append(("ideal max", _time(row.get("ideal_max_ps"))))
    slowdowns = " / ".join(number(row.get(name)) for name in SLOWDOWNS)
    lines.append(("slowdown p50 / p99 / max", slowdowns))
    lines += [(name, count(row.get(name))) for name in COUNTS]
    lines.append(("simulated", _time(row.get("simulated_ps"))))
    speed = row.get("packet_hops_per_s")
    hops = count(row.get("packet_hops"))
    lines.append(("packet-hops", f"{hops}, {format_speed(speed)}" if speed else hops))
    compiled = row.get("compile_s")
    extra = f" and {format_duration(compiled)} of compilation" if compiled else ""
    lines.append(("wall", wall(row) + extra))
    return lines


def estimate_lines(estimate: Any) -> list[tuple[str, str]]:
    """What `netsim check` predicts of a point."""
    return [
        ("hosts", count(estimate.n_hosts)),
        ("switches", count(estimate.n_switches)),
        ("links", count(estimate.n_links)),
        ("flows", count(estimate.n_flows)),
        ("packets", count(estimate.packets)),
        ("packet-hops", count(estimate.packet_hops)),
        ("simulated", _time(estimate.simulated_ps, 3)),
        ("memory", format_bytes(estimate.memory_bytes, 3)),
        ("wall", format_duration(estimate.seconds)),
    ]
