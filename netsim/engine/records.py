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
    """An entry of an array; `_record_type` adds its fields. ``_B`` has its memory as bytes, ``_l``
    as int64 and so on, by type code. (No field begins with _.)"""

    __slots__ = ("_B", "_H", "_d", "_i", "_l")
    _codes: tuple[str, ...] = ()  # of its fields

    def __init__(self, raw: memoryview) -> None:
        self._B = raw
        for code in self._codes:
            setattr(self, f"_{code}", raw.cast(code))  # type: ignore[call-overload] # any code

    def __getitem__(self, field: str) -> Any:
        return getattr(self, field)


def _property(kind: np.dtype, offset: int) -> property:
    """Return a field of records. Its functions are made of text: an attribute and an index."""
    if kind.names is not None:
        inner, end = _record_type(kind), offset + kind.itemsize
        return property(lambda record: inner(record._B[offset:end]))
    code = kind.base.char
    first = offset // kind.base.itemsize
    if kind.subdtype is not None:
        return property(eval(f"lambda record: record._{code}[{first}:{first + kind.shape[0]}]"))
    scope: dict[str, Any] = {}
    exec(f"def write(record, value): record._{code}[{first}] = value", scope)
    return property(eval(f"lambda record: record._{code}[{first}]"), scope["write"])


@cache
def _record_type(dtype: np.dtype) -> type[Record]:
    fields: Mapping[str, Any] = dtype.fields or {}
    properties = {name: _property(kind, offset) for name, (kind, offset, *_) in fields.items()}
    kinds = (kind.base for kind, *_ in fields.values())
    codes = {str(kind.char) for kind in kinds if kind.names is None} - {"B"}
    return type("Record", (Record,), {"__slots__": (), "_codes": tuple(codes), **properties})


class RecordArray(np.ndarray):
    """A one-dimensional array of records: ``array[i]`` is a `Record`, all else is NumPy."""

    def __getitem__(self, index: Any) -> Any:
        try:
            return self._records[index]
        except (AttributeError, KeyError, TypeError):
            if isinstance(index, (str, slice, np.ndarray)):
                return np.asarray(self)[index]
        if not hasattr(self, "_records"):
            self._records: dict[int, Record] = {}
            self._bytes = memoryview(np.asarray(self).view(np.uint8).data)
        size = self.dtype.itemsize
        first = range(self.size)[index] * size  # an error if it is out of bounds
        record = self._records[int(index)] = _record_type(self.dtype)(
            self._bytes[first : first + size]
        )
        return record

    def __setitem__(self, index: Any, value: Any) -> None:
        if isinstance(value, Record):
            self[index]._B[:] = value._B
        else:
            np.asarray(self)[index] = value


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
