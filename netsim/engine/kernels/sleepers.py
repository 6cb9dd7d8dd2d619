"""Ports that are looked at again later: not gone through in each window, as those at work are.

Behind ``PORT_WAKEUPS``. A rack with a hundred circuits has packets for all of them, of which some
few are there. Who waits for a time behind the window is put to sleep, and the switch knows when the
first of these wakes; then, and not before, all of them are gone through.
"""

from __future__ import annotations

from netsim.engine.kernels.fields import PortRecord, SwitchRecord
from netsim.engine.kernels.ids import NO_PORT, LocalPort, NodeId, Ps
from netsim.engine.kernels.layout import INF, LinkState, Net
from netsim.engine.kernels.places import WAITS
from netsim.engine.kernels.port_sets import exclude, include, next_port


def wake(net: Net, links: LinkState, node: NodeId, w1: Ps) -> None:
    """Put the ports of switch ``node`` to work that are looked at before ``w1``."""
    switch = links.switches[node - net.n_hosts]
    if switch.wakes_ps >= w1:
        return
    first_word = net.first_word[node]
    earliest = INF
    out = next_port(net, links.asleep, node, NO_PORT)
    while out >= 0:
        port = links.ports[net.first_port[node] + out]
        if port.tx_class != WAITS:  # it is at work, or has nothing to wait for any more
            exclude(links.asleep, first_word, out)
        elif port.free_at < w1:
            exclude(links.asleep, first_word, out)
            include(links.busy, first_word, out)
        else:
            earliest = min(earliest, port.free_at)
        out = next_port(net, links.asleep, node, out)
    switch.wakes_ps = earliest


def falls_asleep(
    links: LinkState, switch: SwitchRecord, port: PortRecord, out: LocalPort, w1: Ps
) -> bool:
    """Has local port ``out`` nothing to do before ``w1``, when it is looked at? Then it sleeps."""
    if port.tx_class != WAITS or port.free_at < w1:
        return False
    include(links.asleep, switch.first_word, out)
    exclude(links.busy, switch.first_word, out)
    switch.wakes_ps = min(switch.wakes_ps, port.free_at)
    return True
