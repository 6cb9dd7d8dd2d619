"""Cases: every byte arrives although links lose packets, corrupt them, or are down for a while."""

from __future__ import annotations

import numpy as np

from netsim.conformance import networks
from netsim.conformance.delivery import PACKET, packets_of, permutation_of
from netsim.conformance.finding import NotApplicableError
from netsim.conformance.lab import Lab
from netsim.model.faults import LinkFault, combine

DOWN_PS = (6_000_000, 60_000_000)


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


def _all_ports() -> np.ndarray:
    return np.arange(networks.tree().n_ports)


def _faulty(lab: Lab, faults: list[LinkFault]) -> str:
    network = networks.tree()
    flows = permutation_of(packets_of(lab, 30) * PACKET)
    run = lab.run(flows, network, faults=combine(faults, network.n_ports))
    if run.lost == 0:
        raise NotApplicableError("nothing was lost")
    return run.line()
