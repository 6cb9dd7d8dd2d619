"""Copy and compile the engine for one set of plugins and one fabric.

The engine's modules are plain Python with unbound constants (`specialization_constants.py`).
Specializing a function copies it and every netsim function that it calls, binds the constants in
the copies, and compiles them with everything inlined. Nothing is copied if the code is in memory or
on disk (`cache.py`).
"""

from __future__ import annotations

import os
import sys
import types
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from netsim.engine.compiling import cache
from netsim.engine.compiling.bindings import Bindings
from netsim.engine.compiling.cache import CodeCache, NotKeptError
from netsim.engine.compiling.code_fingerprint import (
    Codes,
    Fingerprint,
    Lines,
    fingerprint_of,
    is_group,
    lines_of,
    present_place,
)
from netsim.engine.compiling.declarations import Discipline, Program, Protocol
from netsim.engine.compiling.unsupported_code import (
    calls_itself,
    contents,
    does_not_compile,
    refuse_what_cannot_be_carried,
)
from netsim.engine.kernels import (
    coupled_switch,
    layout,
    loop,
    switch,
    trace,
)
from netsim.engine.kernels.specialization_constants import CONSTANTS

# None of these functions makes an array, or is called from C.
ENTRY = {"no_cfunc_wrapper": True, "_nrt": False}
INNER = {**ENTRY, "no_cpython_wrapper": True}


def jit_enabled() -> bool:
    """Return whether code is compiled (not with NUMBA_DISABLE_JIT=1, for debuggers)."""
    return os.environ.get("NUMBA_DISABLE_JIT", "0") in ("", "0")


def _module_of_copies(tag: str) -> str:
    """Return the name of the module of copies, which Numba looks up when it loads their code."""
    name = f"netsim.engine.specialized_{tag}"
    sys.modules.setdefault(name, types.ModuleType(name))
    return name


class Specializer:
    """Copies functions with the names of ``bindings``, compiled with ``jit``. ``tag`` names the
    module of copies, and thus Numba's symbols."""

    def __init__(self, bindings: Bindings, tag: str, *, jit: bool) -> None:
        self._bindings = bindings
        self._module = _module_of_copies(tag)
        self._jit = jit
        self._under_way: list[types.FunctionType] = []
        self._done: dict[int, Callable[..., Any]] = {}

    def copy(self, function: types.FunctionType) -> types.FunctionType:
        """Return a copy of ``function`` that calls specialized copies. Raises InputError, with its
        place, for unsupported code."""
        refuse_what_cannot_be_carried(function)
        names = dict(function.__globals__)
        names["__name__"] = self._module
        for name, value in self._bindings.of(function).items():
            names[name] = self._specialized(value, function)
        cells = tuple(
            types.CellType(self._specialized(value, function)) for value in contents(function)
        )
        copied = types.FunctionType(
            function.__code__, names, function.__name__, function.__defaults__, cells or None
        )
        copied.__module__ = self._module
        copied.__qualname__ = function.__qualname__
        return copied

    def _specialized(self, value: Any, user: types.FunctionType) -> Any:
        """Return the value of a name of ``user`` in its copy."""
        members = self._bindings.members(value, user)
        if members is None:
            return self.inline(value) if self._bindings.compiles(value) else value
        stand_in = types.ModuleType(value.__name__)
        for name, member in members.items():
            setattr(stand_in, name, self._specialized(member, user))
        return stand_in

    def inline(self, function: types.FunctionType) -> Callable[..., Any]:
        """Return the specialized copy, compiled and, unless SEPARATE, inlined into its callers."""
        if function in self._under_way:
            raise calls_itself(function)
        if id(function) not in self._done:
            self._under_way.append(function)
            self._done[id(function)] = self._compiled(self.copy(function), function)
            self._under_way.pop()
        return self._done[id(function)]

    def _compiled(
        self, copied: types.FunctionType, function: types.FunctionType
    ) -> Callable[..., Any]:
        if not self._jit:
            return copied
        from netsim.engine.compiling import instructions, patches

        options = {**INNER, **self._bindings.options(function)}
        form = instructions.INSTRUCTIONS.get(function) or patches.compiled(copied, **options)
        compiled: Callable[..., Any] = form
        return compiled


class Compiled:
    """Compiled code of one entry point, for any argument types. ``folder`` caches it, if given.
    ``codes`` are the current functions."""

    def __init__(
        self,
        function: types.FunctionType,
        bindings: Bindings,
        tag: str,
        folder: Path | None,
        codes: Codes = (),
    ) -> None:
        self._codes = codes
        self._function, self._bindings, self._tag = function, bindings, tag
        self._folder = folder
        self._ready: dict[tuple[Any, ...], tuple[Callable[..., Any], Lines]] = {}

    def ready(self, arguments: tuple[Any, ...]) -> tuple[Callable[..., Any], Lines]:
        """Return the function for such arguments, loaded or compiled, and its source lines."""
        import numba

        signature = tuple(numba.typeof(argument) for argument in arguments)
        if signature not in self._ready:
            self._ready[signature] = self._loaded(signature) or self._made(signature)
        return self._ready[signature]

    def _loaded(self, signature: tuple[Any, ...]) -> tuple[Callable[..., Any], Lines] | None:
        """Load the function from disk, if it is there, without copying sources."""
        if self._folder is None:
            return None
        _module_of_copies(self._tag)
        function = self._dispatcher(self._function)
        kept = CodeCache(self._folder, self._function.__name__, only_load=True)
        function._cache = kept
        try:
            function.compile(signature)
        except NotKeptError:
            return None
        return function, kept.lines

    def _made(self, signature: tuple[Any, ...]) -> tuple[Callable[..., Any], Lines]:
        from netsim.engine.compiling.patches import patched

        specializer = Specializer(self._bindings, self._tag, jit=True)
        function = self._dispatcher(specializer.copy(self._function))
        kept = None
        if self._folder is not None:
            kept = CodeCache(self._folder, self._function.__name__, lines_of(self._codes))
            function._cache = kept
        try:
            with patched():
                function.compile(signature)
        except Exception as error:  # Numba raises errors of many kinds
            raise does_not_compile(error, self._bindings.plugins) from error
        # Another process may have compiled it first: then it was loaded.
        return function, kept.lines if kept is not None else lines_of(self._codes)

    def _dispatcher(self, function: types.FunctionType) -> Any:
        import numba

        errors = self._bindings.options(self._function)
        options = {name: errors[name] for name in ("error_model", "boundscheck")}
        return numba.njit(nogil=True, **ENTRY, **options)(function)


@dataclass
class Entry:
    """An entry point of one engine, called with arguments of fixed types. ``run`` calls it after
    ``prepare``. ``codes`` are its current functions."""

    compiled: Compiled | None
    run: Callable[..., Any] | None = None
    codes: Codes = ()
    _then: Lines = ()

    def prepare(self, *args: Any) -> Callable[..., Any]:
        """Load or compile ``run`` for such arguments."""
        if self.run is None:
            assert self.compiled is not None
            self.run, self._then = self.compiled.ready(args)
        return self.run

    def place(self, path: str, line: int) -> tuple[str, int]:
        """Return the current line of a line of compiled code."""
        return present_place(path, line, self._then, lines_of(self.codes))

    def __call__(self, *args: Any) -> Any:
        return self.prepare(*args)(*args)


ENTRY_POINTS: tuple[Any, ...] = (loop.run_windows, loop.set_up_flows)

LOADED = 16  # most recently used specializations whose code a process keeps

_loaded: OrderedDict[str, tuple[Compiled, ...]] = OrderedDict()


class Code:
    """The specialized entry points of the engine.

    ``constants`` are the features of the fabric and the plugins (`features` in state.py and
    declarations.py). Without ``jit`` the code stays plain Python; with ``checked`` compiled code
    checks array bounds.
    """

    def __init__(
        self,
        protocol: Protocol,
        discipline: Discipline,
        program: Program,
        constants: Mapping[str, Any],
        *,
        jit: bool = True,
        checked: bool = False,
    ) -> None:
        self._protocol, self._discipline, self._jit = protocol, discipline, jit
        self._program = program
        step = coupled_switch.switch_step if constants["COUPLED"] else switch.switch_step
        handlers = {**protocol.handlers, **discipline.handlers}
        handlers |= {f"program_{name}": one for name, one in program.handlers.items()}
        values = {**constants, **handlers, "switch_step": step}
        assert values.keys() == CONSTANTS.keys()
        plugins = (*protocol.modules, discipline.module, *program.modules)
        self._bindings = Bindings(values, plugins, checked=checked)

    @property
    def key(self) -> str:
        """Key of the machine code; equal keys mean equal code."""
        return self._reached.key

    @cached_property
    def _reached(self) -> Fingerprint:
        protocol, discipline = self._protocol, self._discipline
        records = (protocol.tx, protocol.rx, protocol.host, protocol.packet, *protocol.pars)
        records += (discipline.port, discipline.queue, discipline.switch, discipline.par)
        records += (self._program.host, self._program.task, self._program.par)
        return fingerprint_of(self._bindings, ENTRY_POINTS, [*records, *_layouts()])

    def is_kept(self) -> bool:
        """Return whether nothing needs to be compiled."""
        known = not self._jit or self.key in _loaded
        return known or cache.is_kept(self.key, loop.run_windows.__name__)

    def entries(self) -> tuple[Entry, ...]:
        """Return callers of ENTRY_POINTS."""
        if self._jit:
            codes = self._reached.codes
            return tuple(Entry(compiled, codes=codes) for compiled in self._compiled())
        plain = Specializer(self._bindings, "plain", jit=False)
        return tuple(Entry(None, plain.copy(function)) for function in ENTRY_POINTS)

    def _compiled(self) -> tuple[Compiled, ...]:
        key, codes = self._reached
        if key not in _loaded:
            folder = cache.cache_folder(key)
            _loaded[key] = tuple(
                Compiled(function, self._bindings, key, folder, codes) for function in ENTRY_POINTS
            )
        _loaded.move_to_end(key)
        while len(_loaded) > LOADED:
            _loaded.popitem(last=False)
        return _loaded[key]


def _layouts() -> Sequence[Any]:
    """Return the engine's own records and groups of arrays."""
    found = [value for module in (layout, trace) for _, value in sorted(vars(module).items())]
    return [value for value in found if isinstance(value, np.dtype) or is_group(value)]
