"""Sizes of records and of windows, also used to predict a run's memory."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from netsim.engine.kernels.layout import LINK_READER, PACKET, PORT, QUEUE, ROUTING_PORT
from netsim.engine.kernels.switch import INDEX_BITS, KEY_BITS
from netsim.limits import HORIZON_PS, PS_BITS
from netsim.model.fabric import PFC_FRAME_BYTES
from netsim.model.flows import FlowTable
from netsim.model.network import Network
from netsim.model.port_pairs import port_pairs_of

SLOT_BYTES = PACKET.itemsize
INGRESS_BYTES = np.dtype(np.int32).itemsize
"""Bytes per pool slot in addition to the packet, if the discipline needs a packet's ingress."""

PORT_BYTES = PORT.itemsize + LINK_READER.itemsize + ROUTING_PORT.itemsize + 8  # first_new
QUEUE_BYTES = QUEUE.itemsize
"""Bytes per port and per class, without packets and the discipline's own fields."""

MAX_WINDOW_PS = 1 << (63 - KEY_BITS)
"""Upper bound of windows, so that a time within one fits a sort key."""


@dataclass(frozen=True)
class Sizes:
    """Capacities for tests: arrivals in a window at one switch, which grow when needed, and blocks
    of the pool (pool.py)."""

    scratch: int = 1 << 14
    blocks: int | None = None


def shortest_delay_ps(network: Network, flows: FlowTable) -> int:
    """Return the smallest delay of any link in use, after which a run ends (MODEL.md). Cables of
    networks without flows do not count, such as those in racks whose hosts only send to other
    racks."""
    if network.has_several_ports and not _told_out_of_band(network, flows):
        return _shortest_used_ps(network, flows)
    return network.lookahead_ps


def longest_window_ps(network: Network, flows: FlowTable) -> int:
    """Return the longest window: no packet sent in one may arrive in it."""
    shortest_ps = shortest_delay_ps(network, flows)
    return min(shortest_ps, MAX_WINDOW_PS - 1, _numbered_ps(network))


def _numbered_ps(network: Network) -> int:
    """Return the time in which more packets may reach a switch than sort keys can number."""
    into = np.bincount(network.port_node, network.port_rate_bps.astype(np.float64))
    return max(1, int((1 << INDEX_BITS) * PFC_FRAME_BYTES * PS_BITS / into.max()))


def _told_out_of_band(network: Network, flows: FlowTable) -> bool:
    """Return whether hosts learn of events elsewhere out of band, one lookahead later."""
    if network.circuits is not None and network.circuits.follow:
        return True
    return flows.after_ptr is not None and not bool(flows.waits_at_source().all())


def _shortest_used_ps(network: Network, flows: FlowTable) -> int:
    """Return the smallest link delay of any network that a flow has a port pair in."""
    of_port = network.switch_network[np.maximum(network.port_node - network.n_hosts, 0)]
    of_port[: network.n_host_ports] = network.port_network
    delays_ps = np.full(int(network.first_group.size) - 1, HORIZON_PS)
    np.minimum.at(delays_ps, of_port, network.port_delay_ps)
    if not len(flows) or (delays_ps == network.lookahead_ps).all():
        return network.lookahead_ps
    return int(delays_ps[network.port_network[port_pairs_of(network, flows).src_port]].min())
