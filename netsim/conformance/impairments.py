"""Cases: every byte arrives although switches drop, trim or reorder packets, or links fail."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from netsim.conformance import networks
from netsim.conformance.finding import NotApplicableError
from netsim.conformance.flow_patterns import PACKET, incast_of, permutation_of
from netsim.conformance.testbed import Testbed
from netsim.model.faults import LinkFault, combine
from netsim.model.reroute import follow_failures

DOWN_PS = (6_000_000, 60_000_000)
CONVERGE_PS = 4_000_000


def full_queues(testbed: Testbed) -> str:
    """Seven hosts send to one through queues of eight packets."""
    changes: dict[str, Any] = {"queue_discipline": "drop_tail", "queue_bytes": "8pkt"}
    return testbed.run(incast_of(testbed.packets(20) * PACKET), changes=changes).line()


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


def full_header_queues(testbed: Testbed) -> str:
    """Headers and control packets are lost too: only timeouts can recover."""
    if testbed.fabric_defaults.get("queue_discipline") != "trim":
        raise NotApplicableError("the fabric does not trim")
    changes: dict[str, Any] = {"queue_bytes": "2pkt", "header_queue_bytes": "256B"}
    return testbed.run(incast_of(testbed.packets(20) * PACKET), changes=changes).line()


def reordering(testbed: Testbed) -> str:
    """Every packet takes a random path, so many overtake others."""
    changes = {"routing": "spray_random"}
    run = testbed.run(permutation_of(testbed.packets(40) * PACKET), changes=changes)
    return run.line()


def random_loss(testbed: Testbed) -> str:
    """Every link loses 2 % of all packets, of any kind."""
    return _faulty(testbed, [LinkFault(_all_ports(), loss=0.02)])


def bit_errors(testbed: Testbed) -> str:
    """Every link corrupts one bit in a million: one full packet in thirty, and few small ones."""
    return _faulty(testbed, [LinkFault(_all_ports(), bit_error_rate=1e-6)])


def link_down(testbed: Testbed) -> str:
    """A host's link and a fabric link fail in both directions for some round trips."""
    network = networks.tree()
    uplink = int(network.node_first_port[network.n_hosts + 1]) + 2
    ports = np.array([0, uplink])
    both_ways = np.concatenate([ports, network.port_peer[ports]])
    return _faulty(testbed, [LinkFault(both_ways, outages_ps=(DOWN_PS,))])


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
