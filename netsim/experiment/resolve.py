"""Resolve the tree of one point to a `Point`: fill in defaults and check everything.

Sections that points share are resolved once. Errors are collected and reported together.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from netsim.common.inputs import ROOM_IN_NAME, path_problem
from netsim.engine.compiling import lint
from netsim.errors import CombinedInputError, InputError, did_you_mean
from netsim.experiment import resolve_fabric as fabrics
from netsim.experiment.document import FABRIC_PLUGINS, PLUGIN_SECTIONS, ErrorCollector, Tree
from netsim.experiment.model import Point
from netsim.experiment.reference import SECTION, axis_problem, resolve_reference
from netsim.experiment.resolve_fabric import FabricTable, describe_fabric
from netsim.experiment.resolve_plugins import PluginResolver
from netsim.experiment.schema import (
    SECTIONS,
    FaultSection,
    FileSection,
    MeasureSection,
    OutputsSection,
    RoutingSection,
    StopSection,
)
from netsim.experiment.sweep import Finder, Variant
from netsim.limits import HORIZON_PS
from netsim.model.checks import HORIZON
from netsim.model.fabric import Fabric, PacketFormat
from netsim.params import as_table, keys_of, read_table, read_tables
from netsim.plugins import registry
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

        `transports` are those of the point by section, its own first. That one sets the defaults,
        with enough traffic classes for all.
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
            # An override may make keys of the file ineffective, since "--set transport=ndp" picks
            # one of its points. Keys that it sets itself must have an effect.
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
    """Return an error of a fabric as one of the transport that declares it."""
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
        """Return all errors, including those that depend on every point, with their files."""
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
    """Return the errors in the top-level keys and the types of the sections. A key that belongs
    into a section is proposed there."""
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
    plugins = [("fabric", one) for kind in FABRIC_PLUGINS.values() for one in registry.all(kind)]
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
