"""Chakra execution traces: one file `PREFIX.RANK.et` per rank, a graph of operations.

A file is a sequence of length-prefixed Protocol Buffers messages: the trace's metadata, then its
nodes in any order. It may be gzip-compressed.

A node has attributes, each a name and a value in the member for its type. Writers disagree on types
(comm_size as int64 or uint64, is_cpu_op as bool or int32), so a number comes from whichever member
has it.

The ranks of process groups come from a JSON file, `{"7": [0, 1, 2, 3], ...}`, or from METADATA
nodes of PyTorch traces with inputs that are a list with one JSON text, `[{"pg_name": "7", "ranks":
[0, 1]}, ...]`. An empty list means all ranks.

Source: mlcommons/chakra 1.0.0, schema/protobuf/et_def.proto; Sridharan et al., "Chakra: Advancing
Performance Benchmarking and Co-design using Standardized Execution Traces", 2023; protobuf.dev,
"Encoding". Messages of one type are decoded together, as columns; groups, which proto3 does not
have, are errors.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from netsim.common.inputs import read_bytes, read_json, unpacked
from netsim.common.memory import require_room
from netsim.errors import InputError, errors_at
from netsim.frozen import frozen
from netsim.limits import HORIZON_PS, INT64, SIZE_BYTES
from netsim.model.columns import Flags, Ints, first_of, rows_of
from netsim.units import shortened, written

NUMBERS = (
    "is_cpu_op",
    "num_ops",
    "tensor_size",
    "comm_type",
    "comm_size",
    "comm_src",
    "comm_dst",
    "comm_tag",
    "comm_group",
)
"""Numeric attributes that are read."""

GROUP = "pg_name"  # the attribute with the name of a process group, as text or number
DIMENSIONS = "involved_dim"  # the attribute with the network dimensions of a collective
MISSING = -INT64  # the value of a missing attribute
ATTRIBUTES = 10  # the field of nodes with attributes

# Members of an attribute's value; lists have even numbers.
_NAMED, _DOUBLE, _FLOAT, _STRING, _BYTES = 1, 3, 5, 29, 31
_ZIGZAG, _SIGNED_32 = (15, 17), 23
_FIRST_VALUE = 3

_HEAD = 2  # bytes before a short leading name: field and length


@frozen
class Attributes:
    """The attributes of n nodes."""

    numbers: dict[str, Ints]  # int64[n] for each of NUMBERS, or MISSING
    group: Ints  # int64[n], index of the process group's name in `groups`; -1: none
    groups: tuple[str, ...]
    partial: Flags  # bool[n], whether a collective involves only some dimensions of the network


def attributes_of(data: Bytes, nodes: Fields, n: int) -> Attributes:
    attribute = nodes.of((nodes.number == ATTRIBUTES) & (nodes.wire == BYTES))
    attribute = attribute.of(_may_be_read(data, attribute))
    try:
        inner = fields_of(data, attribute.begin, attribute.end)
    except DamagedMessageError as error:
        node = int(attribute.message[error.number])
        raise DamagedMessageError(node, f"an attribute {error.message}") from None
    names = inner.of((inner.number == _NAMED) & (inner.wire == BYTES))
    values = inner.of(inner.number >= _FIRST_VALUE)
    value_of = np.full(attribute.message.size, -1, np.int64)
    value_of[values.message] = np.arange(values.message.size)
    numbers: dict[str, Ints] = {}
    found: dict[str, tuple[Ints, Fields]] = {}
    for name in (*NUMBERS, GROUP, DIMENSIONS):
        which = names.message[equal_text(data, names, name)]
        which = which[value_of[which] >= 0]
        found[name] = attribute.message[which], values.of(value_of[which])
    for name in NUMBERS:
        owner, value = found[name]
        numbers[name] = np.full(n, MISSING, np.int64)
        numbers[name][owner] = _numbers(value, name, owner)
    owner, value = found[DIMENSIONS]
    partial = np.zeros(n, np.bool_)
    for k, node in enumerate(owner.tolist()):
        # A list of bools: two header bytes, then a byte of 0 or 1 for each.
        partial[node] = (data[value.begin[k] + 2 : value.end[k]] == 0).any()
    group = np.full(n, -1, np.int64)
    groups: dict[str, int] = {}
    owner, value = found[GROUP]
    is_text = value.number == _STRING
    plain = iter(_numbers(value.of(~is_text), GROUP, owner[~is_text]).tolist())
    for k, node in enumerate(owner.tolist()):
        name = text_of(data, value, k) if is_text[k] else str(next(plain))
        group[node] = groups.setdefault(name, len(groups))
    older = np.flatnonzero((group < 0) & (numbers["comm_group"] != MISSING))
    for node in older.tolist():
        name = str(numbers["comm_group"][node])
        group[node] = groups.setdefault(name, len(groups))
    return Attributes(numbers, group, tuple(groups), partial)


def _may_be_read(data: Bytes, attribute: Fields) -> Flags:
    """Select attributes that do not begin with an irrelevant name; almost all do."""
    begin, size = attribute.begin, attribute.end - attribute.begin
    long = np.flatnonzero(size > _HEAD)
    may = np.ones(begin.size, np.bool_)
    length = data[begin[long] + 1]
    named = (data[begin[long]] == _NAMED << 3 | BYTES) & (length < 0x80)
    for name in (*NUMBERS, GROUP, DIMENSIONS):
        alike = np.flatnonzero(named & (length == len(name)) & (size[long] >= _HEAD + len(name)))
        at = begin[long[alike]][:, None] + _HEAD + np.arange(len(name))
        named[alike] = (data[at] != np.frombuffer(name.encode(), np.uint8)).any(axis=1)
    may[long] = ~named
    return may


def _numbers(value: Fields, name: str, node: Ints) -> Ints:
    """Return values as integers. Raises DamagedMessageError for others."""
    found = value.value.view(np.int64).copy()
    zigzag = np.isin(value.number, _ZIGZAG)
    half = (value.value >> np.uint64(1)).view(np.int64)
    found[zigzag] = (half ^ -(found & 1))[zigzag]
    short = value.number == _SIGNED_32
    found[short] = found[short].astype(np.uint32).view(np.int32)
    whole = (value.number % 2 == 1) & (value.number < _STRING)
    for member, bits, kind in ((_DOUBLE, np.uint64, np.float64), (_FLOAT, np.uint32, np.float32)):
        real = np.flatnonzero(value.number == member)
        as_real = value.value[real].astype(bits).view(kind).astype(np.float64)
        fits = np.abs(as_real) < INT64
        fits &= np.rint(np.where(fits, as_real, 0)) == as_real
        whole[real] = fits
        found[real] = np.where(fits, as_real, 0).astype(np.int64)
    unsigned = (value.value >= np.uint64(INT64)) & np.isin(value.number, (11, 13, 19, 21))
    whole &= ~unsigned & (np.abs(found) < INT64)
    for k in first_of(~whole):
        raise DamagedMessageError(int(node[k]), f"{name} is not an integer")
    return found


def tables_of(data: Bytes, inputs: Fields) -> tuple[str, ...]:
    """Return the texts of input values (IOInfo). Raises DamagedMessageError."""
    try:
        inner = fields_of(data, inputs.begin, inputs.end)
    except DamagedMessageError as error:
        owner = int(inputs.message[error.number])
        raise DamagedMessageError(owner, f"its inputs: {error.message}") from None
    at = np.flatnonzero((inner.number == 1) & (inner.wire == BYTES))
    return tuple(text_of(data, inner, int(k)) for k in at)


KINDS = (
    "INVALID",
    "METADATA",
    "MEM_LOAD",
    "MEM_STORE",
    "COMP",
    "COMM_SEND",
    "COMM_RECV",
    "COMM_COLL",
)
METADATA, MEM_LOAD, MEM_STORE, COMP, SEND, RECV, COLLECTIVE = range(1, 8)  # kinds of nodes

COLLECTIVES = (
    "ALL_REDUCE",
    "REDUCE",
    "ALL_GATHER",
    "GATHER",
    "SCATTER",
    "BROADCAST",
    "ALL_TO_ALL",
    "REDUCE_SCATTER",
    "REDUCE_SCATTER_BLOCK",
    "BARRIER",
)
BARRIER = COLLECTIVES.index("BARRIER")  # kinds of collectives (CollectiveCommType)

# Field numbers of messages.
_VERSION = 1
_ID, _NAME, _KIND, _CTRL, _DATA, _DURATION, _INPUTS = 1, 2, 3, 4, 5, 7, 8

SUFFIX = ".0.et"  # suffix of the first rank's trace, after the prefix

PS_PER_US = 10**6
LONGEST_US = HORIZON_PS // PS_PER_US

OTHER_SCHEMAS = ("0.0.1",)  # schema versions that number kinds differently


@frozen
class ChakraTrace:
    """The n nodes of a rank in file order, and their m dependencies."""

    path: Path
    version: str  # of the schema
    id: NDArray[np.uint64]  # uint64[n], node ids of the file
    kind: Ints  # int64[n], index into KINDS
    duration_us: Ints  # int64[n]
    attributes: Attributes
    # first, then: int64[m], nodes: `then[i]` waits for `first[i]`, by data or control
    first: Ints
    then: Ints
    tables: tuple[str, ...]  # texts of METADATA nodes that may contain process groups
    names: Fields = field(repr=False)
    data: NDArray[np.uint8] = field(repr=False)

    def __len__(self) -> int:
        return int(self.id.size)

    def labels(self) -> list[str]:
        """Return the name of each node, "" if it has none."""
        found = [""] * len(self)
        for k, node in enumerate(self.names.message.tolist()):
            found[node] = text_of(self.data, self.names, k)
        return found

    def name(self, node: int) -> str:
        """Return the name for messages, such as 'node 7 (COMM_SEND "send 3")'."""
        at = np.flatnonzero(self.names.message == node)[-1:]
        text = "".join(f" {written(text_of(self.data, self.names, int(k)))}" for k in at)
        kind = int(self.kind[node])
        what = KINDS[kind] if 0 <= kind < len(KINDS) else f"kind {kind}"
        return f"node {self.id[node]} ({what}{text})"

    def error(self, node: int, message: str, hint: str | None = None) -> InputError:
        return InputError(f"{self.name(node)}: {message}", file=str(self.path), hint=hint)

    def check(self) -> ChakraTrace:
        """Return the trace. Raises InputError for the first invalid node."""
        of = self.attributes.numbers
        collective = self.kind == COLLECTIVE
        sized = (self.kind == SEND) | (collective & (of["comm_type"] != BARRIER))
        size, what = of["comm_size"], of["comm_type"]
        wrong = [
            ((self.kind < METADATA) | (self.kind > COLLECTIVE), "has an unknown kind"),
            (collective & (what == MISSING), "has no comm_type"),
            (collective & ((what < 0) | (what >= len(COLLECTIVES))), "has an unknown comm_type"),
            (sized & (size == MISSING), "has no comm_size"),
            (sized & ((size < 0) | (size >= SIZE_BYTES)), "comm_size must be 0 B to 1 PiB"),
            (~((self.duration_us >= 0) & (self.duration_us < LONGEST_US)), "lasts 20 h or more"),
        ]
        for bad, text in wrong:
            for node in first_of(bad):
                hint = f"schema {self.version or 'without a version'}; netsim reads 1.0.0"
                raise self.error(node, text, hint)
        return self


def trace_files(prefix: Path) -> list[Path]:
    """Return the files of a prefix, by rank. Raises InputError if any is missing."""
    if prefix.is_file() and not prefix.with_name(prefix.name + SUFFIX).is_file():
        hint = "the part before .0.et in the names of traces; JSON is not supported"
        raise InputError("is a file, not the prefix of traces", file=str(prefix), hint=hint)
    files: list[Path] = []
    while (path := prefix.with_name(f"{prefix.name}.{len(files)}.et")).is_file():
        files.append(path)
    name = re.compile(re.escape(prefix.name) + r"\.[0-9]+\.et")
    found = [path for path in prefix.parent.glob("*.et") if name.fullmatch(path.name)]
    if len(found) > len(files) or not files:
        what = f"missing {written(path.name)}"
        what += f", but there are {len(found)} other traces of that prefix" if found else ""
        raise InputError(what, file=str(prefix.parent), hint="a trace for each rank from 0")
    return files


def read_trace(path: Path) -> ChakraTrace:
    content = unpacked(path, read_bytes(path))
    if content.lstrip()[:1] == b"{":
        hint = "files in the binary form of Protocol Buffers"
        raise InputError("is JSON, which is not supported", file=str(path), hint=hint)
    data = np.frombuffer(content, np.uint8)
    try:
        begin, end = framed(content)
        if not begin.size:
            raise InputError("is empty", file=str(path), code="out_of_range")
        version = _version(data, begin[:1], end[:1])
        if version in OTHER_SCHEMAS:
            what = f"is of the schema {version}, which numbers kinds of nodes differently"
            raise InputError(what, file=str(path), hint="written by a later generator")
        return _trace(path, version, data, (begin[1:], end[1:]))
    except DamagedMessageError as error:
        what = f"message {error.number}: {error.message}"
        raise InputError(f"is not a trace or is damaged: {what}", file=str(path)) from None


def _version(data: NDArray[np.uint8], begin: Ints, end: Ints) -> str:
    """Return the version in the first message, "" without one."""
    found = fields_of(data, begin, end)
    at = np.flatnonzero((found.number == _VERSION) & (found.wire == BYTES))
    return text_of(data, found, int(at[-1])) if at.size else ""


def _trace(
    path: Path, version: str, data: NDArray[np.uint8], bounds: tuple[Ints, Ints]
) -> ChakraTrace:
    n = bounds[0].size
    try:
        fields = fields_of(data, *bounds)
        attributes = attributes_of(data, fields, n)
        depends = fields.of((fields.number == _CTRL) | (fields.number == _DATA))
        waiting, awaited = listed(data, depends)
        kind = _last(fields, _KIND, n).astype(np.int64)
        inputs = fields.of((fields.number == _INPUTS) & (fields.wire == BYTES))
        tables = tables_of(data, inputs.of(kind[inputs.message] == METADATA))
    except DamagedMessageError as error:
        # Count messages from the first of the file.
        raise DamagedMessageError(error.number + 1, error.message) from None
    trace = ChakraTrace(
        path=path,
        version=version,
        id=_last(fields, _ID, n),
        kind=kind,
        duration_us=_last(fields, _DURATION, n).astype(np.int64),
        attributes=attributes,
        first=np.zeros(0, np.int64),
        then=waiting,
        tables=tables,
        names=fields.of((fields.number == _NAME) & (fields.wire == BYTES)),
        data=data,
    )
    first, then = _edges(trace, waiting, awaited)
    return replace(trace, first=first, then=then).check()


def _last(fields: Fields, number: int, n: int) -> NDArray[np.uint64]:
    """uint64[n]: a numeric field; 0 if missing."""
    chosen = (fields.number == number) & (fields.wire == VARINT)
    found = np.zeros(n, np.uint64)
    found[fields.message[chosen]] = fields.value[chosen]
    return found


def _edges(trace: ChakraTrace, waiting: Ints, awaited: NDArray[np.uint64]) -> tuple[Ints, Ints]:
    """Return unique dependencies of nodes: the earlier nodes, and the nodes that wait."""
    order = np.argsort(trace.id, kind="stable")
    ids = trace.id[order]
    for k in first_of(ids[1:] == ids[:-1]):
        raise trace.error(int(order[k + 1]), "has the id of another node")
    place = np.minimum(np.searchsorted(ids, awaited), len(trace) - 1)
    missing = np.flatnonzero(ids[place] != awaited) if len(trace) else awaited
    for k in missing[:1].tolist():
        what = f"waits for node {awaited[k]}, which is not in the file"
        more = f" ({missing.size - 1} other dependencies are missing)" if missing.size > 1 else ""
        raise trace.error(int(waiting[k]), what + more, "a whole trace, not a part of one")
    first = order[place]
    for k in first_of(first == waiting):
        raise trace.error(int(waiting[k]), "waits for itself")
    then, first = np.divmod(np.unique(waiting * len(trace) + first), max(len(trace), 1))
    return first, then


Groups = dict[str, tuple[int, ...]]

ALL = ("", "0")  # names that mean all ranks unless listed


def read_groups(path: Path, n_ranks: int) -> Groups:
    """Read the groups of a JSON file. Raises InputError with the group."""
    body = read_json(path)
    if not isinstance(body, Mapping):
        raise InputError("is not an object", file=str(path), hint='such as {"7": [0, 1, 2, 3]}')
    with errors_at(file=path):
        return {str(name): _members(str(name), ranks, n_ranks) for name, ranks in body.items()}


def groups_of(tables: Iterable[str], n_ranks: int) -> Groups:
    """Return the groups in inputs of METADATA nodes; other inputs are ignored. Raises InputError,
    without a file, for a group with different ranks."""
    found: Groups = {}
    for table in dict.fromkeys(tables):
        for row in _rows(table):
            name = str(row["pg_name"])
            ranks = _members(name, row["ranks"], n_ranks)
            if found.setdefault(name, ranks) != ranks:
                raise InputError(f"process group {written(name)} has different ranks elsewhere")
    return found


def _rows(table: str) -> list[Mapping[str, Any]]:
    try:
        values = ast.literal_eval(table)
        body = json.loads(values[0])
    except (ValueError, SyntaxError, TypeError, LookupError, RecursionError, MemoryError):
        return []
    rows = body if isinstance(body, list) else []
    return [row for row in rows if isinstance(row, Mapping) and {"pg_name", "ranks"} <= row.keys()]


def _members(name: str, ranks: Any, n_ranks: int) -> tuple[int, ...]:
    group = f"process group {written(name)}"
    is_list = isinstance(ranks, list)
    if not is_list or any(isinstance(one, bool) or not isinstance(one, int) for one in ranks):
        raise InputError(f"{group}: {shortened(str(ranks))} is not a list of ranks")
    for rank in ranks:
        if not 0 <= rank < n_ranks:
            raise InputError(f"{group}: unknown rank {rank}", hint=f"0..{n_ranks - 1}")
    if len(set(ranks)) < len(ranks):
        raise InputError(f"{group}: duplicate rank", code="duplicate")
    return tuple(ranks) or tuple(range(n_ranks))


VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5  # wire types

_KNOWN = np.isin(np.arange(8), (VARINT, FIXED64, BYTES, FIXED32))

Bytes = NDArray[np.uint8]

_DIGITS = 10  # most bytes of a varint: 64 bits in groups of seven
FIELD_BYTES = 400  # memory per field while decoding, in bytes


class DamagedMessageError(InputError):
    """A truncated or invalid message, number `number`."""

    def __init__(self, number: int, what: str) -> None:
        super().__init__(what)
        self.number = number


@frozen
class Fields:
    """The fields of many messages, by message in byte order."""

    message: Ints  # int64[f], index of the message
    number: Ints  # int64[f], field number
    wire: NDArray[np.int8]  # int8[f], wire type
    value: NDArray[np.uint64]  # uint64[f]; 0 for BYTES
    # begin, end: int64[f], the content of BYTES
    begin: Ints
    end: Ints

    def of(self, chosen: Flags | Ints) -> Fields:
        return Fields(
            self.message[chosen],
            self.number[chosen],
            self.wire[chosen],
            self.value[chosen],
            self.begin[chosen],
            self.end[chosen],
        )


def framed(data: bytes) -> tuple[Ints, Ints]:
    """Return the bounds of length-prefixed messages. Raises DamagedMessageError."""
    begin: list[int] = []
    end: list[int] = []
    at, size = 0, len(data)
    while at < size:
        length = shift = 0
        while True:
            if at == size or shift > 28:
                raise DamagedMessageError(len(begin), "its length is truncated or above 32 bits")
            byte = data[at]
            at += 1
            length |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                break
        if at + length > size:
            raise DamagedMessageError(
                len(begin), f"has {length} bytes, but {size - at} remain in the file"
            )
        if length == 0 and at < size:
            raise DamagedMessageError(len(begin), "is empty but not the last one")
        begin.append(at)
        at += length
        end.append(at)
    return np.array(begin, np.int64), np.array(end, np.int64)


def fields_of(data: Bytes, begin: Ints, end: Ints) -> Fields:
    """Decode the fields of the messages from `begin` to `end`. Raises DamagedMessageError."""
    live = np.flatnonzero(begin < end)
    at, stop = begin[live], end[live]
    rounds: list[tuple[NDArray[Any], ...]] = []
    n = room = 0
    while live.size:
        n += live.size
        if n > room:
            room = 2 * n
            require_room(FIELD_BYTES * room, what=f"{n:,} fields")
        tag, at = _varints(data, at, stop, live)
        number, wire = (tag >> np.uint64(3)).astype(np.int64), (tag & np.uint64(7)).astype(np.int8)
        for k in first_of((number == 0) | ~_KNOWN[wire]):
            what = f"has field {number[k]} of wire type {wire[k]}"
            raise DamagedMessageError(int(live[k]), what)
        value = np.zeros(live.size, np.uint64)
        content = at.copy()
        counted = np.flatnonzero((wire == VARINT) | (wire == BYTES))
        value[counted], content[counted] = _varints(data, at[counted], stop[counted], live[counted])
        after = content.copy()
        is_bytes = wire == BYTES
        after[is_bytes] += np.minimum(value[is_bytes], np.uint64(data.size + 1)).astype(np.int64)
        value[is_bytes] = 0
        for kind, width in ((FIXED64, 8), (FIXED32, 4)):
            fixed = np.flatnonzero(wire == kind)
            after[fixed] += width
            whole = fixed[after[fixed] <= stop[fixed]]
            value[whole] = _fixed(data, at[whole], width)
        for k in first_of(after > stop):
            raise DamagedMessageError(int(live[k]), f"ends within its field {number[k]}")
        rounds.append((live, number, wire, value, content, after))
        more = after < stop
        live, at, stop = live[more], after[more], stop[more]
    if not rounds:
        rounds.append((live, live, live, live.astype(np.uint64), live, live))
    columns: list[NDArray[Any]] = [np.concatenate(one) for one in zip(*rounds, strict=True)]
    order = np.argsort(columns[0], kind="stable")
    return Fields(*(column[order] for column in columns))


def listed(data: Bytes, fields: Fields) -> tuple[Ints, NDArray[np.uint64]]:
    """Return the messages and values of a repeated varint field, packed or not."""
    is_packed = (fields.wire == BYTES) & (fields.begin < fields.end)
    plain, packed = fields.of(fields.wire != BYTES), fields.of(is_packed)
    for k in first_of(data[packed.end - 1] >= 0x80):
        raise DamagedMessageError(int(packed.message[k]), "ends within a number")
    size = packed.end - packed.begin
    at = rows_of(packed.begin, size)
    is_last = data[at] < 0x80
    starts = np.flatnonzero(np.append(True, is_last[:-1])[: at.size])
    of = np.repeat(np.arange(size.size), size)[starts]
    values, _ = _varints(data, at[starts], packed.end[of], packed.message[of])
    return np.append(plain.message, packed.message[of]), np.append(plain.value, values)


def equal_text(data: Bytes, fields: Fields, text: str) -> Flags:
    wanted = np.frombuffer(text.encode(), np.uint8)
    same: Flags = fields.end - fields.begin == wanted.size
    candidates = np.flatnonzero(same)
    found = data[fields.begin[candidates][:, None] + np.arange(wanted.size)]
    same[candidates] = (found == wanted).all(axis=1)
    return same


def _varints(data: Bytes, at: Ints, end: Ints, message: Ints) -> tuple[NDArray[np.uint64], Ints]:
    for k in first_of(at >= end):
        raise DamagedMessageError(int(message[k]), "ends within a number")
    byte = data[at]
    value, after = (byte & np.uint8(0x7F)).astype(np.uint64), at + 1
    live = np.flatnonzero(byte >= 0x80)
    for digit in range(1, _DIGITS):
        if not live.size:
            return value, after
        here = after[live]
        for k in first_of(here >= end[live]):
            raise DamagedMessageError(int(message[live[k]]), "ends within a number")
        byte = data[here]
        value[live] |= (byte & np.uint8(0x7F)).astype(np.uint64) << np.uint64(7 * digit)
        after[live] = here + 1
        live = live[byte >= 0x80]
    if live.size:
        raise DamagedMessageError(int(message[live[0]]), "has a number above 64 bits")
    return value, after


def _fixed(data: Bytes, at: Ints, width: int) -> NDArray[np.uint64]:
    """Return little-endian numbers of `width` bytes."""
    raw = np.ascontiguousarray(data[at[:, None] + np.arange(width)])
    return raw.view(f"<u{width}").reshape(-1).astype(np.uint64)


def text_of(data: Bytes, fields: Fields, k: int) -> str:
    """Return the text of a BYTES field; invalid UTF-8 is replaced."""
    content = data[int(fields.begin[k]) : int(fields.end[k])].tobytes()
    return content.decode("utf-8", "replace")
