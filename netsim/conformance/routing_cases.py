"""Cases for routing algorithms."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from netsim.conformance import networks
from netsim.conformance.determinism import DETERMINISM
from netsim.conformance.fabric_testbed import RoutingTestbed
from netsim.conformance.finding import Cases, ConformanceError, NotApplicableError
from netsim.conformance.networks import everybody
from netsim.engine.routing_choices import choices_of
from netsim.model.deadlock import waiting_cycle
from netsim.model.faults import LinkFault, LinkFaults, combine, follow_failures
from netsim.model.flows import FlowTable
from netsim.model.network import Network

CASES = Cases()

LOSSLESS = {"queue_discipline": "lossless", "xoff_bytes": "2pkt", "xon_bytes": "1pkt"}

APART_PS = 10**9
DOWN_PS = (20_000_000, 200_000_000)
CONVERGE_PS = 4_000_000
SLACK_PS = 40_000_000
"""Time in which packets of the time before have left the network."""


def arrival(name: str, about: str, build: Callable[[], Network]) -> None:
    """Add the case of a network on which every host sends to every other."""

    @CASES(name, about)
    def case(testbed: RoutingTestbed) -> str:
        network = testbed.prepared(build())
        flows = everybody(network.n_hosts, testbed.packets(3))
        return testbed.deliver(flows, network).line()


arrival("tree", "leaves and spines", networks.tree)
arrival("three tiers", "two pods and a core", networks.three_tiers)
arrival("planes", "two trees", networks.planes)
arrival("dragonfly", "three groups", networks.dragonfly)
arrival("torus", "four by four", networks.torus)


@CASES("failed link", "a cable fails, routes stay")
def failed_link(testbed: RoutingTestbed) -> str:
    """A cable is down for some time and routes stay: only what is sent over it may be lost."""
    network = testbed.prepared(networks.tree())
    run = testbed.run(everybody(network.n_hosts, 20), network, faults=_fault(network))
    if run.unroutable:
        raise ConformanceError(f"{run.unroutable} packets crossed 255 links: a loop")
    return run.line()


@CASES("changing routes", "a cable fails, routes follow")
def changing_routes(testbed: RoutingTestbed) -> str:
    """A cable fails and returns; routes follow. What is sent after that must arrive."""
    lines = []
    for plain in (networks.tree(), networks.dragonfly()):
        network = testbed.prepared(plain)
        fault = _fault(network)
        delays_ps = np.full(network.n_switches, CONVERGE_PS)
        found = replace(fault, routes=follow_failures(network, fault, delays_ps))
        starts_ps = (0, *(time + SLACK_PS for time in DOWN_PS))
        parts = [
            everybody(network.n_hosts, n_packets, start_ps=start_ps)
            for n_packets, start_ps in zip((10, 3, 3), starts_ps, strict=True)
        ]
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


@CASES("deadlock", "no cycle of waiting packets with PFC")
def deadlock(testbed: RoutingTestbed) -> str:
    """With PFC and little buffer, all packets arrive on networks that netsim does not refuse."""
    refused = []
    for build in (networks.tree, networks.three_tiers, networks.dragonfly, networks.torus):
        network = testbed.prepared(build())
        choices = choices_of(testbed.fabric(LOSSLESS, network), network)
        if waiting_cycle(network, choices=choices).ports.size:
            refused.append(network.name)
        else:
            run = testbed.run(everybody(network.n_hosts, testbed.packets(6)), network, LOSSLESS)
    if len(refused) < 4:
        return run.line() + (f"; netsim refuses {', '.join(refused)}" if refused else "")
    raise NotApplicableError("netsim refuses all networks with PFC: links may wait in a cycle")


def _fault(network: Network) -> LinkFaults:
    """Return a fault of the first cable between switches, in both directions."""
    switches = network.port_node >= network.n_hosts
    port = np.flatnonzero(switches & switches[network.port_peer])[:1]
    both = np.concatenate([port, network.port_peer[port]])
    return combine([LinkFault(both, outages_ps=(DOWN_PS,))], network.n_ports)


CASES += DETERMINISM
