"""`netsim compare`: differences between two results; `netsim report`: one page about results."""

from __future__ import annotations

from collections.abc import Container
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from netsim.cli.app import FAILED
from netsim.cli.options import FILE, PATH, json_option, print_json, trust_option
from netsim.common.steps import Steps
from netsim.common.terminal import Column, Wide, common_unit, number, percent, show
from netsim.results.comparison import ONE_SEED, Comparison
from netsim.units import format_bytes, format_time

if TYPE_CHECKING:
    import polars as pl


DRAWS = True

MOVED = 5  # default of --limit
LINES = 40  # lines of a diff of sources that are printed


def _share(ctx: click.Context, param: click.Parameter, value: str | None) -> float | None:
    """Parse a share, such as 2% or 0.02."""
    if value is None:
        return None
    try:
        share = float(value.strip().removesuffix("%")) / (100 if value.strip()[-1:] == "%" else 1)
    except ValueError:
        share = -1.0
    if not 0 <= share <= 100:
        raise click.BadParameter(f"{value!r} is not a share, such as 2% or 0.02", ctx, param)
    return share


@click.command("compare")
@click.argument("before", type=PATH)
@click.argument("after", type=PATH)
@click.option("--limit", type=click.IntRange(0), default=MOVED, help=f"Flows to show ({MOVED}).")
@click.option("--plot", type=FILE, help="Draw both CDFs into this file.")  # fmt: skip
@click.option(
    "--fail-above",
    callback=_share,
    metavar="SHARE",
    help="Exit status 1 if the mean or p99 completion time of a point grows by more, such as 2%, "
    "or more flows are unfinished.",
)
@json_option
def command(
    before: Path,
    after: Path,
    limit: int,
    plot: Path | None,
    fail_above: float | None,
    as_json: bool,
) -> None:
    """Compare two results, or two sweeps point by point.

    Seeds are paired by point, and flows by number if the traffic is the same. The 95 % intervals of
    changes are over seeds, or, for one seed, over its flows, which says nothing about other seeds.
    """
    from netsim.results import results_in
    from netsim.results.comparison import compare

    found = compare(results_in(before), results_in(after))
    moved = found.moved(limit)
    if plot is not None:
        from netsim.plots import save
        from netsim.plots.flows import compared

        click.echo(save(compared(found, _names(before, after)), plot), err=as_json)
    failures = [] if fail_above is None else found.slower_than(fail_above)
    if as_json:
        tables = ("statistics", "metrics", "experiment", "versions")
        content: dict[str, Any] = {name: getattr(found, name).to_dicts() for name in tables}
        content |= {"moved": moved.to_dicts(), "diffs": found.diffs, "failures": failures}
        sides = {"unpaired": found.unpaired, "unfinished": found.unfinished}
        print_json({"identical": found.identical, **sides, **content})
    else:
        _print(found, moved)
    if failures:
        for line in failures:
            click.echo(f"above the limit: {line}", err=True)
        raise SystemExit(FAILED)


def _names(before: Path, after: Path) -> tuple[str, str]:
    """Return short names of two results that differ."""
    if before.name != after.name:
        return before.name, after.name
    return str(before), str(after)


def _print(found: Comparison, moved: pl.DataFrame) -> None:
    if found.identical:
        click.echo("identical results: every table has the same hash")
    elif len(found.statistics):
        show(_statistics_table(found.statistics))
        if found.statistics["seeds"].max() == 1:
            click.echo(ONE_SEED)
    for text in found.unpaired:
        click.echo(f"other traffic, flows are not paired: {text}")
    if any(found.unfinished):
        counts = " and ".join(f"{count:,}" for count in found.unfinished)
        click.echo(f"unfinished flows, left out: {counts}")
    if len(found.metrics):
        show(_metrics_table(found.metrics))
    if len(moved):
        show(_moved_table(moved))
        click.echo("netsim why RESULT --flow N says why a flow took its time")
    for title, table in (
        ("Experiment", found.experiment),
        ("Versions and plugins", found.versions),
    ):
        _show_changes(title, table)
    for text in found.diffs:
        lines = text.splitlines()
        click.echo("\n".join(lines[:LINES]))
        if len(lines) > LINES:
            click.echo(f"... and {len(lines) - LINES:,} more lines (--json has all)")


def _show_changes(title: str, table: pl.DataFrame) -> None:
    """Print the differences; only count what one side lacks, such as parameters of the other's
    transport."""
    rows = table.to_dicts()
    both = [row for row in rows if "-" not in (row["before"], row["after"])]
    if both:
        names = (table.columns[0], "before", "after")
        cells = {name: [row[name] for row in both] for name in names}
        show(Wide([Column(name, cells[name], left=True) for name in names], title=title))
    if len(both) < len(rows):
        more = f"{title}: {len(rows) - len(both):,} that only one side has (--json lists them)"
        click.echo(more)


def _statistics_table(table: pl.DataFrame) -> Wide:
    rows = table.to_dicts()
    unit, scale = common_unit([row["after_ps"] for row in rows])
    columns = []
    if table["point"].n_unique() > 1:
        columns.append(Column("point", [row["point"] for row in rows], left=True))
    columns.append(Column("FCT", [row["statistic"] for row in rows], left=True))
    for name in ("before", "after"):
        cells = [number(row[f"{name}_ps"], scale) for row in rows]
        columns.append(Column(f"{name}\n{unit}", cells))
    columns.append(Column("change", [f"{row['change']:+.2%}" for row in rows]))
    ends = table.select("low", "high").rows()
    intervals = ["-" if low is None else f"{low:+.2%} to {high:+.2%}" for low, high in ends]
    columns.append(Column("95 % interval", intervals, rank=1))
    columns.append(Column("seeds", [str(row["seeds"]) for row in rows], rank=2))
    columns.append(Column("flows", [f"{row['flows']:,}" for row in rows], rank=3))
    return Wide(columns, title="Completion times")


def _metrics_table(table: pl.DataFrame) -> Wide:
    from netsim.results.columns import metrics

    rows, shares = table.to_dicts(), {one.name for one in metrics() if one.share}
    columns = []
    if table["point"].n_unique() > 1:
        columns.append(Column("point", [row["point"] for row in rows], left=True))
    columns.append(Column("metric", [row["metric"] for row in rows], left=True))
    for name in ("before", "after"):
        columns.append(Column(name, [_value(row, name, shares) for row in rows]))
    changes = ["-" if row["change"] is None else f"{row['change']:+.2%}" for row in rows]
    return Wide([*columns, Column("change", changes)], title="Metrics that differ")


def _value(row: dict[str, Any], side: str, shares: Container[str]) -> str:
    value: float = row[side]
    if row["unit"] == "ps":
        return format_time(round(value), 4)
    return f"{percent(value)} %" if row["metric"] in shares else number(value)


def _moved_table(table: pl.DataFrame) -> Wide:
    rows = table.to_dicts()
    unit, scale = common_unit([max(row["before_ps"], row["after_ps"]) for row in rows])
    columns = [Column("flow", [str(row["flow"]) for row in rows])]
    if table["point"].n_unique() > 1 or table["seed"].n_unique() > 1:
        points = [f"{row['point']}, seed {row['seed']}" for row in rows]
        columns.append(Column("point", points, left=True))
    columns.append(Column("", [f"h{row['src']} to h{row['dst']}" for row in rows], left=True))
    columns.append(Column("size", [format_bytes(row["size_bytes"], 3) for row in rows]))
    for name in ("before", "after", "change"):
        cells = [number(row[f"{name}_ps"], scale) for row in rows]
        columns.append(Column(f"{name}\n{unit}", cells))
    return Wide(columns, title="Flows that moved most")


# --- netsim report --------------------------------------------------------------------------------


@click.command("report")
@click.argument("results", metavar="RESULT...", nargs=-1, required=True, type=PATH)  # fmt: skip
@click.option(
    "--explain",
    type=click.IntRange(0, 100),
    default=0,
    metavar="N",
    help="Simulate the slowest result again, and explain its N slowest flows.",
)
@trust_option
@click.option("--out", type=FILE,
              help="Output file (report.html in the first result).")  # fmt: skip
def report_command(results: tuple[Path, ...], explain: int, trust: bool, out: Path | None) -> None:
    """Write a report of RESULT, a result or a sweep, as one HTML file that works offline.

    Several results are compared. The file has completion times, the network with its busiest
    links, pauses, the slowest flows, timelines, requests, sweeps and the experiment, if the results
    have them. Nothing is simulated again, except with --explain.
    """
    from netsim.html_report import write_report
    from netsim.results.files import REPORT

    path = out if out is not None else results[0] / REPORT
    with Steps():
        size = write_report(results, path, trust=trust, explain=explain)
    click.echo(f"{path} ({size / 1e6:.1f} MB)")
