"""Numba patch: compile functions for 64-bit integers.

Numba compiles a function again for each constant and each narrower integer that a caller passes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numba import types


def widen_arguments(dispatcher: Any) -> None:
    """Compile a function once for all integer types of its callers."""
    template: Callable[..., Any] = dispatcher.get_call_template

    def wide_template(args: Any, kws: Any) -> Any:
        return template(tuple(map(_wide, args)), {k: _wide(v) for k, v in kws.items()})

    dispatcher.get_call_template = wide_template


def _wide(arg: Any) -> Any:
    """Return the type to compile for: int64 for every integer type that fits in it."""
    arg = types.unliteral(arg)
    narrower = isinstance(arg, types.Integer) and arg != types.uint64
    return types.int64 if narrower else arg
