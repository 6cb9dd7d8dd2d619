"""A point as JSON, from which another process rebuilds and runs it.

The other process may run other code, or find other files under the same names. So it computes the
point's inputs again, and refuses a point whose fingerprint it does not get.
"""

from __future__ import annotations

import hashlib
import socket
from collections.abc import Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from netsim.errors import InputError
from netsim.experiment.model import FlowClass, Point
from netsim.model.fabric import Fabric
from netsim.plugins.registry import Plugin, PluginSpec
from netsim.results.files import plain
from netsim.results.provenance import Provenance, code_inputs, fingerprint_of, run_inputs
from netsim.running.point_run import PointRun, RunOptions
from netsim.running.stored_sources import with_stored_sources
from netsim.version import __version__

HASH_DIGITS = 8
"""Digits of a hash in messages."""


def point_spec(run: PointRun, options: RunOptions) -> dict[str, Any]:
    """Return a point with its folder and options as JSON."""
    point, provenance = run.point, run.provenance
    described = {
        "version": __version__,
        "name": point.name,
        "index": point.index,
        "axes": point.axes,
        "file": point.file,
        "directory": str(point.directory),
        "resolved": point.resolved,
        "folder": str(run.folder),
        "provenance": {
            "fingerprint": provenance.fingerprint,
            "run_inputs": provenance.run_inputs,
            "plugins": provenance.plugins,
            "git": provenance.git,
        },
        "threads": options.threads,
        "checked": options.checked,
        "force": options.force,
        "checkpoint_s": options.checkpoint_s,
        "must_fit": options.must_fit,
        "origin": options.origin,
    }
    spec: dict[str, Any] = plain(described)
    return spec


def rebuild(spec: Mapping[str, Any]) -> tuple[PointRun, RunOptions]:
    """Return the point of a spec, and its options.

    Raises InputError if this process would not simulate the same.
    """
    known = spec["provenance"]
    provenance = Provenance(
        known["fingerprint"], known["run_inputs"], tuple(known["plugins"]), (), tuple(known["git"])
    )
    names = ("threads", "checked", "force", "checkpoint_s", "must_fit", "origin")
    options = RunOptions(**{name: spec[name] for name in names})
    _require_code(spec)
    point = _point(spec)
    _require_same(run_inputs(point), spec)
    return PointRun(point, Path(spec["folder"]), provenance), options


def _point(spec: Mapping[str, Any]) -> Point:
    from netsim.experiment import Experiment

    known = spec["provenance"]["plugins"]
    names: dict[str, str] = {}
    tree, directory = spec["resolved"], Path(spec["directory"])
    if not all(_is_here(directory / one["name"], one) for one in known if one.get("sources")):
        stored, names = with_stored_sources(tree, known, spec["file"])
        tree = tree if stored is None else stored
    found = Experiment.from_tree(tree, spec["file"], directory).points()
    point: Point = _with_names(found[0], names)
    return replace(
        point,
        index=spec["index"],
        name=spec["name"],
        axes=spec["axes"],
        resolved=spec["resolved"],
    )


def _is_here(path: Path, plugin: Mapping[str, Any]) -> bool:
    """Return whether a plugin's file is the one that the run has."""
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest() == str(plugin["sha256"])
    except OSError:
        return False


def _with_names(value: Any, names: Mapping[str, str]) -> Any:
    """Return a point, or a part of it, with plugins under the names that the experiment has."""
    if isinstance(value, Plugin):
        return replace(value, name=names.get(value.name, value.name))
    if isinstance(value, tuple):
        return tuple(_with_names(one, names) for one in value)
    if isinstance(value, PluginSpec):
        params = {key: _with_names(one, names) for key, one in value.params.items()}
        return replace(value, plugin=_with_names(value.plugin, names), params=params)
    if names and isinstance(value, Point | FlowClass | Fabric):
        parts = {one.name: _with_names(getattr(value, one.name), names) for one in fields(value)}
        return replace(value, **parts)
    return value


def _require_code(spec: Mapping[str, Any]) -> None:
    """Raise InputError, with both, unless this process has the code and libraries of a spec."""
    here, there = code_inputs(), spec["provenance"]["run_inputs"]
    if all(there[key] == value for key, value in here.items()):
        return
    ours, theirs = _code(__version__, here), _code(spec["version"], there)
    message = f"worker {socket.gethostname()} has {ours}, this run {theirs}"
    raise InputError(message, hint="install the same on both")


def _require_same(here: Mapping[str, Any], spec: Mapping[str, Any]) -> None:
    """Raise InputError that says what differs from the inputs of a spec."""
    there = spec["provenance"]["run_inputs"]
    if fingerprint_of(here) == spec["provenance"]["fingerprint"]:
        return
    for kind in ("plugins", "data"):
        before = {one[0]: one[1:] for one in there[kind]}
        for name, *hashes in here[kind]:
            if before.get(name) != hashes:
                raise InputError(f"{name} has changed since the run began", file=spec["file"])
    message = f"{spec['name']} differs in worker {socket.gethostname()}"
    raise InputError(message, file=spec["file"])


def _code(version: str, inputs: Mapping[str, Any]) -> str:
    libraries = ", ".join(f"{name} {number}" for name, number in inputs["libraries"].items())
    return f"netsim {version} (code {inputs['netsim'][:HASH_DIGITS]}, {libraries})"
