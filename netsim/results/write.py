"""Write the result of one run as a directory, all of it or nothing."""

from __future__ import annotations

import hashlib
import os
import platform
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

from netsim import __version__
from netsim.errors import InputError
from netsim.results import files

if TYPE_CHECKING:
    from netsim.experiment import Point
    from netsim.registry import Plugin
    from netsim.simulate import RunResult

FORMAT = 1
"""Number of the layout of a result directory; it changes when a reader would have to."""

LIBRARIES = ("numba", "llvmlite", "numpy")


def check_destination(directory: Path, *, sweep: bool = False) -> None:
    """Raise InputError unless a result (or a sweep of them) may be written to `directory`.

    To be called before a run, so that a long one does not end with nowhere to put its result. What
    netsim did not write is never replaced, nor is a whole sweep by a single result.
    """
    if directory.exists() and not directory.is_dir():
        raise InputError(f"{directory} is a file, not a directory for results")
    try:
        directory.parent.mkdir(parents=True, exist_ok=True)
        names = sorted(path.name for path in directory.iterdir()) if directory.exists() else []
    except OSError as error:
        raise InputError(f"cannot write to {directory}: {error.strerror}") from error
    if not os.access(directory.parent, os.W_OK):
        raise InputError(f"cannot write to {directory.parent}: permission denied")
    hint = "choose another directory with --out, or remove this one"
    if files.SWEEP in names:
        if not sweep:
            raise InputError(f"{directory} holds the results of a sweep", hint=hint)
        return
    foreign = [name for name in names if not files.is_ours(name)]
    if foreign:
        message = f"{directory} holds what is not a result of netsim ({foreign[0]})"
        raise InputError(message, hint=hint)


def write_result(directory: Path | str, point: Point, result: RunResult) -> Path:
    """Write `result` of `point` to `directory`, replacing an earlier result there.

    The files are written to a temporary directory beside it, which is then renamed, so that a
    reader sees the earlier result or the new one, never a mixture. A partial result (a run that
    was interrupted or stalled) is written in the same way, with ``"complete": false`` in
    ``summary.json``.

    Returns the directory. Raises InputError if it holds anything that netsim did not write, or
    cannot be written.
    """
    directory = Path(directory)
    check_destination(directory)
    with replacing(directory) as scratch:
        files.write_table(scratch / files.FLOWS, "flows", result.flows)
        if point.outputs.links:
            files.write_table(scratch / files.LINKS, "links", result.links)
        files.write_json(scratch / files.SUMMARY, _summary(result))
        files.write_json(scratch / files.EXPERIMENT, _experiment(point, result))
    return directory


@contextmanager
def replacing(directory: Path) -> Iterator[Path]:
    """A scratch directory that takes the place of `directory` when the block ends well."""
    parent = directory.parent
    try:
        parent.mkdir(parents=True, exist_ok=True)
        scratch = Path(tempfile.mkdtemp(prefix=f".{directory.name}.", suffix=".tmp", dir=parent))
    except OSError as error:
        raise InputError(f"cannot write to {parent}: {error.strerror}") from error
    try:
        yield scratch
        files.sync(scratch)
        scratch.chmod(0o777 & ~_umask())  # mkdtemp makes it private
        _swap(scratch, directory)
    except OSError as error:
        raise InputError(f"cannot write to {directory}: {error.strerror or error}") from error
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _swap(scratch: Path, directory: Path) -> None:
    """Put `scratch` in the place of `directory`; what was there is back if that fails."""
    if not directory.exists():
        scratch.rename(directory)
        return
    old = scratch.with_suffix(".old")
    directory.rename(old)
    try:
        scratch.rename(directory)
    except OSError:
        old.rename(directory)
        raise
    shutil.rmtree(old, ignore_errors=True)


def _umask() -> int:
    """The process's umask, which can only be read by setting it."""
    mask = os.umask(0)
    os.umask(mask)
    return mask


def _summary(result: RunResult) -> dict[str, Any]:
    return {
        "complete": result.complete,
        "stopped_because": result.stopped_because,
        "reason": result.reason,
        **result.summary,
        "hash": result.hash,
    }


def _experiment(point: Point, result: RunResult) -> dict[str, Any]:
    """Everything needed to run the point again, and to know that it gave the same."""
    return {
        "format": FORMAT,
        "point": point.name,
        "axes": point.axes,
        "seed": point.seed,
        "hash": result.hash,
        "versions": versions(),
        "plugins": [_plugin(use.plugin) for use in point.uses],
        "directory": str(point.directory),
        "resolved": point.resolved,
    }


def _plugin(plugin: Plugin) -> dict[str, str]:
    """Name and fingerprint of a topology, transport or traffic file."""
    return {
        "kind": plugin.kind,
        "name": plugin.name,
        "file": plugin.path.name,
        "sha256": hashlib.sha256(plugin.path.read_bytes()).hexdigest(),
    }


def versions() -> dict[str, str]:
    """Versions of netsim, Python and the libraries that can change a result, and the machine."""
    found = {"netsim": __version__, "python": platform.python_version()}
    for name in LIBRARIES:
        found[name] = metadata.version(name)
    found["machine"] = f"{platform.system()} {platform.machine()}"
    return found
