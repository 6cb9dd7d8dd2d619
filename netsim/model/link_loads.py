"""Load of every link under a traffic matrix, and the throughput that follows.

Each switch divides what it forwards evenly over the candidates of its routing table, as spraying
does, and as hashing does for many flows. If the most loaded link carries L times its rate when each
host sends at its own, throughput saturates at 1 / L of the hosts' rate: Dally and Towles,
"Principles and Practices of Interconnection Networks", section 3.3.1.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from netsim.model.network import Network
from netsim.model.paths import MAX_STEPS, steps_of
from netsim.model.patterns import Destinations, uniform

Floats = NDArray[np.float64]
Legs = Callable[[Floats], Floats]
"""From the demand of each pair of groups to that of each leg of its packets' ways."""


def link_loads(network: Network, demand: Floats, number: int = 0) -> Floats:
    """Return float64[n_ports], what each port between switches of a network sends.

    `demand` is float64[groups, groups], what the hosts of each group send to those of each other,
    in any unit; it takes the routes of the first table.
    """
    n_groups = len(demand)
    switches = np.flatnonzero(network.switch_network == number)
    rows = network.route_first[switches][:, None] + np.arange(n_groups)
    steps = steps_of(network, switches, network.route[rows].reshape(-1), network.route_ports)
    at = np.zeros((switches.size, n_groups))
    begin = int(network.first_group[number])
    edges = network.edge_switch[begin : begin + n_groups]
    at[np.searchsorted(switches, edges)] = demand
    held: Floats = at.reshape(-1)
    loads = np.zeros(network.n_ports)
    while True:
        parts = np.repeat(held[steps.pairs] / steps.counts, steps.counts)
        if not parts.any():
            return loads
        loads += np.bincount(steps.ports, parts, network.n_ports)
        held = np.bincount(steps.onward, parts, held.size).astype(float)


def saturation(network: Network, demand: Floats, number: int = 0) -> float:
    """Return the multiple of `demand` (bit/s) at which the most loaded link between switches is
    full; infinity if none is used."""
    loads = link_loads(network, demand, number) / network.port_rate_bps
    most = float(loads.max())
    return 1 / most if most > 0 else float("inf")


def uniform_saturation(network: Network, number: int = 0) -> float | None:
    """Return `pattern_saturation` if all hosts of a network send to each other evenly; None also if
    it has one host."""
    n = int((network.port_network == number).sum())
    return None if n < 2 else pattern_saturation(network, uniform(n), number)


def pattern_saturation(
    network: Network, to: Destinations, number: int = 0, legs: Legs | None = None
) -> float | None:
    """Return the share of their rate, at most 1, at which the hosts of a network can send as a
    pattern of its ports says; None if it is too large to compute.

    With `legs`, a routing algorithm's, packets go via other groups. With several tables, that of
    the first, and circuits count as if they were always up.
    """
    ports = np.flatnonzero(network.port_network == number)
    group = network.port_group[ports].astype(np.int64)
    n_groups = int(np.diff(network.first_group)[number])
    n_switches = int((network.switch_network == number).sum())
    if n_groups * n_switches * 2 > MAX_STEPS:
        return None
    rates = network.port_rate_bps[ports].astype(float)
    demand = to.demand(rates, group)
    if legs is not None:
        demand = legs(demand)
    received = float((to.received(rates) / rates).max())
    return min(1.0, 1 / received, saturation(network, demand, number))
