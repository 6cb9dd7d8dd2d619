"""What goes wrong on a link: the rate and the chance of loss that hold now, and what it loses.

Behind ``FAULTS``, called by hosts and switches as a transmission starts. Those of one port start
in the order of time, so that where it stands in its phases and outages is a cursor that only goes
forward.
"""

from __future__ import annotations

from netsim.engine.kernels.fields import PortRecord
from netsim.engine.kernels.ids import Bytes, GlobalPort, Ps
from netsim.engine.kernels.indexing import queue_of
from netsim.engine.kernels.layout import LinkState
from netsim.model.arithmetic import PURPOSE_LOSS, rand32


def renew_link(links: LinkState, port: PortRecord, p: GlobalPort, now: Ps) -> None:
    """Give the link of port ``p`` the rate and the chance of loss that hold ``now``."""
    fault = links.faults[p]
    while fault.phase + 1 < fault.last_phase and links.phases[fault.phase + 1].from_ps <= now:
        fault.phase += 1
        phase = links.phases[fault.phase]
        fault.profile = phase.profile
        port.ps_per_byte_q20 = phase.ps_per_byte_q20


def lost_on_wire(
    links: LinkState, p: GlobalPort, cls: int, size: Bytes, begin: Ps, arrival: Ps
) -> bool:
    """Does the link of port ``p`` lose a packet that is sent from ``begin`` and due at ``arrival``?

    It does if it is down at any time in between; otherwise a random draw decides, by the packet's
    size. Counts the draw, and what is lost.
    """
    fault = links.faults[p]
    while fault.outage < fault.last_outage and links.outages[fault.outage, 1] <= begin:
        fault.outage += 1
    lost = fault.outage < fault.last_outage and links.outages[fault.outage, 0] < arrival
    chance = links.loss_table[fault.profile, size]
    if not lost and chance > 0:
        lost = rand32(links.fabric[0].seed, PURPOSE_LOSS, int(p), fault.draws) < chance
        fault.draws += 1
    if lost:
        loss = links.losses[queue_of(p, cls)]
        loss.packets += 1
        loss.bytes += size
    return lost
