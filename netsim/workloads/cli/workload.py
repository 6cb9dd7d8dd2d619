"""`netsim workload`: training jobs and served models by formula."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from netsim.cli.options import json_option, print_json
from netsim.errors import InputError, did_you_mean
from netsim.renames import RENAMED, new_name
from netsim.units import written

if TYPE_CHECKING:
    from rich.table import Table

    from netsim.terminal import Wide
    from netsim.workloads.inference.deployment import Deployment
    from netsim.workloads.inference.limits import LatencyLimits
    from netsim.workloads.job.job import Job
    from netsim.workloads.job.plan import JobPlan

DRAWS = True

PLAN = "plan"

Command = TypeVar("Command", bound=Callable[..., Any])


class WorkloadGroup(click.Group):
    """Rejects former names and jobs without a subcommand; names the right command."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if args and args[0] not in (*self.commands, *ctx.help_option_names):
            old = f"workload {args[0]}"
            own = new_name(args[0], self.commands) or f"show {args[0]}"
            write = RENAMED["subcommand"].get(old, f"workload {own}")
            raise InputError(f"unknown subcommand {written(args[0])}", hint=f"write netsim {write}")
        return super().parse_args(ctx, args)


def set_option(example: str) -> Callable[[Command], Command]:
    """The option --set of a command."""
    return click.option(
        "--set",
        "overrides",
        multiple=True,
        metavar="PATH=VALUE",
        help=f"Change a value: --set {example}. May be repeated.",
    )


@click.group("workload", cls=WorkloadGroup)
def command() -> None:
    """Model training jobs and served models by formula."""


@command.command("show")
@click.argument("job")
@set_option("layout.tp=4")
@click.option(
    "--placement",
    metavar="NAME",
    help="Show which ranks are in which rack instead: consecutive, rail_aligned, paper or random.",
)
@click.option(
    "--out",
    type=click.Path(path_type=Path, dir_okay=False),
    help="With --placement: save a plot to this file; its suffix selects the format.",
)
@json_option
def show_job(
    job: str, overrides: tuple[str, ...], placement: str | None, out: Path | None, as_json: bool
) -> None:
    """Show JOB: memory, compute times, messages and step time of a training job.

    JOB can also be a deployment (a served model): its iteration times and best batches. Both are
    given as a file, a preset, or an experiment that contains one.

    \b
    netsim workload show gpt3_175b
    netsim workload show llama3_70b --set layout.recompute=full --set machine=a100_80gb
    netsim workload show llama3_70b_lite --set options.tp=8
    netsim workload show moe --placement paper --out racks.png
    """
    from netsim.workloads.cli import workload_inference, workload_job

    if out and not placement:
        raise InputError("--out requires --placement", code="conflict")
    if placement:
        if as_json:
            raise InputError("--placement conflicts with --json", code="conflict")
        found = find_job(job, Path.cwd(), overrides)
        show_lines(workload_job.placement_tables(found, placement, out))
    elif served := find_deployment(job, Path.cwd(), overrides):
        if as_json:
            print_json(workload_inference.deployment_json(*served))
        else:
            show_lines(workload_inference.deployment_tables(*served))
    else:
        found = find_job(job, Path.cwd(), overrides)
        if as_json:
            print_json(workload_job.job_json(found))
        else:
            show_lines(workload_job.job_tables(found))


@command.command("paper")
@json_option
def paper(as_json: bool) -> None:
    """Compare the 86 numbers of "I've Got 99 Problems But FLOPS Ain't One" with netsim's."""
    from netsim.workloads.cli import workload_job

    if as_json:
        print_json(workload_job.paper_json())
    else:
        show_lines(workload_job.paper_tables())


@command.command("plan")
@click.argument("plan", metavar="[FILE]", default=PLAN)
@set_option("site.budget_usd=10e9")
@json_option
def plan_job(plan: str, overrides: tuple[str, ...], as_json: bool) -> None:
    """Show what a budget buys and the training job that fits it.

    FILE has the tables [site] and [plan]; without it, the paper's are used.

    \b
    netsim workload plan --set site.budget_usd=10e9 --set plan.years=1
    """
    from netsim.workloads.cli import workload_job

    found = find_plan(plan, Path.cwd(), overrides)
    if as_json:
        print_json(workload_job.plan_json(found))
    else:
        show_lines(workload_job.plan_tables(found))


@command.command("lite-gpu")
@set_option("model=mixtral_8x7b")
@json_option
def lite_gpu(overrides: tuple[str, ...], as_json: bool) -> None:
    """Compare Lite-GPUs with the H100 under every assumption that changes which is better.

    --set changes `model`, [limits], [formats], [options] and [overheads].
    """
    from netsim.workloads.cli import workload_inference

    found = workload_inference.find_comparison(overrides)
    if as_json:
        print_json(workload_inference.comparison_json(found))
    else:
        show_lines(workload_inference.comparison_tables(found))


def show_lines(lines: Iterable[Table | Wide | str]) -> None:
    """Print tables and lines of text."""
    from netsim.terminal import show

    for line in lines:
        show(line) if not isinstance(line, str) else click.echo(line)


def find_plan(name: str, directory: Path, overrides: Sequence[str]) -> JobPlan:
    """Return the plan of a file, or the paper's, with overrides."""
    from netsim.experiment.document import apply_overrides
    from netsim.inputs import locate
    from netsim.workloads.job.load import read_toml
    from netsim.workloads.job.plan import is_plan, make_plan

    path = None if name == PLAN else locate(name, directory, {}, "file")
    tree = read_toml(path) if path else {}
    if path and not is_plan(tree):
        raise InputError("missing [site] or [plan]", file=name, code="missing")
    apply_overrides(tree, overrides)
    try:
        return make_plan(tree, name, path.parent if path else directory)
    except InputError as error:
        raise error.at(file=name) from None


def find_job(name: str, directory: Path, overrides: Sequence[str] = ()) -> Job:
    """Return the job of a file, a preset, or an experiment with training traffic."""
    from netsim.experiment import built_in
    from netsim.experiment.document import apply_overrides
    from netsim.inputs import is_file
    from netsim.workloads.job import presets
    from netsim.workloads.job.load import job_from, locate_job, read_toml
    from netsim.workloads.job.plan import is_plan

    known = presets() | built_in()
    path = known[name] if name in known and not is_file(directory / name) else None
    try:
        path = path or locate_job(name, directory)
    except InputError as error:
        if error.file != name:
            raise
        hint = did_you_mean(name, known)
        raise InputError("unknown job", file=name, hint=hint, code="unknown_value") from None
    tree, key = read_toml(path), ""
    if is_plan(tree):
        raise InputError("is a plan", file=name, hint=f"write netsim workload plan {name}")
    if "traffic" in tree or "flow_classes" in tree:
        key, job = _job_in(tree, path)
        if isinstance(job, str):
            path, key = locate_job(job, path.parent), ""
            job = read_toml(path)
        if not isinstance(job, dict):
            message, hint = f"{written(job)} is not a job", "a file, a preset or a table"
            raise InputError(message, file=str(path), key=key, hint=hint, code="wrong_type")
        tree = job
    _expand_presets(tree, ("model", "machine"), overrides)
    apply_overrides(tree, overrides)
    try:
        return job_from(tree, path.stem, path.parent)
    except InputError as error:
        raise (error.under(key) if key else error).at(file=str(path)) from None


def _expand_presets(tree: dict[str, Any], names: Sequence[str], overrides: Sequence[str]) -> None:
    """Write preset names as tables, so that overrides can change their values."""
    for name in names if overrides else ():
        if isinstance(tree.get(name), str):
            tree[name] = {"preset": tree[name]}


def _job_in(experiment: Mapping[str, Any], path: Path) -> tuple[str, Any]:
    """Return the key and the value of the first job in an experiment's traffic."""
    traffic = {"traffic": experiment.get("traffic")}
    classes = experiment.get("flow_classes")
    if isinstance(classes, Mapping):
        for name, one in classes.items():
            if isinstance(one, Mapping):
                traffic[f"flow_classes.{name}.traffic"] = one.get("traffic")
    for key, table in traffic.items():
        if isinstance(table, Mapping) and "job" in table:
            return f"{key}.job", table["job"]
    hint = 'traffic of kind "training" has one; a job file has tables such as [model]'
    raise InputError("missing job", file=str(path), key="traffic", hint=hint, code="missing")


def find_deployment(
    name: str, directory: Path, overrides: Sequence[str]
) -> tuple[Deployment, LatencyLimits] | None:
    """Return the deployment of a file, a preset or an experiment; None if it has none."""
    from netsim.experiment.document import apply_overrides
    from netsim.workloads.inference.limits import LatencyLimits
    from netsim.workloads.inference.load import deployment_from
    from netsim.workloads.job.keys import read_part

    found = _deployment_tree(name, directory)
    if found is None:
        return None
    tree, path, key = found
    _expand_presets(tree, ("model", "machine", "overheads"), overrides)
    apply_overrides(tree, overrides)
    if not key and not _is_deployment(tree):
        return None
    try:
        limits = read_part(LatencyLimits, tree.pop("limits", {}), "limits")
        return deployment_from(tree, path.stem, path.parent), limits
    except InputError as error:
        raise (error.under(key) if key else error).at(file=str(path)) from None


def _deployment_tree(name: str, directory: Path) -> tuple[dict[str, Any], Path, str] | None:
    """Return a table that may be a deployment, its file, and its key in that file."""
    from netsim.experiment import built_in
    from netsim.inputs import is_file, locate, path_problem
    from netsim.workloads.inference import presets
    from netsim.workloads.job.load import read_toml

    local = directory / name if not path_problem(name) else None
    known = built_in() | presets()
    path = local if local is not None and is_file(local) else known.get(name)
    if path is None:
        return None
    tree = read_toml(path)
    if not tree.keys() & {"traffic", "flow_classes"}:
        return tree, path, ""
    try:
        inner = _deployment_in(tree)
    except InputError as error:
        raise error.at(file=str(path)) from None
    if isinstance(inner, str):
        path = locate(inner, path.parent, presets(), "deployment")
        return read_toml(path), path, ""
    return None if inner is None else (dict(inner), path, "traffic.deployment")


def _is_deployment(tree: Mapping[str, Any]) -> bool:
    """Return whether a table is a deployment, not a job or a plan."""
    if tree.keys() & {"layout", "precision", "optimizer", "overlap", "site", "plan"}:
        return False
    own = tree.keys() & {"formats", "options", "overheads", "limits"}
    return bool(own) or tree.keys() >= {"model", "machine"}


def _deployment_in(tree: Mapping[str, Any]) -> str | Mapping[str, Any] | None:
    """Return the deployment of an experiment's traffic, if any. Several are an InputError."""
    traffic, key = tree.get("traffic"), "traffic.deployment"
    different: list[tuple[str, Any]] = []
    for number, one in enumerate(traffic if isinstance(traffic, list) else [traffic], 1):
        if not isinstance(one, Mapping) or "deployment" not in one:
            continue
        choices = one["deployment"]
        for inner in choices if isinstance(choices, list) else [choices]:
            if not isinstance(inner, (str, Mapping)):
                message = f"{written(inner)} is not a deployment"
                hint = "a file, a preset or a table"
                raise InputError(message, key=key, hint=hint, code="wrong_type")
            label = str(one.get("label", f"traffic {number}"))
            if all(inner != other for _, other in different):
                different.append((label if isinstance(inner, Mapping) else inner, inner))
    if len(different) > 1:
        message = f"{len(different)} different deployments"
        hint = "show one by name or from its own file: " + "; ".join(name for name, _ in different)
        raise InputError(message, key=key, hint=hint)
    return different[0][1] if different else None
