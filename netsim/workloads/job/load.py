"""Jobs from TOML files, presets and tables."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

from netsim.errors import InputError, did_you_mean, raise_all
from netsim.inputs import is_file, locate, read_text, user_path
from netsim.units import written
from netsim.workloads.job.checks import job_errors
from netsim.workloads.job.job import Job
from netsim.workloads.job.keys import keys_of, needed, read_part
from netsim.workloads.job.layout import Layout, Optimizer, Overlap, Precision
from netsim.workloads.job.machine import Machine
from netsim.workloads.job.model import Model

PRESETS = Path(__file__).with_name("presets")

PARTS: dict[str, type[Any]] = {
    "model": Model,
    "machine": Machine,
    "layout": Layout,
    "precision": Precision,
    "optimizer": Optimizer,
    "overlap": Overlap,
}
"""Tables of a job's file."""

WITH_PRESETS = {"model": "models", "machine": "machines"}
"""Tables that may name a preset, and the folders of presets."""

WORDS = ("name", "description")

Tree = Mapping[str, Any]
Part = TypeVar("Part")


def presets(kind: str = "jobs") -> dict[str, Path]:
    """Return preset files by name; `kind` is "jobs", "models" or "machines"."""
    return {path.stem: path for path in sorted((PRESETS / kind).glob("*.toml"))}


def load_job(job: str | Path | Tree, directory: Path | None = None, *, fits: bool = True) -> Job:
    """Return a job from a file, a preset's name, or a table; paths are relative to `directory`.

    Raises InputError with all errors; memory is checked if `fits`.
    """
    if isinstance(job, Mapping):
        return job_from(job, "", directory or Path.cwd(), fits=fits)
    path = locate_job(str(job), directory or Path.cwd())
    try:
        return job_from(read_toml(path), path.stem, path.parent, fits=fits)
    except InputError as error:
        raise error.at(file=str(path)) from None


def locate_job(name: str, directory: Path) -> Path:
    """Return the file of a path or a preset's name."""
    return locate(name, directory, presets(), "job")


def read_toml(path: Path) -> dict[str, Any]:
    """Read a TOML file."""
    try:
        return tomllib.loads(read_text(path))
    except (tomllib.TOMLDecodeError, RecursionError, ValueError) as error:
        raise InputError(f"is not valid TOML: {error}", file=str(path), code="unreadable") from None


def job_from(tree: Tree, name: str, directory: Path, *, fits: bool = True) -> Job:
    """Return the job of a table."""
    known = {part: presets(kind) for part, kind in WITH_PRESETS.items()}
    parts = read_parts(tree, PARTS, known, directory)
    job = Job(name=tree.get("name", name) or "job", file=name, **parts)
    raise_all(job_errors(job, fits=fits))
    return job


def read_parts(
    tree: Tree,
    parts: Mapping[str, type[Any]],
    known: Mapping[str, Mapping[str, Path]],
    directory: Path,
) -> dict[str, Any]:
    """Return the parts of a table by key; those in `known` may be or extend a preset.

    Raises InputError with all errors.
    """
    errors = [
        InputError(
            "unknown key", key=key, hint=did_you_mean(key, (*parts, *WORDS)), code="unknown_key"
        )
        for key in tree
        if key not in parts and key not in WORDS
    ]
    errors += [
        InputError(f"{written(tree[word])} must be text", key=word, code="wrong_type")
        for word in WORDS
        if not isinstance(tree.get(word, ""), str)
    ]
    found: dict[str, Any] = {}
    for key, part in parts.items():
        try:
            if key in known:
                found[key] = _with_preset(part, key, tree.get(key, {}), known[key], directory)
            else:
                found[key] = read_part(part, tree.get(key, {}), key)
        except InputError as error:
            errors += error.errors
    raise_all(errors)
    return found


def _with_preset(
    part: type[Part], key: str, value: Any, known: Mapping[str, Path], directory: Path
) -> Part:
    """Read a part from its table, which may override keys of a preset."""
    if isinstance(value, str):
        value = {"preset": value}
    if not isinstance(value, Mapping):
        hint = f'[{key}], or {key} = "a preset"'
        raise InputError(f"{written(value)} is not a table", key=key, hint=hint, code="wrong_type")
    if "preset" not in value:
        if not value and needed(part):
            hint = f"[{key}], or a preset: {', '.join(known)}"
            raise InputError("missing", key=key, hint=hint, code="missing")
        return read_part(part, value, key)
    changes = {name: one for name, one in value.items() if name != "preset"}
    base = _preset(key, value["preset"], known, directory, part)
    return read_part(part, merged(base, changes, part), key)


def load_machine(name: str) -> Machine:
    """Return a shipped machine."""
    return read_part(Machine, read_preset(presets("machines")[name], Machine), "")


def read_preset(path: Path, part: type[Any]) -> dict[str, Any]:
    """Read a preset's table, which may extend another preset of its folder."""
    table = read_toml(path)
    base = table.pop("preset", None)
    return merged(read_preset(path.with_name(f"{base}.toml"), part), table, part) if base else table


def _preset(
    key: str, name: Any, known: Mapping[str, Path], directory: Path, part: type[Any]
) -> dict[str, Any]:
    if not isinstance(name, str):
        raise InputError(f"{written(name)} is not a name", key=f"{key}.preset", code="wrong_type")
    if name in known:
        return read_preset(known[name], part)
    path = user_path(name, directory)
    if is_file(path):
        return read_toml(path)
    hint = did_you_mean(name, known) + "; or a file"
    raise InputError(f"unknown preset {written(name)}", key=key, hint=hint, code="unknown_value")


def merged(base: Tree, changes: Tree, part: type[Any]) -> dict[str, Any]:
    """Return a table with changes; inner tables are merged key by key."""
    tables = {name for name, how in keys_of(part).items() if how.unit == "table"}
    result = dict(base)
    for name, value in changes.items():
        inner = name in tables and isinstance(value, Mapping) and name in base
        result[name] = {**base[name], **value} if inner else value
    return result
