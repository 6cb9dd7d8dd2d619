"""Run a queue discipline or a routing algorithm on small networks and check the run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np

from netsim.conformance.finding import ConformanceError, NotApplicableError
from netsim.conformance.networks import HOSTS, everybody, incast_in_classes
from netsim.conformance.testbed import Run, Settings, Testbed, run_until
from netsim.engine.compiling import lint
from netsim.engine.compiling.declarations import read_discipline
from netsim.errors import InputError, raise_all
from netsim.experiment.resolve_fabric import fabric_of, fabric_table
from netsim.model.checks import check_symmetric
from netsim.model.fabric import Fabric, PacketFormat
from netsim.model.flows import FlowTable
from netsim.model.network import Network
from netsim.model.parts import with_tables
from netsim.model.routing import COUNT_BITS, COUNT_MASK
from netsim.plugins.declarations import MAX_HOPS, classes_of
from netsim.plugins.registry import PluginSpec

PROBE = Path(__file__).with_name("probe.py")
CLASSES = 3
"""Traffic classes of a discipline that leaves their number to [fabric]."""

QUIET_PS = 10**10
"""Time within which a network must drain once its flows have ended."""


@dataclass(frozen=True)
class FabricTestbed(Testbed):
    """The plugin that the key `CHOICE` of [fabric] names, with other keys, on small networks.

    Hosts send datagrams, each once, at line rate.
    """

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


@dataclass(frozen=True)
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
    def features(self) -> Mapping[str, bool]:
        """Engine features that the discipline uses, by their names in `Discipline`."""
        use = self.use
        return read_discipline(use.module, use.params, use.plugin.name).features


@dataclass(frozen=True)
class RoutingTestbed(FabricTestbed):
    """A routing algorithm, with keys of [fabric], on small networks."""

    KIND, CHOICE = "routing", "routing"

    @property
    def defaults(self) -> Mapping[str, Any]:
        return {"queue_bytes": "20MB"}

    def fabric(self, changes: Mapping[str, Any], network: Network) -> Fabric:
        """Return the algorithm's fabric, with some keys changed. Raises NotApplicableError for a
        network in which it cannot be symmetric."""
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
        """Return the most links that a packet may cross: MAX_HOPS of the file, or the longest way
        of the routing tables, twice with VIA."""
        declared = getattr(self.use.module, "MAX_HOPS", None)
        if declared is not None:
            return int(declared(network) if callable(declared) else declared)
        ways = 2 if getattr(self.use.module, "VIA", False) else 1
        return min(2 + ways * longest_way(network), MAX_HOPS)

    def deliver(self, flows: FlowTable, network: Network, **options: Any) -> Run:
        """Run flows of which every packet must arrive, by at most `most_links` links."""
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
        """Check also that no packet is dropped: queues are deep."""
        super().look_at_end(run)
        if run.total("drops"):
            text = f"{run.total('drops')} packets are dropped in {run.engine.network.name}"
            raise ConformanceError(f"{text}: queues of 20 MB are full, so the load is not spread")


def longest_way(network: Network) -> int:
    """Return the most links between two edge switches by the network's routing tables."""
    groups = range(int(np.diff(network.first_group).max()))
    return max(_longest(network, group) for group in groups)


def _longest(network: Network, group: int) -> int:
    """Return the most links from any switch to the edge switch of a group of its network."""
    links = np.full(network.n_switches, -1)
    n_groups = np.diff(network.first_group)[network.switch_network]

    def of(switch: int, crossed: int) -> int:
        if links[switch] < 0 and crossed < MAX_HOPS and group < n_groups[switch]:
            entry = int(network.route[network.route_first[switch] + group])
            offset, count = entry >> COUNT_BITS, entry & COUNT_MASK
            first = network.node_first_port[network.n_hosts + switch]
            ports = first + network.route_ports[offset : offset + count] if entry > 0 else []
            after = [int(network.port_node[network.port_peer[port]]) for port in ports]
            ways = [1 + of(node - network.n_hosts, crossed + 1) for node in after]
            links[switch] = max(ways, default=0)
        return max(0, int(links[switch]))

    return max(of(switch, 0) for switch in range(network.n_switches))
