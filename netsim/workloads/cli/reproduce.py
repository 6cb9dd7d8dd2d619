"""`netsim reproduce`: figures of the paper, with stated values and ours."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

import click

from netsim.cli.app import FAILED
from netsim.cli.options import FOLDER, PATH, option_seconds, threads_and_jobs
from netsim.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from netsim.common.terminal import Wide
    from netsim.results import Result
    from netsim.workloads.plots.paper_figures import PaperFigure, Sweep, Value

DRAWS = True

MODEL, SIMULATED = "paper_figures", "simulated_figures"
FIGURES = {
    "fig1": MODEL, "fig2": SIMULATED, "fig3a": MODEL, "fig3b": MODEL, "fig3c": MODEL,
    "fig4": MODEL, "fig5": SIMULATED, "fig6": SIMULATED, "exposed": SIMULATED, "lite": "lite",
}  # fmt: skip
"""Figure -> module of netsim.workloads.plots with its function."""

ALL = "all"
QUICK, FULL = "quick", "full"

Settings = tuple[int | None, bool, float | None]
"""Threads, --force, and seconds between checkpoints."""


@click.command("reproduce")
@click.argument("figures", metavar="FIGURE...", nargs=-1, required=True)
@click.option(
    f"--{QUICK}/--{FULL}",
    default=True,
    help="Simulate small networks (minutes, default) or the paper's (hours).",
)
@click.option(
    "--out",
    type=FOLDER,
    help="Output directory (results/reproduce_quick or results/reproduce_full).",
)
@click.option(
    "--results",
    "given",
    type=PATH,
    multiple=True,
    help="Plot these results of netsim run instead of simulating. May be repeated.",
)
@threads_and_jobs
@click.option("--force", is_flag=True, help="Rerun points that already have a complete result.")
@click.option("--checkpoint", metavar="TIME",
              help="Write a checkpoint every TIME, such as 60s, and on Ctrl-C.")  # fmt: skip
def command(
    figures: tuple[str, ...],
    quick: bool,
    out: Path | None,
    given: tuple[Path, ...],
    threads: int | None,
    jobs: int | None,
    force: bool,
    checkpoint: str | None,
) -> None:
    """Reproduce figures of "I've Got 99 Problems But FLOPS Ain't One" (HotNets 2024).

    \b
    fig1     size of the best model against training time, by four scaling laws
    fig2     a GPU's forward and backward pass with its communication, by the model
             and simulated
    fig3a    exposed communication against the rate of the scale-up network
    fig3b    the same for the scale-out network
    fig3c    the same for the wide area
    fig4     candidate topologies: a fat tree, planes, rails with scale-up networks,
             drawn with 128 hosts each; their counts at 800,000 hosts
    fig5     completion times of the pipeline's transfers, simulated
    fig6     the tail of a permutation against load, simulated
    exposed  exposed communication by transport, with simulated transfers
    lite     tokens/s/SM of Lite-GPUs against H100, prefill and decode, and the claim
             that they match or outperform it (HotOS 2025)
    all      all of these

    Each writes FIGURE.png, FIGURE.pdf, the plotted data in FIGURE.csv, and the paper's values and
    ours in FIGURE_stated.csv. Simulations are sweeps in the same directory; after Ctrl-C, the same
    command resumes.
    """
    chosen = _chosen(figures)
    if given and len(chosen) > 1:
        raise InputError("requires a single figure", key="--results")
    useless = {"--force": force, "--threads": threads, "--jobs": jobs, "--checkpoint": checkpoint}
    if given and (conflicts := [name for name, value in useless.items() if value]):
        raise InputError("conflicts with --results", key=conflicts[0])
    form = QUICK if quick else FULL
    directory = out or Path("results") / f"reproduce_{form}"
    settings = (threads, force, option_seconds(checkpoint, "--checkpoint"))
    done: dict[Sweep, list[Result]] = {}
    failed = False
    from netsim.results import results_in
    from netsim.workloads.plots.paper_figures import write

    for name in chosen:
        module = import_module(f"netsim.workloads.plots.{FIGURES[name]}")
        simulations = module.SWEEPS.get(name, ())
        if given and not simulations:
            raise InputError(f"{name} has no simulation results", key="--results")
        results = [point for path in given for point in results_in(path)]
        for sweep in () if given else simulations:
            if sweep not in done:
                done[sweep], some_failed = _simulated(sweep, form, directory, settings, jobs)
                failed = failed or some_failed
            results += done[sweep]
        made: PaperFigure = getattr(module, name)(results)
        _show(name, made)
        for path in write(made, directory, name):
            click.echo(path)
    if failed:
        raise SystemExit(FAILED)


def _chosen(figures: Sequence[str]) -> list[str]:
    """Return the chosen figures in the order of the paper."""
    if unknown := [name for name in figures if name not in (*FIGURES, ALL)]:
        known = ", ".join((*FIGURES, ALL))
        raise InputError(f'unknown figure "{unknown[0]}"', hint=f"one of {known}")
    return [name for name in FIGURES if name in figures or ALL in figures]


def _simulated(
    sweep: Sweep, form: str, out: Path, settings: Settings, jobs: int | None
) -> tuple[list[Result], bool]:
    """Return the complete results of a sweep, simulated if missing, and whether a point failed."""
    from netsim.cli.progress import simulate_points
    from netsim.experiment import Experiment, locate
    from netsim.results import load_result
    from netsim.running.executor import RunOptions
    from netsim.running.sweep import executor_of

    loaded = Experiment.load(locate(sweep.experiment), getattr(sweep, form))
    threads, force, checkpoint_s = settings
    options = RunOptions(threads, force=force, checkpoint_s=checkpoint_s, origin=loaded.origin)
    points, executor = loaded.points(), executor_of(jobs, threads)
    outcomes, interruption = simulate_points(points, out / sweep.name, options, executor)
    errors = [outcome.error for outcome in outcomes if outcome.error]
    for error in errors:
        click.echo(f"error: {error}", err=True)
    complete = [outcome for outcome in outcomes if outcome.complete]
    if interruption():
        click.echo(
            f"interrupted: {len(complete)} of {len(points)} points complete; "
            "the same command resumes",
            err=True,
        )
        raise SystemExit(interruption.exit_code)
    return [load_result(outcome.directory) for outcome in complete], bool(errors)


def _show(name: str, made: PaperFigure) -> None:
    from netsim.cli.tables import comparison_table
    from netsim.common.terminal import show

    click.echo(f"{name}: {made.about}")
    show(stated_table(made.values))
    if made.table is not None:
        show(comparison_table(made.table))
    for note in made.notes:
        click.echo(note)


def stated_table(values: Sequence[Value]) -> Wide:
    from netsim.common.terminal import Column, Wide
    from netsim.units import format_number

    def with_unit(text: str, value: Value) -> str:
        return f"{text} {value.unit}".strip()

    differences = [(one.within and "within") or f"{one.difference:+.1f} %" for one in values]
    ours = [with_unit(format_number(value.ours), value) for value in values]
    columns = [
        Column("value", [value.what for value in values], left=True),
        Column("paper", [with_unit(value.stated, value) for value in values]),
        Column("ours", ours),
        Column("difference", differences),
        Column("section", [value.section for value in values], rank=1, left=True),
    ]
    if any(value.standing for value in values):
        columns.append(Column("status", [value.standing for value in values], left=True))
    return Wide(columns, elsewhere="FIGURE_stated.csv has all")
