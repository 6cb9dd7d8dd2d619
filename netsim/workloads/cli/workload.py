"""`netsim workload`: a training job as a model, and the model against what others measured."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from netsim.cli.options import json_option, print_json
from netsim.errors import InputError, did_you_mean
from netsim.units import written

if TYPE_CHECKING:
    from rich.table import Table

    from netsim.terminal import Wide
    from netsim.workloads.job.job import Job
    from netsim.workloads.job.plan import JobPlan

PAPER, PLAN = "paper", "plan"


@click.command("workload")
@click.argument("job", required=False)
@click.option(
    "--set",
    "overrides",
    multiple=True,
    metavar="PATH=VALUE",
    help="Change a value of the job: --set layout.tp=4. May be given many times.",
)
@click.option("--validate", is_flag=True, help="Compare with times that others measured.")
@click.option(
    "--placement",
    metavar="NAME",
    help="Show which ranks are in which rack instead: consecutive, rail_aligned, paper or random.",
)
@click.option(
    "--out",
    type=click.Path(path_type=Path, dir_okay=False),
    help="With --placement: draw it to this file; its ending chooses the format.",
)
@json_option
def command(
    job: str | None,
    overrides: tuple[str, ...],
    validate: bool,
    placement: str | None,
    out: Path | None,
    as_json: bool,
) -> None:
    """Show JOB, a training job, as a model: memory, times of compute, messages, the step.

    JOB is a file, a preset, or an experiment whose traffic is a training job. "paper" stands for
    the figures of "I've Got 99 Problems But FLOPS Ain't One" (HotNets 2024), with ours beside them,
    "plan", or a file with [site] and [plan], for what a budget buys and which job it comes to.

    Or a deployment, a model that is served, a file, a preset or an experiment's: what its
    iterations take, its best batches.
    "inference" stands for Lite-GPUs against H100, by every option that changes which is better.

    \b
    netsim workload gpt3_175b
    netsim workload llama3_70b --set layout.recompute=full --set machine=a100_80gb
    netsim workload paper
    netsim workload plan --set site.budget_usd=10e9 --set plan.years=1
    netsim workload llama3_70b_lite --set options.tp=8
    netsim workload inference --set model=mixtral_8x7b
    netsim workload --validate
    netsim workload moe --placement paper --out racks.png
    """
    from netsim.terminal import show
    from netsim.workloads.cli import workload_tables as made

    if validate == (job is not None):
        raise InputError("one job, or --validate", hint="netsim workload gpt3_175b")
    if overrides and job in (None, PAPER):
        raise InputError("--set changes a job, and there is none", hint="netsim workload dense")
    tables: Callable[[], Iterator[Table | Wide | str]]
    figures: Callable[[], Any]
    if (placement or out) and (not placement or as_json or job in (None, PAPER)):
        raise InputError("--placement is of one job", hint="netsim workload moe --placement paper")
    if placement is not None and job is not None:
        from netsim.workloads.cli.workload_placement import placement_tables

        tables = partial(placement_tables, find_job(job, Path.cwd(), overrides), placement, out)
    elif job is None:
        tables, figures = validation, validation_figures
    elif job == PAPER:
        tables, figures = made.paper, made.paper_figures
    elif found := of_inference(job, Path.cwd(), overrides):
        tables, figures = found
    elif plan := find_plan(job, Path.cwd(), overrides):
        from netsim.workloads.cli.workload_plan import plan_figures, plan_tables

        tables, figures = partial(plan_tables, plan), partial(plan_figures, plan)
    else:
        one = find_job(job, Path.cwd(), overrides)
        tables, figures = partial(made.job_tables, one), partial(made.job_metrics, one)
    if as_json:
        print_json(figures())
        return
    for line in tables():
        show(line) if not isinstance(line, str) else click.echo(line)


def validation() -> Iterator[Table | Wide | str]:
    """Steps of training, then iterations of inference."""
    from netsim.workloads.cli import workload_measured, workload_tables

    yield from workload_tables.validation()
    yield from workload_measured.inference_validation()


def validation_figures() -> dict[str, Any]:
    """The same as plain figures."""
    from netsim.workloads.cli import workload_measured, workload_tables

    inference = workload_measured.inference_figures()
    return {**workload_tables.validation_figures(), "inference": inference}


def of_inference(
    name: str, directory: Path, overrides: Sequence[str]
) -> tuple[Callable[[], Iterator[Table | Wide | str]], Callable[[], Any]] | None:
    """Tables and figures of inference; none if the name stands for something else."""
    from netsim.workloads.cli import workload_deployment, workload_inference

    if name == workload_inference.INFERENCE:
        compared = workload_inference.find_comparison(overrides)
        tables = partial(workload_inference.comparison_tables, compared)
        return tables, partial(workload_inference.comparison_figures, compared)
    if found := workload_deployment.find_deployment(name, directory, overrides):
        tables = partial(workload_deployment.deployment_tables, *found)
        return tables, partial(workload_deployment.deployment_figures, *found)
    return None


def find_plan(name: str, directory: Path, overrides: Sequence[str]) -> JobPlan | None:
    """The plan that a name or a file stands for, with changes; none if it is one of a job."""
    from netsim.experiment.document import apply_overrides
    from netsim.inputs import is_file, path_problem
    from netsim.workloads.job.load import read_toml
    from netsim.workloads.job.plan import is_plan, make_plan

    path = directory / name if not path_problem(name) else None
    found = path is not None and is_file(path)
    tree = read_toml(path) if path is not None and found else {}
    if not is_plan(tree) and (found or name != PLAN):
        return None
    apply_overrides(tree, overrides)
    place = path.parent if path is not None and found else directory
    try:
        return make_plan(tree, name, place)
    except InputError as error:
        raise error.at(file=name) from None


def find_job(name: str, directory: Path, overrides: Sequence[str] = ()) -> Job:
    """The job of a file, a preset, or an experiment with training traffic, with changes."""
    from netsim.experiment import built_in
    from netsim.experiment.document import apply_overrides
    from netsim.inputs import is_file
    from netsim.workloads.job import presets
    from netsim.workloads.job.load import job_from, locate_job, read_toml

    known = presets() | built_in()
    path = known[name] if name in known and not is_file(directory / name) else None
    try:
        path = path or locate_job(name, directory)
    except InputError as error:
        if error.file != name:
            raise
        hint = did_you_mean(name, (PAPER, PLAN, *known))
        raise InputError("there is no such job", file=name, hint=hint) from None
    tree, key = read_toml(path), ""
    if "traffic" in tree or "flow_classes" in tree:
        key, job = _job_of(tree, path)
        if isinstance(job, str):
            path, key = locate_job(job, path.parent), ""
            job = read_toml(path)
        if not isinstance(job, dict):
            message, hint = f"{written(job)} is no job", "a file, a preset or a table"
            raise InputError(message, file=str(path), key=key, hint=hint)
        tree = job
    if overrides:
        for part in ("model", "machine"):
            if isinstance(tree.get(part), str):
                tree[part] = {"preset": tree[part]}
        apply_overrides(tree, overrides)
    try:
        return job_from(tree, path.stem, path.parent)
    except InputError as error:
        raise (error.under(key) if key else error).at(file=str(path)) from None


def _job_of(experiment: Mapping[str, Any], path: Path) -> tuple[str, Any]:
    """The first job of an experiment's traffic, or of that of its classes, and its key."""
    traffic = {"traffic": experiment.get("traffic")}
    classes = experiment.get("flow_classes")
    if isinstance(classes, Mapping):
        for name, one in classes.items():
            if isinstance(one, Mapping):
                traffic[f"flow_classes.{name}.traffic"] = one.get("traffic")
    for key, table in traffic.items():
        if isinstance(table, Mapping) and "job" in table:
            return f"{key}.job", table["job"]
    hint = 'kind = "training" has one; a file of a job has tables such as [model]'
    raise InputError("has no job", file=str(path), key="traffic", hint=hint, code="missing")
