"""From a result back to the point that it is the result of."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from netsim import registry
from netsim.errors import InputError
from netsim.experiment import Experiment, Point
from netsim.experiment.document import PLUGIN_SECTIONS
from netsim.results import Result
from netsim.results.files import EXPERIMENT


def point_of(result: Result, directory: Path | None = None) -> Point:
    """The point whose result this is.

    Files that the experiment names (plugins, lists of flows) are looked for in `directory`, else
    where the experiment was, in the working directory and above the result. Raises InputError if
    they are not found or the result is damaged.
    """
    file = str(result.path / EXPERIMENT)
    tree = result.experiment.get("resolved")
    if not isinstance(tree, Mapping):
        raise InputError("does not say what was simulated", file=file, key="resolved")
    places = [directory] if directory else list(_places(result))
    for place in places:
        if all((place / name).is_file() for name in _plugin_files(tree)):
            (point,) = Experiment.from_tree(dict(tree), file, place.resolve()).points()
            if all(Path(name).is_file() for name in _data_files(point)):
                return point
    names = _plugin_files(tree) or ["a file that the experiment names"]
    raise InputError(
        f"{names[0]} is not found in {', '.join(str(place) for place in places)}",
        file=file,
        hint="give the directory of the experiment with --directory",
    )


def changed_plugins(result: Result, point: Point) -> list[str]:
    """The plugins of a point whose file is no longer the one that made the result."""
    before = {(p["kind"], p["name"]): p["sha256"] for p in result.experiment["plugins"]}
    now = {(use.plugin.kind, use.plugin.name): _digest(use.plugin.path) for use in point.uses}
    return [" ".join(plugin) for plugin in now if before.get(plugin) != now[plugin]]


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _places(result: Result) -> Iterator[Path]:
    """Where the experiment's own files may be, likeliest first."""
    from netsim.experiment import built_in

    recorded = result.experiment.get("directory")
    if isinstance(recorded, str):
        yield Path(recorded)
    yield Path.cwd()
    yield from result.path.resolve().parents
    yield from {path.parent for path in built_in().values()}


def _plugin_files(tree: Mapping[str, Any]) -> list[str]:
    """Plugins that are given by a path."""
    tables = [tree, *tree.get("classes", {}).values()]
    kinds = [
        str(table.get(section, {}).get("kind", ""))
        for table in tables
        for section in PLUGIN_SECTIONS
    ]
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
