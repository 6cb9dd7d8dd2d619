"""`netsim run`: simulate an experiment, write its results, print its figures."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from netsim.cli.app import FAILED
from netsim.cli.options import experiment_options, json_option, load_experiment, print_json
from netsim.cli.points import simulate_points
from netsim.errors import InputError
from netsim.limits import THREADS

if TYPE_CHECKING:
    from netsim.experiment import Experiment
    from netsim.running.sweep import PointOutcome


@click.command("run")
@experiment_options
@click.option(
    "--threads",
    type=click.IntRange(1, THREADS),
    help="Number of threads; all cores by default.",
)
@click.option("--out", type=click.Path(path_type=Path), help="Directory for the results.")
@click.option(
    "--plot", is_flag=True, help="Save a picture of the flow completion times, fct_cdf.png."
)
@click.option("--force", is_flag=True, help="Run points again whose complete result is there.")
@click.option(
    "--check-bounds",
    "checked",
    is_flag=True,
    help="Look for handlers that write past their arrays: slow, one thread.",
)
@click.option(
    "--checkpoint",
    metavar="TIME",
    help="Write so often, such as 60s, and on Ctrl-C, where the run stands: netsim resume goes on.",
)
@click.option("--quiet", is_flag=True, help="Print nothing but errors.")
@json_option
def command(
    experiment: str,
    overrides: tuple[str, ...],
    seed: str | None,
    threads: int | None,
    out: Path | None,
    plot: bool,
    force: bool,
    checked: bool,
    checkpoint: str | None,
    quiet: bool,
    as_json: bool,
) -> None:
    """Run EXPERIMENT: a TOML file, or the name of one that comes with netsim.

    Each point is written to a directory of its own as soon as it is done. Ctrl-C stops the run,
    writes what is finished, marked as partial, and exits with 130; a second one stops at once, and
    so does the first one before anything is simulated, such as while code is compiled.

    Run once more, it goes on where it ended: points that are done (the same experiment, code and
    seed) are kept, and one of which there is a checkpoint goes on from there.
    """
    every_s = checkpoint_seconds(checkpoint)
    loaded = load_experiment(experiment, overrides, seed)
    from netsim.running.run_manifest import Checkpoints, RunManifest
    from netsim.running.sweep import output_directory

    options = {
        "threads": threads,
        "force": force or checked,
        "checked": checked,
        "checkpoints": Checkpoints(None if every_s is None else RunManifest.of(loaded, every_s)),
    }
    directory = out if out is not None else output_directory(loaded.points())
    output = Output(plot=plot, quiet=quiet, as_json=as_json)
    run(loaded, directory, options, output)


def checkpoint_seconds(written: str | None) -> float | None:
    """Seconds of a time that a user has written."""
    if written is None:
        return None
    from netsim.units import parse_time_ps

    try:
        time_ps = parse_time_ps(written)
    except InputError as error:
        raise error.at(file="--checkpoint") from None
    if time_ps <= 0:
        raise InputError(f"{written} is not above 0", file="--checkpoint", hint='such as "60s"')
    return time_ps / 1e12


@dataclass(frozen=True)
class Output:
    """Output options of a run: save a picture, print only errors, print JSON."""

    plot: bool = False
    quiet: bool = False
    as_json: bool = False


def run(experiment: Experiment, directory: Path, options: dict[str, Any], output: Output) -> None:
    """Run an experiment, show its figures, and exit with the status of the run.

    `options` are those of `run_points`.
    """
    quiet = output.quiet or output.as_json
    points = experiment.points()
    outcomes, interruption = simulate_points(points, directory, options, quiet=output.quiet)
    if not quiet:
        _print_figures(experiment, outcomes, len(points) > 1)
    picture = _save_picture(directory, outcomes) if output.plot else None
    if not quiet and any(outcome.written for outcome in outcomes):
        kept = sum(outcome.kept for outcome in outcomes)
        if kept:
            what = f"{kept} of {len(points)} points" if len(points) > 1 else "the result"
            click.echo(f"kept {what}, done before; --force runs them again")
        click.echo(f"results in {directory}")
        if picture is not None:
            click.echo(f"picture in {picture}")
    if output.as_json:
        print_json({"directory": directory, "points": [_described(one) for one in outcomes]})
    failed = [outcome for outcome in outcomes if outcome.error and not outcome.cut]
    if not quiet:
        for outcome in outcomes:
            if outcome.error and outcome.cut:
                click.echo(outcome.error, err=True)
    for outcome in failed:
        click.echo(f"error: {outcome.error}", err=True)
    if interruption():
        click.echo(f"interrupted: {_done(outcomes)} of {len(points)} points complete", err=True)
        if options["checkpoints"].manifest is not None:
            click.echo(f"netsim resume {shlex.quote(str(directory))} goes on", err=True)
        raise SystemExit(interruption.exit_code)
    if failed:
        raise SystemExit(FAILED)


def _described(outcome: PointOutcome) -> dict[str, Any]:
    """A point as JSON: its row in the table of a sweep, and where its result is."""
    where = outcome.directory if outcome.written else None
    about = {"directory": where, "complete": outcome.complete, "kept": outcome.kept}
    return {**outcome.row, **about, "reason": outcome.error}


def _done(outcomes: list[PointOutcome]) -> int:
    return sum(outcome.complete for outcome in outcomes)


def _print_figures(experiment: Experiment, outcomes: list[PointOutcome], sweep: bool) -> None:
    from netsim.cli.tables import class_table, result_table, sweep_table
    from netsim.results import load_result
    from netsim.results.columns import each
    from netsim.terminal import show

    axes = list(experiment.axes)
    rows = [_marked(outcome) for outcome in outcomes]
    if sweep:
        show(sweep_table(rows, axes))
    written = [outcome for outcome in outcomes if outcome.written]
    summaries = [load_result(outcome.directory).summary for outcome in written]
    if summaries and not sweep:
        show(result_table(rows[0], summaries[0], axes))
        for table in (one for sections in each("sections") for one in sections(summaries[0])):
            show(table)
    for note in dict.fromkeys(note for one in summaries for note in one.get("traffic", ())):
        click.echo(f"traffic: {note}")
    classes = [summary.get("flow_classes", []) for summary in summaries]
    if any(classes):
        show(class_table([outcome.row for outcome in written], classes, axes if sweep else []))


def _marked(outcome: PointOutcome) -> dict[str, Any]:
    """The row of a point for the screen, where it says which points were kept."""
    status = outcome.row["status"]
    return {**outcome.row, "status": f"{status}, kept" if outcome.kept else status}


def _save_picture(directory: Path, outcomes: list[PointOutcome]) -> Path | None:
    """Draw the completion times, if any flow finished."""
    from netsim.plots import fct_cdf, save
    from netsim.results import load_result

    done = [outcome for outcome in outcomes if outcome.row.get("flows_finished")]
    results = [load_result(outcome.directory) for outcome in done]
    return save(fct_cdf.draw(results), directory / "fct_cdf.png") if results else None
