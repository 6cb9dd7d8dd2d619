"""Find transports, topologies, traffic patterns, queue disciplines and routing algorithms.

A plugin is a Python module with a docstring (its first line is the summary), a list `PARAMS` of
`netsim.params.Param`, and optionally `PRESETS`, a dict from preset names to dicts of
written values. A topology has `build(params)`, a traffic pattern `flows(params, network, rng,
context)`. The engine checks what the other kinds must have.

A plugin is named by

- a built-in's name, which is its file's name ("ndp");
- an entry point installed in the group netsim.transports, netsim.topologies,
  netsim.traffic, netsim.queues or netsim.routing_algorithms;
- a path to a file, ending in .py, relative to the experiment ("./mine.py"). The file
  may import modules next to it.
"""

from __future__ import annotations

import importlib
import importlib.metadata
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from netsim.common.discovery import FOLDERS, modules, summary
from netsim.errors import InputError, did_you_mean
from netsim.params import Param
from netsim.plugins import declarations
from netsim.plugins import files as plugin_files
from netsim.units import written

KINDS = tuple(FOLDERS)
_NOUNS = {
    "traffic": "traffic pattern",
    "queue": "queue discipline",
    "routing": "routing algorithm",
}
REQUIRED_FUNCTION = {"topology": "build", "traffic": "flows"}


@dataclass(frozen=True)
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


@dataclass(frozen=True)
class PluginSpec:
    """A plugin with its parameters in the simulator's units (ps, bytes, bit/s)."""

    plugin: Plugin
    params: Mapping[str, Any]
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
        """The plugins that its parameters name, and those that these name."""
        own = [value for value in self.params.values() if isinstance(value, PluginSpec)]
        return tuple(use for one in own for use in (one, *one.parts))


def find(kind: str, name: str, *, relative_to: Path | None = None) -> Plugin:
    """Return the plugin of that kind and name; `InputError` if unknown or broken.

    `name` has no preset (see `split_preset`). A path is relative to `relative_to` or the working
    directory.
    """
    if name.endswith(".py"):
        path = ((relative_to or Path()) / name).resolve()
        return _inspect(kind, name, plugin_files.load(path, shown=name))
    built_in = modules(FOLDERS[kind])
    if name in built_in:
        with plugin_files.blamed(f'cannot load the plugin "{name}"', name):
            module = importlib.import_module(built_in[name])
        return _inspect(kind, name, module)
    entry_point = _entry_points(kind).get(name)
    if entry_point is not None:
        with plugin_files.blamed(f'cannot load the plugin "{name}"', name):
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
    """Return names and summaries, as those of `all`, without importing built-in plugins."""
    found = {name: summary(module) for name, module in modules(FOLDERS[kind]).items()}
    for name in _entry_points(kind).keys() - found:
        with suppress(InputError):
            found[name] = find(kind, name).summary
    return sorted(found.items())


def all(kind: str) -> list[Plugin]:
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
