"""Compile with Numba at a third of its usual cost, by four patches, each in its own module.

They rely on undocumented parts of Numba. On a Numba newer than `NEWEST_TESTED`, a patch is left
out, with one warning, if a trial function compiled with it fails, returns a wrong number, or
crashes its process. NETSIM_PLAIN_NUMBA=1 leaves out all four, to rule them out as the cause of a
bug: slower, with the same results.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import cache
from importlib import import_module
from types import FunctionType, ModuleType
from typing import Any

import numba
import numpy as np
from numba.core.compiler_lock import global_compiler_lock

from netsim.engine.compiling.cache import code_of_result
from netsim.errors import warn_once

NEWEST_TESTED = (0, 68)
"""Newest Numba whose compiled code was compared with and without the patches."""

LOST = {
    "deferred": "compiling takes longer",
    "kept_functions": "compiling after an edit takes longer",
    "wide_integers": "compiling takes longer",
    "nonnegative_indices": "runs are slower",
}
"""Patch module -> cost of leaving the patch out."""


def working(name: str) -> ModuleType | None:
    """Return the module of a patch, or None if this Numba cannot use it."""
    if os.environ.get("NETSIM_PLAIN_NUMBA", "0") not in ("", "0"):
        return None
    return _working(name)


@contextmanager
def patched() -> Iterator[None]:
    """Compile with every patch that works."""
    with global_compiler_lock, ExitStack() as stack:
        for name in ("deferred", "kept_functions", "nonnegative_indices"):
            if patch := working(name):
                stack.enter_context(patch.applied())
        yield


def compiled(function: FunctionType, **options: Any) -> Any:
    """Return the compiled form of a function that is called with any integer types."""
    made = numba.njit(**options)(function)
    if patch := working("wide_integers"):
        patch.widen_arguments(made)
    return made


@cache
def _working(name: str) -> ModuleType | None:
    try:
        patch = import_module(f"{__package__}.{name}")
        if _is_tested() or _passes_trial(name):
            return patch
    except Exception:  # a new Numba may fail in any way
        pass
    warn_once(f"Numba {numba.__version__}: the patch {name} is left out; {LOST[name]}")
    return None


def _is_tested() -> bool:
    version = tuple(int(part) for part in numba.__version__.split(".")[:2])
    return version <= NEWEST_TESTED


def _passes_trial(name: str) -> bool:
    """Return whether a trial function compiled with the patch returns the right number."""
    done = subprocess.run([sys.executable, "-c", TRIAL, name], capture_output=True, check=False)
    return done.returncode == 0


TRIAL = f"import sys; from {__name__} import try_out; sys.exit(not try_out(sys.argv[1]))"
"""Program that tries a patch, in a separate process that may crash."""


def try_out(name: str) -> bool:
    """Return whether a trial function compiled with patch `name` returns the right number."""
    patch = import_module(f"{__package__}.{name}")
    numbers = np.array([3, 5, 7])
    inner = numba.njit(_weighted)
    with ExitStack() as stack:
        if hasattr(patch, "widen_arguments"):
            patch.widen_arguments(inner)
        else:
            stack.enter_context(patch.applied())
        outer = numba.njit(_sum_with(inner))
        is_right = outer(numbers) == _sum_with(_weighted)(numbers)
        for result in outer.overloads.values():
            code_of_result(result).serialize_using_object_code()
        return bool(is_right)


def _weighted(numbers: Any, index: Any, weight: Any) -> Any:
    return numbers[index] * weight


def _sum_with(inner: Any) -> Callable[[Any], Any]:
    def trial(numbers: Any) -> Any:
        total = inner(numbers, 0, np.uint8(2))
        for i in range(numbers.size):
            total += inner(numbers, i, i << 1)
        return total

    return trial
