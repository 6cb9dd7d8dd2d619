"""An algorithm from a file of sends.

The file is CSV with a header; rows are sends, known by their numbers, from 0:

- src, dst: positions;
- pieces: which of P equal pieces of the buffer it carries: "3", "4-7", or "0-12/4" for 0, 4, 8, 12;
- adds: "yes" if the receiver adds to what it has, "no" or empty if that is replaced;
- after: earlier sends to src, separated by spaces, that have to be delivered before;
- follows: an earlier send from src that has to be handed over before; none if empty.

`adds`, `after` and `follows` may be left out. P is one more than the highest piece. Where pieces
are somebody's, as in an all-gather, they belong to positions 0, 1, ... in equal runs; in an
all-to-all the first n runs are what position 0 has for positions 0, 1, ..., the next n those of
position 1.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from netsim.errors import InputError
from netsim.inputs import at_line, read_lines, whole
from netsim.memory import require_room
from netsim.workloads.collectives.steps import Carried, Steps, cut, steps

SUFFIX = ".csv"

NEEDED, OPTIONAL = ("src", "dst", "pieces"), ("adds", "after", "follows")

SUMS = ("all_reduce", "reduce_scatter", "reduce", "barrier")
"""In which everybody has something of every piece."""

WHOLE = ("all_reduce", "broadcast", "reduce", "barrier")
"""In which no piece is somebody's."""

FROM_ROOT, TO_ROOT = ("broadcast", "scatter"), ("reduce", "gather")


@dataclass(frozen=True)
class _Row:
    """One send, and the line where it stands."""

    line: int
    src: int
    dst: int
    pieces: range
    adds: bool
    after: tuple[int, ...]
    follows: int


def from_file(name: str, what: str, n: int, size_bytes: int, root: int) -> Steps:
    """The sends of the file, for a group of n.

    Raises InputError, naming the line, for what cannot be read, and for sends that are not `what`:
    each position has to end with what it is due, and each part of a sum counts once. That is looked
    at in the order of the rows; that sends wait for what they need is the file's business.
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
    """The rows of the file, each right by itself."""
    lines = [(line, [one.strip() for one in text.split(",")]) for line, text in read_lines(path)]
    if len(lines) < 2:
        raise InputError("has no sends", file=str(path))
    names = lines[0][1]
    for column in NEEDED:
        if column not in names:
            raise at_line(path, lines[0][0], f"there is no column {column}")
    for column in names:
        if column not in (*NEEDED, *OPTIONAL) or names.count(column) > 1:
            known = ", ".join((*NEEDED, *OPTIONAL))
            raise at_line(path, lines[0][0], f"column {column!r}", hint=f"once each of {known}")
    rows: list[_Row] = []
    for line, cells in lines[1:]:
        if len(cells) != len(names):
            raise at_line(path, line, f"has {len(cells)} values for {len(names)} columns")
        try:
            rows.append(_row(line, dict(zip(names, cells, strict=True)), rows))
        except InputError as error:
            raise at_line(path, line, error.message, error.hint) from None
    return rows


def _row(line: int, cells: dict[str, str], before: list[_Row]) -> _Row:
    src, dst = (_number(cells[name], name) for name in ("src", "dst"))
    if src == dst:
        raise InputError(f"position {src} sends to itself")
    found = re.fullmatch(r"(\d{1,6})(?:-(\d{1,6})(?:/(\d{1,6}))?)?", cells["pieces"])
    if found is None:
        raise InputError(f"pieces {cells['pieces']!r}", hint="such as 3, 4-7 or 0-12/4")
    first, last, step = int(found[1]), int(found[2] or found[1]), int(found[3] or 1)
    if last < first or step < 1:
        raise InputError(f"pieces {cells['pieces']!r} are none")
    adds = cells.get("adds", "") or "no"
    if adds not in ("yes", "no"):
        raise InputError(f"adds {adds!r}", hint="yes or no")
    after = tuple(_earlier(word, before) for word in cells.get("after", "").split())
    for one in after:
        if before[one].dst != src:
            raise InputError(f"send {one} goes to position {before[one].dst}, not to {src}")
    follows = -1
    if cells.get("follows"):
        follows = _earlier(cells["follows"], before)
        if before[follows].src != src:
            raise InputError(f"send {follows} is of position {before[follows].src}, not of {src}")
    return _Row(line, src, dst, range(first, last + 1, step), adds == "yes", after, follows)


def _number(word: str, name: str) -> int:
    try:
        value = whole(word)
    except ValueError:
        value = -1
    if not 0 <= value < 1 << 20:
        raise InputError(f"{name} {word!r} is no position", hint="a whole number from 0 on")
    return value


def _earlier(word: str, before: list[_Row]) -> int:
    try:
        value = whole(word)
    except ValueError:
        value = -1
    if not 0 <= value < len(before):
        raise InputError(f"{word!r} is no earlier send", hint="sends are numbered from 0")
    return value


def _check(path: Path, rows: list[_Row], what: str, n: int, n_pieces: int, root: int) -> None:
    """Play the sends in their order, with a bit for each position's part of a piece."""
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
                    f"is no {what}: position {i} misses position {who}'s part of piece {piece}"
                )
                raise InputError(message, file=str(path))
