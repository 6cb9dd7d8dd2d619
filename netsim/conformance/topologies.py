"""Cases: every byte arrives in a three-tier tree and on two planes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from netsim.conformance import networks
from netsim.conformance.finding import ConformanceError, NotApplicableError
from netsim.conformance.flow_patterns import HOSTS, PACKET, incast_of, permutation_of
from netsim.conformance.impairments import DOWN_PS
from netsim.conformance.testbed import Run, Testbed
from netsim.errors import InputError
from netsim.model.faults import LinkFault, combine
from netsim.model.flows import FlowTable
from netsim.model.network import Network
from netsim.model.port_pairs import HASH, ROUND_ROBIN
from netsim.model.symmetry import check_symmetric


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


def planes(balancing: str) -> Callable[[Testbed], str]:
    """Return the case of two planes with a `fabric.plane_balancing`."""
    return lambda testbed: _on_planes(testbed, networks.planes(), balancing).line()


def uneven_planes(testbed: Testbed) -> str:
    """Packets alternate between two planes; the second has a quarter of the rate."""
    network = networks.planes(0.25)
    return _on_planes(testbed, network, _alternate(testbed, network)).line()


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
