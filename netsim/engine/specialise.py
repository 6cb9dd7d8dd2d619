"""Compile the engine for one transport and one fabric.

The engine's modules are plain Python. Names that are annotated but not assigned in
them (``on_data: Callable``, ``N_CLASSES: int``) are holes. Specialising a function
makes a copy of it, and of every function of ours that it calls, whose global
names see the holes filled, and compiles the copies with everything inlined: a
handler call costs nothing, and a feature that is off leaves no trace.

Machine code is cached on disk in a folder named by a hash of every source file that
can influence it (the whole package and all files that a plugin imports), so an edit
anywhere takes effect and nothing is ever stale. Numba's own check looks at the
outermost file only.
"""

from __future__ import annotations

import dis
import hashlib
import inspect
import os
import shutil
import sys
import sysconfig
import types
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from netsim.errors import InputError

# None of our functions makes an array, or is called from C.
ENTRY = {"error_model": "numpy", "no_cfunc_wrapper": True, "_nrt": False}
INNER = {**ENTRY, "no_cpython_wrapper": True}

SEPARATE = ("host_step", "switch_step", "step_parallel")
"""Large functions that are called from two places and gain nothing from being inlined."""

PARALLEL = ("step_parallel",)
"""The functions with a parallel loop, which Numba takes a longer way through."""

KEPT_CACHES = 48
"""Cache folders of the most recently used source versions that are kept."""


def jit_enabled() -> bool:
    """False if the user wants plain Python, for a debugger (NUMBA_DISABLE_JIT=1)."""
    return os.environ.get("NUMBA_DISABLE_JIT", "0") in ("", "0")


@cache
def _foreign_roots() -> tuple[str, ...]:
    paths = sysconfig.get_paths()
    return tuple({paths[k] for k in ("stdlib", "platstdlib", "purelib", "platlib")})


@cache
def _package_root() -> str:
    return str(Path(__file__).resolve().parent.parent)


def _is_ours(path: str | None) -> bool:
    """Files whose functions are compiled: the package's and plugins', not libraries'."""
    if path is None or not path.endswith(".py"):
        return False
    real = os.path.realpath(path)
    if real.startswith(_package_root()):
        return True
    return not any(real.startswith(root + os.sep) for root in _foreign_roots())


def _top(name: str) -> str:
    """The outermost package of a dotted name."""
    return name.partition(".")[0]


def _compiles(value: Any, plugins: Sequence[types.ModuleType]) -> bool:
    if not isinstance(value, types.FunctionType):
        return False
    if _top(value.__module__ or "") in ("netsim", *(_top(plugin.__name__) for plugin in plugins)):
        return True
    return _is_ours(inspect.getsourcefile(value))


def _global_names(function: types.FunctionType) -> set[str]:
    """The names that a function looks up among its module's globals."""
    loads = dis.get_instructions(function)
    return {str(load.argval) for load in loads if load.opname == "LOAD_GLOBAL"}


class Specialiser:
    """Makes compiled copies of functions with the holes of the engine filled.

    ``holes`` maps names to constants or plain functions; ``tag`` distinguishes this
    combination in module names, which Numba builds symbol names from. Without ``jit``
    the copies stay plain Python.
    """

    def __init__(
        self,
        holes: Mapping[str, Any],
        plugins: Sequence[types.ModuleType],
        tag: str,
        *,
        jit: bool,
    ) -> None:
        self._jit = jit
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
        copied = types.FunctionType(
            function.__code__, names, function.__name__, function.__defaults__
        )
        copied.__module__ = module
        copied.__qualname__ = function.__qualname__
        setattr(alias, function.__name__, copied)
        return copied

    def _specialised(self, value: Any, user: types.FunctionType) -> Any:
        """What a global name of ``user`` stands for in its copy."""
        if isinstance(value, types.ModuleType) and _is_ours(getattr(value, "__file__", None)):
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
                "forceinline": function.__name__ not in SEPARATE,
                "parallel": function.__name__ in PARALLEL,
            }
            self._done[id(function)] = self._compile(copied, **options)
        return self._done[id(function)]

    def entry(self, function: Callable[..., Any], cache_root: Path | None) -> Callable[..., Any]:
        """The specialised copy as a compiled entry point, cached below ``cache_root``."""
        assert isinstance(function, types.FunctionType)
        copied = self.copy(function)
        if not self._jit:
            return copied
        import numba

        from netsim.engine.compiling import deferred

        before = numba.config.CACHE_DIR
        if cache_root is not None:
            numba.config.CACHE_DIR = str(cache_root / copied.__module__)
        try:
            compiled = numba.njit(nogil=True, cache=cache_root is not None, **ENTRY)(copied)
        finally:
            numba.config.CACHE_DIR = before

        def call(*args: Any) -> Any:
            if not compiled.signatures:
                try:
                    with deferred():
                        compiled.compile(tuple(numba.typeof(arg) for arg in args))
                except Exception as error:  # Numba lets errors of many kinds through
                    raise self._does_not_compile(error) from error
            return compiled(*args)

        return call

    def _does_not_compile(self, error: Exception) -> InputError:
        """What a plugin's author needs of Numba's message: what is wrong, and in which line."""
        if isinstance(error, KeyError):
            error = RuntimeError(f"the record has no field {error} (is it declared?)")
        lines = [line.strip() for line in str(error).splitlines()]
        said = [line for line in lines if line and not line.startswith(("During:", "<source"))]
        where = [line for line in said if line.startswith("File ")]
        paths = [plugin.__file__ or "" for plugin in self._plugins]
        mentioned = [path for path in paths if any(Path(path).name in line for line in where)]
        path = (mentioned or paths)[0]
        where = [line for line in where if Path(path).name in line] or where
        what = [line for line in said if not line.startswith(("File ", "- ", "Failed in"))]
        return InputError(
            f"does not compile: {' '.join(what[:3])} {where[-1] if where else ''}".rstrip(),
            file=path,
            hint="handlers are compiled by Numba: numbers, records and the functions of "
            "netsim.transport, and helpers imported by name (from helper import f)",
        )

    def _compile(self, function: types.FunctionType, **options: Any) -> Callable[..., Any]:
        if not self._jit:
            return function
        import numba

        from netsim.engine.compiling import widen_arguments

        compiled: Callable[..., Any] = numba.njit(**options)(function)
        widen_arguments(compiled)
        return compiled


def source_files(plugins: Sequence[types.ModuleType]) -> list[Path]:
    """Every file that the compiled code of ``plugins`` can depend on.

    The whole package, and for a plugin all modules reachable from it through its
    globals, at any depth, that are not part of an installed library.
    """
    root = Path(_package_root())
    files = set(root.rglob("*.py"))
    seen: set[str] = set()
    queue = list(plugins)
    tops = {_top(plugin.__name__) for plugin in plugins}
    while queue:
        module = queue.pop()
        if module.__name__ in seen:
            continue
        seen.add(module.__name__)
        path = getattr(module, "__file__", None)
        if path is not None and path.endswith(".py"):
            files.add(Path(path).resolve())
        for value in list(vars(module).values()):
            name = value.__name__ if isinstance(value, types.ModuleType) else None
            name = name or getattr(value, "__module__", None)
            found = sys.modules.get(name) if isinstance(name, str) else None
            if found is None:
                continue
            if _top(found.__name__) in tops or _is_ours(getattr(found, "__file__", None)):
                queue.append(found)
    return sorted(files)


def source_hash(plugins: Sequence[types.ModuleType]) -> str:
    """Hash of everything that decides what machine code comes out, but the fabric's features."""
    import numba

    digest = hashlib.sha256()
    digest.update(f"{numba.__version__} {sys.version}".encode())
    digest.update(os.environ.get("NUMBA_BOUNDSCHECK", "").encode())
    for path in source_files(plugins):
        digest.update(str(path).encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()[:20]


def cache_root(plugins: Sequence[types.ModuleType]) -> Path | None:
    """Folder for compiled code of the present sources, made if need be; None if none is writable.

    ``NETSIM_CACHE_DIR`` names another place than the user's cache directory.
    """
    base = os.environ.get("NETSIM_CACHE_DIR")
    if base is None:
        home = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
        base = str(Path(home) / "netsim")
    root = Path(base)
    try:
        folder = root / source_hash(plugins)
        folder.mkdir(parents=True, exist_ok=True)
        os.utime(folder)
        _prune(root, folder)
    except OSError:
        return None
    return folder


def _prune(root: Path, current: Path) -> None:
    """Remove the folders of sources that have not been used for longest."""
    folders = [p for p in root.iterdir() if p.is_dir() and p != current]
    folders.sort(key=lambda p: p.stat().st_mtime, reverse=True)
    for old in folders[KEPT_CACHES - 1 :]:
        shutil.rmtree(old, ignore_errors=True)
