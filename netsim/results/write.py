"""Write the result of one run as a directory, all of it or nothing."""

from __future__ import annotations

import os
import platform
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

from netsim.results import files
from netsim.results.columns import specs
from netsim.results.destination import (
    check_destination,
    holds_complete,
    other_result,
    partial_directory,
    previous_directory,
    remove_partial,
)
from netsim.results.provenance import LIBRARIES, Provenance, provenances
from netsim.results.replace import real, replacing
from netsim.version import __version__

if TYPE_CHECKING:
    from netsim.experiment import Point
    from netsim.results.run_result import RunResult


def write_result(
    directory: Path | str,
    point: Point,
    result: RunResult,
    provenance: Provenance | None = None,
    *,
    keep: Sequence[str] = (),
) -> Path:
    """Write `result` of `point` to `directory`, replacing an earlier result there.

    The files are written to a temporary directory beside it, which is then renamed, so that a
    reader sees the earlier result or the new one, never a mixture. A partial result (of a run that
    was interrupted, or ended with flows missing) is written in the same way, with
    ``"complete": false`` in ``summary.json``; where a complete one is, it goes to a directory
    beside that, with ".partial" after its name. A complete result of another experiment or other
    code that is replaced stays beside the new one, with ".previous" after its name.

    `provenance` is what the point was made of when the run began, for the reader and for later
    runs. Of what is in the directory, the files named by `keep` stay there.

    Returns the directory. Raises InputError if it holds anything that netsim did not write, or
    cannot be written.
    """
    directory = Path(directory)
    partial = not result.complete and holds_complete(directory)
    if partial:
        directory = partial_directory(directory)
    place = real(directory.parent) / directory.name if partial else real(directory)
    check_destination(place)
    provenance = provenance or provenances([point])[0]
    old = previous_directory(place) if other_result(place, provenance.fingerprint) else None
    if old is not None and os.path.lexists(old):
        check_destination(old)
    tables = {**result.tables}
    if not point.outputs.links:
        del tables["links"]
    with replacing(place, old) as scratch:
        for name, table in tables.items():
            files.write_table(scratch / specs()[name].file, name, table)
        files.write_json(scratch / files.SUMMARY, summary_of(result))
        files.write_json(scratch / files.EXPERIMENT, _experiment(point, result, provenance))
        for name in keep:
            files.take_over(place / name, scratch / name)
    if result.complete:
        remove_partial(directory)
    return directory


def summary_of(result: RunResult) -> dict[str, Any]:
    """The summary of a result as it is written."""
    summary: dict[str, Any] = files.plain(
        {
            "complete": result.complete,
            "stop_reason": result.stop_reason,
            "reason": result.reason,
            **result.summary,
            "hash": result.hash,
        }
    )
    return summary


def _experiment(point: Point, result: RunResult, provenance: Provenance) -> dict[str, Any]:
    """Everything needed to run the point again, and to know that it gave the same."""
    return {
        "format": files.FORMAT,
        "point": point.name,
        "axes": point.axes,
        "seed": point.seed,
        "hash": result.hash,
        "versions": versions(),
        "git": list(provenance.git),
        "fingerprint": provenance.fingerprint,
        "plugins": list(provenance.plugins),
        "directory": str(point.directory),
        "resolved": point.resolved,
        "tables": list(result.tables),
    }


def versions() -> dict[str, str]:
    """Versions of netsim, Python and the libraries that can change a result, and the machine."""
    found = {"netsim": __version__, "python": platform.python_version()}
    for name in LIBRARIES:
        found[name] = metadata.version(name)
    found["machine"] = f"{platform.system()} {platform.machine()}"
    return found
