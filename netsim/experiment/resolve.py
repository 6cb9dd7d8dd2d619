"""Resolve the tree of one point to a `Point`: fill in defaults and check everything.

Sections that points share are resolved once. Errors are collected and reported together.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from netsim.errors import InputError, did_you_mean
from netsim.experiment.document import FABRIC_PLUGINS, PLUGIN_SECTIONS, ErrorCollector, Tree
from netsim.experiment.model import Point
from netsim.experiment.reference import SECTION, axis_problem, resolve_reference
from netsim.experiment.resolve_fabric import describe_fabric, describe_packets, resolve_packets
from netsim.experiment.resolve_fabric_defaults import FabricResolver
from netsim.experiment.resolve_plugins import PluginResolver
from netsim.experiment.resolve_sections import (
    resolve_faults,
    resolve_measure,
    resolve_outputs,
    resolve_routing,
    resolve_seed,
    resolve_stop,
)
from netsim.experiment.schema import SECTIONS, FileSection, validated
from netsim.experiment.sweep import Finder, Variant
from netsim.plugins import registry
from netsim.plugins.registry import Plugin

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
        packets = self._section(tree, "packets", resolve_packets)
        classes = plugins.classes(tree.get("flow_classes", {}), variant.axes)
        fabric = None
        if packets is not None and transport is not None and classes is not None:
            transports = {"transport": transport}
            transports |= {f"flow_classes.{one.name}.transport": one.transport for one in classes}
            fabric = self._fabrics.fabric(tree.get("fabric", {}), transports, packets)
        faults = self._section(tree, "faults", resolve_faults)
        routing = self._section(tree, "routing", resolve_routing)
        stop = self._section(tree, "stop", resolve_stop)
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
            "packets": describe_packets(fields["packets"]),
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
        validated(FileSection, tree, "")
    except InputError as error:
        return [_placed(one, tree, find) for one in error.errors]
    return []


def _placed(error: InputError, tree: Tree, find: Finder) -> InputError:
    if error.code != "unknown_key" or error.key is None or "." in error.key:
        return error
    known = [
        f"{section}.{key}" for section, model in SECTIONS.items() for key in model.model_fields
    ]
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
