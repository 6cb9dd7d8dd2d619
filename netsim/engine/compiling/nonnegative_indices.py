"""Numba patch: array indices are never negative.

In Python ``a[-1]`` is the last element, so Numba tests the sign of every index, hundreds of times
per packet. The engine has no negative index. Array fields of records keep Python's meaning, since a
transport may write ``tx.history[-1]``; their length is constant, so the test costs little.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from numba import types
from numba.np import arrayobj


@contextmanager
def applied() -> Iterator[None]:
    """Compile array indices as nonnegative. With bounds checks, a negative index is an error."""
    indexing, fix = arrayobj.basic_indexing, arrayobj.fix_integer_index

    def keep_index(context: Any, builder: Any, kind: Any, index: Any, _: Any) -> Any:
        return context.cast(builder, index, kind, types.intp)

    def patched_indexing(context: Any, builder: Any, array: Any, *args: Any, **kwargs: Any) -> Any:
        in_record = isinstance(array, types.NestedArray)
        arrayobj.fix_integer_index = fix if in_record else keep_index
        try:
            return indexing(context, builder, array, *args, **kwargs)
        finally:
            arrayobj.fix_integer_index = fix

    arrayobj.basic_indexing = patched_indexing
    try:
        yield
    finally:
        arrayobj.basic_indexing = indexing
