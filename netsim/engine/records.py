"""Record arrays with fast ``record.field`` access in plain Python.

Compiled code has this access already; ``np.recarray`` is many times slower. Values are Python
numbers, so one that does not fit its field raises an error, where compiled code would silently
wrap.
"""

from __future__ import annotations

import mmap
from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from typing import Any

import numpy as np


class Record:
    """An entry of an array; `_record_type` adds its fields. (No field begins with _.) `_views` has
    the array's memory as numbers of each type code, "B" being bytes."""

    __slots__ = ("_at", "_views")

    def __init__(self, views: dict[str, memoryview], at: int) -> None:
        self._views = views
        self._at = at

    def __getitem__(self, field: str) -> Any:
        return getattr(self, field)


def _field(code: str, offset: int, itemsize: int) -> property:
    width = np.dtype(code).itemsize
    stride, first = itemsize // width, offset // width

    def read(record: Record) -> Any:
        return record._views[code][record._at * stride + first]

    def write(record: Record, value: Any) -> None:
        record._views[code][record._at * stride + first] = value

    return property(read, write)


def _array_field(code: str, length: int, offset: int, itemsize: int) -> property:
    width = np.dtype(code).itemsize
    stride, first = itemsize // width, offset // width

    def read(record: Record) -> Any:
        begin = record._at * stride + first
        return record._views[code][begin : begin + length]

    return property(read)


def _record_field(kind: np.dtype, offset: int, itemsize: int) -> property:
    inner = _record_type(kind)

    def read(record: Record) -> Any:
        begin = record._at * itemsize + offset
        return inner(_views(kind, record._views["B"][begin : begin + kind.itemsize]), 0)

    return property(read)


def _property(kind: np.dtype, offset: int, itemsize: int) -> property:
    if kind.names is not None:
        return _record_field(kind, offset, itemsize)
    if kind.subdtype is None:
        return _field(kind.char, offset, itemsize)
    element, (length,) = kind.subdtype
    return _array_field(element.char, length, offset, itemsize)


@cache
def _record_type(dtype: np.dtype) -> type[Record]:
    fields: Mapping[str, Any] = dtype.fields or {}
    properties = {
        name: _property(kind, offset, dtype.itemsize) for name, (kind, offset, *_) in fields.items()
    }
    return type("Record", (Record,), {"__slots__": (), **properties})


def _views(dtype: np.dtype, raw: Any) -> dict[str, memoryview]:
    """Return the bytes ``raw`` as numbers of each type among the fields."""
    kinds = [kind.base for kind, *_ in (dtype.fields or {}).values() if kind.names is None]
    codes = {str(kind.char) for kind in kinds} - {"B"}
    return {"B": raw, **{code: raw.cast(code) for code in codes}}


class RecordArray(np.ndarray):
    """A one-dimensional array of records: ``array[i]`` is a `Record`, all else is NumPy."""

    def _entries(self) -> tuple[type[Record], dict[str, memoryview]]:
        if not hasattr(self, "_cached"):
            raw = memoryview(np.asarray(self).view(np.uint8).data)
            self._cached = (_record_type(self.dtype), _views(self.dtype, raw))
        return self._cached

    def __getitem__(self, index: Any) -> Any:
        if type(index) is not int:  # most are
            if isinstance(index, (str, slice, np.ndarray)):
                return np.asarray(self)[index]
            index = int(index)
        try:
            record, views = self._cached
        except AttributeError:
            record, views = self._entries()
        return record(views, index)

    def __setitem__(self, index: Any, value: Any) -> None:
        if not isinstance(value, Record):
            np.asarray(self)[index] = value
            return
        size = self.dtype.itemsize
        there, here = int(index) * size, value._at * size
        self._entries()[1]["B"][there : there + size] = value._views["B"][here : here + size]


def attribute_access(group: Any) -> Any:
    """Return the group with record arrays that allow ``record.field`` in plain Python."""
    views: dict[str, Any] = {}
    for name, value in group._asdict().items():
        if isinstance(value, np.ndarray) and value.dtype.names:
            views[name] = value.view(RecordArray)
        elif isinstance(value, tuple):
            views[name] = attribute_access(value)
    return group._replace(**views)


def aligned_zeros(n: int, dtype: np.dtype) -> np.ndarray:
    """Return ``n`` zeroed records aligned to cache lines."""
    line = 64
    n_bytes = n * dtype.itemsize
    raw = np.zeros(n_bytes + line, np.uint8)
    start = -raw.ctypes.data % line
    return raw[start : start + n_bytes].view(dtype)


def untouched_zeros(n: int, dtype: np.dtype, *, large_pages: bool = True) -> np.ndarray:
    """Return ``n`` zeroed records that take memory when first touched, in large pages or in small
    ones. They may exceed memory, where the system allows it."""
    n_bytes = n * dtype.itemsize
    advice = getattr(mmap, "MADV_HUGEPAGE" if large_pages else "MADV_NOHUGEPAGE", None)
    if advice is None:  # not Linux
        return np.zeros(n, dtype)
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | getattr(mmap, "MAP_NORESERVE", 0)
    memory = mmap.mmap(-1, n_bytes, flags=flags)
    memory.madvise(mmap.MADV_DONTFORK)  # another process compiles, and never needs them
    with suppress(OSError):  # a system without large pages
        memory.madvise(advice)
    return np.frombuffer(memory, dtype)
