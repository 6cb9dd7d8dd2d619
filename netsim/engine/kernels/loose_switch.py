"""A coupled switch most of whose ports can be served one after the other, though not all.

PFC couples ports only where somebody may be paused or let go. A discipline with `foresee` says of
each ingress whether that can happen in this window. The ports that hold or get nothing of one
where it can are served apart, as in switch.py; the others in the order of time, as in
coupled_switch.py, which is also how everything is done if a packet may be dropped on arrival.
"""

from __future__ import annotations

from netsim.engine.kernels.balance import output_port
from netsim.engine.kernels.coupled_switch import in_order, let_in, run_events, wind_up
from netsim.engine.kernels.env import QueueEnv, queue_env_of
from netsim.engine.kernels.fields import PortRecord
from netsim.engine.kernels.holes import N_CLASSES, foresee, on_departure
from netsim.engine.kernels.ids import NO_PORT, Bytes, GlobalPort, LocalPort, NodeId, Ps
from netsim.engine.kernels.layout import GROW_POOL, GROW_SCRATCH, UNDO, Clock, Net, Scratch, Wires
from netsim.engine.kernels.packets import PFC
from netsim.engine.kernels.places import (
    ALL_IN_ORDER,
    APART,
    FRAME_DUE,
    JOINT,
    PFC_FRAME,
    local_ports_of,
    queue_of,
    ring_slot,
)
from netsim.engine.kernels.port_sets import Words, exclude, include, includes, next_port
from netsim.engine.kernels.ports import retire, set_paused, start_next, take_in
from netsim.engine.kernels.queue_handlers import IN_FORESEE, IN_ON_DEPARTURE
from netsim.engine.kernels.queue_services import COUNTS, MAY_DROP
from netsim.engine.kernels.switch import (
    KEY_BITS,
    KEY_MASK,
    gather,
    group_by_output,
    has_room,
    have_read_all,
    sort_by_time,
    undo_choices,
)


def outlook_of(env: QueueEnv, port: PortRecord, came: Bytes, cls: int) -> int:
    """What may come of ``came`` bytes that arrive by ingress ``port`` in class ``cls``."""
    if came == 0 and (port.asked >> cls) & 1 == 0:
        return COUNTS
    env.switch.doing = IN_FORESEE
    outlook: int = foresee(env, port, cls, came)
    return outlook


def stir(
    env: QueueEnv, scratch: Scratch, worker: int, first: GlobalPort, port: LocalPort, arrived: bool
) -> int:
    """The worst that `foresee` says of ingress ``port``: of more than COUNTS it is ``stirred``.

    ``arrived`` says whether anything comes in by it in this window.
    """
    worst = COUNTS
    for cls in range(N_CLASSES):
        came = Bytes(0)
        if arrived:
            came = scratch.came[worker][port * N_CLASSES + cls]
        worst = max(worst, outlook_of(env, env.wires.ports[first + port], came, cls))
    if worst > COUNTS:
        include(scratch.stirred[worker], 0, port)
    return worst


def look_ahead(net: Net, env: QueueEnv, scratch: Scratch, worker: int, node: NodeId) -> int:
    """The worst that `foresee` says of any ingress."""
    wires = env.wires
    first = net.first_port[node]
    scratch.stirred[worker][:] = 0
    worst = COUNTS
    port = next_port(net, wires.unread, node, NO_PORT)
    while port >= 0:
        worst = max(worst, stir(env, scratch, worker, first, port, True))
        port = next_port(net, wires.unread, node, port)
    port = next_port(net, wires.asking, node, NO_PORT)
    while port >= 0:
        if wires.ports[first + port].asked & (FRAME_DUE - 1) == 0:
            exclude(wires.asking, net.first_word[node], port)
        elif not includes(wires.unread, net.first_word[node], port):
            worst = max(worst, stir(env, scratch, worker, first, port, False))
        port = next_port(net, wires.asking, node, port)
    return worst


def holds_stirred(wires: Wires, port: PortRecord, stirred: Words) -> bool:
    """Does a port hold a packet that came in by a stirred ingress?"""
    if includes(stirred, 0, port.tx_ingress):
        return True
    for cls in range(N_CLASSES):
        queue = wires.queues[queue_of(port.number, cls)]
        for position in range(queue.head, queue.tail):
            slot = ring_slot(queue.off, queue.mask, position)
            if includes(stirred, 0, LocalPort(wires.ingress[slot])):
                return True
    return False


def route_all(net: Net, wires: Wires, scratch: Scratch, worker: int, node: NodeId, n: int) -> None:
    """Choose the output of each of the ``n`` arrivals; that of a PFC frame is where it came in.

    The outputs of what came by a stirred ingress are ``joint``.
    """
    first = net.first_port[node]
    ins = scratch.ins[worker]
    outs = scratch.outs[worker]
    slots = scratch.slots[worker]
    stirred = scratch.stirred[worker]
    joint = scratch.joint[worker]
    for k in range(n):
        ingress = LocalPort(ins[k])
        out = ingress
        if int(wires.pool[slots[k]].kind) != PFC:
            out = output_port(net, wires, node, first + ingress, slots[k])
            if includes(stirred, 0, ingress):
                include(joint, 0, out)
        outs[k] = out


def find_joint(
    net: Net, wires: Wires, scratch: Scratch, worker: int, node: NodeId, outlook: int
) -> bool:
    """Which ports have to be simulated together, besides those already known; are there any?

    Stirred ones, those that hold what came by one, and those that send a PFC frame or owe one.
    """
    stirred = scratch.stirred[worker]
    joint = scratch.joint[worker]
    for word in range(joint.shape[0]):
        joint[word] |= stirred[word]
    out = next_port(net, wires.busy, node, NO_PORT)
    while out >= 0:
        port = wires.ports[net.first_port[node] + out]
        frame = port.tx_class == PFC_FRAME or port.asked >= FRAME_DUE
        if frame or (outlook > COUNTS and holds_stirred(wires, port, stirred)):
            include(joint, 0, out)
        out = next_port(net, wires.busy, node, out)
    some = 0
    for word in range(joint.shape[0]):
        some |= joint[word]
    return some != 0


def room_for_all(net: Net, wires: Wires, scratch: Scratch, worker: int, node: NodeId) -> bool:
    """Make room for whatever ports may get and send in the window; False if there is none.

    Who is asked to pause or to go on is told by a frame for each arrival and each departure.
    """
    first = net.first_port[node]
    starts = scratch.starts[worker]
    undo = scratch.undo[worker]
    enough = True
    for out in local_ports_of(net, node):
        n = starts[out + 1] - starts[out]
        frames = 0
        if includes(scratch.joint[worker], 0, out):
            frames = N_CLASSES + 1
            if includes(wires.unread, net.first_word[node], out):
                frames += 2 * (undo[UNDO * out + 3] - wires.inbox[first + out].head)
        if n + frames > 0 or includes(wires.busy, net.first_word[node], out):
            enough = has_room(wires, first + out, n, frames) and enough
    return enough


def pass_time(env: QueueEnv, first: GlobalPort, port: PortRecord, until: Ps) -> None:
    """Complete and start transmissions of a port up to and including time ``until``."""
    while port.tx_bytes > 0 and port.free_at <= until:
        now = port.free_at
        cls = port.tx_class
        size = port.tx_bytes
        retire(env, port)
        env.switch.doing = IN_ON_DEPARTURE
        on_departure(env, now, env.wires.ports[first + port.tx_ingress], cls, size)
        start_next(env, port, now)


def begin(env: QueueEnv, port: PortRecord, now: Ps) -> None:
    """Start what a port that is served apart should send, if it is free."""
    if port.tx_bytes == 0 and port.backlog & ~port.paused != 0:
        start_next(env, port, now)


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
    wires = env.wires
    first = net.first_port[node]
    port = wires.ports[first + out]
    keys = scratch.keys[worker, 0]
    slots = scratch.slots[worker]
    ins = scratch.ins[worker]
    starts = scratch.starts[worker]
    w0 = clock.clock[0].w0
    for i in range(starts[out], starts[out + 1]):
        key = keys[i]
        k = key & KEY_MASK
        now = w0 + (key >> KEY_BITS)
        pass_time(env, first, port, now)
        pkt = wires.pool[slots[k]]
        if int(pkt.kind) == PFC:
            set_paused(wires, port, int(pkt.aux), now)
            begin(env, port, now)
        else:
            ingress = LocalPort(ins[k])
            let_in(env, wires.ports[first + ingress], slots[k], now)
            if not take_in(env, port, slots[k], ingress, now):
                begin(env, port, now)
    pass_time(env, first, port, clock.clock[0].w1 - 1)
    include(wires.busy, net.first_word[node], out)


def keep_joint(scratch: Scratch, worker: int, n: int) -> int:
    """Leave, of the ``n`` sorted arrivals, those for joint ports; returns how many these are."""
    keys = scratch.keys[worker, 1]
    outs = scratch.outs[worker]
    kept = 0
    for i in range(n):
        if includes(scratch.joint[worker], 0, LocalPort(outs[keys[i] & KEY_MASK])):
            keys[kept] = keys[i]
            kept += 1
    return kept


def switch_step(
    net: Net, wires: Wires, clock: Clock, scratch: Scratch, worker: int, node: NodeId
) -> int:
    """Advance switch ``node`` to the end of the window. Returns a status of layout.py."""
    env = queue_env_of(wires.switches[node - net.n_hosts], wires)
    n, following = gather(net, wires, clock, scratch, worker, node)
    if n < 0:
        clock.what[node] = -n
        return GROW_SCRATCH
    outlook = look_ahead(net, env, scratch, worker, node)
    sort_by_time(clock, scratch, worker, n)
    if outlook >= MAY_DROP:
        return in_order(net, env, clock, scratch, worker, node, n, following)
    scratch.joint[worker][:] = 0
    route_all(net, wires, scratch, worker, node, n)
    some_joint = find_joint(net, wires, scratch, worker, node, outlook)
    group_by_output(scratch, worker, n, net.first_port[node + 1] - net.first_port[node])
    if not room_for_all(net, wires, scratch, worker, node):
        undo_choices(net, wires, scratch, worker, node)
        return GROW_POOL
    starts = scratch.starts[worker]
    env.switch.mode = APART
    for out in local_ports_of(net, node):
        if starts[out + 1] > starts[out] or includes(wires.busy, net.first_word[node], out):
            if not includes(scratch.joint[worker], 0, out):
                serve_apart(net, env, clock, scratch, worker, node, out)
    if some_joint:
        env.switch.mode = JOINT
        run_events(net, env, clock, scratch, worker, node, keep_joint(scratch, worker, n))
    env.switch.mode = ALL_IN_ORDER
    have_read_all(net, wires, scratch, worker, node)
    return wind_up(net, env, clock, node, following)
