"""Copy and compile the engine for one set of plugins and one fabric.

The engine's modules are plain Python with unbound constants (`specialization_constants.py`).
Specializing a function copies it and every netsim function that it calls, binds the constants in
the copies, and compiles them with everything inlined. Nothing is copied if the code is in memory or
on disk (`cache.py`).
"""

from __future__ import annotations

import gc
import os
import signal
import sys
import threading
import types
import warnings
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from ctypes import c_void_p
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from netsim.engine.compiling import cache
from netsim.engine.compiling.bindings import (
    SHARED,
    Bindings,
    Codes,
    Fingerprint,
    contents,
    digest_of,
    engine_part,
    fingerprint_of,
    is_group,
    lines_of,
    present_place,
    reduced,
)
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
from netsim.errors import RunError, warn_once

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
    module of copies, and thus Numba's symbols. An ``archive`` keeps the functions."""

    def __init__(self, bindings: Bindings, tag: str, *, jit: bool, archive: Any = None) -> None:
        self._bindings, self._tag, self._archive = bindings, tag, archive
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
        if self._jit and self._bindings.is_unit(value):
            from netsim.engine.compiling.instructions import unit_call

            return unit_call(value.__name__, self._tag)
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
        form: Callable[..., Any] | None = instructions.INSTRUCTIONS.get(function)
        if form is None:
            form = patches.compiled(copied, **options)
            if self._archive:
                self._archive.attach(form, function)
        return form


class Compiled:
    """Compiled code of a function, for any argument types. ``folder`` caches it, if given.
    ``fingerprint`` names the code and the units that it calls."""

    def __init__(
        self,
        function: types.FunctionType,
        bindings: Bindings,
        fingerprint: Fingerprint,
        folder: Path | None,
    ) -> None:
        self._codes = fingerprint.codes
        self._function, self._bindings, self._tag = function, bindings, fingerprint.key
        self._names, self._folder = fingerprint.names, folder
        self._ready: dict[str, tuple[cache.Loaded, cache.Lines]] = {}

    @property
    def arguments(self) -> tuple[str, ...]:
        """Names of the function's arguments."""
        return arguments_of(self._function)

    @property
    def is_cached(self) -> bool:
        """Return whether its code is shared with other processes."""
        return self._folder is not None

    def is_kept(self) -> bool:
        """Return whether it is probably compiled already, for its usual arguments."""
        return bool(self._ready) or (self.is_cached and cache.is_kept(self._tag))

    def variable_of(self, unit: Compiled) -> str:
        """Return the variable of this code that has the address of a unit."""
        return cache.variable_of(unit._function.__name__, self._tag)

    def ready(self, arguments: tuple[Any, ...]) -> tuple[cache.Loaded, cache.Lines]:
        """Return the code for such arguments, loaded or compiled, and its source lines."""
        is_shared = self._function.__name__ in SHARED
        arguments = tuple(_example(argument, self._names, is_shared) for argument in arguments)
        kind = cache.kind_of(arguments)
        if kind not in self._ready:
            self._ready[kind] = self._loaded(kind) or self._made_once(arguments, kind)
        return self._ready[kind]

    def _made_once(self, arguments: tuple[Any, ...], kind: str) -> tuple[cache.Loaded, cache.Lines]:
        with cache.compiling(self._folder):
            return self._loaded(kind) or self._made(arguments, kind)

    def _loaded(self, kind: str) -> tuple[cache.Loaded, cache.Lines] | None:
        """Load the function from disk, if it is there, without Numba."""
        name = self._function.__name__
        if self._folder is None or (found := cache.load(self._folder, name, kind)) is None:
            return None
        code, lines = found
        try:
            return cache.linked(code), lines
        except Exception as error:  # intact, but unusable with this Numba
            warn_once(f"cached code of {name} is not used: {error}")
            cache.remove(self._folder, name, kind)
            return None

    def _made(self, arguments: tuple[Any, ...], kind: str) -> tuple[cache.Loaded, cache.Lines]:
        import numba

        from netsim.engine.compiling.groups import interface_type
        from netsim.engine.compiling.patches import patched, working

        place = digest_of(self._bindings.place, self._function.__name__)
        folder = self._folder and cache.cache_folder(place)
        kept_functions = working("kept_functions")
        archive = kept_functions and kept_functions.read(folder, self._bindings, self._tag)
        specializer = Specializer(self._bindings, self._tag, jit=True, archive=archive)
        errors = self._bindings.options(self._function)
        options = {name: errors[name] for name in ("error_model", "boundscheck")}
        is_unit = self._bindings.is_unit(self._function)
        copied = specializer.copy(self._function)
        function = numba.njit(nogil=True, **(INNER if is_unit else ENTRY), **options)(copied)
        signature = tuple(interface_type(numba.typeof(argument)) for argument in arguments)
        try:
            with patched():
                function.compile(signature)
                result = function.overloads[signature]
                cache.code_of_result(result).get_pointer_to_function(result.fndesc.llvm_func_name)
        except Exception as error:  # Numba raises errors of many kinds
            raise does_not_compile(error, self._bindings.plugins) from error
        lines = archive.lines(self._codes) if archive else lines_of(self._codes)
        if kept_functions:
            kept_functions.write(folder, archive)
        return self._kept(result, kind, lines) or _loaded_by_numba(result), lines

    def _kept(self, result: Any, kind: str, lines: cache.Lines) -> cache.Loaded | None:
        """Save compiled code and return it as it is loaded; None if that is impossible."""
        name = self._function.__name__
        try:
            code = cache.machine_code(result)
            loaded = cache.linked(code)
            if self._folder is not None:
                cache.save(self._folder, name, kind, code, lines)
        except Exception as error:  # a new Numba may fail in any way
            warn_once(f"{name} cannot be cached: {error}")
            return None
        return loaded


def arguments_of(function: types.FunctionType) -> tuple[str, ...]:
    """Return the names of a function's arguments."""
    return function.__code__.co_varnames[: function.__code__.co_argcount]


def _loaded_by_numba(result: Any) -> cache.Loaded:
    """Return compiled code as Numba loads it."""
    library = cache.code_of_result(result)
    address = library.get_pointer_to_function(result.fndesc.llvm_func_name)
    place = library.codegen._engine.get_global_value_address
    return cache.Loaded(address, result.entry_point, place, result)


def _example(argument: Any, names: frozenset[str], is_shared: bool) -> Any:
    """Return an argument of the type that code is compiled for: its records have only the fields in
    ``names`` and, in shared code, any stride."""
    if isinstance(argument, tuple):
        return type(argument)(*(_example(part, names, is_shared) for part in argument))
    if not isinstance(argument, np.ndarray):
        return int(argument) if isinstance(argument, bool) else argument
    if is_shared and argument.dtype.names is not None:
        return np.zeros(4, reduced(engine_part(argument.dtype), names))[::2]
    return argument.view(reduced(argument.dtype, names))


def _words_of(group: Any) -> list[int]:
    """Return the numbers of a group of arrays, as compiled code reads them (`groups.py`)."""
    words: list[int] = []
    for value in group:
        if isinstance(value, tuple):
            words += _words_of(value)
        elif isinstance(value, np.ndarray):
            place = value.ctypes.data
            words += (place, value.size, value.itemsize, *value.shape, *value.strides)
        else:
            words.append(int(value))
    return words


def _with_addresses(run: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that calls ``run`` with addresses of groups; it keeps their numbers."""
    known: dict[int, tuple[Any, np.ndarray]] = {}

    def call(*arguments: Any) -> Any:
        given, memories = [*arguments], []
        for i, group in enumerate(arguments):
            if isinstance(group, tuple):
                kept = known.get(i)
                if kept is None or kept[0] is not group:
                    kept = known[i] = group, np.array(_words_of(group), np.int64)
                memories.append(kept[1])
                given[i] = kept[1].ctypes.data
        return run(*given)

    return call


Part = tuple[Compiled, tuple[Any, ...]]  # code, with arguments like its callers'


@dataclass
class Entry:
    """An entry point of one engine, called with arguments of fixed types, and the ``units`` that it
    calls. ``run`` calls it after ``prepare``. ``codes`` are the current functions of its parts."""

    compiled: Compiled | None
    run: Callable[..., Any] | None = None
    units: Sequence[Compiled] = ()
    codes: Sequence[Codes] = ()
    _loaded: Sequence[tuple[cache.Loaded, cache.Lines]] = ()

    def parts(self, arguments: Sequence[Any]) -> list[Part]:
        """Return the code that such a call needs, units first. A unit gets the caller's arguments
        by name; others are numbers."""
        if self.compiled is None:
            return []
        given = dict(zip(self.compiled.arguments, arguments, strict=True))
        units = [(one, tuple(given.get(name, 0) for name in one.arguments)) for one in self.units]
        return [*units, (self.compiled, tuple(arguments))]

    def prepare(self, *args: Any) -> Callable[..., Any]:
        """Load or compile ``run`` for such arguments."""
        if parts := self.parts(args):
            self._loaded = [part.ready(arguments) for part, arguments in parts]
            *units, (caller, _) = self._loaded
            for unit, (loaded, _) in zip(self.units, units, strict=True):
                address = caller.place(parts[-1][0].variable_of(unit))
                assert address, "a unit's variable is missing"
                variable = c_void_p.from_address(address)
                if variable.value not in (None, loaded.address):  # loaded by Numba, which has one
                    raise RunError("code that is not cached serves one kind of run per process")
                variable.value = loaded.address
            self.run = _with_addresses(caller.run)
        assert self.run is not None
        return self.run

    def place(self, path: str, line: int) -> tuple[str, int]:
        """Return the current line of a line of compiled code."""
        for now, (_, then) in zip(self.codes, self._loaded, strict=False):
            path, line = present_place(path, line, then, lines_of(now))
        return path, line

    def __call__(self, *args: Any) -> Any:
        return self.prepare(*args)(*args)


def prepare(*calls: tuple[Entry, Sequence[Any]]) -> None:
    """Load or compile entry points for such arguments, with the help of another process."""
    parts = [part for entry, arguments in calls for part in entry.parts(arguments)]
    missing = [part for part in parts if not part[0].is_kept()]
    with ExitStack() as stack:
        if len(missing) > 1 and all(part.is_cached for part, _ in missing) and _may_fork():
            from netsim.engine.compiling.patches import working

            working("kept_functions")  # imported before the fork
            stack.enter_context(in_background(lambda: _compile_from_the_end(missing)))
        for entry, arguments in calls:
            entry.prepare(*arguments)


def _compile_from_the_end(parts: Sequence[Part]) -> None:
    for part, arguments in reversed(parts):
        part.ready(arguments)


_is_background = False


@contextmanager
def in_background(compile_code: Callable[[], object]) -> Iterator[None]:
    """Call a function in another process, if a core is free, until the block ends. That process
    puts its code on disk; the caller compiles the rest, and reports errors."""
    global _is_background  # noqa: PLW0603
    child = None
    if _may_fork():
        # OSError: there is too little memory for a second process.
        with warnings.catch_warnings(), suppress(OSError):
            warnings.simplefilter("ignore", DeprecationWarning)  # threads, unused there
            child = os.fork()
    if child == 0:
        _is_background = True
        # Memory of an old engine is not mapped here (MADV_DONTFORK). Collecting the engine would
        # unmap whatever is at its addresses now.
        gc.freeze()
        with suppress(BaseException):
            os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
            compile_code()
        os._exit(0)
    try:
        yield
    finally:
        if child is not None:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)


def _may_fork() -> bool:
    """Return whether a second process would have a core; on macOS, a forked one may crash."""
    if _is_background or threading.current_thread() is not threading.main_thread():
        return False
    return sys.platform == "linux" and len(os.sched_getaffinity(0)) > 1


ENTRY_POINTS: tuple[Any, ...] = loop.ENTRY_POINTS
RUN, SET_UP, *OF_CUT = ENTRY_POINTS  # every run needs the first two

LOADED = 16  # most recently used specializations whose code a process keeps

_loaded: OrderedDict[str, dict[str, Compiled]] = OrderedDict()


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
        self._jit = jit
        step = coupled_switch.switch_step if constants["COUPLED"] else switch.switch_step
        handlers = {**protocol.handlers, **discipline.handlers, **routing.handlers}
        handlers |= {f"program_{name}": one for name, one in program.handlers.items()}
        values = {**constants, **handlers, "switch_step": step}
        assert values.keys() == CONSTANTS.keys()
        plugins = (*protocol.modules, discipline.module, routing.module, *program.modules)
        self._bindings = Bindings(values, plugins, checked=checked)
        self._records = {
            "hosts": (
                *(protocol.tx, protocol.rx, protocol.host, *protocol.pars),
                *(program.host, program.task, program.par),
            ),
            "links": (
                *(discipline.port, discipline.queue, discipline.switch, discipline.par),
                *(routing.port, routing.switch, routing.row, routing.plane, routing.par),
                protocol.packet,
            ),
        }
        self._fingerprints: dict[types.FunctionType, Fingerprint] = {}

    @cached_property
    def key(self) -> str:
        """Key of the machine code; equal keys mean equal code."""
        return digest_of(*self.keys)

    @cached_property
    def keys(self) -> list[str]:
        """Keys of the code that every run needs: to set up flows and to simulate."""
        return [self._of(part).key for part in (RUN, *self._of(RUN).units, SET_UP)]

    def _of(self, function: types.FunctionType) -> Fingerprint:
        if function not in self._fingerprints:
            records = chain(*(self._records.get(name, ()) for name in arguments_of(function)))
            made = fingerprint_of(self._bindings, function, _layouts(), [*records])
            self._fingerprints[function] = made
        return self._fingerprints[function]

    def is_kept(self) -> bool:
        """Return whether nothing needs to be compiled."""
        known = not self._jit or self.key in _loaded
        return known or all(map(cache.is_kept, self.keys))

    def entries(self, functions: Sequence[Any]) -> tuple[Entry, ...]:
        """Return callers of some of the engine's entry points."""
        if not self._jit:
            plain = Specializer(self._bindings, "plain", jit=False)
            return tuple(Entry(None, plain.copy(function)) for function in functions)
        found = []
        for function in functions:
            parts = [*self._of(function).units, function]
            *units, own = map(self._compiled, parts)
            found.append(Entry(own, units=units, codes=[self._of(part).codes for part in parts]))
        _loaded.move_to_end(self.key)
        while len(_loaded) > LOADED:
            _loaded.popitem(last=False)
        return tuple(found)

    def _compiled(self, function: types.FunctionType) -> Compiled:
        """Return code of this specialization only: it has variables for the units that it calls."""
        fingerprint, own = self._of(function), _loaded.setdefault(self.key, {})
        if fingerprint.key not in own:
            folder = cache.cache_folder(fingerprint.key)
            own[fingerprint.key] = Compiled(function, self._bindings, fingerprint, folder)
        return own[fingerprint.key]


def _layouts() -> Sequence[Any]:
    """Return the engine's own records and groups of arrays."""
    found = [value for module in (layout, trace) for _, value in sorted(vars(module).items())]
    return [value for value in found if isinstance(value, np.dtype) or is_group(value)]
