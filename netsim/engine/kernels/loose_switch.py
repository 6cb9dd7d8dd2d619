"""A coupled switch whose ports can be served one after the other all the same.

PFC couples ports only where a class may be paused or resumed. `predict_pause` of a discipline says
for each ingress whether that can happen in this window; those are ``mattering``. If there is one,
the time is found beforehand (pause_plan.py), which also brings their accounts to the
window's end. So each port can be served apart, as in switch.py. Of all others, `on_arrival` and
`on_departure` only count, and are called as the ports are served. If a packet may be dropped on
arrival, or there is no plan, everything is done in the order of time, as in coupled_switch.py.
"""

from __future__ import annotations

from netsim.engine.kernels.balance import output_port
from netsim.engine.kernels.coupled_switch import (
    in_order,
    let_in,
    notify_departure,
    send_pfc,
    wind_up,
)
from netsim.engine.kernels.env import QueueEnv, queue_env_of
from netsim.engine.kernels.fields import PacketRecord, PortRecord
from netsim.engine.kernels.ids import NO_PORT, Bytes, GlobalPort, LocalPort, NodeId, Ps
from netsim.engine.kernels.layout import (
    GROW_POOL,
    GROW_SCRATCH,
    INF,
    MOST_DUES,
    Clock,
    LinkState,
    Net,
    Scratch,
)
from netsim.engine.kernels.packets import PFC
from netsim.engine.kernels.pause_plan import (
    NO_PLAN,
    PLANNED,
    outlook_of,
    plan_pauses,
    restore_accounts,
    settle_others,
)
from netsim.engine.kernels.places import (
    ALL_IN_ORDER,
    APART,
    AS_PLANNED,
    FRAME_DUE,
    PFC_FRAME,
    PLANNING,
    local_ports_of,
)
from netsim.engine.kernels.port_plan import (
    ARRIVAL,
    INGRESS_AT,
    clear_tallies,
    from_outside,
    tally,
)
from netsim.engine.kernels.port_sets import exclude, include, includes, next_port
from netsim.engine.kernels.ports import retire, set_paused, start_next, take_in
from netsim.engine.kernels.queue_services import MAY_DROP, NO_EFFECT
from netsim.engine.kernels.rules import NOT_PREDICTED, broken
from netsim.engine.kernels.specialization_constants import N_CLASSES
from netsim.engine.kernels.switch import (
    gather,
    group_by_output,
    has_room,
    have_read_all,
    sort_roughly,
    undo_choices,
)
from netsim.engine.kernels.turns import INDEX_MASK, KEY_BITS, KEY_MASK


def look(
    env: QueueEnv, scratch: Scratch, worker: int, first: GlobalPort, port: LocalPort, arrived: bool
) -> int:
    """Return the worst that `predict_pause` says of ingress ``port``; above NO_EFFECT add it to
    ``mattering``.

    ``arrived``: whether packets arrive there in this window.
    """
    worst = NO_EFFECT
    for cls in range(N_CLASSES):
        came = Bytes(0)
        if arrived:
            came = scratch.came[worker][port * N_CLASSES + cls]
        port_in = env.links.ports[first + port]
        change = came
        if (port_in.asked >> cls) & 1 == 1:
            change = Bytes(INF)
        worst = max(worst, outlook_of(env, port_in, cls, came, change))
    if worst > NO_EFFECT:
        include(scratch.mattering[worker], 0, port)
    return worst


def look_ahead(net: Net, env: QueueEnv, scratch: Scratch, worker: int, node: NodeId) -> int:
    """The worst that `predict_pause` says of any ingress."""
    links = env.links
    first = net.first_port[node]
    scratch.mattering[worker][:] = 0
    scratch.stirred[worker][:] = 0
    worst = NO_EFFECT
    port = next_port(net, links.unread, node, NO_PORT)
    while port >= 0:
        worst = max(worst, look(env, scratch, worker, first, port, True))
        port = next_port(net, links.unread, node, port)
    port = next_port(net, links.asking, node, NO_PORT)
    while port >= 0:
        if links.ports[first + port].asked & (FRAME_DUE - 1) == 0:
            exclude(links.asking, net.first_word[node], port)
        elif not includes(links.unread, net.first_word[node], port):
            worst = max(worst, look(env, scratch, worker, first, port, False))
        port = next_port(net, links.asking, node, port)
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
    """Choose the output of each of the ``n`` arrivals; if ``tallied``, add up those that matter.

    The output of a PFC frame is where it came in; these ports are ``framed``.
    """
    w0 = clock.clock[0].w0
    if tallied:
        clear_tallies(net, clock, scratch, worker, node)
    first = net.first_port[node]
    ins = scratch.ins[worker]
    outs = scratch.outs[worker]
    slots = scratch.slots[worker]
    framed = scratch.framed[worker]
    framed[:] = 0
    for k in range(n):
        ingress = LocalPort(ins[k])
        pkt = links.pool[slots[k]]
        if int(pkt.kind) == PFC:
            outs[k] = ingress
            include(framed, 0, ingress)
        else:
            outs[k] = output_port(net, links, node, first + ingress, slots[k])
            if tallied and includes(scratch.mattering[worker], 0, ingress):
                entry = int(ingress) * N_CLASSES + int(pkt.prio)
                tally(scratch, worker, entry, pkt.time - w0, int(pkt.size_bytes))


def has_work(net: Net, links: LinkState, scratch: Scratch, worker: int, p: GlobalPort) -> bool:
    """Does port ``p`` get packets in the window, or sends any, or PFC frames?"""
    node = net.port_node[p]
    out = p - net.first_port[node]
    starts = scratch.starts[worker]
    if starts[out + 1] > starts[out] or scratch.n_dues[worker][out] > 0:
        return True
    return includes(links.busy, net.first_word[node], out)


def room_for_all(net: Net, links: LinkState, scratch: Scratch, worker: int, node: NodeId) -> bool:
    """Make room for whatever ports may get and send in the window; False if there is none."""
    first = net.first_port[node]
    starts = scratch.starts[worker]
    enough = True
    for out in local_ports_of(net, node):
        if has_work(net, links, scratch, worker, first + out):
            frames = 1 + scratch.n_dues[worker][out]
            enough = has_room(links, first + out, starts[out + 1] - starts[out], frames) and enough
    return enough


def begin_apart(env: QueueEnv, port: PortRecord, now: Ps) -> None:
    """Start what a port that is simulated by itself should send, if it is free."""
    if port.tx_bytes > 0:
        return
    if port.asked >= FRAME_DUE:
        port.asked &= ~FRAME_DUE
        send_pfc(env.links, port, now)
    elif port.backlog & ~port.paused != 0:
        start_next(env, port, now)


def check_plan(
    env: QueueEnv, scratch: Scratch, worker: int, w0: Ps, out: LocalPort, port: PortRecord
) -> None:
    """A transmission that matters must end as planned; otherwise the discipline broke a rule.

    It does if it admits a packet to another class than its own, or to none.
    """
    at = scratch.log_first[worker][out]
    scratch.log_first[worker][out] = at + 1
    planned = at < scratch.log_end[worker][out]
    if planned:
        ingress = scratch.log_what[worker][at] >> INGRESS_AT
        planned = scratch.log_time[worker][at] == port.free_at - w0 and ingress == port.tx_ingress
    if not planned:
        broken(env.switch, NOT_PREDICTED, port.asked & (FRAME_DUE - 1))


def pass_time(
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
            retire(env, port)
            if includes(scratch.mattering[worker], 0, ingress):
                check_plan(env, scratch, worker, w0, out, port)
            else:
                notify_departure(env, env.links.ports[first + ingress], cls, size, now)
        begin_apart(env, port, now)


def is_let_in_here(scratch: Scratch, worker: int, ingress: LocalPort, pkt: PacketRecord) -> bool:
    """Has a packet still to be let in, or was it when that was planned (`settle_others`)?"""
    if not includes(scratch.mattering[worker], 0, ingress):
        return True
    if includes(scratch.stirred[worker], 0, ingress):
        return False
    return (scratch.asked[worker][ingress] >> int(pkt.prio)) & 1 == 0


def arrive_apart(
    env: QueueEnv, scratch: Scratch, worker: int, w0: Ps, out: LocalPort, key: int
) -> None:
    """The arrival of a sort key comes to port ``out``, after what completes there until then."""
    links = env.links
    first = env.switch.first_port
    port = links.ports[first + out]
    k = key & INDEX_MASK
    now = w0 + (key >> KEY_BITS)
    pass_time(env, scratch, worker, w0, out, now)
    slot = scratch.slots[worker][k]
    pkt = links.pool[slot]
    if int(pkt.kind) == PFC:
        set_paused(links, port, int(pkt.aux), now)
        begin_apart(env, port, now)
        return
    ingress = LocalPort(scratch.ins[worker][k])
    if is_let_in_here(scratch, worker, ingress, pkt):
        let_in(env, links.ports[first + ingress], slot, now)
    if not take_in(env, port, slot, ingress, now):
        begin_apart(env, port, now)


def serve_apart(
    net: Net,
    env: QueueEnv,
    clock: Clock,
    scratch: Scratch,
    worker: int,
    node: NodeId,
    out: LocalPort,
) -> None:
    """Run output port ``out`` through the window, whatever the others do."""
    links = env.links
    first = net.first_port[node]
    port = links.ports[first + out]
    i = scratch.starts[worker][out]
    end = scratch.starts[worker][out + 1]
    due = MOST_DUES * out
    dues_end = due + scratch.n_dues[worker][out]
    w0 = clock.clock[0].w0
    span = clock.clock[0].w1 - w0
    while due < dues_end:
        event, key = from_outside(scratch, worker, due, dues_end, i, end, span)
        now = w0 + (key >> KEY_BITS)
        if event == ARRIVAL:
            arrive_apart(env, scratch, worker, w0, out, scratch.keys[worker, 0][i])
            i += 1
        else:
            completed = now
            if key & KEY_MASK <= out:
                completed = now - 1
            pass_time(env, scratch, worker, w0, out, completed)
            port.asked = scratch.due_masks[worker][due] | FRAME_DUE
            due += 1
            begin_apart(env, port, now)
    for later in range(i, end):
        arrive_apart(env, scratch, worker, w0, out, scratch.keys[worker, 0][later])
    pass_time(env, scratch, worker, w0, out, w0 + span - 1)
    if env.switch.mode == AS_PLANNED:
        if scratch.log_first[worker][out] < scratch.log_end[worker][out]:
            broken(env.switch, NOT_PREDICTED, port.asked & (FRAME_DUE - 1))
    include(links.busy, net.first_word[node], out)


def switch_step(
    net: Net, links: LinkState, clock: Clock, scratch: Scratch, worker: int, node: NodeId
) -> int:
    """Advance switch ``node`` to the end of the window. Returns a status of layout.py."""
    env = queue_env_of(links.switches[node - net.n_hosts], links)
    n, following = gather(net, links, clock, scratch, worker, node)
    if n < 0:
        clock.what[node] = -n
        return GROW_SCRATCH
    outlook = look_ahead(net, env, scratch, worker, node)
    if outlook >= MAY_DROP:
        return in_order(net, env, clock, scratch, worker, node, n, following)
    first = net.first_port[node]
    n_ports = net.first_port[node + 1] - first
    route_all(net, links, clock, scratch, worker, node, n, outlook > NO_EFFECT)
    sort_roughly(clock, scratch, worker, n)
    group_by_output(scratch, worker, n, n_ports)
    scratch.n_dues[worker][:n_ports] = 0
    if outlook > NO_EFFECT:
        env.switch.mode = PLANNING
        outcome = plan_pauses(net, env, clock, scratch, worker, node)
        env.switch.mode = ALL_IN_ORDER
        if outcome != PLANNED:
            undo_choices(net, links, scratch, worker, node)
            if outcome == NO_PLAN:
                return in_order(net, env, clock, scratch, worker, node, n, following)
            clock.what[node] = 2 * scratch.log_time.shape[1]
            return GROW_SCRATCH
    if not room_for_all(net, links, scratch, worker, node):
        undo_choices(net, links, scratch, worker, node)
        if outlook > NO_EFFECT:
            restore_accounts(net, env, scratch, worker, node)
        return GROW_POOL
    env.switch.mode = APART
    if outlook > NO_EFFECT:
        env.switch.mode = AS_PLANNED
        settle_others(net, env, clock, scratch, worker, node)
    for out in local_ports_of(net, node):
        if has_work(net, links, scratch, worker, first + out):
            if includes(scratch.stirred[worker], 0, out):
                links.ports[first + out].asked = scratch.asked[worker][out]
            serve_apart(net, env, clock, scratch, worker, node, out)
    env.switch.mode = ALL_IN_ORDER
    have_read_all(net, links, scratch, worker, node)
    return wind_up(net, env, clock, node, following)
