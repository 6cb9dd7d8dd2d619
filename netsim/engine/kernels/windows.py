"""Between windows: find the next active nodes, and reconfigure phase-driven circuit switches.

A reconfiguration (`PHASE_DRIVEN`) is detected at the end of the window with the phase's last
delivery. It takes effect `control_delay_ps` later, so nothing in that window depends on it.
"""

from __future__ import annotations

from collections.abc import Iterable

from netsim.engine.kernels.fields import CircuitRecord, RxRecord, SlotRecord
from netsim.engine.kernels.ids import NodeId, Ps, span
from netsim.engine.kernels.indexing import WAITS
from netsim.engine.kernels.layout import BLOCK, INF, UNFINISHED, Clock, HostState, LinkState, Net
from netsim.limits import HORIZON_PS
from netsim.model.schedules import END_PS


def find_active(clock: Clock) -> bool:
    """Open the next window: set its bounds and active nodes; return False if no event is left."""
    window = clock.clock[0]
    soonest = clock.soonest
    w0 = INF
    for block in range(soonest.shape[0]):
        w0 = min(w0, soonest[block])
    window.n_active = 0
    if w0 >= INF:
        return False
    window.w0 = w0
    window.w1 = w0 + window.window_ps
    w1 = window.w1
    k = 0
    for block in range(soonest.shape[0]):
        if soonest[block] < w1:
            for node in nodes_of_block(clock, block):
                if clock.next_event[node] < w1:
                    clock.active[k] = node
                    clock.status[node] = UNFINISHED
                    k += 1
    window.n_active = k
    return True


def nodes_of_block(clock: Clock, block: int) -> Iterable[NodeId]:
    """The nodes of a block, in ascending order."""
    end = min((block + 1) * BLOCK, clock.next_event.shape[0])
    return span(NodeId(block * BLOCK), NodeId(end))


def expect(clock: Clock, node: NodeId, time: Ps) -> None:
    """Record that ``node`` has an event at ``time``."""
    if time < clock.next_event[node]:
        clock.next_event[node] = time
        block = node // BLOCK
        clock.soonest[block] = min(clock.soonest[block], time)


def forget_event(clock: Clock, node: NodeId) -> None:
    """Leave the next event of another part's node to that part."""
    if clock.next_event[node] != INF:
        clock.next_event[node] = INF
        block = int(node) // BLOCK
        soonest = INF
        for each in nodes_of_block(clock, block):
            soonest = min(soonest, clock.next_event[each])
        clock.soonest[block] = soonest


def note_next_events(clock: Clock) -> None:
    """Record the next event of every node that was active."""
    done = -1
    for i in range(clock.clock[0].n_active):
        block = clock.active[i] // BLOCK
        if block != done:
            soonest = INF
            for node in nodes_of_block(clock, block):
                soonest = min(soonest, clock.next_event[node])
            clock.soonest[block] = soonest
            done = block


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
    """Set the days that end and begin with a slot; wake ports that wait for them. Before, a day's
    start is relative to its slot's start, and its end is END_PS."""
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
    """Force a new lookup of the circuit's day."""
    circuit.down_ps = circuit.closes_ps = Ps(-INF)
