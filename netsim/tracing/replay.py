"""From a result back to the point that it is the result of."""

from __future__ import annotations

import atexit
import difflib
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from netsim.errors import InputError
from netsim.experiment import Experiment, Point
from netsim.experiment.document import PLUGIN_SECTIONS
from netsim.inputs import path_problem
from netsim.plugins import files as plugin_files
from netsim.plugins import registry
from netsim.results import Result
from netsim.results.files import EXPERIMENT
from netsim.results.provenance import provenances
from netsim.units import written
from netsim.writing import write_text

KEPT = "netsim-kept-"
"""Begins the name of the directory into which sources that a result keeps are written."""

NAMING = ("kind", "queue_discipline")
"""Keys of tables that name a plugin: the latter that of [fabric], a queue discipline."""

MAX_NAMED = 5
"""Most folders, or ranges of changed lines, that a message names."""


def point_of(result: Result, directory: Path | None = None, *, trust: bool = False) -> Point:
    """The point whose result this is.

    Files that the experiment names (plugins, lists of flows) are looked for in `directory`, else
    where the experiment was, in the working directory and above the result. A plugin that is not
    found is taken from the sources that the result keeps. Code that is not part of netsim is run
    only with `trust`, or if this process has run it before.

    Raises InputError if a file is neither found nor kept, the result is damaged, or code would be
    run without `trust`.
    """
    file = str(result.path / EXPERIMENT)
    tree = dict(result.experiment["resolved"])
    places = [directory] if directory else list(_places(result))
    names = _plugin_files(tree)
    having = [place for place in places if all((place / name).is_file() for name in names)]
    if not trust:
        _refuse_code(result, names, having)
    tries = [(tree, place) for place in having]
    if not having and (kept := _with_kept_sources(result, tree)) is not None:
        tries = [(kept, place) for place in places]
    for tried, place in tries:
        with nullcontext() if trust else plugin_files.untrusted():
            (point,) = Experiment.from_tree(tried, file, place.resolve()).points()
        if all(Path(name).is_file() for name in _data_files(point)):
            return point
    names = names or ["a file that the experiment names"]
    raise InputError(
        f"{names[0]} is not found in {', '.join(map(str, places[:MAX_NAMED]))}",
        file=file,
        hint="give the directory of the experiment with --experiment-dir",
    )


def _refuse_code(result: Result, names: Sequence[str], having: Sequence[Path]) -> None:
    """Raise InputError if plugins that are files would run which have not yet run here."""
    foreign: dict[str, Path | str]
    if having:
        paths = {name: (having[0] / name).resolve() for name in names}
        foreign = {name: path for name, path in paths.items() if not plugin_files.is_loaded(path)}
    else:
        foreign = {name: "as kept in this file" for name in names if _sources(result).get(name)}
    if foreign:
        shown = ", ".join(f"{name} ({place})" for name, place in foreign.items())
        message = f"needs code that is not part of netsim: {shown}"
        raise InputError(message, file=str(result.path / EXPERIMENT), hint=plugin_files.TRUST)


def _sources(result: Result) -> dict[str, dict[str, str]]:
    """The sources that a result keeps of each plugin, by its name."""
    return {one["name"]: one.get("sources", {}) for one in result.experiment["plugins"]}


def _with_kept_sources(result: Result, tree: dict[str, Any]) -> dict[str, Any] | None:
    """The tree with plugins that are files written anew from the result; None if it lacks one."""
    kept = {plugin["name"]: plugin for plugin in result.experiment["plugins"]}
    names = _plugin_files(tree)
    if not names or not all(kept.get(name, {}).get("sources") for name in names):
        return None
    root = Path(tempfile.mkdtemp(prefix=KEPT))
    atexit.register(shutil.rmtree, root, ignore_errors=True)
    files = {}
    for number, name in enumerate(dict.fromkeys(names)):
        folder = root / str(number)
        sources = kept[name]["sources"]
        for path, text in sources.items():
            target = folder / path
            beside = not path_problem(path) and target.resolve().is_relative_to(folder.resolve())
            if not beside or kept[name]["file"] not in sources:
                message = f"{written(path)} is not beside {name}"
                raise InputError(message, file=str(result.path / EXPERIMENT))
            target.parent.mkdir(parents=True, exist_ok=True)
            write_text(target, text.encode("utf-8", "replace").decode())
        files[name] = str(folder / kept[name]["file"])

    def renamed(value: Any, key: str = "") -> Any:
        if isinstance(value, dict):
            return {name: renamed(inner, name) for name, inner in value.items()}
        if key in NAMING and isinstance(value, str):
            name, preset = registry.split_preset(value)
            return files.get(name, name) + (f":{preset}" if preset else "")
        return value

    changed: dict[str, Any] = renamed(tree)
    return changed


def differences(result: Result, point: Point) -> list[str]:
    """What is not as it was when the result was written: of its tables, and of its plugins."""
    found = []
    if result.hash_fits() is False:
        found.append("the tables of the result are not those that its hash was taken of")
    now = provenances([point])[0].plugins
    for before, plugin in zip(result.experiment["plugins"], now, strict=False):
        what = f"{before['kind']} {before['name']}"
        if KEPT in plugin["name"]:
            found.append(f"{what} is not found; this is the source that the result keeps")
        elif plugin["sha256"] != before["sha256"] or (
            before.get("sources", {}) != plugin.get("sources", {})
        ):
            found.append(f"{what} has changed since then{_changes(before, plugin)}")
    return found


def _changes(before: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    """Which lines of which file of a plugin are not as they were; the numbers are today's."""
    old, new = before.get("sources", {}), now.get("sources", {})
    said = []
    for name in sorted({*old, *new} if old else ()):
        if name not in old or name not in new:
            said.append(f"{name}: {'gone' if name in old else 'new'}")
            continue
        lines = old[name].splitlines(), new[name].splitlines()
        codes = difflib.SequenceMatcher(None, *lines, autojunk=False).get_opcodes()
        spans = [
            f"{first + 1}" if last - first <= 1 else f"{first + 1} to {last}"
            for tag, _, _, first, last in codes
            if tag != "equal"
        ]
        if spans:
            more = f" and {len(spans) - MAX_NAMED} more" if len(spans) > MAX_NAMED else ""
            said.append(f"{name}: line {', '.join(spans[:MAX_NAMED])}{more}")
    return f" ({'; '.join(said)})" if said else ""


def _places(result: Result) -> Iterator[Path]:
    """Where the experiment's own files may be, likeliest first."""
    from netsim.experiment import built_in

    recorded = result.experiment.get("directory")
    if isinstance(recorded, str) and not path_problem(recorded):
        yield Path(recorded)
    yield Path.cwd()
    yield from result.path.resolve().parents
    yield from {path.parent for path in built_in().values()}


def _plugin_files(tree: Mapping[str, Any]) -> list[str]:
    """Plugins that are given by a path."""
    tables = [tree, *tree.get("flow_classes", {}).values()]
    sections = [table.get(section, {}) for table in tables for section in PLUGIN_SECTIONS]
    for section in sections:  # which grow by what stands inside of a topology
        sections += [value for value in section.values() if isinstance(value, dict)]
    sections.append(tree.get("fabric", {}))
    kinds = [str(section[key]) for section in sections for key in NAMING if key in section]
    files = [registry.split_preset(kind)[0] for kind in kinds]
    return [name for name in files if name.endswith(".py")]


def _data_files(point: Point) -> list[str]:
    """Files that parameters name."""
    return [
        use.params[param.name]
        for use in point.uses
        for param in use.plugin.params
        if param.unit == "file" and use.params[param.name] is not None
    ]
