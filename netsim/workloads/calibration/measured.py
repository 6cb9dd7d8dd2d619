"""Read measured collectives: the text and JSON of nccl-tests and rccl-tests.

Text has a line of column names and a line per size; launchers may put prefixes before them. Only
times out of place are read.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from netsim.common.inputs import read_json, read_text
from netsim.errors import InputError
from netsim.limits import SIZE_BYTES
from netsim.units import shortened, written
from netsim.workloads.job.curves import Shape

MAX_ROWS = 100_000
"""Most measurements of a file."""

MAX_GPUS = 1 << 20
MAX_US = 1e12

NAMES = {
    "allreduce": "all_reduce",
    "allgather": "all_gather",
    "reducescatter": "reduce_scatter",
    "alltoall": "all_to_all",
    "sendrecv": "send",
}
"""Collectives as the tools name them, without "_"."""

OTHERS = ("broadcast", "reduce", "gather", "scatter", "hypercube", "alltoallv")

_JSON = re.compile(r"\s*(?:\{|\[\s*[\[{\]])")
_PREFIX = re.compile(
    r"\s*(?:\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d\S*\s+)?(?:\[\d+,\d+\]<std(?:out|err)>:|\d+:)?\s*"
)
_RANK = re.compile(
    r"#\s+Rank\s+(\d{1,9})\s+(?:Group\s+(\d{1,9})\s+)?Pid\s+\d+\s+on\s+(\S+)\s+device\s+\d+"
    r"\s+\[[^\]]*\]\s*(.*)"
)
_TEST = re.compile(r"\b([a-z_]{1,30})_perf\b")
_VERSION = re.compile(r"\b(?:[NR]CCL version|nccl-tests version|rccl-tests: Version)\s*[\w.+:-]+")


class Measurement(NamedTuple):
    """A time of a collective."""

    what: str
    shape: Shape
    size_bytes: int
    time_us: float
    file: str = ""


@dataclass
class MeasuredFile:
    """Measurements of a file, and what it says of the machine."""

    name: str
    sha256: str = ""
    rows: list[Measurement] = field(default_factory=list)
    versions: set[str] = field(default_factory=set)
    devices: set[str] = field(default_factory=set)
    left_out: Counter[str] = field(default_factory=Counter)


@dataclass
class _Place:
    """Where a row stands, and what precedes it: its test, and the hosts of ranks."""

    file: str
    line: int = 0
    test: str = ""
    hosts: dict[int, str] = field(default_factory=dict)

    def error(self, message: str, hint: str | None = None) -> InputError:
        where = f"{self.file}:{self.line}" if self.line else self.file
        return InputError(message, file=where, hint=hint)


def read_measured(path: Path, shape: Shape | None = None) -> MeasuredFile:
    """Read a file; `shape` is that of files that do not list ranks."""
    text = read_text(path)
    found = MeasuredFile(path.name, hashlib.sha256(text.encode()).hexdigest())
    if _JSON.match(text):
        _read_json(path, found, shape)
    else:
        _read_lines(path, text, found, shape)
    if not found.rows:
        left = ", ".join(f"{n} {why}" for why, n in found.left_out.items())
        raise InputError(
            "has no measured collective",
            file=str(path),
            hint=f"left out: {left}" if left else "the output of nccl-tests or rccl-tests",
        )
    return found


def _read_lines(path: Path, text: str, found: MeasuredFile, shape: Shape | None) -> None:
    place = _Place(str(path), test=_test_in(path.name))
    columns: list[str] = []
    for place.line, raw in enumerate(text.splitlines(), 1):
        line = raw[_PREFIX.match(raw).end() :]  # type: ignore[union-attr]
        words = line.split()
        if version := _VERSION.search(line):
            found.versions.add(version[0])
        if match := _TEST.search(line):
            place.test = match[1]
        if line.startswith("#"):
            names = line.lstrip("# ").split()
            if names[:3] == ["size", "count", "type"]:
                columns = names
            elif names[:1] in (["nThread"], ["Using"]):
                place.hosts = {}
            elif (rank := _RANK.match(line)) and int(rank[2] or 0) == 0:
                place.hosts[int(rank[1])] = rank[3]
                found.devices.add(rank[4].strip())
                if len(place.hosts) > MAX_GPUS:
                    raise place.error(f"more than {MAX_GPUS:,} ranks")
        elif words and words[0].isascii() and words[0].isdigit():
            _add(found, place, _row_of(words, columns, place), shape)


def _row_of(words: list[str], columns: list[str], place: _Place) -> tuple[Any, Any, Any]:
    """Return size, time and wrong values of a line."""
    at = next((k for k, name in enumerate(columns) if name in ("time", "cputime")), None)
    if at is None or len(columns) <= at + 3:
        hint = "size count type ... time algbw busbw #wrong"
        raise place.error("numbers without column names before them", hint)
    if len(words) <= at + 3:
        raise place.error(f"{len(words)} values, at least {at + 4} expected")
    return words[0], words[at], words[at + 3]


def _read_json(path: Path, found: MeasuredFile, shape: Shape | None) -> None:
    value = read_json(path)
    place = _Place(str(path), test=_test_in(path.name))
    if isinstance(value, dict):
        args = value.get("args")
        for word in args if isinstance(args, list) else []:
            if isinstance(word, str) and (match := _TEST.search(word)):
                place.test = match[1]
        if isinstance(version := value.get("nccl_version"), int):
            found.versions.add(f"NCCL version {version}")
        for one in _tables(value.get("devices", []), "devices", place):
            rank, host = one.get("rank"), one.get("hostname")
            if not isinstance(rank, int) or not isinstance(host, str):
                raise place.error("devices must have rank and hostname")
            if one.get("group", 0) == 0:
                place.hosts[rank] = host
                found.devices.add(str(one.get("device_info", "")).strip()[:100])
    for one in _tables(
        value.get("results") if isinstance(value, dict) else value, "results", place
    ):
        if isinstance(name := one.get("name"), str):
            place.test = _test_in(name)
        if one.get("inPlace") in (1, "1"):
            continue
        timed = one.get("out_of_place", one)
        if timed is None:
            found.left_out["only in place"] += 1
            continue
        if not isinstance(timed, dict):
            raise place.error(f"{written(timed)} must be a table of times")
        time = timed.get("time", timed.get("cpu_time"))
        wrong = timed.get("nwrong", timed.get("wrong", 0))
        _add(found, place, (one.get("size"), time, "N/A" if wrong is None else wrong), shape)


def _tables(value: Any, what: str, place: _Place) -> Iterator[dict[str, Any]]:
    if not isinstance(value, list) or not all(isinstance(one, dict) for one in value):
        raise place.error(f"{what} must be a list of tables")
    if len(value) > MAX_GPUS:
        raise place.error(f"more than {MAX_GPUS:,} {what}")
    yield from value


def _add(
    found: MeasuredFile, place: _Place, row: tuple[Any, Any, Any], shape: Shape | None
) -> None:
    """Check and add a row: size, time and wrong values, or count why it is left out."""
    size, time, wrong = _number(row[0], place), _number(row[1], place), row[2]
    if size == 0:
        found.left_out["of size 0"] += 1
        return
    if not 0 < size < SIZE_BYTES or size != int(size):
        raise place.error(f"invalid size {shortened(str(row[0]))}")
    if not 0 < time < MAX_US:
        raise place.error(f"invalid time {shortened(str(row[1]))}", "microseconds")
    if wrong != "N/A" and _number(wrong, place) != 0:
        found.left_out["with wrong results"] += 1
        return
    test = place.test.replace("_", "").lower()
    if test in OTHERS:
        found.left_out[f"of {place.test}"] += 1
        return
    if test not in NAMES:
        raise place.error(
            "unknown collective", "name the file after its test, such as all_reduce_perf.txt"
        )
    if len(found.rows) == MAX_ROWS:
        raise place.error(f"more than {MAX_ROWS:,} measurements")
    shape = _shape_of(place) if place.hosts else shape
    if shape is None:
        raise place.error("no list of ranks", "--shape NODESxGPUS")
    if shape.n < 2:
        found.left_out["of one GPU"] += 1
        return
    found.rows.append(Measurement(NAMES[test], shape, int(size), time, found.name))


def _number(value: Any, place: _Place) -> float:
    try:
        if isinstance(value, bool) or not isinstance(value, (str, int, float)):
            raise ValueError
        number = float(value)
    except (ValueError, OverflowError):
        raise place.error(f"{written(value)} is not a number") from None
    if not math.isfinite(number):
        raise place.error(f"{written(value)} is not a number")
    return number


def _shape_of(place: _Place) -> Shape:
    """Return nodes and GPUs per node of the listed ranks."""
    gpus = Counter(place.hosts.values())
    if len(set(gpus.values())) > 1:
        raise place.error("nodes with different numbers of GPUs")
    return Shape(len(gpus), next(iter(gpus.values())))


def _test_in(name: str) -> str:
    plain = name.lower().replace("_", "").replace("-", "")
    known = sorted((*NAMES, *OTHERS), key=len, reverse=True)
    return next((test for test in known if test in plain), "")


def parse_shape(text: str, option: str = "--shape") -> Shape:
    """Parse "2x8": nodes and GPUs per node."""
    match = re.fullmatch(r"([1-9]\d{0,6})x([1-9]\d{0,6})", text)
    if match is None or int(match[1]) * int(match[2]) > MAX_GPUS:
        raise InputError(f"{written(text)} is not a shape", file=option, hint="such as 2x8")
    return Shape(int(match[1]), int(match[2]))
