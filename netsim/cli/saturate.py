"""`netsim saturate`: find the load at which the throughput of a network saturates."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from netsim.cli.app import FAILED
from netsim.cli.options import (
    experiment_options,
    json_option,
    load_experiment,
    print_json,
    threads_and_jobs,
)
from netsim.errors import InputError

if TYPE_CHECKING:
    from netsim.cli.interrupt import Interruption
    from netsim.experiment import Point
    from netsim.results.saturation import Saturation
    from netsim.running.point_run import PointOutcome
    from netsim.terminal import Wide

Axes = tuple[tuple[str, Any], ...]
"""Values of the axes of a curve: all but load and seed."""

SUFFIX = "_saturation"
"""End of the name of the default result directory."""


@dataclass
class _Curve:
    """One curve: its outcomes by load, one for each seed."""

    axes: Axes
    outcomes: dict[float, list[PointOutcome]] = field(default_factory=dict)

    @property
    def rows(self) -> dict[float, list[dict[str, Any]]]:
        return {
            load: [one.row for one in self.outcomes[load] if one.row["status"] != "failed"]
            for load in sorted(self.outcomes)
        }

    @property
    def saturation(self) -> Saturation:
        from netsim.results.saturation import saturation_of

        return saturation_of(self.rows)

    @property
    def bound(self) -> float | None:
        """The smallest bound of the seeds."""
        found = [row.get("saturation_bound") for rows in self.rows.values() for row in rows]
        return min((one for one in found if one is not None), default=None)


@dataclass(frozen=True)
class _Search:
    """What the command was asked for."""

    experiment: str
    overrides: tuple[str, ...]
    seed: str | None
    grid: Sequence[float]
    tolerance: float

    def points(self, loads: Sequence[float]) -> list[Point]:
        """Return all points of the experiment at these loads. Raises InputError without a load."""
        from netsim.results.saturation import LOAD

        values = ", ".join(f"{load:.6g}" for load in sorted(loads))
        changes = [*self.overrides, f"{LOAD}=[{values}]"]
        loaded = load_experiment(self.experiment, changes, self.seed)
        points = loaded.points()
        if any(point.measure is None for point in points):
            hint = 'such as --set measure.warmup=50us --set measure.window="1ms"'
            raise InputError("missing [measure]", file=loaded.file, hint=hint)
        return points


@click.command("saturate")
@experiment_options
@click.option(
    "--from", "first", type=click.FloatRange(0, 100, min_open=True), default=0.05, metavar="LOAD",
    help="Lowest load (0.05).",
)  # fmt: skip
@click.option(
    "--to", "last", type=click.FloatRange(0, 100), default=1.0, metavar="LOAD",
    help="Highest load (1).",
)  # fmt: skip
@click.option(
    "--grid", type=click.IntRange(2, 1000), default=8, help="Loads of the first round (8)."
)
@click.option(
    "--tolerance", type=click.FloatRange(1e-5, 1), default=0.005, metavar="LOAD",
    help="Half of the interval of the saturation to stop at (0.005).",
)  # fmt: skip
@click.option(
    "--routing", metavar="NAME,...",
    help="Compare routing algorithms (same as --set fabric.routing, with a list).",
)  # fmt: skip
@click.option("--out", type=click.Path(path_type=Path), help="Result directory.")
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

    The experiment has [measure] and traffic with a key load. It runs at evenly spaced loads, then
    between the highest load below saturation and the lowest one above it, until these are close
    enough. It is saturated if less is accepted than offered, by more than 1 % and by more than the
    95 % interval. Several routings, networks or transports are compared:

    \b
    netsim saturate mine.toml --routing ecmp,spray_random
    netsim saturate mine.toml --set 'topology.paths=["minimal", "dimension_order"]'
    netsim plot results/mine_saturation --kind saturation

    Repeat the command after Ctrl-C: it keeps all points that are done.
    """
    if last <= first:
        raise InputError(f"{last:g} is not above --from {first:g}", file="--to")
    if routing is not None:
        overrides += (f"fabric.routing={json.dumps(routing.split(','))}",)
    loads = [round(first + (last - first) * k / (grid - 1), 6) for k in range(grid)]
    search = _Search(experiment, overrides, seed, loads, tolerance)
    curves, directory, stopped = _measure(search, out, (jobs, threads), quiet or as_json)
    if as_json:
        found = [_described(curve) for curve in curves]
        print_json({"directory": directory, "curves": found})
    elif not quiet:
        _print(curves, directory, "so far " if stopped else "")
    outcomes = [one for curve in curves for these in curve.outcomes.values() for one in these]
    failed = [one for one in outcomes if one.error]
    for outcome in failed:
        click.echo(f"error: {outcome.error}", err=True)
    if stopped:
        click.echo("interrupted: repeat the command to continue", err=True)
        raise SystemExit(stopped.exit_code)
    if failed:
        raise SystemExit(FAILED)


def _measure(
    search: _Search, out: Path | None, workers: tuple[int | None, int | None], quiet: bool
) -> tuple[list[_Curve], Path, Interruption | None]:
    """Measure round by round; return the curves, where their results are, and the interruption, if
    any."""
    from netsim.cli.points import simulate_points
    from netsim.results.saturation import LOAD, next_loads
    from netsim.running.executors import executor_of
    from netsim.running.point_run import RunOptions
    from netsim.running.sweep import kept_outcomes, output_directory

    chosen: dict[Axes, set[float]] = {}
    first = output_directory(search.points(search.grid))
    directory = out or first.with_name(first.name + SUFFIX)
    curves: list[_Curve] = []
    rounds = 0
    while True:
        wanted: set[float] = set(search.grid)
        for curve in curves:
            new = next_loads(curve.rows, search.grid, search.tolerance)
            chosen[curve.axes] |= {*new} - {*curve.outcomes}  # not again those that failed
        wanted |= {load for loads in chosen.values() for load in loads}
        points = [
            point
            for point in search.points([*wanted])
            if point.axes[LOAD] in chosen.setdefault(_axes(point), set(search.grid))
        ]
        done = sum(len(these) for curve in curves for these in curve.outcomes.values())
        if len(points) == done:
            return curves, directory, None
        rounds += 1
        outcomes = kept_outcomes(points, directory)
        if len(outcomes) < len(points):
            if not quiet and rounds > 1:
                _announce(curves, rounds, search.tolerance)
            options = RunOptions(threads=workers[1])
            executor = executor_of(*workers)
            outcomes, stop = simulate_points(points, directory, options, executor, quiet=quiet)
            if stop():
                return _curves(outcomes), directory, stop
        curves = _curves(outcomes)
        if all(one.row.get("flows_injected") == 0 for one in outcomes):
            hint = "saturate is for open-loop traffic, such as poisson"
            raise InputError("no flow starts in the window of [measure]", key="traffic", hint=hint)


def _axes(point: Point) -> Axes:
    from netsim.results.saturation import LOAD

    return tuple(
        (axis, str(value) if isinstance(value, list | dict) else value)
        for axis, value in point.axes.items()
        if axis not in (LOAD, "seed")
    )


def _curves(outcomes: Sequence[PointOutcome]) -> list[_Curve]:
    from netsim.results.saturation import LOAD

    found: dict[Axes, _Curve] = {}
    for outcome in outcomes:
        axes = _axes(outcome.point)
        curve = found.setdefault(axes, _Curve(axes))
        curve.outcomes.setdefault(outcome.point.axes[LOAD], []).append(outcome)
    return list(found.values())


def _announce(curves: Sequence[_Curve], number: int, tolerance: float) -> None:
    """Print the number of a round, and how many follow."""
    from netsim.results.saturation import rounds_left

    left = max(rounds_left(curve.saturation, tolerance) for curve in curves)
    saturated = ", ".join(str(curve.saturation) for curve in curves[:3])
    more = ", ..." if len(curves) > 3 else ""
    click.echo(f"round {number} of {number + left - 1}: saturation {saturated}{more}", err=True)


def _described(curve: _Curve) -> dict[str, Any]:
    """Return a curve as JSON."""
    found = curve.saturation
    rows = [row for rows in curve.rows.values() for row in rows]
    return {
        "axes": dict(curve.axes),
        "below": found.low,
        "above": found.high,
        "saturation": found.load,
        "bound": curve.bound,
        "points": rows,
    }


def _print(curves: Sequence[_Curve], directory: Path, so_far: str) -> None:
    """Print the table of all points, and the saturation of each curve."""
    from netsim.results.saturation import MARGIN
    from netsim.terminal import show
    from netsim.units import format_number, written

    show(_table(curves))
    for curve in curves:
        bound = "" if curve.bound is None else f" (bound {format_number(curve.bound)})"
        label = ", ".join(f"{axis.rpartition('.')[2]} {_text(value)}" for axis, value in curve.axes)
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
    click.echo(f"results in {directory}")


def _text(value: Any) -> str:
    from netsim.units import written

    return value if isinstance(value, str) else written(value)


def _table(curves: Sequence[_Curve]) -> Wide:
    from netsim.cli.tables import axis_columns
    from netsim.results.saturation import LOAD, is_saturated
    from netsim.terminal import Column, Wide, common_unit, count, number

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
