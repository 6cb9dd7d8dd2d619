"""Cases for traffic patterns: their flows on small networks."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from netsim.conformance import networks
from netsim.conformance.finding import Cases, ConformanceError, NotApplicableError
from netsim.conformance.testbed import Testbed
from netsim.conformance.tried import RefusedError, refusals, try_values
from netsim.errors import InputError
from netsim.experiment.scenario import traffic_rng
from netsim.limits import CLASSES
from netsim.model.fabric import PacketFormat, packet_counts
from netsim.model.flows import FlowTable, TrafficContext
from netsim.model.network import Network
from netsim.model.workload import Workload
from netsim.plugins.params import Param
from netsim.plugins.registry import PluginSpec

CASES = Cases()

MOST_FLOWS = 2_000_000
"""Most flows that a pattern may announce in a test."""

END_PS = 2 * 10**9

SECONDS = 20
"""Most time for the flows of a large network, and a tenth of it for each million flows besides."""


@dataclass(frozen=True)
class _Context(TrafficContext):
    """A context with little memory."""

    def reserve(self, n_flows: float, *, key: str = "traffic") -> None:
        if n_flows > MOST_FLOWS:
            raise InputError(f"{n_flows:,.0f} flows are too many here", key=key)


@dataclass(frozen=True)
class TrafficTestbed(Testbed):
    """A traffic pattern with its parameters, on small networks."""

    KIND = "traffic"

    def with_params(self, **params: Any) -> TrafficTestbed:
        """Return the testbed with some parameters changed; values are as a pattern gets them."""
        return replace(self, params={**self.params, **params})

    def load(self, network: Network, *, end_ps: int | None = None) -> Workload:
        """Return the pattern's flows and tasks on a network, at 4,096 bytes of payload and 64 of
        header in a packet; `end_ps` as with [measure].

        Raises RefusedError for an error of the pattern that names a file or key, ConformanceError
        for flows or tasks that are wrong or too much memory, and whatever else the pattern raises.
        """
        context = _Context(
            Path(), self.seed, network.host_rate_bps, n_traffic_classes=CLASSES, end_ps=end_ps
        )
        params = dict(self.params)
        with refusals("context.reserve", keyed=True):
            made = self.plugin.module.flows(params, network, traffic_rng(self.seed), context)
        if params != self.params:
            raise ConformanceError("flows() changes its parameters")
        if not isinstance(made, FlowTable | Workload):
            raise ConformanceError(f"flows() returned {type(made).__name__}, not a FlowTable")
        load = made if isinstance(made, Workload) else Workload(made)
        load = load.with_program(PluginSpec(self.plugin, self.params), network.n_hosts)
        try:
            load.validate(network.n_hosts)
        except InputError as error:
            raise ConformanceError(str(error)) from None
        return load

    def flows(self, network: Network, *, end_ps: int | None = None) -> FlowTable:
        """Return the flows of `load`."""
        return self.load(network, end_ps=end_ps).flows


def columns_of(load: Workload) -> dict[str, Any]:
    """Return all columns of a workload's flows and tasks, by name."""
    tables = {"flows": load.flows, "tasks": load.tasks}
    found = {
        f"{table}.{name}": value
        for table, of in tables.items()
        if of is not None
        for name, value in vars(of).items()
    }
    return {name: value for name, value in found.items() if isinstance(value, np.ndarray | list)}


@CASES("flows", "valid flows, or a clear refusal")
def flows(testbed: TrafficTestbed) -> str:
    found = {network.name: _count(testbed, network) for network in _networks()}
    if not any(isinstance(one, int) for one in found.values()):
        raise ConformanceError("every network is refused: " + str(next(iter(found.values()))))
    return "; ".join(
        f"{name}: {one:,} flows" if isinstance(one, int) else f"{name}: refused"
        for name, one in found.items()
    )


@CASES("seed", "the same flows for the same seed")
def seed(testbed: TrafficTestbed) -> str:
    network = _accepted(testbed)
    runs = []
    for global_seed in (1, 2):
        random.seed(global_seed)
        np.random.seed(global_seed)
        runs.append(columns_of(testbed.load(network)))
    for name, column in runs[0].items():
        if not np.array_equal(column, runs[1][name]):
            raise ConformanceError(f"{name} differs in a second call (use `rng` and no other)")
    return f"{len(runs[0])} columns are equal in two calls"


@CASES("load", "open loop: the load that is given")
def load(testbed: TrafficTestbed) -> str:
    _require_open_loop(testbed)
    network = _accepted(testbed)
    table = testbed.flows(network)
    end_ps = testbed.params.get("duration") or int(table.start_ps.max())
    return _offered(testbed, table, network, end_ps)


@CASES("measured", "the same until the end of [measure]")
def measured(testbed: TrafficTestbed) -> str:
    _require_open_loop(testbed)
    network = _accepted(testbed)
    ends = [param for param in testbed.plugin.params if param.name in ("duration", "n_flows")]
    without = {param.name: None for param in ends if param.optional}
    try:
        table = testbed.with_params(**without).flows(network, end_ps=END_PS)
    except RefusedError as refusal:
        raise ConformanceError(f"with [measure]: {refusal}") from None
    return _offered(testbed, table, network, END_PS)


@CASES("parameters", "any value gives flows or a clear error")
def parameters(testbed: TrafficTestbed) -> str:
    def on_all_networks(params: dict[str, Any]) -> None:
        counts = [_count(testbed.with_params(**params), network) for network in _networks()]
        if not any(isinstance(count, int) for count in counts):
            raise RefusedError(counts[0])

    return try_values(testbed.plugin, on_all_networks)


@CASES("scale", "many hosts")
def scale(testbed: TrafficTestbed) -> str:
    network = networks.star(8192 if testbed.long else 1024)
    began = time.process_time()
    count = _count(testbed, network)
    seconds = time.process_time() - began
    what = f"{network.n_hosts:,} hosts"
    if not isinstance(count, int):
        raise NotApplicableError(f"{what} are refused: {count}")
    if seconds > SECONDS * (1 + count / 10**7):
        raise ConformanceError(f"{count:,} flows of {what} take {seconds:.0f} s")
    return f"{count:,} flows of {what}"


def _networks() -> Iterator[Network]:
    """Yield 2, 8, 9 and 16 hosts, two of them in a grid."""
    yield networks.star(2)
    yield networks.tree()
    yield networks.torus("3x3")
    yield networks.torus("4x4")


def _count(testbed: TrafficTestbed, network: Network) -> int | str:
    """Return the number of flows, or why the network is refused."""
    try:
        return len(testbed.flows(network))
    except RefusedError as refusal:
        return str(refusal)


def _accepted(testbed: TrafficTestbed) -> Network:
    """Return the last network that the pattern does not refuse."""
    for network in reversed(list(_networks())):
        if isinstance(_count(testbed, network), int):
            return network
    raise NotApplicableError("every network is refused")


def _param(testbed: TrafficTestbed, name: str) -> Param:
    return next(param for param in testbed.plugin.params if param.name == name)


def _require_open_loop(testbed: TrafficTestbed) -> None:
    given = testbed.params.get("load")
    if given is None or _param(testbed, "load").unit != "ratio":
        raise NotApplicableError("it has no parameter load of kind ratio, or that is not set")


def _offered(testbed: TrafficTestbed, table: FlowTable, network: Network, end_ps: int) -> str:
    """Compare the load of flows until `end_ps` with that given, within four standard errors."""
    packets = PacketFormat()
    wire = table.size_bytes + packet_counts(table.size_bytes, packets) * packets.header_bytes
    senders = np.unique(table.src).size
    offered = float(wire.sum()) * 8 * 10**12 / (senders * network.host_rate_bps * end_ps)
    error = float(np.sqrt((wire.astype(float) ** 2).sum()) / wire.sum())
    if error > 0.1:
        raise NotApplicableError(f"{len(table)} flows are too few to tell (set a longer duration)")
    given = float(testbed.params["load"])
    if abs(offered / given - 1) > 4 * error + 0.01:
        raise ConformanceError(f"offers a load of {offered:.4g} instead of {given:.4g}")
    return f"{len(table):,} flows offer a load of {offered:.4g}, given {given:.4g}"
