"""How large things are when a run begins: the engine's rings, and its windows.

Known before an engine is built, to whoever predicts what a run will take.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from netsim.engine.kernels.arrival_order import INDEX_BITS, KEY_BITS
from netsim.engine.kernels.layout import BALANCE, LINK_READER, PACKET, PORT, QUEUE
from netsim.limits import HORIZON_PS, PS_BITS
from netsim.model.fabric import PFC_FRAME_BYTES, PacketFormat
from netsim.model.flows import FlowTable
from netsim.model.network import Network
from netsim.model.port_pairs import port_pairs_of

SLOT_BYTES = PACKET.itemsize
INGRESS_BYTES = np.dtype(np.int32).itemsize
"""Of a slot of the pool, and what is noted of each besides if a discipline follows packets."""

PUBLISHED = 3
"""Numbers of a link that its two nodes hand each other between windows."""

PORT_BYTES = PORT.itemsize + LINK_READER.itemsize + BALANCE.itemsize + 8 * PUBLISHED
QUEUE_BYTES = QUEUE.itemsize
"""Of a port and of a class at a port, their rings and the discipline's own fields apart."""

SPARSE = 8
"""A network is sparsely used if one host in so many, or fewer, has a flow."""

MAX_WINDOW_PS = 1 << (63 - KEY_BITS)
"""Windows are shorter than this, so that a time within one fits a sort key."""


@dataclass(frozen=True)
class Sizes:
    """Initial capacities, all powers of two. Rings grow when needed; these save the growing."""

    link_slots: int = 128
    queue_slots: int = 128
    control_slots: int = 64
    scratch: int = 1 << 14
    spare_slots: int | None = None  # to grow into; by default three times what the rings begin with


def initial_sizes(network: Network, packets: PacketFormat) -> Sizes:
    """Capacities that most rings will not outgrow.

    A link holds what is sent in a window and while a packet travels: of full packets
    a delay's worth twice, and as many acknowledgments and pulls again.
    """
    per_delay = network.port_rate_bps * (network.port_delay_ps / 8e12) / packets.data_bytes
    typical = int(np.median(per_delay)) + 1
    link_slots = max(64, 1 << (6 * typical - 1).bit_length())
    return Sizes(link_slots=min(link_slots, 1024))


@dataclass(frozen=True)
class Rings:
    """Where the pool holds what, as the number of its first slot.

    First come the links' rings, then the switch ports' class queues, the control FIFOs of hosts'
    ports, and behind the slots in use (``used``) spare room to grow into.
    """

    sizes: Sizes
    queues_at: int
    control_at: int
    used: int

    @classmethod
    def of(cls, network: Network, n_traffic_classes: int, sizes: Sizes) -> Rings:
        """The rings of a network whose ports have so many classes."""
        n, h = network.n_ports, network.n_host_ports
        queues_at = n * sizes.link_slots
        control_at = queues_at + (n - h) * n_traffic_classes * sizes.queue_slots
        return cls(sizes, queues_at, control_at, control_at + h * sizes.control_slots)

    @property
    def pool_slots(self) -> int:
        """The slots of the pool; they cost nothing until they are touched."""
        spare = self.sizes.spare_slots
        return self.used + (3 * self.used + 4096 if spare is None else spare)


def is_sparse(network: Network, flows: FlowTable) -> bool:
    """Will most rings of the network stay empty? So it is if few hosts send or receive."""
    hosts = np.union1d(flows.src, flows.dst).size
    return SPARSE * hosts < network.n_hosts


def longest_window_ps(network: Network, flows: FlowTable) -> int:
    """How long windows may be: as long as what is sent in one cannot arrive in it.

    Cables of networks that no flow goes by do not count, such as those within racks whose hosts
    send to other racks only: they may be much shorter than all others.
    """
    shortest_ps = network.lookahead_ps
    if network.has_several_ports and not _told_out_of_band(network, flows):
        shortest_ps = _shortest_used_ps(network, flows)
    return min(shortest_ps, MAX_WINDOW_PS - 1, _numbered_ps(network))


def _numbered_ps(network: Network) -> int:
    """The shortest time in which more packets can reach a switch than sort keys can number."""
    into = np.bincount(network.port_node, network.port_rate_bps.astype(np.float64))
    return max(1, int((1 << INDEX_BITS) * PFC_FRAME_BYTES * PS_BITS / into.max()))


def _told_out_of_band(network: Network, flows: FlowTable) -> bool:
    """Does anybody learn what happens elsewhere one lookahead later, by no cable?"""
    if network.circuits is not None and network.circuits.follow:
        return True
    return flows.after_ptr is not None and not bool(flows.waits_here().all())


def _shortest_used_ps(network: Network, flows: FlowTable) -> int:
    """The smallest delay of any link of a network that some flow has a port pair in."""
    of_port = network.switch_network[np.maximum(network.port_node - network.n_hosts, 0)]
    of_port[: network.n_host_ports] = network.port_network
    delays_ps = np.full(int(network.first_group.size) - 1, HORIZON_PS)
    np.minimum.at(delays_ps, of_port, network.port_delay_ps)
    if not len(flows) or (delays_ps == network.lookahead_ps).all():
        return network.lookahead_ps
    return int(delays_ps[network.port_network[port_pairs_of(network, flows).src_port]].min())
