"""`netsim run`: simulate an experiment, write and print its results; `netsim merge`: its shards."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from netsim.cli.app import FAILED
from netsim.cli.options import (
    PATH,
    changed,
    experiment_options,
    json_option,
    load_experiment,
    option_seconds,
    print_json,
    threads_and_jobs,
    trust_option,
)
from netsim.cli.progress import simulate_points
from netsim.errors import InputError
from netsim.frozen import frozen

if TYPE_CHECKING:
    from netsim.experiment import Experiment
    from netsim.results.shard import Shard
    from netsim.running.executor import Executor, PointOutcome, RunOptions
    from netsim.running.mpi import MpiRanks
    from netsim.running.worker_process import WorkerProcess

DRAWS = True

SLURM_CHECKPOINT_S = 300.0


@click.command("run")
@experiment_options
@click.option("--out", type=PATH, help="Result directory.")
@click.option("--force", is_flag=True, help="Rerun points that already have a complete result.")
@click.option(
    "--checkpoint",
    metavar="TIME",
    help="Write a checkpoint every TIME (such as 60s) and on Ctrl-C, to resume from.",
)
@click.option("--shard", metavar="K/N", help="Run only part K of N, for netsim merge.")
@click.option(
    "--scheduler",
    metavar="NAME",
    help="Run points on dask (a local cluster), tcp://HOST:PORT (a scheduler of dask), or slurm.",
)
@click.option("--partition", metavar="NAME", help="Partition of Slurm.")
@threads_and_jobs
@click.option("--plot", is_flag=True, help="Plot flow completion times to fct_cdf.png.")
@click.option("--check-bounds", "checked", is_flag=True,
              help="Check array bounds in handlers (slow, one thread).")  # fmt: skip
@click.option("--mpi", is_flag=True, help="Divide each point among the ranks of mpirun.")
@trust_option
@click.option("--quiet", is_flag=True, help="Print only errors.")
@json_option
def command(experiment: str, overrides: tuple[str, ...], seed: str | None, **options: Any) -> None:
    """Run EXPERIMENT: a TOML file, the name of a shipped experiment, or a result directory.

    Each point is written to its own directory when it is done. Ctrl-C stops the run, writes the
    unfinished point as partial, and exits with 130; a second Ctrl-C exits immediately, as does the
    first one before simulation begins.

    Repeat the command, or give the result directory, to continue: complete points (of the same
    experiment, code and seed) are kept, and a point with a checkpoint resumes from it, with any
    number of threads and the same result as an uninterrupted run.

    A result directory continues with the experiment and the options --set, --seed and --shard of
    its last run. In it, a checkpoint that is damaged, or from another experiment or other code, is
    an error; plugins outside netsim need --trust. A checkpoint is code: resume only checkpoints
    from people whose code you would run.
    """
    scheduler, mpi = options["scheduler"], options["mpi"]
    every_s = option_seconds(options["checkpoint"], "--checkpoint")
    if scheduler and mpi:
        raise InputError("--scheduler conflicts with --mpi")
    if every_s is None and scheduler == "slurm":
        every_s = SLURM_CHECKPOINT_S  # for preemption
    with _ranks(options) as ranks:
        here = scheduler in (None, "dask")
        started = _start_processes() if here and (options["jobs"] or 1) > 1 else []
        executor = _executor(ranks, options, started, scheduler, options["partition"])
        from netsim.results import files
        from netsim.results.shard import Shard, read_shard
        from netsim.running.executor import RunOptions
        from netsim.running.sweep import experiment_in, output_directory

        shard = None if options["shard"] is None else Shard.parse(options["shard"])
        results = _result_directory(experiment)
        if results is None:
            loaded = load_experiment(experiment, overrides, seed)
            directory = output_directory(loaded.points())
            if shard is not None:
                directory = directory.with_name(directory.name + shard.suffix)
        else:
            loaded = changed(experiment_in(results, trust=options["trust"]), overrides, seed)
            directory = results
            if shard is None and (results / files.SHARD).is_file():
                shard = read_shard(results)
        run_options = RunOptions(
            options["threads"],
            options["checked"],
            options["force"] or options["checked"],
            every_s,
            must_fit=results is not None,
            origin=loaded.origin,
            ranks=ranks,
        )
        _run(loaded, _Job(options["out"] or directory, run_options, executor, shard), options)


def _result_directory(text: str) -> Path | None:
    """Return the result directory given as EXPERIMENT; None if it names an experiment."""
    from netsim.experiment import built_in

    return Path(text) if os.path.isdir(text) and text not in built_in() else None


@contextmanager
def _ranks(options: dict[str, Any]) -> Iterator[MpiRanks | None]:
    """Yield the ranks of --mpi, or None without it. Ranks simulate one point at a time."""
    if not options["mpi"]:
        yield None
        return
    if (options["jobs"] or 1) > 1:
        raise InputError("--jobs conflicts with --mpi")
    from netsim.running.mpi import connected

    with connected() as ranks:
        processes = ranks.processes()
        if ranks.rank == 0:  # also with --quiet: mpirun names the process of a rank that dies
            click.echo(processes, err=True)
        yield ranks


def _executor(ranks: MpiRanks | None, options: dict[str, Any], *more: Any) -> Executor:
    """Return the executor of the points; `more` are further arguments of `executor_of`."""
    from netsim.running.executor import Serial
    from netsim.running.sweep import executor_of

    if ranks is not None:
        return Serial(ranks)
    return executor_of(options["jobs"], options["threads"], *more)


def _start_processes() -> list[WorkerProcess]:
    """Start the first processes while this process imports modules; they end with it."""
    from netsim.running.worker_process import WorkerProcess

    return [WorkerProcess(), WorkerProcess()]


@frozen
class _Job:
    """Where results go, and which points run where."""

    directory: Path
    options: RunOptions
    executor: Executor
    shard: Shard | None = None


def _run(experiment: Experiment, job: _Job, options: dict[str, Any]) -> None:
    """Run an experiment, print its results, and exit with the status of the run."""
    ranks = job.options.ranks
    if ranks is not None and ranks.rank > 0:
        from netsim.running.point import follow

        follow(ranks, experiment.points())
        return
    as_json = options["as_json"]
    quiet = options["quiet"] or as_json
    points = experiment.points()
    directory = job.directory
    outcomes, interruption = simulate_points(
        points, directory, job.options, job.executor, job.shard, quiet=options["quiet"]
    )
    if job.shard is not None:
        points = points[job.shard.number - 1 :: job.shard.count]
    if not quiet:
        _print_tables(experiment, outcomes, len(points) > 1)
    picture = _save_picture(directory, outcomes) if options["plot"] else None
    if not quiet and any(outcome.written for outcome in outcomes):
        kept = sum(outcome.kept for outcome in outcomes)
        if kept:
            what = f"{kept} of {len(points)} points" if len(points) > 1 else "the result"
            click.echo(f"kept {what}, complete before (--force reruns)")
        click.echo(f"results in {directory}")
        if picture is not None:
            click.echo(f"picture in {picture}")
    if as_json:
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
        if any(outcome.written for outcome in outcomes):
            click.echo(f"to continue: netsim run {shlex.quote(str(directory))}", err=True)
        raise SystemExit(interruption.exit_code)
    if failed:
        raise SystemExit(FAILED)


def _described(outcome: PointOutcome) -> dict[str, Any]:
    """Return a point as JSON: its row of the sweep table and its result directory."""
    where = outcome.directory if outcome.written else None
    about = {"directory": where, "complete": outcome.complete, "kept": outcome.kept}
    return {**outcome.row, **about, "reason": outcome.error}


def _done(outcomes: list[PointOutcome]) -> int:
    return sum(outcome.complete for outcome in outcomes)


def _print_tables(experiment: Experiment, outcomes: list[PointOutcome], sweep: bool) -> None:
    from netsim.cli.tables import class_table, result_table, sweep_table
    from netsim.common.terminal import show
    from netsim.results import load_result
    from netsim.results.columns import each
    from netsim.results.comparison import ONE_SEED

    axes = list(experiment.axes)
    rows = [_marked(outcome) for outcome in outcomes]
    if sweep:
        show(sweep_table(rows, axes))
        if len({row["seed"] for row in rows}) == 1:
            click.echo(ONE_SEED)
    written = [outcome for outcome in outcomes if outcome.written]
    summaries = [load_result(outcome.directory).summary for outcome in written]
    if summaries and not sweep:
        show(result_table(rows[0], summaries[0], axes))
        for table in (one for sections in each("sections") for one in sections(summaries[0])):
            show(table)
    for note in dict.fromkeys(note for one in summaries for note in one.get("traffic", ())):
        click.echo(note)
    classes = [summary.get("flow_classes", []) for summary in summaries]
    if any(classes):
        show(class_table([outcome.row for outcome in written], classes, axes if sweep else []))
    for more in each("sweep_sections") if sweep else ():
        for table in more([outcome.row for outcome in written], summaries, axes):
            show(table)


def _marked(outcome: PointOutcome) -> dict[str, Any]:
    """Return the printed row of a point, which says whether it was kept."""
    status = outcome.row["status"]
    return {**outcome.row, "status": f"{status}, kept" if outcome.kept else status}


def _save_picture(directory: Path, outcomes: list[PointOutcome]) -> Path | None:
    """Plot the completion times if any flow finished."""
    from netsim.plots import flows, save
    from netsim.results import load_result

    done = [outcome for outcome in outcomes if outcome.row.get("flows_finished")]
    results = [load_result(outcome.directory) for outcome in done]
    return save(flows.fct_cdf(results).figure, directory / "fct_cdf.png") if results else None


# --- netsim merge ---------------------------------------------------------------------------------

MAX_NAMED = 5  # most points to name


@click.command("merge")
@click.argument("shards", type=PATH, nargs=-1, required=True)
@click.option("--out", type=PATH, help="Result directory (SHARD's without .shard).")  # fmt: skip
def merge_command(shards: tuple[Path, ...], out: Path | None) -> None:
    """Merge SHARDS, the result directories of netsim run --shard, into one sweep.

    All shards of the sweep are needed, from the same experiment and the same netsim. The result is
    the same as without shards. The shards are not changed. The exit status is 1 if points without a
    result are left; netsim run with the same --out simulates them.
    """
    from netsim.results.shard import merge, merge_directory

    directory = out or merge_directory(shards)
    missing = merge(shards, directory)
    click.echo(f"results in {directory}")
    if missing:
        more = ", ..." if len(missing) > MAX_NAMED else ""
        click.echo(f"not finished: {', '.join(missing[:MAX_NAMED])}{more}", err=True)
        raise SystemExit(FAILED)
