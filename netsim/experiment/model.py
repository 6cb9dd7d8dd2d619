"""The points of a checked experiment file, which need no further checks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from netsim.experiment.schema import (
    FaultSection,
    MeasureSection,
    OutputsSection,
    RoutingSection,
    StopSection,
)
from netsim.model.fabric import Fabric, PacketFormat
from netsim.plugins.registry import PluginSpec


@dataclass(frozen=True)
class FlowClass:
    """A table [flow_classes.NAME]: own traffic, or these `kinds` of flows of the main traffic."""

    name: str
    transport: PluginSpec
    traffic: PluginSpec | None
    kinds: tuple[str, ...] = ()


@dataclass(frozen=True)
class Point:
    """One run, with every value explicit and valid.

    `axes` maps the dotted path of each sweep axis to its value as written. `resolved` is the point
    as an experiment file with all defaults. `file` and `directory` (absolute) are those of the
    experiment. Sections are as in `schema.py`.
    """

    index: int
    name: str
    axes: Mapping[str, Any]
    seed: int
    topology: PluginSpec
    transport: PluginSpec
    traffic: PluginSpec
    classes: tuple[FlowClass, ...]
    packets: PacketFormat
    fabric: Fabric
    faults: Mapping[str, FaultSection]
    routing: RoutingSection
    stop: StopSection
    measure: MeasureSection | None
    outputs: OutputsSection
    resolved: dict[str, Any]
    file: str
    directory: Path

    @property
    def end_ps(self) -> int | None:
        """The latest end of the run, if the experiment sets one."""
        return self.stop.max_time if self.measure is None else self.measure.end_ps

    @property
    def transport_of_class(self) -> tuple[PluginSpec, ...]:
        """The transport of each flow class by index; 0 is the experiment's own."""
        return (self.transport, *(c.transport for c in self.classes))

    @property
    def uses(self) -> tuple[PluginSpec, ...]:
        """All plugins of the run."""
        more = [use for c in self.classes for use in (c.transport, c.traffic) if use is not None]
        topology = (self.topology, *self.topology.parts)
        return (*topology, self.transport, self.traffic, *more, *self.fabric.plugins.values())
