"""The sections that name a plugin: which it is, and what its parameters are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from netsim.errors import CombinedInputError, InputError
from netsim.experiment.document import CLASS_SECTIONS, Tree, category
from netsim.experiment.error_collector import ErrorCollector
from netsim.experiment.model import FlowClass
from netsim.inputs import is_file, path_problem, user_path
from netsim.limits import TRANSPORTS
from netsim.lint import check_program, check_transport
from netsim.plugins import registry
from netsim.plugins.params import resolve_params
from netsim.plugins.registry import Plugin, PluginSpec
from netsim.units import written

TOP_LEVEL_VALUES = ("name", "description", "seed")


class PluginResolver:
    """Resolves the plugins of one experiment; what is wrong goes to its collector.

    `directory`, of the experiment, is where the files are that it names.
    """

    def __init__(self, directory: Path, errors: ErrorCollector) -> None:
        self._directory = directory
        self._errors = errors

    def find(self, section: str, kind: str) -> Plugin | None:
        """The plugin of a written kind (a preset may follow); None after noting the error.

        That of the section fabric is the queue discipline.
        """
        key = "fabric.queue_discipline" if section == "fabric" else f"{section}.kind"

        def resolve() -> Plugin:
            name, _ = registry.split_preset(kind)
            problem = path_problem(name)
            if problem:
                raise InputError(f"{written(name)} {problem}")
            if name.endswith(".py") and self._errors.is_overridden(key):
                name = str(user_path(name, Path.cwd()))
            return registry.find(category(section), name, relative_to=self._directory)

        place = key if section == "fabric" else section
        return self._errors.once(place, f"plugin {section} {kind}", resolve)

    def use(self, section: str, table: Any, axes: Mapping[str, Any]) -> PluginSpec | None:
        """The plugin of a section with its parameters; None after noting what is wrong.

        Where the section is one of the `axes` of the point, that says in which of its tables.
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
        """The plugin with its parameters; errors say which of several tables they stand in."""
        try:
            return self._checked(section, plugin, table)
        except InputError as error:
            if label is None:
                raise
            raise error.with_suffix(f"in {written(label)}") from None

    def classes(self, tables: Any, axes: Mapping[str, Any]) -> tuple[FlowClass, ...] | None:
        """The tables [flow_classes.NAME], or None after noting what is wrong with them."""
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
            return self._errors.once("flow_classes", "too many classes", lambda: _too_many(classes))
        return tuple(classes)

    def _checked(self, section: str, plugin: Plugin, table: Tree) -> PluginSpec:
        _, preset = registry.split_preset(table["kind"])
        given = {name: value for name, value in table.items() if name != "kind"}
        errors = []
        for name in TOP_LEVEL_VALUES:
            if name in given and plugin.param(name) is None:
                del given[name]
                hint = f"write {name} above the first [table]"
                errors.append(
                    InputError(
                        "unknown parameter", key=f"{section}.{name}", hint=hint, code="unknown_key"
                    )
                )
        params: dict[str, Any] = {}
        try:
            params = resolve_params(
                plugin.params, plugin.presets, given, preset, file=None, key=section
            )
        except InputError as error:
            errors.append(error)
        if errors:
            raise CombinedInputError(errors)
        if category(section) == "transport":
            check_transport(plugin, params)
        elif category(section) == "traffic":
            check_program(plugin, params)
        for param in plugin.params:
            value = params[param.name]
            key = f"{section}.{param.name}"
            if isinstance(value, str) and param.unit in ("file", "sizes", "job"):
                params[param.name] = self._file(key, value, param.unit)
            elif param.unit == "topology" and value is not None:
                params[param.name] = self._part(key, value)
        return PluginSpec(plugin, params, preset)

    def _part(self, key: str, table: Tree) -> PluginSpec:
        """The topology that a parameter of a topology names, checked as one of its own."""
        kind = table.get("kind")
        if not isinstance(kind, str):
            return _no_kind(key, kind)
        plugin = self.find(key, kind)
        if plugin is None:
            raise CombinedInputError([])  # what is wrong has been noted
        return self._checked(key, plugin, table)

    def _file(self, key: str, name: str, unit: str) -> str:
        """The path of a file that a parameter names: relative to what says so.

        That is the experiment, or the current directory where an override names it; then the path
        is absolute, so that a result can be traced wherever that is done. Of the names of sizes
        and of jobs, those are files that are there.
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
        """The section [flow_classes] of `tree` that says the same; nothing without classes."""
        if not classes:
            return {}
        return {
            "flow_classes": {
                flow_class.name: self._describe_class(
                    flow_class, tree["flow_classes"][flow_class.name]
                )
                for flow_class in classes
            }
        }

    def _describe_class(self, flow_class: FlowClass, table: Tree) -> dict[str, Any]:
        found: dict[str, Any] = {
            section: self.describe(use, table[section])
            for section in CLASS_SECTIONS
            if (use := getattr(flow_class, section)) is not None
        }
        return {**found, "kinds": list(flow_class.kinds)} if flow_class.kinds else found

    def describe(self, use: PluginSpec, table: Tree) -> dict[str, Any]:
        """The table that gives the same plugin and parameters, every one written."""
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
                described[param.name] = written_value  # the experiment may be moved with its files
            else:
                described[param.name] = param.format(value)
        return described


def _no_kind(section: str, kind: Any) -> PluginSpec:
    available = ", ".join(registry.names(category(section))) or "none yet"
    if kind is None:
        raise InputError(
            "missing", key=f"{section}.kind", hint=f"there are: {available}", code="missing"
        )
    raise InputError(
        f"{written(kind)} is not a name", key=f"{section}.kind", hint=available, code="wrong_type"
    )


def _kinds(key: str, table: Tree, before: Sequence[FlowClass]) -> tuple[str, ...]:
    """The kinds of flows that a table [flow_classes.NAME] is for; none if it has traffic of its
    own."""
    kinds = table.get("kinds")
    if kinds is None:
        if "traffic" not in table:
            hint = 'traffic of its own, or kinds = ["tp"] of flows of the main traffic'
            raise InputError("missing", key=f"{key}.traffic", hint=hint, code="missing")
        return ()
    if "traffic" in table:
        message = "stands beside traffic of its own"
        raise InputError(message, key=f"{key}.kinds", hint="one of both")
    if not isinstance(kinds, list):
        raise CombinedInputError([])  # noted when the top level was checked
    for k, kind in enumerate(kinds):
        others = [one.name for one in before if kind in one.kinds]
        if kind in kinds[:k] or others:
            where = f" (and in flow_classes.{others[0]})" if others else ""
            raise InputError(
                f"{written(kind)} is named twice{where}", key=f"{key}.kinds", code="duplicate"
            )
    return tuple(kinds)


def _too_many(classes: Sequence[FlowClass]) -> tuple[FlowClass, ...]:
    raise InputError(
        f"{len(classes)} classes", key="flow_classes", hint=f"at most {TRANSPORTS - 1}"
    )
