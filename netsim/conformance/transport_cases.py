"""Cases for transports: every byte arrives, whatever the network does; how fast and how fair."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from netsim.conformance import networks
from netsim.conformance.determinism import DETERMINISM
from netsim.conformance.finding import (
    COMPILED,
    RELIABLE,
    Cases,
    ConformanceError,
    NotApplicableError,
)
from netsim.conformance.networks import HOSTS, PACKET, everybody, incast_of, permutation_of
from netsim.conformance.testbed import Run, Testbed, run_until
from netsim.errors import InputError
from netsim.model.checks import check_symmetric
from netsim.model.fabric import PacketFormat
from netsim.model.faults import LinkFault, combine, follow_failures
from netsim.model.flows import FlowTable
from netsim.model.network import Network
from netsim.model.port_pairs import ENTROPY, HASH, LEAST_LOADED, PERMUTATION, ROUND_ROBIN
from netsim.plugins.registry import PluginSpec

CASES = Cases()

OTHER = "roce"
SPREAD_PS = 700_000
DOWN_PS = (6_000_000, 60_000_000)
CONVERGE_PS = 4_000_000
FLOWS = 4
START_PS = 100_000_000
"""Time between the starts of two flows."""

SIZE_BYTES = 10**9
HALF_PS = 20 * 10**9
"""How long endless flows settle, and how long they are then measured."""


@CASES("sizes", "1 byte, 1 packet, odd sizes")
def sizes(testbed: Testbed) -> str:
    """One byte, one packet, a byte more or less, and odd sizes."""
    n = testbed.packets(17)
    given = [1, 64, PACKET - 1, PACKET, PACKET + 1, 2 * PACKET, n * PACKET + 1, n * PACKET - 77]
    src = np.arange(len(given)) % HOSTS
    run = testbed.run(FlowTable(src, (src + 3) % HOSTS, given))
    return run.line()


@CASES("permutation", "every host sends to another")
def permutation(testbed: Testbed) -> str:
    return testbed.run(permutation_of(testbed.packets(20) * PACKET)).line()


@CASES("incast", "seven hosts send to one")
def incast(testbed: Testbed) -> str:
    return testbed.run(incast_of(testbed.packets(20) * PACKET)).line()


@CASES("all-to-all", "every host sends to every other")
def all_to_all(testbed: Testbed) -> str:
    return testbed.run(everybody(HOSTS, testbed.packets(3))).line()


@CASES("many flows", "thirty flows of one host")
def many_flows_of_a_host(testbed: Testbed) -> str:
    """Thirty flows of one host, ten of them to the same host, that start one by one."""
    n = 10 * testbed.packets(3)
    dst = np.where(np.arange(n) % 3 == 0, 5, 1 + np.arange(n) % (HOSTS - 1))
    start = np.arange(n) // 2 * SPREAD_PS
    size = 1 + np.arange(n) * 1000 % (6 * PACKET)
    return testbed.run(FlowTable(np.zeros(n, np.int64), dst, size, start)).line()


@CASES("dependencies", "flows that start after others")
def dependencies(testbed: Testbed) -> str:
    size = testbed.packets(5) * PACKET
    flows = FlowTable([0, 3, 6, 1, 1, 2], [3, 6, 1, 0, 2, 7], size, [0, 0, SPREAD_PS, 0, 0, 0])
    after = [[], [0], [1], [2], [2], [3, 4]]
    flows.set_dependencies(after)
    run = testbed.run(flows)
    states = run.engine.flow_states()
    for flow, others in enumerate(after):
        for other in others:
            if states.start_ps[flow] < states.done_ps[other]:
                raise ConformanceError(f"flow {flow} started before flow {other} was complete")
    return run.line()


@CASES("beside another", "a second transport")
def beside_another(testbed: Testbed) -> str:
    """Half of the flows use another transport on the same hosts, links and queues."""
    size = testbed.packets(10) * PACKET
    flows = FlowTable.join([permutation_of(size), permutation_of(size)])
    other = Testbed.of(OTHER, settings={"rto": "200us"})
    use, transports = PluginSpec(other.plugin, other.params), np.repeat([0, 1], HOSTS)
    return testbed.run(flows, beside=[use], transport_of_flow=transports).line()


@CASES("full queues", "switches drop", RELIABLE)
def full_queues(testbed: Testbed) -> str:
    """Seven hosts send to one through queues of eight packets."""
    changes: dict[str, Any] = {"queue_discipline": "drop_tail", "queue_bytes": "8pkt"}
    return testbed.run(incast_of(testbed.packets(20) * PACKET), changes=changes).line()


@CASES("trimming", "switches trim packets", RELIABLE)
def trimming(testbed: Testbed) -> str:
    changes: dict[str, Any] = {
        "queue_discipline": "trim",
        "n_traffic_classes": 2,
        "queue_bytes": "4pkt",
        "header_queue_bytes": "1MB",
    }
    if testbed.fabric_defaults.get("queue_discipline") != "trim" and not hasattr(
        testbed.plugin.module, "on_trimmed"
    ):
        raise NotApplicableError("no on_trimmed, and the fabric does not trim")
    run = testbed.run(incast_of(testbed.packets(20) * PACKET), changes=changes)
    if run.total("trims") == 0:
        raise NotApplicableError("nothing was trimmed")
    return run.line()


@CASES("full header queues", "trimmed headers lost", RELIABLE)
def full_header_queues(testbed: Testbed) -> str:
    """Headers and control packets are lost too: only timeouts can recover."""
    if testbed.fabric_defaults.get("queue_discipline") != "trim":
        raise NotApplicableError("the fabric does not trim")
    changes: dict[str, Any] = {"queue_bytes": "2pkt", "header_queue_bytes": "256B"}
    return testbed.run(incast_of(testbed.packets(20) * PACKET), changes=changes).line()


@CASES("reordering", "packets are reordered")
def reordering(testbed: Testbed) -> str:
    """Every packet takes a random path, so many overtake others."""
    changes = {"routing": "spray_random"}
    run = testbed.run(permutation_of(testbed.packets(40) * PACKET), changes=changes)
    return run.line()


@CASES("random loss", "links lose packets", RELIABLE)
def random_loss(testbed: Testbed) -> str:
    """Every link loses 2 % of all packets, of any kind."""
    return _faulty(testbed, [LinkFault(_all_ports(), loss=0.02)])


@CASES("bit errors", "links corrupt packets", RELIABLE)
def bit_errors(testbed: Testbed) -> str:
    """Every link corrupts one bit in a million: one full packet in thirty, and few small ones."""
    return _faulty(testbed, [LinkFault(_all_ports(), bit_error_rate=1e-6)])


@CASES("link down", "links fail and come back", RELIABLE)
def link_down(testbed: Testbed) -> str:
    """A host's link and a fabric link fail in both directions for some round trips."""
    network = networks.tree()
    uplink = int(network.node_first_port[network.n_hosts + 1]) + 2
    ports = np.array([0, uplink])
    both_ways = np.concatenate([ports, network.port_peer[ports]])
    return _faulty(testbed, [LinkFault(both_ways, outages_ps=(DOWN_PS,))])


@CASES("changing routes", "a spine fails, routes follow", RELIABLE)
def changing_routes(testbed: Testbed) -> str:
    """A spine fails for some round trips and routes follow later; an uplink is slow meanwhile."""
    network = networks.tree()
    spine = network.n_nodes - 1
    ports = np.arange(network.node_first_port[spine], network.node_first_port[spine + 1])
    uplink = network.port_peer[network.node_first_port[spine - 1]]
    faults = [
        LinkFault(np.concatenate([ports, network.port_peer[ports]]), outages_ps=(DOWN_PS,)),
        LinkFault(np.array([uplink]), rate_bps=networks.RATE_BPS // 4, until_ps=DOWN_PS[1]),
    ]
    found = combine(faults, network.n_ports)
    convergence_delay_ps = np.full(network.n_switches, CONVERGE_PS)
    routes = follow_failures(network, found, convergence_delay_ps)
    flows = permutation_of(testbed.packets(30) * PACKET)
    run = testbed.run(flows, network, faults=replace(found, routes=routes))
    if run.lost == 0:
        raise NotApplicableError("nothing was lost")
    return run.line()


def _all_ports() -> np.ndarray:
    return np.arange(networks.tree().n_ports)


def _faulty(testbed: Testbed, faults: list[LinkFault]) -> str:
    network = networks.tree()
    flows = permutation_of(testbed.packets(30) * PACKET)
    run = testbed.run(flows, network, faults=combine(faults, network.n_ports))
    if run.lost == 0:
        raise NotApplicableError("nothing was lost")
    return run.line()


@CASES("three tiers", "two pods and a core")
def three_tiers(testbed: Testbed) -> str:
    """Every host sends to the other pod while seven send to one; then one flow runs alone."""
    n_bytes = testbed.packets(10) * PACKET
    src = np.arange(HOSTS)
    across = FlowTable(src, (src + HOSTS // 2) % HOSTS, n_bytes)
    flows = FlowTable.join([across, incast_of(n_bytes), FlowTable([0], [HOSTS - 1], n_bytes)])
    lone = len(flows) - 1
    flows.set_dependencies([*([] for _ in range(lone)), list(range(lone))])
    run = testbed.run(flows, networks.three_tiers())
    again = int(run.engine.flow_states().retransmits[lone])
    if again:
        raise ConformanceError(f"flow {lone} runs alone but retransmitted {again} packets")
    return run.line()


def planes(name: str, about: str, balancing: str) -> None:
    """Add the case of two planes with a `fabric.plane_balancing`."""

    @CASES(name, about)
    def case(testbed: Testbed) -> str:
        return _on_planes(testbed, networks.planes(), balancing).line()


planes("planes", "each flow uses one of two planes", HASH)
planes("planes in turn", "packets alternate between two planes", ROUND_ROBIN)
planes("shuffled planes", "packets take planes in random order", PERMUTATION)
planes("least loaded plane", "whichever port is free first", LEAST_LOADED)
planes("chosen planes", "the transport chooses the plane", ENTROPY)


@CASES("uneven planes", "one plane is slower")
def uneven_planes(testbed: Testbed) -> str:
    """Packets alternate between two planes; the second has a quarter of the rate."""
    network = networks.planes(0.25)
    return _on_planes(testbed, network, _alternate(testbed, network)).line()


@CASES("plane down", "a plane fails and comes back", RELIABLE)
def plane_down(testbed: Testbed) -> str:
    """Packets alternate between two planes; the second fails for some round trips."""
    network = networks.planes()
    of_switches = network.port_node >= network.n_nodes - network.n_switches // 2
    ports = np.flatnonzero(of_switches | of_switches[network.port_peer])
    fault = LinkFault(ports, outages_ps=(DOWN_PS,))
    run = _on_planes(testbed, network, _alternate(testbed, network), fault)
    if run.lost == 0:
        raise NotApplicableError("nothing was lost")
    return run.line()


def _alternate(testbed: Testbed, network: Network) -> str:
    """Return round robin over planes, or one plane per flow if paths must be symmetric."""
    return HASH if testbed.fabric({}, network).symmetric else ROUND_ROBIN


def _on_planes(testbed: Testbed, network: Network, planes: str, *faults: LinkFault) -> Run:
    """Every host sends to one on another leaf while seven send to one."""
    changes: dict[str, Any] = {"plane_balancing": planes}
    if testbed.fabric(changes, network).symmetric:
        try:
            check_symmetric(network, planes)
        except InputError as reason:
            raise NotApplicableError(reason.message) from None
    n_bytes = testbed.packets(10) * PACKET
    flows = FlowTable.join([permutation_of(n_bytes), incast_of(n_bytes)])
    found = combine(list(faults), network.n_ports) if faults else None
    return testbed.run(flows, network, changes, faults=found)


CASES += DETERMINISM


def jain(shares: np.ndarray) -> float:
    """Jain's fairness index: 1 if all shares are equal, 1/n if one has everything.

    Jain, Chiu and Hawe, DEC-TR-301, 1984.
    """
    total = float(shares.sum())
    return total * total / (shares.size * float((shares * shares).sum())) if total else 0.0


def slow_alone(metrics: dict[str, float]) -> str:
    """Return a warning if the longest flow takes over 1 % longer than the idle network allows."""
    slowdown = [*metrics.values()][-1]
    if slowdown <= 1.01:
        return ""
    return "alone it takes longer than the network: slow start, or a rate or window too small?"


@CASES("alone", "slowdown of a single flow", doubt=slow_alone)
def alone(testbed: Testbed) -> dict[str, float]:
    metrics = {}
    for n in (1, testbed.packets(10), testbed.packets(100)):
        run = testbed.run(FlowTable([0], [7], n * PACKET))
        metrics[f"slowdown of {n} packet" + "s" * (n > 1)] = float(run.slowdown()[0])
    return metrics


@CASES("shared link", "four flows, one link", COMPILED)
def shared_link(testbed: Testbed) -> dict[str, float]:
    """Four flows over one link between two switches, each to its own host."""
    src = np.arange(FLOWS)
    return _measure(testbed, FlowTable(src, src + FLOWS, SIZE_BYTES, src * START_PS))


@CASES("shared host", "four flows, one host", COMPILED)
def shared_receiver(testbed: Testbed) -> dict[str, float]:
    src = np.arange(FLOWS)
    return _measure(testbed, FlowTable(src + FLOWS, 0, SIZE_BYTES, src * START_PS))


def _measure(testbed: Testbed, flows: FlowTable) -> dict[str, float]:
    engine = testbed.engine(flows, networks.dumbbell(FLOWS), jit=True)
    run_until(engine, HALF_PS)
    before = np.array(engine.flow_states().received_bytes)
    run_until(engine, 2 * HALF_PS)
    got = (engine.flow_states().received_bytes - before).astype(float)
    if not got.any():
        raise NotApplicableError("nothing arrived while measuring")
    packets = PacketFormat()
    most = networks.RATE_BPS / 8e12 * HALF_PS * packets.payload_bytes / packets.data_bytes
    queue = int(engine.link_counters().max_queue_bytes.max()) / packets.data_bytes
    return {
        "Jain index": jain(got),
        "share of the link": float(got.sum()) / most,
        "largest queue in packets": queue,
    }
