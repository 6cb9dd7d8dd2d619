"""Run a routing algorithm on small networks and check the run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from netsim.conformance.finding import ConformanceError, NotApplicableError
from netsim.conformance.flow_patterns import HOSTS, everybody
from netsim.conformance.queue_testbed import FabricTestbed
from netsim.conformance.testbed import Run
from netsim.errors import InputError
from netsim.model.fabric import Fabric
from netsim.model.flows import FlowTable
from netsim.model.network import Network
from netsim.model.parts import with_tables
from netsim.model.routing import COUNT_BITS, COUNT_MASK
from netsim.model.symmetry import check_symmetric
from netsim.plugins.declarations import MAX_HOPS


@dataclass(frozen=True)
class RoutingTestbed(FabricTestbed):
    """A routing algorithm, with keys of [fabric], on small networks."""

    CHOICE = "routing"

    @property
    def defaults(self) -> Mapping[str, Any]:
        return {"queue_bytes": "20MB"}

    def fabric(self, changes: Mapping[str, Any], network: Network) -> Fabric:
        """Return the algorithm's fabric, with some keys changed. Raises NotApplicableError for a
        network in which it cannot be symmetric."""
        fabric = super().fabric(changes, network)
        if fabric.symmetric:
            try:
                check_symmetric(network, fabric.plane_balancing)
            except InputError as error:
                raise NotApplicableError(error.message) from None
        return fabric

    def prepared(self, network: Network) -> Network:
        """Return a network with the algorithm's tables, if it makes them."""
        return with_tables(network, self.use)

    def crowd(self) -> FlowTable:
        return everybody(HOSTS, 6)

    def most_links(self, network: Network) -> int:
        """Return the most links that a packet may cross: MAX_HOPS of the file, or the longest way
        of the routing tables, twice with VIA."""
        declared = getattr(self.use.module, "MAX_HOPS", None)
        if declared is not None:
            return int(declared(network) if callable(declared) else declared)
        ways = 2 if getattr(self.use.module, "VIA", False) else 1
        return min(2 + ways * longest_way(network), MAX_HOPS)

    def deliver(self, flows: FlowTable, network: Network, **options: Any) -> Run:
        """Run flows of which every packet must arrive, by at most `most_links` links."""
        most = self.most_links(network)
        limited = replace(self, params={**self.params, "max_hops": most})
        try:
            run = limited.run(flows, network, **options)
        except ConformanceError as error:
            if "AssertionError" not in str(error):
                raise
            text = f"a packet crossed more than {most} links in {network.name}"
            raise ConformanceError(
                f"{text} (MAX_HOPS, or the routing tables' longest way)"
            ) from None
        if run.unroutable:
            text = f"{run.unroutable} packets crossed {MAX_HOPS} links in {network.name}: a loop"
            raise ConformanceError(text)
        return run

    def look_at_end(self, run: Run) -> None:
        """Check also that no packet is dropped: queues are deep."""
        super().look_at_end(run)
        if run.total("drops"):
            text = f"{run.total('drops')} packets are dropped in {run.engine.network.name}"
            raise ConformanceError(f"{text}: queues of 20 MB are full, so the load is not spread")


def longest_way(network: Network) -> int:
    """Return the most links between two edge switches by the network's routing tables."""
    groups = range(int(np.diff(network.first_group).max()))
    return max(_longest(network, group) for group in groups)


def _longest(network: Network, group: int) -> int:
    """Return the most links from any switch to the edge switch of a group of its network."""
    links = np.full(network.n_switches, -1)
    n_groups = np.diff(network.first_group)[network.switch_network]

    def of(switch: int, crossed: int) -> int:
        if links[switch] < 0 and crossed < MAX_HOPS and group < n_groups[switch]:
            entry = int(network.route[network.route_first[switch] + group])
            offset, count = entry >> COUNT_BITS, entry & COUNT_MASK
            first = network.node_first_port[network.n_hosts + switch]
            ports = first + network.route_ports[offset : offset + count] if entry > 0 else []
            after = [int(network.port_node[network.port_peer[port]]) for port in ports]
            ways = [1 + of(node - network.n_hosts, crossed + 1) for node in after]
            links[switch] = max(ways, default=0)
        return max(0, int(links[switch]))

    return max(of(switch, 0) for switch in range(network.n_switches))
