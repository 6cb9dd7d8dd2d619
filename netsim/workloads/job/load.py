"""Load files of jobs, deployments and costs, with their presets, and check that the parts of a job
fit together.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from netsim.common.inputs import locate, read_toml
from netsim.errors import InputError, errors_at, raise_all
from netsim.params import Unit, keys_of, read_each, read_table, unknown_keys
from netsim.units import format_bytes, written
from netsim.workloads.job.job import Job, Layout, Model, Optimizer, Overlap, Precision, conflict
from netsim.workloads.job.machine import Machine
from netsim.workloads.job.work import stage_memory


def job_errors(job: Job, *, fits: bool = True) -> list[InputError]:
    """Return all errors of a job; `fits` also checks its memory."""
    found = [error.under("layout") for error in job.layout.conflicts({})]
    found += [*_conflicts(job), *_formats(job)]
    if not found:
        found += _divides(job)
    if not found and fits:
        found += _fits(job)
    return found


def _conflicts(job: Job) -> Iterator[InputError]:
    """Yield conflicts between the layout and the model."""
    layout, model = job.layout, job.model
    if layout.ep > 1 and not model.experts:
        yield conflict("layout.ep", "requires a model with experts", "ep = 1")
    if layout.recompute == "selective" and model.fused_attention and not model.latent:
        message = "selective conflicts with fused attention, which keeps no scores"
        yield conflict("layout.recompute", message, 'recompute = "none" or "full"')


def _formats(job: Job) -> Iterator[InputError]:
    """Yield number formats of compute that the machine lacks."""
    machine = job.machine
    precision = job.precision
    for key, unit, number_format in (
        ("compute", machine.matrix, precision.compute),
        ("logits", machine.matrix, precision.head),
        ("vector", machine.vector, precision.vector),
        ("activations", machine.attention, precision.activations),
    ):
        if unit is None or (key == "logits" and precision.logits == "compute"):
            continue
        try:
            unit.rate(number_format)
        except InputError as error:
            yield error.at(key=f"precision.{key}")


def _divides(job: Job) -> Iterator[InputError]:
    """Yield sizes that do not divide evenly and must."""
    layout, model, machine = job.layout, job.model, job.machine
    yield from _batch(layout)
    if layout.ep > 1:
        yield from _shares("ep", layout.ep, {"experts": model.experts, "replicas": layout.replicas})
    n_stages = layout.pp * layout.virtual_stages
    if n_stages > model.layers:
        message = f"{n_stages} virtual stages exceed the {model.layers} layers"
        yield conflict("layout.pp", message, "use fewer")
    rack = layout.dp_levels[0] if layout.dp_levels else 1
    if rack > 1 and layout.tp * layout.cp * rack > machine.domain_gpus:
        gpus = layout.tp * layout.cp
        message = f"{rack} replicas of {gpus} GPUs exceed a domain of {machine.domain_gpus} GPUs"
        yield conflict("layout.dp_levels", message, "use fewer replicas per rack")
    if layout.uneven:
        return
    if layout.tp <= machine.domain_gpus and machine.domain_gpus % layout.tp:
        message = f"{layout.tp} does not divide the domain of {machine.domain_gpus} GPUs"
        yield conflict("layout.tp", message, f"a divisor of {machine.domain_gpus}")
    widths = {"hidden size": model.hidden, "heads": model.heads}
    if model.layers > model.moe_layers:
        widths["feed-forward width"] = model.width
    if model.moe_layers:
        widths["expert width"] = model.expert_width
    if layout.tp % model.kv_head_count:  # fewer heads than GPUs are replicated
        widths["KV heads"] = model.kv_head_count
    yield from _shares("tp", layout.tp, widths)
    sharers = layout.cp * (layout.tp if layout.sp else 1)
    if model.sequence % sharers:
        key = "layout.cp" if layout.cp > 1 else "layout.sp"
        message = f"{sharers} GPUs do not divide {model.sequence} tokens evenly"
        yield conflict(key, message, f"a divisor of {model.sequence}, or uneven = true")
    if model.layers % n_stages and n_stages < model.layers:
        message = f"{n_stages} virtual stages do not divide {model.layers} layers"
        yield conflict("layout.pp", message, f"a divisor of {model.layers}, or uneven = true")


def _batch(layout: Layout) -> Iterator[InputError]:
    share, key = layout.replicas * layout.micro_batch, "layout.global_batch"
    if layout.global_batch % share:
        message = f"{layout.global_batch} sequences do not divide into {layout.replicas} replicas "
        message += f"with micro-batches of {layout.micro_batch}"
        yield conflict(key, message, f"a multiple of {share}")
    elif layout.schedule == "interleaved" and layout.micro_batches % layout.pp:
        message = f"{layout.micro_batches} micro-batches do not divide into groups of {layout.pp}, "
        yield conflict(key, message + "which interleaved requires", f"a multiple of {layout.pp}")


def _shares(key: str, n: int, amounts: dict[str, int]) -> Iterator[InputError]:
    """Yield one error for all amounts that `n` GPUs do not divide."""
    rests = [f"{name} ({amount})" for name, amount in amounts.items() if amount % n]
    if rests:
        divisor = math.gcd(*amounts.values())
        hint = f"a divisor of {divisor}" + (", or uneven = true" if key == "tp" else "")
        yield conflict(f"layout.{key}", f"{n} does not divide {', '.join(rests)}", hint)


def _fits(job: Job) -> Iterator[InputError]:
    """Yield an error for the fullest stage if it exceeds GPU memory."""
    needs = [stage_memory(job, stage) for stage in range(job.layout.pp)]
    stage = max(range(job.layout.pp), key=lambda one: needs[one].total)
    need = needs[stage]
    if need.total <= job.machine.memory:
        return
    parts = ", ".join(
        f"{name} {format_bytes(round(getattr(need, name)), 3)}"
        for name in ("weights", "gradients", "optimizer", "activations", "working")
    )
    message = f"a GPU of stage {stage} needs {format_bytes(round(need.total), 4)} and has "
    message += f"{format_bytes(job.machine.memory, 4)}: {parts}"
    hint = "use more tp, pp or zero, recompute, or a smaller micro_batch"
    yield conflict("machine.memory", message, hint)


WORKLOADS = Path(__file__).parents[1]
FOLDERS = {
    "jobs": WORKLOADS / "job/presets/jobs",
    "models": WORKLOADS / "job/presets/models",
    "machines": WORKLOADS / "job/presets/machines",
    "deployments": WORKLOADS / "inference/presets/deployments",
    "overheads": WORKLOADS / "inference/presets/overheads",
    "costs": WORKLOADS / "cost/presets",
}
"""Folders of presets."""

WITH_PRESETS = {"model": "models", "machine": "machines", "overheads": "overheads"}
"""Tables that may name or extend a preset, and its kind."""

PARTS: dict[str, type[Any]] = {
    "model": Model,
    "machine": Machine,
    "layout": Layout,
    "precision": Precision,
    "optimizer": Optimizer,
    "overlap": Overlap,
}
"""Tables of a job's file."""

WORDS = ("name", "description")

MAX_DEPTH = 20  # longest chain of files that extend another

Tree = Mapping[str, Any]
Loaded = TypeVar("Loaded")


def presets(kind: str = "jobs") -> dict[str, Path]:
    """Return preset files by name; `kind` is one of `FOLDERS`."""
    return {path.stem: path for path in sorted(FOLDERS[kind].glob("*.toml"))}


def load_job(job: str | Path | Tree, directory: Path | None = None, *, fits: bool = True) -> Job:
    """Return a job from a file, a preset's name, or a table; paths are relative to `directory`.
    Raises InputError with all errors; memory is checked if `fits`."""
    return load(job, "job", partial(job_from, fits=fits), directory)


def load(
    given: str | Path | Tree,
    what: str,
    read: Callable[[Tree, str, Path], Loaded],
    directory: Path | None = None,
    overrides: Sequence[str] = (),
) -> Loaded:
    """Return the result of `read`, which gets a table, a name and a directory.

    `given` is the table, its file or the name of a preset; `what` is "job", "deployment" or "cost".
    Raises InputError with all errors, in the file.
    """
    folder = directory or Path.cwd()
    if isinstance(given, Mapping):
        return read(given, "", folder)
    path = locate(str(given), folder, presets(f"{what}s"), f"{what} file or preset")
    tree = changed(read_toml(path), overrides)
    with errors_at(file=path):
        return read(tree, path.stem, path.parent)


def extended(given: Tree, what: str, directory: Path, depth: int = 0) -> Tree:
    """Return a table of a job or deployment. With a key `preset`, override the keys of that preset
    or file, also in inner tables. File names are relative to their file."""
    if "preset" not in given:
        return given
    if not isinstance(given["preset"], str):
        message = f"{written(given['preset'])} is not a name"
        raise InputError(message, key="preset", code="wrong_type")
    path = locate(given["preset"], directory, presets(f"{what}s"), f"{what} file or preset")
    if depth > MAX_DEPTH:
        raise InputError("extends itself", file=str(path), key="preset")
    tree = dict(extended(read_toml(path), what, path.parent, depth + 1))
    tree.setdefault("name", path.stem)
    for name, kind in WITH_PRESETS.items():
        named = tree.get(name)
        if isinstance(named, str) and named not in presets(kind):
            tree[name] = str(path.parent / named)
    tree = with_changes(tree, given)
    return {key: value for key, value in tree.items() if key != "preset"}


def with_changes(tree: Tree, changes: Tree) -> dict[str, Any]:
    """Return a tree with some keys changed, also in tables that it only names; a table with a
    preset replaces the old table."""
    found = dict(tree)
    for key, value in changes.items():
        old = found.get(key)
        if isinstance(value, Mapping) and isinstance(old, str):
            old = {"preset": old}
        names_another = isinstance(value, Mapping) and "preset" in value
        found[key] = value if names_another else _deep(old, value)
    return found


def _deep(old: Any, new: Any) -> Any:
    """Return the new value or, if both are tables, the old table changed key by key."""
    if not isinstance(old, Mapping) or not isinstance(new, Mapping):
        return new
    return {**old, **{key: _deep(old.get(key), value) for key, value in new.items()}}


def changed(tree: dict[str, Any], overrides: Sequence[str]) -> dict[str, Any]:
    """Apply overrides, which may change values of a preset that a table only names. File names in
    overrides are relative to the current folder."""
    from netsim.experiment.document import apply_overrides

    apply_overrides(tree, overrides)
    overridden = {override.partition("=")[0].strip() for override in overrides}
    for name, kind in WITH_PRESETS.items():
        value = tree.get(name)
        if name in overridden and isinstance(value, str) and value not in presets(kind):
            tree[name] = str(Path.cwd() / value)
    return tree


def job_from(tree: Tree, name: str, directory: Path, *, fits: bool = True) -> Job:
    """Return the job of a table."""
    tree = extended(tree, "job", directory)
    parts = read_parts(tree, PARTS, directory)
    job = Job(name=tree.get("name", name) or "job", file=name, **parts)
    raise_all(job_errors(job, fits=fits))
    return job


def read_parts(
    tree: Tree, parts: Mapping[str, type[Any] | Unit], directory: Path
) -> dict[str, Any]:
    """Return the parts of a table by key; parts in `WITH_PRESETS` may be or extend a preset. Raises
    InputError with all errors."""
    errors = unknown_keys(tree, (*parts, *WORDS))
    errors += [
        InputError(f"{written(tree[word])} must be text", key=word, code="wrong_type")
        for word in WORDS
        if not isinstance(tree.get(word, ""), str)
    ]
    reads: dict[str, Callable[[], Any]] = {}
    for key, part in parts.items():
        value = tree.get(key, {})
        if isinstance(part, Unit):
            reads[key] = partial(_named, part, value)
        elif key in WITH_PRESETS:
            reads[key] = partial(_with_preset, part, key, value, directory)
        else:
            reads[key] = partial(read_table, part, value)
    return read_each(reads, errors)


def _named(tables: Unit, value: Any) -> Any:
    if not isinstance(value, Mapping) or not value:
        raise InputError("missing", hint="tables with a name each", code="missing")
    return tables.read(value, 1)


def _with_preset(part: type[Any], key: str, value: Any, directory: Path) -> Any:
    """Read a part from its table, which may override keys of a preset."""
    known = presets(WITH_PRESETS[key])
    if isinstance(value, str):
        value = {"preset": value}
    if not isinstance(value, Mapping):
        hint = f'[{key}], or {key} = "a preset"'
        raise InputError(f"{written(value)} is not a table", hint=hint, code="wrong_type")
    if not value and any(param.required for param in keys_of(part).values()):
        hint = f"[{key}], or a preset: {', '.join(known)}"
        raise InputError("missing", hint=hint, code="missing")
    if "preset" not in value:
        return read_table(part, value)
    changes = {name: one for name, one in value.items() if name != "preset"}
    name = value["preset"]
    if not isinstance(name, str):
        raise InputError(f"{written(name)} is not a name", key="preset", code="wrong_type")
    path = locate(name, directory, known, "preset or file")
    base = read_preset(path, part) if path in known.values() else read_toml(path)
    return read_table(part, merged(base, changes, part))


def read_preset(path: Path, part: type[Any]) -> dict[str, Any]:
    """Read a preset's table, which may extend another preset of its folder."""
    table = read_toml(path)
    base = table.pop("preset", None)
    return merged(read_preset(path.with_name(f"{base}.toml"), part), table, part) if base else table


def load_machine(name: str) -> Machine:
    """Return a shipped machine."""
    return read_table(Machine, read_preset(presets("machines")[name], Machine))


def merged(base: Tree, changes: Tree, part: type[Any]) -> dict[str, Any]:
    """Return a table with changes; inner tables are merged key by key."""
    tables = {name for name, param in keys_of(part).items() if param.kind.table is not None}
    result = dict(base)
    for name, value in changes.items():
        inner = name in tables and isinstance(value, Mapping) and name in base
        result[name] = {**base[name], **value} if inner else value
    return result
