"""Build and run engines on netsim's topologies, and read their results."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from netsim.engine.engine import Engine
from netsim.engine.kernels import loop
from netsim.engine.kernels.layout import INF, RUNNING
from netsim.engine.kernels.packets import PAUSE_END, PFC
from netsim.engine.partitioned import PartitionedEngine
from netsim.engine.simulation import Options, Simulation, Sizes
from netsim.engine.snapshot import in_queues, on_links
from netsim.model.fabric import Ecn, Fabric, PacketFormat, queue_spec, routing_spec
from netsim.model.faults import LinkFault
from netsim.model.flows import FlowTable
from netsim.model.network import Network
from netsim.params import resolve_params
from netsim.plugins import registry
from netsim.plugins.registry import PluginSpec

PACKET = 4160  # bytes of a full packet on the wire, with the default sizes
US = 1_000_000
NS = 1_000

loop.SHARED_NS = 0  # short windows are shared among threads, too


def fabric_with(model: str = "drop_tail", **given: Any) -> Fabric:
    """Return a fabric of built-in plugins from discipline sizes in bytes and `Fabric` fields."""
    if isinstance(given.get("routing"), str):
        given["routing"] = routing_spec(given["routing"])
    shared = {one.name: given.pop(one.name) for one in fields(Fabric) if one.name in given}
    return Fabric(queue_spec(model, **given), **shared)


def changed(fabric: Fabric, **params: Any) -> Fabric:
    """Return the fabric with other discipline parameters; unknown ones are ignored."""
    known = {**fabric.queue.params}
    known |= {name: value for name, value in params.items() if name in known}
    return replace(fabric, queue=replace(fabric.queue, params=known))


LOSSLESS = fabric_with("lossless", xoff_bytes=15 * PACKET, xon_bytes=12 * PACKET)
TRIM = fabric_with(
    "trim",
    routing="spray_permutation",
    n_traffic_classes=2,
    queue_bytes=35 * PACKET,
    header_queue_bytes=1_000_000,
)
DROP_TAIL = fabric_with(queue_bytes=10**12)

NARROW = Sizes(scratch=4)  # scratch memory so small that it must grow immediately


def bdp_queues(queue: int = 29, kmin: int = 6, kmax: int = 24) -> Fabric:
    """Return queues for SMaRTT and NSCC, in packets: one BDP, marked from 20 % to 80 %."""
    return fabric_with(
        "trim",
        routing="ecmp",
        n_traffic_classes=2,
        queue_bytes=queue * PACKET,
        header_queue_bytes=1_000_000,
        ecn=Ecn(kmin * PACKET, kmax * PACKET, 1.0, "dequeue"),
        ecn_from_class=1,
    )


def fat_tree(hosts_per_leaf: int, leaves: int, rate: str, **params: Any) -> Network:
    """Return a two-tier tree, non-blocking unless the parameters differ; links of 1 us."""
    plugin = registry.find("topology", "fat_tree")
    given = {"hosts_per_leaf": hosts_per_leaf, "leaves": leaves, "host_rate": rate, **params}
    return plugin.module.build(resolve(plugin, given))


def dumbbell(**given: Any) -> Network:
    """Return a dumbbell with the topology's parameters."""
    plugin = registry.find("topology", "dumbbell")
    return plugin.module.build(resolve(plugin, given))


def resolve(plugin: registry.Plugin, given: dict[str, Any]) -> dict[str, Any]:
    """Return the parameters in the engine's units."""
    return resolve_params(plugin.params, plugin.presets, given, None, file=None, key=plugin.kind)


def build(
    network: Network,
    flows: FlowTable,
    transport: str,
    fabric: Fabric,
    *,
    seed: int = 1,
    params: dict[str, Any] | None = None,
    packets: PacketFormat | None = None,
    beside: Sequence[PluginSpec] = (),
    **more: Any,
) -> Engine:
    """Return an engine at time 0; ``params`` are the transport's, as a user writes them. ``more``
    are fields of `Simulation` and of `Options`."""
    packets = packets or PacketFormat()
    plugin = registry.find("transport", transport)
    fabric = fabric.for_network(network, packets)
    parameters = resolve(plugin, params or {})
    uses = (PluginSpec(plugin, parameters), *beside)
    parts = ("transport_of_flow", "faults", "tasks", "program", "sampling")
    simulated = {name: more.pop(name) for name in parts if name in more}
    simulated["sizes"] = more.pop("port_sizes", None)
    simulation = Simulation(network, flows, fabric, packets, uses, seed, **simulated)
    return (PartitionedEngine if "ranks" in more else Engine)(simulation, Options(**more))


def run(engine: Engine, until_ps: int = INF) -> Engine:
    """Run to the end, or to ``until_ps``."""
    while engine.advance(10_000, until_ps) == RUNNING:
        pass
    return engine


def hit(port: int, begin_ps: int, end_ps: int, send_ps: int) -> LinkFault:
    """Return a fault that loses the packets sent between two times; each takes ``send_ps``."""
    at_ps = max(0, begin_ps - send_ps + 1)
    return LinkFault(np.array([port]), loss=1.0, at_ps=at_ps, until_ps=end_ps)


def flow_table(flows: list[tuple[int, int, int, int]]) -> FlowTable:
    """Return a flow table from rows of (src, dst, bytes, start_ps)."""
    src, dst, size, start = (np.array(column, np.int64) for column in zip(*flows, strict=True))
    return FlowTable(src.astype(np.int32), dst.astype(np.int32), size, start)


def fct_ps(engine: Engine) -> NDArray[np.int64]:
    """Return each flow's time from its start until delivery; -1 if unfinished."""
    flows = engine.flow_states()
    return np.where(flows.done_ps >= 0, flows.done_ps - flows.start_ps, -1)


def acked_ps(engine: Engine) -> NDArray[np.int64]:
    """Return each flow's time from its start until acknowledgment; -1 for never."""
    flows = engine.flow_states()
    return np.where(flows.acked_ps >= 0, flows.acked_ps - flows.start_ps, -1)


def counter(engine: Engine, name: str) -> int:
    """Return a link counter, summed over all ports and classes."""
    return int(getattr(engine.link_counters(), name).sum())


@dataclass(frozen=True)
class Stock:
    """A number of packets and of their bytes on the wire."""

    packets: int
    n_bytes: int


def under_way(engine: Engine) -> Stock:
    """Return the packets on links and in switch queues, without PFC frames."""
    slots = np.concatenate([on_links(engine.state), in_queues(engine.state)])
    found = np.asarray(engine.state.links.pool)[slots]
    found = found[found["kind"] != PFC]
    return Stock(found.size, int(found["size_bytes"].sum(dtype=np.int64)))


def keep_sent(engine: Engine) -> Engine:
    """Make an engine keep a copy of each packet that ports send (`packets_sent`).

    Switches change packets that arrive, and memory of packets that were read is reused. Packets
    sent in a window arrive after it, so the engine advances window by window and copies them.
    """
    advance: Any = engine.advance
    links, peer = engine.state.links, engine.network.port_peer
    sent: list[list[Any]] = [[] for _ in range(engine.network.n_ports)]
    unread: list[list[bytes]] = [[] for _ in sent]
    heads, kept = (np.zeros(engine.network.n_ports, np.int64) for _ in range(2))

    def keeping(n_windows: int, until_ps: int, **more: Any) -> Any:
        for _ in range(n_windows):
            status = advance(1, until_ps, **more)
            tails = np.array(links.ports["tail"])
            if (tails == kept).all() and status == RUNNING:
                continue
            slots = on_links(engine.state)
            ends = np.cumsum(links.readers["tail"] - links.readers["head"])
            for port in np.flatnonzero(tails != kept).tolist():
                to = peer[port]
                head = int(links.readers["head"][to])
                here = slots[ends[to] - (tails[port] - head) : ends[to]]
                rows = np.asarray(links.pool)[here]
                before = unread[port][head - int(heads[port]) :]  # new ones may have overtaken them
                unread[port] = [row.tobytes() for row in rows]
                known = Counter(before)
                new = [
                    k
                    for k, row in enumerate(unread[port])
                    if known.subtract([row]) or known[row] < 0
                ]
                heads[port] = head
                sent[port].append(rows[new][rows[new]["kind"] != PAUSE_END])
            kept[:] = tails
            if status != RUNNING:
                break
        return status

    vars(engine).update(advance=keeping, sent=sent)
    return engine


def packets_sent(engine: Engine, port: int) -> Any:
    """Return the packets that a port has sent, if the engine keeps them."""
    return np.concatenate([np.zeros(0, engine.protocol.packet), *vars(engine)["sent"][port]])


def assert_conserved(engine: Engine) -> None:
    """Check that packets and bytes are conserved."""
    hosts, rest = engine.state.hosts.nics, under_way(engine)
    gone = hosts["received_packets"].sum() + counter(engine, "drops") + rest.packets
    assert int(hosts["sent_packets"].sum()) == int(gone)
    lost = counter(engine, "drop_bytes") + counter(engine, "trim_bytes")
    assert (
        int(hosts["sent_bytes"].sum()) == int(hosts["received_bytes"].sum()) + lost + rest.n_bytes
    )
    assert engine.counts.payload_bytes == int(engine.flow_states().received_bytes.sum())
