"""A GOAL schedule of LogGOPSim or ATLAHS, as text or in binary form.

    num_ranks 2
    rank 0 {
    l1: calc 5000
    l2: send 4096b to 1 tag 7
    l2 requires l1
    }
    rank 1 {
    l1: recv 4096b from 0 tag 7
    }

A message is a flow; a `calc` occupies its CPU for the given ns. A CPU runs one operation at a time,
in the order in which they could start on idle CPUs; LogGOPSim runs whichever is ready first. A
`calc` of 0 needs no CPU. Receives match sends of their source and tag in order, as in MPI; a
wildcard receive takes the first send that no other receive needs.

Of LogGOPS, the network determines L, g and G; `overhead` is o, which occupies the CPU at each end
of a message; O is not modeled. A send of at most `eager_threshold` bytes (S) ends when it begins. A
larger send starts when its receiver has posted the receive and sent a message of `control` bytes,
and ends when it has left. NIC numbers are ignored.

A binary file, by `txt2bin`, is little-endian and packed:

    u64 magic, u32 ranks, u8 cpus, u8 nics, ranks x (u64 start, u64 end)

and for each rank at its start, counted from after the magic,

    u32 nodes, u32 roots, roots x u32, nodes x record, u32 ...

A record ends with two ranges of the numbers after all records: the nodes that wait for its end, and
the nodes that wait for its start.

Source: spcl/LogGOPSim, src/LogGOPSim/txt2bin.re and Parser.hpp; Hoefler, Siebert, Lumsdaine, "Group
Operation Assembly Language", ICPP 2009.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from netsim.common.inputs import at_line, read_text, require_file, unreadable, user_path
from netsim.errors import InputError, errors_at
from netsim.flows import Rng, TrafficContext, Workload
from netsim.frozen import frozen
from netsim.limits import COUNT, HORIZON_PS, PS_BITS, SIZE_BYTES
from netsim.model.columns import Edges, Flags, Ints, first_of, rows_of
from netsim.network import Network
from netsim.params import REQUIRED, Param, Params
from netsim.units import shortened, written
from netsim.workloads.operations import Operations
from netsim.workloads.traffic._matching import (
    PostedMessages,
    is_chain,
    match,
    order_by_start,
    posted,
)
from netsim.workloads.traffic._options import PLACEMENT_PARAMS, hosts_of

SEND, RECV, CALC = KINDS = (1, 2, 3)
NAMES = {SEND: "send", RECV: "recv", CALC: "calc"}  # kinds of operations in binary files
ANY = -1  # wildcard source or tag of a receive

PS_PER_NS = 1000

MAGIC = 4223
SPOILED = 2342  # magic of a file modified by LogGOPSim (--save-mem), which cannot be read again
HEAD = 6  # bytes between the magic and the table of ranks
UNKNOWN = (1 << 32) - 1  # wildcard in files

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


@frozen
class GoalSchedule:
    """The n operations of a schedule, by rank in file order, and its m dependencies."""

    path: Path
    n_ranks: int
    rank: NDArray[np.int32]  # int32[n]
    kind: NDArray[np.int8]  # int8[n], SEND, RECV or CALC
    peer: Ints  # int64[n], the other rank; ANY for wildcard receives and calculations
    size: Ints  # int64[n], bytes, or nanoseconds of calculations
    tag: Ints  # int64[n]; ANY for wildcard receives
    # cpu, nic: int16[n]
    cpu: NDArray[np.int16]
    nic: NDArray[np.int16]
    # first, then: int64[m], operations of one rank: `then[i]` waits for `first[i]`
    first: Ints
    then: Ints
    at_start: Flags  # bool[m], whether `then` waits for the start of `first`, not its end
    place: Ints  # int64[n], the line, or in a binary file the index of the node
    binary: bool
    unread_bytes: int = 0  # bytes of a binary file that belong to no rank

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
            for op in first_of(bad):
                raise self.error(op, what)
        return self


def check_ranks(path: Path, n_ranks: int, n_bytes: int) -> None:
    """Raise InputError for a number of ranks that cannot fit in a file of `n_bytes`."""
    if not 1 <= n_ranks <= min(COUNT, n_bytes):
        raise InputError(f"{n_ranks} ranks in a file of {n_bytes} bytes", file=str(path))


@frozen
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
    for node in first_of(~np.isin(nodes["kind"], KINDS)):
        raise InputError(f"node {node} is of kind {nodes['kind'][node]}", hint="1, 2 or 3")
    named = sum(int(nodes[f"n_{which}"].sum(dtype=np.int64)) for which in ("then", "start"))
    if named != waiting.size:
        raise InputError(f"{waiting.size:,} dependencies, but records claim {named:,}")
    ends, starts = (_edges(nodes, which, waiting) for which in ("then", "start"))
    waits = np.bincount(np.concatenate([ends[1], starts[1]]), minlength=n_nodes)
    for node in first_of(waits != nodes["waits"]):
        says = nodes["waits"][node]
        raise InputError(f"node {node} should wait for {says} others, but {waits[node]} name it")
    roots = np.sort(part[8:at].view("<u4"))
    if not np.array_equal(roots, np.flatnonzero(waits == 0)):
        raise InputError(f"its {n_roots} roots are not the nodes without dependencies")
    return _Rank(nodes, ends, starts)


def _edges(nodes: NDArray[np.void], which: str, waiting: Ints) -> Edges:
    counts = nodes[f"n_{which}"].astype(np.int64)
    begin = nodes[which].astype(np.int64)
    for node in first_of((counts > 0) & (begin + counts > waiting.size)):
        raise InputError(f"the {counts[node]} dependents of node {node} exceed its rank's part")
    first = np.repeat(np.arange(counts.size), counts)
    then = waiting[rows_of(begin, counts)]
    for edge in first_of(then >= counts.size):
        raise InputError(f"unknown node {then[edge]} waits for node {first[edge]}")
    return first, then


def _joined(path: Path, ranks: list[_Rank]) -> GoalSchedule:
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


_LABEL = "[a-zA-Z][a-zA-Z0-9_]*"
_B = "[ \t]*"
OPERATION = (
    rf"^(?:(?P<label>{_LABEL}){_B}:{_B})?(?P<kind>send|recv|calc){_B}(?P<size>[0-9]+){_B}"
    rf"(?:b{_B}(?P<way>to|from){_B}(?P<peer>-1|[0-9]+){_B}(?:tag{_B}(?P<tag>-1|[0-9]+){_B})?)?"
    rf"(?:cpu{_B}(?P<cpu>[0-9]+){_B})?(?:nic{_B}(?P<nic>[0-9]+))?$"
)
EDGE = rf"^(?P<then>{_LABEL})[ \t]+(?P<what>i?requires){_B}(?P<first>{_LABEL})$"

_RANKS = re.compile(rf"num_ranks{_B}([0-9]{{1,18}})", re.ASCII)
_OPEN = re.compile(rf"rank{_B}([0-9]{{1,18}}){_B}\{{", re.ASCII)
_COMMENT = re.compile(r"//[^\n]*|/\*.*?(?:\*/|\Z)", re.DOTALL)
_PARTS = rf"(num_ranks{_B}[0-9]+|rank{_B}[0-9]+{_B}\{{|\}})"
"""Starts and ends of ranks, which may share a line with other statements."""

COLUMNS: dict[str, tuple[type[np.integer[Any]], int]] = {
    "size": (np.int64, 0),
    "peer": (np.int64, ANY),
    "tag": (np.int64, 0),
    "cpu": (np.int16, 0),
    "nic": (np.int16, 0),
}
"""Type and default of an operation's numbers."""

MANY = 18  # numbers with more digits may exceed int64
MAX_CPU = 255  # largest index of a CPU or NIC

HINT = (
    'such as "l1: send 4096b to 1 tag 7", "l2: recv 4096b from 0 tag 7", "l3: calc 1000", '
    '"l3 requires l2", "rank 0 {" or "}"'
)


def read_goal_text(path: Path) -> GoalSchedule:
    """Read a schedule as text. Raises InputError with the line."""
    text = read_text(path)
    if "//" in text or "/*" in text:
        text = _COMMENT.sub(partial(_blank, path), text)
    lines = pl.DataFrame({"text": [text]}).select(pl.col("text").str.split("\n")).explode("text")
    parts = pl.col("text").str.replace_all(_PARTS, "\n$1\n").str.split("\n")
    rows = lines.with_row_index("line", 1).with_columns(parts).explode("text")
    rows = rows.with_columns(pl.col("text").str.strip_chars(" \t\r")).filter(pl.col("text") != "")
    rows = rows.with_row_index("at").cast({"at": pl.Int64, "line": pl.Int64})
    edge = pl.col("text").str.contains("requires", literal=True)
    ops, edges = (
        rows.filter(which)
        .with_columns(pl.col("text").str.extract_groups(pattern).alias("groups"))
        .unnest("groups")
        for which, pattern in ((~edge, OPERATION), (edge, EDGE))
    )
    named = ((ops, "kind"), (edges, "then"))  # a group that every match has
    others = [part.filter(pl.col(name).is_null()) for part, name in named]
    unlike = pl.concat([part.select("at", "line", "text") for part in others]).sort("at")
    n_ranks, ranks = _ranks(path, unlike.rows(), 1 + text.removesuffix("\n").count("\n"))
    ops, edges = (part.drop_nulls(name) for part, name in named)
    for part in (ops, edges):
        for k in first_of(ranks(part["at"]) < 0):
            raise at_line(path, part["line"][k], "is outside of a rank")
    place, rank = ops["line"].to_numpy(), ranks(ops["at"])
    kind = ops["kind"].replace_strict({name: k for k, name in NAMES.items()}, return_dtype=pl.Int8)
    way = ops["way"].replace_strict({"to": SEND, "from": RECV}, default=0, return_dtype=pl.Int8)
    wrong = ((kind == CALC) & ((way > 0) | ops["nic"].is_not_null())) | (
        (kind != CALC) & (way != kind)
    )
    for k in wrong.arg_true()[:1].to_list():
        raise at_line(path, int(place[k]), "is not an operation", HINT)
    numbers: dict[str, Any] = {name: _numbers(path, place, ops[name]) for name in COLUMNS}
    first, then, at_start = _dependencies(path, ops, rank, edges, ranks(edges["at"]))
    return GoalSchedule(
        path=path,
        n_ranks=n_ranks,
        rank=rank.astype(np.int32),
        kind=kind.to_numpy(),
        **numbers,
        first=first,
        then=then,
        at_start=at_start,
        place=place,
        binary=False,
    ).check()


def _blank(path: Path, comment: re.Match[str]) -> str:
    """Return the lines of a comment without their text."""
    if comment[0].startswith("/*") and not comment[0][2:].endswith("*/"):
        line = 1 + comment.string.count("\n", 0, comment.start())
        raise at_line(path, line, "unterminated comment")
    return " " + "\n" * comment[0].count("\n")


def _ranks(
    path: Path, others: Sequence[tuple[int, int, str]], last_line: int
) -> tuple[int, Callable[[Any], Ints]]:
    """Return the number of ranks, and a function from rows to their ranks, -1 outside. `others` are
    rows that are neither operations nor dependencies, with their lines and texts."""
    n_ranks, rank, is_open = 0, -1, False
    rows, of = [-1], [-1]
    for at, line, text in others:
        if match := _RANKS.fullmatch(text):
            if n_ranks or rank >= 0:
                raise at_line(path, line, "num_ranks must appear once, before all ranks")
            n_ranks = int(match[1])
            check_ranks(path, n_ranks, path.stat().st_size)
        elif match := _OPEN.fullmatch(text):
            if is_open:
                raise at_line(path, line, f"missing }} of rank {rank}", "}")
            if int(match[1]) != rank + 1 or rank + 1 >= n_ranks:
                right = f"rank {rank + 1}" if rank + 1 < n_ranks else "none"
                what = f"rank {int(match[1])} of {n_ranks}, expected {right}"
                raise at_line(path, line, what, "num_ranks, then ranks in order from 0")
            rank, is_open = rank + 1, True
        elif text != "}":
            raise at_line(path, line, f"{written(text)} is not understood", HINT)
        elif not is_open:
            raise at_line(path, line, "} without an open rank")
        else:
            is_open = False
        rows.append(at)
        of.append(rank if is_open else -1)
    if not n_ranks:
        raise InputError("must begin with num_ranks", file=str(path))
    if is_open:
        raise at_line(path, last_line, f"missing }} of rank {rank}", "}")
    if rank + 1 < n_ranks:
        raise at_line(path, last_line, f"ends after {rank + 1} of {n_ranks} ranks")
    return n_ranks, lambda at: np.array(of)[np.searchsorted(rows, at.to_numpy(), "right") - 1]


def _dependencies(
    path: Path, ops: Any, rank: Ints, edges: Any, ranks: Ints
) -> tuple[Ints, Ints, Flags]:
    """Return the first and the second operation of each dependency, and whether the second waits
    only for the start of the first. Raises InputError, with the line, for a duplicate, unknown or
    not yet defined label."""
    named = ops["label"].is_not_null().arg_true().to_numpy()
    labels, defined_at, lines = (
        ops["label"].drop_nulls(),
        ops["line"].to_numpy()[named],
        edges["line"],
    )
    texts = pl.concat([one.alias("") for one in (labels, edges["then"], edges["first"])])
    codes = texts.rank("dense").to_numpy().astype(np.int64)
    codes += np.concatenate([rank[named], ranks, ranks]) * (len(texts) + 1)
    defined, waits, awaited = np.split(codes, [named.size, named.size + len(edges)])
    order = np.argsort(defined, kind="stable")
    for k in first_of(defined[order[1:]] == defined[order[:-1]]):
        one, other = order[k : k + 2].tolist()
        what = f"duplicate label {written(labels[other])} (line {defined_at[one]})"
        raise at_line(path, int(defined_at[other]), what)
    ends = []
    for name, codes in (("then", waits), ("first", awaited)):
        at = np.append(order, -1)[np.searchsorted(defined[order], codes)]
        there = (at >= 0) & (np.append(defined, -1)[at] == codes)
        above = there & (np.append(defined_at, 0)[at] <= lines.to_numpy())
        for k in first_of(~above):
            where = f", defined below on line {defined_at[at[k]]}" if there[k] else ""
            raise at_line(path, lines[k], f"unknown label {written(edges[name][k])}{where}")
        ends.append(named[at])
    for k in first_of(ends[0] == ends[1]):
        raise at_line(path, lines[k], "waits for itself")
    return ends[1], ends[0], (edges["what"] == "irequires").to_numpy()


def _numbers(path: Path, lines: Ints, texts: Any) -> NDArray[Any]:
    """Return a column of numbers, its default where missing."""
    kind, default = COLUMNS[texts.name]
    for k in (texts.str.len_bytes() > MANY).arg_true()[:1].to_list():
        what = f"{texts.name} {shortened(texts[k])} is too large"
        raise at_line(path, int(lines[k]), what)
    numbers = texts.cast(pl.Int64).fill_null(default)
    if kind == np.int16:
        for k in (numbers > MAX_CPU).arg_true()[:1].to_list():
            raise at_line(path, int(lines[k]), f"{texts.name} {numbers[k]} exceeds {MAX_CPU}")
    made: NDArray[Any] = numbers.to_numpy().astype(kind)
    return made


LABELED = 100_000  # largest number of operations that get labels with their lines


@frozen
class _Messages:
    """Matched sends and receives: operations of the schedule, int64[m] each."""

    send: Ints
    receive: Ints
    size_bytes: Ints
    local: Flags  # whether sender and receiver are the same rank
    waits: Flags  # whether the send waits until its receive is posted (rendezvous)


class GoalOperations:
    """A schedule as `Operations`; `begin` and `end` are its operations' tasks, int64[n]."""

    def __init__(self, schedule: GoalSchedule, params: Params, rate_bps: int) -> None:
        self.schedule = schedule
        self.overhead_ps: int = params["overhead"]
        self.eager_bytes: int | None = params["eager_threshold"]  # None: any size
        self.control_bytes: int = params["control"]
        self.rate_bps = rate_bps  # of hosts, to estimate the order on CPUs
        self.ops = Operations(schedule.n_ranks)
        self.begin = np.full(len(schedule), -1, np.int64)
        self.end = self.begin.copy()
        self.after: list[tuple[Ints, Ints]] = []
        self.after_start: list[tuple[Ints, Ints]] = []
        self.computes: list[tuple[Ints, Ints, Any]] = []  # made, of the schedule, ps
        self.flights: list[tuple[Ints, Ints, Ints]] = []  # sends, receives, ps
        self.order = posted(schedule.rank.astype(np.int64), schedule.first, schedule.then)
        self.messages = self._matched()
        self._calculate()
        self._exchange()
        self._wait()

    def lower(self, hosts: Ints) -> Workload:
        """Lower to tasks and flows. Raises InputError, with the operations, for cycles."""
        with errors_at(file=self.schedule.path):
            load = self.ops.lower(hosts)
        return replace(load, notes=tuple(self._notes()))

    def _matched(self) -> _Messages:
        one = self.schedule
        send, receive = (self.order[one.kind[self.order] == kind] for kind in (SEND, RECV))
        ends = (
            PostedMessages(one.rank[which].astype(np.int64), one.peer[which], one.tag[which])
            for which in (send, receive)
        )
        with errors_at(file=one.path):
            send = send[match(*ends)]
        size = np.maximum(one.size[send], 1)
        local = one.rank[send] == one.rank[receive]
        most = self.eager_bytes
        waits = ~local & (size > most) if most is not None else np.zeros(size.size, np.bool_)
        return _Messages(send, receive, size, local, waits)

    def _calculate(self) -> None:
        one = self.schedule
        calc = np.flatnonzero(one.kind == CALC)
        lasts, joins = calc[one.size[calc] > 0], calc[one.size[calc] == 0]
        made = self._compute(lasts, one.size[lasts] * PS_PER_NS)
        self.begin[lasts] = self.end[lasts] = made
        made = self.ops.join(one.rank[joins], label=self._labels(joins))
        self.begin[joins] = self.end[joins] = made

    def _exchange(self) -> None:
        """Add sends, receives, and their CPU overhead."""
        one, of, ops = self.schedule, self.messages, self.ops
        sent, received = np.full((2, of.send.size), -1, np.int64)
        far = ~of.local
        sent[far], received[far] = ops.send(
            one.rank[of.send[far]],
            one.rank[of.receive[far]],
            of.size_bytes[far],
            kind="message",
            label=self._labels(of.send[far], of.receive[far]),
        )
        self._fly(sent[far], received[far], of.size_bytes[far])
        for made, ends in ((sent, of.send), (received, of.receive)):
            made[of.local] = ops.join(one.rank[ends[of.local]], label=self._labels(ends[of.local]))
        self.after.append((sent[of.local], received[of.local]))
        for made, ends in ((sent, of.send), (received, of.receive)):
            self.begin[ends] = self.end[ends] = made
        if self.overhead_ps:
            before = self._compute(of.send, self.overhead_ps)
            behind = self._compute(of.receive, self.overhead_ps)
            self.after += [(before, sent), (received, behind)]
            self.begin[of.send], self.end[of.receive] = before, behind
            self.end[of.send] = np.where(of.waits, sent, before)
        self._rendezvous(sent[of.waits], received[of.waits])

    def _rendezvous(self, sent: Ints, received: Ints) -> None:
        """Add rendezvous messages: the receiver notifies the sender when the receive is posted."""
        of, ops = self.messages, self.ops
        send, receive = of.send[of.waits], of.receive[of.waits]
        src, dst = self.schedule.rank[send], self.schedule.rank[receive]
        is_posted = ops.join(dst, label=self._labels(receive))
        notice, notified = ops.send(
            dst, src, self.control_bytes, kind="control", label=self._labels(send, receive)
        )
        self._fly(notice, notified, self.control_bytes)
        self.after += [(is_posted, notice), (notified, sent), (is_posted, received)]
        self.begin[receive] = is_posted

    def _wait(self) -> None:
        """Add the schedule's dependencies and the order on shared CPUs."""
        one, of = self.schedule, self.messages
        at_start = one.at_start.copy()
        if not self.overhead_ps:
            eager = np.zeros(len(one), np.bool_)
            eager[of.send[~of.waits]] = True
            at_start |= eager[one.first]  # they end when they begin
        first, then = one.first, self.begin[one.then]
        self.after.append((self.end[first[~at_start]], then[~at_start]))
        self.after_start.append((self.begin[first[at_start]], then[at_start]))
        self._share_cpus()
        for pair in self.after:
            self.ops.after(*pair)
        for pair in self.after_start:
            self.ops.after_start(*pair)

    def _share_cpus(self) -> None:
        one = self.schedule
        cpu = one.rank.astype(np.int64) << 8 | one.cpu
        computing = self.order
        if not self.overhead_ps:
            computing = computing[(one.kind[computing] == CALC) & (one.size[computing] > 0)]
        place = np.empty(len(one), np.int64)
        place[self.order] = np.arange(len(one))
        edges = one.first, one.then
        settled = any(is_chain(some, cpu[some], *edges) for some in (computing, self.order))
        self.is_guessed = not settled
        order = self._guessed() if self.is_guessed else None
        for made, of, _ in self.computes:
            self.ops.set_order(made, place[of] if order is None else order[made])

    def _guessed(self) -> Ints:
        """int64[operations]: their order by earliest start with idle CPUs, so that no receive can
        block a CPU on which its own message depends."""
        n = len(self.ops)
        lasts = np.zeros(n, np.int64)
        for made, _, duration_ps in self.computes:
            lasts[made] = duration_ps
        edges = [(*pair, lasts[pair[0]]) for pair in self.after]
        edges += [(*pair, np.zeros(pair[0].size, np.int64)) for pair in self.after_start]
        edges += self.flights
        return order_by_start(n, edges)

    def _compute(self, of: Ints, duration_ps: Any) -> Any:
        one = self.schedule
        made = self.ops.compute(
            one.rank[of], duration_ps, stream=one.cpu[of], label=self._labels(of)
        )
        self.computes.append((made, of, duration_ps))
        return made

    def _fly(self, sent: Ints, received: Ints, size_bytes: Any) -> None:
        """Record the minimum transfer time of messages."""
        flight = np.asarray(size_bytes) * (PS_BITS / self.rate_bps)
        self.flights.append((sent, received, np.broadcast_to(flight, sent.shape).astype(np.int64)))

    def _labels(self, of: Ints, to: Ints | None = None) -> str | list[str]:
        """Return labels with lines, of both ends for messages; none if there are too many."""
        if len(self.schedule) > LABELED:
            return ""
        what, place = "node" if self.schedule.binary else "line", self.schedule.place
        labels = [f"{what} {number}" for number in place[of].tolist()]
        if to is None:
            return labels
        return [
            f"{one} to {number}" for one, number in zip(labels, place[to].tolist(), strict=True)
        ]

    def _notes(self) -> Iterator[str]:
        one, of = self.schedule, self.messages
        name, n = written(one.path.name), of.send.size
        empty = int((one.size[of.send] == 0).sum())
        if empty:
            yield f"{name}: {empty:,} of {n:,} messages have 0 bytes and are sent as 1 byte"
        other = int((one.size[of.send] != one.size[of.receive]).sum())
        if other:
            yield f"{name}: {other:,} of {n:,} receives differ in size from sends, which count"
        if of.local.any():
            own = int(of.local.sum())
            yield f"{name}: {own:,} of {n:,} messages to the sending rank itself take no time"
        if of.waits.any():
            late = int(of.waits.sum())
            yield f"{name}: {late:,} of {n:,} messages wait for their receive to be posted"
        if self.is_guessed:
            yield f"{name}: operations on a CPU run in the order of their start on idle CPUs"
        if one.unread_bytes:
            yield f"{name}: {one.unread_bytes:,} bytes belong to no rank and are ignored"
        if one.nic.any():
            many = int((one.nic > 0).sum())
            yield f"{name}: {many:,} operations name a NIC, which is ignored"


PARAMS = [
    Param("file", "file", REQUIRED, "GOAL schedule, as text or in binary form"),
    Param("overhead", "time", "0us", "CPU time of each send and receive (o)", minimum="0us"),
    Param(
        "eager_threshold",
        "bytes",
        "65535B",
        "largest message that does not wait for its receive (S)",
        "LogGOPSim's default; none: any size",
        optional=True,
    ),
    Param("control", "bytes", "64B", "size of the message that a receive is posted"),
    *PLACEMENT_PARAMS,
]


def flows(params: Params, network: Network, rng: Rng, context: TrafficContext) -> Workload:
    path = user_path(params["file"], context.directory)
    schedule = read_goal_binary(path) if is_binary(path) else read_goal_text(path)
    context.reserve(len(schedule), key="traffic.file")
    hosts = hosts_of(params, schedule.n_ranks, network.n_hosts, context.directory, rng)
    return GoalOperations(schedule, params, context.host_rate_bps).lower(hosts)
