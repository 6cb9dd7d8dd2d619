"""Points on other machines: what runs there, for any scheduler.

A scheduler's own process must not end with a point, nor wait while one compiles. So it asks a
worker process, as `netsim run --jobs` does.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from netsim.results import files
from netsim.results.destination import exclusive
from netsim.running.point_run import PointRun, RunOptions
from netsim.running.point_spec import point_spec
from netsim.running.worker_process import Reply, Workers

WORKERS = Workers(idle_s=60.0)
"""Worker processes of this process."""


def remote_spec(run: PointRun, options: RunOptions, lock: int) -> dict[str, Any]:
    """Return the spec of a point for another machine, which may share the result directory: there
    the lock file has the same content.
    """
    path = os.readlink(f"/proc/self/fd/{lock}") if Path("/proc/self/fd").is_dir() else ""
    token = os.pread(lock, 64, 0).decode("ascii", "replace")
    return {**point_spec(run, options), "store": {"lock": path, "token": token}}


def run_remotely(spec: Mapping[str, Any], should_stop: Callable[[], bool]) -> Reply:
    """Return the reply for a point (`Workers.ask`); without the result directory, its result's
    files come with it under "files", by name."""
    folder, lock = Path(spec["folder"]), Path(spec["store"]["lock"])
    if lock.is_file() and lock.read_bytes() == spec["store"]["token"].encode():
        with exclusive(folder, patient=True):  # of another task for the same point
            return WORKERS.ask("run", spec, should_stop)
    with tempfile.TemporaryDirectory(prefix="netsim-point-") as scratch:
        there = {**spec, "folder": str(Path(scratch) / folder.name)}
        reply = WORKERS.ask("run", there, should_stop)
        if reply.get("directory") is not None:
            paths = [path for path in Path(reply["directory"]).iterdir() if path.is_file()]
            contents = {path.name: path.read_bytes() for path in paths}
            contents.pop(files.CHECKPOINT, None)
            reply["files"] = contents
        return reply
