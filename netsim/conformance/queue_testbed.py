"""Run a plugin of [fabric] on small networks and check the run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Self

from netsim import lint
from netsim.conformance.finding import ConformanceError
from netsim.conformance.flow_patterns import incast_in_classes
from netsim.conformance.testbed import Run, Testbed, run_until
from netsim.engine.compiling.declarations import read_discipline
from netsim.errors import raise_all
from netsim.experiment.resolve_fabric import fabric_of, fabric_table
from netsim.model.fabric import Fabric, PacketFormat
from netsim.model.flows import FlowTable
from netsim.model.network import Network
from netsim.plugins.declarations import classes_of
from netsim.plugins.registry import PluginSpec

PROBE = Path(__file__).with_name("probe.py")
CLASSES = 3
"""Traffic classes of a discipline that leaves their number to [fabric]."""

QUIET_PS = 10**10
"""Time in which an idle network must become empty."""


@dataclass(frozen=True)
class FabricTestbed(Testbed):
    """The plugin that the key `CHOICE` of [fabric] names, with other keys, on small networks.

    Hosts send datagrams, each once, at line rate.
    """

    CHOICE: ClassVar[str]
    named: str = ""
    keys: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(  # type: ignore[override] # it has keys, not parameters
        cls,
        named: str | Path,
        *,
        keys: Mapping[str, Any] | None = None,
        seed: int = 1,
        long: bool = False,
    ) -> Self:
        """Return the testbed of a plugin, by name or file, and keys of [fabric] as written.

        Raises InputError if the plugin or a key is unknown or wrong.
        """
        probe = Testbed.of(PROBE, seed=seed, long=long)
        testbed = cls(probe.plugin, probe.params, seed, long, named=str(named), keys=keys or {})
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

    CHOICE = "queue_discipline"

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
