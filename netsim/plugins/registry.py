"""Finding transports, topologies, traffic patterns and queue disciplines: one module each.

A plugin is a Python module with a docstring (its first line is the summary), a list
`PARAMS` of `netsim.plugins.params.Param`, and optionally `PRESETS`, a dict from a preset's
name to a dict of written values. A topology has `build(params)`, a traffic pattern
`flows(params, network, rng, context)`; what a transport and a queue discipline have, the engine
checks.

A plugin is named by

- a built-in's name, which is its file's name ("ndp");
- an entry point installed in the group netsim.transports, netsim.topologies,
  netsim.traffic or netsim.queues;
- a path to a file, ending in .py, relative to the experiment ("./mine.py"). The file
  may import modules that lie beside it.
"""

from __future__ import annotations

import importlib
import importlib.metadata
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from netsim.discovery import FOLDERS, modules
from netsim.errors import InputError, did_you_mean
from netsim.plugins import declarations
from netsim.plugins import files as plugin_files
from netsim.plugins.params import Param
from netsim.units import written

KINDS = tuple(FOLDERS)
_NOUNS = {"traffic": "traffic pattern", "queue": "queue discipline"}
REQUIRED_FUNCTION = {"topology": "build", "traffic": "flows"}


@dataclass(frozen=True)
class Plugin:
    """A loaded plugin: its module and what the module declares."""

    kind: str
    name: str
    module: ModuleType
    path: Path
    params: tuple[Param, ...]
    presets: Mapping[str, Mapping[str, object]]
    summary: str

    def param(self, name: str) -> Param | None:
        """The parameter of that name, if there is one."""
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
        """The plugin's module."""
        return self.plugin.module

    @property
    def parts(self) -> tuple[PluginSpec, ...]:
        """The plugins that its parameters name, and those that theirs name."""
        own = [value for value in self.params.values() if isinstance(value, PluginSpec)]
        return tuple(use for one in own for use in (one, *one.parts))


def find(kind: str, name: str, *, relative_to: Path | None = None) -> Plugin:
    """The plugin of that kind and name; `InputError` if there is none or it is broken.

    `name` is without a preset (see `split_preset`); a path is taken relative to
    `relative_to`, else to the working directory.
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
                hint="let its entry point name the module alone",
            )
        return _inspect(kind, name, module)
    hint = did_you_mean(name, names(kind))
    if Path(name).name != name:
        hint = "a path to a plugin ends in .py"
    raise InputError(f"unknown {_noun(kind)} {written(name)}", hint=hint, code="unknown_value")


def names(kind: str) -> list[str]:
    """Names of all built-in and installed plugins of a kind, sorted."""
    return sorted({*modules(FOLDERS[kind]), *_entry_points(kind)})


def all(kind: str) -> list[Plugin]:
    """All built-in and installed plugins of a kind that load; see `broken` for the others."""
    return [plugin for plugin, _ in _each(kind) if plugin is not None]


def broken(kind: str) -> dict[str, str]:
    """Why each plugin that does not load does not: name -> message."""
    return {error.key or "": error.message for _, error in _each(kind) if error is not None}


def split_preset(name: str) -> tuple[str, str | None]:
    """ "ndp:paper" -> ("ndp", "paper"); without a preset the second is None."""
    before, colon, preset = name.rpartition(":")
    # A colon before a path separator belongs to the path (a drive letter).
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
    """The plugin that a module declares, checked; errors name the module's file."""
    file = str(getattr(module, "__file__", None) or module.__name__)
    function = REQUIRED_FUNCTION.get(kind)
    if function and not callable(getattr(module, function, None)):
        raise InputError(f"a {_noun(kind)} needs a function {function}()", file=file)
    if not hasattr(module, "PARAMS"):
        raise InputError(
            f"a {_noun(kind)} declares its parameters", file=file, hint="PARAMS = [] if it has none"
        )
    params = declarations.read_params(module, kind, file)
    presets = declarations.read_presets(module, params, file)
    if kind == "transport":
        declarations.check_transport(module, presets, file)
    elif kind == "queue":
        declarations.check_queue(module, file)
    text = module.__doc__ if isinstance(module.__doc__, str) else ""
    summary = text.strip().partition("\n")[0]
    return Plugin(kind, name, module, Path(file), params, presets, summary)
