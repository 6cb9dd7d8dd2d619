"""Test networks with one bottleneck, and measurements at its port."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from netsim.conformance.testbed import Testbed
from netsim.engine.engine import Engine
from netsim.frozen import frozen
from netsim.model.builder import build_topology
from netsim.model.fabric import PacketFormat
from netsim.model.faults import LinkFaults
from netsim.model.flows import FlowTable
from netsim.model.network import Network
from netsim.model.workload import TaskTable, Workload
from netsim.params import Params
from netsim.running.drive import drive

US, MS, S = 10**6, 10**9, 10**12
GBPS = 10**9

Flow = tuple[int, int, int, int]  # source, destination, bytes, start in ps


def dumbbell(pairs: int, host_bps: int, rate_bps: int, delays_ps: tuple[int, int]) -> Network:
    """Return two groups of hosts joined by a bottleneck. `delays_ps` are the delays of host links
    and of the bottleneck."""
    host_delay, delay = (f"{delay_ps}ps" for delay_ps in delays_ps)
    rates = {"host_rate": f"{host_bps}bps", "bottleneck_rate": f"{rate_bps}bps"}
    delays = {"host_delay": host_delay, "bottleneck_delay": delay}
    return build_topology("dumbbell", hosts=pairs, **rates, **delays)


def fat_tree(hosts_per_leaf: int, leaves: int, rate_bps: int) -> Network:
    """Return a fully provisioned two-tier tree with 1 us links."""
    given = {"hosts_per_leaf": hosts_per_leaf, "leaves": leaves, "host_rate": f"{rate_bps}bps"}
    return build_topology("fat_tree", **given)


def port_to(network: Network, host: int) -> int:
    """Return the switch port that feeds a host."""
    return int(network.port_peer[network.node_first_port[host]])


def bottleneck(network: Network) -> int:
    """Return the bottleneck's port in a `dumbbell`, left to right."""
    return int(network.node_first_port[network.n_hosts]) + network.n_hosts // 2


@frozen
class Bed:
    """A transport on a network; `fabric` changes the fabric that the transport declares."""

    transport: str
    network: Network
    params: Params = field(default_factory=dict)
    fabric: Mapping[str, Any] = field(default_factory=dict)
    packets: PacketFormat = field(default_factory=PacketFormat)
    seed: int = 1
    jit: bool = True

    @cached_property
    def testbed(self) -> Testbed:
        testbed = Testbed.of(self.transport, settings=self.params, seed=self.seed)
        return replace(testbed, packet_format=self.packets)

    def engine(
        self,
        flows: Sequence[Flow] | FlowTable,
        tasks: TaskTable | None = None,
        faults: LinkFaults | None = None,
    ) -> Engine:
        if not isinstance(flows, FlowTable):
            src, dst, size, start = (np.array(one, np.int64) for one in zip(*flows, strict=True))
            flows = FlowTable(src.astype(np.int32), dst.astype(np.int32), size, start)
        options: dict[str, Any] = {"jit": self.jit, "checked": False, "tasks": tasks}
        options["faults"] = faults
        return self.testbed.engine(flows, self.network, self.fabric, **options)


def simulated(network: Network, load: Workload) -> int:
    """Return when the last task of a workload ends, with datagrams and no drops. It runs as plain
    Python, which is faster for few packets than compiling."""
    bed = Bed("datagram", network, fabric={"queue_bytes": "1TB"}, jit=False)
    engine = bed.engine(load.flows, load.tasks)
    drive(engine)
    return int(engine.task_states().end_ps.max())


@frozen
class PortUse:
    """Samples of a port's queued bytes, and its utilization over the same time."""

    held: NDArray[np.int64]
    busy: float


def run_until(engine: Engine, until_ps: int) -> None:
    drive(engine, until_ps=until_ps, stop_when_done=False)


def watch(engine: Engine, port: int, since_ps: int, until_ps: int, step_ps: int) -> PortUse:
    """Run to ``until_ps``; sample the port, over all classes, from ``since_ps`` on."""
    run_until(engine, since_ps)
    before = _of_port(engine, "sent_bytes", port)
    held = []
    for t in range(since_ps + step_ps, until_ps + 1, step_ps):
        run_until(engine, t)
        held.append(_of_port(engine, "queue_bytes", port))
    sent = _of_port(engine, "sent_bytes", port) - before
    rate = float(engine.network.port_rate_bps[port])
    return PortUse(np.array(held), sent * 8e12 / rate / (until_ps - since_ps))


def _of_port(engine: Engine, counter: str, port: int) -> int:
    n = engine.fabric.n_link_classes
    return int(getattr(engine.link_counters(), counter)[port * n : (port + 1) * n].sum())


def fct_ps(engine: Engine, end: str = "done_ps") -> NDArray[np.int64]:
    """Run to the end; return each flow's completion time, at its receiver (``done_ps``) or sender
    (``acked_ps``)."""
    drive(engine)
    flows = engine.flow_states()
    return np.asarray(getattr(flows, end) - flows.start_ps)
