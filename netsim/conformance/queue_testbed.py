"""Run a queue discipline on a small network and check the run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from netsim.conformance.finding import ConformanceError
from netsim.conformance.testbed import Run, Testbed, run_until
from netsim.engine.compiling.declarations import read_discipline
from netsim.errors import raise_all
from netsim.experiment.resolve_fabric import fabric_of, fabric_table
from netsim.lint import check_queue
from netsim.model.fabric import DROP_TAIL, Fabric, PacketFormat
from netsim.model.network import Network
from netsim.plugins.declarations import classes_of

PROBE = Path(__file__).with_name("probe.py")
CLASSES = 3
"""Traffic classes of a discipline that leaves their number to [fabric]."""

QUIET_PS = 10**10
"""Time in which an idle network must become empty."""


@dataclass(frozen=True)
class QueueTestbed(Testbed):
    """A queue discipline, with keys of [fabric], on small networks.

    Hosts send datagrams, each once, at line rate.
    """

    queue: str = DROP_TAIL
    keys: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def with_queue(
        cls,
        queue: str | Path,
        *,
        keys: Mapping[str, Any] | None = None,
        seed: int = 1,
        long: bool = False,
    ) -> QueueTestbed:
        """Return the testbed of a discipline, by name or file, and keys of [fabric] as written.

        Raises InputError if the discipline or a key is unknown or wrong.
        """
        probe = Testbed.of(PROBE, seed=seed, long=long)
        testbed = cls(probe.plugin, probe.params, seed, long, queue=str(queue), keys=keys or {})
        source = fabric_table({**testbed.keys, "queue_discipline": testbed.queue})
        raise_all(list(source.unknown.values()))
        use = fabric_of(source, PacketFormat()).queue
        check_queue(use.plugin, use.params)
        return testbed

    @property
    def subject(self) -> Path:
        return fabric_table({"queue_discipline": self.queue}).plugins["queue_discipline"].path

    @property
    def n_traffic_classes(self) -> int:
        module = fabric_table({"queue_discipline": self.queue}).plugins["queue_discipline"].module
        least, _ = classes_of(module) or (CLASSES, CLASSES)
        return int(self.keys.get("n_traffic_classes", least))

    @property
    def features(self) -> Mapping[str, bool]:
        """Engine features that the discipline uses, by their names in `Discipline`."""
        use = fabric_of(
            fabric_table({**self.keys, "queue_discipline": self.queue}), PacketFormat()
        ).queue
        return read_discipline(use.module, use.params, use.plugin.name).features

    def fabric(self, changes: Mapping[str, Any], network: Network) -> Fabric:
        """Return the discipline's fabric, with some keys changed."""
        packets = PacketFormat()
        table = {
            "n_traffic_classes": self.n_traffic_classes,
            **self.keys,
            **changes,
            "queue_discipline": self.queue,
        }
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
