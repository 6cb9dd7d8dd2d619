"""Collective algorithms from a file of sends.

`netsim show traffic collective` describes the file. P is one more than the highest piece; `adds`,
`after` and `follows` are optional.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from netsim.common.inputs import at_line, bounded, read_lines, reading
from netsim.common.memory import require_room
from netsim.errors import InputError
from netsim.workloads.collectives.steps import Carried, Steps, cut, steps

SUFFIX = ".csv"

NEEDED, OPTIONAL = ("src", "dst", "pieces"), ("adds", "after", "follows")

SUMS = ("all_reduce", "reduce_scatter", "reduce", "barrier")
"""Collectives in which every position contributes to every piece."""

WHOLE = ("all_reduce", "broadcast", "reduce", "barrier")
"""Collectives in which no position owns pieces."""

FROM_ROOT, TO_ROOT = ("broadcast", "scatter"), ("reduce", "gather")


@dataclass(frozen=True)
class _Row:
    """A send and its line."""

    line: int
    src: int
    dst: int
    pieces: range
    adds: bool
    after: tuple[int, ...]
    follows: int


def from_file(name: str, what: str, n: int, size_bytes: int, root: int) -> Steps:
    """Read the sends of a group of n.

    Raises InputError, with the line, for invalid rows, and for sends that do not perform `what`:
    each position must end with its result, and each contribution must be added once. This is
    checked in the order of rows; the file must state the dependencies that enforce it.
    """
    path = Path(name)
    rows = _read(path)
    positions = 1 + max(max(row.src, row.dst) for row in rows)
    if positions != n:
        raise InputError(f"has {positions} positions, not {n}", file=name)
    runs = n * n if what == "all_to_all" else 1 if what in WHOLE else n
    n_pieces = -(-(1 + max(row.pieces[-1] for row in rows)) // runs) * runs
    require_room(n * n_pieces * 64, what=f"{n_pieces} pieces at {n} positions")
    _check(path, rows, what, n, n_pieces, root)
    shares = n if runs > 1 else 1
    pieces = cut(cut(size_bytes, shares), n_pieces // runs).reshape(-1)
    after = [(one, then) for then, row in enumerate(rows) for one in row.after]
    return steps(
        n,
        ([row.src for row in rows], [row.dst for row in rows]),
        Carried(
            np.array([row.pieces[0] for row in rows]),
            [len(row.pieces) for row in rows],
            [row.pieces.step for row in rows],
            [row.adds for row in rows],
        ),
        np.tile(pieces, n) if what == "all_to_all" else pieces,
        after=tuple(np.array(after, np.int64).reshape(-1, 2).T),  # type: ignore[arg-type]
        follows=[row.follows for row in rows],
    )


def _read(path: Path) -> list[_Row]:
    lines = [(line, [one.strip() for one in text.split(",")]) for line, text in read_lines(path)]
    if len(lines) < 2:
        raise InputError("has no sends", file=str(path))
    header, names = lines[0]
    for column in NEEDED:
        if column not in names:
            raise at_line(path, header, f"missing column {column}")
    known = (*NEEDED, *OPTIONAL)
    for column in names:
        if column not in known or names.count(column) > 1:
            what = f"unknown or duplicate column {column!r}"
            raise at_line(path, header, what, ", ".join(known))
    rows: list[_Row] = []
    for line, cells in lines[1:]:
        with reading(path, line):
            if len(cells) != len(names):
                raise InputError(f"has {len(cells)} values for {len(names)} columns")
            rows.append(_row(line, dict(zip(names, cells, strict=True)), rows))
    return rows


def _row(line: int, cells: dict[str, str], before: list[_Row]) -> _Row:
    src, dst = (bounded(name, cells[name], below=1 << 20) for name in ("src", "dst"))
    if src == dst:
        raise InputError(f"position {src} sends to itself")
    found = re.fullmatch(r"(\d{1,6})(?:-(\d{1,6})(?:/(\d{1,6}))?)?", cells["pieces"])
    if found is None:
        raise InputError(f"pieces {cells['pieces']!r}", hint="such as 3, 4-7 or 0-12/4")
    first, last, step = int(found[1]), int(found[2] or found[1]), int(found[3] or 1)
    if last < first or step < 1:
        raise InputError(f"pieces {cells['pieces']!r} are empty")
    adds = cells.get("adds", "") or "no"
    if adds not in ("yes", "no"):
        raise InputError(f"adds {adds!r}", hint="yes or no")
    after = tuple(_earlier(word, before) for word in cells.get("after", "").split())
    for one in after:
        if before[one].dst != src:
            raise InputError(f"send {one} goes to position {before[one].dst}, not {src}")
    follows = -1
    if cells.get("follows"):
        follows = _earlier(cells["follows"], before)
        if before[follows].src != src:
            raise InputError(f"send {follows} is from position {before[follows].src}, not {src}")
    return _Row(line, src, dst, range(first, last + 1, step), adds == "yes", after, follows)


def _earlier(word: str, before: list[_Row]) -> int:
    return bounded("an earlier send", word, below=len(before))


def _check(path: Path, rows: list[_Row], what: str, n: int, n_pieces: int, root: int) -> None:
    """Replay the sends, with a bit for each position's contribution to a piece."""
    shard = [piece * n // n_pieces for piece in range(n_pieces)]
    everybody = (1 << n) - 1
    if what in SUMS:
        held, complete = [[1 << i] * n_pieces for i in range(n)], [everybody] * n_pieces
    else:
        owner = [root] * n_pieces if what in FROM_ROOT else shard
        held = [[(1 << i) * (owner[p] == i) for p in range(n_pieces)] for i in range(n)]
        complete = [1 << i for i in owner]
    for row in rows:
        for piece in row.pieces:
            part, there = held[row.src][piece], held[row.dst][piece]
            if not part:
                message = f"position {row.src} does not have piece {piece}"
                raise at_line(path, row.line, message)
            if row.adds and part & there and what != "barrier":
                twice = (part & there).bit_length() - 1
                message = f"adds position {twice}'s part of piece {piece} a second time"
                raise at_line(path, row.line, message)
            held[row.dst][piece] = part | there if row.adds else part
    for i in range(n):
        if what in TO_ROOT and i != root:
            continue
        for piece in range(n_pieces):
            if what in ("reduce_scatter", "scatter") and shard[piece] != i:
                continue
            if what == "all_to_all" and piece * n * n // n_pieces % n != i:
                continue
            missing = complete[piece] & ~held[i][piece]
            if missing:
                who = missing.bit_length() - 1
                message = (
                    f"is not {what}: position {i} lacks position {who}'s part of piece {piece}"
                )
                raise InputError(message, file=str(path))
