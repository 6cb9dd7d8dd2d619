"""Parts of a sweep that run separately, and how they are merged.

A shard's directory is a sweep of its points, with a `shard.json` that names the sweep and the part.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Any

from netsim.common import documents
from netsim.common.documents import DAMAGED, read_object
from netsim.common.inputs import ROOM_IN_NAME, path_problem
from netsim.errors import InputError
from netsim.frozen import frozen
from netsim.results import destination, files
from netsim.results.destination import exclusive, foreign_entry, real, replacing
from netsim.results.provenance import code_inputs
from netsim.results.read import Result, load_sweep
from netsim.results.write import result_row, write_sweep
from netsim.units import shortened, written

if TYPE_CHECKING:
    from netsim.experiment import Point

FORMAT = 1  # version of the file format

_SHARD = re.compile(r"([0-9]{1,5})/([0-9]{1,5})", re.ASCII)
MAX_NAMED = 5  # maximum number of names in a message


@frozen
class Shard:
    """Part `number` of `count` of a sweep: every `count`th point from `number`. `sweep` is a hash
    of all its points and of netsim's code, `points` their names."""

    number: int
    count: int
    sweep: str = ""
    points: tuple[str, ...] = ()

    @classmethod
    def parse(cls, text: str) -> Shard:
        """Return the shard of an option such as "3/16"."""
        match = _SHARD.fullmatch(text)
        number, count = (int(match[1]), int(match[2])) if match else (0, 0)
        if not 1 <= number <= count:
            hint = 'such as "3/16", the third of 16'
            raise InputError(f"{written(text)} is not a shard", file="--shard", hint=hint)
        return cls(number, count)

    @property
    def suffix(self) -> str:
        """The end of the name of the shard's directory."""
        return f".shard-{self.number}-of-{self.count}"

    @property
    def names(self) -> tuple[str, ...]:
        """The names of this shard's points."""
        return self.points[self.number - 1 :: self.count]

    def of(self, points: Sequence[Point]) -> Shard:
        """Return the shard of a sweep. Raises InputError if it would have no point."""
        if len(points) < max(2, self.count):
            what = f"{len(points)} point{'s' if len(points) > 1 else ''}"
            raise InputError(f"{self.count} shards of {what}", file="--shard")
        inputs = [code_inputs(), [[point.name, point.resolved] for point in points]]
        text = json.dumps(files.plain(inputs), sort_keys=True)
        names = tuple(point.name for point in points)
        return Shard(self.number, self.count, hashlib.sha256(text.encode()).hexdigest(), names)

    def write(self, directory: Path) -> None:
        """Write `shard.json`. Raises InputError if that fails."""
        try:
            files.write_json(directory / files.SHARD, {"format": FORMAT, **asdict(self)})
        except OSError as error:
            raise InputError(f"cannot write to {directory}: {error.strerror}") from error


def read_shard(directory: Path) -> Shard:
    """Return the shard in `directory`. Raises InputError if there is none or it is damaged."""
    if problem := path_problem(str(directory)):
        raise InputError(f"{written(str(directory))} {problem}")
    path = directory / files.SHARD
    if not os.path.lexists(path):
        if not directory.is_dir():
            raise InputError(f"{directory}: no such directory", code="unknown_value")
        raise InputError(f"{directory} is not a shard", hint="`netsim run --shard` writes shards")
    content = read_object(path, documents.SHARD)
    if content["format"] != FORMAT:
        raise InputError("written by another version of netsim", file=str(path))
    names = tuple(content["points"])
    shard = Shard(content["number"], content["count"], content["sweep"], names)
    problems = (
        (not 1 <= shard.number <= shard.count <= len(names), "number", "out of range"),
        (len(set(names)) < len(names), "points", "duplicate name"),
        (any(not _is_name(name) for name in names), "points", "not the name of a directory"),
    )
    for is_wrong, key, what in problems:
        if is_wrong:
            raise InputError(what, file=str(path), key=key, hint=DAMAGED)
    return shard


def _is_name(name: str) -> bool:
    """Return whether a point's directory can have this name."""
    plain = Path(name).name == name and not name.startswith(".")
    return plain and not path_problem(name, reserve=ROOM_IN_NAME)


def merge_directory(sources: Sequence[Path]) -> Path:
    """Return the directory for merging shards with default names. Raises InputError for others."""
    read_shard(sources[0])
    first = Path(os.path.abspath(sources[0]))
    name = re.sub(r"\.shard-[0-9]+-of-[0-9]+$", "", first.name)
    if name in (first.name, ""):
        raise InputError(f"{sources[0]} does not name a directory for the sweep", hint="give --out")
    return sources[0].parent / name


def merge(sources: Sequence[Path], out: Path) -> list[str]:
    """Merge all shards of a sweep into `out`; return the names of points without a result.

    The shards are not changed. Results already in `out` are kept. Raises InputError unless the
    directories are all shards of one sweep, or if a result is damaged.
    """
    shards = {source: read_shard(source) for source in sources}
    _require_all(shards)
    target = real(out)
    for source in shards:
        if real(source) == target or target in real(source).parents:
            raise InputError(f"{out} contains the shard {source}", hint="choose another --out")
    destination.check_destination(target, sweep=True)
    names = next(iter(shards.values())).points
    rows: dict[str, Mapping[str, Any]] = {}
    with exclusive(target):
        destination.prepare_sweep(target)
        for source, shard in shards.items():
            rows |= _merge_shard(source, shard, target)
        write_sweep(target, [rows[name] for name in names if name in rows])
    return [name for name in names if name not in rows]


def _require_all(shards: Mapping[Path, Shard]) -> None:
    """Raise InputError unless these are all shards of one sweep."""
    for (one, shard), (other, second) in combinations(shards.items(), 2):
        if (shard.sweep, shard.count, shard.points) != (second.sweep, second.count, second.points):
            hint = "same experiment, netsim, libraries and number of shards"
            raise InputError(f"{one} and {other} are shards of different sweeps", hint=hint)
        if shard.number == second.number:
            raise InputError(f"{one} and {other} are both shard {shard.number}")
    given = {shard.number for shard in shards.values()}
    count = next(iter(shards.values())).count
    if missing := [str(number) for number in range(1, count + 1) if number not in given]:
        more = ", ..." if len(missing) > MAX_NAMED else ""
        listed = ", ".join(missing[:MAX_NAMED]) + more
        raise InputError(f"shards missing: {listed} of {count}", hint="give all of them")


def _merge_shard(source: Path, shard: Shard, target: Path) -> dict[str, Mapping[str, Any]]:
    """Copy the results of a shard; return the rows of its points by name."""
    table = {str(row["point"]): row for row in load_sweep(source).table.iter_rows(named=True)}
    rows: dict[str, Mapping[str, Any]] = {}
    for name in shard.names:
        folder = source / name
        if os.path.lexists(folder):
            rows[name] = _merge_point(folder, name, target / name)
        elif table.get(name, {}).get("status") == "failed":
            rows[name] = table[name]
    return rows


def _merge_point(folder: Path, name: str, target: Path) -> Mapping[str, Any]:
    """Copy the result of a point unless `target` has it; return its row."""
    if folder.is_symlink() or not folder.is_dir():
        raise InputError(f"{folder} is not a directory", code="unreadable")
    if (foreign := foreign_entry(folder)) is not None:
        raise InputError(f"{folder} contains {foreign}, which netsim did not write")
    result = Result(folder)
    if result.name != name:
        what = f'is the point "{shortened(result.name)}"'
        raise InputError(what, file=str(folder / files.EXPERIMENT), key="point", hint=DAMAGED)
    if result.complete and len(result.flows) != result.summary["flows"]:
        raise InputError("has different flows than the summary", file=str(folder / files.FLOWS))
    if destination.done_result(target, result.fingerprint, links=False) is None:
        destination.check_folders({target: result.fingerprint}, [])
        with replacing(target, result.fingerprint) as scratch:
            for path in sorted(folder.iterdir()):
                if path.name != files.CHECKPOINT:
                    files.link_or_copy(path, scratch / path.name)
    return result_row(result)
