"""Compile with Numba at a third of its usual cost.

Numba is made for functions that are called from Python, each by itself: it optimizes
every function together with all that it calls, makes machine code of the whole, and
then does so again in the caller. Our functions are inlined into two entry points, so
nearly all of that is thrown away. Here

- a function is optimized and made executable only when its address is asked for: once,
  as part of an entry point (``DeferredLibrary``);
- functions are compiled for 64-bit integers only, not again for each constant and
  each narrower type that a caller passes (``widen_arguments``);
- groups of arrays are handed on by reference (``references.py``);
- an index is not asked whether it is negative (``indices.py``);
- the garbage collector rests meanwhile.

This leans on parts of Numba that it does not document (a code library's methods, a
dispatcher's ``get_call_template``). Where they are missing, or with the variable
NETSIM_PLAIN_NUMBA=1, everything is compiled as usual: slower, with the same result. So if
what is compiled seems wrong, this module is soon ruled out. ``setup.cfg`` says for which
versions of Numba this has been tested.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from numba import types
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler_lock import global_compiler_lock
from numba.core.registry import cpu_target

from netsim.engine.compiling.indices import never_negative, supported
from netsim.engine.compiling.references import by_reference

NEEDED = (
    "_ensure_finalized",
    "_get_module_for_linking",
    "add_linking_library",
    "finalize",
    "get_pointer_to_function",
    "serialize_using_object_code",
)


class DeferredLibrary(JITCodeLibrary):  # type: ignore[misc] # mypy skips Numba
    """The code of one function, left as it is until it is to run.

    Numba's own library, when another one is linked to it, has that finalized: optimized,
    made into machine code, and copied with everything that was linked to it. While
    ``active``, this one only notes what it is linked to, and fetches that when it is
    finalized itself. Once no longer ``active``, it acts as Numba's own.
    """

    active = False

    def __init__(self, codegen: Any, name: str) -> None:
        super().__init__(codegen, name)
        self._environments: dict[str, Any] = {}

    def _ensure_finalized(self) -> None:
        if not DeferredLibrary.active:
            self._finalize_now()

    def _finalize_now(self) -> None:
        if self._finalized:
            return
        self._linking_libraries = self._all_linked()
        self._shared_module = None
        self.finalize()
        for library in (self, *self._linking_libraries):
            for name, env in getattr(library, "_environments", {}).items():
                self._codegen.set_env(name, env)

    def finalize(self) -> None:
        before = DeferredLibrary.active
        DeferredLibrary.active = True
        try:
            super().finalize()
        finally:
            DeferredLibrary.active = before

    def _all_linked(self) -> list[Any]:
        """What is linked to this one, directly or not, each after all that call it.

        In another order LLVM would leave out functions that are not referred to yet.
        """
        seen: set[int] = set()
        order: list[Any] = []

        def visit(library: Any) -> None:
            if id(library) in seen:
                return
            seen.add(id(library))
            if isinstance(library, DeferredLibrary):
                for callee in library._linking_libraries:
                    visit(callee)
            order.append(library)

        visit(self)
        return order[-2::-1]

    @property
    def codegen(self) -> Any:
        return self._codegen if self._finalized else self

    def set_env(self, name: str, env: Any) -> None:
        """In place of the code generator's: the variable ``name`` has no address yet."""
        self._environments[name] = env

    def get_pointer_to_function(self, name: str) -> int:
        if not self._finalized:
            try:
                self._final_module.get_function(name)
            except NameError:
                return 0  # a function that is called from compiled code only
            self._finalize_now()
        return int(super().get_pointer_to_function(name))

    def serialize_using_object_code(self) -> Any:
        self._finalize_now()
        return super().serialize_using_object_code()


def _supported() -> bool:
    if os.environ.get("NETSIM_PLAIN_NUMBA", "0") not in ("", "0"):
        return False
    codegen = cpu_target.target_context.codegen()
    libraries = getattr(codegen, "_library_class", None) is JITCodeLibrary and all(
        hasattr(JITCodeLibrary, name) for name in NEEDED
    )
    return libraries and supported()


@contextmanager
def deferred() -> Iterator[None]:
    """What is compiled within is optimized as a whole."""
    with global_compiler_lock:
        if not _supported():
            yield
            return
        codegen = cpu_target.target_context.codegen()
        collecting = gc.isenabled()
        gc.disable()
        codegen._library_class = DeferredLibrary
        DeferredLibrary.active = True
        try:
            with never_negative():
                yield
        finally:
            DeferredLibrary.active = False
            codegen._library_class = JITCodeLibrary
            if collecting:
                gc.enable()


def _wide(arg: Any) -> Any:
    """The type to compile for: int64 in place of every integer type that it can hold."""
    arg = types.unliteral(arg)
    narrower = isinstance(arg, types.Integer) and arg != types.uint64
    return types.int64 if narrower else by_reference(arg)


def widen_arguments(dispatcher: Any) -> None:
    """Have a function compiled once for all integers that its callers pass, and for references."""
    template: Callable[..., Any] | None = getattr(dispatcher, "get_call_template", None)
    if template is None or not _supported():
        return

    def wide_template(args: Any, kws: Any) -> Any:
        return template(tuple(map(_wide, args)), {k: _wide(v) for k, v in kws.items()})

    dispatcher.get_call_template = wide_template
