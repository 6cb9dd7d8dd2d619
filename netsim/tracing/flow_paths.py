"""The ports that a flow may use."""

from __future__ import annotations

from typing import TYPE_CHECKING

from netsim.errors import InputError

if TYPE_CHECKING:
    from netsim.experiment.scenario import Scenario


class Paths:
    """The ports that a flow may use, by their distance from its source."""

    def __init__(self, scenario: Scenario, flow: int) -> None:
        network, pairs = scenario.network, scenario.port_pairs
        self.network = network
        mine = slice(int(pairs.first[flow]), int(pairs.first[flow + 1]))
        self.src_ports: list[int] = sorted({*pairs.src_port[mine].tolist()})
        dst_ports = sorted({*pairs.dst_port[mine].tolist()})
        self.last_ports: list[int] = [int(network.port_peer[port]) for port in dst_ports]
        self.levels: list[set[int]] = []
        columns = (pairs.src_port, pairs.data_to)
        for src, to in {*zip(*(column[mine].tolist() for column in columns), strict=True)}:
            self._walk(src, to)

    def _walk(self, src: int, to: int) -> None:
        """Add the ports between a source port and an address."""
        network = self.network
        table = to // network.n_host_ports
        ports, level = {src}, 0
        while ports and level < network.n_nodes:
            if level == len(self.levels):
                self.levels.append(set())
            self.levels[level] |= ports
            nodes = {int(network.port_node[network.port_peer[port]]) for port in ports}
            ports = {port for node in nodes for port in self._next_ports(node, to, table)}
            level += 1

    def _next_ports(self, node: int, to: int, table: int) -> list[int]:
        """Return the ports of a node toward an address; none at a host or without a route."""
        network = self.network
        if node < network.n_hosts:
            return []
        try:
            group = int(network.port_group[to % network.n_host_ports])
            local = network.candidates(node - network.n_hosts, group, table)
        except InputError:  # no route in the first time slot, or while a link is down
            return []
        return [int(network.node_first_port[node]) + port for port in local.tolist()]

    def beside(self, port: int) -> set[int]:
        """Return the other ports that the flow could have used instead of a port."""
        found: set[int] = set()
        for level in self.levels:
            if port in level:
                found |= level
        return found - {port}
