"""Dependencies of the compiled code of one set of plugins and one fabric, and their hash.

Compilation (`specialize.py`) and its cache key use the same `Bindings`, so neither sees anything
that the other does not. They follow names of netsim and of plugins, not names of libraries.

The hash follows names from the entry points: bytecode, constants, and the values of globals,
closures and defaults, at any depth. Comments, docstrings, line numbers and code that no kernel
calls do not count. For a value of an unknown kind, all files that the transports depend on are
hashed, so stale code is never used. Line numbers (`Lines`) are kept separately, to report an
error's current line.
"""

from __future__ import annotations

import dis
import enum
import hashlib
import inspect
import os
import platform
import sys
import sysconfig
import types
from collections.abc import Mapping, Sequence
from functools import cache, cached_property, lru_cache
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from netsim.common.inputs import at_line
from netsim.engine.compiling.cache import Lines, text_of
from netsim.engine.kernels import fields
from netsim.engine.kernels.fields import Declared
from netsim.engine.kernels.layout import record_of
from netsim.engine.kernels.specialization_constants import CONSTANTS
from netsim.errors import InputError

LIBRARIES = {"site-packages", "dist-packages"}  # folders of installed libraries


@cache
def _foreign_roots() -> tuple[str, ...]:
    paths = sysconfig.get_paths()
    return tuple({paths[k] for k in ("stdlib", "platstdlib", "purelib", "platlib")})


@cache
def package_root() -> str:
    """Return the folder of the package."""
    return str(Path(__file__).resolve().parents[2])


@cache
def is_ours(path: str | None) -> bool:
    """Return whether a file's functions are compiled: netsim's and plugins', not libraries'."""
    if path is None or not path.endswith(".py"):
        return False
    real = os.path.realpath(path)
    if real.startswith(package_root()):
        return True
    if LIBRARIES.intersection(Path(real).parts):
        return False
    return not any(real.startswith(root + os.sep) for root in _foreign_roots())


def top_package(name: str) -> str:
    """Return the outermost package of a dotted name."""
    return name.partition(".")[0]


def source_files(plugins: Sequence[types.ModuleType]) -> list[Path]:
    """Return every file that the compiled code of ``plugins`` can depend on: the whole package, and
    all loaded modules outside libraries."""
    tops = {top_package(plugin.__name__) for plugin in plugins}
    files = set(Path(package_root()).rglob("*.py"))
    for module in (*plugins, *sys.modules.values()):
        path = getattr(module, "__file__", None)
        if path is not None and (is_ours(path) or top_package(module.__name__) in tops):
            files.add(Path(path).resolve())
    return sorted(file for file in files if file.is_file())


ENGINE = "netsim.engine."
"""Modules compiled without checks for division by zero, which never occurs in their functions."""

UNITS = ("host_step", "switch_step")
"""Engine functions compiled separately from their callers, which call them through pointers:
editing a transport recompiles the host side, not the switch side or the loop."""

SHARED = ("run_windows", "list_delivered", "note_delivered")
"""Entry points that do not depend on plugins' fields or record sizes, so plugins share them. They
step from record to record by the array's stride, and copy that many bytes."""

SEPARATE = (
    *UNITS,
    "step_all",
    "assist",
    "count_out_of_order",
    "broken",
    "complete_task",
    "close_interval",
    "copy_watched",
)
"""Functions that are not inlined: large ones with several callers, and rarely called ones."""

IN_PLACE = (
    "env_of",
    "queue_env_of",
    "queue_env_at",
    "program_env_of",
    "routing_env_of",
    "plane_env_of",
)
"""Functions that return a tuple of records, as compiled code cannot: inlined as source."""


LOAD_GLOBAL = dis.opmap["LOAD_GLOBAL"]


@lru_cache(maxsize=4096)
def global_names(code: types.CodeType) -> tuple[str, ...]:
    """Return the global names that a function, or one within it, uses."""
    # dis.get_instructions() takes eight times as long, a noticeable delay in each run.
    names, extended = set(), 0
    for operation, low in zip(code.co_code[::2], code.co_code[1::2], strict=True):
        argument = extended | low
        extended = argument << 8 if operation == dis.EXTENDED_ARG else 0
        if operation == LOAD_GLOBAL:
            names.add(code.co_names[argument >> 1])
    within = [constant for constant in code.co_consts if isinstance(constant, types.CodeType)]
    return tuple(sorted(names.union(*map(global_names, within))))


@lru_cache(maxsize=4096)
def _attribute_names(code: types.CodeType) -> frozenset[str]:
    """Return the names that a function, or one within it, may look up in a module or a record."""
    within = [constant for constant in code.co_consts if isinstance(constant, types.CodeType)]
    texts = [constant for constant in code.co_consts if isinstance(constant, str)]
    return frozenset((*code.co_names, *texts)).union(*map(_attribute_names, within))


class Bindings:
    """Engine functions with ``values`` (numbers or functions by name) for its constants.

    ``plugins`` are the plugins' modules. With ``checked``, an index out of bounds is an error.
    """

    def __init__(
        self,
        values: Mapping[str, Any],
        plugins: Sequence[types.ModuleType],
        *,
        checked: bool = False,
    ) -> None:
        self.plugins = plugins
        self.checked = checked
        self._values = {id(CONSTANTS[name]): value for name, value in values.items()}
        self._tops = {"netsim", *(top_package(plugin.__name__) for plugin in plugins)}

    @cached_property
    def place(self) -> str:
        """Hash of the plugins' file names and the features; editing a file does not change it."""
        files = [str(getattr(plugin, "__file__", "")) for plugin in self.plugins]
        values = ((name, self._values.get(id(one))) for name, one in sorted(CONSTANTS.items()))
        features = [f"{name} {value!r}" for name, value in values if isinstance(value, PLAIN)]
        return digest_of(_surroundings(), str(self.checked), *files, *features)

    def of(self, function: types.FunctionType) -> dict[str, Any]:
        """Return the values of a function's global names, without builtins."""
        names = function.__globals__
        found = (name for name in global_names(function.__code__) if name in names)
        return {name: self._bound(names[name]) for name in found}

    def _bound(self, value: Any) -> Any:
        """Return the value that a specialization constant is bound to; any other value as it is."""
        return self._values.get(id(value), value)

    def compiles(self, value: Any) -> bool:
        """Return whether the value is a function that is compiled as part of the engine."""
        return isinstance(value, types.FunctionType) and (
            top_package(value.__module__ or "") in self._tops or is_ours(value.__code__.co_filename)
        )

    def is_unit(self, value: Any) -> bool:
        """Return whether the value is a function that is compiled separately."""
        named = isinstance(value, types.FunctionType) and value.__name__ in UNITS
        return named and value.__module__.startswith(ENGINE)

    def members(self, value: Any, user: types.FunctionType) -> dict[str, Any] | None:
        """Return the members of a helper module that ``user`` may name; None for other values."""
        if not isinstance(value, types.ModuleType) or not is_ours(getattr(value, "__file__", None)):
            return None
        used = _attribute_names(user.__code__)
        members = sorted(vars(value).items())
        found = ((name, member) for name, member in members if name in used and name[:2] != "__")
        return {name: self._bound(member) for name, member in found}

    def options(self, function: types.FunctionType) -> dict[str, Any]:
        """Return Numba's options; outside the engine, they check for division by zero."""
        sure = function.__module__.startswith(ENGINE) and not self.checked
        return {
            "error_model": "numpy" if sure else "python",
            "boundscheck": self.checked or None,
            "forceinline": function.__name__ not in SEPARATE,
            "inline": "always" if function.__name__ in IN_PLACE else "never",
        }


def contents(function: types.FunctionType) -> tuple[object, ...]:
    """Return the contents of a function's closure. Raises InputError for a name without a value."""
    cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
    found = []
    for name, cell in cells:
        try:
            found.append(cell.cell_contents)
        except ValueError:
            raise refused(
                function, f"uses {name} before it has a value", "define it first"
            ) from None
    return tuple(found)


def refused(function: types.FunctionType, what: str, hint: str) -> InputError:
    code = function.__code__
    place = Path(code.co_filename), code.co_firstlineno
    return at_line(*place, f"{function.__name__} {what}, which cannot be compiled", hint)


# --- the hash -------------------------------------------------------------------------------------

MACHINERY = (
    *("compiling/bindings", "compiling/cache", "compiling/deferred", "compiling/groups"),
    *("compiling/instructions", "compiling/kept_functions", "compiling/nonnegative_indices"),
    *("compiling/patches", "compiling/specialize", "compiling/wide_integers"),
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
    """Key of the machine code of a function, its sources, and the units that it calls."""

    key: str
    codes: Codes
    units: tuple[types.FunctionType, ...] = ()

    @property
    def names(self) -> frozenset[str]:
        """Names that the function may look up in a record."""
        return frozenset().union(*map(_attribute_names, self.codes))


def fingerprint_of(
    bindings: Bindings,
    function: types.FunctionType,
    groups: Sequence[Any] = (),
    records: Sequence[np.dtype] = (),
) -> Fingerprint:
    """Return the fingerprint of a function. ``groups`` and ``records`` are its argument types: the
    engine's named tuples and records, and plugins' records, in which only fields that the function
    names count."""
    walk = _CodeWalker(bindings)
    walk.function(function)
    made = Fingerprint("", tuple(walk.codes), tuple(walk.units))
    walk.put("arguments")
    names = made.names
    if function.__name__ in SHARED:
        records = [*map(engine_part, records)]
    for argument in (*groups, *(reduced(record, names) for record in records)):
        walk.value(argument)
    return made._replace(key=digest_of(_surroundings(), *walk.parts))


def digest_of(*texts: str) -> str:
    """Return a hash of texts."""
    return hashlib.sha256("\n".join(texts).encode()).hexdigest()[:20]


def reduced(record: np.dtype, names: frozenset[str]) -> np.dtype:
    """Return a record with only the fields in ``names``, at the same offsets."""
    if record.fields is None:
        return record
    kept = [name for name in record.names or () if name in names]
    return np.dtype(
        {
            "names": kept,
            "formats": [reduced(record.fields[name][0], names) for name in kept],
            "offsets": [record.fields[name][1] for name in kept],
            "itemsize": record.itemsize,
        },
        align=record.isalignedstruct,
    )


def engine_part(record: np.dtype) -> np.dtype:
    """Return a record without the fields of plugins, which follow the engine's."""
    names = record.names
    if names is None:
        return record
    parts = (one for one in _engine_records() if one.names == names[: len(one.names or ())])
    return max(parts, key=lambda one: one.itemsize)


@cache
def _engine_records() -> list[np.dtype]:
    classes = [one for one in vars(fields).values() if isinstance(one, type)]
    return [record_of(one) for one in classes if issubclass(one, Declared)]


def is_group(value: Any) -> bool:
    """Return whether the value is a class of named tuples."""
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
        self.units: list[types.FunctionType] = []
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
        self.parts.append(code_text(code, _is_documented(code, function.__doc__)))
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
        elif self._bindings.is_unit(value):
            self.put("unit", value.__name__)
            self.units += [value] if value not in self.units else []
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
def code_text(code: types.CodeType, documented: bool = False) -> str:
    """Return what a function does and the names it uses, without line numbers."""
    constants = [
        code_text(constant) if isinstance(constant, types.CodeType) else _constant(constant)
        for constant in (("", *code.co_consts[1:]) if documented else code.co_consts)
    ]
    kind = code.co_flags & KINDS
    shape = (code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, kind)
    names = (code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars)
    return repr((code.co_code, code.co_exceptiontable, constants, shape, names))


def _constant(constant: Any) -> str:
    """Return a constant of a function as text; sets are sorted."""
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
