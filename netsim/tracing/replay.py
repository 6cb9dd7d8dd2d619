"""Rebuild the point of a result."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from netsim.errors import TRUST, InputError
from netsim.experiment import Experiment, Point
from netsim.inputs import path_problem
from netsim.plugins import files as plugin_files
from netsim.results import Result
from netsim.results.files import EXPERIMENT
from netsim.results.provenance import provenances
from netsim.running.stored_sources import EXTRACTED, plugin_files_of, with_stored_sources

MAX_NAMED = 5
"""Maximum number of folders, or ranges of changed lines, in a message."""


def point_of(result: Result, directory: Path | None = None, *, trust: bool = False) -> Point:
    """Return the point that a result belongs to.

    Files that the experiment names (plugins, flow lists) are searched in `directory`, or else in
    the experiment's directory, the working directory and above the result. Missing plugins come
    from the sources stored in the result. Code that is not part of netsim runs only with `trust`,
    or if this process has run it already.

    Raises InputError if a file is neither found nor stored, the result is damaged, or code would
    need `trust`.
    """
    file = str(result.path / EXPERIMENT)
    tree = dict(result.experiment["resolved"])
    folders = [directory] if directory else list(_search_path(result))
    names = plugin_files_of(tree)
    complete = [one for one in folders if all((one / name).is_file() for name in names)]
    if not trust:
        _require_trusted(result, names, complete)
    tries = [(tree, folder) for folder in complete]
    if not complete:
        stored, _ = with_stored_sources(tree, result.experiment["plugins"], file)
        tries = [(stored, folder) for folder in folders if stored is not None]
    for tried, folder in tries:
        with nullcontext() if trust else plugin_files.untrusted():
            (point,) = Experiment.from_tree(tried, file, folder.resolve()).points()
        if all(Path(name).is_file() for name in _data_files(point)):
            return point
    missing = names[0] if names else "a file that the experiment names"
    message = f"cannot find {missing} in {', '.join(map(str, folders[:MAX_NAMED]))}"
    hint = "give the experiment's directory with --experiment-dir"
    raise InputError(message, file=file, hint=hint)


def _require_trusted(result: Result, names: Sequence[str], complete: Sequence[Path]) -> None:
    """Raise InputError if a plugin file would run for the first time in this process."""
    foreign: dict[str, Path | str]
    if complete:
        paths = {name: (complete[0] / name).resolve() for name in names}
        foreign = {name: path for name, path in paths.items() if not plugin_files.is_loaded(path)}
    else:
        stored = {one["name"] for one in result.experiment["plugins"] if one.get("sources")}
        foreign = {name: "stored in this file" for name in names if name in stored}
    if foreign:
        shown = ", ".join(f"{name} ({place})" for name, place in foreign.items())
        message = f"needs code that is not part of netsim: {shown}"
        raise InputError(message, file=str(result.path / EXPERIMENT), hint=TRUST)


def differences(result: Result, point: Point) -> list[str]:
    """Return what has changed since the result was written: its tables and its plugins."""
    found = []
    if result.matches_hash() is False:
        found.append("the tables of the result do not match its hash")
    now = provenances([point])[0].plugins
    for before, plugin in zip(result.experiment["plugins"], now, strict=False):
        what = f"{before['kind']} {before['name']}"
        if EXTRACTED in plugin["name"]:
            found.append(f"{what} not found: using the source stored in the result")
        elif plugin["sha256"] != before["sha256"] or (
            before.get("sources", {}) != plugin.get("sources", {})
        ):
            found.append(f"{what} has changed since the run{_changes(before, plugin)}")
    return found


def _changes(before: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    """Return the changed lines of a plugin's files, by their current numbers."""
    old, new = before.get("sources", {}), now.get("sources", {})
    changes = []
    for name in sorted({*old, *new} if old else ()):
        if name not in old or name not in new:
            changes.append(f"{name}: {'removed' if name in old else 'new'}")
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
            changes.append(f"{name}: line {', '.join(spans[:MAX_NAMED])}{more}")
    return f" ({'; '.join(changes)})" if changes else ""


def _search_path(result: Result) -> Iterator[Path]:
    """Yield where the experiment's own files may be, likeliest first."""
    from netsim.experiment import built_in

    recorded = result.experiment.get("directory")
    if isinstance(recorded, str) and not path_problem(recorded):
        yield Path(recorded)
    yield Path.cwd()
    yield from result.path.resolve().parents
    yield from {path.parent for path in built_in().values()}


def _data_files(point: Point) -> list[str]:
    """Return the files that parameters name."""
    return [
        use.params[param.name]
        for use in point.uses
        for param in use.plugin.params
        if param.unit == "file" and use.params[param.name] is not None
    ]
