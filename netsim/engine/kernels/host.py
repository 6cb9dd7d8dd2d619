"""A host: arrivals, timers and transmissions in exact time order.

A handler sees one NIC (`env.host`): the flow's, the timer's or the sending port's. With
``ONE_PORT`` every host has one NIC with one port, and the loops over both disappear.

The NIC pulls: a packet is built when a port is free, so no data queues in a host. Control packets
(acknowledgments, pulls) wait in a FIFO that is served first. Each port has a FIFO and a ready list.
"""

from __future__ import annotations

from netsim.engine.kernels.fields import (
    NO_FLOW,
    NO_TIMER,
    Bytes,
    FlowId,
    GlobalPort,
    HostId,
    HostPortRecord,
    HostRecord,
    NicId,
    Numbers,
    PacketRecord,
    PortRecord,
    Ps,
    RxRecord,
    Slot,
    TaskId,
    TimerSlot,
    TxRecord,
)
from netsim.engine.kernels.handlers import (
    ENDLESS,
    IN_BUILD_PACKET,
    IN_ON_CONTROL,
    IN_ON_DATA,
    IN_ON_HOST_TIMER,
    IN_ON_REQUEST,
    IN_ON_RETURNED,
    IN_ON_RX_TIMER,
    IN_ON_START,
    IN_ON_TIMER,
    IN_ON_TRIMMED,
    IN_RANK,
    IN_READY,
    MAX_FIRINGS,
    MAX_FIRINGS_OF_A_TIMER,
    NO_PACKET,
    NO_SIZE,
    NOT_CONTROL,
    NOT_DATA,
    NOTHING,
    UNKNOWN_CLASS,
    Env,
    broken,
    build_packet,
    env_of,
    on_control,
    on_data,
    on_host_timer,
    on_request,
    on_returned,
    on_rx_timer,
    on_start,
    on_timer,
    on_trimmed,
    rank,
    ready,
)
from netsim.engine.kernels.layout import (
    BROKEN,
    BY_ROUTING,
    ENTROPY,
    INF,
    OK,
    ONE_PORT,
    TIMER_RX,
    TIMER_START,
    TIMER_TASK,
    TIMER_TX,
    Clock,
    HostState,
    LinkState,
    Net,
    first_level,
    first_nic_of,
    first_port_of,
    nic_of,
    nic_of_port,
    nics_of,
    ports_of_host,
    queue_of,
    ring_slot,
)
from netsim.engine.kernels.link_retry import has_replay, has_room, may_start_at
from netsim.engine.kernels.links import (
    copy_kept,
    depart,
    end_of_transmission,
    first_slot,
    header_end,
    lengthen_control,
    next_slot,
    reaches_end,
    send_again,
)
from netsim.engine.kernels.packets import (
    ACK,
    CONTROL_BURST,
    DATA,
    FIRST_CONTROL,
    MESSAGE,
    NACK,
    PFC,
    PULL,
    RETURNED,
    TRIMMED,
)
from netsim.engine.kernels.port_pairs import data_port
from netsim.engine.kernels.ports import (
    arriving_pauses,
    is_closed,
    set_paused_classes,
    take_message,
)
from netsim.engine.kernels.series import close_until, look_at_host
from netsim.engine.kernels.specialization_constants import (
    CARRIER,
    HAS_CREDIT,
    HAS_ON_MESSAGE,
    HAS_RANK,
    HAS_SERIES,
    HOST_JITTER,
    LINK_RETRY,
    MAKES_PACKETS,
    N_CLASSES,
    N_LEVELS,
    PLANE_BALANCING,
    POLICY_ROUTING,
    PROGRAM,
    SETS_FLOW_SIZE,
    TASKS,
    TRACE,
)
from netsim.engine.kernels.tasks import (
    arm,
    first_key,
    handed_over,
    program_timer,
    start_timer,
    surface,
    task_timer,
)
from netsim.engine.kernels.trace import (
    HANDLER,
    RECEIVED,
    SENT,
    trace_asked,
    trace_created,
    trace_packet,
    trace_pause,
    trace_rx,
    trace_timer,
    trace_tx,
)
from netsim.model.arithmetic import PURPOSE_HOST_JITTER, PURPOSE_READY_ORDER, below, rand32


def receive(env: Env, p: GlobalPort, slot: Slot, now: Ps) -> None:
    """Handle the arrival, at the host's port ``p``, of the packet in pool slot ``slot``."""
    host = env.host
    links = env.links
    pkt = links.pool[slot]
    kind = int(pkt.kind)
    if HAS_ON_MESSAGE:
        if kind == MESSAGE:
            take_message(links, links.ports[p], pkt)
            return
    if kind >= PFC:
        classes = arriving_pauses(links.ports[p], pkt)
        if classes >= 0:
            if TRACE:
                trace_pause(links, env, classes, p, now)
            set_paused_classes(links, links.ports[p], classes, now)
        return
    host.received_packets += 1
    host.received_hops += int(pkt.hops)
    host.received_bytes += int(pkt.size_bytes)
    flow = FlowId(pkt.flow)
    if TRACE:
        trace_packet(links, RECEIVED, p, pkt, now, 0)
    if N_LEVELS > 1:
        pkt.prio = int(pkt.prio) // N_LEVELS
    if kind < FIRST_CONTROL:
        rx = env.rx[flow]
        if SETS_FLOW_SIZE:
            if rx.received_bytes == 0:
                learn_size(env, rx)
        if kind == DATA:
            host.handler = IN_ON_DATA
            on_data(env, now, rx, pkt)
        elif kind == TRIMMED:
            host.handler = IN_ON_TRIMMED
            on_trimmed(env, now, rx, pkt)
        else:
            host.handler = IN_ON_REQUEST
            on_request(env, now, rx, pkt)
        if TRACE:
            trace_rx(links, env, flow, p, now, HANDLER)
    else:
        if kind == ACK:
            host.received_acks += 1
        elif kind == NACK:
            host.received_nacks += 1
        elif kind == PULL:
            host.received_pulls += 1
        tx = env.tx[flow]
        if tx.finished == 0:
            if MAKES_PACKETS and int(pkt.ecn) & RETURNED:
                host.handler = IN_ON_RETURNED
                on_returned(env, now, tx, pkt)
            else:
                host.handler = IN_ON_CONTROL
                on_control(env, now, tx, pkt)
            wake(env, tx)
        if TRACE:
            trace_tx(links, env, flow, p, now, HANDLER)


def learn_size(env: Env, rx: RxRecord) -> None:
    """Copy a flow's size from its sender when the first packet arrives.

    The sender's record belongs to another host, which wrote it before the flow started: in an
    earlier window, and not since then.
    """
    tx = env.tx[rx.flow]
    rx.size_bytes = tx.size_bytes
    rx.n_packets = tx.n_packets
    rx.last_bytes = tx.last_bytes


def fire(env: Env, slot: TimerSlot, now: Ps) -> int:
    """Run the handler of a timer that is due. Return 1, or 0 for timers of tasks and programs.

    These are not counted: a task's timer fires at most twice, and a program's calls have a separate
    limit.
    """
    host = env.host
    timer = env.hosts.timers[slot]
    code = timer.code
    if PROGRAM:
        if code <= TIMER_TASK and program_timer(env, now, timer):
            return 0
    if TASKS:
        if code == TIMER_TASK:
            task_timer(env, now, TaskId(timer.owner))
            return 0
    if code >= TIMER_RX:
        host.handler = IN_ON_RX_TIMER
        on_rx_timer(env, now, env.rx[FlowId(timer.owner)], code - TIMER_RX)
        return 1
    if code < TIMER_TX:
        host.handler = IN_ON_HOST_TIMER
        on_host_timer(env, now, code)
        return 1
    tx = env.tx[FlowId(timer.owner)]
    if tx.finished == 1:
        return 1
    if code != TIMER_START:
        host.handler = IN_ON_TIMER
        on_timer(env, now, tx, code - TIMER_TX)
    elif tx.start_ps == now:
        host.handler = IN_ON_START
        on_start(env, now, tx)
    wake(env, tx)
    return 1


def host_step(
    net: Net, links: LinkState, hosts: HostState, clock: Clock, worker: int, host_id: HostId
) -> int:
    """Advance a host to the end of the window; return a status of layout.py."""
    w1 = clock.clock[0].w1
    now = clock.next_event[host_id]  # a port that became free earlier sends from now on
    nic = first_nic_of(hosts, host_id)
    first = hosts.nics[nic]  # the host's NICs share its heap of timers
    last = first.now_ps  # of an event
    firings = 0  # timer firings at this instant
    for each in nics_of(hosts, host_id):
        hosts.nics[each].worker = worker
    while True:
        t_arrival, p_in = first_arrival(net, links, worker, host_id)
        t_timer = max(first_key(hosts.timers, hosts.heap, first), now)
        t_send, p_out = first_sender(net, links, hosts, host_id, now)
        t_next = min(t_arrival, t_timer, t_send)
        if t_next >= w1 or hosts.nics[nic].rule_broken != 0:
            break
        if t_next > now:
            firings = 0
        now = last = t_next
        if HAS_SERIES:
            look_at_host(links, hosts, host_id, now)
        for p in ports_of_host(net, host_id):
            make_room_for_control(links, worker, hosts.host_ports[p])
        arrives = t_arrival == now
        sends = not arrives and now < t_timer
        slot = Slot(0)
        timer = NO_TIMER
        if sends:
            nic = nic_of_port(hosts, p_out)
        elif arrives:
            slot = first_slot(links, worker, links.readers[p_in])
            nic = nic_of_arrival(links, hosts, p_in, slot)
        else:
            timer = surface(hosts.timers, hosts.heap, first)
            if timer < 0:
                continue
            nic = nic_of_timer(hosts, host_id, timer)
        env = env_of(hosts.nics[nic], hosts.pars[0].transport0, hosts, links)
        if CARRIER or PLANE_BALANCING == BY_ROUTING:
            env.host.now_ps = now
        if sends:
            start_to_send(env, p_out, now)
        elif arrives:
            receive(env, p_in, slot, now)
            links.readers[p_in].head += 1
        else:
            firings += fire(env, timer, now)
            if firings > MAX_FIRINGS + MAX_FIRINGS_OF_A_TIMER * env.host.n_timers:
                broken(env.host, ENDLESS, firings)
            if TRACE:
                trace_timer(links, env, hosts.timers[timer], env.host.port, now)
        for p in ports_of_host(net, host_id):
            if TRACE:
                trace_created(links, hosts.host_ports[p], p, now)
            check_control(env, p)
            if not sends:
                hosts.host_ports[p].stuck = 0
    clock.next_event[host_id] = t_next
    first.now_ps = last
    if hosts.nics[nic].rule_broken != 0:
        return BROKEN
    for each in nics_of(hosts, host_id):
        hosts.nics[each].handler = NOTHING
    return OK


def first_arrival(
    net: Net, links: LinkState, worker: int, host_id: HostId
) -> tuple[Ps, GlobalPort]:
    """Return when the next packet reaches a host, and the port (the lowest of several)."""
    earliest = INF
    at = first_port_of(net, host_id)
    for p in ports_of_host(net, host_id):
        reader = links.readers[p]
        if reader.head < reader.tail:
            time = links.pool[first_slot(links, worker, reader)].time
            if time < earliest:
                earliest = time
                at = p
    return earliest, at


def first_sender(
    net: Net, links: LinkState, hosts: HostState, host_id: HostId, now: Ps
) -> tuple[Ps, GlobalPort]:
    """Return when a port can next send, and the port (the lowest of several)."""
    earliest = INF
    at = first_port_of(net, host_id)
    for p in ports_of_host(net, host_id):
        takes_ps = max(next_take(links, hosts, p), now)
        if LINK_RETRY:
            takes_ps = max(takes_ps, may_start_at(links, p, may_send(links, hosts, p)))
        if takes_ps < earliest and (LINK_RETRY or may_send(links, hosts, p)):
            earliest = takes_ps
            at = p
    return earliest, at


def nic_of_timer(hosts: HostState, host_id: HostId, slot: TimerSlot) -> NicId:
    """Return the NIC of a timer; the first NIC for tasks' timers."""
    if PLANE_BALANCING != ONE_PORT:
        for nic in nics_of(hosts, host_id):
            host = hosts.nics[nic]
            if host.first_timer <= slot and slot - host.first_timer < host.n_timers:
                return nic
    return first_nic_of(hosts, host_id)


def nic_of_arrival(links: LinkState, hosts: HostState, p: GlobalPort, slot: Slot) -> NicId:
    """Return the NIC that the packet in pool slot ``slot``, which came in by port ``p``, is for."""
    kind = int(links.pool[slot].kind)
    if PLANE_BALANCING == ONE_PORT or kind >= PFC:
        return nic_of_port(hosts, p)
    flow = FlowId(links.pool[slot].flow)
    if kind < FIRST_CONTROL:
        return nic_of(hosts, hosts.rx[flow])
    return nic_of(hosts, hosts.tx[flow])


# --- ready flows and transmissions ----------------------------------------------------------------


def wake(env: Env, tx: TxRecord) -> None:
    """Add a flow to the ready list of its next port, unless it is in a list or finished. It joins
    after flows of its rank; without ranks at the end."""
    if tx.listed == 1 or tx.finished == 1:
        return
    host = env.host
    p = host.port
    if PLANE_BALANCING != ONE_PORT:
        p = data_port(env, tx)
    host_port = env.hosts.host_ports[p]
    if PLANE_BALANCING != ONE_PORT:
        host_port.n_ready += 1
    host_port.stuck = 0
    tx.listed = 1
    before = NO_FLOW
    following = NO_FLOW
    if host_port.ready_head >= 0:
        before = host_port.ready_tail
    if HOST_JITTER and not HAS_RANK and before >= 0:
        before = place(env, host_port, p)
        following = host_port.ready_head
        if before >= 0:
            following = env.tx[before].next_ready
    if HAS_RANK:
        handler = host.handler
        host.handler = IN_RANK
        tx.rank = rank(env, tx)
        host.handler = handler
        if before >= 0 and env.tx[before].rank > tx.rank:
            before = NO_FLOW
            following = host_port.ready_head
            while env.tx[following].rank <= tx.rank:
                before = following
                following = env.tx[following].next_ready
    tx.next_ready = following
    if following < 0:
        host_port.ready_tail = tx.flow
    if before < 0:
        host_port.ready_head = tx.flow
    else:
        env.tx[before].next_ready = tx.flow


def place(env: Env, host_port: HostPortRecord, p: GlobalPort) -> FlowId:
    """Return the listed flow after which a flow that joins the next round is inserted: at the start
    or the end of that round. Odd rounds reverse the order of the previous round."""
    if host_port.turn_end == host_port.ready_tail:
        return host_port.ready_tail
    is_first = host_port.n_turns & 1
    if is_first == 0:
        draw = rand32(env.links.fabric[0].seed, PURPOSE_READY_ORDER, int(p), host_port.n_placed)
        is_first = draw & 1
        host_port.n_placed += 1
    if is_first == 1:
        return host_port.turn_end
    return host_port.ready_tail


def unlist(env: Env, host_port: HostPortRecord, before: FlowId, tx: TxRecord, passed: bool) -> None:
    """Remove a flow from the ready list; ``before`` is its predecessor or NO_FLOW. ``passed``: the
    flow is beyond the end of the round."""
    tx.listed = 0
    if HOST_JITTER:
        if passed or host_port.turn_end < 0:
            host_port.turn_end = host_port.ready_tail
            host_port.n_turns += 1
        if host_port.turn_end == tx.flow:
            host_port.turn_end = before
    if PLANE_BALANCING != ONE_PORT:
        host_port.n_ready -= 1
    if before < 0:
        host_port.ready_head = tx.next_ready
    else:
        env.tx[before].next_ready = tx.next_ready
    if tx.next_ready < 0:
        host_port.ready_tail = before


def pick(env: Env, host_port: HostPortRecord, port: PortRecord, now: Ps) -> FlowId:
    """Return the flow that sends now by a port, or NO_FLOW. Removes it and blocked or paced flows
    from the ready list; sets the start timer of paced ones."""
    host = env.host
    before = NO_FLOW
    passed = False
    full = Bytes(env.par.payload_bytes + env.par.header_bytes)
    flow = host_port.ready_head
    while flow >= 0:
        tx = env.tx[flow]
        following = tx.next_ready
        if tx.finished == 1:
            unlist(env, host_port, before, tx, passed)
            passed = False
        elif is_closed(env.links, port, first_level(tx.prio), full):
            before = flow
            passed = passed or flow == host_port.turn_end
        else:
            unlist(env, host_port, before, tx, passed)
            passed = False
            host.handler = IN_READY
            at = ready(env, now, tx)
            if at <= now:
                return flow
            if TRACE:
                trace_asked(env, flow, port.number, now, at)
            if at < INF:
                arm(env.hosts.timers, env.hosts.heap, host, start_timer(tx), at)
        flow = following
    return NO_FLOW


def launch_from_host(env: Env, port: PortRecord, slot: Slot, now: Ps) -> None:
    """Start the transmission of the packet in pool slot ``slot``, after the current one if any;
    count it."""
    host = env.host
    links = env.links
    pkt = links.pool[slot]
    size = Bytes(pkt.size_bytes)
    begin = begin_next(env, port, now)
    end = end_of_transmission(links, port, size, begin)
    pkt.time = arrival_from_host(env, port, header_end(links, port, size, begin, end))
    pkt.hops = 1
    cls = int(pkt.prio)
    arrives = reaches_end(links, port, cls, slot, size, begin, end)
    if TRACE:
        trace_packet(links, SENT, port.number, pkt, begin, 0)
    if HAS_SERIES:
        close_until(links, port.number, now)
    queue = links.queues[queue_of(port.number, cls)]
    depart(links, port, queue, slot, size, begin, end, arrives)
    host.sent_packets += 1
    host.sent_bytes += size


def begin_next(env: Env, port: PortRecord, now: Ps) -> Ps:
    """Return when a packet that a port takes now begins: after the current transmission, if any."""
    if PLANE_BALANCING == ENTROPY:
        begin = Ps(max(now, port.free_at))
        env.hosts.host_ports[port.number].begins_ps = begin
        return begin
    return now


def replay_from_host(env: Env, port: PortRecord, now: Ps) -> None:
    """Send the next packet of a replay."""
    links = env.links
    slot = copy_kept(links, env.host.worker, port)
    size = Bytes(links.pool[slot].size_bytes)
    begin = begin_next(env, port, now)
    end = end_of_transmission(links, port, size, begin)
    left_ps = header_end(links, port, size, begin, end)
    links.pool[slot].time = arrival_from_host(env, port, left_ps)
    send_again(links, port, slot, begin, end)


def arrival_from_host(env: Env, port: PortRecord, left_ps: Ps) -> Ps:
    """Return when a packet arrives if it, or its header, left at ``left_ps``."""
    arrival = Ps(left_ps + port.delay_ps)
    if HOST_JITTER:
        fabric = env.links.fabric[0]
        host_port = env.hosts.host_ports[port.number]
        draw = rand32(fabric.seed, PURPOSE_HOST_JITTER, int(port.number), host_port.n_late)
        host_port.n_late += 1
        late = int(below(draw, fabric.host_jitter_ps))
        arrival = Ps(max(arrival + late, host_port.last_arrival + 1))
        host_port.last_arrival = arrival
    return arrival


def first_open(links: LinkState, host_port: HostPortRecord, port: PortRecord) -> int:
    """Return the position of the first unpaused control packet, or the FIFO's end."""
    if port.paused == (1 << N_CLASSES) - 1:
        return host_port.ctrl_tail
    index = host_port.ctrl_head
    if HAS_CREDIT or port.paused != 0:
        while index < host_port.ctrl_tail:
            pkt = links.pool[ring_slot(host_port.ctrl_off, host_port.ctrl_mask, index)]
            if not is_closed(links, port, int(pkt.prio), Bytes(pkt.size_bytes)):
                break
            index += 1
    return index


def may_send(links: LinkState, hosts: HostState, p: GlobalPort) -> bool:
    """Return whether port ``p`` has an unpaused control packet, or a flow that may be unpaused."""
    host_port = hosts.host_ports[p]
    if host_port.ready_head >= 0 and host_port.stuck == 0:
        return True
    return first_open(links, host_port, links.ports[p]) < host_port.ctrl_tail


def next_take(links: LinkState, hosts: HostState, p: GlobalPort) -> Ps:
    """Return the time from which port ``p`` can take its next packet."""
    if PLANE_BALANCING == ENTROPY:
        return hosts.host_ports[p].begins_ps
    return links.ports[p].free_at


def start_to_send(env: Env, p: GlobalPort, now: Ps) -> None:
    """Send a packet by the free port ``p``, or find that all waiting traffic is paused."""
    port = env.links.ports[p]
    host_port = env.hosts.host_ports[p]
    if LINK_RETRY:
        if has_replay(env.links, port, now):
            replay_from_host(env, port, now)
            return
        if not has_room(env.links, p, now):
            return
    index = first_open(env.links, host_port, port)
    if index < host_port.ctrl_tail:
        transmit_control(env, host_port, port, index, now)
        return
    flow = pick(env, host_port, port, now)
    if flow >= 0:
        transmit_data(env, port, flow, now)
    elif host_port.ready_head >= 0:
        host_port.stuck = 1


def transmit_control(
    env: Env, host_port: HostPortRecord, port: PortRecord, index: int, now: Ps
) -> None:
    """Send the packet at position ``index`` of the control FIFO."""
    pool = env.links.pool
    slot = next_slot(env.links, env.host.worker, port)
    pool[slot] = pool[ring_slot(host_port.ctrl_off, host_port.ctrl_mask, index)]
    for i in range(index, host_port.ctrl_head, -1):
        before = ring_slot(host_port.ctrl_off, host_port.ctrl_mask, i - 1)
        pool[ring_slot(host_port.ctrl_off, host_port.ctrl_mask, i)] = pool[before]
    host_port.ctrl_head += 1
    launch_from_host(env, port, slot, now)


def make_room_for_control(links: LinkState, worker: int, host_port: HostPortRecord) -> None:
    """Make room in a port's control FIFO for a handler's packets."""
    if host_port.ctrl_tail - host_port.ctrl_head + CONTROL_BURST > host_port.ctrl_mask + 1:
        lengthen_control(links, worker, host_port)


def check_control(env: Env, p: GlobalPort) -> None:
    """Check the new control packets of port ``p``; one that cannot be sent breaks a rule. From now
    on their classes are link classes."""
    host = env.host
    par = env.par
    host_port = env.hosts.host_ports[p]
    smallest = min(par.control_bytes, par.header_bytes + 1)
    largest = max(par.control_bytes, par.header_bytes + par.payload_bytes)
    for i in range(host_port.checked, host_port.ctrl_tail):
        pkt = env.links.pool[ring_slot(host_port.ctrl_off, host_port.ctrl_mask, i)]
        kind = int(pkt.kind)
        if kind <= TRIMMED or kind >= PFC:
            broken(host, NOT_CONTROL, kind)
        if N_LEVELS * int(pkt.prio) >= N_CLASSES:
            broken(host, UNKNOWN_CLASS, int(pkt.prio))
            pkt.prio = 0
        pkt.prio = first_level(int(pkt.prio))
        if not smallest <= int(pkt.size_bytes) <= largest:
            broken(host, NO_SIZE, int(pkt.size_bytes))
    host_port.checked = host_port.ctrl_tail


def check_data(host: HostRecord, tx: TxRecord, pkt: PacketRecord) -> bool:
    """Return whether ``build_packet`` made a data packet of this flow; else break a rule."""
    kind = int(pkt.kind)
    seq = int(pkt.seq)
    if kind >= FIRST_CONTROL or kind == TRIMMED:
        broken(host, NOT_DATA, kind)
    if N_LEVELS * int(pkt.prio) >= N_CLASSES:
        broken(host, UNKNOWN_CLASS, int(pkt.prio))
    if kind == DATA and (seq < 0 or seq >= tx.n_packets):
        broken(host, NO_PACKET, seq)
    return host.rule_broken == 0


def count_sent(env: Env, tx: TxRecord, seq: int) -> None:
    """Count the transmission of data packet ``seq``, or its retransmission."""
    if seq == tx.high_seq:
        tx.high_seq = seq + 1
    else:
        count_out_of_order(env.bits, tx, seq)


def count_out_of_order(bits: Numbers[int, int], tx: TxRecord, seq: int) -> None:
    """Count a data packet that does not follow the highest one sent. The engine's own bitmap marks
    the skipped packets."""
    if seq > tx.high_seq:
        for skipped in range(tx.high_seq, seq):
            bits[tx.bits_end + (skipped >> 5)] |= 1 << (skipped & 31)
        tx.skipped += seq - tx.high_seq
        tx.high_seq = seq + 1
        return
    word = tx.bits_end + (seq >> 5)
    if tx.skipped > 0 and (bits[word] >> (seq & 31)) & 1 == 1:
        bits[word] &= ~(1 << (seq & 31))
        tx.skipped -= 1
    else:
        tx.retransmits += 1


def transmit_data(env: Env, port: PortRecord, flow: FlowId, now: Ps) -> None:
    """Build a data packet of ``flow`` on the link and send it; relist the flow."""
    host = env.host
    links = env.links
    tx = env.tx[flow]
    slot = next_slot(links, host.worker, port)
    links.pool[slot] = links.zero_packet[0]
    pkt = links.pool[slot]
    pkt.flow = flow
    pkt.dst = tx.peer
    if PLANE_BALANCING != ONE_PORT:
        port_choice = env.hosts.port_choices[tx.port_choice]
        pkt.dst = int(env.hosts.port_pairs[port_choice.first_pair + port_choice.port_pair, 1])
    elif POLICY_ROUTING:
        pkt.dst = int(env.hosts.port_pairs[tx.port_choice, 1])
    pkt.entropy = tx.entropy
    pkt.prio = tx.prio
    host.handler = IN_BUILD_PACKET
    build_packet(env, now, tx, pkt)
    if not check_data(host, tx, pkt):
        return
    pkt.prio = first_level(int(pkt.prio))
    payload = env.par.payload_bytes
    if int(pkt.kind) == DATA:
        seq = int(pkt.seq)
        if seq == tx.n_packets - 1:
            payload = tx.last_bytes
        count_sent(env, tx, seq)
    pkt.size_bytes = payload + env.par.header_bytes
    tx.sent_packets += 1
    if HAS_SERIES:
        tx.sent_bytes += Bytes(pkt.size_bytes)
    launch_from_host(env, port, slot, now)
    if TASKS:
        handed_over(env, tx, port.free_at)
    if TRACE:
        trace_tx(links, env, flow, port.number, now, HANDLER)
    wake(env, tx)
