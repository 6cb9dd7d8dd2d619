"""Checkpoints: the state of a run in one file, from which it resumes with an identical result.

A checkpoint is an uncompressed NumPy archive (.npz): a JSON header with the inputs of the run, and
the engine's arrays as in memory (`netsim/engine/snapshot.py`). It is written under another name and
then renamed, so a file with the right name is complete.

A checkpoint is the memory of compiled code, so a forged one can make that code do anything: trust
it only as you would a plugin.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from netsim.common import documents
from netsim.common.documents import parsed, require
from netsim.common.inputs import file_size, flat, unreadable
from netsim.common.writing import replacing_file
from netsim.errors import InputError, warn_once
from netsim.frozen import frozen
from netsim.version import __version__

if TYPE_CHECKING:
    from netsim.engine.engine import Engine
    from netsim.engine.snapshot import Snapshot, Stored
    from netsim.engine.state_views import Readings
    from netsim.running.drive import StallDetector

FORMAT = 5  # version of the file format
HEADER = "header"  # name of the header among the arrays
READINGS = "readings."  # prefix of the arrays of `Readings`, next to those of the engine
MAX_NAMED = 4  # maximum number of differences in a message

NOT_SET = "not set"

HASH_DIGITS = 8  # digits of a hash in messages

START_OVER = "`netsim run --force` starts over"


@frozen
class CheckpointHeader:
    """State of a run other than its engine.

    `run_inputs` are from its `Provenance`, `wall_s` the simulation's wall-clock time in all its
    processes, `every_s` the interval of its checkpoints, `stall` the state of its `StallDetector`,
    `digest` the engine's digest, and `origin` its experiment's (`Experiment.origin`).
    """

    point: str
    run_inputs: Mapping[str, Any]
    now_ps: int
    wall_s: float
    every_s: float
    stall: Mapping[str, int]
    digest: str
    origin: Mapping[str, Any] | None = None
    version: str = __version__


@frozen
class Checkpoint:
    """A complete checkpoint."""

    path: Path
    header: CheckpointHeader
    snapshot: Snapshot

    def require(self, run_inputs: Mapping[str, Any]) -> None:
        """Raise InputError with the differences if its run had other inputs."""
        file, version = str(self.path), self.header.version
        values, code = differences(self.header.run_inputs, run_inputs, version)
        if values:
            what = "; ".join(values[:MAX_NAMED]) + ("; and more" if len(values) > MAX_NAMED else "")
            raise InputError(f"from another experiment: {what}", file=file, hint=START_OVER)
        if code:
            message = f"written by other code: {', '.join(code[:MAX_NAMED])}"
            hint = f"resume with the code that wrote it; {START_OVER}"
            raise InputError(message, file=file, hint=hint)


def write(path: Path, header: CheckpointHeader, snapshot: Snapshot) -> int:
    """Replace the checkpoint; return its size in bytes. Raises OSError if it cannot be written; the
    previous one stays."""
    layout = {name: (one.kind, one.shape) for name, one in snapshot.items()}
    about = {"format": FORMAT, **asdict(header), "arrays": layout}
    arrays: dict[str, Any] = {name: one.raw for name, one in snapshot.items()}
    arrays[HEADER] = np.frombuffer(json.dumps(about).encode(), np.uint8)
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing_file(path, durable=True) as file:
        np.savez(file, **arrays)
        return file.tell()


def read(path: Path) -> Checkpoint:
    """Return the checkpoint in a file. Raises InputError unless it is complete and readable by this
    version."""
    from netsim.engine.snapshot import Stored

    file_size(path)
    try:
        with np.load(path) as archive:
            found = dict(archive)
        about = parsed(found.pop(HEADER).tobytes())
    except OSError as error:
        raise unreadable(path, error) from None
    except Exception:  # a damaged archive can raise anything
        message = "damaged, or not a checkpoint of netsim"
        raise InputError(message, file=str(path), hint=START_OVER) from None
    if isinstance(about, dict) and (written := about.get("format")) != FORMAT:
        hint = f"this version reads format {FORMAT}; {START_OVER}"
        raise InputError(f"unknown format {written}", file=str(path), hint=hint)
    require(about, documents.CHECKPOINT, file=str(path), hint=START_OVER)
    if about["arrays"].keys() != found.keys():
        raise InputError("has other arrays than its header", file=str(path), hint=START_OVER)
    header = CheckpointHeader(**{one.name: about[one.name] for one in fields(CheckpointHeader)})
    layout = about["arrays"].items()
    snapshot = {name: Stored(kind, tuple(shape), found[name]) for name, (kind, shape) in layout}
    return Checkpoint(path, header, snapshot)


def differences(
    then: Mapping[str, Any], now: Mapping[str, Any], version: str
) -> tuple[list[str], list[str]]:
    """Return how a run's input values and data differ from the checkpoint's, and how its code
    differs; `version` is the netsim version that wrote the checkpoint."""
    old, new = (
        {name: json.dumps(value) for name, value in flat(inputs["experiment"])}
        for inputs in (then, now)
    )
    values = [
        f"{key} was {old.get(key, NOT_SET)}, now {new.get(key, NOT_SET)}"
        for key in dict.fromkeys((*new, *old))
        if old.get(key) != new.get(key)
    ]
    data, code = (
        [f"{name} has changed" for name, *of in now[part] if [name, *of] not in then[part]]
        for part in ("data", "plugins")
    )
    for name, present in now["libraries"].items():
        if (old_version := then["libraries"].get(name)) != present:
            code.append(f"{name} was {old_version}, now {present}")
    if then["netsim"] != now["netsim"]:
        hashes = [inputs["netsim"][:HASH_DIGITS] for inputs in (then, now)]
        code.append(f"netsim was {version} (code {hashes[0]}), now {__version__} ({hashes[1]})")
    return values + data, code


def _ints(one: Stored) -> Any:
    """Return an array of int64. Raises ValueError if it is not one."""
    if one.kind != np.dtype(np.int64).str:
        raise ValueError(f"an array of {one.kind}")
    return one.raw.view(np.int64).reshape(one.shape)


@dataclass
class Checkpointer:
    """Writes the checkpoint of one run every `every_s` seconds (None: never). `since` is the
    checkpoint that the run resumes from, if any."""

    point: str
    path: Path
    run_inputs: Mapping[str, Any]
    every_s: float | None
    origin: Mapping[str, Any] | None = None
    since: Checkpoint | None = None
    _written: float = 0.0

    def find(self) -> None:
        """Resume from the checkpoint at `path`, and write new ones at its run's interval unless
        `every_s` is given. Raises InputError if it does not match."""
        found = read(self.path)
        found.require(self.run_inputs)
        self.since = found
        self.every_s = self.every_s or found.header.every_s

    @property
    def since_ps(self) -> int:
        """Simulated time at which the run starts."""
        return self.since.header.now_ps if self.since else 0

    @property
    def earlier_s(self) -> float:
        """Wall-clock time of the run before its checkpoint."""
        return self.since.header.wall_s if self.since else 0.0

    def restore(
        self, engine: Engine, stall_detector: StallDetector, readings: Readings | None
    ) -> None:
        """Restore the engine, the stall detector and the readings from the checkpoint, if any.
        Raises InputError if the engine or the readings have another layout."""
        self._written = time.monotonic()
        if self.since is None:
            return
        from netsim.engine.snapshot import ForeignSnapshotError

        header, state = self.since.header, self.since.snapshot
        read = {name for name in state if name.startswith(READINGS)}
        try:
            engine.restore({name: state[name] for name in state.keys() - read})
            if readings is not None:
                readings.restore({name.removeprefix(READINGS): _ints(state[name]) for name in read})
        except (ForeignSnapshotError, ValueError) as error:
            raise InputError(f"does not match: {error}", file=str(self.path)) from None
        if engine.digest() != header.digest:
            raise InputError("damaged: the restored state has another digest", file=str(self.path))
        stall_detector.restore(header.stall)
        self.since = replace(self.since, snapshot={})  # frees its memory

    @property
    def is_due(self) -> bool:
        """Whether the interval has passed."""
        return self.every_s is not None and time.monotonic() - self._written >= self.every_s

    def write(
        self, wall_s: float, engine: Engine, detector: StallDetector, readings: Readings | None
    ) -> None:
        """Write a checkpoint if the run writes any; warn if that fails."""
        if self.every_s is None:
            return
        from netsim.engine.snapshot import stored

        header = CheckpointHeader(
            point=self.point,
            run_inputs=self.run_inputs,
            now_ps=engine.now_ps,
            wall_s=wall_s,
            every_s=self.every_s,
            stall=detector.state(),
            digest=engine.digest(),
            origin=self.origin,
        )
        snapshot = engine.snapshot()
        for name, array in ({} if readings is None else readings.arrays()).items():
            snapshot[READINGS + name] = stored(array)
        try:
            write(self.path, header, snapshot)
        except OSError as error:
            warn_once(f"cannot write {self.path}: {error.strerror or error}; the run continues")
        self._written = time.monotonic()
