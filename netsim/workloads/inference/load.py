"""Deployments from TOML files, presets and tables."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from netsim.errors import InputError, raise_all
from netsim.limits import INT64
from netsim.units import format_bytes
from netsim.workloads.inference.deployment import (
    Deployment,
    Formats,
    LatencyLimits,
    Options,
    Overheads,
    kv_parts,
    on_gpus,
)
from netsim.workloads.inference.roofline import (
    decode_ps,
    kv_capacity_tokens,
    prefill_ps,
    weight_bytes,
)
from netsim.workloads.job.load import Tree, extended, load, read_parts
from netsim.workloads.job.machine import Machine
from netsim.workloads.job.model import Model

PARTS: dict[str, type[Any]] = {
    "model": Model,
    "machine": Machine,
    "formats": Formats,
    "options": Options,
    "overheads": Overheads,
    "limits": LatencyLimits,
}
"""Tables of a deployment's file."""


def load_deployment(deployment: str | Path | Tree, directory: Path | None = None) -> Deployment:
    """Return a deployment from a file, a preset's name, or a table; paths are below `directory`.

    Raises InputError with all errors.
    """
    return load(deployment, "deployment", deployment_from, directory)


def deployment_from(tree: Tree, name: str, directory: Path) -> Deployment:
    """Return the deployment of a table."""
    tree = extended(tree, "deployment", directory)
    parts = read_parts(tree, PARTS, directory)
    found = Deployment(name=tree.get("name", name) or "deployment", **parts)
    raise_all(deployment_errors(found))
    return found


def deployment_errors(deployment: Deployment) -> list[InputError]:
    """Return all errors of a deployment whose keys are individually valid."""
    found = [*_machine_errors(deployment)]
    for check in (_divides, _fits, _countable) if deployment.options.tp else ():
        found = found or [*check(deployment)]
    return found


def _machine_errors(deployment: Deployment) -> Iterator[InputError]:
    machine = deployment.machine
    try:
        machine.matrix.rate(deployment.formats.compute)
    except InputError as error:
        yield error.at(key="formats.compute")
    if machine.memory_rate is None:
        hint = 'write it like "3350GB/s"'
        yield InputError("missing", key="machine.memory_rate", hint=hint, code="missing")


def _divides(deployment: Deployment) -> Iterator[InputError]:
    tp, model = deployment.tp, deployment.model
    largest = deployment.machine.domain_gpus
    if tp > largest:
        message = f"{tp} GPUs exceed machine.domain_gpus"
        yield InputError(message, key="options.tp", hint=f"at most {largest}")
    if model.heads % tp:
        hint = f"a divisor of {model.heads}"
        message = f"{tp} does not divide {model.heads} heads"
        yield InputError(message, key="options.tp", hint=hint)
    parts = kv_parts(model)
    if deployment.options.kv_replicated and tp % parts and parts % tp:
        message = f"{tp} is neither a divisor nor a multiple of {parts} KV heads"
        hint = "or set kv_replicated = false"
        yield InputError(message, key="options.tp", hint=hint)


def _fits(deployment: Deployment) -> Iterator[InputError]:
    if kv_capacity_tokens(deployment):
        return
    need = format_bytes(round(weight_bytes(deployment)), 4)
    have = format_bytes(round(deployment.machine.memory * deployment.options.memory_share), 4)
    message = f"{need} of weights and the KV cache of a token exceed a GPU's {have}"
    yield InputError(message, key="options.tp", hint="use more GPUs, or smaller formats")


def _countable(deployment: Deployment) -> Iterator[InputError]:
    """Check that the longest iteration fits an int64 of picoseconds."""
    largest = kv_capacity_tokens(deployment)
    if max(prefill_ps(deployment, largest), decode_ps(deployment, largest, 1)) < INT64:
        return
    message = f"an iteration of the {largest:,} tokens that fit in memory exceeds 53 days"
    hint = "use larger efficiencies, a faster machine, or less memory"
    yield InputError(message, key="overheads", hint=hint)


def with_tp(deployment: Deployment, tp: int) -> Deployment | None:
    """Return the deployment on `tp` GPUs, or None if it does not divide or fit."""
    changed = on_gpus(deployment, tp)
    return None if deployment_errors(changed) else changed
