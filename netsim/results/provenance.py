"""Where a result comes from: all that decides it as one fingerprint, and the sources of plugins.

A run is the same every time, so a point whose fingerprint is that of a complete result need not be
run again. What counts is the experiment with every value explicit, the contents of the files that
it names, netsim's own code, and the versions of the libraries that can change a result.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

from netsim.errors import InputError
from netsim.plugins import files as plugin_files
from netsim.plugins.calls import call
from netsim.results.files import plain
from netsim.results.git import commits
from netsim.version import __version__

if TYPE_CHECKING:
    from netsim.experiment import Point
    from netsim.plugins.registry import Plugin

PACKAGE = Path(__file__).resolve().parent.parent

LIBRARIES = ("numba", "llvmlite", "numpy")
"""Libraries that can change a result."""

NOT_SIMULATED = ("name", "description", "outputs", "reference")
"""Sections and keys of an experiment that decide nothing, but for what [outputs] has of links."""

PRESENTATION = ("cli", "conformance", "lint", "plots", "results", "scaffold", "tracing")
"""Folders of netsim that decide nothing: a run does not come by them, but for lint, which refuses
transports and changes none, and for DECISIVE."""

DECISIVE = ("results/columns.py", "results/run_result.py")
"""Files of those folders that a run makes use of."""

BY_USE = ("experiments", "queues", "topologies", "transports")
"""Folders of which only the files in use decide."""


@dataclass(frozen=True)
class Provenance:
    """The inputs of a point, recorded before it is run.

    `run_inputs` is all that decides its result, as JSON can hold it: the values of the experiment,
    and hashes of code and of files. `fingerprint` is the hash of that. `plugins` describes each
    plugin as `experiment.json` does: kind, name, file, sha256 of the file, and for one that does
    not come with netsim its `sources`, by path relative to the plugin's folder. `inputs` are all
    files that were read for the point. `git` tells which commits its code is from, in no way part
    of the fingerprint.
    """

    fingerprint: str
    run_inputs: dict[str, Any]
    plugins: tuple[dict[str, Any], ...]
    inputs: tuple[Path, ...]
    git: tuple[dict[str, Any], ...]

    def changed_since(self, earlier: Mapping[str, Any]) -> str:
        """What is not as it was in the `experiment.json` of another fingerprint, in words."""
        before = [_identity(plugin) for plugin in earlier["plugins"]]
        changed = [one for one in self.plugins if _identity(one) not in before]
        if changed:
            return ", ".join(f"{one['kind']} {one['name']}" for one in changed)
        if plain(_decisive(earlier["resolved"])) != self.run_inputs["experiment"]:
            return "the experiment"
        return "netsim, a library or a file that is read"


def provenances(points: Sequence[Point]) -> list[Provenance]:
    """Return the provenance of each point; each file is read once."""
    read = cache(_sha256)
    sources = cache(_Sources)
    known = cache(lambda files: tuple(commits(files)))
    return [_provenance(point, sources, read, known) for point in points]


def _provenance(point: Point, sources: Any, read: Any, known: Any) -> Provenance:
    plugins = [sources(use.plugin.path) for use in point.uses]
    described = tuple(
        _describe(use.plugin, source) for use, source in zip(point.uses, plugins, strict=True)
    )
    data = data_files(point)
    run_inputs = plain(
        {
            "netsim": package_hash(),
            "libraries": {name: metadata.version(name) for name in LIBRARIES},
            "experiment": _decisive(point.resolved),
            "plugins": [
                [f"{use.plugin.kind} {use.plugin.name}", *sorted(source.hashes.values())]
                for use, source in zip(point.uses, plugins, strict=True)
            ],
            "data": [[path.name, read(path)] for path in data],
        }
    )
    text = json.dumps(run_inputs, sort_keys=True)
    files = [Path(point.file), *data, *(path for source in plugins for path in source.hashes)]
    fingerprint = hashlib.sha256(text.encode()).hexdigest()
    code = [Path(point.file), *(path for source in plugins for path in source.hashes)]
    return Provenance(fingerprint, run_inputs, described, tuple(files), known(_committed(code)))


def _committed(code: Iterable[Path]) -> tuple[Path, ...]:
    """Files that a commit can be told of: the given ones, and netsim's own if it runs from a tree.

    What is installed is in no repository, even if that of a project is around it.
    """
    if (PACKAGE.parent / ".git").exists():
        own = {path: path.relative_to(PACKAGE).as_posix() for path in _package()}
        return (*code, *(path for path, place in own.items() if decides(place)))
    return tuple(path for path in code if not path.resolve().is_relative_to(PACKAGE))


@cache
def _package() -> list[Path]:
    return sorted(PACKAGE.rglob("*.py"))


def _decisive(resolved: dict[str, Any]) -> dict[str, Any]:
    """The values of an experiment that a result depends on."""
    kept = {k: v for k, v in resolved.items() if k not in NOT_SIMULATED}
    outputs = resolved.get("outputs")
    links = outputs.get("links", True) if isinstance(outputs, dict) else True
    return {**kept, "links": links}


@cache
def package_hash() -> str:
    """SHA-256 over the files of netsim that decide a result, as they are when first asked for."""
    digest = hashlib.sha256(__version__.encode())
    for path in _package():
        place = path.relative_to(PACKAGE).as_posix()
        if decides(place):
            digest.update(f"{place} {_sha256(path)}\n".encode())
    return digest.hexdigest()


def decides(place: str) -> bool:
    """Whether a file of netsim, by its path below the package, is part of every fingerprint."""
    room = place.partition("/")[0]
    return place in DECISIVE or room not in (*PRESENTATION, *BY_USE)


class _Sources:
    """The files of a plugin, itself first, with the SHA-256 of each."""

    def __init__(self, path: Path) -> None:
        self.folder = path.parent
        self.hashes = plugin_files.loaded_files(path)
        if not self.hashes:
            shared = sorted(self.folder.glob("_*.py"))
            self.hashes = {file: _sha256(file) for file in [path, *shared]}

    def texts(self) -> dict[str, str]:
        """Path relative to the plugin's folder -> source, of files that are as they were read."""
        found = {}
        for path, digest in self.hashes.items():
            if path.is_relative_to(self.folder) and _sha256(path) == digest:
                name = path.relative_to(self.folder).as_posix()
                found[name] = path.read_bytes().decode("utf-8", "replace")
        return found


def _describe(plugin: Plugin, source: _Sources) -> dict[str, Any]:
    described: dict[str, Any] = {
        "kind": plugin.kind,
        "name": plugin.name,
        "file": plugin.path.name,
        "sha256": source.hashes[plugin.path],
    }
    if not is_built_in(plugin):
        described["sources"] = source.texts()
    return described


def _identity(plugin: Mapping[str, Any]) -> tuple[Any, ...]:
    """The part of a plugin's description that identifies its code."""
    return tuple(plugin.get(key) for key in ("kind", "name", "sha256", "sources"))


def is_built_in(plugin: Plugin) -> bool:
    """Whether a plugin comes with netsim."""
    return plugin.module.__name__.partition(".")[0] == "netsim"


def data_files(point: Point) -> list[Path]:
    """Files that parameters name, and those that a plugin `reads` beside them, that are there."""
    named = [
        point.directory / Path(value).expanduser()
        for use in point.uses
        for param in use.plugin.params
        if param.unit in ("file", "sizes", "job")
        and isinstance(value := use.params[param.name], str)
    ]
    for use in point.uses:
        if hasattr(use.module, "reads"):
            with suppress(InputError):  # which the run will tell
                named += call(use, "reads", use.params, point.directory)
    return [path for path in named if path.is_file()]


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
