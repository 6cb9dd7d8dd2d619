"""Compile with Numba at a third of its usual cost, by four patches, each in its own module.

They rely on undocumented parts of Numba. So a patch is left out, with one warning, if Numba lacks
what it replaces, or if, on a Numba newer than `NEWEST_TESTED`, a trial function compiled with it
fails, returns a wrong number, or crashes its process. NETSIM_PLAIN_NUMBA=1 leaves out all four, to
rule them out as the cause of a fault: slower, with the same results.
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
from typing import Any, NamedTuple

import numba
import numpy as np
from numba.core.compiler_lock import global_compiler_lock

from netsim.errors import warn_once

NEWEST_TESTED = (0, 68)
"""Newest Numba whose compiled code was compared with and without the patches."""

LOST = {
    "deferred": "compiling takes longer",
    "kept_functions": "compiling after an edit takes longer",
    "pass_by_reference": "compiling takes longer",
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
    if patch := working("pass_by_reference"):
        patch.widen_arguments(made)
    return made


@cache
def _working(name: str) -> ModuleType | None:
    try:
        patch = import_module(f"{__package__}.{name}")
        if patch.is_supported() and (_is_tested() or _passes_trial(name)):
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
"""Program that tries a patch, in a process of its own that may crash."""


def try_out(name: str) -> bool:
    """Return whether a trial function compiled with patch `name` returns the right number."""
    patch = import_module(f"{__package__}.{name}")
    if not patch.is_supported():
        return False
    group = Trial(np.array([3, 5, 7]))
    inner = numba.njit(_weighted)
    with ExitStack() as stack:
        if hasattr(patch, "widen_arguments"):
            stack.enter_context(patch.also_by_reference(Trial))
            patch.widen_arguments(inner)
        else:
            stack.enter_context(patch.applied())
        return bool(numba.njit(_sum_with(inner))(group) == _sum_with(_weighted)(group))


class Trial(NamedTuple):
    """Group of arrays for trials."""

    numbers: np.ndarray


def _weighted(group: Any, index: Any, weight: Any) -> Any:
    return group.numbers[index] * weight


def _sum_with(inner: Any) -> Callable[[Any], Any]:
    def trial(group: Any) -> Any:
        total = inner(group, 0, np.uint8(2))
        for i in range(group.numbers.size):
            total += inner(group, i, i << 1)
        return total

    return trial
