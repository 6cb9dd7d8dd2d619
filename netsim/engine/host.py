"""A host: its arrivals, its timers and its NIC, in exact time order.

The NIC pulls: a packet is built when the port is free, so that no queue of data
builds up in a host. Control packets (acknowledgements, pulls) wait in a FIFO that
is served before data.
"""

from __future__ import annotations

from netsim.engine.env import env_of
from netsim.engine.handlers import (
    IN_FILL,
    IN_ON_CONTROL,
    IN_ON_DATA,
    IN_ON_HOST_TIMER,
    IN_ON_REQUEST,
    IN_ON_RX_TIMER,
    IN_ON_START,
    IN_ON_TIMER,
    IN_ON_TRIMMED,
    IN_RANK,
    IN_READY,
    NOTHING,
)
from netsim.engine.holes import (
    FAULTS,
    N_CLASSES,
    RANKED,
    TRACE,
    fill,
    on_control,
    on_data,
    on_host_timer,
    on_request,
    on_rx_timer,
    on_start,
    on_timer,
    on_trimmed,
    rank,
    ready,
)
from netsim.engine.ids import Bytes, FlowId
from netsim.engine.layout import (
    BROKEN,
    GROW_CONTROL,
    GROW_RING,
    INF,
    OK,
    TIMER_RX,
    TIMER_START,
    TIMER_TX,
)
from netsim.engine.packets import CONTROL_BURST, DATA, FIRST_CONTROL, PFC, TRIMMED
from netsim.engine.ports import lost_on_wire, set_paused
from netsim.engine.rules import (
    ENDLESS,
    MOST_FIRINGS,
    MOST_FIRINGS_OF_A_TIMER,
    NO_CLASS,
    NO_PACKET,
    NOT_CONTROL,
    NOT_DATA,
    broken,
)
from netsim.engine.timers import arm, first_key, surface
from netsim.engine.trace import (
    HANDLER,
    LOST,
    RECEIVED,
    SENT,
    trace_created,
    trace_packet,
    trace_pause,
    trace_rx,
    trace_timer,
    trace_tx,
)
from netsim.model.arithmetic import send_time


def wake(env, host, tx):
    """Put a flow on its host's ready list, unless it is there or finished.

    It goes behind those of its rank; without ranks that is the end of the list.
    """
    if tx.listed == 1 or tx.finished == 1:
        return
    tx.listed = 1
    before = -1
    following = -1
    if host.ready_head >= 0:
        before = host.ready_tail
    if RANKED:
        doing = host.doing
        host.doing = IN_RANK
        tx.rank = rank(env, tx)
        host.doing = doing
        if before >= 0 and env.tx[before].rank > tx.rank:
            before = -1
            following = host.ready_head
            while env.tx[following].rank <= tx.rank:
                before = following
                following = env.tx[following].next_ready
    tx.next_ready = following
    if following < 0:
        host.ready_tail = tx.flow
    if before < 0:
        host.ready_head = tx.flow
    else:
        env.tx[before].next_ready = tx.flow


def unlist(env, host, before, tx):
    """Take a flow off the ready list; ``before`` is the flow in front of it, or -1."""
    tx.listed = 0
    if before < 0:
        host.ready_head = tx.next_ready
    else:
        env.tx[before].next_ready = tx.next_ready
    if tx.next_ready < 0:
        host.ready_tail = before


def pick(env, host, port, now):
    """The flow that sends now, or -1; it leaves the ready list, as blocked and paced ones do."""
    before = -1
    flow = host.ready_head
    while flow >= 0:
        tx = env.tx[flow]
        following = tx.next_ready
        if tx.finished == 1:
            unlist(env, host, before, tx)
        elif (port.paused >> tx.prio) & 1 == 1:
            before = flow
        else:
            unlist(env, host, before, tx)
            host.doing = IN_READY
            at = ready(env, now, tx)
            if at <= now:
                return flow
            if at < INF:
                arm(env.timers, env.heap, host, tx.first_timer - 1, at)
        flow = following
    return -1


def _launch(wires, port, p, slot, now):
    """Start the transmission of the packet that was put into ring slot ``slot``."""
    pkt = wires.pool[slot]
    size = Bytes(pkt.size_bytes)
    end = now + send_time(size, port.ps_per_byte_q20)
    pkt.time = end + port.delay_ps
    pkt.hops = 1
    if TRACE:
        trace_packet(wires, SENT, p, slot, now, 0)
    arrives = True
    if FAULTS:
        arrives = not lost_on_wire(wires, p, int(pkt.prio), size, now, end)
    if arrives:
        port.tail += 1
    elif TRACE:
        trace_packet(wires, LOST, p, slot, now, 0)
    port.free_at = end
    queue = wires.queues[p * N_CLASSES + int(pkt.prio)]
    queue.sent_packets += 1
    queue.sent_bytes += size
    return size


def transmit_control(wires, host, port, p, now):
    """Send the head of the control FIFO."""
    slot = port.ring_off + (port.tail & port.ring_mask)
    wires.pool[slot] = wires.pool[host.ctrl_off + (host.ctrl_head & host.ctrl_mask)]
    host.ctrl_head += 1
    host.sent_bytes += _launch(wires, port, p, slot, now)
    host.sent_packets += 1


def check_data(host, tx, pkt):
    """Is what ``fill`` made a data packet of this flow? If not, a rule is broken."""
    kind = int(pkt.kind)
    seq = int(pkt.seq)
    if kind >= FIRST_CONTROL or kind == TRIMMED:
        broken(host, NOT_DATA, kind)
    if int(pkt.prio) >= N_CLASSES:
        broken(host, NO_CLASS, int(pkt.prio))
    if kind == DATA and (seq < 0 or seq >= tx.n_packets):
        broken(host, NO_PACKET, seq)
    return host.fault == 0


def count_sent(env, tx, seq):
    """Data packet ``seq`` is sent: for the first time, or again?"""
    if seq == tx.high_seq:
        tx.high_seq = seq + 1
    else:
        count_out_of_order(env.bits, tx, seq)


def count_out_of_order(bits, tx, seq):
    """Data packet ``seq`` is sent, and is not the one behind the highest that was."""
    if seq > tx.high_seq:
        for skipped in range(tx.high_seq, seq):
            bits[tx.bits_end + (skipped >> 5)] |= 1 << (skipped & 31)
        tx.skipped += seq - tx.high_seq
        tx.high_seq = seq + 1
        return
    w = tx.bits_end + (seq >> 5)
    if tx.skipped > 0 and (bits[w] >> (seq & 31)) & 1 == 1:
        bits[w] &= ~(1 << (seq & 31))
        tx.skipped -= 1
    else:
        tx.retransmits += 1


def transmit_data(env, wires, host, port, p, flow, now):
    """Build a data packet of ``flow`` in the link's ring and send it."""
    tx = env.tx[flow]
    slot = port.ring_off + (port.tail & port.ring_mask)
    wires.pool[slot] = wires.blank[0]
    pkt = wires.pool[slot]
    pkt.flow = flow
    pkt.dst = tx.peer
    pkt.entropy = tx.entropy
    pkt.prio = tx.prio
    host.doing = IN_FILL
    fill(env, now, tx, pkt)
    if not check_data(host, tx, pkt):
        return
    payload = env.par.payload_bytes
    if int(pkt.kind) == DATA:
        seq = int(pkt.seq)
        if seq == tx.n_packets - 1:
            payload = tx.last_bytes
        count_sent(env, tx, seq)
    pkt.size_bytes = payload + env.par.header_bytes
    tx.sent_packets += 1
    host.sent_bytes += _launch(wires, port, p, slot, now)
    host.sent_packets += 1
    if TRACE:
        trace_tx(wires, env, flow, p, now, HANDLER)
    wake(env, host, tx)


def check_control(env, host, first):
    """Break a rule if a packet of the control FIFO, from the ``first`` on, cannot be sent."""
    for i in range(first, host.ctrl_tail):
        pkt = env.pool[host.ctrl_off + (i & host.ctrl_mask)]
        kind = int(pkt.kind)
        if kind <= TRIMMED or kind >= PFC:
            broken(host, NOT_CONTROL, kind)
        if int(pkt.prio) >= N_CLASSES:
            broken(host, NO_CLASS, int(pkt.prio))


def receive(env, wires, host, port, p, slot, now):
    """Handle the arrival of the packet in pool slot ``slot``."""
    pkt = wires.pool[slot]
    kind = int(pkt.kind)
    if kind == PFC:
        if TRACE:
            trace_pause(wires, env, int(pkt.aux), p, now)
        set_paused(wires, port, p, int(pkt.aux), now)
        return
    host.received_packets += 1
    host.received_bytes += int(pkt.size_bytes)
    flow = FlowId(pkt.flow)
    if TRACE:
        trace_packet(wires, RECEIVED, p, slot, now, 0)
    if kind < FIRST_CONTROL:
        rx = env.rx[flow]
        if kind == DATA:
            host.doing = IN_ON_DATA
            on_data(env, now, rx, pkt)
        elif kind == TRIMMED:
            host.doing = IN_ON_TRIMMED
            on_trimmed(env, now, rx, pkt)
        else:
            host.doing = IN_ON_REQUEST
            on_request(env, now, rx, pkt)
        if TRACE:
            trace_rx(wires, env, flow, p, now, HANDLER)
    else:
        tx = env.tx[flow]
        if tx.finished == 0:
            host.doing = IN_ON_CONTROL
            on_control(env, now, tx, pkt)
            wake(env, host, tx)
        if TRACE:
            trace_tx(wires, env, flow, p, now, HANDLER)


def fire(env, host, slot, now):
    """Run the handler of a timer that is due."""
    timer = env.timers[slot]
    code = timer.code
    if code >= TIMER_RX:
        host.doing = IN_ON_RX_TIMER
        on_rx_timer(env, now, env.rx[timer.owner], code - TIMER_RX)
        return
    if code < TIMER_TX:
        host.doing = IN_ON_HOST_TIMER
        on_host_timer(env, now, code)
        return
    tx = env.tx[timer.owner]
    if tx.finished == 1:
        return
    if code != TIMER_START:
        host.doing = IN_ON_TIMER
        on_timer(env, now, tx, code - TIMER_TX)
    elif tx.start_ps == now:
        host.doing = IN_ON_START
        on_start(env, now, tx)
    wake(env, host, tx)


def host_step(net, wires, ends, clock, h):
    """Advance host ``h`` to the end of the window. Returns a status of layout.py."""
    host = ends.hosts[h]
    p = host.port
    port = wires.ports[p]
    inbox = wires.inbox[p]
    env = env_of(host, ends.pars[0].transport0, ends, wires)
    w1 = clock.clock[0].w1
    tail_before = wires.new_tail[p]
    # Not earlier than where a step that stopped for lack of room left off.
    now = clock.next_event[h]
    stuck = False  # everything on the ready list is paused
    firings = 0  # of timers, at this instant
    checked = host.ctrl_tail
    status = OK
    while True:
        check_control(env, host, checked)
        checked = host.ctrl_tail
        t_arrival = INF
        if inbox.head < inbox.tail:
            t_arrival = wires.pool[inbox.ring_off + (inbox.head & inbox.ring_mask)].time
        t_timer = max(first_key(ends.timers, ends.heap, host), now)
        control = host.ctrl_head < host.ctrl_tail
        if control and port.paused != 0:
            head = wires.pool[host.ctrl_off + (host.ctrl_head & host.ctrl_mask)]
            control = (port.paused >> int(head.prio)) & 1 == 0
        t_send = INF
        if control or (host.ready_head >= 0 and not stuck):
            t_send = max(port.free_at, now)
        t = min(t_arrival, t_timer, t_send)
        if t >= w1 or host.fault != 0:
            break
        if t > now:
            firings = 0
        now = t
        if t == t_send and t < t_arrival and t < t_timer:
            if port.tail - wires.head_seen[p] > port.ring_mask:
                status = GROW_RING
                wires.link_need[p] = 2 * (port.ring_mask + 1)
                break
            if control:
                transmit_control(wires, host, port, p, now)
            else:
                flow = pick(env, host, port, now)
                if flow >= 0:
                    transmit_data(env, wires, host, port, p, flow, now)
                else:
                    stuck = host.ready_head >= 0
            continue
        if host.ctrl_tail - host.ctrl_head + CONTROL_BURST > host.ctrl_mask + 1:
            status = GROW_CONTROL
            clock.what[h] = h
            break
        created = host.ctrl_tail
        if t == t_arrival:
            slot = inbox.ring_off + (inbox.head & inbox.ring_mask)
            receive(env, wires, host, port, p, slot, now)
            inbox.head += 1
        else:
            slot = surface(ends.timers, ends.heap, host)
            if slot >= 0:
                fire(env, host, slot, now)
                firings += 1
                if firings > MOST_FIRINGS + MOST_FIRINGS_OF_A_TIMER * host.n_timers:
                    broken(host, ENDLESS, firings)
                if TRACE:
                    trace_timer(wires, env, ends.timers[slot], p, now)
        if TRACE:
            trace_created(wires, env, created, p, now)
        stuck = False
    clock.next_event[h] = min(t_arrival, t_timer, t_send)
    if port.tail > tail_before:
        # The slot is read back from the ring: the consumer's first event among what is new.
        if wires.first_new[p] == INF:
            slot = port.ring_off + (tail_before & port.ring_mask)
            wires.first_new[p] = wires.pool[slot].time
        wires.new_tail[p] = port.tail
    if host.fault != 0:
        return BROKEN
    host.doing = NOTHING
    return status
