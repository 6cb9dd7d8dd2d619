"""Protocol Buffers messages, all of one type decoded together, as columns.

Source: protobuf.dev, "Encoding". Groups, which proto3 does not have, are errors.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from netsim.common.memory import require_room
from netsim.errors import InputError

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
"""Wire types."""

_KNOWN = np.isin(np.arange(8), (VARINT, FIXED64, BYTES, FIXED32))

Bytes = NDArray[np.uint8]
Ints = NDArray[np.int64]

_DIGITS = 10
"""Most bytes of a varint: 64 bits in groups of seven."""

FEW = 32
"""Up to this many messages are decoded one by one instead of field by field."""

MANY = 1 << 16
"""Fields of one message after which memory is checked again."""

FIELD_BYTES = 400
"""Memory per field while decoding, in bytes."""

_64_BITS = (1 << 64) - 1


class DamagedMessageError(InputError):
    """A truncated or invalid message, number `number`."""

    def __init__(self, number: int, what: str) -> None:
        super().__init__(what)
        self.number = number


@dataclass(frozen=True)
class Fields:
    """The fields of many messages, by message in byte order.

    Attributes:
        message: int64[f], index of the message.
        number: int64[f], field number.
        wire: int8[f], wire type.
        value: uint64[f]; 0 for BYTES.
        begin, end: int64[f], the content of BYTES.
    """

    message: Ints
    number: Ints
    wire: NDArray[np.int8]
    value: NDArray[np.uint64]
    begin: Ints
    end: Ints

    def of(self, chosen: NDArray[np.bool_] | Ints) -> Fields:
        """Select fields by mask or index."""
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
    n = 0
    while live.size > FEW:
        n += live.size
        require_room(FIELD_BYTES * n, what=f"{n:,} fields")
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
    for message, begin_at, end_at in zip(live.tolist(), at.tolist(), stop.tolist(), strict=True):
        rounds.append(_fields_of_one(data, message, begin_at, end_at))
        n += rounds[-1][0].size
        require_room(FIELD_BYTES * n, what=f"{n:,} fields")
    if not rounds:
        rounds.append((live, live, live, live.astype(np.uint64), live, live))
    columns: list[NDArray[Any]] = [np.concatenate(one) for one in zip(*rounds, strict=True)]
    order = np.argsort(columns[0], kind="stable")
    return Fields(*(column[order] for column in columns))


def _fields_of_one(data: Bytes, message: int, at: int, end: int) -> tuple[NDArray[Any], ...]:
    """Decode the remaining fields of one message, as a round of `fields_of`."""
    content = memoryview(data)[:end]  # type: ignore[arg-type]
    found: list[tuple[int, int, int, int, int]] = []  # number, wire, value, begin, end
    while at < end:
        tag, at = _varint(content, at, message)
        number, wire = tag >> 3, tag & 7
        value, begin = 0, at
        if wire == VARINT:
            value, at = _varint(content, at, message)
            begin = at
        elif wire == BYTES:
            size, begin = _varint(content, at, message)
            at = begin + size
        elif wire in (FIXED64, FIXED32):
            at += 8 if wire == FIXED64 else 4
            value = int.from_bytes(content[begin:at], "little")
        if number == 0 or not _KNOWN[wire]:
            raise DamagedMessageError(message, f"has field {number} of wire type {wire}")
        if at > end:
            raise DamagedMessageError(message, f"ends within its field {number}")
        found.append((number, wire, value, begin, at))
        if len(found) % MANY == 0:
            require_room(FIELD_BYTES * len(found), what=f"{len(found):,} fields")
    columns = zip(*found, strict=True)
    kinds = (np.int64, np.int8, np.uint64, np.int64, np.int64)
    arrays = (np.array(one, kind) for one, kind in zip(columns, kinds, strict=True))
    return np.full(len(found), message), *arrays


def _starts(data: Bytes, at: int, end: int) -> Ints:
    """Return the starts of consecutive varints from `at` that end before `end`."""
    behind = at + 1 + np.flatnonzero(data[at:end] < 0x80)
    return np.concatenate([[at], behind[:-1]])[: behind.size]


def _varint(content: memoryview, at: int, message: int) -> tuple[int, int]:
    value = shift = 0
    for byte in content[at : at + _DIGITS]:
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & _64_BITS, at
        shift += 7
    long = shift == 7 * _DIGITS
    what = "has a number above 64 bits" if long else "ends within a number"
    raise DamagedMessageError(message, what)


def listed(data: Bytes, fields: Fields) -> tuple[Ints, NDArray[np.uint64]]:
    """Return the messages and values of a repeated varint field, packed or not."""
    packed = fields.wire == BYTES
    owner, value = [fields.message[~packed]], [fields.value[~packed]]
    live = np.flatnonzero(packed & (fields.begin < fields.end))
    at = fields.begin.copy()
    while live.size > FEW:
        which = fields.message[live]
        one, at[live] = _varints(data, at[live], fields.end[live], which)
        owner.append(which)
        value.append(one)
        live = live[at[live] < fields.end[live]]
    for k in live.tolist():
        starts = _starts(data, int(at[k]), int(fields.end[k]))
        if not starts.size or data[fields.end[k] - 1] >= 0x80:
            raise DamagedMessageError(int(fields.message[k]), "ends within a number")
        owner.append(np.full(starts.size, fields.message[k]))
        one, _ = _varints(data, starts, np.full(starts.size, fields.end[k]), owner[-1])
        value.append(one)
    return np.concatenate(owner), np.concatenate(value)


def equal_text(data: Bytes, fields: Fields, text: str) -> NDArray[np.bool_]:
    wanted = np.frombuffer(text.encode(), np.uint8)
    same: NDArray[np.bool_] = fields.end - fields.begin == wanted.size
    candidates = np.flatnonzero(same)
    found = data[fields.begin[candidates][:, None] + np.arange(wanted.size)]
    same[candidates] = (found == wanted).all(axis=1)
    return same


def _varints(data: Bytes, at: Ints, end: Ints, message: Ints) -> tuple[NDArray[np.uint64], Ints]:
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
