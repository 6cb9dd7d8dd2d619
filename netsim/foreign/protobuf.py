"""Messages of Protocol Buffers, all of one kind read at once, as columns.

Source: protobuf.dev, "Encoding". Groups, which proto3 does not have, are refused.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from netsim.errors import InputError

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
"""Wire types."""

_KNOWN = np.isin(np.arange(8), (VARINT, FIXED64, BYTES, FIXED32))

Bytes = NDArray[np.uint8]
Ints = NDArray[np.int64]

_DIGITS = 10
"""The most bytes of a varint: 64 bits in sevens."""


class DamagedMessageError(InputError):
    """A message that ends within a field, or has what is none; `message` is its number."""

    def __init__(self, number: int, what: str) -> None:
        super().__init__(what)
        self.number = number


@dataclass(frozen=True)
class Fields:
    """The fields of many messages, message by message in the order of their bytes.

    Attributes:
        message: int64[f], which message.
        number: int64[f], which field of it.
        wire: int8[f], its wire type.
        value: uint64[f], what it holds; 0 of BYTES.
        begin, end: int64[f], where the content of BYTES is.
    """

    message: Ints
    number: Ints
    wire: NDArray[np.int8]
    value: NDArray[np.uint64]
    begin: Ints
    end: Ints

    def of(self, chosen: NDArray[np.bool_] | Ints) -> Fields:
        """Some of them, by a mask or by their places."""
        return Fields(
            self.message[chosen],
            self.number[chosen],
            self.wire[chosen],
            self.value[chosen],
            self.begin[chosen],
            self.end[chosen],
        )


def framed(data: bytes) -> tuple[Ints, Ints]:
    """Where the messages of a file begin and end that has the length before each.

    Raises DamagedMessageError.
    """
    begin: list[int] = []
    end: list[int] = []
    at, size = 0, len(data)
    while at < size:
        length = shift = 0
        while True:
            if at == size or shift > 28:
                raise DamagedMessageError(len(begin), "its length is cut or longer than 32 bit")
            byte = data[at]
            at += 1
            length |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                break
        if at + length > size:
            raise DamagedMessageError(len(begin), f"has {length} bytes, the file {size - at} more")
        if length == 0 and at < size:
            raise DamagedMessageError(len(begin), "is empty, and more follow")
        begin.append(at)
        at += length
        end.append(at)
    return np.array(begin, np.int64), np.array(end, np.int64)


def fields_of(data: Bytes, begin: Ints, end: Ints) -> Fields:
    """All fields of the messages at ``begin`` to ``end``. Raises DamagedMessageError."""
    live = np.flatnonzero(begin < end)
    at, stop = begin[live], end[live]
    rounds: list[tuple[NDArray[Any], ...]] = []
    while live.size:
        tag, at = _varints(data, at, stop, live)
        number, wire = (tag >> np.uint64(3)).astype(np.int64), (tag & np.uint64(7)).astype(np.int8)
        for k in np.flatnonzero((number == 0) | ~_KNOWN[wire])[:1]:
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
        for k in np.flatnonzero(after > stop)[:1]:
            raise DamagedMessageError(int(live[k]), f"ends within its field {number[k]}")
        rounds.append((live, number, wire, value, content, after))
        more = after < stop
        live, at, stop = live[more], after[more], stop[more]
    if not rounds:
        rounds.append((live, live, live, live.astype(np.uint64), live, live))
    columns: list[NDArray[Any]] = [np.concatenate(one) for one in zip(*rounds, strict=True)]
    order = np.argsort(columns[0], kind="stable")
    message, number, wire, value, begin, end = (column[order] for column in columns)
    return Fields(message, number, wire, value, begin, end)


def listed(data: Bytes, fields: Fields) -> tuple[Ints, NDArray[np.uint64]]:
    """The messages and values of a repeated varint field, packed or not."""
    packed = fields.wire == BYTES
    owner, value = [fields.message[~packed]], [fields.value[~packed]]
    live = np.flatnonzero(packed & (fields.begin < fields.end))
    at = fields.begin.copy()
    while live.size:
        which = fields.message[live]
        one, at[live] = _varints(data, at[live], fields.end[live], which)
        owner.append(which)
        value.append(one)
        live = live[at[live] < fields.end[live]]
    return np.concatenate(owner), np.concatenate(value)


def equal_text(data: Bytes, fields: Fields, text: str) -> NDArray[np.bool_]:
    """Of fields of BYTES, which hold that text."""
    wanted = np.frombuffer(text.encode(), np.uint8)
    same: NDArray[np.bool_] = fields.end - fields.begin == wanted.size
    candidates = np.flatnonzero(same)
    found = data[fields.begin[candidates][:, None] + np.arange(wanted.size)]
    same[candidates] = (found == wanted).all(axis=1)
    return same


def _varints(data: Bytes, at: Ints, end: Ints, message: Ints) -> tuple[NDArray[np.uint64], Ints]:
    """The varints at ``at`` and where they end; ``message`` are the messages that they are in."""
    for k in np.flatnonzero(at >= end)[:1]:
        raise DamagedMessageError(int(message[k]), "ends within a number")
    byte = data[at]
    value, after = (byte & np.uint8(0x7F)).astype(np.uint64), at + 1
    live = np.flatnonzero(byte >= 0x80)
    for digit in range(1, _DIGITS):
        if not live.size:
            return value, after
        here = after[live]
        for k in np.flatnonzero(here >= end[live])[:1]:
            raise DamagedMessageError(int(message[live[k]]), "ends within a number")
        byte = data[here]
        value[live] |= (byte & np.uint8(0x7F)).astype(np.uint64) << np.uint64(7 * digit)
        after[live] = here + 1
        live = live[byte >= 0x80]
    if live.size:
        raise DamagedMessageError(int(message[live[0]]), "has a number of more than 64 bit")
    return value, after


def _fixed(data: Bytes, at: Ints, width: int) -> NDArray[np.uint64]:
    """Little endian numbers of ``width`` bytes."""
    raw = np.ascontiguousarray(data[at[:, None] + np.arange(width)])
    return raw.view(f"<u{width}").reshape(-1).astype(np.uint64)


def text_of(data: Bytes, fields: Fields, k: int) -> str:
    """The text of one field of BYTES; what is not UTF-8 is replaced."""
    content = data[int(fields.begin[k]) : int(fields.end[k])].tobytes()
    return content.decode("utf-8", "replace")
