"""The experiments that come with netsim, and how a user names one."""

from __future__ import annotations

import importlib
import os
import re
from pathlib import Path

from netsim.errors import InputError, did_you_mean
from netsim.inputs import is_file, path_problem, require_file
from netsim.units import written

GROUPS = (
    *("start", "transports", "topologies", "circuits", "failures"),
    *("training", "inference", "serving", "wide_area", "paper"),
)
"""The folders of experiments, in the order in which they are listed."""

FIRST = "p2p_512"
"""The experiment to begin with."""


def built_in() -> dict[str, Path]:
    """Return the experiments that come with netsim, name -> file, by group."""
    roots = [Path(folder) for folder in importlib.import_module("netsim.experiments").__path__]
    files = [
        file for root in roots for group in GROUPS for file in sorted(root.glob(f"{group}/*.toml"))
    ]
    return {file.stem: file for file in files}


def locate(name: str) -> Path:
    """Return the file of an experiment, given its path or the name of a built-in one.

    Where there is no such file, "p2p_512", "p2p_512.toml", "start/p2p_512.toml",
    "experiments/p2p_512.toml" and "experiments/start/p2p_512.toml" all find the built-in one.
    """
    path = Path(name)
    problem = path_problem(name)
    if problem:
        raise InputError(f"{written(name)} {problem}")
    if is_file(path):
        return path
    known = built_in()
    bare = path.name.removesuffix(".toml")
    folder = path.parent.parts[path.parts[:1] == ("experiments",) :]
    if bare in known and folder in ((), (known[bare].parent.name,)):
        return known[bare]
    if os.path.lexists(path):
        require_file(path)
    raise InputError(
        "there is no such experiment",
        file=name,
        hint=did_you_mean(bare, known),
        code="unknown_value",
    )


def stated_time(file: Path) -> str:
    """Return the run time that the head of a built-in experiment states, such as "20 s"."""
    found = re.search(r"(?m)^# Time: +([^,\n]+)", file.read_text("utf-8"))
    return found[1] if found else ""
