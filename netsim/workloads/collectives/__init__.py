"""Collectives as data: the sends of a group of ranks and their dependencies, by a chosen algorithm.

Sizes are: for an all-reduce, reduce-scatter or all-gather, the whole buffer; for a broadcast or
reduce, the message; for a gather or scatter, all shards; for an all-to-all, everything that one
position holds for the group, including its own share.

"Automatic choice" in `docs/collectives.md` describes "auto". Among algorithms within 2 %, the first
of `ALGORITHMS` wins. It avoids algorithms with more than four million sends if others need fewer.
An algorithm may be a file of sends, which `netsim show traffic collective` describes.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np

from netsim.common.inputs import at_line, bounded, read_lines
from netsim.common.memory import require_room
from netsim.errors import InputError, did_you_mean, errors_at
from netsim.frozen import frozen
from netsim.workloads.collectives import exchanges, trees
from netsim.workloads.collectives.steps import (
    COLLECTIVES,
    Algorithm,
    Carried,
    CollectiveOptions,
    Hops,
    Steps,
    Wire,
    cut,
    pieces_of,
    steps,
)

ALGORITHMS: dict[str, Algorithm] = {
    "ring": exchanges.RING,
    "halving_doubling": exchanges.HALVING_DOUBLING,
    "double_binary_tree": trees.DOUBLE_BINARY_TREE,
    "direct": exchanges.DIRECT,
    "pat": trees.PAT,
    "hierarchical": exchanges.HIERARCHICAL,
    "chain": trees.CHAIN,
    "binomial_tree": trees.BINOMIAL_TREE,
    "dissemination": exchanges.DISSEMINATION,
    "in_network": exchanges.IN_NETWORK,
}

EQUAL = 0.98  # an algorithm is faster only if it takes less than this fraction of another's time

MAX_SENDS = 1 << 22  # algorithms with more sends are selected only if all have more

SEND_BYTES = 200  # memory of a send while its columns are built, in bytes

WAIT_BYTES = 64  # the same of a send's wait for a delivery


def algorithm_of(what: str, n: int, size_bytes: int, how: CollectiveOptions) -> str:
    """Return the algorithm that `how` names, or for "auto" the fastest without a network."""
    check_algorithm(what, how)
    if how.algorithm == "auto":
        return fastest(what, n, size_bytes, how, lambda hops: _plain(hops, how.rate_bps))
    return how.algorithm


def check_algorithm(what: str, how: CollectiveOptions) -> None:
    """Raise InputError, with the choices, for an unknown collective or algorithm."""
    if what not in COLLECTIVES:
        hint = did_you_mean(what, COLLECTIVES) or f"one of {', '.join(COLLECTIVES)}"
        raise InputError(f"unknown collective {what!r}", hint=hint, code="unknown_value")
    known = [name for name, algorithm in ALGORITHMS.items() if what in algorithm.whats]
    if how.algorithm not in (*known, "auto") and not how.algorithm.endswith(SUFFIX):
        message = f"no algorithm {how.algorithm!r} for {what}"
        raise InputError(message, hint=f"one of {', '.join(known)}, auto, or a {SUFFIX} file")


def fastest(
    what: str, n: int, size_bytes: int, how: CollectiveOptions, measure: Callable[[Hops], Wire]
) -> str:
    """Return the algorithm with the shortest time on wires from `measure`."""
    exchanges.orders(n, how)  # invalid orders are errors for all algorithms
    took: dict[str, int] = {}
    refused = None
    for name, algorithm in ALGORITHMS.items():
        if what not in algorithm.whats or algorithm.hops is None:
            continue
        try:
            wire = (
                measure(algorithm.hops(what, n, size_bytes, how)) if n > 1 else Wire(how.rate_bps)
            )
            took[name] = algorithm.closed_form_ps(what, n, size_bytes, wire, how) if n > 1 else 0
        except InputError as error:  # unsuitable for n, or no route
            refused = error
    if not took:
        assert refused is not None
        raise refused
    few = [name for name in took if most_sends(name, n, size_bytes, how) <= MAX_SENDS] or took
    best = min(took[name] for name in few)
    return next(name for name in few if best >= EQUAL * took[name])


def _plain(hops: Hops, rate_bps: int) -> Wire:
    return Wire(rate_bps, far=None if hops.far is None else Wire(rate_bps))


def schedule(what: str, n: int, size_bytes: int, how: CollectiveOptions) -> Steps:
    """Return the sends of one group. Raises InputError for impossible options."""
    check(n, size_bytes, how)
    name, none = algorithm_of(what, n, size_bytes, how), np.zeros(0, np.int64)
    if n == 1:
        return steps(1, (none, none), Carried(none), np.array([size_bytes], np.int64))
    n_bytes = most_sends(name, n, size_bytes, how) * SEND_BYTES
    if (name, what) == ("direct", "all_reduce"):
        n_bytes += n**3 * WAIT_BYTES  # a position's second sends wait for all deliveries
    require_room(n_bytes, what=f"{what} of {n} by {name}")
    if name.endswith(SUFFIX):
        return from_file(name, what, n, size_bytes, how.root)
    return ALGORITHMS[name].schedule(what, n, size_bytes, how)


def most_sends(name: str, n: int, size_bytes: int, how: CollectiveOptions) -> int:
    """Return an upper bound of the number of sends."""
    chunk = how.chunk_bytes
    parts = how.channels * (1 + size_bytes // (chunk or size_bytes or 1))
    everybody = 2 * n * (n - 1)
    far = {
        "ring": everybody * how.channels * pieces_of(-(-size_bytes // n), how.channels, chunk),
        "direct": everybody,
        "double_binary_tree": 4 * n * parts,
        "hierarchical": 2 * n * (n // (how.node or 1) + (how.node or n)) * parts,
        "pat": everybody + n * parts,
        "chain": n * parts,
        "in_network": 2 * n * (n * how.channels + parts),
    }
    return far.get(name, 2 * n * n.bit_length())


def closed_form_ps(what: str, n: int, size_bytes: int, wire: Wire, how: CollectiveOptions) -> int:
    """Return the duration in ps without other traffic and with free reductions. Each algorithm
    documents where it is exact."""
    check(n, size_bytes, how)
    name = algorithm_of(what, n, size_bytes, how)
    if name.endswith(SUFFIX):
        raise InputError(f"{name} has no closed form")
    if n == 1:
        return 0
    how = replace(how, algorithm=name)
    return ALGORITHMS[name].closed_form_ps(what, n, size_bytes, wire, how)


def hops_of(what: str, n: int, size_bytes: int, how: CollectiveOptions) -> Hops:
    hops = ALGORITHMS[how.algorithm].hops
    assert hops is not None
    return hops(what, n, size_bytes, how)


def check(n: int, size_bytes: int, how: CollectiveOptions) -> None:
    """Raise InputError for options that are invalid for any algorithm."""
    wrong = [
        (n < 1, f"a group of {n}"),
        (size_bytes < 0, f"{size_bytes} bytes"),
        (how.chunk_bytes is not None and how.chunk_bytes < 1, f"chunks of {how.chunk_bytes} bytes"),
        (how.channels < 1, f"{how.channels} channels"),
        (how.channels > max(1, size_bytes), f"{how.channels} channels for {size_bytes} bytes"),
        (how.latency_ps < 0, f"a latency of {how.latency_ps} ps"),
        (how.reduce_bps is not None and how.reduce_bps < 1, f"{how.reduce_bps} bit/s"),
        (how.window is not None and how.window < 1, f"a window of {how.window}"),
        (how.node is not None and how.node < 1, f"nodes of {how.node}"),
        (how.rate_bps < 1, f"a wire of {how.rate_bps} bit/s"),
        (not 0 <= how.root < max(n, 1), f"root {how.root} in a group of {n}"),
    ]
    for bad, what in wrong:
        if bad:
            raise InputError(f"a collective cannot have {what}")


SUFFIX = ".csv"

NEEDED, OPTIONAL = ("src", "dst", "pieces"), ("adds", "after", "follows")

SUMS = ("all_reduce", "reduce_scatter", "reduce", "barrier")
"""Collectives in which every position contributes to every piece."""

WHOLE = ("all_reduce", "broadcast", "reduce", "barrier")  # no position owns pieces

FROM_ROOT, TO_ROOT = ("broadcast", "scatter"), ("reduce", "gather")


@frozen
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
        with errors_at(file=f"{path}:{line}"):
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
