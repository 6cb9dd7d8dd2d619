"""Symmetric ECMP: whether packets and their acknowledgments cross the same cables.

With `ecmp_symmetric`, a switch's choice depends on the flow and on the height of the switch, the
number of links to the nearest host. Both directions then climb by the same choices, height by
height, and meet at the same switch if their uplinks are in the same order.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from netsim.errors import InputError
from netsim.model.network import Network
from netsim.model.port_pairs import ENTROPY, HASH
from netsim.model.routing import COUNT_MASK, NO_ROUTE

Ints = NDArray[np.int64]

KEY = "fabric.routing"
BOTH_WAYS = (HASH, ENTROPY)
"""Values of `fabric.plane_balancing` by which packets and acknowledgments use the same plane."""


def heights(network: Network) -> Ints:
    """Return int64[n_switches], the fewest links from each switch to a host."""
    low, high = _fabric_cables(network)
    height = np.full(network.n_switches, network.n_nodes, np.int64)
    height[network.edge_switch] = 1
    while True:
        before = height.copy()
        np.minimum.at(height, low, before[high] + 1)
        if np.array_equal(height, before):
            return height


def check_symmetric(network: Network, planes: str = HASH) -> None:
    """Refuse a network in which acknowledgments may take another path than the data.

    Networks in which no switch has a choice are accepted, as are trees, layered by height: no
    cables within a layer, at most one cable between two switches, and two edge switches that share
    a switch above share that whole layer, in the same order of uplinks. If NICs have several ports,
    both ends must choose the same one: `planes` is `fabric.plane_balancing`.

    Raises InputError with the key of the routing or of the plane balancing.
    """
    if network.n_host_ports > network.first_nic[-1] and planes not in BOTH_WAYS:
        message = f'"{planes}" conflicts with ecmp_symmetric: each end chooses its own plane'
        raise InputError(message, key="fabric.plane_balancing", hint=" or ".join(BOTH_WAYS))
    wiring = network.wiring()
    if wiring.usable is not None:
        port = int(np.flatnonzero(~wiring.usable)[0])
        raise _refusal(f"the circuit at {network.port_name(port)} is one-way")
    counts = np.where(network.route == NO_ROUTE, 0, network.route & COUNT_MASK)
    if int(counts.max(initial=0)) <= 1:
        return
    height = heights(network)
    low, high = _fabric_cables(network)
    for a, b in zip(low.tolist(), high.tolist(), strict=True):
        if height[a] == height[b]:
            raise _refusal(f"a cable connects {_names(network, a, b)}, equally far from hosts")
    uplinks: list[list[int]] = [[] for _ in range(network.n_switches)]
    for a, b in zip(low.tolist(), high.tolist(), strict=True):
        if height[a] < height[b]:
            if b in uplinks[a]:
                raise _refusal(f"several cables connect {_names(network, a, b)}")
            uplinks[a].append(b)
    rows = {int(edge): [[int(edge)]] for edge in np.unique(network.edge_switch)}
    while rows:
        rows = {edge: [uplinks[s] for layer in row for s in layer] for edge, row in rows.items()}
        rows = {edge: row for edge, row in rows.items() if any(row)}
        _check_layer(network, rows)


def _check_layer(network: Network, rows: dict[int, list[list[int]]]) -> None:
    """Refuse edge switches that reach a switch of a layer by different choices. ``rows`` is the
    layer from each edge switch: for each choice below, the uplinks in order."""
    seen: dict[int, int] = {}
    for edge, row in rows.items():
        above = [s for layer in row for s in layer]
        if len(set(above)) < len(above):
            twice = next(s for s in above if above.count(s) > 1)
            raise _refusal(f"several shortest paths connect {_names(network, edge, twice)}")
        for s in above:
            other = seen.setdefault(s, edge)
            if rows[other] != row:
                pair = _names(network, other, edge)
                raise _refusal(f"the uplinks of {pair} differ or are in a different order")


def _fabric_cables(network: Network) -> tuple[Ints, Ints]:
    own = network.port_node.astype(np.int64) - network.n_hosts
    far = network.port_node[network.port_peer].astype(np.int64) - network.n_hosts
    between = (own >= 0) & (far >= 0)
    usable = network.wiring().usable
    if usable is not None:
        between &= usable
    return own[between], far[between]


def _names(network: Network, a: int, b: int) -> str:
    return f"{network.switch_names[a]} and {network.switch_names[b]}"


def _refusal(what: str) -> InputError:
    message = f"ecmp_symmetric cannot make paths symmetric: {what}"
    hint = "ecmp, or a tree with one cable between two switches and the same order of uplinks"
    return InputError(message, key=KEY, hint=hint)
