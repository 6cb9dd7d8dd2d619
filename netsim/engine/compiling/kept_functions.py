"""Numba patch: after an edit, compile only the functions that it changes.

Numba spends most of its time on Python code: it infers types and writes LLVM's code, function by
function. Its output for a unit is kept on disk before optimization, each function under a hash
of all that it uses and of its arguments. When the unit is compiled again, a function with the same
hash is loaded, and only the edited function and its callers are compiled. LLVM then optimizes the
whole, as it would otherwise.
"""

from __future__ import annotations

import itertools
import os
import pickle
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

from llvmlite import binding
from numba import types
from numba.core import typing
from numba.core.bytecode import FunctionIdentity
from numba.core.compiler import CR_FIELDS, CompileResult
from numba.core.environment import Environment, lookup_environment
from numba.core.funcdesc import FunctionDescriptor
from numba.core.types import Type

from netsim.engine.compiling import cache
from netsim.engine.compiling.bindings import (
    Bindings,
    Fingerprint,
    code_text,
    digest_of,
    fingerprint_of,
    lines_of,
)
from netsim.engine.compiling.deferred import DeferredLibrary
from netsim.engine.compiling.groups import Reference

FILE = "functions"


@dataclass(frozen=True)
class Kept:
    """The code of one library before optimization. ``constants`` are Python constants by the names
    of their variables, ``links`` the keys of libraries that it calls. A netsim function also has
    ``symbol``, its type and ``lines``."""

    code: bytes
    constants: dict[str, list[Any]]
    links: tuple[str, ...]
    symbol: str = ""
    result: Type | None = None
    variable: str = ""
    lines: tuple[str, cache.Lines] = ("", ())  # of the code with this digest


@dataclass
class Archive:
    """Functions of a unit: ``kept`` when it was last compiled, and ``used`` now."""

    bindings: Bindings
    tag: str
    kept: dict[str, Kept]
    used: dict[str, Kept] = field(default_factory=dict)
    _libraries: dict[str, Any] = field(default_factory=dict)
    _keys: dict[Any, str] = field(default_factory=dict)
    _fingerprints: dict[FunctionType, Fingerprint] = field(default_factory=dict)
    _texts: dict[int, str] = field(default_factory=dict)

    def lines(self, codes: Sequence[CodeType]) -> cache.Lines:
        """Return the line numbers of functions when they were compiled."""
        then = dict(kept.lines for kept in self.used.values())
        return tuple((then.get(_digest(code)) or lines_of((code,)))[0] for code in codes)

    def attach(self, dispatcher: Any, function: FunctionType) -> None:
        """Let Numba load a function's code from here, and keep it here."""
        dispatcher._cache = _OfFunction(self, dispatcher, function)

    def key(self, function: FunctionType, arguments: Sequence[Type]) -> str:
        """Return the key of a function for such arguments."""
        if function not in self._fingerprints:
            self._fingerprints[function] = fingerprint_of(self.bindings, function)
        made = self._fingerprints[function]
        tag = self.tag if made.units else ""  # in the names of its variables
        return digest_of(made.key, tag, *map(self._text, arguments))

    def _text(self, argument: Any) -> str:
        """Return the same text for a type in every process."""
        if argument._code not in self._texts:
            kind = argument.group if isinstance(argument, Reference) else argument
            text = layout_of(kind) if isinstance(kind, types.BaseNamedTuple) else str(kind)
            self._texts[argument._code] = digest_of(type(argument).__name__, text)
        return self._texts[argument._code]

    def loaded(self, codegen: Any, key: str) -> Any:
        """Return a kept library, with the libraries that it calls."""
        if key not in self._libraries:
            kept = self.used[key] = self.kept[key]
            made = self._libraries[key] = codegen.create_library(kept.symbol or key)
            self._keys[made] = key
            made._final_module = binding.parse_bitcode(kept.code)
            made._final_module.name = made.name
            for name, constants in kept.constants.items():
                made.set_env(name, _environment(name, constants))
            made._linking_libraries = [self.loaded(codegen, link) for link in kept.links]
        return self._libraries[key]

    def keep(self, library: Any, key: str, **more: Any) -> str:
        """Keep a library and the libraries that it calls; return its key."""
        if library in self._keys:
            return self._keys[library]
        self._keys[library] = key
        is_open = isinstance(library, DeferredLibrary) and not library._finalized
        module = library._final_module if is_open else library._get_module_for_linking()
        names = {
            one.name for one in module.global_variables if one.name.startswith(cache.ENVIRONMENT)
        }
        names |= getattr(library, "_environments", {}).keys()
        links = library._linking_libraries if is_open else ()
        self.used[key] = Kept(
            module.as_bitcode(),
            {name: list(getattr(lookup_environment(name), "consts", ())) for name in names},
            tuple(self.keep(link, digest_of(*_defined(link))) for link in links),
            **more,
        )
        return key


def layout_of(group: types.BaseNamedTuple) -> str:
    """Return the names and types of a group's members, in order. Numba's text of a named tuple has
    no names, so that it is the same if a member moves among others of its type."""
    members = zip(group.fields, group.types, strict=True)
    texts = [
        f"{name} {layout_of(kind) if isinstance(kind, types.BaseNamedTuple) else kind}"
        for name, kind in members
    ]
    return "\n".join(texts)


def _defined(library: Any) -> list[str]:
    """Return the names of the functions that a library itself defines."""
    return [one.name for one in library._final_module.functions if not one.is_declaration]


def _digest(code: CodeType) -> str:
    return digest_of(code_text(code))


def _environment(name: str, constants: list[Any]) -> Any:
    """Return the environment of a function with such constants."""
    if (known := lookup_environment(name)) is not None:
        return known
    made = Environment._memo[name] = Environment({})
    made.env_name = name
    made.consts.extend(constants)
    return made


class _OfFunction:
    """Numba's cache of one function."""

    cache_path = ""

    def __init__(self, archive: Archive, dispatcher: Any, function: FunctionType) -> None:
        self._archive, self._dispatcher, self._function = archive, dispatcher, function

    def load_overload(self, arguments: Sequence[Type], context: Any) -> Any:
        """Return the function for such arguments, if it is kept."""
        archive, copied = self._archive, self._dispatcher.py_func
        key = archive.key(self._function, arguments)
        if key not in archive.kept:
            return None
        kept = archive.kept[key]
        library = archive.loaded(context.codegen(), key)
        code = copied.__code__
        described = FunctionDescriptor(
            native=True,
            modname=copied.__module__,
            qualname=copied.__qualname__,
            unique_name=kept.symbol,
            doc="",
            typemap=None,
            restype=kept.result,
            calltypes=None,
            args=code.co_varnames[: code.co_argcount],
            kws=(),
            mangler=lambda *_, **__: kept.symbol,
            argtypes=tuple(arguments),
            inline=self._dispatcher.targetoptions.get("forceinline", False),
            env_name=kept.variable,
            global_dict=copied.__globals__,
        )
        environment = _environment(kept.variable, [])
        values: dict[str, Any] = dict.fromkeys(CR_FIELDS)
        values |= {
            "typing_context": context.typing_context,
            "target_context": context,
            "entry_point": context.get_executable(library, described, environment),
            "objectmode": False,
            "signature": typing.signature(kept.result, *arguments),
            "library": library,
            "fndesc": described,
            "environment": environment,
        }
        return CompileResult(**values)

    def save_overload(self, arguments: Sequence[Type], result: Any) -> None:
        """Keep the function as it was compiled for such arguments."""
        library = cache.code_of_result(result)
        if not isinstance(library, DeferredLibrary) or library._finalized:
            return
        described, code = result.fndesc, self._function.__code__
        self._archive.keep(
            library,
            self._archive.key(self._function, arguments),
            symbol=described.mangled_name,
            result=result.signature.return_type,
            variable=described.env_name,
            lines=(_digest(code), lines_of((code,))),
        )


@contextmanager
def applied() -> Iterator[None]:
    """Name functions differently in different processes."""
    before = FunctionIdentity._unique_ids
    FunctionIdentity._unique_ids = itertools.count(int.from_bytes(os.urandom(7), "big"))
    try:
        yield
    finally:
        FunctionIdentity._unique_ids = before


def read(folder: Path | None, bindings: Bindings, tag: str) -> Archive:
    """Return the archive of a unit in a folder."""
    kept: dict[str, Kept] = {}
    if folder is not None:
        with suppress(Exception):  # there is nothing, or it is damaged
            kept = pickle.loads(cache.content_of(folder / FILE))
    return Archive(bindings, tag, kept)


def write(folder: Path | None, archive: Archive) -> None:
    """Keep the functions that a unit used."""
    if folder is not None:
        with suppress(Exception):  # a full disk; a constant of an unknown kind
            cache.write(folder / FILE, pickle.dumps(archive.used))
