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
from netsim.engine.compiling.bindings import (
    Bindings,
    Codes,
    Fingerprint,
    contents,
    fingerprint_of,
    is_group,
    lines_of,
    present_place,
)
from netsim.engine.compiling.cache import Lines, kind_of, linked, machine_code
from netsim.engine.compiling.declarations import Discipline, Program, Protocol, RoutingAlgorithm
from netsim.engine.compiling.unsupported_code import (
    calls_itself,
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
from netsim.errors import warn_once

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
        self._ready: dict[str, tuple[Callable[..., Any], Lines]] = {}

    def ready(self, arguments: tuple[Any, ...]) -> tuple[Callable[..., Any], Lines]:
        """Return the function for such arguments, loaded or compiled, and its source lines."""
        kind = kind_of(arguments)
        if kind not in self._ready:
            self._ready[kind] = self._loaded(kind) or self._made_once(arguments, kind)
        return self._ready[kind]

    def _made_once(self, arguments: tuple[Any, ...], kind: str) -> tuple[Callable[..., Any], Lines]:
        with cache.compiling(self._folder):
            return self._loaded(kind) or self._made(arguments, kind)

    def _loaded(self, kind: str) -> tuple[Callable[..., Any], Lines] | None:
        """Load the function from disk, if it is there, without Numba."""
        name = self._function.__name__
        if self._folder is None or (found := cache.load(self._folder, name, kind)) is None:
            return None
        code, lines = found
        try:
            return linked(code), lines
        except Exception as error:  # intact, but unusable with this Numba
            warn_once(f"cached code of {name} is not used: {error}")
            cache.remove(self._folder, name, kind)
            return None

    def _made(self, arguments: tuple[Any, ...], kind: str) -> tuple[Callable[..., Any], Lines]:
        import numba

        from netsim.engine.compiling.patches import patched

        lines = lines_of(self._codes)
        specializer = Specializer(self._bindings, self._tag, jit=True)
        errors = self._bindings.options(self._function)
        options = {name: errors[name] for name in ("error_model", "boundscheck")}
        copied = specializer.copy(self._function)
        function = numba.njit(nogil=True, **ENTRY, **options)(copied)
        signature = tuple(numba.typeof(argument) for argument in arguments)
        try:
            with patched():
                function.compile(signature)
        except Exception as error:  # Numba raises errors of many kinds
            raise does_not_compile(error, self._bindings.plugins) from error
        return self._kept(function.overloads[signature], kind, lines) or function, lines

    def _kept(self, result: Any, kind: str, lines: Lines) -> Callable[..., Any] | None:
        """Save compiled code and return it as it is loaded; None if that is impossible."""
        if self._folder is None:
            return None
        name = self._function.__name__
        try:
            code = machine_code(result)
            run = linked(code)
            cache.save(self._folder, name, kind, code, lines)
        except Exception as error:  # a new Numba may fail in any way
            warn_once(f"{name} cannot be cached: {error}")
            return None
        return run


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
        if self.compiled is not None:
            self.run, self._then = self.compiled.ready(args)
        assert self.run is not None
        return self.run

    def place(self, path: str, line: int) -> tuple[str, int]:
        """Return the current line of a line of compiled code."""
        return present_place(path, line, self._then, lines_of(self.codes))

    def __call__(self, *args: Any) -> Any:
        return self.prepare(*args)(*args)


ENTRY_POINTS: tuple[Any, ...] = loop.ENTRY_POINTS

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
        routing: RoutingAlgorithm,
        program: Program,
        constants: Mapping[str, Any],
        *,
        jit: bool = True,
        checked: bool = False,
    ) -> None:
        self._protocol, self._discipline, self._jit = protocol, discipline, jit
        self._routing, self._program = routing, program
        step = coupled_switch.switch_step if constants["COUPLED"] else switch.switch_step
        handlers = {**protocol.handlers, **discipline.handlers, **routing.handlers}
        handlers |= {f"program_{name}": one for name, one in program.handlers.items()}
        values = {**constants, **handlers, "switch_step": step}
        assert values.keys() == CONSTANTS.keys()
        plugins = (*protocol.modules, discipline.module, routing.module, *program.modules)
        self._bindings = Bindings(values, plugins, checked=checked)

    @property
    def key(self) -> str:
        """Key of the machine code; equal keys mean equal code."""
        return self._reached.key

    @cached_property
    def _reached(self) -> Fingerprint:
        protocol, discipline, routing = self._protocol, self._discipline, self._routing
        records = (protocol.tx, protocol.rx, protocol.host, protocol.packet, *protocol.pars)
        records += (discipline.port, discipline.queue, discipline.switch, discipline.par)
        records += (routing.port, routing.switch, routing.row, routing.plane, routing.par)
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
