"""The points of a checked experiment file, which need no further checks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from netsim.model.fabric import Fabric, PacketFormat
from netsim.model.faults import CarrierDelays
from netsim.plugins.registry import PluginSpec

BATCHES = 20
"""Equal parts of a measured window, whose means give the interval of the mean."""


@dataclass(frozen=True)
class FlowClass:
    """A table [flow_classes.NAME]: own traffic, or these `kinds` of flows of the main traffic."""

    name: str
    transport: PluginSpec
    traffic: PluginSpec | None
    kinds: tuple[str, ...] = ()


@dataclass(frozen=True)
class FaultSpec:
    """A checked [faults.NAME] section; its ports are known once the network is built.

    Either `links` or `node` is a pattern of names, the other None. From `at_ps` until `until_ps`,
    packets are lost at random, links have the rate `rate_bps` (NOMINAL: their own), and they fail
    and recover with mean times `mtbf_ps` and `mttr_ps` (None: never). With `resize_queues`, sizes
    in bdp are of `rate_bps`.
    """

    name: str
    links: str | None
    node: str | None
    loss_rate: float
    bit_error_rate: float
    rate_bps: int
    resize_queues: bool
    mtbf_ps: int | None
    mttr_ps: int | None
    at_ps: int
    until_ps: int
    outages_ps: tuple[tuple[int, int], ...]

    @property
    def takes_down(self) -> bool:
        return bool(self.outages_ps) or self.mtbf_ps is not None


@dataclass(frozen=True)
class StopCondition:
    """When a run stops.

    `max_time_ps` is a limit on simulated time. A flow older than `flow_timeout_ps` is a stall. With
    `drain`, the run continues after the last flow until the network is empty.
    """

    max_time_ps: int | None = None
    flow_timeout_ps: int | None = None
    drain: bool = False


@dataclass(frozen=True)
class MeasureSpec:
    """The times of a throughput measurement: warm-up, window and drain, in ps."""

    warmup_ps: int
    window_ps: int
    drain_ps: int

    @property
    def end_ps(self) -> int:
        """The end of the run."""
        return self.warmup_ps + self.window_ps + self.drain_ps

    @property
    def edges_ps(self) -> NDArray[np.int64]:
        """The edges of the window's batches, int64[BATCHES + 1]."""
        edges = range(BATCHES + 1)
        return np.array([self.warmup_ps + self.window_ps * k // BATCHES for k in edges], np.int64)


@dataclass(frozen=True)
class RoutingSpec:
    """Delays of the reaction to failures, in ps or NEVER.

    `convergence_delay_ps` has patterns of switch names with the delay until new routes; the first
    match counts.
    """

    convergence_delay_ps: tuple[tuple[str, int], ...]
    carrier: CarrierDelays


@dataclass(frozen=True)
class SeriesSpec:
    """What to sample, as written; names are resolved with the network.

    `sample_interval` is in ps, "auto", or None: no series, but perhaps `queue_stats`. A number of
    ports, hosts or flows means this many, evenly spaced.
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
    """Result directory, relative to the working directory, and which tables are written."""

    directory: str
    links: bool = True
    series: SeriesSpec | None = None


@dataclass(frozen=True)
class Point:
    """One run, with every value explicit and valid.

    `axes` maps the dotted path of each sweep axis to its value as written. `resolved` is the point
    as an experiment file with all defaults. `file` and `directory` (absolute) are those of the
    experiment.
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
    measure: MeasureSpec | None
    outputs: Outputs
    resolved: dict[str, Any]
    file: str
    directory: Path

    @property
    def end_ps(self) -> int | None:
        """The latest end of the run, if the experiment sets one."""
        return self.stop.max_time_ps if self.measure is None else self.measure.end_ps

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
