"""Where things lie: the slots of a ring, the queues of a port, the ports of a node."""

from __future__ import annotations

from collections.abc import Iterable

from netsim.engine.kernels.fields import FlowRecord
from netsim.engine.kernels.ids import (
    GlobalPort,
    HostId,
    LocalPort,
    NicId,
    NodeId,
    QueueId,
    Slot,
    span,
)
from netsim.engine.kernels.layout import ONE_PORT, HostState, Net
from netsim.engine.kernels.specialization_constants import N_CLASSES, PLANE_BALANCING

PFC_FRAME, WAITS = -1, -2
"""In the place of the class that a port transmits (``tx_class``): a PFC frame, or, of an idle port,
that it is looked at again at ``free_at``."""

MODE_COUPLED, MODE_DECOUPLED, MODE_PREDICTING, MODE_PREDICTED = range(4)
"""How a switch is being simulated (``mode``): its ports in one order of time, one after the other
where nobody may be paused, or, while it is found out beforehand who is, and once that is known."""

PFC_FRAME_PENDING = 1 << 8
"""In ``pause_requested``, above the bits of the classes: the neighbor is still to be told."""


def ring_slot(first: Slot, mask: int, position: int) -> Slot:
    """The slot of what was put in as number ``position``, of a ring of ``mask + 1`` slots."""
    return first + (position & mask)


def queue_of(p: GlobalPort, cls: int) -> QueueId:
    """The queue of class ``cls`` at port ``p``."""
    return QueueId(int(p) * N_CLASSES + cls)


def ports_of(net: Net, node: NodeId) -> Iterable[GlobalPort]:
    """The ports of a node, in ascending order."""
    return span(net.first_port[node], net.first_port[node + 1])


def local_ports_of(net: Net, node: NodeId) -> Iterable[LocalPort]:
    """Likewise, as the node counts them."""
    return span(LocalPort(0), net.first_port[node + 1] - net.first_port[node])


def nics_of(hosts: HostState, host: HostId) -> Iterable[NicId]:
    """The NICs of a host, in ascending order."""
    return span(hosts.first_nic[host], hosts.first_nic[HostId(host + 1)])


def nic_of(hosts: HostState, side: FlowRecord) -> NicId:
    """The NIC that one side of a flow is on."""
    if PLANE_BALANCING == ONE_PORT:
        return NicId(side.host)
    return hosts.port_choices[side.port_choice].nic
