"""Resolve the tree of one point to a `Point`: fill in defaults and check everything.

Sections that points share are resolved once. Errors are collected and reported together.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from netsim.common.inputs import ROOM_IN_NAME, is_file, path_problem, user_path
from netsim.engine.compiling import lint
from netsim.errors import CombinedInputError, InputError, did_you_mean, errors_at, raise_all
from netsim.experiment import resolve_fabric as fabrics
from netsim.experiment.document import (
    CLASS_SECTIONS,
    FABRIC_PLUGINS,
    PLUGIN_SECTIONS,
    ErrorCollector,
    Tree,
    category,
)
from netsim.experiment.resolve_fabric import FabricTable, describe_fabric
from netsim.experiment.schema import (
    SECTION,
    SECTIONS,
    FaultSection,
    FileSection,
    FlowClass,
    MeasureSection,
    OutputsSection,
    Point,
    RoutingSection,
    StopSection,
    axis_problem,
    resolve_reference,
)
from netsim.experiment.sweep import Finder, Variant
from netsim.limits import HORIZON_PS, TRANSPORTS
from netsim.model.checks import HORIZON
from netsim.model.fabric import Fabric, PacketFormat
from netsim.params import as_table, keys_of, read_table, read_tables, resolve_params
from netsim.plugins import registry
from netsim.plugins.declarations import OF_JOBS
from netsim.plugins.registry import Plugin, PluginSpec
from netsim.units import format_time, written


class FabricResolver:
    """Resolves the fabrics of one experiment and collects their errors."""

    def __init__(self, plugins: PluginResolver, errors: ErrorCollector) -> None:
        self._plugins = plugins
        self._errors = errors
        self._ineffective: dict[str, InputError] = {}
        self._effective: set[str] = set()

    def fabric(
        self, table: Any, transports: Mapping[str, PluginSpec], packets: PacketFormat
    ) -> Fabric | None:
        """Return the fabric of a [fabric] table; None after noting its errors.

        `transports` are the point's transports by section, the main one first. That one sets the
        defaults, with enough traffic classes for all.
        """
        if not isinstance(table, dict):
            return None  # noted when the top level was checked
        uses = [(use.plugin.path, use.preset, use.params) for use in transports.values()]
        memo = f"fabric {table!r} {uses!r} {packets!r}"
        found = self._errors.once("fabric", memo, lambda: self._resolve(table, transports, packets))
        if found is None:
            return None
        source, fabric = found
        errors = source.unknown | fabrics.ineffective_keys(fabric)
        self._effective |= source.table.keys() - errors.keys()
        for key in table:
            if key in errors:
                self._ineffective.setdefault(key, errors[key])
        return fabric

    def note_ineffective_keys(self) -> None:
        """Note the keys of [fabric] that have no effect in any point; call it after the last
        one.
        """
        sections = {path.split(".")[0] for path in self._errors.overridden}
        may_choose = not sections.isdisjoint(("transport", "fabric"))
        for key, error in self._ineffective.items():
            # An override such as "--set transport=ndp" picks points, so keys of the file may have
            # no effect. Keys that an override sets must have one.
            if key not in self._effective and (
                error.message == fabrics.UNKNOWN
                or not may_choose
                or self._errors.is_overridden(error.key)
            ):
                self._errors.note(error)

    def _resolve(
        self, table: Mapping[str, Any], transports: Mapping[str, PluginSpec], packets: PacketFormat
    ) -> tuple[FabricTable, Fabric] | None:
        by_section = {
            section: fabrics.fabric_defaults(use.module, use.preset)
            for section, use in transports.items()
        }
        first = next(iter(transports))
        defaults = own = by_section[first]
        if len(by_section) > 1:
            n_traffic_classes = max(one.get("n_traffic_classes", 1) for one in by_section.values())
            defaults = by_section[first] = {**own, "n_traffic_classes": n_traffic_classes}
        try:
            merged = self._merged(defaults, table)
            plugins = {}
            for key in FABRIC_PLUGINS:
                plugin = self._plugins.find(f"fabric.{key}", fabrics.plugin_of(merged, key))
                if plugin is not None:
                    plugins[key] = plugin
            if len(plugins) < len(FABRIC_PLUGINS):
                fabrics.check_common(merged, packets)
                return None
            source = FabricTable(merged, plugins)
            fabric = fabrics.fabric_of(source, packets)
        except InputError as error:
            raise _declared_errors(transports[first], own, packets) or error from None
        lint.check(fabric.queue.plugin, fabric.queue.params)
        lint.check(fabric.routing.plugin, fabric.routing.params)
        if source.unknown.keys() - table.keys():
            _refuse_unknown(transports[first], own)
        for section, use in transports.items():
            _check_classes(fabric, use, section, by_section[section])
            for problem in registry.problems(use, packets):
                raise problem.replace(file=None, key=f"{section}.{problem.key}")
        return source, fabric

    def _merged(self, defaults: Mapping[str, Any], table: Mapping[str, Any]) -> dict[str, Any]:
        """Return a transport's defaults, overridden by a table and by the presets that it names."""
        for choice in FABRIC_PLUGINS:
            name, preset = registry.split_preset(str(table.get(choice, "")))
            plugin = self._plugins.find(f"fabric.{choice}", name) if preset is not None else None
            if plugin is not None:
                values = plugin.presets.get(preset or "", {})
                defaults = {key: value for key, value in defaults.items() if key not in values}
        return fabrics.merge(defaults, table)


def _declared_errors(
    transport: PluginSpec, defaults: Mapping[str, Any], packets: PacketFormat
) -> InputError | None:
    """Return the errors in the fabric that a transport declares."""
    try:
        fabrics.resolve_fabric(defaults, packets)
    except InputError as error:
        own = [e for e in error.errors if e.key and e.key.startswith("fabric.")]
        return CombinedInputError(_as_declared(transport, e) for e in own) if own else None
    return None


def _refuse_unknown(transport: PluginSpec, defaults: Mapping[str, Any]) -> None:
    """Raise InputError for unknown keys in the fabric that a transport declares."""
    errors = fabrics.fabric_table(defaults).unknown.values()
    unknown = [error for error in errors if error.message == fabrics.UNKNOWN]
    if unknown:
        raise CombinedInputError(_as_declared(transport, error) for error in unknown)


def _as_declared(transport: PluginSpec, error: InputError) -> InputError:
    """Return an error of a fabric as an error of the transport that declares it."""
    key = f"FABRIC.{(error.key or '').removeprefix('fabric.')}"
    return error.replace(file=str(transport.plugin.path), key=key)


def _check_classes(
    fabric: Fabric, transport: PluginSpec, section: str, defaults: Mapping[str, Any]
) -> None:
    """Raise InputError for fewer classes than the transport or its parameters need."""
    needed = defaults.get("n_traffic_classes", 1)
    if fabric.n_traffic_classes < needed:
        message = f"{fabric.n_traffic_classes} is too few for {transport.name}"
        raise InputError(message, key="fabric.n_traffic_classes", hint=f"at least {needed}")
    for name, value in transport.params.items():
        if name.endswith("_class") and isinstance(value, int) and value >= fabric.n_traffic_classes:
            hint = f"below fabric.n_traffic_classes = {fabric.n_traffic_classes}"
            raise InputError(f"class {value} does not exist", key=f"{section}.{name}", hint=hint)


SEED_LIMIT = 2**32


def resolve_seed(tree: Tree) -> int:
    """Return the seed of an experiment. Raises InputError without file and key."""
    seed = tree.get("seed", 1)
    if isinstance(seed, bool) or not isinstance(seed, int):
        hint = 'use a whole number, a list of them, or "1..10"'
        raise InputError(f"{written(seed)} is not a seed", hint=hint, code="wrong_type")
    if not 0 <= seed < SEED_LIMIT:
        hint = f"0 to {SEED_LIMIT - 1}"
        raise InputError(f"{seed} is out of range", hint=hint, code="out_of_range")
    return seed


def resolve_measure(table: Tree, stop: StopSection | None) -> MeasureSection | None:
    """Return the measurement of a [measure] table, None if it is empty. Raises InputError, without
    a file, also if it conflicts with `stop`."""
    if not table:
        return None
    section = read_table(MeasureSection, table, key="measure")
    if section.end_ps >= HORIZON_PS:
        message = f"ends after {format_time(section.end_ps, 3)}"
        raise InputError(message, key="measure", hint=HORIZON)
    if stop is not None and (stop.max_time is not None or stop.drain):
        key = "stop.drain" if stop.drain else "stop.max_time"
        hint = "a measured run ends with its drain"
        raise InputError("conflicts with [measure]", key=key, hint=hint, code="conflict")
    return section


def resolve_outputs(table: Tree, title: str) -> OutputsSection:
    """Return the outputs of an [outputs] table; by default the directory is results/`title`."""
    section = read_table(OutputsSection, table, key="outputs")
    directory = section.directory or f"results/{title}"
    problem = path_problem(directory, reserve=ROOM_IN_NAME)
    if problem:
        raise InputError(f"{written(directory)} {problem}", key="outputs.directory")
    return replace(section, directory=directory)


T = TypeVar("T")


class Resolver:
    """Resolves the points of one file."""

    def __init__(self, file: str, directory: Path, overridden: Sequence[str] = ()) -> None:
        self._file = file
        self._directory = directory
        self._errors = ErrorCollector(file, overridden)
        self._plugins = PluginResolver(directory, self._errors)
        self._fabrics = FabricResolver(self._plugins, self._errors)

    def find(self, section: str, kind: str) -> Plugin | None:
        """Return the plugin of a kind as written; None after noting the error."""
        return self._plugins.find(section, kind)

    def note(self, error: InputError) -> None:
        """Add an error (or several) found elsewhere."""
        self._errors.note(error)

    def point(self, index: int, name: str, variant: Variant, title: str) -> Point | None:
        """Return the point of one variant of the tree, or None after noting errors."""
        tree = variant.value
        plugins = self._plugins
        topology, transport, traffic = (
            plugins.use(section, tree.get(section), variant.axes) for section in PLUGIN_SECTIONS
        )
        packets = self._table(tree, "packets", PacketFormat)
        classes = plugins.classes(tree.get("flow_classes", {}), variant.axes)
        fabric = None
        if packets is not None and transport is not None and classes is not None:
            transports = {"transport": transport}
            transports |= {f"flow_classes.{one.name}.transport": one.transport for one in classes}
            fabric = self._fabrics.fabric(tree.get("fabric", {}), transports, packets)
        faults = self._section(
            tree, "faults", lambda table: read_tables(FaultSection, table, key="faults")
        )
        routing = self._table(tree, "routing", RoutingSection)
        stop = self._table(tree, "stop", StopSection)
        measure = self._section(tree, "measure", lambda table: resolve_measure(table, stop))
        outputs = self._section(tree, "outputs", lambda table: resolve_outputs(table, title))
        self._section(tree, SECTION, lambda table: resolve_reference(table) if table else None)
        seed = self._errors.once(
            "seed", f"seed {tree.get('seed', 1)!r}", lambda: resolve_seed(tree)
        )
        fields: dict[str, Any] = {
            "seed": seed,
            "topology": topology,
            "transport": transport,
            "traffic": traffic,
            "classes": classes,
            "packets": packets,
            "fabric": fabric,
            "faults": faults,
            "routing": routing,
            "stop": stop,
            "outputs": outputs,
        }
        if any(value is None for value in fields.values()):
            return None
        return Point(
            index=index,
            name=name,
            axes=variant.axes,
            resolved=self._describe(tree, title, fields | {"measure": measure}),
            file=self._file,
            directory=self._directory,
            measure=measure,
            **fields,
        )

    def _describe(self, tree: Tree, title: str, fields: Mapping[str, Any]) -> Tree:
        """Return the equivalent experiment file with every value explicit."""
        describe = self._plugins.describe
        resolved = {
            "name": title,
            "description": tree.get("description", ""),
            "seed": fields["seed"],
            **{name: describe(fields[name], tree[name]) for name in PLUGIN_SECTIONS},
            **self._plugins.describe_classes(fields["classes"], tree),
            "packets": as_table(fields["packets"]),
            "fabric": describe_fabric(fields["fabric"]),
        }
        sections = ["stop", "measure", "outputs"]
        if fields["faults"]:
            resolved["faults"] = {name: one.described() for name, one in fields["faults"].items()}
            sections.insert(0, "routing")
        for name in sections:
            if fields[name] is not None:
                resolved[name] = fields[name].described()
        return resolved | ({SECTION: tree[SECTION]} if tree.get(SECTION) else {})

    def note_reference(self, tree: Tree, points: Sequence[Point]) -> None:
        """Note an error if no point has the axis of [reference]."""
        table = tree.get(SECTION)
        axis = table.get("axis") if isinstance(table, dict) else None
        if isinstance(axis, str) and points:
            problems = [axis_problem(axis, point.resolved) for point in points]
            if problems[0] is not None and all(problems):
                self.note(problems[0])

    def finish(self) -> list[InputError]:
        """Return all errors, including errors that depend on every point, with their files."""
        self._fabrics.note_ineffective_keys()
        return self._errors.all()

    def _table(self, tree: Tree, name: str, table: type[T]) -> T | None:
        return self._section(tree, name, lambda given: read_table(table, given, key=name))

    def _section(self, tree: Tree, name: str, resolve: Callable[[Tree], T]) -> T | None:
        table = tree.get(name, {})
        if not isinstance(table, dict):
            return None  # noted by check_top_level
        memo = f"{name} {table!r}" + (f" {tree.get('stop')!r}" if name == "measure" else "")
        return self._errors.once(name, memo, lambda: resolve(table))


def check_top_level(tree: Tree, find: Finder) -> list[InputError]:
    """Return the errors in the top-level keys and the types of the sections. For a key that belongs
    to a section, the hint names the section."""
    try:
        read_table(FileSection, tree)
    except InputError as error:
        return [_placed(one, tree, find) for one in error.errors]
    return []


def _placed(error: InputError, tree: Tree, find: Finder) -> InputError:
    if error.code != "unknown_key" or error.key is None or "." in error.key:
        return error
    known = [f"{section}.{key}" for section, table in SECTIONS.items() for key in keys_of(table)]
    plugins: list[tuple[str, Plugin | None]]
    plugins = [
        ("fabric", one) for kind in FABRIC_PLUGINS.values() for one in registry.plugins(kind)
    ]
    for section in PLUGIN_SECTIONS:
        given = tree.get(section)
        for item in given if isinstance(given, list) else [given]:
            kinds = item.get("kind") if isinstance(item, dict) else item
            named = kinds if isinstance(kinds, list) else [kinds]
            plugins += [(section, find(section, one)) for one in named if isinstance(one, str)]
    known += [
        f"{section}.{one.name}" for section, plugin in plugins if plugin for one in plugin.params
    ]
    meant = [one for one in known if one.rpartition(".")[2].startswith(error.key)]
    return error.replace(hint=did_you_mean(error.key, meant)) if meant else error


# --- plugins --------------------------------------------------------------------------------------

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
        """Return the plugin of a section with its parameters; None after noting errors. If the
        section is one of the point's `axes`, errors name the table by its label."""
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
            elif param.unit == "jobs":
                params[param.name] = {
                    name: self._part(f"{key}.{name}", table) for name, table in value.items()
                }
        return PluginSpec(plugin, params, preset)

    def _part(self, key: str, table: Tree) -> PluginSpec:
        """Return the topology or job named by a table within a plugin's table."""
        kind = table.get("kind")
        if not isinstance(kind, str):
            return _no_kind(key, kind)
        plugin = self.find(key, kind)
        if plugin is None:
            raise CombinedInputError([])  # already noted
        if category(key) == "traffic":
            plugin = replace(plugin, params=(*plugin.params, *OF_JOBS))
        return self._checked(key, plugin, table)

    def _file(self, key: str, name: str, unit: str) -> str:
        """Return the path of a file parameter, relative to the experiment.

        A path in an override is relative to the working directory and becomes absolute, so that the
        result can be traced from anywhere. Names of sizes and jobs are paths only if such a file
        exists.
        """
        base = Path.cwd() if self._errors.is_overridden(key) else self._directory
        with errors_at(key=key):
            path = user_path(name, base)
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
            inner = written_value if isinstance(written_value, dict) else {}
            if isinstance(value, PluginSpec):
                described[param.name] = self.describe(value, inner)
            elif param.unit == "jobs":
                described[param.name] = {
                    name: self.describe(use, inner[name]) for name, use in value.items()
                }
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
