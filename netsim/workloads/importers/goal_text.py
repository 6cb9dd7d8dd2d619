"""GOAL schedules as text.

    num_ranks 2
    rank 0 {
    l1: calc 5000
    l2: send 4096b to 1 tag 7 cpu 0 nic 0
    l2 requires l1
    }

Blanks between words are optional where the words remain separate. -1 is a wildcard source or tag.
Source: see `netsim.workloads.importers.goal`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from netsim.errors import InputError
from netsim.inputs import at_line, read_text
from netsim.units import shortened, written
from netsim.workloads.importers.goal import ANY, CALC, NAMES, RECV, SEND, GoalSchedule, check_ranks

Ints = NDArray[np.int64]

PIECE = 1 << 23
"""Characters parsed at once."""

_LABEL = "[a-zA-Z][a-zA-Z0-9_]*"
_B = "[ \t]*"
OPERATION = (
    rf"^{_B}(?:(?P<label>{_LABEL}){_B}:{_B})?(?P<kind>send|recv|calc){_B}(?P<size>[0-9]+){_B}"
    rf"(?:b{_B}(?P<way>to|from){_B}(?P<peer>-1|[0-9]+){_B}(?:tag{_B}(?P<tag>-1|[0-9]+){_B})?)?"
    rf"(?:cpu{_B}(?P<cpu>[0-9]+){_B})?(?:nic{_B}(?P<nic>[0-9]+){_B})?\r?$"
)
EDGE = rf"^{_B}(?P<then>{_LABEL})[ \t]+(?P<what>i?requires){_B}(?P<first>{_LABEL}){_B}\r?$"
REQUIRED_GROUP = {OPERATION: "kind", EDGE: "then"}
"""Pattern -> a group that every match has."""

NOTHING = r"^[ \t\r]*(?://.*)?$"
_RANKS = re.compile(rf"{_B}num_ranks{_B}([0-9]{{1,18}}){_B}", re.ASCII)
_OPEN = re.compile(rf"{_B}rank{_B}([0-9]{{1,18}}){_B}\{{{_B}", re.ASCII)
_CLOSE = re.compile(rf"{_B}\}}{_B}")
_COMMENT = re.compile(r"//[^\n]*|/\*.*?(?:\*/|\Z)", re.DOTALL)
_PARTS = re.compile(r"(num_ranks[ \t]*[0-9]+|rank[ \t]*[0-9]+[ \t]*\{|\})")

GROUPS = ("label", "kind", "size", "way", "peer", "tag", "cpu", "nic")
COLUMNS: dict[str, type[np.integer[Any]]] = {
    "rank": np.int32,
    "kind": np.int8,
    "peer": np.int64,
    "size": np.int64,
    "tag": np.int64,
    "cpu": np.int16,
    "nic": np.int16,
    "place": np.int64,
}

MANY = 18
"""Numbers with more digits may exceed int64."""

MAX_CPU = 255
"""Largest index of a CPU or NIC."""

HINT = (
    'such as "l1: send 4096b to 1 tag 7", "l2: recv 4096b from 0 tag 7", "l3: calc 1000", '
    '"l3 requires l2", "rank 0 {" or "}"'
)


def read_goal_text(path: Path) -> GoalSchedule:
    """Read a schedule as text. Raises InputError with the line."""
    reading = _GoalParser(path)
    number = 1
    for piece in _pieces(path):
        reading.read(number, piece)
        number += len(piece)
    return reading.schedule()


def _pieces(path: Path) -> Iterator[Any]:
    """Yield the lines of a text in pieces, as Series; block comments become blanks."""
    import polars as pl

    text = read_text(path)
    if "/*" in text:
        text = _COMMENT.sub(partial(_blank, path), text)
    begin = 0
    while begin < len(text):
        end = text.find("\n", begin + PIECE) + 1 or len(text)
        yield pl.Series([text[begin:end].removesuffix("\n")]).str.split("\n").explode()
        begin = end


def _blank(path: Path, comment: re.Match[str]) -> str:
    """Return the lines of a comment without their text."""
    if comment[0].startswith("/*") and not comment[0][2:].endswith("*/"):
        line = 1 + comment.string.count("\n", 0, comment.start())
        raise at_line(path, line, "unterminated comment")
    return " " + "\n" * comment[0].count("\n")


class _GoalParser:
    """The state of reading a file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.n_ranks = 0
        self.rank = -1  # the latest one
        self.is_open = False
        self.last_line = 1
        self.columns: dict[str, list[NDArray[Any]]] = {name: [] for name in COLUMNS}
        self.labels: list[Any] = []  # of operations, "" for none
        self.edges: list[tuple[Any, Ints, Ints]] = []  # structs of text, lines, ranks

    def read(self, number: int, lines: Any) -> None:
        """Read whole lines, starting with line `number`."""
        numbers = np.arange(number, number + len(lines))
        self.last_line = int(numbers[-1])
        found = _sorted(lines)
        odd = [k for k, text in found.others if _PARTS.search(text) and not _is_structure(text)]
        if odd:
            lines, numbers = _divided(lines, numbers, odd)
            found = _sorted(lines)
        ranks = self._ranks(found, numbers)
        self._take(found.ops, numbers[found.op_at], ranks[found.op_at])
        self.edges.append((found.edges, numbers[found.edge_at], ranks[found.edge_at]))

    def schedule(self) -> GoalSchedule:
        """Return the schedule at the end of the file."""
        if not self.n_ranks:
            raise InputError("must begin with num_ranks", file=str(self.path))
        if self.is_open:
            raise at_line(self.path, self.last_line, f"missing }} of rank {self.rank}", "}")
        if self.rank + 1 < self.n_ranks:
            what = f"ends after {self.rank + 1} of {self.n_ranks} ranks"
            raise at_line(self.path, self.last_line, what)
        columns: dict[str, Any] = {
            name: np.concatenate(parts) for name, parts in self.columns.items()
        }
        first, then, at_start = self._dependencies(columns["rank"], columns["place"])
        return GoalSchedule(
            path=self.path,
            n_ranks=self.n_ranks,
            **columns,
            first=first,
            then=then,
            at_start=at_start,
            binary=False,
        ).check()

    def _dependencies(self, rank: Ints, place: Ints) -> tuple[Ints, Ints, NDArray[np.bool_]]:
        """Return the operations waited for, those that wait, and which wait for a start.

        Raises InputError, with the line, for a duplicate, unknown or not yet defined label.
        """
        import polars as pl

        labels = pl.concat(self.labels)
        ops = np.flatnonzero((labels != "").to_numpy())
        labels, defined_at = labels.filter(labels != ""), place[ops]
        edges = pl.concat([edge for edge, _, _ in self.edges]).struct
        lines, ranks = (np.concatenate([one[k] for one in self.edges]) for k in (1, 2))
        then, what, first = (edges.field(name) for name in ("then", "what", "first"))
        texts = pl.concat([labels.alias(""), then.alias(""), first.alias("")])
        known = texts.unique()
        codes = texts.cast(pl.Enum(known)).to_physical().to_numpy().astype(np.int64)
        codes += np.concatenate([rank[ops], ranks, ranks]) * len(known)
        defined, waits, awaited = np.split(codes, [ops.size, ops.size + lines.size])
        order = np.argsort(defined, kind="stable")
        twice = np.flatnonzero(defined[order[1:]] == defined[order[:-1]])[:1]
        for one, other in zip(order[twice].tolist(), order[twice + 1].tolist(), strict=True):
            text = f"duplicate label {written(labels[other])}"
            raise at_line(self.path, int(defined_at[other]), f"{text} (line {defined_at[one]})")
        ends = []
        for texts, codes in ((then, waits), (first, awaited)):
            at = np.append(order, -1)[np.searchsorted(defined[order], codes)]
            there = (at >= 0) & (np.append(defined, -1)[at] == codes)
            above = there & (np.append(defined_at, 0)[at] <= lines)
            for k in np.flatnonzero(~above)[:1].tolist():
                where = f", defined below on line {defined_at[at[k]]}" if there[k] else ""
                text = f"unknown label {written(texts[k])}{where}"
                raise at_line(self.path, int(lines[k]), text)
            ends.append(ops[at])
        for k in np.flatnonzero(ends[0] == ends[1])[:1].tolist():
            raise at_line(self.path, int(lines[k]), "waits for itself")
        return ends[1], ends[0], (what == "irequires").to_numpy()

    def _ranks(self, found: _SortedLines, numbers: Ints) -> Ints:
        """Return the rank of each line, -1 outside, processing starts and ends of ranks."""
        ranks = np.full(numbers.size, self.rank if self.is_open else -1, np.int64)
        for k, text in found.others:
            line = int(numbers[k])
            if match := _RANKS.fullmatch(text):
                self._announce(line, int(match[1]))
            elif match := _OPEN.fullmatch(text):
                self._begin(line, int(match[1]))
            elif _CLOSE.fullmatch(text) and self.is_open:
                self.is_open = False
            elif _CLOSE.fullmatch(text):
                raise at_line(self.path, line, "} without an open rank")
            else:
                raise at_line(self.path, line, f"{written(text)} is not understood", HINT)
            ranks[k:] = self.rank if self.is_open else -1
        for at in (found.op_at, found.edge_at):
            for k in np.flatnonzero(ranks[at] < 0)[:1].tolist():
                raise at_line(self.path, int(numbers[at[k]]), "is outside of a rank")
        return ranks

    def _announce(self, line: int, n_ranks: int) -> None:
        if self.n_ranks or self.rank >= 0:
            raise at_line(self.path, line, "num_ranks must appear once, before all ranks")
        self.n_ranks = n_ranks
        check_ranks(self.path, n_ranks, self.path.stat().st_size)

    def _begin(self, line: int, rank: int) -> None:
        if self.is_open:
            raise at_line(self.path, line, f"missing }} of rank {self.rank}", "}")
        if rank != self.rank + 1 or rank >= self.n_ranks:
            right = f"rank {self.rank + 1}" if self.rank + 1 < self.n_ranks else "none"
            what = f"rank {rank} of {self.n_ranks}, expected {right}"
            raise at_line(self.path, line, what, "num_ranks, then ranks in order from 0")
        self.rank, self.is_open = rank, True

    def _take(self, ops: Any, lines: Ints, ranks: Ints) -> None:
        """Keep operations, and their labels until the rank is complete."""
        text = {name: ops.struct.field(name).fill_null("") for name in GROUPS}
        kind = np.zeros(len(ops), np.int64)
        for number, name in NAMES.items():
            kind[(text["kind"] == name).to_numpy()] = number
        way = (text["way"] == "to").to_numpy() * SEND
        way += (text["way"] == "from").to_numpy() * RECV
        has_nic = (text["nic"] != "").to_numpy()
        wrong = np.where(kind == CALC, (way > 0) | has_nic, way != kind)
        for k in np.flatnonzero(wrong)[:1].tolist():
            raise at_line(self.path, int(lines[k]), "is not an operation", HINT)
        defaults = {"size": 0, "peer": ANY, "tag": 0, "cpu": 0, "nic": 0}
        found = {"kind": kind, "rank": ranks, "place": lines}
        for name, default in defaults.items():
            found[name] = _numbers(self.path, lines, name, text[name], default)
        for name, column in found.items():
            self.columns[name].append(column.astype(COLUMNS[name]))
        self.labels.append(text["label"])


@dataclass(frozen=True)
class _SortedLines:
    """Lines by type; `ops` and `edges` are Series of structs of match groups, `others` the
    remaining non-empty lines with their positions."""

    ops: Any
    op_at: Ints
    edges: Any
    edge_at: Ints
    others: list[tuple[int, str]]


def _sorted(lines: Any) -> _SortedLines:
    import polars as pl

    may_be_edge = lines.str.contains("requires", literal=True)
    is_op = ~may_be_edge
    places = [np.flatnonzero(one.to_numpy()) for one in (is_op, may_be_edge)]
    matched, at = [], []
    others: list[tuple[int, str]] = []
    for mask, place, pattern in zip((is_op, may_be_edge), places, (OPERATION, EDGE), strict=True):
        texts = lines.filter(mask)
        match = texts.str.extract_groups(pattern)
        fits = match.struct.field(REQUIRED_GROUP[pattern]).is_not_null()
        matched.append(match.filter(fits))
        at.append(place[fits.to_numpy()])
        other = texts.filter(~fits)
        blank = other.str.contains(NOTHING).to_numpy()
        left = other.filter(pl.Series(~blank)).to_list()
        fits = fits.to_numpy()
        others += zip(
            place[~fits][~blank].tolist(), [one.rstrip("\r") for one in left], strict=True
        )
    return _SortedLines(matched[0], at[0], matched[1], at[1], sorted(others))


def _is_structure(text: str) -> bool:
    return any(pattern.fullmatch(text) for pattern in (_RANKS, _OPEN, _CLOSE))


def _divided(lines: Any, numbers: Ints, odd: list[int]) -> tuple[Any, Ints]:
    """Split the lines at `odd` at starts and ends of ranks; parts keep the line number."""
    import polars as pl

    texts, counts = lines.to_list(), np.ones(numbers.size, np.int64)
    for k in odd:
        texts[k] = [part for part in _PARTS.split(texts[k]) if part.strip()]
        counts[k] = len(texts[k])
    flat = [part for text in texts for part in (text if isinstance(text, list) else [text])]
    return pl.Series(flat, dtype=pl.String), np.repeat(numbers, counts)


def _numbers(path: Path, lines: Ints, what: str, texts: Any, default: int) -> Ints:
    """Return a column of numbers, `default` where missing."""
    import polars as pl

    too_large = np.flatnonzero((texts.str.len_bytes() > MANY).to_numpy())
    for k in too_large[:1].tolist():
        raise at_line(path, int(lines[k]), f"{what} {shortened(texts[k])} is too large")
    numbers: Ints = texts.replace("", str(default)).cast(pl.Int64).to_numpy()
    if what in ("cpu", "nic"):
        for k in np.flatnonzero(numbers > MAX_CPU)[:1].tolist():
            raise at_line(path, int(lines[k]), f"{what} {numbers[k]} exceeds {MAX_CPU}")
    return numbers
