"""Resolve sections that name a plugin, and its parameters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from netsim.common.inputs import is_file, path_problem, user_path
from netsim.engine.compiling import lint
from netsim.errors import CombinedInputError, InputError, raise_all
from netsim.experiment.document import CLASS_SECTIONS, ErrorCollector, Tree, category
from netsim.experiment.model import FlowClass
from netsim.limits import TRANSPORTS
from netsim.params import resolve_params
from netsim.plugins import registry
from netsim.plugins.registry import Plugin, PluginSpec
from netsim.units import written

TOP_LEVEL_VALUES = ("name", "description", "seed")


class PluginResolver:
    """Resolves the plugins of one experiment, with files relative to `directory`."""

    def __init__(self, directory: Path, errors: ErrorCollector) -> None:
        self._directory = directory
        self._errors = errors

    def find(self, section: str, kind: str) -> Plugin | None:
        """Return the plugin of a kind as written, with or without preset; None after noting the
        error.

        Plugins of [fabric] have the section "fabric.queue_discipline" or "fabric.routing".
        """
        is_key = section.startswith("fabric.")
        key = section if is_key else f"{section}.kind"

        def resolve() -> Plugin:
            name, _ = registry.split_preset(kind)
            problem = path_problem(name)
            if problem:
                raise InputError(f"{written(name)} {problem}")
            if name.endswith(".py") and self._errors.is_overridden(key):
                name = str(user_path(name, Path.cwd()))
            return registry.find(category(section), name, relative_to=self._directory)

        return self._errors.once(section, f"plugin {section} {kind}", resolve)

    def use(self, section: str, table: Any, axes: Mapping[str, Any]) -> PluginSpec | None:
        """Return the plugin of a section with its parameters; None after noting errors.

        If the section is one of the point's `axes`, errors name the table by its label.
        """
        if not isinstance(table, dict):
            return None  # missing, or noted when sweeps were expanded
        kind = table.get("kind")
        if not isinstance(kind, str):
            return self._errors.once(section, f"no kind {section}", lambda: _no_kind(section, kind))
        plugin = self.find(section, kind)
        if plugin is None:
            return None
        return self._errors.once(
            section,
            f"{section} {table!r}",
            lambda: self._of_table(axes.get(section), section, plugin, table),
        )

    def _of_table(self, label: str | None, section: str, plugin: Plugin, table: Tree) -> PluginSpec:
        try:
            return self._checked(section, plugin, table)
        except InputError as error:
            if label is None:
                raise
            raise error.with_suffix(f"in {written(label)}") from None

    def classes(self, tables: Any, axes: Mapping[str, Any]) -> tuple[FlowClass, ...] | None:
        """Return the tables [flow_classes.NAME]; None after noting errors."""
        if not isinstance(tables, dict):
            return None  # noted when the top level was checked
        classes: list[FlowClass] = []
        for name, table in tables.items():
            if not isinstance(table, dict):
                return None
            transport, traffic = (
                self.use(f"flow_classes.{name}.{section}", table.get(section), axes)
                for section in CLASS_SECTIONS
            )
            key = f"flow_classes.{name}"
            kinds = self._errors.once(
                key, f"{key} {table!r}", partial(_kinds, key, table, tuple(classes))
            )
            if transport is None or kinds is None or (traffic is None and not kinds):
                return None
            classes.append(FlowClass(name, transport, traffic, kinds))
        if len(classes) >= TRANSPORTS:
            message, hint = f"{len(classes)} classes are too many", f"at most {TRANSPORTS - 1}"
            self._errors.note(InputError(message, key="flow_classes", hint=hint))
            return None
        return tuple(classes)

    def _checked(self, section: str, plugin: Plugin, table: Tree) -> PluginSpec:
        _, preset = registry.split_preset(table["kind"])
        given = {name: value for name, value in table.items() if name != "kind"}
        errors = []
        for name in TOP_LEVEL_VALUES:
            if name in given and plugin.param(name) is None:
                del given[name]
                hint = f"write {name} above the first [table]"
                key = f"{section}.{name}"
                errors.append(InputError("unknown key", key=key, hint=hint, code="unknown_key"))
        params: dict[str, Any] = {}
        try:
            params = resolve_params(
                plugin.params, plugin.presets, given, preset, file=None, key=section
            )
        except InputError as error:
            errors.append(error)
        raise_all(errors)
        lint.check(plugin, params)
        for param in plugin.params:
            value = params[param.name]
            key = f"{section}.{param.name}"
            if isinstance(value, str) and param.unit in ("file", "sizes", "job"):
                params[param.name] = self._file(key, value, param.unit)
            elif param.unit == "topology" and value is not None:
                params[param.name] = self._part(key, value)
        return PluginSpec(plugin, params, preset)

    def _part(self, key: str, table: Tree) -> PluginSpec:
        """Return the nested topology that a parameter names."""
        kind = table.get("kind")
        if not isinstance(kind, str):
            return _no_kind(key, kind)
        plugin = self.find(key, kind)
        if plugin is None:
            raise CombinedInputError([])  # already noted
        return self._checked(key, plugin, table)

    def _file(self, key: str, name: str, unit: str) -> str:
        """Return the path of a file parameter, relative to the experiment.

        A path in an override is relative to the working directory and becomes absolute, so that the
        result can be traced from anywhere. Names of sizes and jobs are paths only if such a file
        exists.
        """
        base = Path.cwd() if self._errors.is_overridden(key) else self._directory
        try:
            path = user_path(name, base)
        except InputError as error:
            raise error.at(key=key) from None
        if unit == "file" or (base != self._directory and is_file(path)):
            return str(path)
        return name

    def describe_classes(self, classes: Sequence[FlowClass], tree: Tree) -> dict[str, Any]:
        """Return the equivalent [flow_classes] section; empty without classes."""
        tables = tree.get("flow_classes", {})
        described = {one.name: self._describe_class(one, tables[one.name]) for one in classes}
        return {"flow_classes": described} if described else {}

    def _describe_class(self, flow_class: FlowClass, table: Tree) -> dict[str, Any]:
        found: dict[str, Any] = {
            section: self.describe(use, table[section])
            for section in CLASS_SECTIONS
            if (use := getattr(flow_class, section)) is not None
        }
        return {**found, "kinds": list(flow_class.kinds)} if flow_class.kinds else found

    def describe(self, use: PluginSpec, table: Tree) -> dict[str, Any]:
        """Return the equivalent table with all parameters."""
        described: dict[str, Any] = {"kind": use.name}
        for param in use.plugin.params:
            value = use.params[param.name]
            written_value = table.get(param.name)
            if isinstance(value, PluginSpec):
                inner = written_value if isinstance(written_value, dict) else {}
                described[param.name] = self.describe(value, inner)
            elif (
                param.unit == "file"
                and isinstance(written_value, str)
                and value == str(user_path(written_value, self._directory))
            ):
                described[param.name] = written_value  # so that the experiment can be moved
            else:
                described[param.name] = param.format(value)
        return described


def _no_kind(section: str, kind: Any) -> PluginSpec:
    available = ", ".join(registry.names(category(section))) or "none yet"
    key, hint = f"{section}.kind", f"one of {available}"
    if kind is None:
        raise InputError("missing", key=key, hint=hint, code="missing")
    raise InputError(f"{written(kind)} is not a name", key=key, hint=hint, code="wrong_type")


def _kinds(key: str, table: Tree, before: Sequence[FlowClass]) -> tuple[str, ...]:
    """Return the kinds of flows in a table [flow_classes.NAME]; none if it has traffic."""
    kinds = table.get("kinds")
    if kinds is None:
        if "traffic" not in table:
            hint = 'add traffic, or kinds = ["tp"] of the main traffic'
            raise InputError("missing", key=f"{key}.traffic", hint=hint, code="missing")
        return ()
    if "traffic" in table:
        raise InputError("conflicts with traffic", key=f"{key}.kinds", hint="write one of them")
    if not isinstance(kinds, list):
        raise CombinedInputError([])  # noted when the top level was checked
    for k, kind in enumerate(kinds):
        others = [one.name for one in before if kind in one.kinds]
        if kind in kinds[:k] or others:
            where = f" (also in flow_classes.{others[0]})" if others else ""
            message = f"duplicate kind {written(kind)}{where}"
            raise InputError(message, key=f"{key}.kinds", code="duplicate")
    return tuple(kinds)
