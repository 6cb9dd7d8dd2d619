"""Suspended ports (`PORT_WAKEUPS`), which wait for a time after the window.

A rack with a hundred circuits has packets for all, but few circuits are up. The switch keeps the
earliest wakeup of its suspended ports, and visits them only then.
"""

from __future__ import annotations

from netsim.engine.kernels.fields import PortRecord, SwitchRecord
from netsim.engine.kernels.ids import NO_PORT, LocalPort, NodeId, Ps
from netsim.engine.kernels.indexing import WAITS, exclude, include, next_port
from netsim.engine.kernels.layout import INF, LinkState, Net


def resume_ports(net: Net, links: LinkState, node: NodeId, w1: Ps) -> None:
    """Resume the ports of switch ``node`` whose wakeup is before ``w1``."""
    switch = links.switches[node - net.n_hosts]
    if switch.next_wakeup_ps >= w1:
        return
    first_word = net.first_word[node]
    earliest = INF
    out = next_port(net, links.waiting_ports, node, NO_PORT)
    while out >= 0:
        port = links.ports[net.first_port[node] + out]
        if port.tx_class != WAITS:  # active again, or nothing to wait for
            exclude(links.waiting_ports, first_word, out)
        elif port.free_at < w1:
            exclude(links.waiting_ports, first_word, out)
            include(links.busy, first_word, out)
        else:
            earliest = min(earliest, port.free_at)
        out = next_port(net, links.waiting_ports, node, out)
    switch.next_wakeup_ps = earliest


def suspend_port(
    links: LinkState, switch: SwitchRecord, port: PortRecord, out: LocalPort, w1: Ps
) -> bool:
    """Suspend port ``out`` if it waits for a time from ``w1`` on; return whether it was."""
    if port.tx_class != WAITS or port.free_at < w1:
        return False
    include(links.waiting_ports, switch.first_word, out)
    exclude(links.busy, switch.first_word, out)
    switch.next_wakeup_ps = min(switch.next_wakeup_ps, port.free_at)
    return True
