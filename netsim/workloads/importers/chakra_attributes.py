"""Attributes of Chakra nodes: a name, and a value in the member for its type.

Writers disagree on types (comm_size as int64 or uint64, is_cpu_op as bool or int32), so a number is
taken from whichever member has it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from netsim.limits import INT64
from netsim.workloads.importers.protobuf import (
    BYTES,
    Bytes,
    DamagedMessageError,
    Fields,
    Ints,
    equal_text,
    fields_of,
    text_of,
)

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

GROUP = "pg_name"
"""The attribute with the name of a process group, as text or number."""

DIMENSIONS = "involved_dim"
"""The attribute with the network dimensions of a collective."""

MISSING = -INT64
"""The value of a missing attribute."""

ATTRIBUTES = 10
"""The field of nodes with attributes."""

# Members of an attribute's value; lists have even numbers.
_NAME, _DOUBLE, _FLOAT, _STRING, _BYTES = 1, 3, 5, 29, 31
_ZIGZAG, _SIGNED_32 = (15, 17), 23
_FIRST_VALUE = 3

_HEAD = 2
"""Bytes before a short leading name: field and length."""


@dataclass(frozen=True)
class Attributes:
    """The attributes of n nodes.

    Attributes:
        numbers: int64[n] for each of NUMBERS, or MISSING.
        group: int64[n], index of the process group's name in `groups`; -1: none.
        partial: bool[n], whether a collective involves only some dimensions of the network.
    """

    numbers: dict[str, Ints]
    group: Ints
    groups: tuple[str, ...]
    partial: NDArray[np.bool_]


def attributes_of(data: Bytes, nodes: Fields, n: int) -> Attributes:
    attribute = nodes.of((nodes.number == ATTRIBUTES) & (nodes.wire == BYTES))
    attribute = attribute.of(_may_be_read(data, attribute))
    try:
        inner = fields_of(data, attribute.begin, attribute.end)
    except DamagedMessageError as error:
        node = int(attribute.message[error.number])
        raise DamagedMessageError(node, f"an attribute {error.message}") from None
    names = inner.of((inner.number == _NAME) & (inner.wire == BYTES))
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
        # A list of bools: two bytes of header, then one of 0 or 1 each.
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


def _may_be_read(data: Bytes, attribute: Fields) -> NDArray[np.bool_]:
    """Select attributes that do not begin with an irrelevant name, as almost all do."""
    begin, size = attribute.begin, attribute.end - attribute.begin
    long = np.flatnonzero(size > _HEAD)
    may = np.ones(begin.size, np.bool_)
    length = data[begin[long] + 1]
    named = (data[begin[long]] == _NAME << 3 | BYTES) & (length < 0x80)
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
    for k in np.flatnonzero(~whole)[:1].tolist():
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
