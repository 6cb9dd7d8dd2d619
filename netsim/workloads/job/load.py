"""Jobs from TOML files, presets and tables."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

from netsim.errors import InputError, did_you_mean, raise_all
from netsim.inputs import is_file, locate, read_text, user_path
from netsim.units import written
from netsim.workloads.job.checks import mistakes
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
"""The tables of a job's file."""

WITH_PRESETS = {"model": "models", "machine": "machines"}
"""Tables that may be the name of a preset, or begin with one, and where these stand."""

WORDS = ("name", "description")

Tree = Mapping[str, Any]
Part = TypeVar("Part")


def presets(kind: str = "jobs") -> dict[str, Path]:
    """Files of presets by name; `kind` is "jobs", "models" or "machines"."""
    return {path.stem: path for path in sorted((PRESETS / kind).glob("*.toml"))}


def load_job(job: str | Path | Tree, directory: Path | None = None, *, fits: bool = True) -> Job:
    """A job from its file, the name of a preset, or a table; relative paths are of `directory`.

    `fits` is whether a job that needs more memory than its GPUs have is refused.

    Raises
    ------
    InputError
        with everything that is wrong: unknown keys, and what does not divide, contradicts itself
        or needs more memory than a GPU has.
    """
    if isinstance(job, Mapping):
        return job_from(job, "", directory or Path.cwd(), fits=fits)
    path = locate_job(str(job), directory or Path.cwd())
    try:
        return job_from(read_toml(path), path.stem, path.parent, fits=fits)
    except InputError as error:
        raise error.at(file=str(path)) from None


def locate_job(name: str, directory: Path) -> Path:
    """The file that `name` stands for: a path, or a preset."""
    return locate(name, directory, presets(), "job")


def read_toml(path: Path) -> dict[str, Any]:
    """The table of a TOML file."""
    try:
        return tomllib.loads(read_text(path))
    except (tomllib.TOMLDecodeError, RecursionError, ValueError) as error:
        raise InputError(f"is not valid TOML: {error}", file=str(path), code="unreadable") from None


def job_from(tree: Tree, name: str, directory: Path, *, fits: bool = True) -> Job:
    """The job of a table."""
    known = {part: presets(kind) for part, kind in WITH_PRESETS.items()}
    parts = read_parts(tree, PARTS, known, directory)
    job = Job(name=tree.get("name", name) or "job", file=name, **parts)
    raise_all(mistakes(job, fits=fits))
    return job


def read_parts(
    tree: Tree,
    parts: Mapping[str, type[Any]],
    known: Mapping[str, Mapping[str, Path]],
    directory: Path,
) -> dict[str, Any]:
    """The parts of a table by key; those in `known` may be, or begin with, one of these presets.

    Raises InputError with everything that is wrong.
    """
    errors = [
        InputError("is not known", key=key, hint=did_you_mean(key, (*parts, *WORDS)))
        for key in tree
        if key not in parts and key not in WORDS
    ]
    errors += [
        InputError(f"{written(tree[word])} is not a text", key=word, code="wrong_type")
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
    """A part from its table, which may change some keys of a preset."""
    if isinstance(value, str):
        value = {"preset": value}
    if not isinstance(value, Mapping):
        hint = f'[{key}], or {key} = "a preset"'
        raise InputError(f"{written(value)} is not a table", key=key, hint=hint, code="wrong_type")
    if "preset" not in value:
        if not value and needed(part):
            hint = f"[{key}], or one of the presets {', '.join(known)}"
            raise InputError("is missing", key=key, hint=hint)
        return read_part(part, value, key)
    changes = {name: one for name, one in value.items() if name != "preset"}
    base = _preset(key, value["preset"], known, directory)
    return read_part(part, merged(base, changes, part), key)


def _preset(key: str, name: Any, known: Mapping[str, Path], directory: Path) -> dict[str, Any]:
    if not isinstance(name, str):
        raise InputError(f"{written(name)} is not a name", key=f"{key}.preset", code="wrong_type")
    if name in known:
        return read_toml(known[name])
    path = user_path(name, directory)
    if is_file(path):
        return read_toml(path)
    hint = did_you_mean(name, known) + "; or the path of a file"
    raise InputError(f"there is no preset {written(name)}", key=key, hint=hint)


def merged(base: Tree, changes: Tree, part: type[Any]) -> dict[str, Any]:
    """A table with changes; tables inside it that are parts of their own key by key."""
    tables = {name for name, how in keys_of(part).items() if how.unit == "table"}
    result = dict(base)
    for name, value in changes.items():
        inner = name in tables and isinstance(value, Mapping) and name in base
        result[name] = {**base[name], **value} if inner else value
    return result
