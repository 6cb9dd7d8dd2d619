"""Path lengths between edge switches in a time-slotted routing table."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from netsim.model.network import Network
from netsim.model.rounds import pairs_by_circuits
from netsim.model.routing import COUNT_BITS, COUNT_MASK, NO_ROUTE
from netsim.model.time_slots import TimeSlotRouting

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class SlotPaths:
    """Links between two edge switches, by time-slotted routes.

    Attributes:
        by: the name of their routing table.
        slots: how many there are.
        shortest, longest: of the slots' longest paths the shortest and the longest one.
        mean: of all pairs in all slots.
    """

    by: str
    slots: int
    shortest: int
    longest: int
    mean: float


def slot_paths(network: Network, number: int) -> SlotPaths | None:
    """That of a network, by its number; None if its routes stay, or lead nowhere."""
    slots, policy = network.time_slots, network.policy
    begin, end = network.first_group[number : number + 2].tolist()
    n = end - begin
    if slots is None or n < 2:
        return None
    which = 0
    if policy is not None:
        which = [isinstance(one.routing, TimeSlotRouting) for one in policy.routings].index(True)
    edges = network.edge_switch[begin:end].astype(np.int64)
    first_port = network.node_first_port[network.n_hosts + edges]
    place = np.full(network.n_nodes, -1)
    place[network.n_hosts + edges] = np.arange(n)
    own = np.arange(n)
    lengths, links, pairs = [], 0, 0
    for slot in range(slots.slots_ps.size):
        rows = slots.row_first[slot, edges][:, None] + which * n + own
        entries = slots.route[rows]
        led = (entries != NO_ROUTE) & (entries & COUNT_MASK > 0)
        ports = slots.route_ports[np.where(led, entries >> COUNT_BITS, 0)]
        ends = place[network.port_node[network.port_peer[first_port[:, None] + ports]]]
        counts = pairs_by_circuits(np.where(led & (ends == own), own, own[:, None]))
        lengths.append(len(counts))
        links += sum((circuits + 1) * count for circuits, count in enumerate(counts))
        pairs += sum(counts)
    name = "" if policy is None else policy.routings[which].name
    return SlotPaths(name, len(lengths), min(lengths), max(lengths), links / max(1, pairs))
