"""Cases for routing algorithms."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from netsim.conformance import networks
from netsim.conformance.delivery import PACKET, packets_of
from netsim.conformance.determinism import same
from netsim.conformance.finding import ConformanceError, NotApplicableError
from netsim.conformance.routing_testbed import RoutingTestbed
from netsim.conformance.testbed import Testbed, run_until
from netsim.engine.routing_choices import choices_of
from netsim.engine.sizes import Sizes
from netsim.model.deadlock import waiting_cycle
from netsim.model.faults import LinkFault, LinkFaults, combine
from netsim.model.flows import FlowTable
from netsim.model.network import Network
from netsim.model.reroute import follow_failures

LOSSLESS = {"queue_discipline": "lossless", "xoff_bytes": "2pkt", "xon_bytes": "1pkt"}

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
        network = _routing(testbed).prepared(build())
        flows = everybody(network, packets_of(testbed, 3))
        return _routing(testbed).deliver(flows, network).line()

    return case


def failed_link(testbed: Testbed) -> str:
    """A cable is down for some time and routes stay: only what is sent over it may be lost."""
    network = _routing(testbed).prepared(networks.tree())
    run = testbed.run(everybody(network, 20), network, faults=_fault(network))
    if run.unroutable:
        raise ConformanceError(f"{run.unroutable} packets crossed 255 links: a loop")
    return run.line()


def changing_routes(testbed: Testbed) -> str:
    """A cable fails and returns; routes follow. What is sent after that must arrive."""
    lines = []
    for plain in (networks.tree(), networks.dragonfly()):
        network = _routing(testbed).prepared(plain)
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
    network = _routing(testbed).prepared(networks.tree())
    return same(testbed, everybody(network, 6), network, ways)


def growth(testbed: Testbed) -> str:
    ways = {"much working memory": {}, "little": {"sizes": Sizes(scratch=4)}}
    network = _routing(testbed).prepared(networks.tree())
    return same(testbed, everybody(network, 8), network, ways)


def resumed(testbed: Testbed) -> str:
    """A run that is saved half-way and continued by another engine is the same run."""
    network = _routing(testbed).prepared(networks.tree())
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
    network = _routing(testbed).prepared(networks.tree())
    return same(testbed, everybody(network, 6), network, ways)


def threads(testbed: Testbed) -> str:
    network = _routing(testbed).prepared(networks.tree(leaves=8, per_leaf=4))
    ways = {f"{count} threads": {"jit": True, "threads": count} for count in (1, 2, 4)}
    return same(testbed, everybody(network, 12), network, ways)


def deadlock(testbed: Testbed) -> str:
    """With PFC and little buffer, all packets arrive on networks that netsim does not refuse."""
    refused, routing = [], _routing(testbed)
    for build in (networks.tree, networks.three_tiers, networks.dragonfly, networks.torus):
        network = routing.prepared(build())
        choices = choices_of(routing.fabric(LOSSLESS, network), network)
        if waiting_cycle(network, choices=choices).ports.size:
            refused.append(network.name)
        else:
            run = testbed.run(everybody(network, packets_of(testbed, 6)), network, LOSSLESS)
    if len(refused) < 4:
        return run.line() + (f"; netsim refuses {', '.join(refused)}" if refused else "")
    raise NotApplicableError("netsim refuses all networks with PFC: links may wait in a cycle")


def _fault(network: Network) -> LinkFaults:
    """Return a fault of the first cable between switches, in both directions."""
    switches = network.port_node >= network.n_hosts
    port = np.flatnonzero(switches & switches[network.port_peer])[:1]
    both = np.concatenate([port, network.port_peer[port]])
    return combine([LinkFault(both, outages_ps=(DOWN_PS,))], network.n_ports)


def _routing(testbed: Testbed) -> RoutingTestbed:
    assert isinstance(testbed, RoutingTestbed)
    return testbed
