"""Run a transport, queue discipline or routing algorithm on small networks, and check the run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import field, replace
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np

from netsim.common.steps import step
from netsim.conformance import networks
from netsim.conformance.finding import ConformanceError, NotApplicableError
from netsim.conformance.handler_monitor import HandlerMonitor, monitored_module
from netsim.conformance.networks import HOSTS, PACKET, everybody, incast_in_classes, incast_of
from netsim.engine.compiling import lint
from netsim.engine.compiling.declarations import Discipline, read_discipline
from netsim.engine.engine import Engine
from netsim.engine.simulation import Options, Simulation
from netsim.errors import InputError, raise_all
from netsim.experiment.resolve_fabric import (
    fabric_defaults,
    fabric_of,
    fabric_table,
    merge,
    resolve_fabric,
)
from netsim.frozen import frozen
from netsim.model.builder import with_tables
from netsim.model.checks import check_symmetric
from netsim.model.fabric import Fabric, PacketFormat, settle_sizes
from netsim.model.flows import FlowTable
from netsim.model.ideal import ideal_times
from netsim.model.network import Network
from netsim.model.paths import path_counts
from netsim.params import Params, resolve_params
from netsim.plugins import registry
from netsim.plugins.declarations import MAX_HOPS, classes_of
from netsim.plugins.registry import Plugin, PluginSpec
from netsim.reports.links import conserve
from netsim.running.drive import (
    FINISHED,
    UNDELIVERED,
    StallDetector,
    StepReport,
    drive,
    explain,
    flows_in_progress,
)
from netsim.units import format_time

WINDOWS = 100  # windows between two progress checks

STALL_WINDOWS, STALL_PS = 2_500, 100 * 10**12
"""A run has stalled if no byte is delivered for this many windows or this much time."""

HOPS_PER_IDEAL = 60  # multiple of the necessary packet-hops at which a run is aborted
Settings = Mapping[str, Any] | None  # a plugin's parameters, or keys of [fabric], as written
OF_RUN = ("tasks", "faults", "transport_of_flow")  # options that belong to an engine's `Simulation`

COUNTED = ("drops", "trims", "ecn_marks", "pfc_pauses")


@frozen
class Run:
    """A finished run."""

    engine: Engine

    def total(self, counter: str) -> int:
        """Return a counter of the links (see `LinkCounters`), summed over all ports and classes."""
        return int(getattr(self.engine.link_counters(), counter).sum())

    @property
    def lost(self) -> int:
        return self.total("lost_packets")

    @property
    def unroutable(self) -> int:
        return self.total("unroutable_packets")

    @property
    def sent(self) -> int:
        return int(self.engine.flow_states().sent_packets.sum())

    @property
    def retransmits(self) -> int:
        """Data packets sent again."""
        return int(self.engine.flow_states().retransmits.sum())

    def fct_ps(self) -> np.ndarray:
        """Return each flow's time from its start until its receiver has every byte."""
        flows = self.engine.flow_states()
        return flows.done_ps - flows.start_ps

    def acked_ps(self) -> np.ndarray:
        """Return each flow's time from its start until its sender called finish()."""
        flows = self.engine.flow_states()
        return flows.acked_ps - flows.start_ps

    def slowdown(self) -> np.ndarray:
        """Return each flow's FCT divided by its FCT in an idle network."""
        engine = self.engine
        multipath = not engine.fabric.one_path
        ideal = ideal_times(engine.network, engine.flows, PacketFormat(), multipath=multipath)
        return np.asarray(self.fct_ps() / ideal.fct_ps)

    def line(self) -> str:
        """Return a summary: packets sent, retransmitted, dropped and so on."""
        text = f"{len(self.engine.flows)} flows, {self.sent} packets"
        counts = {name: self.total(name) for name in COUNTED}
        counts = {"retransmits": self.retransmits, **counts, "lost": self.lost}
        counts["unroutable"] = self.unroutable
        return ", ".join([text, *(f"{n} {name}" for name, n in counts.items() if n)])


@frozen
class Testbed:
    """A transport with its parameters, on small networks; `seed` determines all randomness.
    `on_hang` is called, in another thread, if compiled code does not return."""

    KIND: ClassVar[str] = "transport"
    plugin: Plugin
    params: Params
    seed: int
    long: bool = False
    preset: str | None = None
    on_hang: Callable[[str], None] | None = None
    packet_format: PacketFormat = field(default_factory=PacketFormat)
    __test__ = False  # pytest collects nothing here

    @classmethod
    def of(
        cls, named: str | Path, *, settings: Settings = None, seed: int = 1, long: bool = False
    ) -> Self:
        """Return the testbed of a plugin, by name or file, and settings as written: parameters, or
        keys of [fabric]. Raises InputError if the plugin or a setting is unknown or wrong."""
        name, preset = registry.split_preset(str(named))
        plugin = registry.find(cls.KIND, name)
        file, given = str(plugin.path), settings or {}
        values = resolve_params(
            plugin.params, plugin.presets, given, preset, file=file, key=cls.KIND
        )
        lint.check(plugin, values)
        return cls(plugin, values, seed, long, preset)

    def packets(self, few: int) -> int:
        """Return the packets of a flow: few, or 20 times as many in a long check."""
        return 20 * few if self.long else few

    @property
    def n_traffic_classes(self) -> int:
        """Traffic classes of the flows in cases."""
        return 1

    def prepared(self, network: Network) -> Network:
        """Return a network as the plugin needs it."""
        return network

    def crowd(self) -> FlowTable:
        """Return flows that compete, so that a result depends on the order of events."""
        return incast_of(12 * PACKET - 5)

    @property
    def subject(self) -> Path:
        """The file under test."""
        return self.plugin.path

    @property
    def reliable(self) -> bool:
        """Whether the transport recovers losses; RELIABLE = False says that it does not."""
        return bool(getattr(self.plugin.module, "RELIABLE", True))

    @property
    def fabric_defaults(self) -> Mapping[str, Any]:
        return fabric_defaults(self.plugin.module, self.preset)

    def fabric(self, changes: Mapping[str, Any], network: Network) -> Fabric:
        """Return the fabric that the transport declares, with some keys changed."""
        fabric = resolve_fabric(merge(self.fabric_defaults, changes), self.packet_format)
        return fabric.for_network(network, self.packet_format)

    def engine(
        self,
        flows: FlowTable,
        network: Network,
        changes: Mapping[str, Any] | None = None,
        params: Params | None = None,
        *,
        monitor: HandlerMonitor | None = None,
        beside: Sequence[PluginSpec] = (),
        **options: Any,
    ) -> Engine:
        """Return an engine at time 0, with bounds checks if compiled.

        `beside` are other transports. `options` are the engine's options and the simulation's
        `tasks`, link `faults` and `transport_of_flow`, which is 1 or more for flows of other
        transports.
        """
        plugin = self.plugin
        if monitor is not None:
            plugin = replace(plugin, module=monitored_module(plugin.module, monitor))
        flows.validate(network.n_hosts)
        of_run = {name: options.pop(name) for name in OF_RUN if name in options}
        declared, packets = self.fabric(changes or {}, network), self.packet_format
        fabric, sizes = settle_sizes(declared, network, packets)
        uses = (PluginSpec(plugin, {**self.params, **(params or {})}), *beside)
        simulation = Simulation(
            network, flows, fabric, packets, uses, self.seed, sizes=sizes, **of_run
        )
        given = {"checked": True, "on_hang": self.on_hang, "on_code": _tell, **options}
        return Engine(simulation, Options(**given))

    def run(
        self,
        flows: FlowTable,
        network: Network | None = None,
        changes: Mapping[str, Any] | None = None,
        *,
        params: Params | None = None,
        jit: bool = False,
        until_ps: int | None = None,
        **options: Any,
    ) -> Run:
        """Run flows until all complete, and check what must hold for every run.

        With `until_ps` the run ends at that time, even if flows are active. Raises ConformanceError
        if a flow does not complete or a handler breaks a rule, InputError if a declaration is
        wrong, and RunError for errors of the engine.
        """
        network = network or networks.tree()
        monitor = None if jit else HandlerMonitor(self.plugin.module)
        with monitor.no_endless_loop() if monitor else nullcontext():
            engine = self.engine(
                flows, network, changes, params, monitor=monitor, jit=jit, **options
            )
            before = engine.fixed_fields()
            if until_ps is None:
                why = run_to_end(engine, _most_hops(flows, network))
            else:
                run_until(engine, until_ps)
        conserve(engine)
        run = Run(engine)
        lost = run.total("drops") + run.total("trims") + run.lost + run.unroutable > 0
        _untouched(before, engine)
        if until_ps is None:
            if self.reliable or not lost:
                _all_complete(engine, why)
            self.look_at_end(run)
        return run

    def look_at_end(self, run: Run) -> None:
        """Check more of a complete run: a flow alone on one path may retransmit only after a loss.
        Raises ConformanceError.
        """
        engine = run.engine
        bad = run.lost + run.unroutable + run.total("drops") + run.total("trims")
        in_order = engine.fabric.one_path and not engine.network.has_several_ports
        own = engine.flow_states().retransmits[engine.fixed_fields()["tx.transport"] == 0]
        quiet = (in_order or len(engine.flows) == 1) and not bad and engine.faults is None
        if quiet and own.any():
            raise ConformanceError(
                f"{int(own.sum())} packets were sent again, most of flow {int(own.argmax())}, and "
                "none was lost, trimmed or reordered: is a timeout shorter than a round trip?"
            )


def _tell(must_compile: bool) -> None:
    if must_compile:
        step("compiling the engine")


def run_to_end(engine: Engine, most_hops: int) -> str:
    """Run until all flows finish or cannot; return why the run ended early, or ""."""
    stall_detector = StallDetector(STALL_PS, STALL_WINDOWS)

    def look(report: StepReport) -> str | None:
        counts = report.counts
        if not report.is_running:
            return None
        if stall_detector.is_stalled(counts, counts.payload_bytes + counts.finished):
            return f"no progress since {format_time(stall_detector.since_ps, 4)}"
        if counts.hops > most_hops:
            return f"still active after {counts.hops} packet-hops"
        return None

    why = drive(engine, look, windows=WINDOWS)
    return {FINISHED: "", UNDELIVERED: "no events are left"}.get(why, why)


def run_until(engine: Engine, until_ps: int) -> None:
    drive(engine, until_ps=until_ps, stop_when_done=False, windows=WINDOWS)


def _most_hops(flows: FlowTable, network: Network) -> int:
    packets = int((-(-flows.size_bytes // PacketFormat().payload_bytes)).sum())
    return HOPS_PER_IDEAL * packets * 2 * network.diameter + 20_000


def _all_complete(engine: Engine, why: str) -> None:
    waiting = flows_in_progress(engine)
    if waiting.size or engine.counts.delivered < len(engine.flows):
        raise ConformanceError(
            f"{waiting.size} flows did not complete: {explain(engine, waiting, why)}"
        )
    flows = engine.flow_states()
    unfinished = np.flatnonzero(flows.finished == 0)
    if unfinished.size:
        raise ConformanceError(
            f"flow {unfinished[0]} arrived, but its sender never called finish() "
            f"({unfinished.size} flows; {why})"
        )
    early = np.flatnonzero(flows.received_bytes != engine.flows.size_bytes)
    if early.size:
        raise ConformanceError(
            f"flow {early[0]}: received_bytes must equal its size (only deliver() may change it)"
        )


def _untouched(before: Mapping[str, np.ndarray], engine: Engine) -> None:
    for name, now in engine.fixed_fields().items():
        if not np.array_equal(before[name], now):
            raise ConformanceError(f"{name} was changed; it belongs to the engine")


PROBE = Path(__file__).with_name("probe.py")
CLASSES = 3  # traffic classes if the discipline leaves their number to [fabric]
QUIET_PS = 10**10  # time within which a network must drain once its flows have ended


@frozen
class FabricTestbed(Testbed):
    """The plugin that the key `CHOICE` of [fabric] names, with other keys, on small networks. Hosts
    send datagrams, each once, at line rate."""

    CHOICE: ClassVar[str]
    named: str = ""
    keys: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(
        cls, named: str | Path, *, settings: Settings = None, seed: int = 1, long: bool = False
    ) -> Self:
        probe = Testbed.of(PROBE, seed=seed, long=long)
        testbed = cls(probe.plugin, probe.params, seed, long, named=str(named), keys=settings or {})
        raise_all(list(fabric_table(testbed._table()).unknown.values()))
        lint.check(testbed.use.plugin, testbed.use.params)
        return testbed

    def _table(self) -> dict[str, Any]:
        return {**self.keys, self.CHOICE: self.named}

    @property
    def use(self) -> PluginSpec:
        """The plugin under test with its parameters."""
        return fabric_of(fabric_table(self._table()), PacketFormat()).plugins[self.CHOICE]

    @property
    def subject(self) -> Path:
        return fabric_table({self.CHOICE: self.named}).plugins[self.CHOICE].path

    @property
    def defaults(self) -> Mapping[str, Any]:
        """Keys of [fabric] that `keys` may override."""
        return {}

    def fabric(self, changes: Mapping[str, Any], network: Network) -> Fabric:
        """Return the fabric of the plugin, with some keys changed."""
        packets = PacketFormat()
        table = {**self.defaults, **self.keys, **changes, self.CHOICE: self.named}
        return fabric_of(fabric_table(table), packets).for_network(network, packets)

    def look_at_end(self, run: Run) -> None:
        """Check that switches become empty and no neighbor stays paused."""
        run_until(run.engine, run.engine.now_ps + QUIET_PS)
        held = run.engine.conservation().packets.in_flight
        if held:
            raise ConformanceError(
                f"{held} packets are never sent (`choose_class` must call wait_until before it "
                "returns NO_CLASS)"
            )
        if run.engine.paused_classes().any():
            raise ConformanceError("a neighbor stays paused although switches are empty")


@frozen
class QueueTestbed(FabricTestbed):
    """A queue discipline, with keys of [fabric], on small networks."""

    KIND, CHOICE = "queue", "queue_discipline"

    @property
    def n_traffic_classes(self) -> int:
        module = fabric_table({self.CHOICE: self.named}).plugins[self.CHOICE].module
        least, _ = classes_of(module) or (CLASSES, CLASSES)
        return int(self.keys.get("n_traffic_classes", least))

    @property
    def defaults(self) -> Mapping[str, Any]:
        return {"n_traffic_classes": self.n_traffic_classes}

    def crowd(self) -> FlowTable:
        return incast_in_classes(8, self.n_traffic_classes)

    @property
    def discipline(self) -> Discipline:
        """The discipline's declarations and features."""
        return read_discipline(self.use.module, self.use.params, self.use.plugin.name)


@frozen
class RoutingTestbed(FabricTestbed):
    """A routing algorithm, with keys of [fabric], on small networks."""

    KIND, CHOICE = "routing", "routing"

    @property
    def defaults(self) -> Mapping[str, Any]:
        return {"queue_bytes": "20MB"}

    def fabric(self, changes: Mapping[str, Any], network: Network) -> Fabric:
        """Return the algorithm's fabric, with some keys changed. Raises NotApplicableError for a
        network that does not allow symmetric paths."""
        fabric = super().fabric(changes, network)
        if fabric.symmetric:
            try:
                check_symmetric(network, fabric.plane_balancing)
            except InputError as error:
                raise NotApplicableError(error.message) from None
        return fabric

    def prepared(self, network: Network) -> Network:
        """Return a network with the algorithm's tables, if it makes them."""
        return with_tables(network, self.use)

    def crowd(self) -> FlowTable:
        return everybody(HOSTS, 6)

    def most_links(self, network: Network) -> int:
        """Return the most links that a packet may cross: MAX_HOPS of the file, or the longest path
        in the routing tables, twice that with VIA."""
        declared = getattr(self.use.module, "MAX_HOPS", None)
        if declared is not None:
            return int(declared(network) if callable(declared) else declared)
        ways = 2 if getattr(self.use.module, "VIA", False) else 1
        return min(2 + ways * longest_way(network), MAX_HOPS)

    def deliver(self, flows: FlowTable, network: Network, **options: Any) -> Run:
        """Run flows; every packet must arrive, over at most `most_links` links."""
        most = self.most_links(network)
        limited = replace(self, params={**self.params, "max_hops": most})
        try:
            run = limited.run(flows, network, **options)
        except ConformanceError as error:
            if "AssertionError" not in str(error):
                raise
            text = f"a packet crossed more than {most} links in {network.name}"
            raise ConformanceError(
                f"{text} (MAX_HOPS, or the routing tables' longest way)"
            ) from None
        if run.unroutable:
            text = f"{run.unroutable} packets crossed {MAX_HOPS} links in {network.name}: a loop"
            raise ConformanceError(text)
        return run

    def look_at_end(self, run: Run) -> None:
        """Also check that no packet is dropped, since queues are deep."""
        super().look_at_end(run)
        if run.total("drops"):
            text = f"{run.total('drops')} packets are dropped in {run.engine.network.name}"
            raise ConformanceError(f"{text}: queues of 20 MB are full, so the load is not spread")


def longest_way(network: Network) -> int:
    """Return the most links between two edge switches by the network's routing tables."""
    numbers = range(network.first_group.size - 1)
    return max(int(path_counts(network, number).hops.max()) for number in numbers)
