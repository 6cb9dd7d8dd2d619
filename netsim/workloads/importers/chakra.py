"""Chakra execution traces: one file `PREFIX.RANK.et` per rank, a graph of operations.

A file is a sequence of length-prefixed Protocol Buffers messages: the trace's metadata, then its
nodes in any order. It may be gzip-compressed.

Source: mlcommons/chakra 1.0.0, schema/protobuf/et_def.proto; Sridharan et al., "Chakra: Advancing
Performance Benchmarking and Co-design using Standardized Execution Traces", 2023.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from netsim.common.inputs import read_bytes, unpacked, unreadable
from netsim.errors import InputError
from netsim.limits import HORIZON_PS, SIZE_BYTES
from netsim.units import written
from netsim.workloads.importers.chakra_attributes import (
    MISSING,
    Attributes,
    attributes_of,
    tables_of,
)
from netsim.workloads.importers.protobuf import (
    BYTES,
    VARINT,
    DamagedMessageError,
    Fields,
    fields_of,
    framed,
    listed,
    text_of,
)

Ints = NDArray[np.int64]

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
METADATA, MEM_LOAD, MEM_STORE, COMP, SEND, RECV, COLLECTIVE = range(1, 8)
"""Kinds of nodes (NodeType)."""

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
BARRIER = COLLECTIVES.index("BARRIER")
"""Kinds of collectives (CollectiveCommType)."""

# Field numbers of messages.
_VERSION = 1
_ID, _NAME, _KIND, _CTRL, _DATA, _DURATION, _INPUTS = 1, 2, 3, 4, 5, 7, 8

SUFFIX = ".0.et"
"""Suffix of the first rank's trace, after the prefix."""

PS_PER_US = 10**6
LONGEST_US = HORIZON_PS // PS_PER_US

OTHER_SCHEMAS = ("0.0.1",)
"""Schema versions with other numbers of kinds."""


@dataclass(frozen=True)
class ChakraTrace:
    """The n nodes of a rank in file order, and their m dependencies.

    Attributes:
        version: of the schema.
        id: uint64[n], node ids of the file.
        kind: int64[n], index into KINDS.
        duration_us: int64[n].
        first, then: int64[m], nodes: `then[i]` waits for `first[i]`, by data or control.
        tables: texts of METADATA nodes that may contain process groups.
    """

    path: Path
    version: str
    id: NDArray[np.uint64]
    kind: Ints
    duration_us: Ints
    attributes: Attributes
    first: Ints
    then: Ints
    tables: tuple[str, ...]
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
            for node in np.flatnonzero(bad)[:1].tolist():
                hint = f"of the schema {self.version or 'without a version'}; 1.0.0 is read"
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
    found = [one for one in _listing(prefix.parent) if name.fullmatch(one)]
    if len(found) > len(files) or not files:
        what = f"missing {written(path.name)}"
        what += f", but there are {len(found)} other traces of that prefix" if found else ""
        raise InputError(what, file=str(prefix.parent), hint="a trace for each rank from 0")
    return files


def read_trace(path: Path) -> ChakraTrace:
    """Read the trace of a rank."""
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


def _listing(directory: Path) -> list[str]:
    try:
        return os.listdir(directory)
    except OSError as error:
        raise unreadable(directory, error) from None


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
    """Return unique dependencies of nodes: those waited for, and those that wait."""
    order = np.argsort(trace.id, kind="stable")
    ids = trace.id[order]
    for k in np.flatnonzero(ids[1:] == ids[:-1])[:1].tolist():
        raise trace.error(int(order[k + 1]), "has the id of another node")
    place = np.minimum(np.searchsorted(ids, awaited), len(trace) - 1)
    missing = np.flatnonzero(ids[place] != awaited) if len(trace) else awaited
    for k in missing[:1].tolist():
        what = f"waits for node {awaited[k]}, which is not in the file"
        more = f" ({missing.size - 1} other dependencies are missing)" if missing.size > 1 else ""
        raise trace.error(int(waiting[k]), what + more, "a whole trace, not a part of one")
    first = order[place]
    for k in np.flatnonzero(first == waiting)[:1].tolist():
        raise trace.error(int(waiting[k]), "waits for itself")
    then, first = np.divmod(np.unique(waiting * len(trace) + first), max(len(trace), 1))
    return first, then
