"""Whether netsim wrote what is in a directory: its files tell, not their names.

Before a directory is replaced or removed, every entry has to be a file that netsim writes there,
by name and by contents, and at least one has to show that it is. A damaged file shows nothing. One
that is whole but not netsim's is foreign, and so is a link, a directory, a pipe or a device.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

from netsim.results import files
from netsim.writing import is_plain_file

KEYS = {
    files.SUMMARY: {"complete", "reason", "hash"},
    files.EXPERIMENT: {"format", "versions", "resolved"},
    files.RUN: {"format", "experiment", "overrides", "directory"},
}
"""What each file of JSON has that is netsim's."""

PARQUET = b"PAR1"
"""The last bytes of a file of Parquet; before them is the length of what describes the table."""

IN_TABLES = b"netsim.table"
"""What netsim writes into that (`files.write_table`)."""

IN_CHECKPOINTS = b"netsim checkpoint\n"
"""What checkpoints begin with: `MAGIC` of `netsim/running/checkpoint.py`, a room above this one."""

MAX_BYTES = 1 << 28
"""Longer descriptions are not read."""


def foreign_entry(directory: Path) -> str | None:
    """The name of something in `directory` that netsim did not write, None if there is nothing."""
    entries = sorted(directory.iterdir())
    told = {path.name: shows(path) for path in entries}
    foreign = [name for name, ours in told.items() if ours is False]
    if foreign or not told:
        return foreign[0] if foreign else None
    return None if True in told.values() else next(iter(told))


def is_left_over(directory: Path) -> bool:
    """Whether a directory may be what a killed run left unfinished: nothing in it is foreign."""
    if directory.is_symlink() or not directory.is_dir():
        return False
    return all(shows(path) is not False for path in directory.iterdir())


def is_our_sweep(directory: Path) -> bool:
    """Whether the table in `directory` is one of netsim; a damaged one has a point beside it."""
    path = directory / files.SWEEP
    if not is_plain_file(path):
        return False
    ours = _of_table(path)
    return any(_points(directory)) if ours is None else ours


def _points(directory: Path) -> Iterator[bool]:
    for folder in directory.iterdir():
        if folder.is_dir():
            yield bool(shows(folder / files.EXPERIMENT))


def shows(path: Path) -> bool | None:
    """Whether netsim wrote a file in the directory of a result; None if that cannot be told."""
    if not files.is_ours(path.name) or not is_plain_file(path):
        return False
    try:
        if path.name in KEYS:
            return _of_json(path)
        if path.suffix == ".parquet":
            return _of_table(path)
        if path.name == files.CHECKPOINT:
            with path.open("rb") as file:
                begins = file.read(len(IN_CHECKPOINTS))
            return True if begins == IN_CHECKPOINTS else None
    except OSError:
        return False
    return None


def _of_json(path: Path) -> bool | None:
    try:
        content = json.loads(path.read_bytes())
    except (ValueError, RecursionError):
        return None
    return isinstance(content, dict) and content.keys() >= KEYS[path.name]


def _of_table(path: Path) -> bool | None:
    end = len(PARQUET) + 4
    with path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        if size < end:
            return None
        file.seek(-end, os.SEEK_END)
        last = file.read(end)
        length = int.from_bytes(last[:4], "little")
        if last[4:] != PARQUET or length > min(size - end, MAX_BYTES):
            return None
        file.seek(-end - length, os.SEEK_END)
        return IN_TABLES in file.read(length)
