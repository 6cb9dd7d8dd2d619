"""Checkpoints: the state of a run in one file, from which it resumes with an identical result.

A checkpoint is written under another name and then renamed, so a file with the right name is
complete. Its parts:

    MAGIC
    8 bytes                length of the header, little-endian
    header                 JSON: inputs of the run, and the place of each array
    arrays                 as in memory (`netsim/engine/snapshot.py`)
    32 bytes               SHA-256 of everything above

A checkpoint is the memory of compiled code, so a forged one can make that code do anything: it is
code, like a plugin. Nothing is compressed: zlib would take several times as long as writing.
"""

from __future__ import annotations

import hashlib
import json
import struct
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from netsim import documents
from netsim.documents import parsed, require
from netsim.errors import InputError, warn_once
from netsim.inputs import file_size, unreadable
from netsim.version import __version__
from netsim.writing import replacing_file

if TYPE_CHECKING:
    from netsim.engine.engine import Engine
    from netsim.engine.readings import Readings
    from netsim.engine.snapshot import Snapshot, Stored
    from netsim.running.stall import StallDetector

FORMAT = 4
"""Version of the file format."""

MAGIC = b"netsim checkpoint\n"
READINGS = "readings."
"""Prefix of the arrays of `Readings`, behind those of the engine."""

LENGTH = struct.Struct("<Q")
HASH_BYTES = hashlib.sha256().digest_size

BLOCK = 1 << 24
"""Bytes hashed at a time."""

MAX_NAMED = 4
"""Maximum number of differences in a message."""

START_OVER = "`netsim run --force` starts over"


@dataclass(frozen=True)
class CheckpointHeader:
    """State of a run besides its engine.

    `run_inputs` are those of its `Provenance`, `wall_s` the simulation's wall-clock time in all its
    processes, `stall` the state of its `StallDetector`, `digest` that of the engine.
    """

    point: str
    run_inputs: Mapping[str, Any]
    now_ps: int
    wall_s: float
    stall: Mapping[str, int]
    digest: str


@dataclass(frozen=True)
class Checkpoint:
    """A complete checkpoint; its arrays stay in the file until used."""

    path: Path
    version: str
    header: CheckpointHeader
    snapshot: Snapshot

    def require(self, run_inputs: Mapping[str, Any]) -> None:
        """Raise InputError with the differences if its run had other inputs."""
        then = self.header.run_inputs
        file = str(self.path)
        if other := _changed_values(then, run_inputs):
            what = "; ".join(other[:MAX_NAMED]) + ("; and more" if len(other) > MAX_NAMED else "")
            raise InputError(f"from another experiment: {what}", file=file, hint=START_OVER)
        if code := _changed_code(then, run_inputs, self.version):
            message = f"written by other code: {', '.join(code[:MAX_NAMED])}"
            hint = f"resume with the code that wrote it; {START_OVER}"
            raise InputError(message, file=file, hint=hint)


def write(path: Path, state: CheckpointHeader, snapshot: Snapshot) -> int:
    """Replace the checkpoint; return its size in bytes.

    Raises OSError if it cannot be written; the previous one stays.
    """
    arrays = [[name, one.kind, one.shape, one.raw.size] for name, one in snapshot.items()]
    header = {
        "format": FORMAT,
        "byteorder": sys.byteorder,
        "version": __version__,
        **asdict(state),
        "arrays": arrays,
    }
    text = json.dumps(header).encode()
    parts: list[Any] = [MAGIC, LENGTH.pack(len(text)), text]
    parts += [one.raw.data for one in snapshot.values()]
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing_file(path, durable=True) as file:
        hashed = hashlib.sha256()
        for part in parts:
            hashed.update(part)
            file.write(part)
        file.write(hashed.digest())
        return file.tell()


def read(path: Path) -> Checkpoint:
    """Return the checkpoint in a file.

    Raises InputError unless it is complete and readable by this version on this machine.
    """
    try:
        content = np.memmap(path, np.uint8, "r") if file_size(path) else np.zeros(0, np.uint8)
    except OSError as error:
        raise unreadable(path, error) from None
    try:
        return _read(path, content)
    except InputError as error:
        raise error.at(file=str(path)) from None


def _read(path: Path, content: Any) -> Checkpoint:
    start = len(MAGIC) + LENGTH.size
    if bytes(content[: len(MAGIC)]) != MAGIC[: content.size] or not content.size:
        raise InputError("not a checkpoint of netsim")
    if content.size < start:
        raise _truncated(content, start)
    (length,) = LENGTH.unpack(bytes(content[len(MAGIC) : start]))
    body = start + length
    if content.size < body:
        raise _truncated(content, body)
    header = _header(bytes(content[start:body]))
    ranges = list(_array_ranges(header["arrays"], body))
    end = ranges[-1][-1] if ranges else body
    if content.size < end + HASH_BYTES:
        raise _truncated(content, end + HASH_BYTES)
    if _hash(content[:end]) != bytes(content[end:]):
        raise _altered()
    from netsim.engine.snapshot import Stored

    return Checkpoint(
        path,
        header["version"],
        CheckpointHeader(**{name: header[name] for name in CheckpointHeader.__dataclass_fields__}),
        {
            name: Stored(kind, tuple(shape), content[begin:stop])
            for name, kind, shape, begin, stop in ranges
        },
    )


def _header(text: bytes) -> dict[str, Any]:
    try:
        header = parsed(text)
        require(header, {"format": int, "byteorder": str}, file=None, hint=START_OVER)
    except (ValueError, InputError):
        raise _altered() from None
    written, order = header["format"], header["byteorder"]
    if written != FORMAT:
        raise InputError(
            f"unknown format {written}", hint=f"this version reads format {FORMAT}; {START_OVER}"
        )
    if order != sys.byteorder:
        message = f"written on a machine with another byte order ({order}-endian)"
        raise InputError(message, hint=f"resume there; {START_OVER}")
    require(header, documents.CHECKPOINT, file=None, hint=START_OVER)
    return dict(header)


def _array_ranges(arrays: Any, begin: int) -> Iterator[tuple[str, str, list[int], int, int]]:
    """Yield each array's name, kind, shape, and start and end in the file."""
    for name, kind, shape, size in arrays:
        yield name, kind, shape, begin, begin + size
        begin += size


def _hash(content: Any) -> bytes:
    hashed = hashlib.sha256()
    for begin in range(0, content.size, BLOCK):
        hashed.update(content[begin : begin + BLOCK].data)
    return hashed.digest()


def _truncated(content: Any, size: int) -> InputError:
    return InputError(f"truncated: {content.size:,} of at least {size:,} bytes", hint=START_OVER)


def _altered() -> InputError:
    return InputError("altered or damaged", hint=START_OVER)


def _changed_values(then: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """Return how the experiment differs from that of the checkpoint."""
    old, new = dict(_flat(then.get("experiment"))), dict(_flat(now["experiment"]))
    found = [
        f"{key} was {_value(old, key)}, now {_value(new, key)}"
        for key in dict.fromkeys((*new, *old))
        if key not in old or key not in new or old[key] != new[key]
    ]
    if not found and then.get("data") != now["data"]:
        found = [f"{name} has changed" for name, _ in _changed(then, now, "data")]
    return found


def _changed_code(then: Mapping[str, Any], now: Mapping[str, Any], version: str) -> list[str]:
    """Return how the code differs from that of the checkpoint."""
    found = [f"{name} has changed" for name, *_ in _changed(then, now, "plugins")]
    old = then.get("libraries", {})
    for name, present in now["libraries"].items():
        if old.get(name) != present:
            found.append(f"{name} was {old.get(name)}, now {present}")
    if then.get("netsim") != now["netsim"]:
        found.append(
            "netsim itself has changed"
            if version == __version__
            else f"netsim was {version}, now {__version__}"
        )
    return found


def _changed(then: Mapping[str, Any], now: Mapping[str, Any], part: str) -> list[Any]:
    return [one for one in now[part] if one not in then.get(part, [])]


def _flat(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the values in nested tables with their dotted paths."""
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _flat(inner, f"{path}.{key}" if path else str(key))
    else:
        yield path, value


def _value(values: Mapping[str, Any], key: str) -> str:
    return json.dumps(values[key]) if key in values else "not set"


def _ints(one: Stored) -> Any:
    """Return an array of int64. Raises ValueError if it is not one."""
    if one.kind != np.dtype(np.int64).str:
        raise ValueError(f"an array of {one.kind}")
    return one.raw.view(np.int64).reshape(one.shape)


@dataclass
class Checkpointer:
    """Writes the checkpoint of one run every `every_s` seconds (None: never).

    `since` is the checkpoint that the run resumes from, if any.
    """

    point: str
    path: Path
    run_inputs: Mapping[str, Any]
    every_s: float | None
    since: Checkpoint | None = None
    _written: float = field(default_factory=time.monotonic)

    def find(self) -> None:
        """Resume from the checkpoint at `path`. Raises InputError if it does not match."""
        found = read(self.path)
        found.require(self.run_inputs)
        self.since = found

    @property
    def is_active(self) -> bool:
        """Whether this run resumes from a checkpoint or writes one."""
        return self.every_s is not None or self.since is not None

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

        Raises InputError if the engine or the readings have another layout.
        """
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

    def write_if_due(
        self,
        engine: Engine,
        wall_s: float,
        stall_detector: StallDetector,
        readings: Readings | None,
    ) -> None:
        """Write a checkpoint if the interval has passed."""
        if self.every_s is not None and time.monotonic() - self._written >= self.every_s:
            self.write(engine, wall_s, stall_detector, readings)

    def write(
        self,
        engine: Engine,
        wall_s: float,
        stall_detector: StallDetector,
        readings: Readings | None,
    ) -> None:
        """Write a checkpoint if the run writes any; warn if that fails."""
        if self.every_s is None:
            return
        header = CheckpointHeader(
            point=self.point,
            run_inputs=self.run_inputs,
            now_ps=engine.now_ps,
            wall_s=wall_s,
            stall=stall_detector.state(),
            digest=engine.digest(),
        )
        from netsim.engine.snapshot import stored

        snapshot = engine.snapshot()
        for name, array in ({} if readings is None else readings.arrays()).items():
            snapshot[READINGS + name] = stored(array)
        try:
            write(self.path, header, snapshot)
        except OSError as error:
            warn_once(f"cannot write {self.path}: {error.strerror or error}; the run continues")
        self._written = time.monotonic()
