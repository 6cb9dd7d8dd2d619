"""A point as JSON, from which another process rebuilds and runs it.

The other process may run other code, or find other files under the same names. So it computes the
point's inputs again, and refuses a point whose fingerprint it does not get.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from netsim.errors import InputError
from netsim.results.files import plain
from netsim.results.provenance import Provenance, fingerprint_of, run_inputs
from netsim.running.point_run import PointRun, RunOptions
from netsim.running.run_manifest import Checkpoints, RunManifest
from netsim.version import __version__

if TYPE_CHECKING:
    from netsim.experiment import Point

HASH_DIGITS = 8
"""Digits of a hash in messages."""


def point_spec(run: PointRun, options: RunOptions) -> dict[str, Any]:
    """Return a point with its folder and options as JSON."""
    point, provenance, checkpoints = run.point, run.provenance, options.checkpoints
    manifest = checkpoints.manifest
    described = {
        "version": __version__,
        "name": point.name,
        "index": point.index,
        "axes": point.axes,
        "file": point.file,
        "directory": str(point.directory),
        "working_directory": os.getcwd(),
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
        "manifest": None if manifest is None else asdict(manifest),
        "must_fit": checkpoints.must_fit,
        "trust": checkpoints.trust,
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
    manifest = None if spec["manifest"] is None else RunManifest(**spec["manifest"])
    options = RunOptions(
        threads=spec["threads"],
        checked=spec["checked"],
        force=spec["force"],
        checkpoints=Checkpoints(manifest, must_fit=spec["must_fit"], trust=spec["trust"]),
    )
    point = _point(spec)
    _require_same(run_inputs(point), spec)
    return PointRun(point, Path(spec["folder"]), provenance), options


def _point(spec: Mapping[str, Any]) -> Point:
    from netsim.experiment import Experiment

    found = Experiment.from_tree(spec["resolved"], spec["file"], Path(spec["directory"])).points()
    return replace(
        found[0],
        index=spec["index"],
        name=spec["name"],
        axes=spec["axes"],
        resolved=spec["resolved"],
    )


def _require_same(here: Mapping[str, Any], spec: Mapping[str, Any]) -> None:
    """Raise InputError that says what differs from the inputs of a spec."""
    there = spec["provenance"]["run_inputs"]
    if fingerprint_of(here) == spec["provenance"]["fingerprint"]:
        return
    if (here["netsim"], here["libraries"]) != (there["netsim"], there["libraries"]):
        ours, theirs = _code(__version__, here), _code(spec["version"], there)
        raise InputError(
            f"worker {socket.gethostname()} has {ours}, this run {theirs}",
            hint="install the same on both",
        )
    for kind in ("plugins", "data"):
        before = {one[0]: one[1:] for one in there[kind]}
        for name, *hashes in here[kind]:
            if before.get(name) != hashes:
                raise InputError(f"{name} has changed since the run began", file=spec["file"])
    raise InputError(f"{spec['name']} differs in worker {socket.gethostname()}", file=spec["file"])


def _code(version: str, inputs: Mapping[str, Any]) -> str:
    libraries = ", ".join(f"{name} {number}" for name, number in inputs["libraries"].items())
    return f"netsim {version} (code {inputs['netsim'][:HASH_DIGITS]}, {libraries})"
