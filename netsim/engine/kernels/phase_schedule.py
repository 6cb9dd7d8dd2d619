"""Phase-driven circuit switches (`PHASE_DRIVEN`): flows of a phase are delivered, a slot begins.

Runs between windows, when all state may be read. A reconfiguration is found at the end of the
window with the phase's last delivery. It takes effect `control_delay_ps` later, so nothing in that
window depends on it.
"""

from __future__ import annotations

from netsim.engine.kernels.active import expect
from netsim.engine.kernels.fields import CircuitRecord, RxRecord
from netsim.engine.kernels.ids import Ps
from netsim.engine.kernels.indexing import WAITS
from netsim.engine.kernels.layout import INF, Clock, HostState, LinkState, Net
from netsim.engine.kernels.slot_fields import SlotRecord
from netsim.limits import HORIZON_PS
from netsim.model.schedules import END_PS


def note_delivery(hosts: HostState, clock: Clock, rx: RxRecord) -> None:
    """Count a delivered flow of a phase."""
    phase = hosts.phase[rx.flow]
    if phase >= 0:
        slot = clock.slots[phase]
        slot.waits_for -= 1
        slot.done_ps = max(slot.done_ps, rx.done_ps)


def start_reconfigurations(net: Net, links: LinkState, clock: Clock) -> None:
    """Set the start of slots whose preceding phase has ended."""
    window = clock.clock[0]
    while window.slot + 1 < clock.slots.shape[0]:
        slot = clock.slots[window.slot]
        if slot.waits_for > 0:
            return
        window.slot += 1
        after = clock.slots[window.slot]
        after.begin_ps = max(slot.up_ps, slot.done_ps) + after.control_delay_ps
        after.up_ps = after.begin_ps + after.night_ps
        apply_matching(net, links, clock, after)


def apply_matching(net: Net, links: LinkState, clock: Clock, slot: SlotRecord) -> None:
    """Set the days that end and begin with a slot; wake ports that wait for them.

    Before, a day's start is relative to its slot's start, and its end is END_PS.
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
    """Make the circuit look up its day again."""
    circuit.down_ps = circuit.closes_ps = Ps(-INF)
