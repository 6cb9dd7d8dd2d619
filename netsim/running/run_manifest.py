"""run.json: the command of a run with checkpoints, next to its results until the run ends."""

from __future__ import annotations

import os
from contextlib import chdir, nullcontext
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING

from netsim import documents
from netsim.documents import DAMAGED, read_object
from netsim.errors import InputError
from netsim.inputs import path_problem
from netsim.plugins import files as plugin_files
from netsim.results import files, is_sweep, load_sweep
from netsim.results.read import recorded_complete
from netsim.units import written

if TYPE_CHECKING:
    from netsim.experiment import Experiment

FORMAT = 1
"""Version of the file."""

ANEW = "`netsim run EXPERIMENT` runs the points that are not done"


@dataclass(frozen=True)
class RunManifest:
    """The experiment file and its overrides, the working directory that overrides refer to, and the
    checkpoint interval.
    """

    experiment: str
    overrides: list[str]
    directory: str
    checkpoint_s: float

    @classmethod
    def of(cls, experiment: Experiment, checkpoint_s: float) -> RunManifest:
        """Return the manifest of a run that starts here and now."""
        file = str(Path(experiment.file).resolve())
        return cls(file, list(experiment.overrides), str(Path.cwd()), checkpoint_s)

    def write(self, directory: Path) -> None:
        """Write it to the result directory."""
        try:
            directory.mkdir(parents=True, exist_ok=True)
            files.write_json(directory / files.RUN, {"format": FORMAT, **asdict(self)})
        except OSError as error:
            raise InputError(f"cannot write to {directory}: {error.strerror}") from error

    def load(self, *, trust: bool = False) -> Experiment:
        """The experiment once more.

        Raises InputError if it cannot be read as it was, or names code that is not part of netsim
        and there is no `trust`: the file of a result may have been written by anybody.
        """
        with nullcontext() if trust else plugin_files.untrusted():
            return self._load()

    def _load(self) -> Experiment:
        from netsim.experiment import Experiment

        if not self.overrides:
            return Experiment.load(self.experiment)
        try:
            with chdir(self.directory):
                return Experiment.load(self.experiment, self.overrides)
        except OSError as error:
            raise InputError(
                f"the run was started in {self.directory}, which cannot be entered: "
                f"{error.strerror}"
            ) from None


@dataclass(frozen=True)
class Checkpoints:
    """Checkpoints of a run: its manifest, if it writes any.

    With `must_fit`, a checkpoint that does not match is an error; otherwise its point starts over.
    With `trust`, checkpoints that this user did not write are accepted.
    """

    manifest: RunManifest | None = None
    must_fit: bool = False
    trust: bool = False


def read_manifest(directory: Path) -> RunManifest:
    """Return the manifest of the run whose results go to `directory`.

    Raises InputError if there is no run to resume, with the reason.
    """
    if problem := path_problem(str(directory)):
        raise InputError(f"{written(str(directory))} {problem}")
    path = directory / files.RUN
    if not os.path.lexists(path):
        raise _nothing_to_resume(directory)
    content = read_object(path, documents.RUN)
    if content["format"] != FORMAT:
        raise InputError("is of another version of netsim", file=str(path), hint=ANEW)
    for key in ("experiment", "directory"):
        if problem := path_problem(content[key]):
            raise InputError(problem, file=str(path), key=key, hint=DAMAGED)
    return RunManifest(**{field.name: content[field.name] for field in fields(RunManifest)})


def _nothing_to_resume(directory: Path) -> InputError:
    if not directory.is_dir():
        return InputError(f"{directory}: there is no such directory", code="unknown_value")
    if is_sweep(directory):
        unfinished = [point for point in load_sweep(directory).points if not point.complete]
        done = not unfinished
    else:
        done = recorded_complete(directory) is True
    if done:
        return InputError(f"{directory} holds what is done: there is nothing to resume")
    return InputError(
        f"{directory} holds no checkpoint of a run",
        hint="`netsim run --checkpoint` writes them; " + ANEW,
    )
