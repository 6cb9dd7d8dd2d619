"""Effects of a failure: hosts that are cut off or have fewer paths, and their flows."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from netsim.model.network import Network
from netsim.model.paths import path_counts, reach_by
from netsim.model.port_pairs import PortPairs
from netsim.model.reroute import cut_off, never_joined
from netsim.model.routing import RoutingTable

Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]


@dataclass(frozen=True)
class Failure:
    """What is affected while links are down, after rerouting.

    Attributes:
        name: name of what fails, as given.
        cables: cables that are down, in at least one direction.
        networks: networks with such cables.
        hosts_cut_off: hosts not connected to the largest part of any of their networks.
        hosts_fewer_ports: other hosts with a port whose link is down.
        hosts_fewer_paths: other hosts with fewer paths to or from some host.
        paths_left: smallest remaining fraction of paths between edge switches that reach each
            other.
        flows_cut_off, flows_touched: flows without a path, and others with fewer paths; None if
            there are too many edge switches.
    """

    name: str
    cables: int
    networks: int
    hosts_cut_off: int
    hosts_fewer_ports: int
    hosts_fewer_paths: int
    paths_left: float
    flows_cut_off: int | None
    flows_touched: int | None


class _Loss(NamedTuple):
    """Effects between edge switches of a network.

    `fewer` and `cut`, bool[edges, groups], are pairs with fewer or longer paths, and with none;
    `least` is the smallest remaining fraction of paths of any other pair.
    """

    groups: Ints
    fewer: Flags
    cut: Flags
    least: float


def failure(network: Network, name: str, ports: Ints, port_pairs: PortPairs) -> Failure:
    """Return the effects of links that are down on a network and on flows with these port pairs."""
    down = np.zeros(network.n_ports, bool)
    down[ports] = True
    table = network.routing(network.wiring(~down))
    uplink = np.arange(network.n_host_ports)
    dead: Flags = down[uplink] | down[network.port_peer[uplink]]
    fewer = np.zeros(network.n_host_ports, bool)
    pair_cut: Flags = dead[port_pairs.src_port] | dead[port_pairs.dst_port]
    pair_fewer = pair_cut.copy()
    least, whole = 1.0, True
    numbers = _touched(network, ports)
    table_of_pair = port_pairs.data_to // network.n_host_ports
    for number, which in product(numbers.tolist(), range(network.n_tables)):
        loss = _loss(network, number, table, which)
        least = min(least, loss.least)
        of_edge: Flags = np.logical_or.reduce(loss.fewer, axis=1)
        of_edge[loss.groups] |= np.logical_or.reduce(loss.fewer, axis=0)
        here = network.port_network == number
        fewer[here] |= of_edge[network.port_group[here]]
        if loss.groups.size < of_edge.size:
            whole = False
            continue
        port_pair = np.flatnonzero(here[port_pairs.src_port] & (table_of_pair == which))
        src, dst = (
            network.port_group[port[port_pair]]
            for port in (port_pairs.src_port, port_pairs.dst_port)
        )
        pair_cut[port_pair] |= loss.cut[src, dst]
        pair_fewer[port_pair] |= loss.fewer[src, dst]
    alone = cut_off(network, table, down) & ~never_joined(network)
    first = network.node_first_port[: network.n_hosts]
    fewer_ports = np.logical_or.reduceat(dead, first) & ~alone
    fewer_paths = np.logical_or.reduceat(fewer, first) & ~alone & ~fewer_ports
    flows_cut = np.logical_and.reduceat(pair_cut, port_pairs.first[:-1])
    flows_fewer = np.logical_or.reduceat(pair_fewer, port_pairs.first[:-1]) & ~flows_cut
    return Failure(
        name=name,
        cables=int(np.unique(np.minimum(ports, network.port_peer[ports])).size),
        networks=int(numbers.size),
        hosts_cut_off=int(alone.sum()),
        hosts_fewer_ports=int(fewer_ports.sum()),
        hosts_fewer_paths=int(fewer_paths.sum()),
        paths_left=least,
        flows_cut_off=int(flows_cut.sum()) if whole else None,
        flows_touched=int(flows_fewer.sum()) if whole else None,
    )


def _touched(network: Network, ports: Ints) -> Ints:
    """Return the networks of links; each link has a switch at one end."""
    nodes = np.maximum(network.port_node[ports], network.port_node[network.port_peer[ports]])
    return np.unique(network.switch_network[nodes - network.n_hosts]).astype(np.int64)


def _loss(network: Network, number: int, table: RoutingTable, which: int) -> _Loss:
    """Return the effects on edge switches of a network in routing table `which`, with new
    routes."""
    before = path_counts(network, number, table_number=which)
    after = reach_by(network, number, table, before.groups, which)
    switches = np.flatnonzero(network.switch_network == number)
    rows = np.searchsorted(switches, network.wiring().edges_of(number))
    hops, paths = before.hops[rows], before.paths[rows]
    cut = (after.hops[rows] < 0) & (hops >= 0)
    fewer = cut | (after.paths[rows] < paths) | (after.hops[rows] > hops)
    there = (hops >= 0) & ~cut
    left = after.paths[rows][there] / paths[there]
    return _Loss(before.groups, fewer, cut, float(left.min(initial=1.0)))
