"""Spare Numba the optimising of every function by itself.

Numba optimises each compiled function together with all that it calls, and makes
machine code of it, before it goes on to the caller, which does so again. Our
functions are all inlined into a few entry points, so nearly all of that work is thrown
away. Within ``deferred()`` a function's code is optimised and made executable only
when somebody asks for its address: once, in the entry point.

This touches three methods of Numba's code library, which are not documented. If they
are not there, or look different, everything works as without this module, but slower.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any


@cache
def _library_class() -> Any:
    from numba.core.codegen import JITCodeLibrary

    class DeferredLibrary(JITCodeLibrary):  # type: ignore[misc]
        """A library that stays unoptimised until it is to run."""

        def _ensure_finalized(self) -> None:
            """Asked for by callers that want to link; what they need is there already."""

        def _closure(self) -> list[Any]:
            """All libraries linked to this one, directly or not, each after those that call it.

            LLVM leaves out a function that nothing linked before refers to.
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

        def add_linking_library(self, library: Any) -> None:
            if not isinstance(library, DeferredLibrary):
                library._ensure_finalized()
            self._linking_libraries.append(library)

        @property
        def codegen(self) -> Any:
            return self._codegen if self._finalized else self

        def set_env(self, name: str, env: Any) -> None:
            """Asked for when a function is compiled; possible when its code has an address."""
            self.__dict__.setdefault("_environments", {})[name] = env

        def _finalize_now(self) -> None:
            if not self._finalized:
                self._linking_libraries = self._closure()
                self.finalize()
                for library in [self, *self._linking_libraries]:
                    for name, env in library.__dict__.get("_environments", {}).items():
                        self._codegen.set_env(name, env)

        def get_pointer_to_function(self, name: str) -> int:
            if not self._finalized:
                try:
                    self._final_module.get_function(name)
                except NameError:
                    return 0
                self._finalize_now()
            return int(super().get_pointer_to_function(name))

        def serialize_using_object_code(self) -> Any:
            self._finalize_now()
            return super().serialize_using_object_code()

    return DeferredLibrary


@contextmanager
def deferred() -> Iterator[None]:
    from numba.core.compiler_lock import global_compiler_lock
    from numba.core.registry import cpu_target

    with global_compiler_lock:
        codegen = cpu_target.target_context.codegen()
        before = codegen._library_class
        codegen._library_class = _library_class()
        try:
            yield
        finally:
            codegen._library_class = before
