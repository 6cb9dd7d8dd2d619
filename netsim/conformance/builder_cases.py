"""Cases for plugins that the engine does not compile: topologies and traffic patterns.

Their functions run on small networks, with a range of values for each parameter, under a memory
limit.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

import numpy as np

from netsim.conformance import networks
from netsim.conformance.finding import Cases, ConformanceError, NotApplicableError
from netsim.conformance.handler_monitor import explain
from netsim.conformance.networks import everybody
from netsim.conformance.testbed import PROBE, Settings, Testbed
from netsim.errors import InputError
from netsim.frozen import frozen
from netsim.limits import CLASSES
from netsim.model.builder import topology_use
from netsim.model.fabric import PacketFormat, packet_counts
from netsim.model.flows import FlowTable, TrafficContext
from netsim.model.network import Network
from netsim.model.traffic import traffic_rng
from netsim.model.workload import Workload
from netsim.plugins.registry import Plugin, PluginSpec

TOPOLOGY, TRAFFIC = Cases(), Cases()

TRIED: Mapping[str, tuple[Any, ...]] = {
    "count": (0, 1, 2, 3, 7, 2**31 - 1),
    "bytes": ("1B", "1TB"),
    "sizes": ("1B", "web_search"),
    "time": ("0ns", "1ps", "1h"),
    "rate": ("1bps", "1Tbps"),
    "fraction": (0, 0.001, 0.5, 1),
    "ratio": (0, 1e-9, 1, 1e9),
    "bool": (False, True),
    "text": ("", "x", "3", "4x4"),
    "file": ("missing.csv",),
}
"""Values to try for each kind of parameter, as written in an experiment."""

MORE_BYTES = 1 << 30  # memory limit of a plugin in a test


class RefusedError(Exception):
    """The plugin refuses a network or parameters; the message says which."""


def try_values(plugin: Plugin, attempt: Callable[[dict[str, Any]], Any]) -> str:
    """Try values of every parameter and return how many are refused.

    `attempt` gets a parameter with its value, as the plugin gets it, and raises RefusedError if it
    is refused. Any other error becomes a ConformanceError.
    """
    n_tried = refused = 0
    for param in plugin.params:
        values = param.choices if param.unit == "choice" else TRIED.get(str(param.unit), ())
        for written in (*values, *([param.none] if param.optional else [])):
            try:
                value = param.convert(written)
            except InputError:
                continue
            n_tried += 1
            try:
                attempt({param.name: value})
            except RefusedError:
                refused += 1
            except ConformanceError as error:
                raise ConformanceError(f"{param.name} = {written}: {error}") from None
            except Exception as error:
                text = explain(error, plugin.path)
                raise ConformanceError(f"{param.name} = {written}: {text}") from None
    return f"{n_tried} values, {refused} of them refused"


@contextmanager
def refusals(reserve: str, *, keyed: bool) -> Iterator[None]:
    """Let the block raise RefusedError for an InputError of a plugin, and ConformanceError for an
    InputError that must name a key or file (`keyed`) but does not, or for too much memory;
    `reserve` is the function to call."""
    try:
        with _memory_limit():
            yield
    except InputError as error:
        if keyed and any(one.key is None and one.file is None for one in error.errors):
            raise ConformanceError(f"{error} (an error must name a key)") from None
        raise RefusedError(str(error)) from None
    except MemoryError:
        message = f"takes over 1 GiB of memory: call {reserve} before making arrays"
        raise ConformanceError(message) from None


@contextmanager
def _memory_limit() -> Iterator[None]:
    """Let the block raise MemoryError if it takes MORE_BYTES, on systems that support limits."""
    try:
        import resource

        soft, hard = resource.getrlimit(resource.RLIMIT_AS)
        pages = int(Path("/proc/self/statm").read_text("ascii").split()[0])
        most = pages * resource.getpagesize() + MORE_BYTES
    except (ImportError, OSError, ValueError):
        yield
        return
    if hard != resource.RLIM_INFINITY:
        most = min(most, hard)
    resource.setrlimit(resource.RLIMIT_AS, (most, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


SENDERS = 16  # maximum number of hosts that send to each other, spread over the network


@frozen
class TopologyTestbed(Testbed):
    """A topology with its parameters."""

    KIND = "topology"

    @classmethod
    def of(
        cls, named: str | Path, *, settings: Settings = None, seed: int = 1, long: bool = False
    ) -> Self:
        use = topology_use("topology", str(named), settings or {})
        return cls(use.plugin, use.params, seed, long, use.preset)

    def build(self, **changes: Any) -> Network:
        """Return the network, with some parameters changed; values are as the topology gets them.

        Raises RefusedError for an InputError and ConformanceError for too much memory; others pass.
        """
        params = {**self.params, **changes}
        given = dict(params)
        with refusals("builder.reserve", keyed=False):
            network = self.plugin.module.build(given)
            if not isinstance(network, Network):
                name = type(network).__name__
                raise ConformanceError(f"build() returned {name}, not a Network")
        if given != params:
            raise ConformanceError("build() changes its parameters")
        return network


@TOPOLOGY("network", "the network that the parameters describe")
def topology_network(testbed: TopologyTestbed) -> str:
    made = _made(testbed)
    return (
        f"{made.name}: {made.n_hosts} hosts, {made.n_switches} switches, {made.n_links} links, "
        f"diameter {made.diameter}"
    )


@TOPOLOGY("again", "the same network in a second call")
def again(testbed: TopologyTestbed) -> str:
    first, second = (vars(_made(testbed)) for _ in range(2))
    columns = {name: value for name, value in first.items() if isinstance(value, np.ndarray)}
    for name, value in columns.items():
        if not np.array_equal(value, second[name]):
            raise ConformanceError(f"{name} differs in a second call")
    return f"{len(columns)} columns are equal in two calls"


@TOPOLOGY("arrival", "packets of every host arrive at every other")
def arrival(testbed: TopologyTestbed) -> str:
    made = _made(testbed)
    if made.circuits is not None:
        raise NotApplicableError("packets may wait for a circuit")
    hosts = np.unique(np.linspace(0, made.n_hosts - 1, SENDERS).astype(np.int64))
    if hosts.size < 2:
        raise NotApplicableError("there is one host")
    pairs = everybody(hosts.size, testbed.packets(1))
    flows = FlowTable(hosts[pairs.src], hosts[pairs.dst], pairs.size_bytes, pairs.start_ps)
    run = Testbed.of(PROBE, seed=testbed.seed).run(flows, made, {"queue_bytes": "20MB"})
    if lost := run.total("drops") + run.unroutable:
        raise ConformanceError(f"{lost} packets do not arrive: routes lead nowhere or in a circle")
    return run.line()


@TOPOLOGY("parameters", "any value gives a network or a clear error")
def topology_parameters(testbed: TopologyTestbed) -> str:
    return try_values(testbed.plugin, lambda params: testbed.build(**params))


def _made(testbed: TopologyTestbed) -> Network:
    try:
        return testbed.build()
    except RefusedError as refusal:
        raise ConformanceError(str(refusal)) from None


MOST_FLOWS = 2_000_000  # limit on the flows that a pattern announces in a test

END_PS = 2 * 10**9

SECONDS = 20  # most time for flows of a large network, and a tenth of it per million flows


@frozen
class _Context(TrafficContext):
    """A context with little memory."""

    def reserve(self, n_flows: float, *, key: str = "traffic") -> None:
        if n_flows > MOST_FLOWS:
            raise InputError(f"{n_flows:,.0f} flows are too many here", key=key)


@frozen
class TrafficTestbed(Testbed):
    """A traffic pattern with its parameters, on small networks."""

    KIND = "traffic"

    def with_params(self, **params: Any) -> TrafficTestbed:
        """Return the testbed with some parameters changed; values are as a pattern gets them."""
        return replace(self, params={**self.params, **params})

    def load(self, network: Network, *, end_ps: int | None = None) -> Workload:
        """Return the pattern's flows and tasks on a network, with packets of 4,096 bytes of payload
        and 64 of header; `end_ps` as with [measure].

        Raises RefusedError for an error of the pattern that names a file or key, and
        ConformanceError for wrong flows or tasks or too much memory; other errors pass.
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


@TRAFFIC("flows", "valid flows, or a clear refusal")
def flows(testbed: TrafficTestbed) -> str:
    found = {network.name: _count(testbed, network) for network in _networks()}
    if not any(isinstance(one, int) for one in found.values()):
        raise ConformanceError("every network is refused: " + str(next(iter(found.values()))))
    return "; ".join(
        f"{name}: {one:,} flows" if isinstance(one, int) else f"{name}: refused"
        for name, one in found.items()
    )


@TRAFFIC("seed", "the same flows for the same seed")
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


@TRAFFIC("load", "open loop: the load that is given")
def load(testbed: TrafficTestbed) -> str:
    _require_open_loop(testbed)
    network = _accepted(testbed)
    table = testbed.flows(network)
    end_ps = testbed.params.get("duration") or int(table.start_ps.max())
    return _offered(testbed, table, network, end_ps)


@TRAFFIC("measured", "the same until the end of [measure]")
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


@TRAFFIC("parameters", "any value gives flows or a clear error")
def traffic_parameters(testbed: TrafficTestbed) -> str:
    def on_all_networks(params: dict[str, Any]) -> None:
        counts = [_count(testbed.with_params(**params), network) for network in _networks()]
        if not any(isinstance(count, int) for count in counts):
            raise RefusedError(counts[0])

    return try_values(testbed.plugin, on_all_networks)


@TRAFFIC("scale", "many hosts")
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
    """Yield networks of 2, 8, 9 and 16 hosts, two of them grids."""
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
    """Return the last of the networks that the pattern does not refuse."""
    for network in reversed(list(_networks())):
        if isinstance(_count(testbed, network), int):
            return network
    raise NotApplicableError("every network is refused")


def _require_open_loop(testbed: TrafficTestbed) -> None:
    param = testbed.plugin.param("load")
    if param is None or param.unit != "ratio" or testbed.params["load"] is None:
        raise NotApplicableError("it has no parameter load of kind ratio, or that is not set")


def _offered(testbed: TrafficTestbed, table: FlowTable, network: Network, end_ps: int) -> str:
    """Compare the load of flows until `end_ps` with the given load, within four standard errors."""
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
