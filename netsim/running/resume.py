"""Going on with a run that was ended before it was done."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from netsim.running.run_manifest import Checkpoints, read_manifest
from netsim.running.sweep import results_of, run_points

if TYPE_CHECKING:
    from netsim.results import FailedPoint, Result


def resume_experiment(
    directory: Path | str,
    *,
    threads: int | None = None,
    trust: bool = False,
    note: Callable[[str], None] = lambda _: None,
) -> list[Result | FailedPoint]:
    """Go on with the run that was started with checkpoints and was to write to `directory`.

    `threads` need not be as many as before. Plugins that are not part of netsim, and checkpoints
    that another user has written, are used only with `trust`. Returns the results, one per point,
    as `run_experiment` does.

    Raises InputError if there is no such run or a checkpoint does not fit.
    """
    directory = Path(directory)
    manifest = read_manifest(directory)
    checkpoints = Checkpoints(manifest, must_fit=True, trust=trust)
    points = manifest.load(trust=trust).points()
    return results_of(
        run_points(points, directory, threads=threads, note=note, checkpoints=checkpoints)
    )
