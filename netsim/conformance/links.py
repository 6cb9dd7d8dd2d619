"""Cases: every byte arrives although links lose packets, corrupt them, or are down for a while."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from netsim.conformance import networks
from netsim.conformance.delivery import PACKET, packets_of, permutation_of
from netsim.conformance.finding import NotApplicableError
from netsim.conformance.lab import Lab
from netsim.model.faults import LinkFault, combine
from netsim.model.reroute import follow_failures

DOWN_PS = (6_000_000, 60_000_000)
CONVERGE_PS = 4_000_000


def random_loss(lab: Lab) -> str:
    """Every link loses two packets of a hundred, whatever they are."""
    return _faulty(lab, [LinkFault(_all_ports(), loss=0.02)])


def bit_errors(lab: Lab) -> str:
    """Every link corrupts one bit of a million: a full packet of thirty, and few small ones."""
    return _faulty(lab, [LinkFault(_all_ports(), bit_error_rate=1e-6)])


def link_down(lab: Lab) -> str:
    """A host's cable and one between switches fail for some round trips, both ways, and return."""
    network = networks.tree()
    uplink = int(network.node_first_port[network.n_hosts + 1]) + 2
    ports = np.array([0, uplink])
    both_ways = np.concatenate([ports, network.port_peer[ports]])
    return _faulty(lab, [LinkFault(both_ways, outages_ps=(DOWN_PS,))])


def changing_routes(lab: Lab) -> str:
    """A spine fails for some round trips and routes follow later; beside it an uplink is slow."""
    network = networks.tree()
    spine = network.n_nodes - 1
    ports = np.arange(network.node_first_port[spine], network.node_first_port[spine + 1])
    uplink = network.port_peer[network.node_first_port[spine - 1]]
    faults = [
        LinkFault(np.concatenate([ports, network.port_peer[ports]]), outages_ps=(DOWN_PS,)),
        LinkFault(np.array([uplink]), rate_bps=networks.RATE_BPS // 4, until_ps=DOWN_PS[1]),
    ]
    found = combine(faults, network.n_ports)
    converge_ps = np.full(network.n_switches, CONVERGE_PS)
    routes = follow_failures(network, found, converge_ps)
    flows = permutation_of(packets_of(lab, 30) * PACKET)
    run = lab.run(flows, network, faults=replace(found, routes=routes))
    if run.lost == 0:
        raise NotApplicableError("nothing was lost")
    return run.line()


def _all_ports() -> np.ndarray:
    return np.arange(networks.tree().n_ports)


def _faulty(lab: Lab, faults: list[LinkFault]) -> str:
    network = networks.tree()
    flows = permutation_of(packets_of(lab, 30) * PACKET)
    run = lab.run(flows, network, faults=combine(faults, network.n_ports))
    if run.lost == 0:
        raise NotApplicableError("nothing was lost")
    return run.line()
