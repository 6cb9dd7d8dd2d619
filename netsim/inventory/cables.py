"""Cables by endpoints, rate and length; a length is the cable's delay at 5 ns per meter."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from netsim.model.network import Network

Ints = NDArray[np.int64]

PS_PER_METER = 5_000

RACK, ROW, HALL, WAN = LENGTHS = ("rack", "row", "hall", "wan")
SCALE_UP = "scale-up"
"""Instead of the length of a scale-up cable: its delay is that of its protocol."""
LONGEST_M = (3, 100, 2_000)
"""Longest cable of each class except the last: passive copper, multimode and single-mode fiber."""

HOST, SWITCH, FIBER = "host to switch", "switch to switch", "switch to circuit switch"


@dataclass(frozen=True)
class CableRow:
    """Cables of one kind; `length` is one of LENGTHS or SCALE_UP, `joins` the kind of ends."""

    joins: str
    rate_bps: int
    length: str
    count: int


def latencies_ps(network: Network) -> Ints:
    """Return int64[n_nodes], the latency of each switch, which delays of links into it include.

    A host adds nothing, so the difference between both directions of a cable gives the latency of a
    switch once that of the other end is known.
    """
    latency = np.full(network.n_nodes, -1, np.int64)
    latency[: network.n_hosts] = 0
    node, far = network.port_node, network.port_node[network.port_peer]
    back_ps = network.port_delay_ps[network.port_peer]
    while (latency < 0).any():
        new = (latency[node] >= 0) & (latency[far] < 0)
        own = latency[node[new]]
        latency[far[new]] = network.port_delay_ps[new] - (back_ps[new] - own)
    return latency


def propagation_ps(network: Network) -> Ints:
    """Return int64[n_ports], the delay of each port's cable without the latency at its far end."""
    far = network.port_node[network.port_peer]
    delay_ps: Ints = network.port_delay_ps - latencies_ps(network)[far]
    return delay_ps


def length_class(delay_ps: Ints) -> Ints:
    """Return the index into LENGTHS of cables with these delays."""
    limits_ps = np.array(LONGEST_M) * PS_PER_METER
    return np.searchsorted(limits_ps, delay_ps, side="left")


def physical_ports(network: Network) -> NDArray[np.bool_]:
    """Return bool[n_ports], all ports except duplicates on a fiber to a circuit switch."""
    real = np.ones(network.n_ports, bool)
    if network.circuits is not None:
        fiber = network.circuits.fiber
        circuit_ports = np.flatnonzero(fiber >= 0)
        real[circuit_ports] = False
        real[circuit_ports[np.unique(fiber[circuit_ports], return_index=True)[1]]] = True
    return real


def network_of_ports(network: Network) -> Ints:
    """Return int64[n_ports], the network of each port."""
    of_switches = network.switch_network[
        network.port_node[network.n_host_ports :] - network.n_hosts
    ]
    return np.concatenate([network.port_network, of_switches]).astype(np.int64)


def cables(network: Network) -> tuple[CableRow, ...]:
    """Return all cables of a network, with the fibers of circuit switches."""
    ports = np.arange(network.n_ports)
    plain = ports < network.port_peer
    joins = np.where(network.port_node < network.n_hosts, 0, 1)
    delay_ps = propagation_ps(network)
    circuits = network.circuits
    if circuits is not None:
        plain &= circuits.of_port < 0
        circuit_ports = np.flatnonzero(circuits.fiber >= 0)
        plain[circuit_ports] = physical_ports(network)[circuit_ports]
        joins[circuit_ports] = 2
        delay_ps[circuit_ports] = circuits.near_ps[circuit_ports]
    chosen = np.flatnonzero(plain)
    length = length_class(delay_ps)
    length[network.is_scale_up[network_of_ports(network)]] = len(LENGTHS)
    columns = (joins[chosen], network.port_rate_bps[chosen], length[chosen])
    found, counts = np.unique(np.stack(columns), axis=1, return_counts=True)
    return tuple(
        CableRow((HOST, SWITCH, FIBER)[kind], rate, (*LENGTHS, SCALE_UP)[length], count)
        for (kind, rate, length), count in zip(found.T.tolist(), counts.tolist(), strict=True)
    )
