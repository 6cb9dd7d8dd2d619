"""A hash of everything that the machine code of one specialization depends on.

Names are followed from the entry points as in compilation (`bindings.py`): bytecode, constants, and
the values of globals, closures and defaults, at any depth. Comments, docstrings, line numbers and
code that no kernel calls do not count. For a value of an unknown kind, all files that the
transports depend on are hashed, so nothing is ever stale. Line numbers (`Lines`) are kept
separately, to report an error's current line.
"""

from __future__ import annotations

import dis
import enum
import hashlib
import inspect
import os
import platform
import sys
import types
from collections.abc import Iterable, Sequence
from functools import cache, lru_cache
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from netsim.engine.compiling.bindings import Bindings, is_ours, source_files, top_package
from netsim.engine.compiling.cache import Lines, text_of
from netsim.engine.compiling.unsupported_code import contents

MACHINERY = (
    *("compiling/bindings", "compiling/cache", "compiling/deferred", "compiling/code_fingerprint"),
    *("compiling/nonnegative_indices", "compiling/pass_by_reference", "compiling/patches"),
    *("compiling/specialize", "compiling/instructions"),
)
"""Modules of the engine that decide how code is compiled and cached."""

DECISIVE_VARIABLES = (
    *("NUMBA_BOUNDSCHECK", "NUMBA_OPT", "NUMBA_CPU_NAME", "NUMBA_CPU_FEATURES", "NUMBA_ENABLE_AVX"),
    "NETSIM_PLAIN_NUMBA",
)
"""Environment variables that change machine code."""

KINDS = inspect.CO_VARARGS | inspect.CO_VARKEYWORDS | inspect.CO_GENERATOR | inspect.CO_COROUTINE
"""Flags for kinds of functions. (Numba changes other flags under a profiler.)"""

PLAIN = (type(None), bool, int, float, complex, str, bytes, type(...), range, slice)

Codes = tuple[types.CodeType, ...]


class Fingerprint(NamedTuple):
    """Key of the machine code of some sources, and their line numbers."""

    key: str
    codes: Codes


def fingerprint_of(
    bindings: Bindings, entries: Iterable[types.FunctionType], arguments: Sequence[Any]
) -> Fingerprint:
    """Return the fingerprint of ``entries``. ``arguments`` are the types of their arguments:
    records (dtypes) and named tuples."""
    walk = _CodeWalker(bindings)
    walk.put("arguments")
    for argument in arguments:
        walk.value(argument)
    for entry in entries:
        walk.function(entry)
    digest = hashlib.sha256(_surroundings().encode())
    digest.update("\n".join(walk.parts).encode())
    return Fingerprint(digest.hexdigest()[:20], tuple(walk.codes))


def is_group(value: Any) -> bool:
    """Return whether it is a class of named tuples."""
    return isinstance(value, type) and issubclass(value, tuple) and hasattr(value, "_fields")


def lines_of(codes: Codes) -> Lines:
    """Return the line numbers of functions."""
    return tuple(
        (
            code.co_filename,
            tuple(line for begin, end, line in code.co_lines() for _ in range(begin, end, 2)),
        )
        for code in codes
    )


def present_place(path: str, line: int, then: Lines, now: Lines) -> tuple[str, int]:
    """Return the current line for a compiled line; both versions have the same key."""
    for (old_path, old), (new_path, new) in zip(then, now, strict=True):
        if old_path == path and line in old:
            return new_path, new[old.index(line)] or line
    return path, line


class _CodeWalker:
    """Walks through functions and values and hashes what it finds."""

    def __init__(self, bindings: Bindings) -> None:
        self.parts: list[str] = []
        self.codes: list[types.CodeType] = []
        self._bindings = bindings
        self._seen: dict[int, int] = {}
        self._kept: list[Any] = []  # so that no two objects share an id

    def put(self, *parts: object) -> None:
        """Hash some parts."""
        self.parts.append(repr(parts))

    def function(self, function: types.FunctionType) -> None:
        """Hash a compiled function and everything it refers to."""
        if self._known(function):
            return
        code, bindings = function.__code__, self._bindings
        self.put("function", function.__name__, sorted(bindings.options(function).items()))
        self.parts.append(_content(code, _is_documented(code, function.__doc__)))
        self.codes.append(code)
        for what in (function.__defaults__, function.__kwdefaults__):
            self.value(what)
        for value in contents(function):
            self._named(value, function)
        for name, value in bindings.of(function).items():
            self.put("name", name)
            self._named(value, function)

    def _named(self, value: Any, user: types.FunctionType) -> None:
        """Hash the value of a name in the function ``user``."""
        members = self._bindings.members(value, user)
        if members is None:
            self.value(value)
            return
        self.put("module", len(members))
        for name, member in members.items():
            self.put("member", name)
            self._named(member, user)

    def value(self, value: Any) -> None:
        """Hash a value by its content."""
        if isinstance(value, enum.Enum):
            self.put("member", type(value).__qualname__, type(value).__mro__[1:], value.name)
            self.value(value.value)
        elif isinstance(value, PLAIN):
            self.put(type(value).__name__, value)
        elif isinstance(value, np.dtype):
            self.put("dtype", text_of(value))
        elif isinstance(value, (np.ndarray, np.generic)) and not value.dtype.hasobject:
            order = np.asarray(value).flags
            self.put("array", value.dtype, value.shape, order.c_contiguous, order.f_contiguous)
            self.put(hashlib.sha256(value.tobytes()).hexdigest())
        elif isinstance(value, (tuple, list)):
            self.put(type(value).__qualname__, getattr(value, "_fields", None), len(value))
            if isinstance(value, tuple) or not self._known(value):
                for item in value:
                    self.value(item)
        elif isinstance(value, dict):
            self.put("dict", len(value))
            if not self._known(value):
                self.value((*value.items(),))
        elif self._bindings.compiles(value):
            self.function(value)
        elif is_group(value):
            self.put("named tuple", value.__qualname__, value._fields)
        elif isinstance(value, type) and issubclass(value, enum.Enum):
            self.value([*value])
        else:
            self._other(value)

    def _other(self, value: Any) -> None:
        """Hash a library's object by its version, or an unknown value by all source files."""
        module = value.__name__ if isinstance(value, types.ModuleType) else _module_of(value)
        found = sys.modules.get(module) if isinstance(module, str) else None
        name = getattr(value, "__qualname__", getattr(value, "__name__", None))
        if found is None or name is None or is_ours(getattr(found, "__file__", None)):
            self.put("not understood", type(value).__qualname__, name)
            self._everything()
        else:
            top = sys.modules.get(top_package(found.__name__))
            self.put("of a library", found.__name__, name, getattr(top, "__version__", None))

    def _everything(self) -> None:
        if not self._known(self._bindings):
            for path in source_files(self._bindings.plugins):
                self.put(str(path), _sha256(path))

    def _known(self, value: Any) -> bool:
        """Return whether this object was hashed before; if so, hash its number only."""
        number = self._seen.setdefault(id(value), len(self._seen))
        if number == len(self._kept):
            self._kept.append(value)
            return False
        self.put("number", number)
        return True


def _module_of(value: Any) -> str | None:
    """Return the module of a function or class; NumPy for its functions."""
    if isinstance(value, np.ufunc):
        return "numpy"
    return getattr(value, "__module__", None)


@lru_cache(maxsize=4096)
def _is_documented(code: types.CodeType, text: str | None) -> bool:
    """Return whether the first constant of a function is only its docstring, the ``text``."""
    if not (isinstance(text, str) and text in code.co_consts[:1]):
        return False
    loads = zip(code.co_code[::2], code.co_code[1::2], strict=True)
    return (dis.opmap["LOAD_CONST"], 0) not in loads


@lru_cache(maxsize=4096)
def _content(code: types.CodeType, documented: bool = False) -> str:
    """Return what a function does and the names it uses, without line numbers."""
    constants = [
        _content(constant) if isinstance(constant, types.CodeType) else _constant(constant)
        for constant in (("", *code.co_consts[1:]) if documented else code.co_consts)
    ]
    kind = code.co_flags & KINDS
    shape = (code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, kind)
    names = (code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars)
    return repr((code.co_code, code.co_exceptiontable, constants, shape, names))


def _constant(constant: Any) -> str:
    """Return a constant of a function in words; sets are sorted."""
    if isinstance(constant, frozenset):
        return f"frozenset {sorted(map(_constant, constant))}"
    if isinstance(constant, tuple):
        return f"tuple {[_constant(item) for item in constant]}"
    return repr(constant)


@cache
def _machinery() -> str:
    """Return the compiler, its options and the machine."""
    versions = (*map(version, ("numba", "llvmlite", "numpy")), sys.version)
    return " ".join((*versions, platform.machine(), *_SOURCES))


def _surroundings() -> str:
    variables = [os.environ.get(name, "") for name in DECISIVE_VARIABLES]
    return repr((_machinery(), variables))


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


_SOURCES = [_sha256(Path(__file__).parents[1] / f"{name}.py") for name in MACHINERY]
"""Hashes taken on import: files may be edited during a long run."""
