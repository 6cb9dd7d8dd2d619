"""Files of jobs, deployments and costs, with their presets; jobs from them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from netsim.errors import InputError, did_you_mean, raise_all
from netsim.inputs import is_file, locate, read_toml, user_path
from netsim.units import written
from netsim.workloads.job.checks import job_errors
from netsim.workloads.job.job import Job
from netsim.workloads.job.keys import (
    Reader,
    keys_of,
    needed,
    read_each,
    read_part,
    unknown_keys,
)
from netsim.workloads.job.layout import Layout, Optimizer, Overlap, Precision
from netsim.workloads.job.machine import Machine
from netsim.workloads.job.model import Model

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

MAX_DEPTH = 20
"""Most files that extend one another."""

Tree = Mapping[str, Any]
Loaded = TypeVar("Loaded")


def presets(kind: str = "jobs") -> dict[str, Path]:
    """Return preset files by name; `kind` is one of `FOLDERS`."""
    return {path.stem: path for path in sorted(FOLDERS[kind].glob("*.toml"))}


def load_job(job: str | Path | Tree, directory: Path | None = None, *, fits: bool = True) -> Job:
    """Return a job from a file, a preset's name, or a table; paths are relative to `directory`.

    Raises InputError with all errors; memory is checked if `fits`.
    """
    return load(job, "job", partial(job_from, fits=fits), directory)


def load(
    given: str | Path | Tree,
    what: str,
    read: Callable[[Tree, str, Path], Loaded],
    directory: Path | None = None,
    overrides: Sequence[str] = (),
) -> Loaded:
    """Return what `read` makes of a table, a name and a directory.

    `given` is the table, its file or the name of a preset; `what` is "job", "deployment" or "cost".
    Raises InputError with all errors, in the file.
    """
    folder = directory or Path.cwd()
    if isinstance(given, Mapping):
        return read(given, "", folder)
    path = locate(str(given), folder, presets(f"{what}s"), f"{what} file or preset")
    tree = changed(read_toml(path), overrides)
    try:
        return read(tree, path.stem, path.parent)
    except InputError as error:
        raise error.at(file=str(path)) from None


def extended(given: Tree, what: str, directory: Path, depth: int = 0) -> Tree:
    """Return a table of a job or deployment; with a key `preset`, that preset or file changed by
    the other keys, one by one in inner tables too. Files are relative to the naming file."""
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
    for key, value in given.items():
        old = tree.get(key)
        if isinstance(value, Mapping) and isinstance(old, str):
            old = {"preset": old}
        names_another = isinstance(value, Mapping) and "preset" in value
        tree[key] = value if names_another else _deep(old, value)
    return {key: value for key, value in tree.items() if key != "preset"}


def _deep(old: Any, new: Any) -> Any:
    """Return a new value, or if both are tables the old one with changes, key by key."""
    if not isinstance(old, Mapping) or not isinstance(new, Mapping):
        return new
    return {**old, **{key: _deep(old.get(key), value) for key, value in new.items()}}


def changed(tree: dict[str, Any], overrides: Sequence[str]) -> dict[str, Any]:
    """Apply overrides, which may change values of a preset that a table only names."""
    from netsim.experiment.document import apply_overrides

    apply_overrides(tree, overrides)
    return tree


def job_from(tree: Tree, name: str, directory: Path, *, fits: bool = True) -> Job:
    """Return the job of a table."""
    tree = extended(tree, "job", directory)
    parts = read_parts(tree, PARTS, directory)
    job = Job(name=tree.get("name", name) or "job", file=name, **parts)
    raise_all(job_errors(job, fits=fits))
    return job


def read_parts(
    tree: Tree, parts: Mapping[str, type[Any] | Reader], directory: Path
) -> dict[str, Any]:
    """Return the parts of a table by key; those in `WITH_PRESETS` may be or extend a preset.

    Raises InputError with all errors.
    """
    errors = unknown_keys(tree, (*parts, *WORDS))
    errors += [
        InputError(f"{written(tree[word])} must be text", key=word, code="wrong_type")
        for word in WORDS
        if not isinstance(tree.get(word, ""), str)
    ]
    reads: dict[str, Callable[[], Any]] = {}
    for key, part in parts.items():
        value = tree.get(key, {})
        if isinstance(part, tuple):
            reads[key] = partial(part[1], value)
        elif key in WITH_PRESETS:
            reads[key] = partial(_with_preset, part, key, value, directory)
        else:
            reads[key] = partial(read_part, part, value)
    return read_each(reads, errors)


def _with_preset(part: type[Any], key: str, value: Any, directory: Path) -> Any:
    """Read a part from its table, which may override keys of a preset."""
    known = presets(WITH_PRESETS[key])
    if isinstance(value, str):
        value = {"preset": value}
    if not isinstance(value, Mapping):
        hint = f'[{key}], or {key} = "a preset"'
        raise InputError(f"{written(value)} is not a table", hint=hint, code="wrong_type")
    if not value and needed(part):
        hint = f"[{key}], or a preset: {', '.join(known)}"
        raise InputError("missing", hint=hint, code="missing")
    if "preset" not in value:
        return read_part(part, value)
    changes = {name: one for name, one in value.items() if name != "preset"}
    name = value["preset"]
    if not isinstance(name, str):
        raise InputError(f"{written(name)} is not a name", key="preset", code="wrong_type")
    if name in known:
        base = read_preset(known[name], part)
    elif is_file(path := user_path(name, directory)):
        base = read_toml(path)
    else:
        hint = did_you_mean(name, known) + "; or a file"
        raise InputError(f"unknown preset {written(name)}", hint=hint, code="unknown_value")
    return read_part(part, merged(base, changes, part))


def read_preset(path: Path, part: type[Any]) -> dict[str, Any]:
    """Read a preset's table, which may extend another preset of its folder."""
    table = read_toml(path)
    base = table.pop("preset", None)
    return merged(read_preset(path.with_name(f"{base}.toml"), part), table, part) if base else table


def load_machine(name: str) -> Machine:
    """Return a shipped machine."""
    return read_part(Machine, read_preset(presets("machines")[name], Machine))


def merged(base: Tree, changes: Tree, part: type[Any]) -> dict[str, Any]:
    """Return a table with changes; inner tables are merged key by key."""
    tables = {name for name, how in keys_of(part).items() if how.unit == "table"}
    result = dict(base)
    for name, value in changes.items():
        inner = name in tables and isinstance(value, Mapping) and name in base
        result[name] = {**base[name], **value} if inner else value
    return result
