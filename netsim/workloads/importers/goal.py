"""GOAL schedules of LogGOPSim and ATLAHS, as text or in the binary form of `txt2bin`.

A schedule has sends, receives and calculations of each rank, and dependencies on an operation's end
(`requires`) or start (`irequires`). A binary file is little-endian and packed:

    u64 magic, u32 ranks, u8 cpus, u8 nics, ranks x (u64 start, u64 end)

and for each rank at its start, counted from after the magic,

    u32 nodes, u32 roots, roots x u32, nodes x record, u32 ...

A record ends with its ranges of the numbers after all records: the nodes that wait for its end, and
those that wait for its start.

Source: spcl/LogGOPSim, src/LogGOPSim/txt2bin.re and Parser.hpp; Hoefler, Siebert, Lumsdaine, "Group
Operation Assembly Language", ICPP 2009.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from netsim.errors import InputError
from netsim.inputs import require_file, unreadable
from netsim.limits import COUNT, HORIZON_PS, SIZE_BYTES

SEND, RECV, CALC = KINDS = (1, 2, 3)
NAMES = {SEND: "send", RECV: "recv", CALC: "calc"}
"""Kinds of operations, as numbered in binary files."""

ANY = -1
"""Wildcard source or tag of a receive."""

PS_PER_NS = 1000

MAGIC = 4223
SPOILED = 2342
"""Magic of a file modified by LogGOPSim (--save-mem), which cannot be read again."""

HEAD = 6
"""Bytes between the magic and the table of ranks."""

UNKNOWN = (1 << 32) - 1
"""Wildcard in files."""

RECORD = np.dtype(
    [
        ("waits", "<u4"),
        ("kind", "i1"),
        ("peer", "<u4"),
        ("size", "<u8"),
        ("tag", "<u4"),
        ("cpu", "u1"),
        ("nic", "u1"),
        ("n_then", "<u4"),
        ("then", "<u4"),
        ("n_start", "<u4"),
        ("start", "<u4"),
    ]
)


@dataclass(frozen=True)
class GoalSchedule:
    """The n operations of a schedule, by rank in file order, and its m dependencies.

    Attributes:
        rank: int32[n].
        kind: int8[n], SEND, RECV or CALC.
        peer: int64[n], the other rank; ANY for wildcard receives and calculations.
        size: int64[n], bytes, or nanoseconds of calculations.
        tag: int64[n]; ANY for wildcard receives.
        cpu, nic: int16[n].
        first, then: int64[m], operations of one rank: `then[i]` waits for `first[i]`.
        at_start: bool[m], whether it waits for its start instead of its end.
        place: int64[n], the line, or in a binary file the index of the node.
        unread_bytes: bytes of a binary file that belong to no rank.
    """

    path: Path
    n_ranks: int
    rank: NDArray[np.int32]
    kind: NDArray[np.int8]
    peer: NDArray[np.int64]
    size: NDArray[np.int64]
    tag: NDArray[np.int64]
    cpu: NDArray[np.int16]
    nic: NDArray[np.int16]
    first: NDArray[np.int64]
    then: NDArray[np.int64]
    at_start: NDArray[np.bool_]
    place: NDArray[np.int64]
    binary: bool
    unread_bytes: int = 0

    def __len__(self) -> int:
        return int(self.rank.size)

    def error(self, op: int, message: str, hint: str | None = None) -> InputError:
        return InputError(f"{self.name(op)}: {message}", file=str(self.path), hint=hint)

    def name(self, op: int) -> str:
        """Return the name for messages, such as "line 17 (send of rank 3)"."""
        what = "node" if self.binary else "line"
        return f"{what} {self.place[op]} ({NAMES[int(self.kind[op])]} of rank {self.rank[op]})"

    def check(self) -> GoalSchedule:
        """Return the schedule. Raises InputError for the first invalid operation."""
        talks, sends = self.kind != CALC, self.kind == SEND
        here = self.n_ranks
        too_long = self.size >= HORIZON_PS // PS_PER_NS
        wrong = [
            (talks & (self.peer >= here), f"unknown peer: ranks are 0..{here - 1}"),
            (sends & (self.peer == ANY), "a send needs a destination"),
            (sends & (self.tag == ANY), "a send needs a tag"),
            (talks & ((self.size < 0) | (self.size >= SIZE_BYTES)), "has 1 PiB or more"),
            (~talks & ((self.size < 0) | too_long), "takes 20 h or more"),
        ]
        for bad, what in wrong:
            for op in np.flatnonzero(bad)[:1].tolist():
                raise self.error(op, what)
        return self


def check_ranks(path: Path, n_ranks: int, n_bytes: int) -> None:
    """Raise InputError for a number of ranks that cannot fit in a file of `n_bytes`."""
    if not 1 <= n_ranks <= min(COUNT, n_bytes):
        raise InputError(f"{n_ranks} ranks in a file of {n_bytes} bytes", file=str(path))


Edges = tuple[NDArray[np.int64], NDArray[np.int64]]
"""Nodes, and those that wait for them."""


@dataclass(frozen=True)
class _Rank:
    """The records of a rank, and its dependencies on ends and on starts."""

    nodes: NDArray[np.void]
    after_end: Edges
    after_start: Edges


def is_binary(path: Path) -> bool:
    """Return whether a file starts like a binary schedule."""
    require_file(path)
    try:
        with path.open("rb") as file:
            begin = file.read(8)
    except OSError as error:
        raise unreadable(path, error) from None
    return len(begin) == 8 and int.from_bytes(begin, "little") in (MAGIC, SPOILED)


def read_goal_binary(path: Path) -> GoalSchedule:
    """Read a binary schedule. Raises InputError with the node."""
    data = np.asarray(np.memmap(path, np.uint8, "r"))
    if int(data[:8].view("<u8")[0]) == SPOILED:
        raise InputError(
            "was modified by LogGOPSim with --save-mem",
            file=str(path),
            hint="convert it again with txt2bin",
        )
    n_ranks = int(data[8:12].view("<u4")[0]) if data.size >= 8 + HEAD else 0
    check_ranks(path, n_ranks, data.size)
    table = data[8 + HEAD : 8 + HEAD + 16 * n_ranks]
    if table.size < 16 * n_ranks:
        raise InputError(f"ends within the table of its {n_ranks} ranks", file=str(path))
    ranks: list[_Rank] = []
    parts = table.view("<u8").reshape(-1, 2).tolist()
    here, named = data.size - 8 - HEAD - table.size, sum(end - start for start, end in parts)
    if named > here:
        what = f"its ranks claim {named:,} bytes of {here:,}"
        raise InputError(what, file=str(path), hint="one part of the file per rank")
    for rank, (start, end) in enumerate(parts):
        try:
            ranks.append(_rank(data, start, end))
        except InputError as error:
            raise InputError(f"rank {rank}: {error.message}", file=str(path)) from None
    return replace(_joined(path, ranks), unread_bytes=here - named)


def _rank(data: NDArray[np.uint8], start: int, end: int) -> _Rank:
    """Read one rank's part of the file. Raises InputError without a file."""
    part = data[8 + start : 8 + end] if start < end else data[:0]
    if part.size != end - start or part.size < 8:
        raise InputError("its part exceeds the file, which may be truncated")
    n_nodes, n_roots = part[:8].view("<u4").tolist()
    at = 8 + 4 * n_roots
    behind = at + n_nodes * RECORD.itemsize
    if behind > part.size or (part.size - behind) % 4:
        raise InputError(f"{n_nodes} nodes and {n_roots} roots do not fill {part.size} bytes")
    nodes = part[at:behind].view(RECORD)
    waiting = part[behind:].view("<u4").astype(np.int64)
    for node in np.flatnonzero(~np.isin(nodes["kind"], KINDS))[:1].tolist():
        raise InputError(f"node {node} is of kind {nodes['kind'][node]}", hint="1, 2 or 3")
    named = sum(int(nodes[f"n_{which}"].sum(dtype=np.int64)) for which in ("then", "start"))
    if named != waiting.size:
        raise InputError(f"{waiting.size:,} dependencies, but records claim {named:,}")
    ends, starts = (_edges(nodes, which, waiting) for which in ("then", "start"))
    waits = np.bincount(np.concatenate([ends[1], starts[1]]), minlength=n_nodes)
    for node in np.flatnonzero(waits != nodes["waits"])[:1].tolist():
        says = nodes["waits"][node]
        raise InputError(f"node {node} should wait for {says} others, but {waits[node]} name it")
    roots = np.sort(part[8:at].view("<u4"))
    if not np.array_equal(roots, np.flatnonzero(waits == 0)):
        raise InputError(f"its {n_roots} roots are not the nodes without dependencies")
    return _Rank(nodes, ends, starts)


def _edges(nodes: NDArray[np.void], which: str, waiting: NDArray[np.int64]) -> Edges:
    """Return pairs of nodes and those that wait for them."""
    counts = nodes[f"n_{which}"].astype(np.int64)
    begin = nodes[which].astype(np.int64)
    for node in np.flatnonzero((counts > 0) & (begin + counts > waiting.size))[:1].tolist():
        raise InputError(f"the {counts[node]} dependents of node {node} exceed its rank's part")
    first = np.repeat(np.arange(counts.size), counts)
    place = np.arange(first.size) - np.repeat(np.cumsum(counts) - counts - begin, counts)
    then = waiting[place]
    for edge in np.flatnonzero(then >= counts.size)[:1].tolist():
        raise InputError(f"unknown node {then[edge]} waits for node {first[edge]}")
    return first, then


def _joined(path: Path, ranks: list[_Rank]) -> GoalSchedule:
    """Join all ranks in one table."""
    counts = [one.nodes.size for one in ranks]
    nodes = np.concatenate([one.nodes for one in ranks])
    firsts = np.cumsum([0, *counts[:-1]]).tolist()
    edges = [
        (side[0] + at, side[1] + at, np.full(side[0].size, k == 1))
        for at, one in zip(firsts, ranks, strict=True)
        for k, side in enumerate((one.after_end, one.after_start))
    ]
    first, then, at_start = (np.concatenate(column) for column in zip(*edges, strict=True))
    calc, recv = nodes["kind"] == CALC, nodes["kind"] == RECV
    peer, tag = nodes["peer"].astype(np.int64), nodes["tag"].astype(np.int64)
    return GoalSchedule(
        path=path,
        n_ranks=len(ranks),
        rank=np.repeat(np.arange(len(ranks), dtype=np.int32), counts),
        kind=nodes["kind"].astype(np.int8),
        peer=np.where(calc | (recv & (peer == UNKNOWN)), ANY, peer),
        size=nodes["size"].astype(np.int64),
        tag=np.where(calc, 0, np.where(recv & (tag == UNKNOWN), ANY, tag)),
        cpu=nodes["cpu"].astype(np.int16),
        nic=nodes["nic"].astype(np.int16),
        first=first,
        then=then,
        at_start=at_start,
        place=np.arange(len(nodes)) - np.repeat(firsts, counts),
        binary=True,
    ).check()
