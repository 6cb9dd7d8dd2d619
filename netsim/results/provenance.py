"""The origin of a result: a fingerprint of its inputs, and the sources of plugins.

Runs are deterministic, so a point whose complete result has the same fingerprint need not run
again. The fingerprint covers the resolved experiment, the files that it names, netsim's own code,
and the versions of libraries that can change a result.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

from netsim.errors import InputError
from netsim.frozen import frozen
from netsim.plugins import registry
from netsim.plugins.registry import Plugin, call
from netsim.results.files import plain
from netsim.version import __version__

if TYPE_CHECKING:
    from netsim.experiment import Point

PACKAGE = Path(__file__).resolve().parent.parent

LIBRARIES = ("numba", "llvmlite", "numpy")  # libraries that can change a result

NOT_SIMULATED = ("name", "description", "outputs", "reference")
"""Parts of an experiment that do not affect results, except outputs.links."""

PRESENTATION = ("cli", "conformance", "html_report", "plots", "results", "tracing")
"""Folders of netsim that do not affect results, except for DECISIVE."""

DECISIVE = ("results/columns.py", "results/run_result.py")  # files in those folders that runs use
BY_USE = ("experiments", "queues", "topologies", "transports")  # only the files in use count


@frozen
class Provenance:
    """The inputs of a point, recorded before it runs.

    `run_inputs` is everything that decides the result, as JSON: experiment values, and hashes of
    code and files. `fingerprint` is its hash. `plugins` describes plugins as in `experiment.json`:
    kind, name, file, SHA-256, and the `sources` of plugins outside netsim, by path relative to
    their folder. `inputs` are all files read. `git` returns the commits of the code, which do not
    affect the fingerprint.
    """

    fingerprint: str
    run_inputs: dict[str, Any]
    plugins: tuple[dict[str, Any], ...]
    inputs: tuple[Path, ...]
    git: Callable[[], Sequence[Mapping[str, Any]]]

    def changed_since(self, earlier: Mapping[str, Any]) -> str:
        """Return the differences from an `experiment.json` with another fingerprint."""
        before = [_identity(plugin) for plugin in earlier["plugins"]]
        changed = [one for one in self.plugins if _identity(one) not in before]
        if changed:
            return ", ".join(f"{one['kind']} {one['name']}" for one in changed)
        if plain(_decisive(earlier["resolved"])) != self.run_inputs["experiment"]:
            return "the experiment"
        return "netsim, a library or an input file"


def provenances(points: Sequence[Point]) -> list[Provenance]:
    """Return the provenance of each point; each file is read once."""
    read = cache(_sha256)
    sources = cache(_Sources)
    pool = ThreadPoolExecutor(1)  # git runs while the first point is built
    known = cache(lambda files: pool.submit(commits, files).result)
    return [_provenance(point, sources, read, known) for point in points]


def run_inputs(point: Point) -> dict[str, Any]:
    """Return all that decides the point's result; the fingerprint is its hash."""
    plugins = [_Sources(use.plugin.path, is_built_in(use.plugin)) for use in point.uses]
    return _run_inputs(point, plugins, data_files(point), _sha256)


@cache
def code_inputs() -> dict[str, Any]:
    """Return the hash of netsim's own code, and the versions of libraries that decide results."""
    libraries = {name: metadata.version(name) for name in LIBRARIES}
    return {"netsim": package_hash(), "libraries": libraries}


def fingerprint_of(inputs: Mapping[str, Any]) -> str:
    """Return the hash of the inputs of a run."""
    return hashlib.sha256(json.dumps(inputs, sort_keys=True).encode()).hexdigest()


def _provenance(point: Point, sources: Any, read: Any, known: Any) -> Provenance:
    plugins = [sources(use.plugin.path, is_built_in(use.plugin)) for use in point.uses]
    described = tuple(
        _describe(use.plugin, source) for use, source in zip(point.uses, plugins, strict=True)
    )
    data = data_files(point)
    inputs = _run_inputs(point, plugins, data, read)
    code = [Path(point.file), *(path for source in plugins for path in source.hashes)]
    return Provenance(
        fingerprint=fingerprint_of(inputs),
        run_inputs=inputs,
        plugins=described,
        inputs=(*code, *data),
        git=known(_committed(code)),
    )


def _run_inputs(
    point: Point, plugins: Sequence[_Sources], data: Sequence[Path], read: Callable[[Path], str]
) -> dict[str, Any]:
    inputs: dict[str, Any] = plain(
        {
            **code_inputs(),
            "experiment": _decisive(point.resolved),
            "plugins": [
                [f"{use.plugin.kind} {use.plugin.name}", *sorted(source.hashes.values())]
                for use, source in zip(point.uses, plugins, strict=True)
            ],
            "data": [[path.name, read(path)] for path in data],
        }
    )
    return inputs


def _committed(code: Iterable[Path]) -> tuple[Path, ...]:
    """Return the files whose commit matters: `code`, and netsim's own if it runs from a tree.
    Installed files never count as part of a repository."""
    if (PACKAGE.parent / ".git").exists():
        return (*code, *_decisive_files())
    return tuple(path for path in code if not path.resolve().is_relative_to(PACKAGE))


@cache
def _decisive_files() -> dict[Path, str]:
    """Return netsim's files that are in every fingerprint, with their paths in the package."""
    paths = sorted(PACKAGE.rglob("*.py"))
    names = {path: path.relative_to(PACKAGE).as_posix() for path in paths}
    return {path: name for path, name in names.items() if affects_results(name)}


def _decisive(resolved: dict[str, Any]) -> dict[str, Any]:
    """Return the values of an experiment that affect its result."""
    kept = {k: v for k, v in resolved.items() if k not in NOT_SIMULATED}
    outputs = resolved.get("outputs")
    links = outputs.get("links", True) if isinstance(outputs, dict) else True
    return {**kept, "links": links}


@cache
def package_hash() -> str:
    """Return the SHA-256 of netsim's files that affect results, as first read."""
    digest = hashlib.sha256(__version__.encode())
    for path, name in _decisive_files().items():
        digest.update(f"{name} {_sha256(path)}\n".encode())
    return digest.hexdigest()


def affects_results(name: str) -> bool:
    """Return whether a file of netsim, by its path in the package, is in every fingerprint."""
    folder = name.partition("/")[0]
    return name in DECISIVE or folder not in (*PRESENTATION, *BY_USE)


class _Sources:
    """The files of a plugin, itself first, with their SHA-256. Paths of netsim's own plugins do not
    depend on whether their file was also loaded by path."""

    def __init__(self, path: Path, built_in: bool) -> None:
        self.folder = path.parent
        self.hashes = {} if built_in else registry.loaded_files(path)
        if not self.hashes:
            shared = sorted(self.folder.glob("_*.py"))
            self.hashes = {file: _sha256(file) for file in [path, *shared]}

    def texts(self) -> dict[str, str]:
        """Return the sources by path relative to the plugin's folder, except files changed since
        loading.
        """
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
    return tuple(plugin.get(key) for key in ("kind", "name", "sha256", "sources"))


def is_built_in(plugin: Plugin) -> bool:
    """Return whether a plugin is part of netsim."""
    return plugin.module.__name__.partition(".")[0] == "netsim"


def _preset(value: Any) -> Any:
    """Return the preset or file that a job's table extends; other values unchanged."""
    return value.get("preset") if isinstance(value, Mapping) else value


def data_files(point: Point) -> list[Path]:
    """Return the existing files that parameters name or a plugin `reads`."""
    named = [
        point.directory / Path(value).expanduser()
        for use in point.uses
        for param in use.plugin.params
        if param.unit in ("file", "sizes", "job")
        and isinstance(value := _preset(use.params[param.name]), str)
    ]
    for use in point.uses:
        if hasattr(use.module, "reads"):
            with suppress(InputError):  # the run reports it
                named += call(use, "reads", use.params, point.directory)
    return [path for path in named if path.is_file()]


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


WAIT_S = 3.0
MAX_CHANGED = 20  # maximum number of changed files to name


def commits(files: Iterable[Path]) -> list[dict[str, Any]]:
    """Return the directory and commit of each git repository that has one of `files`.

    `dirty` says whether files differ from the commit, `changed` which ones. Files outside
    repositories are left out; without git, all are.
    """
    of_root = defaultdict(list)
    for file in dict.fromkeys(Path(os.path.realpath(file)) for file in files):
        root = next((folder for folder in file.parents if os.path.lexists(folder / ".git")), None)
        if root is not None:
            of_root[root].append(file)
    found = []
    for root, inside in of_root.items():
        with suppress(OSError, ValueError, subprocess.SubprocessError):
            found.append(_commit_state(root, [file.relative_to(root) for file in inside]))
    return found


def _commit_state(root: Path, names: list[Path]) -> dict[str, Any]:
    """Return the state of files of a repository. It does not start a file monitor that a repository
    configures. Raises OSError or SubprocessError without git, and ValueError without a commit."""
    done = subprocess.run(
        [
            *("git", "-C", str(root), "-c", "core.fsmonitor=false", "--literal-pathspecs"),
            *("status", "--porcelain=v2", "-z", "--branch", "--no-renames"),
            *("--untracked-files=all", "--", *map(str, names)),
        ],
        capture_output=True, text=True, timeout=WAIT_S, check=True, stdin=subprocess.DEVNULL,
        env={**os.environ, "GIT_OPTIONAL_LOCKS": "0"},
    )  # fmt: skip
    rows = [row.split(" ") for row in done.stdout.split("\0") if row]
    commit = next(row[2] for row in rows if row[:2] == ["#", "branch.oid"])
    if commit == "(initial)":
        raise ValueError("no commit")
    fields = {"?": 1, "1": 8, "u": 10}
    changed = sorted(" ".join(row[fields[row[0]] :]) for row in rows if row[0] in fields)
    return {
        "directory": str(root),
        "commit": commit,
        "dirty": bool(changed),
        "changed": changed[:MAX_CHANGED],
    }
