"""From the tree of one point to a `Point`: defaults filled in, everything checked.

Sections that many points share are resolved once. Errors are collected, not raised,
so that one look at the file tells all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

from pydantic import ValidationError

from netsim.errors import InputError
from netsim.experiment.document import PLUGIN_SECTIONS, Tree
from netsim.experiment.error_collector import ErrorCollector
from netsim.experiment.model import Point
from netsim.experiment.reference import SECTION, axis_problem, resolve_reference
from netsim.experiment.resolve_fabric import describe_fabric, describe_packets, resolve_packets
from netsim.experiment.resolve_fabric_defaults import FabricResolver
from netsim.experiment.resolve_faults import (
    describe_faults,
    describe_routing,
    resolve_faults,
    resolve_routing,
)
from netsim.experiment.resolve_plugins import PluginResolver
from netsim.experiment.resolve_run import (
    describe_outputs,
    describe_stop,
    resolve_outputs,
    resolve_seed,
    resolve_stop,
)
from netsim.experiment.schema import FileSection, problems
from netsim.experiment.sweep import Variant
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
        """The plugin of a written kind (a preset may follow); None after noting the error."""
        return self._plugins.find(section, kind)

    def note(self, error: InputError) -> None:
        """Add an error (or several) that was found elsewhere."""
        self._errors.note(error)

    def point(self, index: int, name: str, variant: Variant, title: str) -> Point | None:
        """The point of one variant of the tree, or None after noting what is wrong."""
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
        outputs = self._section(tree, "outputs", lambda table: resolve_outputs(table, title))
        self._section(tree, SECTION, lambda table: resolve_reference(table) if table else None)
        seed = self._errors.once(
            "seed", f"seed {tree.get('seed', 1)!r}", lambda: resolve_seed(tree)
        )
        if (
            topology is None
            or transport is None
            or traffic is None
            or classes is None
            or packets is None
            or fabric is None
            or faults is None
            or routing is None
            or stop is None
            or outputs is None
            or seed is None
        ):
            return None
        return Point(
            index=index,
            name=name,
            axes=variant.axes,
            seed=seed,
            topology=topology,
            transport=transport,
            traffic=traffic,
            classes=classes,
            packets=packets,
            fabric=fabric,
            faults=faults,
            routing=routing,
            stop=stop,
            outputs=outputs,
            resolved={
                "name": title,
                "description": tree.get("description", ""),
                "seed": seed,
                "topology": plugins.describe(topology, tree["topology"]),
                "transport": plugins.describe(transport, tree["transport"]),
                "traffic": plugins.describe(traffic, tree["traffic"]),
                **plugins.describe_classes(classes, tree),
                "packets": describe_packets(packets),
                "fabric": describe_fabric(fabric),
                **({"faults": describe_faults(faults)} if faults else {}),
                **({"routing": describe_routing(routing)} if faults else {}),
                "stop": describe_stop(stop),
                "outputs": describe_outputs(outputs),
                **({SECTION: tree[SECTION]} if tree.get(SECTION) else {}),
            },
            file=self._file,
            directory=self._directory,
        )

    def note_reference(self, tree: Tree, points: Sequence[Point]) -> None:
        """Note an axis of [reference] that none of the points has."""
        table = tree.get(SECTION)
        axis = table.get("axis") if isinstance(table, dict) else None
        if isinstance(axis, str) and points:
            problems = [axis_problem(axis, point.resolved) for point in points]
            if problems[0] is not None and all(problems):
                self.note(problems[0])

    def finish(self) -> list[InputError]:
        """All errors, with those that need every point to be known, each with its file."""
        self._fabrics.note_ineffective_keys()
        return self._errors.all()

    def _section(self, tree: Tree, name: str, resolve: Callable[[Tree], T]) -> T | None:
        table = tree.get(name, {})
        if not isinstance(table, dict):
            return None  # noted when the top level was checked
        return self._errors.once(name, f"{name} {table!r}", lambda: resolve(table))


def check_top_level(tree: Tree) -> list[InputError]:
    """What is wrong with the keys of the top level and the types of the sections."""
    try:
        FileSection.model_validate(tree)
    except ValidationError as error:
        return problems(error, FileSection, "")
    return []
