"""Indices of ring slots, queues, ports and NICs; sets of a switch's ports."""

from __future__ import annotations

from collections.abc import Iterable

from netsim.engine.kernels.fields import FlowRecord
from netsim.engine.kernels.ids import (
    NO_PORT,
    GlobalPort,
    HostId,
    LocalPort,
    NicId,
    NodeId,
    Numbers,
    QueueId,
    Slot,
    span,
)
from netsim.engine.kernels.instructions import lowest_bit
from netsim.engine.kernels.layout import ONE_PORT, PORTS_OF_A_WORD, HostState, Net
from netsim.engine.kernels.specialization_constants import N_CLASSES, N_LEVELS, PLANE_BALANCING

PFC_FRAME, WAITS = -1, -2
"""``tx_class`` of a port that sends a PFC frame, or is idle and wakes up at ``free_at``."""

PFC_FRAME_PENDING = 1 << 8
"""Bit of ``pause_requested`` above the classes: a PFC frame is still to be sent."""


def ring_slot(first: Slot, mask: int, position: int) -> Slot:
    """Return the slot of entry number ``position`` of a ring of ``mask + 1`` slots."""
    return first + (position & mask)


def queue_of(p: GlobalPort, cls: int) -> QueueId:
    """Return the queue of class ``cls`` at port ``p``."""
    return QueueId(int(p) * N_CLASSES + cls)


def first_level(cls: int) -> int:
    """Return the class on links of traffic class ``cls`` at level 0."""
    return cls * N_LEVELS + N_LEVELS - 1


def ports_of(net: Net, node: NodeId) -> Iterable[GlobalPort]:
    """Return the ports of a node, in ascending order."""
    return span(net.first_port[node], net.first_port[node + 1])


def first_port_of(net: Net, host: HostId) -> GlobalPort:
    """Return the first port of a host; hosts precede switches."""
    if PLANE_BALANCING == ONE_PORT:
        return GlobalPort(host)
    return net.first_port[host]


def ports_of_host(net: Net, host: HostId) -> Iterable[GlobalPort]:
    """Return the ports of a host, in ascending order."""
    return span(first_port_of(net, host), first_port_of(net, HostId(host + 1)))


def first_nic_of(hosts: HostState, host: HostId) -> NicId:
    """Return the first NIC of a host."""
    if PLANE_BALANCING == ONE_PORT:
        return NicId(host)
    return hosts.first_nic[host]


def nics_of(hosts: HostState, host: HostId) -> Iterable[NicId]:
    """Return the NICs of a host, in ascending order."""
    return span(first_nic_of(hosts, host), first_nic_of(hosts, HostId(host + 1)))


def nic_of_port(hosts: HostState, p: GlobalPort) -> NicId:
    """Return the NIC that host port ``p`` is on."""
    if PLANE_BALANCING == ONE_PORT:
        return NicId(p)
    return hosts.host_ports[p].nic


def nic_of(hosts: HostState, side: FlowRecord) -> NicId:
    """Return the NIC that one side of a flow is on."""
    if PLANE_BALANCING == ONE_PORT:
        return NicId(side.host)
    return hosts.port_choices[side.port_choice].nic


Words = Numbers[int, int]
"""Sets of ports: a bit per port. Each switch has its own words, so that nodes stepped in parallel
never write to the same word."""


def include(ports: Words, first_word: int, port: LocalPort) -> None:
    """Add a port to the set of the switch whose words begin at ``first_word``."""
    ports[first_word + port // PORTS_OF_A_WORD] |= 1 << (port & (PORTS_OF_A_WORD - 1))


def exclude(ports: Words, first_word: int, port: LocalPort) -> None:
    """Remove a port from a set, if it is in it."""
    ports[first_word + port // PORTS_OF_A_WORD] &= ~(1 << (port & (PORTS_OF_A_WORD - 1)))


def includes(ports: Words, first_word: int, port: LocalPort) -> bool:
    """Return whether a port is in a set."""
    word = ports[first_word + port // PORTS_OF_A_WORD]
    return (word >> (port & (PORTS_OF_A_WORD - 1))) & 1 == 1


def next_port(net: Net, ports: Words, node: NodeId, before: LocalPort) -> LocalPort:
    """Return the next port of a set after ``before`` (NO_PORT: the first), or NO_PORT."""
    at = before + 1
    word = net.first_word[node] + at // PORTS_OF_A_WORD
    end = net.first_word[node + 1]
    if word >= end:
        return NO_PORT
    bits = ports[word] >> (at & (PORTS_OF_A_WORD - 1))
    if bits != 0:
        return LocalPort(at + lowest_bit(bits))
    word += 1
    while word < end:
        bits = ports[word]
        if bits != 0:
            first = (word - net.first_word[node]) * PORTS_OF_A_WORD
            return LocalPort(first + lowest_bit(bits))
        word += 1
    return NO_PORT


def empty(net: Net, ports: Words, node: NodeId) -> None:
    """Remove all of a switch's ports from a set."""
    for word in range(net.first_word[node], net.first_word[node + 1]):
        ports[word] = 0
