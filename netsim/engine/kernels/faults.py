"""Faults of a link (`FAULTS`): its rate and loss probability now, and the packets it loses.

A port's transmissions start in time order, so its position in its intervals and outages only
moves forward.
"""

from __future__ import annotations

from netsim.engine.kernels.fields import PortRecord
from netsim.engine.kernels.ids import Bytes, GlobalPort, Ps
from netsim.engine.kernels.indexing import queue_of
from netsim.engine.kernels.layout import LinkState
from netsim.model.arithmetic import PURPOSE_LOSS, rand32


def renew_link(links: LinkState, port: PortRecord, p: GlobalPort, now: Ps) -> None:
    """Update the rate and loss probability of port ``p``'s link to those in force at ``now``."""
    fault = links.faults[p]
    after = fault.interval + 1
    while after < fault.last_interval and links.fault_intervals[after].start_ps <= now:
        fault.interval = after
        interval = links.fault_intervals[after]
        after += 1
        fault.profile = interval.profile
        port.ps_per_byte_q20 = interval.ps_per_byte_q20


def lost_on_wire(
    links: LinkState, p: GlobalPort, cls: int, size: Bytes, begin: Ps, arrival: Ps
) -> bool:
    """Return whether the link of port ``p`` loses a packet; count the loss.

    It does if it is down between ``begin`` and ``arrival``; otherwise a random draw decides.
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
