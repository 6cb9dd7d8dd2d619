"""Circuit switches that follow the workload: slots begin as the flows of a phase are delivered.

Behind ``PHASE_DRIVEN``. All of it happens between two windows, where whatever is known may be
looked at. An order is found at the end of the window in which the last flow of a phase is
delivered, and takes effect so much later (`control_ps`) that nothing in that window depends on it.
"""

from __future__ import annotations

from netsim.engine.kernels.active import expect
from netsim.engine.kernels.fields import CircuitRecord, RxRecord
from netsim.engine.kernels.ids import Ps
from netsim.engine.kernels.indexing import WAITS
from netsim.engine.kernels.layout import INF, Clock, HostState, LinkState, Net
from netsim.engine.kernels.steering_fields import SlotRecord
from netsim.limits import HORIZON_PS
from netsim.model.schedules import END_PS


def note_delivery(hosts: HostState, clock: Clock, rx: RxRecord) -> None:
    """A flow is delivered: its phase waits for one less."""
    phase = hosts.phase[rx.flow]
    if phase >= 0:
        slot = clock.slots[phase]
        slot.waits_for -= 1
        slot.done_ps = max(slot.done_ps, rx.done_ps)


def give_orders(net: Net, links: LinkState, clock: Clock) -> None:
    """Have slots begin whose phases before them are over."""
    window = clock.clock[0]
    while window.slot + 1 < clock.slots.shape[0]:
        slot = clock.slots[window.slot]
        if slot.waits_for > 0:
            return
        window.slot += 1
        after = clock.slots[window.slot]
        after.begin_ps = max(slot.lit_ps, slot.done_ps) + after.control_ps
        after.lit_ps = after.begin_ps + after.dark_ps
        turn(net, links, clock, after)


def turn(net: Net, links: LinkState, clock: Clock, slot: SlotRecord) -> None:
    """Write down which circuits end and begin with a slot, and wake those who wait for them.

    A day that has not begun stands as if its slot began at 0, and one that has not ended ends at
    END_PS.
    """
    for i in range(slot.first_ending, slot.first_beginning):
        circuit = links.circuits[links.reconfiguring_ports[i]]
        links.days[circuit.last_up - 1, 1] += slot.begin_ps - END_PS
        links.days[circuit.last_start - 1, 1] += slot.begin_ps - END_PS
        forget_day(circuit)
    for i in range(slot.first_beginning, slot.behind):
        p = links.reconfiguring_ports[i]
        circuit = links.circuits[p]
        links.days[circuit.last_up, 0] += slot.begin_ps
        links.days[circuit.last_start, 0] += slot.begin_ps
        opens_ps = Ps(links.days[circuit.last_start, 0])
        circuit.last_up += 1
        circuit.last_start += 1
        forget_day(circuit)
        port = links.ports[p]
        if port.tx_bytes == 0 and port.tx_class == WAITS and port.free_at >= HORIZON_PS:
            port.free_at = opens_ps
            switch = links.switches[net.port_node[p] - net.n_hosts]
            switch.next_wakeup_ps = min(switch.next_wakeup_ps, opens_ps)
            expect(clock, net.port_node[p], opens_ps)


def forget_day(circuit: CircuitRecord) -> None:
    """Look for the day that holds, or is next, when it is asked for."""
    circuit.dark_ps = circuit.closes_ps = Ps(-INF)
