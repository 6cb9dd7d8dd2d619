"""A switch with PFC whose ports are still served one by one.

A discipline's `predict_pause` says for each ingress whether its neighbor may be paused or resumed
in this window; those are ``candidate_ingresses``. If there are any, pause_prediction.py computes
the times and updates their accounts to the window's end. Then each port is served alone. If a
packet may be dropped on arrival, or the prediction fails, coupled_switch.py simulates everything.
"""

from __future__ import annotations

from netsim.engine.kernels.balance import output_port
from netsim.engine.kernels.coupled_switch import (
    admit_at_ingress,
    in_order,
    notify_departure,
    send_pfc,
    wind_up,
)
from netsim.engine.kernels.env import QueueEnv, queue_env_of
from netsim.engine.kernels.fields import PacketRecord, PortRecord
from netsim.engine.kernels.ids import NO_PORT, Bytes, GlobalPort, LocalPort, NodeId, Ps
from netsim.engine.kernels.indexing import (
    MODE_COUPLED,
    MODE_DECOUPLED,
    MODE_PREDICTED,
    MODE_PREDICTING,
    PFC_FRAME,
    PFC_FRAME_PENDING,
    exclude,
    include,
    includes,
    local_ports_of,
    next_port,
)
from netsim.engine.kernels.layout import (
    GROW_POOL,
    GROW_SCRATCH,
    INF,
    MAX_PENDING_PFC,
    Clock,
    LinkState,
    Net,
    Scratch,
)
from netsim.engine.kernels.packets import PFC
from netsim.engine.kernels.pause_prediction import (
    NO_PREDICTION,
    PREDICTED,
    predict_pauses,
    predicted_effect,
    restore_accounts,
    settle_others,
)
from netsim.engine.kernels.port_plan import (
    ARRIVAL,
    INGRESS_AT,
    clear_tallies,
    from_outside,
    tally,
)
from netsim.engine.kernels.ports import admit_arrival, finish_transmission, set_paused, start_next
from netsim.engine.kernels.queue_services import MAY_DROP, NO_EFFECT
from netsim.engine.kernels.rules import NOT_PREDICTED, broken
from netsim.engine.kernels.specialization_constants import N_CLASSES
from netsim.engine.kernels.switch import (
    INDEX_MASK,
    KEY_BITS,
    KEY_MASK,
    gather,
    group_by_output,
    has_room,
    have_read_all,
    sort_roughly,
    undo_choices,
)


def predict_ingress(
    env: QueueEnv, scratch: Scratch, worker: int, first: GlobalPort, port: LocalPort, arrived: bool
) -> int:
    """Return the strongest effect that `predict_pause` gives for ingress ``port``. Above NO_EFFECT,
    adds it to ``candidate_ingresses``. ``arrived``: whether packets arrive there in this window."""
    worst = NO_EFFECT
    for cls in range(N_CLASSES):
        arrived_bytes = Bytes(0)
        if arrived:
            arrived_bytes = scratch.arrived_bytes[worker][port * N_CLASSES + cls]
        port_in = env.links.ports[first + port]
        change = arrived_bytes
        if (port_in.pause_requested >> cls) & 1 == 1:
            change = Bytes(INF)
        worst = max(worst, predicted_effect(env, port_in, cls, arrived_bytes, change))
    if worst > NO_EFFECT:
        include(scratch.candidate_ingresses[worker], 0, port)
    return worst


def predict_switch(net: Net, env: QueueEnv, scratch: Scratch, worker: int, node: NodeId) -> int:
    """Return the strongest effect that `predict_pause` gives for any ingress."""
    links = env.links
    first = net.first_port[node]
    scratch.candidate_ingresses[worker][:] = 0
    scratch.affected_ingresses[worker][:] = 0
    worst = NO_EFFECT
    port = next_port(net, links.unread, node, NO_PORT)
    while port >= 0:
        worst = max(worst, predict_ingress(env, scratch, worker, first, port, True))
        port = next_port(net, links.unread, node, port)
    port = next_port(net, links.pausing_ports, node, NO_PORT)
    while port >= 0:
        if links.ports[first + port].pause_requested & (PFC_FRAME_PENDING - 1) == 0:
            exclude(links.pausing_ports, net.first_word[node], port)
        elif not includes(links.unread, net.first_word[node], port):
            worst = max(worst, predict_ingress(env, scratch, worker, first, port, False))
        port = next_port(net, links.pausing_ports, node, port)
    return worst


def route_all(
    net: Net,
    links: LinkState,
    clock: Clock,
    scratch: Scratch,
    worker: int,
    node: NodeId,
    n: int,
    tallied: bool,
) -> None:
    """Choose the output of each of the ``n`` arrivals; if ``tallied``, count those of candidates. A
    PFC frame's output is its ingress, one of ``pfc_received_ports``."""
    w0 = clock.clock[0].w0
    if tallied:
        clear_tallies(net, clock, scratch, worker, node)
    first = net.first_port[node]
    ins = scratch.ins[worker]
    outs = scratch.outs[worker]
    slots = scratch.slots[worker]
    pfc_received_ports = scratch.pfc_received_ports[worker]
    pfc_received_ports[:] = 0
    for k in range(n):
        ingress = LocalPort(ins[k])
        pkt = links.pool[slots[k]]
        if int(pkt.kind) == PFC:
            outs[k] = ingress
            include(pfc_received_ports, 0, ingress)
        else:
            outs[k] = output_port(net, links, node, first + ingress, slots[k])
            if tallied and includes(scratch.candidate_ingresses[worker], 0, ingress):
                entry = int(ingress) * N_CLASSES + int(pkt.prio)
                tally(scratch, worker, entry, pkt.time - w0, int(pkt.size_bytes))


def has_work(net: Net, links: LinkState, scratch: Scratch, worker: int, p: GlobalPort) -> bool:
    """Return whether port ``p`` receives or sends anything in the window."""
    node = net.port_node[p]
    out = p - net.first_port[node]
    starts = scratch.starts[worker]
    if starts[out + 1] > starts[out] or scratch.n_pending_pfc[worker][out] > 0:
        return True
    return includes(links.busy, net.first_word[node], out)


def room_for_all(net: Net, links: LinkState, scratch: Scratch, worker: int, node: NodeId) -> bool:
    """Make room for all that ports may receive and send; return False if the pool is full."""
    first = net.first_port[node]
    starts = scratch.starts[worker]
    enough = True
    for out in local_ports_of(net, node):
        if has_work(net, links, scratch, worker, first + out):
            frames = 1 + scratch.n_pending_pfc[worker][out]
            enough = has_room(links, first + out, starts[out + 1] - starts[out], frames) and enough
    return enough


def start_decoupled(env: QueueEnv, port: PortRecord, now: Ps) -> None:
    """Start the next transmission of a port that is simulated alone, if it is idle."""
    if port.tx_bytes > 0:
        return
    if port.pause_requested >= PFC_FRAME_PENDING:
        port.pause_requested &= ~PFC_FRAME_PENDING
        send_pfc(env.links, port, now)
    elif port.backlog & ~port.paused != 0:
        start_next(env, port, now)


def check_plan(
    env: QueueEnv, scratch: Scratch, worker: int, w0: Ps, out: LocalPort, port: PortRecord
) -> None:
    """Check that a candidate's departure is as planned; else the discipline broke a rule. It does
    so by admitting a packet to a class other than its own, or to none."""
    at = scratch.log_first[worker][out]
    scratch.log_first[worker][out] = at + 1
    planned = at < scratch.log_end[worker][out]
    if planned:
        ingress = scratch.log_what[worker][at] >> INGRESS_AT
        planned = scratch.log_time[worker][at] == port.free_at - w0 and ingress == port.tx_ingress
    if not planned:
        broken(env.switch, NOT_PREDICTED, port.pause_requested & (PFC_FRAME_PENDING - 1))


def advance_port(
    env: QueueEnv, scratch: Scratch, worker: int, w0: Ps, out: LocalPort, until: Ps
) -> None:
    """Complete and start transmissions of port ``out`` up to and including time ``until``."""
    first = env.switch.first_port
    port = env.links.ports[first + out]
    while port.tx_bytes > 0 and port.free_at <= until:
        now = port.free_at
        cls = port.tx_class
        size = port.tx_bytes
        ingress = port.tx_ingress
        if cls == PFC_FRAME:
            port.tx_bytes = Bytes(0)
        else:
            finish_transmission(env, port)
            if includes(scratch.candidate_ingresses[worker], 0, ingress):
                check_plan(env, scratch, worker, w0, out, port)
            else:
                notify_departure(env, env.links.ports[first + ingress], cls, size, now)
        start_decoupled(env, port, now)


def is_admitted_here(scratch: Scratch, worker: int, ingress: LocalPort, pkt: PacketRecord) -> bool:
    """Return whether a packet is yet to be admitted at its ingress (`settle_others`)."""
    if not includes(scratch.candidate_ingresses[worker], 0, ingress):
        return True
    if includes(scratch.affected_ingresses[worker], 0, ingress):
        return False
    return (scratch.pause_requested[worker][ingress] >> int(pkt.prio)) & 1 == 0


def arrive_decoupled(
    env: QueueEnv, scratch: Scratch, worker: int, w0: Ps, out: LocalPort, key: int
) -> None:
    """Handle the arrival of a sort key at port ``out``, after earlier completions there."""
    links = env.links
    first = env.switch.first_port
    port = links.ports[first + out]
    k = key & INDEX_MASK
    now = w0 + (key >> KEY_BITS)
    advance_port(env, scratch, worker, w0, out, now)
    slot = scratch.slots[worker][k]
    pkt = links.pool[slot]
    if int(pkt.kind) == PFC:
        set_paused(links, port, int(pkt.aux), now)
        start_decoupled(env, port, now)
        return
    ingress = LocalPort(scratch.ins[worker][k])
    if is_admitted_here(scratch, worker, ingress, pkt):
        admit_at_ingress(env, links.ports[first + ingress], slot, now)
    if not admit_arrival(env, port, slot, ingress, now):
        start_decoupled(env, port, now)


def serve_decoupled(
    net: Net,
    env: QueueEnv,
    clock: Clock,
    scratch: Scratch,
    worker: int,
    node: NodeId,
    out: LocalPort,
) -> None:
    """Run output port ``out`` through the window alone."""
    links = env.links
    first = net.first_port[node]
    port = links.ports[first + out]
    i = scratch.starts[worker][out]
    end = scratch.starts[worker][out + 1]
    pending = MAX_PENDING_PFC * out
    pending_end = pending + scratch.n_pending_pfc[worker][out]
    w0 = clock.clock[0].w0
    span = clock.clock[0].w1 - w0
    while pending < pending_end:
        event, key = from_outside(scratch, worker, pending, pending_end, i, end, span)
        now = w0 + (key >> KEY_BITS)
        if event == ARRIVAL:
            arrive_decoupled(env, scratch, worker, w0, out, scratch.keys[worker, 0][i])
            i += 1
        else:
            completed = now
            if key & KEY_MASK <= out:
                completed = now - 1
            advance_port(env, scratch, worker, w0, out, completed)
            port.pause_requested = scratch.pending_pfc_masks[worker][pending] | PFC_FRAME_PENDING
            pending += 1
            start_decoupled(env, port, now)
    for later in range(i, end):
        arrive_decoupled(env, scratch, worker, w0, out, scratch.keys[worker, 0][later])
    advance_port(env, scratch, worker, w0, out, w0 + span - 1)
    if env.switch.mode == MODE_PREDICTED:
        if scratch.log_first[worker][out] < scratch.log_end[worker][out]:
            broken(env.switch, NOT_PREDICTED, port.pause_requested & (PFC_FRAME_PENDING - 1))
    include(links.busy, net.first_word[node], out)


def switch_step(
    net: Net, links: LinkState, clock: Clock, scratch: Scratch, worker: int, node: NodeId
) -> int:
    """Advance switch ``node`` to the end of the window. Return a status of layout.py."""
    env = queue_env_of(links.switches[node - net.n_hosts], links)
    n, following = gather(net, links, clock, scratch, worker, node)
    if n < 0:
        clock.what[node] = -n
        return GROW_SCRATCH
    effect = predict_switch(net, env, scratch, worker, node)
    if effect >= MAY_DROP:
        return in_order(net, env, clock, scratch, worker, node, n, following)
    first = net.first_port[node]
    n_ports = net.first_port[node + 1] - first
    route_all(net, links, clock, scratch, worker, node, n, effect > NO_EFFECT)
    sort_roughly(clock, scratch, worker, n)
    group_by_output(scratch, worker, n, n_ports)
    scratch.n_pending_pfc[worker][:n_ports] = 0
    if effect > NO_EFFECT:
        env.switch.mode = MODE_PREDICTING
        outcome = predict_pauses(net, env, clock, scratch, worker, node)
        env.switch.mode = MODE_COUPLED
        if outcome != PREDICTED:
            undo_choices(net, links, scratch, worker, node)
            if outcome == NO_PREDICTION:
                return in_order(net, env, clock, scratch, worker, node, n, following)
            clock.what[node] = 2 * scratch.log_time.shape[1]
            return GROW_SCRATCH
    if not room_for_all(net, links, scratch, worker, node):
        undo_choices(net, links, scratch, worker, node)
        if effect > NO_EFFECT:
            restore_accounts(net, env, scratch, worker, node)
        return GROW_POOL
    env.switch.mode = MODE_DECOUPLED
    if effect > NO_EFFECT:
        env.switch.mode = MODE_PREDICTED
        settle_others(net, env, clock, scratch, worker, node)
    for out in local_ports_of(net, node):
        if has_work(net, links, scratch, worker, first + out):
            if includes(scratch.affected_ingresses[worker], 0, out):
                links.ports[first + out].pause_requested = scratch.pause_requested[worker][out]
            serve_decoupled(net, env, clock, scratch, worker, node, out)
    env.switch.mode = MODE_COUPLED
    have_read_all(net, links, scratch, worker, node)
    return wind_up(net, env, clock, node, following)
