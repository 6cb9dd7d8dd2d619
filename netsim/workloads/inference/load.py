"""Deployments from TOML files, presets and tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from netsim.errors import InputError, raise_all
from netsim.inputs import locate
from netsim.limits import INT64
from netsim.units import format_bytes
from netsim.workloads.inference.cost import iteration_ps, prompt_pairs
from netsim.workloads.inference.deployment import (
    Deployment,
    Formats,
    Options,
    Overheads,
    kv_parts,
    on_gpus,
)
from netsim.workloads.inference.roofline import iteration_cost, kv_capacity_tokens, weight_bytes
from netsim.workloads.job.checks import model_errors
from netsim.workloads.job.load import presets as job_presets
from netsim.workloads.job.load import read_parts, read_toml
from netsim.workloads.job.machine import Machine
from netsim.workloads.job.model import Model

PRESETS = Path(__file__).with_name("presets")

PARTS: dict[str, type[Any]] = {
    "model": Model,
    "machine": Machine,
    "formats": Formats,
    "options": Options,
    "overheads": Overheads,
}
"""The tables of a deployment's file."""

Tree = Mapping[str, Any]


def presets(kind: str = "deployments") -> dict[str, Path]:
    """Files of presets by name; `kind` is "deployments" or "overheads"."""
    return {path.stem: path for path in sorted((PRESETS / kind).glob("*.toml"))}


def known_parts() -> dict[str, dict[str, Path]]:
    """Presets of the parts that have some."""
    of_jobs = {"model": job_presets("models"), "machine": job_presets("machines")}
    return {**of_jobs, "overheads": presets("overheads")}


def load_deployment(deployment: str | Path | Tree, directory: Path | None = None) -> Deployment:
    """A deployment from its file, the name of a preset, or a table; paths are of `directory`.

    Raises
    ------
    InputError
        with everything that is wrong: unknown keys, and what does not divide, contradicts itself
        or needs more memory than the GPUs have.
    """
    here = directory or Path.cwd()
    if isinstance(deployment, Mapping):
        return deployment_from(deployment, "", here)
    path = locate(str(deployment), here, presets(), "deployment")
    try:
        return deployment_from(read_toml(path), path.stem, path.parent)
    except InputError as error:
        raise error.at(file=str(path)) from None


def deployment_from(tree: Tree, name: str, directory: Path) -> Deployment:
    """The deployment of a table."""
    parts = read_parts(tree, PARTS, known_parts(), directory)
    found = Deployment(name=tree.get("name", name) or "deployment", **parts)
    raise_all(mistakes(found))
    return found


def mistakes(deployment: Deployment) -> list[InputError]:
    """Everything that is wrong with a deployment whose keys are right one by one."""
    found = [*model_errors(deployment.model), *_of_machine(deployment)]
    if not found and deployment.options.tp:
        found += _shared(deployment)
    if not found and deployment.options.tp:
        found += _fits(deployment)
    if not found and deployment.options.tp:
        found += _countable(deployment)
    return found


def _of_machine(deployment: Deployment) -> Iterator[InputError]:
    machine = deployment.machine
    try:
        machine.matrix.rate(deployment.formats.compute)
    except InputError as error:
        yield error.at(key="formats.compute")
    if machine.memory_rate is None:
        hint = 'how fast weights are read: "3350GB/s"'
        yield InputError("is missing", key="machine.memory_rate", hint=hint)


def _shared(deployment: Deployment) -> Iterator[InputError]:
    tp, model = deployment.tp, deployment.model
    most = deployment.machine.domain_gpus
    if tp > most:
        hint = f"at most {most}, machine.domain_gpus"
        yield InputError(f"no scale-up network joins {tp} GPUs", key="options.tp", hint=hint)
    if model.heads % tp:
        hint = f"a divisor of {model.heads}"
        message = f"{tp} GPUs do not share {model.heads} heads"
        yield InputError(message, key="options.tp", hint=hint)
    parts = kv_parts(model)
    if deployment.options.kv_replicated and tp % parts and parts % tp:
        message = f"{tp} GPUs do not share {parts} heads of keys and values"
        hint = f"a divisor or a multiple of {parts}, or kv_replicated = false"
        yield InputError(message, key="options.tp", hint=hint)


def _fits(deployment: Deployment) -> Iterator[InputError]:
    if kv_capacity_tokens(deployment):
        return
    need = format_bytes(round(weight_bytes(deployment)), 4)
    have = format_bytes(round(deployment.machine.memory * deployment.options.memory_share), 4)
    message = f"{need} of weights and one token's keys and values do not fit a GPU's {have}"
    yield InputError(message, key="options.tp", hint="more GPUs, or smaller formats")


def _countable(deployment: Deployment) -> Iterator[InputError]:
    """The longest iteration that memory allows fits an int64 of picoseconds."""
    cost, most = iteration_cost(deployment), kv_capacity_tokens(deployment)
    causal = deployment.options.attention == "causal"
    prompt = iteration_ps(cost, most, prompt_pairs(causal, 0, most), 0, 0)
    if max(prompt, iteration_ps(cost, most, 0, most, most)) < INT64:
        return
    message = f"an iteration of the {most:,} tokens that fit the memory lasts longer than 53 days"
    hint = "larger efficiencies, a faster machine, or less memory"
    yield InputError(message, key="overheads", hint=hint)


def with_tp(deployment: Deployment, tp: int) -> Deployment | None:
    """The same on `tp` GPUs; None if they cannot share it, or it does not fit."""
    changed = on_gpus(deployment, tp)
    return None if mistakes(changed) else changed
