"""The experiments that come with netsim, and how a user names an experiment."""

from __future__ import annotations

import importlib
import os
from pathlib import Path

from netsim.errors import InputError, did_you_mean
from netsim.inputs import is_file, path_problem, require_file
from netsim.units import written


def built_in() -> dict[str, Path]:
    """The experiments that come with netsim: name -> file, sorted by name."""
    folders = importlib.import_module("netsim.experiments").__path__
    files = [file for folder in folders for file in Path(folder).glob("*.toml")]
    return {file.stem: file for file in sorted(files)}


def locate(name: str) -> Path:
    """The file that `name` stands for: a path, or the name of a built-in experiment.

    "p2p_512" and "experiments/p2p_512.toml" both find the built-in one, from whatever
    directory, where there is no such file. `InputError` if nothing is found.
    """
    path = Path(name)
    problem = path_problem(name)
    if problem:
        raise InputError(f"{written(name)} {problem}")
    if is_file(path):
        return path
    known = built_in()
    bare = path.name.removesuffix(".toml")
    if bare in known and path.parent in (Path("."), Path("experiments")):
        return known[bare]
    if os.path.lexists(path):
        require_file(path)
    raise InputError("there is no such experiment", file=name, hint=did_you_mean(bare, known))
