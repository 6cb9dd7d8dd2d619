"""Indices that are never negative.

In Python ``a[-1]`` is the last element, so Numba asks of every index whether it is below zero:
three instructions and a load for each access to an array, of which a packet needs hundreds. No
index of the engine is ever negative. Within `never_negative` they are taken as they are.

Fields of a record that are arrays keep Python's meaning, since a transport may well write
``tx.history[-1]``; of these the length is a constant, which costs next to nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from numba import types
from numba.np import arrayobj

NEEDED = ("basic_indexing", "fix_integer_index")


def supported() -> bool:
    """Has this Numba got what is replaced here?"""
    return all(hasattr(arrayobj, name) for name in NEEDED)


@contextmanager
def never_negative() -> Iterator[None]:
    """What is compiled within takes an index of an array as it is; of one in a record, as ever.

    Where bounds are checked a negative index is an error.
    """
    indexing, fix = arrayobj.basic_indexing, arrayobj.fix_integer_index

    def as_it_is(context: Any, builder: Any, kind: Any, index: Any, _: Any) -> Any:
        return context.cast(builder, index, kind, types.intp)

    def indexing_so(context: Any, builder: Any, array: Any, *args: Any, **kwargs: Any) -> Any:
        within_record = isinstance(array, types.NestedArray)
        arrayobj.fix_integer_index = fix if within_record else as_it_is
        try:
            return indexing(context, builder, array, *args, **kwargs)
        finally:
            arrayobj.fix_integer_index = fix

    arrayobj.basic_indexing = indexing_so
    try:
        yield
    finally:
        arrayobj.basic_indexing = indexing
