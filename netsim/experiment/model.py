"""What an experiment file becomes once it is checked: points that need no further checking."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from netsim.model.fabric import Fabric, PacketFormat
from netsim.model.faults import CarrierDelays
from netsim.plugins.registry import PluginSpec


@dataclass(frozen=True)
class FlowClass:
    """A table [flow_classes.NAME]: flows with a transport of their own.

    Those are more traffic or, without, flows of these `kinds` of the experiment's own traffic.
    """

    name: str
    transport: PluginSpec
    traffic: PluginSpec | None
    kinds: tuple[str, ...] = ()


@dataclass(frozen=True)
class FaultSpec:
    """A checked [faults.NAME] section; which ports it means is known with the network.

    Either `links` or `node` is a pattern of names, the other None. From `at_ps` until `until_ps`
    packets are lost by chance, links have the rate `rate_bps` (NOMINAL: their own), and they fail
    and are repaired at random, with mean times `mtbf_ps` and `mttr_ps` (None: they do not).
    """

    name: str
    links: str | None
    node: str | None
    loss_rate: float
    bit_error_rate: float
    rate_bps: int
    mtbf_ps: int | None
    mttr_ps: int | None
    at_ps: int
    until_ps: int
    outages_ps: tuple[tuple[int, int], ...]

    @property
    def takes_down(self) -> bool:
        """Whether links go down."""
        return bool(self.outages_ps) or self.mtbf_ps is not None


@dataclass(frozen=True)
class StopCondition:
    """When a run ends before its flows do.

    `max_time_ps`: simulated time at which it stops. `flow_timeout_ps`: a flow older than
    this is a stall. `drain`: run on until the network is empty once all flows have finished.
    """

    max_time_ps: int | None = None
    flow_timeout_ps: int | None = None
    drain: bool = False


@dataclass(frozen=True)
class RoutingSpec:
    """How long after a change who knows of it, in ps or NEVER.

    `convergence_delay_ps` are patterns of switches' names, each with the time after which those
    have new routes; the first that fits counts.
    """

    convergence_delay_ps: tuple[tuple[str, int], ...]
    carrier: CarrierDelays


@dataclass(frozen=True)
class SeriesSpec:
    """What is kept over time, as it is written; what there is of it is known with the network.

    `sample_interval` is in ps, "auto", or None: no series, but perhaps `queue_stats`. A number of
    ports, hosts or flows means this many, evenly spread.
    """

    sample_interval: int | str | None
    ports: int | tuple[str, ...]
    hosts: int | tuple[str, ...]
    flows: int | tuple[int | str, ...]
    fields: tuple[str, ...]
    sample_budget_bytes: int
    queue_stats: bool


@dataclass(frozen=True)
class Outputs:
    """Where results go, relative to the working directory, and which tables are kept."""

    directory: str
    links: bool = True
    series: SeriesSpec | None = None


@dataclass(frozen=True)
class Point:
    """One run: everything explicit and valid.

    `axes` maps the dotted path of each axis of the sweep to the value written there;
    `resolved` is the whole point as an experiment file would say it, every default
    included. `file` and `directory` (absolute) are those of the experiment.
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
    faults: tuple[FaultSpec, ...]
    routing: RoutingSpec
    stop: StopCondition
    outputs: Outputs
    resolved: dict[str, Any]
    file: str
    directory: Path

    @property
    def transport_of_class(self) -> tuple[PluginSpec, ...]:
        """The transport of each flow class by its number; 0 is the experiment's own."""
        return (self.transport, *(c.transport for c in self.classes))

    @property
    def uses(self) -> tuple[PluginSpec, ...]:
        """Every plugin that the run takes."""
        more = [use for c in self.classes for use in (c.transport, c.traffic) if use is not None]
        topology = (self.topology, *self.topology.parts)
        return (*topology, self.transport, self.traffic, *more, self.fabric.queue)
