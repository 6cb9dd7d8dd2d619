"""run.json: the command of a run with checkpoints, stored with its results until the run ends."""

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
"""Version of the file format."""

RERUN = "`netsim run EXPERIMENT` runs the unfinished points"


@dataclass(frozen=True)
class RunManifest:
    """Experiment file, overrides, the working directory that they refer to, and checkpoint
    interval.
    """

    experiment: str
    overrides: list[str]
    directory: str
    checkpoint_s: float
    shard: str | None = None

    @classmethod
    def of(
        cls, experiment: Experiment, checkpoint_s: float, shard: str | None = None
    ) -> RunManifest:
        """Return the manifest of a run that starts now in the working directory."""
        file = str(Path(experiment.file).resolve())
        return cls(file, list(experiment.overrides), str(Path.cwd()), checkpoint_s, shard)

    def write(self, directory: Path) -> None:
        try:
            directory.mkdir(parents=True, exist_ok=True)
            files.write_json(directory / files.RUN, {"format": FORMAT, **asdict(self)})
        except OSError as error:
            raise InputError(f"cannot write to {directory}: {error.strerror}") from error

    def load(self, *, trust: bool = False) -> Experiment:
        """Load the experiment again.

        Raises InputError if that fails, or if the experiment names code that is not part of netsim
        and `trust` is false: anybody may have written the file.
        """
        from netsim.experiment import Experiment

        with nullcontext() if trust else plugin_files.untrusted():
            if not self.overrides:
                return Experiment.load(self.experiment)
            try:
                with chdir(self.directory):
                    return Experiment.load(self.experiment, self.overrides)
            except OSError as error:
                what = f"cannot enter {self.directory}, where the run started: {error.strerror}"
                raise InputError(what) from None


@dataclass(frozen=True)
class Checkpoints:
    """Where a run's checkpoints come from; `manifest` is None if it writes none.

    With `must_fit`, a checkpoint that does not match is an error; otherwise its point starts over.
    """

    manifest: RunManifest | None = None
    must_fit: bool = False


def read_manifest(directory: Path) -> RunManifest:
    """Return the manifest of the run whose results are in `directory`.

    Raises InputError if there is no run to resume.
    """
    if problem := path_problem(str(directory)):
        raise InputError(f"{written(str(directory))} {problem}")
    path = directory / files.RUN
    if not os.path.lexists(path):
        raise _nothing_to_resume(directory)
    content = read_object(path, documents.RUN)
    if content["format"] != FORMAT:
        raise InputError("written by another version of netsim", file=str(path), hint=RERUN)
    content.setdefault("shard", None)
    for key in ("experiment", "directory"):
        if problem := path_problem(content[key]):
            raise InputError(problem, file=str(path), key=key, hint=DAMAGED)
    return RunManifest(**{one.name: content[one.name] for one in fields(RunManifest)})


def _nothing_to_resume(directory: Path) -> InputError:
    if not directory.is_dir():
        return InputError(f"{directory}: no such directory", code="unknown_value")
    if is_sweep(directory):
        done = all(point.complete for point in load_sweep(directory).points)
    else:
        done = recorded_complete(directory) is True
    if done:
        return InputError(f"{directory} is complete: nothing to resume")
    hint = "`netsim run --checkpoint` writes checkpoints; " + RERUN
    return InputError(f"no checkpoint in {directory}", hint=hint)
