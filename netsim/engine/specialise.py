"""Compile the engine for one transport and one fabric.

The engine's modules are plain Python. Names that are annotated but not assigned in
them (``on_data: Callable``, ``N_CLASSES: int``) are holes. Specialising a function
makes a copy of it, and of every function of ours that it calls, whose global
names see the holes filled, and compiles the copies with everything inlined: a
handler call costs nothing, and a feature that is off leaves no trace.

What was compiled is kept on the disk (`cache.py`).
"""

from __future__ import annotations

import dis
import inspect
import os
import sys
import types
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from netsim.engine.cache import CodeCache, is_ours, top_package
from netsim.engine.compile_errors import does_not_compile

# None of our functions makes an array, or is called from C.
ENTRY = {"no_cfunc_wrapper": True, "_nrt": False}
INNER = {**ENTRY, "no_cpython_wrapper": True}

ENGINE = "netsim.engine."
"""Functions of these modules do not divide by zero; everywhere else that is an error."""

SEPARATE = ("host_step", "switch_step", "step_parallel", "count_out_of_order", "broken")
"""Large functions that are called from two places and gain nothing from being inlined, and small
ones that are hardly ever called."""

PARALLEL = ("step_parallel",)
"""The functions with a parallel loop, which Numba takes a longer way through."""


def jit_enabled() -> bool:
    """False if the user wants plain Python, for a debugger (NUMBA_DISABLE_JIT=1)."""
    return os.environ.get("NUMBA_DISABLE_JIT", "0") in ("", "0")


def _compiles(value: Any, plugins: Sequence[types.ModuleType]) -> bool:
    if not isinstance(value, types.FunctionType):
        return False
    if top_package(value.__module__ or "") in (
        "netsim",
        *(top_package(plugin.__name__) for plugin in plugins),
    ):
        return True
    return is_ours(inspect.getsourcefile(value))


def _global_names(function: types.FunctionType) -> set[str]:
    """The names that a function looks up among its module's globals."""
    loads = dis.get_instructions(function)
    return {str(load.argval) for load in loads if load.opname == "LOAD_GLOBAL"}


@dataclass(frozen=True)
class Entry:
    """An entry point: ``prepare`` compiles it for such arguments, if need be; ``run`` calls it."""

    prepare: Callable[..., None]
    run: Callable[..., Any]

    def __call__(self, *args: Any) -> Any:
        self.prepare(*args)
        return self.run(*args)


class Specialiser:
    """Makes compiled copies of functions with the holes of the engine filled.

    ``holes`` maps names to constants or plain functions; ``tag`` distinguishes this
    combination in module names, which Numba builds symbol names from. Without ``jit``
    the copies stay plain Python. With ``checked``, an index beyond an array is an error.
    """

    def __init__(
        self,
        holes: Mapping[str, Any],
        plugins: Sequence[types.ModuleType],
        tag: str,
        *,
        jit: bool,
        checked: bool = False,
    ) -> None:
        self._jit = jit
        self._checked = checked
        self._holes = dict(holes)
        self._plugins = plugins
        self._tag = tag
        self._done: dict[int, Callable[..., Any]] = {}

    def copy(self, function: types.FunctionType) -> types.FunctionType:
        """A copy of ``function`` that calls specialised copies of our functions."""
        module = f"{function.__module__}__{self._tag}"
        alias = sys.modules.setdefault(module, types.ModuleType(module))
        names = dict(function.__globals__)
        names["__name__"] = module
        for name in _global_names(function):
            if self._is_hole(function, name):
                value = self._holes[name]
            elif name in names:
                value = names[name]
            else:
                continue
            names[name] = self._specialised(value, function)
        cells = tuple(
            types.CellType(self._specialised(cell.cell_contents, function))
            for cell in function.__closure__ or ()
        )
        copied = types.FunctionType(
            function.__code__, names, function.__name__, function.__defaults__, cells or None
        )
        copied.__module__ = module
        copied.__qualname__ = function.__qualname__
        setattr(alias, function.__name__, copied)
        return copied

    def _specialised(self, value: Any, user: types.FunctionType) -> Any:
        """What a global name of ``user`` stands for in its copy."""
        if isinstance(value, types.ModuleType) and is_ours(getattr(value, "__file__", None)):
            return self._namespace(value, set(user.__code__.co_names))
        return self.inline(value) if _compiles(value, self._plugins) else value

    def _namespace(self, module: types.ModuleType, used: set[str]) -> types.ModuleType:
        """A stand-in for a module of helpers, with specialised copies of its ``used`` functions."""
        stand_in = types.ModuleType(f"{module.__name__}__{self._tag}")
        for name, value in vars(module).items():
            if name in used and not name.startswith("__"):
                setattr(
                    stand_in, name, self.inline(value) if _compiles(value, self._plugins) else value
                )
        return stand_in

    def _is_hole(self, function: types.FunctionType, name: str) -> bool:
        declared = function.__globals__.get("__annotations__", {})
        return name in self._holes and name in declared and name not in function.__globals__

    def inline(self, function: types.FunctionType) -> Callable[..., Any]:
        """The specialised copy, compiled and (unless it is large) inlined into its callers."""
        if id(function) not in self._done:
            copied = self.copy(function)
            options = {
                **INNER,
                **self._errors(function),
                "forceinline": function.__name__ not in SEPARATE,
                "parallel": function.__name__ in PARALLEL,
            }
            self._done[id(function)] = self._compile(copied, **options)
        return self._done[id(function)]

    def _errors(self, function: types.FunctionType) -> dict[str, Any]:
        """What is an error in compiled code. Divisions are, but in the engine's own functions."""
        sure = function.__module__.startswith(ENGINE) and not self._checked
        return {"error_model": "numpy" if sure else "python", "boundscheck": self._checked or None}

    def entry(self, function: Callable[..., Any], folder: Path | None) -> Entry:
        """The specialised copy as a compiled entry point, whose code is kept in ``folder``."""
        assert isinstance(function, types.FunctionType)
        copied = self.copy(function)
        if not self._jit:
            return Entry(lambda *_: None, copied)
        import numba

        from netsim.engine.compiling import deferred

        compiled = numba.njit(nogil=True, **ENTRY, **self._errors(function))(copied)
        if folder is not None:
            compiled._cache = CodeCache(folder, copied)

        def prepare(*args: Any) -> None:
            if not compiled.signatures:
                try:
                    with deferred():
                        compiled.compile(tuple(numba.typeof(arg) for arg in args))
                except Exception as error:  # Numba lets errors of many kinds through
                    raise does_not_compile(error, self._plugins) from error

        return Entry(prepare, compiled)

    def _compile(self, function: types.FunctionType, **options: Any) -> Callable[..., Any]:
        if not self._jit:
            return function
        import numba

        from netsim.engine.compiling import widen_arguments

        compiled: Callable[..., Any] = numba.njit(**options)(function)
        widen_arguments(compiled)
        return compiled
