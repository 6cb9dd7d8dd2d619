"""`netsim saturate`: find the load at which the throughput of a network saturates."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from netsim.cli.app import FAILED
from netsim.cli.options import (
    PATH,
    experiment_options,
    json_option,
    load_experiment,
    print_json,
    threads_and_jobs,
)
from netsim.errors import InputError

if TYPE_CHECKING:
    from netsim.common.terminal import Wide
    from netsim.running.saturation import Curve, SaturationSearch


@click.command("saturate")
@experiment_options
@click.option("--from", "first", type=click.FloatRange(0, 100, min_open=True), default=0.05,
              metavar="LOAD", help="Lowest load (0.05).")  # fmt: skip
@click.option("--to", "last", type=click.FloatRange(0, 100), default=1.0, metavar="LOAD",
              help="Highest load (1).")  # fmt: skip
@click.option("--grid", type=click.IntRange(2, 1000), default=8,
              help="Loads of the first round (8).")  # fmt: skip
@click.option("--tolerance", type=click.FloatRange(1e-5, 1), default=0.005, metavar="LOAD",
              help="Half of the interval of the saturation to stop at (0.005).")  # fmt: skip
@click.option(
    "--routing", metavar="NAME,...",
    help="Compare routing algorithms (same as --set fabric.routing, with a list).",
)  # fmt: skip
@click.option("--out", type=PATH, help="Result directory.")
@threads_and_jobs
@click.option("--quiet", is_flag=True, help="Print only errors.")
@json_option
def command(
    experiment: str,
    overrides: tuple[str, ...],
    seed: str | None,
    first: float,
    last: float,
    grid: int,
    tolerance: float,
    routing: str | None,
    out: Path | None,
    threads: int | None,
    jobs: int | None,
    quiet: bool,
    as_json: bool,
) -> None:
    """Find the offered load at which EXPERIMENT saturates.

    The experiment needs [measure] and traffic with a key load. It runs at evenly spaced loads, then
    between the highest load below saturation and the lowest one above it, until these are close
    enough. It is saturated if it accepts less than the offered load, by more than 1 % and by more
    than the 95 % interval. To compare routings, networks or transports:

    \b
    netsim saturate mine.toml --routing ecmp,spray_random
    netsim saturate mine.toml --set 'topology.paths=["minimal", "dimension_order"]'
    netsim plot results/mine_saturation --kind saturation

    Repeat the command after Ctrl-C: it keeps all points that are done.
    """
    from netsim.cli.progress import simulate_points
    from netsim.running.executor import RunOptions
    from netsim.running.saturation import SUFFIX, SaturationSearch
    from netsim.running.sweep import executor_of, kept_outcomes, output_directory

    if routing is not None:
        overrides += (f"fabric.routing={json.dumps(routing.split(','))}",)
    if last <= first:
        raise InputError(f"{last:g} is not above --from {first:g}", file="--to")
    search = SaturationSearch(
        lambda loads: load_experiment(experiment, [*overrides, *loads], seed),
        [first + (last - first) * k / (grid - 1) for k in range(grid)],
        tolerance,
    )
    options = RunOptions(threads=threads, keep_stalled=True)
    stopped = None
    while not stopped and (points := search.next_points()):
        default = output_directory(points)
        out = out or default.with_name(default.name + SUFFIX)
        outcomes = kept_outcomes(points, out, options)
        if len(outcomes) < len(points):
            if search.curves and not quiet and not as_json:
                _announce(search)
            executor = executor_of(jobs, threads)
            outcomes, interruption = simulate_points(
                points, out, options, executor, quiet=quiet or as_json
            )
            stopped = interruption if interruption() else None
        search.add(outcomes)
    if as_json:
        print_json({"directory": out, "curves": [_described(one) for one in search.curves]})
    elif not quiet:
        _print(search.curves, "so far " if stopped else "")
        click.echo(f"results in {out}")
    failed = [one for one in search.outcomes() if one.error]
    for outcome in failed:
        click.echo(f"error: {outcome.error}", err=True)
    if stopped:
        click.echo("interrupted: repeat the command to continue", err=True)
        raise SystemExit(stopped.exit_code)
    if failed:
        raise SystemExit(FAILED)


def _announce(search: SaturationSearch) -> None:
    """Print the number of a round, and how many follow."""
    number, curves = search.rounds, search.curves
    saturated = ", ".join(str(curve.saturation) for curve in curves[:3])
    more = ", ..." if len(curves) > 3 else ""
    last = number + search.rounds_left - 1
    click.echo(f"round {number} of {last}: saturation {saturated}{more}", err=True)


def _described(curve: Curve) -> dict[str, Any]:
    """Return a curve as JSON."""
    found = curve.summary()
    figures = {name: found[name] for name in ("below", "above", "saturation", "bound")}
    points = [row for rows in curve.rows.values() for row in rows]
    return {"axes": dict(curve.axes), **figures, "points": points}


def _print(curves: Sequence[Curve], so_far: str) -> None:
    """Print the table of all points, and the saturation of each curve."""
    from netsim.common.terminal import axis_text, show
    from netsim.running.saturation import MARGIN
    from netsim.units import format_number, written

    show(_table(curves))
    for curve in curves:
        bound = "" if curve.bound is None else f" (bound {format_number(curve.bound)})"
        label = ", ".join(
            f"{axis.rpartition('.')[2]} {axis_text(value)}" for axis, value in curve.axes
        )
        most = max(
            (row.get("accepted_load") or 0.0 for rows in curve.rows.values() for row in rows),
            default=0.0,
        )
        found = f"saturation {so_far}{curve.saturation}{bound}, at most {most:.4f} accepted"
        click.echo(f"{label}{': ' if label else ''}{found}")
        low = curve.saturation.low
        for row in () if low is None else curve.rows[low]:
            if row["excess_interval"] > MARGIN * row["offered_load"]:
                share = row["excess_interval"] / row["offered_load"]
                click.echo(
                    f"note: at load {written(low)} the excess load is known to ± {share:.1%} of "
                    "the load: a longer measure.window gives a more exact saturation"
                )
                break


def _table(curves: Sequence[Curve]) -> Wide:
    from netsim.common.terminal import Column, Wide, axis_columns, common_unit, count, number
    from netsim.running.saturation import LOAD, is_saturated

    rows: list[dict[str, Any]] = []
    for curve in curves:
        for these in curve.rows.values():
            mark = {True: "yes", False: "", None: "?"}[is_saturated(these)]
            rows += [{**row, "saturated": mark} for row in these]
    axes = dict.fromkeys(axis for curve in curves for axis, _ in curve.axes)
    several = len({row["seed"] for row in rows}) > 1
    columns = axis_columns(rows, [*axes, *(["seed"] if several else [])])
    columns.append(Column("load", [number(row[LOAD]) for row in rows], left=True))
    columns.append(Column("saturated", [row["saturated"] for row in rows], left=True))
    latencies = [f"latency_{name}_ps" for name in ("mean", "p50", "p99")]
    unit, scale = common_unit([row.get(name) for row in rows for name in latencies])
    for name, title, rank in (
        ("offered_load", "offered", 4),
        ("accepted_load", "accepted", 0),
        ("accepted_interval", "± 95 %", 3),
        ("worst_host_load", "worst\nhost", 2),
    ):
        columns.append(Column(title, [_share(row.get(name)) for row in rows], rank))
    for name, rank in zip(latencies, (0, 5, 1), strict=True):
        title = f"latency\n{name.split('_')[1]}, {unit}"
        columns.append(Column(title, [number(row.get(name), scale) for row in rows], rank))
    columns.append(Column("hops", [number(row.get("mean_hops")) for row in rows], 6))
    columns.append(Column("busiest link", [row.get("busiest_link") or "-" for row in rows], 8))
    loads = [row.get("busiest_link_utilization") for row in rows]
    columns.append(Column("its\nload", [_share(load) for load in loads], 7))
    for name, title in (("drops", "drops"), ("pfc_pauses", "pauses")):
        if any(row.get(name) for row in rows):
            columns.append(Column(title, [count(row.get(name)) for row in rows], 3))
    return Wide(columns, elsewhere="all columns: sweep.parquet")


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value:.4f}"
