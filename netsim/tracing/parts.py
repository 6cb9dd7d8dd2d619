"""Parts of a scenario that have nothing in common, such as the rails of a network whose jobs send
only within rails: each runs without the others as it does with them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from netsim.experiment.scenario import Scenario

Ints = NDArray[np.int64]


def hosts_with(scenario: Scenario, flows: Sequence[int]) -> NDArray[np.bool_] | None:
    """Return the hosts (bool[n_hosts]) that may influence one of some flows; None: all.

    Hosts influence each other only through flows, tasks wait only for tasks of their host, and
    packets stay among switches that are connected without hosts. Circuits may follow all traffic.
    """
    network, pairs = scenario.network, scenario.port_pairs
    if network.circuits is not None or network.n_hosts == 0:
        return None
    node, peer = network.port_node.astype(np.int64), network.port_peer
    between = (node >= network.n_hosts) & (node[peer] >= network.n_hosts)
    edges = [(node[between], node[peer[between]])]
    edges += [(node[ports], node[peer[ports]]) for ports in (pairs.src_port, pairs.dst_port)]
    edges.append((node[pairs.src_port], node[pairs.dst_port]))
    after, waiting = scenario.flows.after_flow, scenario.flows.after_ptr
    if after is not None and waiting is not None:
        waiter = np.repeat(np.arange(len(scenario.flows)), np.diff(waiting))
        edges.append((scenario.flows.dst[after].astype(np.int64), scenario.flows.src[waiter]))
    part = _parts(network.n_nodes, *(np.concatenate(ends) for ends in zip(*edges, strict=True)))
    hosts = np.isin(part[: network.n_hosts], part[scenario.flows.src[[*flows]]])
    return None if hosts.all() else hosts


def _parts(n: int, one: Ints, other: Ints) -> Ints:
    """Return the lowest node of the connected part of each of n nodes, from pairs of neighbors."""
    part = np.arange(n)
    while True:
        lowest = np.minimum(part[one], part[other])
        before = part.copy()
        for ends in (one, other):
            np.minimum.at(part, part[ends], lowest)
        part = part[part]
        if np.array_equal(part, before):
            return part
