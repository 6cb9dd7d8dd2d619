"""`netsim workload` of a deployment: what its iterations are made of, and its best batches."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from netsim.errors import InputError
from netsim.terminal import Column, Wide, plain_table
from netsim.units import format_bytes, format_number, written
from netsim.workloads.cli.workload_tables import count_of, duration

if TYPE_CHECKING:
    from rich.table import Table

    from netsim.workloads.inference.deployment import Deployment
    from netsim.workloads.inference.limits import Best, LatencyLimits

BATCHES = (1, 8, 64)
"""Sequences that decode, beside those of the best batch."""


def find_deployment(
    name: str, directory: Path, overrides: Sequence[str]
) -> tuple[Deployment, LatencyLimits] | None:
    """The deployment of a file, a preset or an experiment, with changes; none if it is a job's."""
    from netsim.experiment.document import apply_overrides
    from netsim.workloads.inference.limits import LatencyLimits
    from netsim.workloads.inference.load import deployment_from
    from netsim.workloads.job.keys import read_part

    found = _tree_of(name, directory)
    if found is None:
        return None
    tree, path, key = found
    for part in ("model", "machine", "overheads"):
        if overrides and isinstance(tree.get(part), str):
            tree[part] = {"preset": tree[part]}
    apply_overrides(tree, overrides)
    if not key and not _is_deployment(tree):
        return None
    try:
        limits = read_part(LatencyLimits, tree.pop("limits", {}), "limits")
        return deployment_from(tree, path.stem, path.parent), limits
    except InputError as error:
        raise (error.under(key) if key else error).at(file=str(path)) from None


def _tree_of(name: str, directory: Path) -> tuple[dict[str, Any], Path, str] | None:
    """The table of a deployment, or of a file that may be one, its file, and the table's key."""
    from netsim.experiment import built_in
    from netsim.inputs import is_file, locate, path_problem
    from netsim.workloads.inference import presets
    from netsim.workloads.job.load import read_toml

    here = directory / name if not path_problem(name) else None
    known = built_in() | presets()
    path = here if here is not None and is_file(here) else known.get(name)
    if path is None:
        return None
    tree = read_toml(path)
    if not tree.keys() & {"traffic", "flow_classes"}:
        return tree, path, ""
    try:
        inside = _of_experiment(tree)
    except InputError as error:
        raise error.at(file=str(path)) from None
    if isinstance(inside, str):
        path = locate(inside, path.parent, presets(), "deployment")
        return read_toml(path), path, ""
    return None if inside is None else (dict(inside), path, "traffic.deployment")


def _is_deployment(tree: Mapping[str, Any]) -> bool:
    """Whether a file's table is one of a deployment, not of a job or a plan, which have others."""
    if tree.keys() & {"layout", "precision", "optimizer", "overlap", "site", "plan"}:
        return False
    own = tree.keys() & {"formats", "options", "overheads", "limits"}
    return bool(own) or tree.keys() >= {"model", "machine"}


def _of_experiment(tree: Mapping[str, Any]) -> str | Mapping[str, Any] | None:
    """The deployment of an experiment's traffic, if it has one. Raises InputError if several."""
    given = tree.get("traffic")
    differ: list[tuple[str, Any]] = []
    for number, one in enumerate(given if isinstance(given, list) else [given], 1):
        if not isinstance(one, Mapping) or "deployment" not in one:
            continue
        choices = one["deployment"]
        for inside in choices if isinstance(choices, list) else [choices]:
            if not isinstance(inside, (str, Mapping)):
                message, hint = f"{written(inside)} is no deployment", "a file, a preset or a table"
                raise InputError(message, key="traffic.deployment", hint=hint)
            label = str(one.get("label", f"traffic {number}"))
            if all(inside != other for _, other in differ):
                differ.append((label if isinstance(inside, Mapping) else inside, inside))
    if len(differ) > 1:
        message = f"there are {len(differ)} that differ"
        hint = "one by its name or in a file of its own: " + "; ".join(name for name, _ in differ)
        raise InputError(message, key="traffic.deployment", hint=hint)
    return differ[0][1] if differ else None


def deployment_tables(
    deployment: Deployment, limits: LatencyLimits
) -> Iterator[Table | Wide | str]:
    """What a deployment is, what its iterations are made of, and the best batches by size."""
    from netsim.workloads.inference.limits import best_batch, sizes

    yield _shape(deployment, limits)
    found = list(sizes(deployment))
    if found:
        best = [best_batch(one, limits, phase) for one in found for phase in ("prefill", "decode")]
        fastest = max(best, key=lambda one: (one.phase == "decode", one.tokens_per_s))
        yield _iterations(fastest.deployment, limits, fastest.batch)
        yield _best(best)
    else:
        yield "No number of GPUs of its network can share and hold it."


def deployment_figures(deployment: Deployment, limits: LatencyLimits) -> dict[str, Any]:
    """The same as plain figures: bytes, picoseconds, tokens."""
    from netsim.workloads.inference import iteration_cost, kv_bytes_of_token
    from netsim.workloads.inference.limits import best_batch, sizes

    return {
        **asdict(deployment),
        "limits": asdict(limits),
        "kv_bytes_of_token": kv_bytes_of_token(deployment),
        "sizes": [
            {
                "tp": one.tp,
                "iteration_cost": iteration_cost(one)._asdict(),
                **{
                    phase: best_figures(best_batch(one, limits, phase))
                    for phase in ("prefill", "decode")
                },
            }
            for one in sizes(deployment)
        ],
    }


def best_figures(best: Best | None) -> dict[str, Any] | None:
    """A best batch as plain figures."""
    if best is None:
        return None
    return {
        "tp": best.deployment.tp,
        "weight_bytes": best.weight_bytes,
        "kv_capacity_tokens": best.capacity_tokens,
        "memory_batch": best.memory_batch,
        "time_batch": best.time_batch,
        "batch": best.batch,
        "limit": best.limit,
        "time_ps": best.time_ps,
        "tokens_per_s_of_gpu": best.tokens_per_s,
        "tokens_per_s_of_sm": best.tokens_per_s_sm,
    }


def _shape(deployment: Deployment, limits: LatencyLimits) -> Table:
    from netsim.workloads.inference import kv_bytes_of_token
    from netsim.workloads.inference.deployment import dense_parameters
    from netsim.workloads.job.model import parameters

    model, options, formats = deployment.model, deployment.options, deployment.formats
    table = plain_table("", "", title=deployment.name)
    table.show_header = False
    table.add_row("parameters", count_of(parameters(model).total))
    table.add_row(
        "matrices of a layer", f"{count_of(dense_parameters(model))}, {model.layers} layers"
    )
    kv = kv_bytes_of_token(deployment)
    prompt = format_bytes(round(kv * limits.prompt), 4)
    told = f"{format_bytes(round(kv), 4)} a token, {prompt} of a prompt of {limits.prompt:,}"
    table.add_row("keys and values", told)
    size = f"{options.tp} GPUs" if options.tp else "GPUs searched"
    beside = "beside computing" if options.overlap else "behind computing"
    table.add_row("a copy", f"{size}, all-reduces {beside} ({options.all_reduce})")
    told = ", ".join(f"{name} {value}" for name, value in asdict(formats).items())
    table.add_row("formats", told)
    table.add_row("figures of the machine", deployment.machine.source)
    table.add_row("overheads", deployment.overheads.source)
    return table


def _iterations(deployment: Deployment, limits: LatencyLimits, most: int) -> Wide:
    """A prompt, and batches that decode: how long each part takes by itself."""
    from netsim.workloads.inference import (
        compute_ps,
        iteration_cost,
        iteration_ps,
        network_ps,
        prompt_pairs,
    )
    from netsim.workloads.inference.cost import compute_parts

    cost = iteration_cost(deployment)
    causal = deployment.options.attention == "causal"
    prompt, context = limits.prompt, limits.tokens("decode")
    cases = [("a prompt", prompt, prompt_pairs(causal, 0, prompt), 0)]
    sizes = sorted({*BATCHES, most} - {0})
    cases += [(f"{batch:,} decode", batch, 0, batch) for batch in sizes]
    columns = [Column(f"iteration on {deployment.tp} GPUs", [one[0] for one in cases], left=True)]
    parts: dict[str, list[float]] = {}
    for _, tokens, pairs, batch in cases:
        of = (tokens, pairs, batch, batch * context)
        part = compute_parts(cost, *of)
        for name, value in (
            ("matrices,\ncomputed", part.rows_ps),
            ("matrices,\nread", part.weights_ps),
            ("attention,\ncomputed", part.scores_ps),
            ("attention,\nread", part.kv_ps),
            ("head,\ncomputed", part.head_ps),
            ("head,\nread", part.head_read_ps),
            ("activations", part.activations_ps),
            ("software", part.launches_ps + part.iteration_ps + part.sequences_ps),
            ("at least", part.floor_ps),
            ("all but\nall-reduces", compute_ps(cost, *of)),
            ("all-reduces", network_ps(cost, tokens)),
            ("iteration", iteration_ps(cost, *of)),
        ):
            parts.setdefault(name, []).append(value)
    shown = [(name, values) for name, values in parts.items() if any(values)]
    for rank, (name, values) in enumerate(reversed(shown)):
        columns.insert(1, Column(name, [duration(value) for value in values], rank=rank))
    return Wide(columns, elsewhere="--json has all")


def _best(found: Sequence[Best]) -> Wide:
    """The best batches by phase and number of GPUs, and what bounds them."""
    first = found[0].deployment.machine.sms
    columns = [
        Column("best batch", [one.phase for one in found], left=True),
        Column("GPUs", [str(one.deployment.tp) for one in found]),
        Column("weights\nof a GPU", [format_bytes(round(one.weight_bytes), 4) for one in found], 3),
        Column("tokens of keys\nand values", [f"{one.capacity_tokens:,}" for one in found], 2),
        Column("batch by\nmemory", [f"{one.memory_batch:,}" for one in found]),
        Column("batch by\nobjective", [f"{one.time_batch:,}" for one in found]),
        Column("best", [f"{one.batch:,}" for one in found]),
        Column("limit", [one.limit for one in found], left=True),
        Column("iteration", [duration(one.time_ps) for one in found]),
        Column("tokens/s\nof a GPU", [rate_of(one.tokens_per_s) for one in found]),
    ]
    if first:
        columns.append(
            Column("tokens/s\nof an SM", [rate_of(one.tokens_per_s_sm) for one in found])
        )
    return Wide(columns, elsewhere="--json has all")


def rate_of(value: float) -> str:
    """Tokens per second with four digits; nothing where there are none."""
    return format_number(value) if value else "-"
