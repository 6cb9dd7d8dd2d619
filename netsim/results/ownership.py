"""Check whether netsim wrote what is in a directory.

Before a directory is replaced or removed, every entry must have the name of a result file, none may
have other contents, and at least one must be recognizable. Damaged files prove nothing. Links,
directories, pipes and devices are foreign.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

from netsim.results import files
from netsim.writing import is_plain_file

KEYS = {
    files.SUMMARY: {"complete", "reason", "hash"},
    files.EXPERIMENT: {"format", "versions", "resolved"},
    files.RUN: {"format", "experiment", "overrides", "directory"},
}
"""Keys that identify the JSON files of netsim."""

PARQUET = b"PAR1"
"""Last bytes of a Parquet file; the length of its metadata precedes them."""

IN_TABLES = b"netsim.table"
"""Marker of netsim in the metadata (`files.write_table`)."""

IN_CHECKPOINTS = b"netsim checkpoint\n"
"""First bytes of checkpoints: `MAGIC` of `netsim/running/checkpoint.py`."""

MAX_BYTES = 1 << 28
"""Largest metadata that is read."""


def foreign_entry(directory: Path) -> str | None:
    """Return the name of an entry that netsim did not write; None if there is none."""
    entries = sorted(directory.iterdir())
    ours = {path.name: is_written_by_netsim(path) for path in entries}
    foreign = [name for name, known in ours.items() if known is False]
    if foreign or not ours:
        return foreign[0] if foreign else None
    return None if True in ours.values() else next(iter(ours))


def is_left_over(directory: Path) -> bool:
    """Return whether a directory may be an unfinished one of a killed run."""
    if directory.is_symlink() or not directory.is_dir():
        return False
    return all(is_written_by_netsim(path) is not False for path in directory.iterdir())


def is_our_sweep(directory: Path) -> bool:
    """Return whether netsim wrote the sweep table in `directory`; if it is damaged, its points
    count.
    """
    path = directory / files.SWEEP
    if not is_plain_file(path):
        return False
    ours = _is_our_table(path)
    if ours is not None:
        return ours
    folders = [folder for folder in directory.iterdir() if folder.is_dir()]
    return any(is_written_by_netsim(folder / files.EXPERIMENT) for folder in folders)


def is_written_by_netsim(path: Path) -> bool | None:
    """Return whether netsim wrote a file of a result; None if unknown."""
    if not files.is_ours(path.name) or not is_plain_file(path):
        return False
    try:
        if path.name in KEYS:
            return _is_our_json(path)
        if path.suffix == ".parquet":
            return _is_our_table(path)
        if path.name == files.CHECKPOINT:
            with path.open("rb") as file:
                begins = file.read(len(IN_CHECKPOINTS))
            return True if begins == IN_CHECKPOINTS else None
    except OSError:
        return False
    return None


def _is_our_json(path: Path) -> bool | None:
    try:
        content = json.loads(path.read_bytes())
    except (ValueError, RecursionError):
        return None
    return isinstance(content, dict) and content.keys() >= KEYS[path.name]


def _is_our_table(path: Path) -> bool | None:
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
