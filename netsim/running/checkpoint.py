"""Checkpoints: the state of a run in one file, from which it goes on as if nothing had happened.

A checkpoint is written beside the one before it, brought to the disk, and then takes its name, so
that what has the name is whole. It holds, one behind the other:

    MAGIC                  whose file it is
    8 bytes                the length of the header, little-endian
    the header             JSON: what is needed to know that it fits, and where each array is
    the arrays             as they are in memory (`netsim/engine/snapshot.py`)
    32 bytes               SHA-256 of all that
    32 bytes               the seal of that, by which this user's own is known (`seal.py`)

Nothing is compressed: zlib at its fastest leaves a quarter of the packets, in several times the
time that writing all of them takes.
"""

from __future__ import annotations

import hashlib
import json
import struct
import sys
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from netsim import documents
from netsim.documents import parsed, require
from netsim.errors import InputError
from netsim.inputs import file_size, unreadable
from netsim.running.seal import SEAL_BYTES, is_sealed, seal_of
from netsim.version import __version__
from netsim.writing import replacing_file

if TYPE_CHECKING:
    from netsim.engine.snapshot import Snapshot

FORMAT = 3
"""Number of the layout; it changes when a reader would have to."""

MAGIC = b"netsim checkpoint\n"
LENGTH = struct.Struct("<Q")
HASH_BYTES = hashlib.sha256().digest_size
END_BYTES = HASH_BYTES + SEAL_BYTES

BLOCK = 1 << 24
"""Bytes that are hashed at a time."""

MAX_NAMED = 4
"""Differences that a message names."""

ANEW = "`netsim run` with --force begins anew"


@dataclass(frozen=True)
class CheckpointHeader:
    """State of a run besides its engine.

    `run_inputs` is that of its `Provenance`. `wall_s` is the simulation's wall-clock time so far,
    in all its processes. `stall` is the state of its `StallDetector`, `digest` the engine's.
    """

    point: str
    run_inputs: Mapping[str, Any]
    now_ps: int
    wall_s: float
    stall: Mapping[str, int]
    digest: str


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint that was read and is whole. The arrays are in the file until they are used.

    It is `sealed` if this user has written it.
    """

    path: Path
    version: str
    header: CheckpointHeader
    snapshot: Snapshot
    sealed: bool = False

    def require_seal(self) -> None:
        """Raise InputError unless this user has written it."""
        if not self.sealed:
            message = "was not written by you here, and a forged one can do what code can"
            raise InputError(message, file=str(self.path), hint=f"--trust goes on with it; {ANEW}")

    def require(self, run_inputs: Mapping[str, Any]) -> None:
        """Raise InputError unless it is of a run that is made of the same, naming what is not."""
        then = self.header.run_inputs
        file = str(self.path)
        if other := _other_values(then, run_inputs):
            what = "; ".join(other[:MAX_NAMED]) + ("; and more" if len(other) > MAX_NAMED else "")
            raise InputError(f"is of another experiment: {what}", file=file, hint=ANEW)
        if code := _other_code(then, run_inputs, self.version):
            raise InputError(
                f"was written by other code: {', '.join(code[:MAX_NAMED])}",
                file=file,
                hint=f"go on with the code that wrote it, or {ANEW}",
            )


def write(path: Path, known: CheckpointHeader, snapshot: Snapshot) -> int:
    """Write a checkpoint in place of the one before it. Returns its size in bytes.

    Raises OSError if it cannot be written; the one before is there then.
    """
    arrays = [[name, one.kind, one.shape, one.raw.size] for name, one in snapshot.items()]
    header = {
        "format": FORMAT,
        "byteorder": sys.byteorder,
        "version": __version__,
        **asdict(known),
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
        file.write(hashed.digest() + seal_of(hashed.digest()))
        return file.tell()


def read(path: Path) -> Checkpoint:
    """The checkpoint in a file.

    Raises InputError unless it is whole, and one that this version and this machine can read.
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
        raise InputError("is not a checkpoint of netsim")
    if content.size < start:
        raise _truncated(content, start)
    (length,) = LENGTH.unpack(bytes(content[len(MAGIC) : start]))
    body = start + length
    if content.size < body:
        raise _truncated(content, body)
    header = _header(bytes(content[start:body]))
    places = list(_places(header["arrays"], body))
    end = places[-1][-1] if places else body
    if content.size < end + END_BYTES:
        raise _truncated(content, end + END_BYTES)
    digest, seal = bytes(content[end:][:HASH_BYTES]), bytes(content[end + HASH_BYTES :])
    if content.size > end + END_BYTES or _hash(content[:end]) != digest:
        raise _altered()
    from netsim.engine.snapshot import Stored

    return Checkpoint(
        path,
        header["version"],
        CheckpointHeader(**{name: header[name] for name in CheckpointHeader.__dataclass_fields__}),
        {
            name: Stored(kind, tuple(shape), content[begin:stop])
            for name, kind, shape, begin, stop in places
        },
        is_sealed(digest, seal),
    )


def _header(text: bytes) -> dict[str, Any]:
    try:
        header = parsed(text)
        require(header, {"format": int, "byteorder": str}, file=None, hint=ANEW)
    except (ValueError, InputError):
        raise _altered() from None
    written, order = header["format"], header["byteorder"]
    if written != FORMAT:
        raise InputError(
            f"is of format {written}, which this version of netsim does not know",
            hint=f"it reads format {FORMAT}; {ANEW}",
        )
    if order != sys.byteorder:
        raise InputError(
            f"was written on a machine of the other byte order ({order}-endian)",
            hint=f"go on there, or {ANEW}",
        )
    require(header, documents.CHECKPOINT, file=None, hint=ANEW)
    return dict(header)


def _places(arrays: Any, begin: int) -> Iterator[tuple[str, str, list[int], int, int]]:
    """Name, kind and shape of each array, and where it begins and ends in the file."""
    for name, kind, shape, size in arrays:
        yield name, kind, shape, begin, begin + size
        begin += size


def _hash(content: Any) -> bytes:
    hashed = hashlib.sha256()
    for begin in range(0, content.size, BLOCK):
        hashed.update(content[begin : begin + BLOCK].data)
    return hashed.digest()


def _truncated(content: Any, size: int) -> InputError:
    return InputError(
        f"is truncated: {content.size:,} of at least {size:,} bytes are there", hint=ANEW
    )


def _altered() -> InputError:
    return InputError("was altered or damaged since it was written", hint=ANEW)


def _other_values(then: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """What the experiment says now and did not say then, or in another way."""
    old, new = dict(_flat(then.get("experiment"))), dict(_flat(now["experiment"]))
    found = [
        f"{key} was {_word(old, key)} and is {_word(new, key)}"
        for key in dict.fromkeys((*new, *old))
        if key not in old or key not in new or old[key] != new[key]
    ]
    if not found and then.get("data") != now["data"]:
        found = [f"{name} has other contents" for name, _ in _changed(then, now, "data")]
    return found


def _other_code(then: Mapping[str, Any], now: Mapping[str, Any], version: str) -> list[str]:
    """What of the code is not as it was."""
    found = [f"{name} has changed" for name, *_ in _changed(then, now, "plugins")]
    old = then.get("libraries", {})
    for name, present in now["libraries"].items():
        if old.get(name) != present:
            found.append(f"{name} was {old.get(name)} and is {present}")
    if then.get("netsim") != now["netsim"]:
        found.append(
            "netsim itself has changed"
            if version == __version__
            else f"netsim was {version} and is {__version__}"
        )
    return found


def _changed(then: Mapping[str, Any], now: Mapping[str, Any], part: str) -> list[Any]:
    return [one for one in now[part] if one not in then.get(part, [])]


def _flat(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """The values in tables, by their dotted paths."""
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _flat(inner, f"{path}.{key}" if path else str(key))
    else:
        yield path, value


def _word(values: Mapping[str, Any], key: str) -> str:
    return json.dumps(values[key]) if key in values else "not given"
