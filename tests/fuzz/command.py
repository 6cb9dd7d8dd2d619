"""Run `netsim` in this process; record exit status, output and exceptions."""

from __future__ import annotations

import contextlib
import io
import traceback
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import netsim
from netsim import experiments, plots, topologies, transports

from .limits import OverTimeError, forget_peak_memory, peak_memory_bytes, time_limit

FOLDERS = [
    str(Path(path).resolve())
    for package in (netsim, experiments, plots, topologies, transports)
    for path in package.__path__
]
"""Folders with netsim's own files."""


@dataclass(frozen=True)
class Outcome:
    """The outcome of a command. `status` is None if it did not exit normally."""

    status: int | None
    out: str
    err: str
    trouble: str = ""
    """"time", or the uncaught exception and where it was raised."""
    peak_bytes: int = 0


def run(arguments: Sequence[str], seconds: float) -> Outcome:
    """Run `netsim ARGUMENTS` with a limit on CPU time, in seconds."""
    from netsim.cli import main

    out, err = io.StringIO(), io.StringIO()
    status: int | None = None
    trouble = ""
    forget_peak_memory()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            with time_limit(seconds):
                main(list(arguments))
            status = 0
        except SystemExit as end:
            status = end.code if isinstance(end.code, int) else int(end.code is not None)
        except OverTimeError as error:
            trouble = f"time: {place(error)}"
        except BaseException as error:
            trouble = f"{type(error).__name__}: {place(error)}: {str(error)[:200]}"
    return Outcome(status, out.getvalue(), err.getvalue(), trouble, peak_memory_bytes())


def place(error: BaseException) -> str:
    """Return the innermost line of netsim in the error's traceback."""
    frames = traceback.extract_tb(error.__traceback__)
    ours = [frame for frame in frames if frame.filename.startswith(tuple(FOLDERS))]
    if not ours:
        return "outside netsim"
    return f"{'/'.join(Path(ours[-1].filename).parts[-2:])}:{ours[-1].lineno} {ours[-1].name}"
