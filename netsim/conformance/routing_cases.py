"""Cases for routing algorithms."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from netsim.conformance import networks
from netsim.conformance.delivery import PACKET, packets_of
from netsim.conformance.determinism import same
from netsim.conformance.finding import ConformanceError
from netsim.conformance.routing_testbed import RoutingTestbed
from netsim.conformance.testbed import Testbed, run_until
from netsim.engine.kernels.trace import FORWARDED, PORT, TIME, TX, WHAT
from netsim.engine.routing_choices import choices_of
from netsim.engine.sizes import Sizes
from netsim.limits import CLASSES
from netsim.model.deadlock import short_cycle, waiting_cycle
from netsim.model.faults import LinkFault, LinkFaults, combine
from netsim.model.flows import FlowTable
from netsim.model.network import Network
from netsim.model.reroute import follow_failures

LOSSLESS = {"queue_discipline": "lossless"}

APART_PS = 10**9
DOWN_PS = (20_000_000, 200_000_000)
CONVERGE_PS = 4_000_000
SLACK_PS = 40_000_000
"""Time in which packets of the time before have left the network."""


def everybody(network: Network, n_packets: int, start_ps: int = 0) -> FlowTable:
    """Return a flow from every host to every other, at slightly different times."""
    src, dst = np.divmod(np.arange(network.n_hosts**2), network.n_hosts)
    src, dst = src[src != dst], dst[src != dst]
    n = np.arange(src.size)
    return FlowTable(src, dst, n_packets * PACKET - 777 * (n % 5), start_ps + n % 7 * 100_000)


def arrival(build: Callable[[], Network]) -> Callable[[Testbed], str]:
    """Return the case of a network on which every host sends to every other."""

    def case(testbed: Testbed) -> str:
        network = build()
        flows = everybody(network, packets_of(testbed, 3))
        return _routing(testbed).deliver(flows, network).line()

    return case


def failed_link(testbed: Testbed) -> str:
    """A cable is down for some time and routes stay: only what is sent over it may be lost."""
    network = networks.tree()
    run = testbed.run(everybody(network, 20), network, faults=_fault(network))
    if run.unroutable:
        raise ConformanceError(f"{run.unroutable} packets crossed 255 links: a loop")
    return run.line()


def changing_routes(testbed: Testbed) -> str:
    """A cable fails and returns; routes follow. What is sent after that must arrive."""
    lines = []
    for network in (networks.tree(), networks.dragonfly()):
        fault = _fault(network)
        delays_ps = np.full(network.n_switches, CONVERGE_PS)
        found = replace(fault, routes=follow_failures(network, fault, delays_ps))
        starts_ps = (0, *(time + SLACK_PS for time in DOWN_PS))
        parts = [everybody(network, 10, start) for start in starts_ps]
        run = testbed.run(FlowTable.join(parts), network, faults=found)
        missing = run.engine.flows.size_bytes - run.engine.flow_states().received_bytes
        late = missing[len(parts[0]) :]
        if late.any():
            raise ConformanceError(
                f"{np.count_nonzero(late)} flows that start after the routes of {network.name} "
                "have changed lose packets"
            )
        lines.append(run.line())
    return "; ".join(lines)


def windows(testbed: Testbed) -> str:
    lengths = (1_000_000, 370_000, 41_001)
    ways = {f"windows of {window} ps": {"window_ps": window} for window in lengths}
    network = networks.tree()
    return same(testbed, everybody(network, 6), network, ways)


def growth(testbed: Testbed) -> str:
    ways = {"much working memory": {}, "little": {"sizes": Sizes(scratch=4)}}
    network = networks.tree()
    return same(testbed, everybody(network, 8), network, ways)


def resumed(testbed: Testbed) -> str:
    """A run that is saved half-way and continued by another engine is the same run."""
    network = networks.tree()
    flows = everybody(network, 6)
    run = testbed.run(flows, network)
    first, second = (testbed.engine(flows, network, jit=False) for _ in range(2))
    run_until(first, run.engine.now_ps // 2)
    second.restore(first.snapshot())
    run_until(second, run.engine.now_ps)
    if second.digest() != run.engine.digest():
        raise ConformanceError(
            "a continued run differs: handlers must keep state only in what the file declares"
        )
    return run.line()


def compiled_as_plain(testbed: Testbed) -> str:
    ways = {"compiled code": {"jit": True}, "plain Python": {"jit": False}}
    network = networks.tree()
    return same(testbed, everybody(network, 6), network, ways)


def threads(testbed: Testbed) -> str:
    network = networks.tree(leaves=8, per_leaf=4)
    ways = {f"{count} threads": {"jit": True, "threads": count} for count in (1, 2, 4)}
    return same(testbed, everybody(network, 12), network, ways)


def deadlock(testbed: Testbed) -> str:
    """On networks that netsim does not refuse with PFC, packets must not wait in a cycle."""
    refused, routing = [], _routing(testbed)
    for network in (
        networks.tree(),
        networks.three_tiers(),
        networks.dragonfly(),
        networks.torus(),
    ):
        choices = choices_of(routing.fabric(LOSSLESS, network), network)
        if waiting_cycle(network, choices=choices).ports.size:
            refused.append(network.name)
            continue
        cycle = _observed_cycle(routing, network)
        if cycle:
            text = f"PFC can deadlock {network.name}: packets on each link may wait for the next, "
            raise ConformanceError(text + " -> ".join([*cycle, cycle[0]]))
    if refused:
        return f"no cycle; with PFC, netsim refuses {', '.join(refused)}"
    return "no cycle"


def _observed_cycle(testbed: RoutingTestbed, network: Network) -> list[str]:
    """Return a cycle of links and classes on which packets of a run waited for the next."""
    flows = everybody(network, packets_of(testbed, 4))
    traced: dict[str, Any] = {"trace": range(len(flows)), "trace_capacity": 1 << 19, "jit": False}
    engine = testbed.engine(flows, network, LOSSLESS, **traced)
    run_until(engine, APART_PS)
    found = engine.drain_trace()
    moves = found.entries[:, WHAT] == FORWARDED
    port, pkt = found.entries[moves, PORT], found.packets[moves[found.entries[:, WHAT] < TX]]
    order = np.lexsort((found.entries[moves, TIME], pkt["seq"], pkt["flow"]))
    port, pkt = port[order], pkt[order]
    links, link = np.unique(port * CLASSES + pkt["prio"], return_inverse=True)
    follows = (np.diff(pkt["flow"]) == 0) & (np.diff(pkt["seq"]) == 0)
    cycle = links[short_cycle(links.size, link[:-1][follows], link[1:][follows])].tolist()
    several = "" if testbed.levels == 1 else " class {}"
    return [network.port_name(one // CLASSES) + several.format(one % CLASSES) for one in cycle]


def _fault(network: Network) -> LinkFaults:
    """Return a fault of the first cable between switches, in both directions."""
    switches = network.port_node >= network.n_hosts
    port = np.flatnonzero(switches & switches[network.port_peer])[:1]
    both = np.concatenate([port, network.port_peer[port]])
    return combine([LinkFault(both, outages_ps=(DOWN_PS,))], network.n_ports)


def _routing(testbed: Testbed) -> RoutingTestbed:
    assert isinstance(testbed, RoutingTestbed)
    return testbed
