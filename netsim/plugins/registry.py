"""Find transports, topologies, traffic patterns, queue disciplines and routing algorithms.

A plugin is a Python module with a docstring (its first line is the summary), a list `PARAMS` of
`netsim.params.Param`, and optionally `PRESETS`, a dict from preset names to dicts of
written values. A topology has `build(params)`, a traffic pattern `flows(params, network, rng,
context)`. The engine checks the requirements of the other kinds.

A plugin is named by

- a built-in's name, which is its file's name ("ndp");
- an entry point installed in the group netsim.transports, netsim.topologies,
  netsim.traffic, netsim.queues or netsim.routing_algorithms;
- a path to a file, ending in .py, relative to the experiment ("./mine.py"). The file
  may import modules next to it.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.machinery
import importlib.metadata
import importlib.util
import linecache
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

from netsim.common.discovery import FOLDERS, modules, summary
from netsim.common.inputs import read_bytes
from netsim.errors import TRUST, InputError, did_you_mean
from netsim.frozen import frozen
from netsim.params import Param, Params
from netsim.plugins import declarations
from netsim.units import shortened, written

KINDS = tuple(FOLDERS)
_NOUNS = {"traffic": "traffic pattern", "queue": "queue discipline", "routing": "routing algorithm"}
REQUIRED_FUNCTION = {"topology": "build", "traffic": "flows"}


@frozen
class Plugin:
    """A loaded plugin: its module and declarations."""

    kind: str
    name: str
    module: ModuleType
    path: Path
    params: tuple[Param, ...]
    presets: Mapping[str, Mapping[str, object]]
    summary: str

    def param(self, name: str) -> Param | None:
        """Return the parameter of that name, or None."""
        return next((param for param in self.params if param.name == name), None)


@frozen
class PluginSpec:
    """A plugin with its parameters in the simulator's units (ps, bytes, bit/s)."""

    plugin: Plugin
    params: Params
    preset: str | None = None

    @property
    def name(self) -> str:
        """As written in an experiment: "ndp", "dcqcn:paper-40g", "./mine.py"."""
        return f"{self.plugin.name}:{self.preset}" if self.preset else self.plugin.name

    @property
    def module(self) -> ModuleType:
        return self.plugin.module

    @property
    def parts(self) -> tuple[PluginSpec, ...]:
        """The plugins that its parameters name, and the plugins that these name."""
        values = self.params.values()
        jobs = (use for value in values if isinstance(value, dict) for use in value.values())
        own = [value for value in (*values, *jobs) if isinstance(value, PluginSpec)]
        return tuple(use for one in own for use in (one, *one.parts))


def find(kind: str, name: str, *, relative_to: Path | None = None) -> Plugin:
    """Return the plugin of that kind and name; `InputError` if unknown or broken. `name` has no
    preset (see `split_preset`). A path is relative to `relative_to` or the working directory."""
    if name.endswith(".py"):
        path = ((relative_to or Path()) / name).resolve()
        return _inspect(kind, name, load(path, shown=name))
    built_in = modules(FOLDERS[kind])
    if name in built_in:
        with blamed(f'cannot load the plugin "{name}"', name):
            module = importlib.import_module(built_in[name])
        return _inspect(kind, name, module)
    entry_point = _entry_points(kind).get(name)
    if entry_point is not None:
        with blamed(f'cannot load the plugin "{name}"', name):
            module = entry_point.load()
        if not isinstance(module, ModuleType):
            raise InputError(
                f'the installed {_noun(kind)} "{name}" is not a module',
                hint="its entry point must name only the module",
            )
        return _inspect(kind, name, module)
    hint = did_you_mean(name, names(kind))
    if Path(name).name != name:
        hint = "the path of a plugin must end in .py"
    raise InputError(f"unknown {_noun(kind)} {written(name)}", hint=hint, code="unknown_value")


def names(kind: str) -> list[str]:
    """Return the sorted names of all built-in and installed plugins of a kind."""
    return sorted({*modules(FOLDERS[kind]), *_entry_points(kind)})


def summaries(kind: str) -> list[tuple[str, str]]:
    """Return names and summaries as `plugins` does, without importing built-in plugins."""
    found = {name: summary(module) for name, module in modules(FOLDERS[kind]).items()}
    for name in _entry_points(kind).keys() - found:
        with suppress(InputError):
            found[name] = find(kind, name).summary
    return sorted(found.items())


def plugins(kind: str) -> list[Plugin]:
    """Return all built-in and installed plugins of a kind that load; see `broken` for the rest."""
    return [plugin for plugin, _ in _each(kind) if plugin is not None]


def broken(kind: str) -> dict[str, str]:
    """Return the plugins that do not load: name -> error message."""
    return {error.key or "": error.message for _, error in _each(kind) if error is not None}


def split_preset(name: str) -> tuple[str, str | None]:
    """Return ("ndp", "paper") for "ndp:paper"; without a preset the second is None."""
    before, colon, preset = name.rpartition(":")
    # A colon before a path separator is part of the path (a drive letter).
    if not colon or "/" in preset or "\\" in preset:
        return name, None
    return before, preset


def _noun(kind: str) -> str:
    return _NOUNS.get(kind, kind)


def _each(kind: str) -> Iterator[tuple[Plugin | None, InputError | None]]:
    for name in names(kind):
        try:
            yield find(kind, name), None
        except InputError as error:
            yield None, InputError(str(error), key=name)


def _entry_points(kind: str) -> dict[str, importlib.metadata.EntryPoint]:
    found = importlib.metadata.entry_points(group=f"netsim.{FOLDERS[kind]}")
    return {entry_point.name: entry_point for entry_point in found}


def _inspect(kind: str, name: str, module: ModuleType) -> Plugin:
    """Return the plugin that a module declares, checked; errors name the module's file."""
    file = str(getattr(module, "__file__", None) or module.__name__)
    function = REQUIRED_FUNCTION.get(kind)
    if function and not callable(getattr(module, function, None)):
        raise InputError(
            f"{function}() is missing in this {_noun(kind)}", file=file, code="missing"
        )
    if not hasattr(module, "PARAMS"):
        hint = "PARAMS = [] declares none"
        raise InputError("PARAMS is missing", file=file, hint=hint)
    params = declarations.read_params(module, kind, file)
    presets = declarations.read_presets(module, params, file)
    if kind == "transport":
        declarations.check_transport(module, presets, file)
    elif kind == "queue":
        declarations.check_queue(module, file)
    elif kind == "routing":
        declarations.check_routing(module, file)
    text = module.__doc__ if isinstance(module.__doc__, str) else ""
    summary = text.strip().partition("\n")[0]
    return Plugin(kind, name, module, Path(file), params, presets, summary)


# --- files ----------------------------------------------------------------------------------------


@frozen
class _Loaded:
    module: ModuleType
    contents: dict[Path, str]  # digests of this file and the modules next to it


_loaded: dict[Path, _Loaded] = {}
_beside: dict[str, Path] = {}  # modules imported from plugins' directories, by name
_untrusted: ContextVar[bool] = ContextVar("untrusted", default=False)


@contextmanager
def untrusted() -> Iterator[None]:
    """A context that refuses to load plugin files: the user did not name them. A file that this
    process has loaded, and that has not changed since, is allowed."""
    before = _untrusted.set(True)
    try:
        yield
    finally:
        _untrusted.reset(before)


def is_loaded(path: Path) -> bool:
    """Return whether the plugin file at `path` (absolute) is loaded and unchanged."""
    known = _loaded.get(path)
    return known is not None and all(_digest(file) == was for file, was in known.contents.items())


def load(path: Path, *, shown: str) -> ModuleType:
    """Return the module of the plugin file at `path` (absolute); messages call it `shown`."""
    if is_loaded(path):
        return _loaded[path].module
    if _untrusted.get():
        raise InputError(f"needs the code in {path}, which is not part of netsim", hint=TRUST)
    try:
        source = read_bytes(path)
    except InputError as error:
        raise InputError(
            f'the plugin "{shown}" {error.message}', hint=f"looked for {path}"
        ) from None
    name = module_name(path)
    module = ModuleType(name)
    module.__file__ = str(path)
    module.__loader__ = importlib.machinery.SourceFileLoader(name, str(path))
    module.__spec__ = importlib.util.spec_from_file_location(name, path)
    linecache.checkcache(str(path))
    previous = sys.modules.get(name)
    sys.modules[name] = module
    try:
        with blamed(f'cannot load the plugin "{shown}"', shown), _importing_from(path.parent):
            exec(compile(source, str(path), "exec"), module.__dict__)
    except BaseException:
        sys.modules.pop(name, None)
        if previous is not None:
            sys.modules[name] = previous
        raise
    files = [path, *_beside.values()]
    _loaded[path] = _Loaded(module, {file: _digest(file) for file in files})
    return module


def module_name(path: Path) -> str:
    """Return the name in `sys.modules` of the plugin file at `path` (absolute)."""
    digest = hashlib.sha256(str(path).encode()).hexdigest()[:12]
    return f"netsim_plugin_{path.stem}_{digest}"


@contextmanager
def blamed(what: str, file: str) -> Iterator[None]:
    """A context that turns errors and exits of a plugin's code into an `InputError`. The
    message begins with `what`. Ctrl-C is not caught."""
    try:
        yield
    except InputError as error:
        raise error.at(file=file) from error
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        raise InputError(f"{what}: {_located(error)}") from error


def describe(error: BaseException) -> str:
    """Return an error on one line; never raises, even if the error's text does."""
    try:
        text = str(error.msg) if isinstance(error, SyntaxError) else str(error)
    except Exception:
        text = ""
    text = " ".join(text.split())
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def _located(error: BaseException) -> str:
    if isinstance(error, SyntaxError) and error.lineno is not None:
        return f"{describe(error)} at line {error.lineno} of {error.filename}"
    frames = traceback.extract_tb(error.__traceback__)
    place = f" at line {frames[-1].lineno} of {frames[-1].filename}" if frames else ""
    return describe(error) + place


@contextmanager
def _importing_from(directory: Path) -> Iterator[None]:
    """Let imports find modules in `directory`, and record the modules found.

    Recorded modules are forgotten first: another plugin's may have the same names, and this
    directory's may have changed.
    """
    for name in _beside:
        sys.modules.pop(name, None)
    _beside.clear()
    before = set(sys.modules)
    no_bytecode = sys.dont_write_bytecode
    sys.dont_write_bytecode = True  # its time stamps miss a second edit within a second
    sys.path.insert(0, str(directory))
    importlib.invalidate_caches()
    try:
        yield
    finally:
        if str(directory) in sys.path:
            sys.path.remove(str(directory))
        sys.dont_write_bytecode = no_bytecode
        for name in set(sys.modules) - before:
            stem = directory.joinpath(*name.split("."))
            file = getattr(sys.modules[name], "__file__", None)
            if file in (f"{stem}.py", str(stem / "__init__.py")):
                _beside[name] = Path(file)


def _digest(file: Path) -> str:
    try:
        return hashlib.sha256(file.read_bytes()).hexdigest()
    except OSError:
        return "gone"


def loaded_files(path: Path) -> dict[Path, str]:
    """Return the plugin file at `path` and the modules next to it that it imported. Maps each file,
    itself first, to the SHA-256 of its loaded text; empty if `path` is not loaded."""
    known = _loaded.get(path)
    return dict(known.contents) if known is not None else {}


# --- calls of plugins' functions ------------------------------------------------------------------


def call(use: PluginSpec, function: str, *args: Any) -> Any:
    """Call a plugin's function and return its result; if it fails, raise InputError with file and
    line. InputErrors that the function itself raises pass unchanged."""
    with _blamed(use, function):
        return getattr(use.module, function)(*args)


def problems(use: PluginSpec, *args: Any) -> list[InputError]:
    """Return the errors that a plugin's `check` yields, if it has one."""
    if not hasattr(use.module, "check"):
        return []
    with _blamed(use, "check"):
        found = list(use.module.check(use.params, *args) or ())
    for one in found:
        if not isinstance(one, InputError):
            raise _bad_return(use, "check", one, "it must yield InputErrors")
    return found


def no_effect(use: PluginSpec) -> dict[str, tuple[str, str]]:
    """Return a queue discipline's parameters without effect: name -> (why, what to do)."""
    if not hasattr(use.module, "no_effect"):
        return {}
    found = call(use, "no_effect", use.params)
    known = {param.name for param in use.plugin.params}
    if (
        not isinstance(found, Mapping)
        or not found.keys() <= known
        or not all(_is_pair_of_texts(value) for value in found.values())
    ):
        hint = 'return a dict like {"alpha": ("without a buffer", "remove it")}'
        raise _bad_return(use, "no_effect", found, hint)
    return dict(found)


def legs_of(use: PluginSpec) -> Callable[[Any], Any] | None:
    """Return a routing algorithm's function from the demand between groups to the demand of each
    leg of packets' paths (`netsim.model.paths`); None if it has none. The function raises
    InputError unless its result is float64[groups, groups] and nonnegative, like the demand."""
    if not hasattr(use.module, "legs"):
        return None

    def legs(demand: Any) -> Any:
        found = call(use, "legs", use.params, demand)
        fits = getattr(found, "shape", None) == demand.shape and found.dtype.kind in "fiu"
        if fits and (found >= 0).all():
            return found
        hint = f"it must return {len(demand)} by {len(demand)} numbers, not below zero"
        raise _bad_return(use, "legs", found, hint)

    return legs


def settled(use: PluginSpec, *args: Any) -> PluginSpec:
    """Return a queue discipline with its parameters settled for a network."""
    if not hasattr(use.module, "settle"):
        return use
    params = call(use, "settle", dict(use.params), *args)
    if not isinstance(params, Mapping) or params.keys() != use.params.keys():
        raise _bad_return(use, "settle", params, "it must return the same parameters")
    return replace(use, params=dict(params))


def port_state(use: PluginSpec, *args: Any) -> dict[str, Any]:
    """Return a queue discipline's initial PORT_STATE: whole numbers by field, for each port."""
    if not hasattr(use.module, "port_state"):
        return {}
    found = call(use, "port_state", use.params, *args)
    own = getattr(use.module, "PORT_STATE", ())
    if not isinstance(found, Mapping) or not found.keys() <= set(own):
        raise _bad_return(use, "port_state", found, "it must return a dict of fields of PORT_STATE")
    return dict(found)


def _is_pair_of_texts(value: Any) -> bool:
    is_pair = isinstance(value, tuple) and len(value) == 2
    return is_pair and all(isinstance(one, str) for one in value)


def _bad_return(use: PluginSpec, function: str, found: object, hint: str) -> InputError:
    message = f"{function}() returned {shortened(repr(found))}"
    return InputError(message, file=str(use.plugin.path), hint=hint)


@contextmanager
def _blamed(use: PluginSpec, function: str) -> Iterator[None]:
    path = str(use.plugin.path)
    try:
        yield
    except (InputError, MemoryError, KeyboardInterrupt):
        raise
    except BaseException as error:  # SystemExit included
        if use.module.__name__.startswith("netsim."):
            raise  # a netsim bug
        frames = traceback.extract_tb(error.__traceback__)
        lines = [frame.lineno for frame in frames if frame.filename == path]
        message = f"{function}() raised {describe(error)}"
        raise InputError(message, file=f"{path}:{lines[-1]}" if lines else path) from error
