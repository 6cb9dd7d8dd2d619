"""Numba patch: optimize functions once, as part of an entry point.

Numba optimizes and assembles every function with all its callees, again for each caller. The
engine's functions are inlined into two entry points, so nearly all of that is thrown away. A
`DeferredLibrary` waits until its address is needed.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from numba.core.codegen import JITCodeLibrary
from numba.core.registry import cpu_target


class DeferredLibrary(JITCodeLibrary):  # type: ignore[misc] # mypy skips Numba
    """The code of one function, left unoptimized until it is run.

    Numba's own library finalizes every linked library: it optimizes it, makes machine code, and
    copies it with all its links. While ``active``, this one only records its links and resolves
    them when it is finalized itself.
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
        """Return all libraries linked to this one, directly or not, each after its callers. In
        another order LLVM would drop functions that are not referred to yet."""
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
        """Record the variable ``name``, which has no address yet."""
        self._environments[name] = env

    def get_pointer_to_function(self, name: str) -> int:
        if not self._finalized:
            try:
                self._final_module.get_function(name)
            except NameError:
                return 0  # a function called from compiled code only
            self._finalize_now()
        return int(super().get_pointer_to_function(name))

    def serialize_using_object_code(self) -> Any:
        self._finalize_now()
        return super().serialize_using_object_code()


@contextmanager
def applied() -> Iterator[None]:
    """Optimize code compiled in this context as a whole, with garbage collection off."""
    codegen = cpu_target.target_context.codegen()
    collecting = gc.isenabled()
    gc.disable()
    codegen._library_class = DeferredLibrary
    DeferredLibrary.active = True
    try:
        yield
    finally:
        DeferredLibrary.active = False
        codegen._library_class = JITCodeLibrary
        if collecting:
            gc.enable()
