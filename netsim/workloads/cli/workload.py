"""`netsim workload`: training jobs and served models by formula."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from netsim.cli.options import FILE, json_option, set_option, show_found, show_lines
from netsim.errors import InputError, errors_at
from netsim.units import written

if TYPE_CHECKING:
    from netsim.workloads.inference.deployment import Deployment
    from netsim.workloads.job.job import Job
    from netsim.workloads.job.paper import JobPlan

DRAWS = True

PLAN = "plan"


class WorkloadGroup(click.Group):
    """Rejects jobs without a subcommand; names the right command."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if args and args[0] not in (*self.commands, *ctx.help_option_names):
            hint = f"write netsim workload show {args[0]}"
            raise InputError(f"unknown subcommand {written(args[0])}", hint=hint)
        return super().parse_args(ctx, args)


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
    type=FILE,
    help="With --placement: save a plot to this file; its suffix selects the format.",
)
@json_option
def show_job(
    job: str, overrides: tuple[str, ...], placement: str | None, out: Path | None, as_json: bool
) -> None:
    """Show JOB: memory, compute times, messages and step time of a training job.

    JOB can also be a deployment (a served model): its iteration times and best batches. Both are
    given as a file, a preset, or an experiment that contains one (EXPERIMENT:LABEL if several).

    \b
    netsim workload show gpt3_175b
    netsim workload show llama3_70b --set layout.recompute=full --set machine=a100_80gb
    netsim workload show llama3_70b_lite --set options.tp=8
    netsim workload show own_cluster:dense
    netsim workload show moe --placement paper --out racks.png
    """
    from netsim.workloads.cli import workload_inference, workload_job
    from netsim.workloads.job.job import Job

    if out and not placement:
        raise InputError("--out requires --placement", code="conflict")
    if placement and as_json:
        raise InputError("--placement conflicts with --json", code="conflict")
    found = find(job, Path.cwd(), overrides)
    if not isinstance(found, Job):
        if placement:
            raise InputError("is a deployment: only jobs have a placement", file=job)
        made = workload_inference.deployment_tables, workload_inference.deployment_json
        show_found(found, as_json, *made)
    elif placement:
        show_lines(workload_job.placement_tables(found, placement, out))
    else:
        show_found(found, as_json, workload_job.job_tables, workload_job.job_json)


@command.command("search")
@click.argument("job")
@set_option("machine=h100_80gb")
@click.option("--gpus", multiple=True, type=click.IntRange(1, 10_000_000),
              help="Number of GPUs; may be repeated. Default: as in JOB.")  # fmt: skip
@click.option(
    "--vary",
    multiple=True,
    metavar="KEY=[VALUES]",
    help="Values of a key of [layout], instead of the default ones: --vary pp=[4,8,16].",
)
@click.option("--usd-per-gpu-hour", type=click.FloatRange(0), help="Price, for the cost in USD.")
@click.option("--top", type=click.IntRange(1), default=20, show_default=True,
              help="Layouts to print.")  # fmt: skip
@click.option("--csv", "csv_file", type=FILE, help="Write all as CSV.")  # fmt: skip
@json_option
def search(
    job: str,
    overrides: tuple[str, ...],
    gpus: tuple[int, ...],
    vary: tuple[str, ...],
    **output: Any,
) -> None:
    """Compare layouts of JOB by formula: memory, step time, MFU and cost, the fastest first.

    Varies tp, pp, ep, schedule, virtual_stages, micro_batch, zero and recompute; cp stays as in JOB
    unless varied, sp is on with tp, and dp uses the remaining GPUs. Layouts that do not fit or
    divide are counted, with the reason.

    \b
    netsim workload search llama3_70b --gpus 512 --gpus 1024
    netsim workload search deepseek_v3 --vary zero=1 --vary ep=[8,64] --usd-per-gpu-hour 2.5
    """
    import sys

    from netsim.cli.options import print_json
    from netsim.common.writing import write_text
    from netsim.workloads.cli import workload_job as tables
    from netsim.workloads.job.job import Job
    from netsim.workloads.job.step import search_layouts

    found = find(job, Path.cwd(), overrides, fits=False)
    if not isinstance(found, Job):
        raise InputError("is a deployment: only jobs have layouts", file=job)
    usd = output["usd_per_gpu_hour"]
    with click.progressbar(length=1, label="layouts", file=sys.stderr) as bar:

        def note(done: int, of: int) -> None:
            bar.length = of
            bar.update(done - bar.pos)

        layouts = search_layouts(found, gpus, tables.varied(vary), note)
    if output["csv_file"]:
        write_text(output["csv_file"], tables.search_csv(layouts, usd))
    if output["as_json"]:
        refused = [
            {"key": key, "reason": reason, "layouts": n}
            for (key, reason), n in layouts.refused.items()
        ]
        print_json({"layouts": tables.search_rows(layouts, usd), "refused": refused})
        return
    show_lines(tables.search_tables(layouts, output["top"], usd))


@command.command("paper")
@json_option
def paper(as_json: bool) -> None:
    """Compare the 86 numbers of "I've Got 99 Problems But FLOPS Ain't One" with netsim's."""
    from netsim.workloads.cli.workload_job import paper_json, paper_tables
    from netsim.workloads.job.paper import figures

    show_found(figures(), as_json, paper_tables, paper_json)


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
    from netsim.workloads.cli.workload_job import plan_json, plan_tables

    show_found(find_plan(plan, Path.cwd(), overrides), as_json, plan_tables, plan_json)


@command.command("lite-gpu")
@set_option("model=mixtral_8x7b")
@json_option
def lite_gpu(overrides: tuple[str, ...], as_json: bool) -> None:
    """Compare Lite-GPUs with the H100 under every assumption that affects which is better.

    --set changes `model`, [limits], [formats], [options] and [overheads].
    """
    from netsim.workloads.cli.workload_inference import (
        comparison_json,
        comparison_tables,
        find_comparison,
    )

    show_found(find_comparison(overrides), as_json, comparison_tables, comparison_json)


def find_plan(name: str, directory: Path, overrides: Sequence[str]) -> JobPlan:
    """Return the plan of a file, or the paper's, with overrides."""
    from netsim.common.inputs import locate, read_toml
    from netsim.workloads.job.load import changed
    from netsim.workloads.job.paper import is_plan, make_plan

    path = None if name == PLAN else locate(name, directory, {}, "file")
    tree = read_toml(path) if path else {}
    if path and not is_plan(tree):
        raise InputError("missing [site] or [plan]", file=name, code="missing")
    with errors_at(file=name):
        return make_plan(changed(tree, overrides), name, path.parent if path else directory)


def find(
    name: str, directory: Path, overrides: Sequence[str] = (), *, fits: bool = True
) -> Job | Deployment:
    """Return the job or deployment of a file, a preset, or an experiment; `name` may end in ":" and
    the label of one of several in an experiment."""
    from netsim.common.inputs import locate, read_toml
    from netsim.experiment import built_in
    from netsim.workloads.inference.deployment import deployment_from
    from netsim.workloads.job.load import changed, job_from, presets
    from netsim.workloads.job.paper import is_plan

    known = {**presets(), **presets("deployments"), **built_in()}
    name, _, label = name.partition(":")
    path = locate(name, directory, known, "job")
    tree, key = read_toml(path), ""
    if is_plan(tree):
        raise InputError("is a plan", file=name, hint=f"write netsim workload plan {name}")
    with errors_at(file=path):
        if tree.keys() & {"traffic", "flow_classes"}:
            key, inner = _in_experiment(tree, label)
            # Overrides for `netsim run` also work here: --set traffic.job.layout.tp=4.
            overrides = [text.removeprefix(f"{key}.") for text in overrides]
            if isinstance(inner, str):
                kind = key.rpartition(".")[2]
                path, key = locate(inner, path.parent, presets(f"{kind}s"), kind), ""
                inner = read_toml(path)
            tree = dict(inner)
        elif label:
            message = f"has no {written(label)}: only an experiment has labels"
            raise InputError(message, code="unknown_value")
    tree = changed(tree, overrides)
    try:
        if key.endswith("deployment") or (not key.endswith("job") and _is_deployment(tree)):
            return deployment_from(tree, path.stem, path.parent)
        return job_from(tree, path.stem, path.parent, fits=fits)
    except InputError as error:
        raise (error.under(key) if key else error).at(file=str(path)) from None


def _is_deployment(tree: Mapping[str, Any]) -> bool:
    if tree.keys() & {"layout", "precision", "optimizer", "overlap"}:
        return False
    own = tree.keys() & {"formats", "options", "overheads", "limits"}
    return bool(own) or tree.keys() >= {"model", "machine"}


def _in_experiment(tree: Mapping[str, Any], label: str) -> tuple[str, Any]:
    """Return the key and value of an experiment's job or deployment, by label if it has several."""
    found: list[tuple[str, str, Any]] = []
    for place, own, traffic in _traffic_tables(tree):
        for kind in ("job", "deployment"):
            values = traffic.get(kind, [])
            for value in values if isinstance(values, list) else [values]:
                if not isinstance(value, (str, Mapping)):
                    message = f"{written(value)} is not a {kind}"
                    hint = "a file, a preset or a table"
                    raise InputError(message, key=f"{place}.{kind}", hint=hint, code="wrong_type")
                if all(value != other for _, _, other in found):
                    name = value if isinstance(value, str) else own
                    found.append((f"{place}.{kind}", name, value))
    if not found:
        hint = 'traffic of kind "training" has one; a job file has tables such as [model]'
        raise InputError("missing job", key="traffic", hint=hint, code="missing")
    chosen = [one for one in found if label in ("", one[1])]
    if len(chosen) != 1:
        names = ", ".join(name for _, name, _ in found)
        message = f"{len(found)} different ones" if chosen else f"unknown {written(label)}"
        raise InputError(message, key=found[0][0], hint=f"add a colon and one of {names}")
    ((key, _, value),) = chosen
    return key, value


def _traffic_tables(tree: Mapping[str, Any]) -> Iterator[tuple[str, str, Mapping[str, Any]]]:
    """Yield key, label and content of each table of traffic in an experiment."""
    traffic = {"traffic": tree.get("traffic")}
    classes = tree.get("flow_classes")
    for name, one in classes.items() if isinstance(classes, Mapping) else ():
        if isinstance(one, Mapping):
            traffic[f"flow_classes.{name}.traffic"] = one.get("traffic")
    for key, tables in traffic.items():
        for number, table in enumerate(tables if isinstance(tables, list) else [tables], 1):
            if isinstance(table, Mapping):
                yield key, str(table.get("label", f"{key} {number}")), table
