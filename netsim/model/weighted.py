"""Routing by weights of cables: all paths whose weights add up to the least."""

from __future__ import annotations

import heapq
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from netsim.model.routing import NO_ROUTE, RoutingTable, TableWriter, Wiring

Links = dict[int, list[tuple[int, int]]]
"""Switch -> (neighbor, weight), for each port."""


@dataclass(frozen=True, eq=False)
class WeightedPaths:
    """A routing: a switch sends by every port that begins a path of the least sum of weights.

    ``weight`` is int64[n_ports], positive, that of the cable at each port.
    """

    weight: NDArray[np.int64]

    def __call__(self, wiring: Wiring) -> RoutingTable:
        """The table of a network."""
        writer = TableWriter()
        lengths = np.diff(wiring.first_group)[wiring.switch_network]
        route = np.full(int(lengths.sum()), NO_ROUTE, np.int64)
        for network in range(wiring.n_networks):
            switches = wiring.switches_of(network).tolist()
            ports = {switch: self._ports(wiring, switch) for switch in switches}
            toward: Links = {switch: [] for switch in switches}
            for switch, (_, peers, weights) in ports.items():
                for peer, weight in zip(peers.tolist(), weights.tolist(), strict=True):
                    toward[peer].append((switch, weight))
            for group, edge in enumerate(wiring.edges_of(network).tolist()):
                away = _distances(toward, edge, wiring.n_switches)
                for switch in switches:
                    local, peers, weights = ports[switch]
                    best = (away[peers] >= 0) & (away[peers] + weights == away[switch])
                    if away[switch] >= 0:
                        index = int(wiring.route_first[switch]) + group
                        route[index] = writer.entry(local[best])
        return writer.table(route)

    def _ports(
        self, wiring: Wiring, switch: int
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """Local ports to other switches, those switches, and the weights."""
        local = wiring.fabric_ports(switch)
        first = int(wiring.node_first_port[wiring.n_hosts + switch])
        return local, wiring.fabric_peers(switch), self.weight[first + local]


def _distances(toward: Links, edge: int, n_switches: int) -> NDArray[np.int64]:
    """int64[n_switches]: least sum of weights to switch ``edge``; -1 where there is no way."""
    away = np.full(n_switches, -1, np.int64)
    pending = [(0, edge)]
    while pending:
        distance, switch = heapq.heappop(pending)
        if away[switch] < 0:
            away[switch] = distance
            for neighbor, weight in toward[switch]:
                if away[neighbor] < 0:
                    heapq.heappush(pending, (distance + weight, neighbor))
    return away
