"""When the neighbors of a lossless switch are told to pause in a window, found out beforehand.

PFC joins the ports of a switch in one way only: what leaves by any of them lowers the account of
the ingress that it came in by, and when that pauses its neighbor, or lets it go, one port, the
ingress' own, has a frame to send. A frame takes 64 bytes of time. So first each port's departures
in the window are computed as if no frame were sent (port_plan.py). From these and the arrivals
follows by how much each account that may matter (``mattering``) rises and falls at most, and so
which of them do (``stirred``): few. These go through their arrivals and departures in the order of
time (`replay`), which says when their ports owe a frame. Those ports are planned again with their
frames, and what changes by that is replayed again, until nothing does.

A frame changes only what comes after it, so each round settles at least one frame more, and what
it ends with is what happens in the order of time. Few frames are sent in a window, and there are
few rounds. What was found are the ``dues`` of each port; then every port can be served by itself
(loose_switch.py).
"""

from __future__ import annotations

from netsim.engine.kernels.coupled_switch import let_in, notify_departure
from netsim.engine.kernels.env import QueueEnv, queue_env_at
from netsim.engine.kernels.fields import PortRecord
from netsim.engine.kernels.ids import Bytes, LocalPort, NodeId, Slot
from netsim.engine.kernels.layout import INF, MOST_DUES, SLICES, UNDO, Clock, Net, Scratch
from netsim.engine.kernels.packets import PFC
from netsim.engine.kernels.places import FRAME_DUE, local_ports_of, queue_of
from netsim.engine.kernels.port_plan import (
    CLASS_AT,
    CLASS_MASK,
    INGRESS_AT,
    OUT_AT,
    PORT_MASK,
    SIZE_MASK,
    account_of,
    plan_all,
    plan_port,
    tally,
)
from netsim.engine.kernels.port_sets import exclude, include, includes
from netsim.engine.kernels.queue_handlers import IN_PREDICT_PAUSE
from netsim.engine.kernels.queue_services import NO_EFFECT
from netsim.engine.kernels.specialization_constants import N_CLASSES, PER_PORT_SIZES, predict_pause
from netsim.engine.kernels.switch import insertion_sort
from netsim.engine.kernels.turns import INDEX_BITS, KEY_BITS, KEY_MASK, place_at

PLANNED, NO_PLAN, NO_LOG = range(3)
"""How planning ended: dues are known; there are too many, or they do not settle; and the log of
departures is full."""

MOST_ROUNDS = 64
"""Of planning again; more than there ever are, unless a discipline contradicts itself."""


def outlook_of(env: QueueEnv, port: PortRecord, cls: int, came: Bytes, change: Bytes) -> int:
    """What may come of ``came`` bytes that arrive by ingress ``port`` in class ``cls``.

    The bytes held of it rise by ``change`` at most or, if the class is held back, fall by that.
    """
    if came == 0 and (port.asked >> cls) & 1 == 0:
        return NO_EFFECT
    if PER_PORT_SIZES:
        env = queue_env_at(env, port)
    env.switch.doing = IN_PREDICT_PAUSE
    outlook: int = predict_pause(env, port, cls, came, change)
    return outlook


def largest_change(scratch: Scratch, worker: int, entry: int, sign: int) -> Bytes:
    """By how much the bytes held of an ingress and class rise (1) or fall (-1) in the window.

    At most: within a part of the window all that helps is taken to come first.
    """
    tallies = scratch.tallies[worker]
    half = tallies.shape[0] // 2
    held = 0
    most = 0
    for part in range(SLICES):
        came = tallies[entry, part]
        left = tallies[half + entry, part]
        helps = came if sign > 0 else left
        most = max(most, held + helps)
        held += sign * (came - left)
    return Bytes(most)


def take_back_departures(scratch: Scratch, worker: int, out: LocalPort) -> None:
    """Take what port ``out`` has in the log out of the tallies; who it came in by is replayed."""
    log_what = scratch.log_what[worker]
    for at in range(scratch.log_first[worker][out], scratch.log_end[worker][out]):
        what = log_what[at]
        cls = (what >> CLASS_AT) & CLASS_MASK
        entry = account_of(scratch, LocalPort(what >> INGRESS_AT), cls)
        tally(scratch, worker, entry, scratch.log_time[worker][at], -(what & SIZE_MASK))
    mark_stale(scratch, worker, out)


def look_closer(
    net: Net, env: QueueEnv, scratch: Scratch, worker: int, node: NodeId, port: LocalPort
) -> None:
    """Is an ingress that may matter one that does, as far as is planned? It becomes stirred then.

    Its account is kept.
    """
    p = net.first_port[node] + port
    links = env.links
    for cls in range(N_CLASSES):
        sign = 1
        if (links.ports[p].asked >> cls) & 1 == 1:
            sign = -1
        entry = port * N_CLASSES + cls
        change = largest_change(scratch, worker, entry, sign)
        came = scratch.came[worker][entry]
        if not includes(links.unread, net.first_word[node], port):
            came = Bytes(0)
        if outlook_of(env, links.ports[p], cls, came, change) > NO_EFFECT:
            include(scratch.stirred[worker], 0, port)
    if includes(scratch.stirred[worker], 0, port):
        for cls in range(N_CLASSES):
            kept = kept_account(scratch, worker, port, cls)
            scratch.accounts[kept] = links.queues[queue_of(p, cls)]


def departures_by_ingress(net: Net, scratch: Scratch, worker: int, node: NodeId) -> None:
    """Put together, in the order of time, what the log has of each ingress to be replayed.

    Of ingress i that is in ``account_keys``, from ``account_first[i]`` on: sort keys whose lower
    part is the place in the log.
    """
    n_ports = net.first_port[node + 1] - net.first_port[node]
    first = scratch.account_first[worker]
    accounts = scratch.account_keys[worker]
    log_what = scratch.log_what[worker]
    stale = scratch.stale[worker]
    first[: n_ports + 2] = 0
    for out in local_ports_of(net, node):
        for at in range(scratch.log_first[worker][out], scratch.log_end[worker][out]):
            ingress = LocalPort(log_what[at] >> INGRESS_AT)
            if includes(stale, 0, ingress):
                first[ingress + 2] += 1
    for port in local_ports_of(net, node):
        first[port + 2] += first[port + 1]
    for out in local_ports_of(net, node):
        for at in range(scratch.log_first[worker][out], scratch.log_end[worker][out]):
            ingress = LocalPort(log_what[at] >> INGRESS_AT)
            if includes(stale, 0, ingress):
                accounts[first[ingress + 1]] = scratch.log_time[worker][at] << KEY_BITS | at
                first[ingress + 1] += 1
    for port in local_ports_of(net, node):
        if includes(stale, 0, port):
            insertion_sort(accounts, first[port], first[port + 1])


def kept_account(scratch: Scratch, worker: int, port: LocalPort, cls: int) -> int:
    """Where the account of an ingress and class is kept."""
    most_ports: int = scratch.asked.shape[1]
    return (worker * most_ports + port) * N_CLASSES + cls


def restore_account(
    net: Net, env: QueueEnv, scratch: Scratch, worker: int, node: NodeId, port: LocalPort
) -> None:
    """Make the account of a stirred ingress what it was before the window."""
    p = net.first_port[node] + port
    env.links.ports[p].asked = scratch.asked[worker][port]
    for cls in range(N_CLASSES):
        kept = kept_account(scratch, worker, port, cls)
        env.links.queues[queue_of(p, cls)] = scratch.accounts[kept]


def restore_accounts(net: Net, env: QueueEnv, scratch: Scratch, worker: int, node: NodeId) -> None:
    """Likewise for all of them."""
    for port in local_ports_of(net, node):
        if includes(scratch.stirred[worker], 0, port):
            restore_account(net, env, scratch, worker, node, port)


def note_due(scratch: Scratch, worker: int, port: LocalPort, n: int, key: int, mask: int) -> bool:
    """Due number ``n`` of a port is of this time, and to say this; is that new?"""
    at = MOST_DUES * port + n
    keys = scratch.due_keys[worker]
    masks = scratch.due_masks[worker]
    known = n < scratch.n_dues[worker][port] and keys[at] == key and masks[at] == mask
    keys[at] = key
    masks[at] = mask
    return not known


def replay(
    net: Net,
    env: QueueEnv,
    clock: Clock,
    scratch: Scratch,
    worker: int,
    node: NodeId,
    ingress: LocalPort,
) -> tuple[bool, bool]:
    """Take an ingress through its arrivals and departures; its dues are what it asks for.

    Returns whether there is room for them, and whether they are others than before.
    """
    links = env.links
    restore_account(net, env, scratch, worker, node, ingress)
    first = net.first_port[node]
    port = links.ports[first + ingress]
    w0 = clock.clock[0].w0
    arrival, arrivals_end = arrivals_by(net, env, scratch, worker, node, ingress)
    departure = scratch.account_first[worker][ingress]
    departures_end = scratch.account_first[worker][ingress + 1]
    n_dues = 0
    changed = False
    while arrival < arrivals_end or departure < departures_end:
        slot = Slot(0)
        arrives = INF
        if arrival < arrivals_end:
            slot = scratch.slots[worker][arrival]
            arrives = links.pool[slot].time - w0
        at = 0
        leaves = INF
        if departure < departures_end:
            at = scratch.account_keys[worker][departure] & KEY_MASK
            leaves = scratch.log_time[worker][at]
        asked = port.asked & (FRAME_DUE - 1)
        if leaves <= arrives:
            what = scratch.log_what[worker][at]
            cls = (what >> CLASS_AT) & CLASS_MASK
            notify_departure(env, port, cls, Bytes(what & SIZE_MASK), w0 + leaves)
            key = leaves << KEY_BITS | (what >> OUT_AT) & PORT_MASK
            departure += 1
        else:
            if int(links.pool[slot].kind) != PFC:
                let_in(env, port, slot, w0 + arrives)
            place = place_at(links.inbox[first + ingress], w0 + arrives)
            key = arrives << KEY_BITS | place << INDEX_BITS | arrival
            arrival += 1
        mask = port.asked & (FRAME_DUE - 1)
        if mask != asked:
            if n_dues == MOST_DUES:
                return False, True
            changed = note_due(scratch, worker, ingress, n_dues, key, mask) or changed
            n_dues += 1
    changed = changed or n_dues != scratch.n_dues[worker][ingress]
    scratch.n_dues[worker][ingress] = n_dues
    return True, changed


def arrivals_by(
    net: Net, env: QueueEnv, scratch: Scratch, worker: int, node: NodeId, ingress: LocalPort
) -> tuple[int, int]:
    """The arrivals of the window that came in by an ingress: the first one, and behind the last."""
    if includes(env.links.unread, net.first_word[node], ingress):
        at = UNDO * ingress
        return scratch.undo[worker][at + 5], scratch.undo[worker][at + 6]
    return 0, 0


def mark_stale(scratch: Scratch, worker: int, out: LocalPort) -> None:
    """What leaves by port ``out`` is about to change, or has: who it came in by is replayed."""
    for at in range(scratch.log_first[worker][out], scratch.log_end[worker][out]):
        include(
            scratch.stale[worker],
            0,
            LocalPort(scratch.log_what[worker][at] >> INGRESS_AT),
        )


def plan_again(
    net: Net, env: QueueEnv, clock: Clock, scratch: Scratch, worker: int, node: NodeId
) -> bool:
    """Plan the ports whose dues have changed, and find out whose accounts change by that."""
    scratch.stale[worker][:] = 0
    for out in local_ports_of(net, node):
        if includes(scratch.moved[worker], 0, out):
            take_back_departures(scratch, worker, out)
            end = plan_port(net, env.links, clock, scratch, worker, node, out)
            if end < 0:
                return False
            scratch.log_end[worker][out] = end
            mark_stale(scratch, worker, out)
    return True


def replay_stale(
    net: Net, env: QueueEnv, clock: Clock, scratch: Scratch, worker: int, node: NodeId
) -> tuple[bool, bool]:
    """Replay the stirred ones of the stale ingresses; their ports with other dues are ``moved``.

    Returns whether there is room for all dues, and whether any port is moved.
    """
    stirred = scratch.stirred[worker]
    scratch.moved[worker][:] = 0
    some = False
    for port in local_ports_of(net, node):
        if includes(scratch.stale[worker], 0, port):
            if not includes(stirred, 0, port):
                look_closer(net, env, scratch, worker, node, port)
            if not includes(stirred, 0, port):
                exclude(scratch.stale[worker], 0, port)
    departures_by_ingress(net, scratch, worker, node)
    for port in local_ports_of(net, node):
        if includes(scratch.stale[worker], 0, port):
            fits, changed = replay(net, env, clock, scratch, worker, node, port)
            if not fits:
                return False, True
            if changed:
                include(scratch.moved[worker], 0, port)
                some = True
    return True, some


def plan_pauses(
    net: Net, env: QueueEnv, clock: Clock, scratch: Scratch, worker: int, node: NodeId
) -> int:
    """Find out what the switch's ports owe their neighbors in the window, and when.

    Arrivals must have been grouped by output port, and those ingresses be ``mattering`` that may
    matter. With PLANNED those are ``stirred`` that do, and their accounts are those of the window's
    end; otherwise nothing has changed.
    """
    for port in local_ports_of(net, node):
        scratch.asked[worker][port] = env.links.ports[net.first_port[node] + port].asked
    if not plan_all(net, env.links, clock, scratch, worker, node):
        return NO_LOG
    for word in range(scratch.stirred[worker].shape[0]):
        scratch.stale[worker][word] = scratch.mattering[worker][word]
    for _ in range(MOST_ROUNDS):
        fits, some = replay_stale(net, env, clock, scratch, worker, node)
        if not some:
            return PLANNED
        if not fits or not plan_again(net, env, clock, scratch, worker, node):
            break
    restore_accounts(net, env, scratch, worker, node)
    return NO_PLAN


def settle_others(
    net: Net, env: QueueEnv, clock: Clock, scratch: Scratch, worker: int, node: NodeId
) -> None:
    """Bring accounts that might have mattered, and do not, to where they are at the window's end.

    But for what arrives by those that nobody is held back for, which is let in as it arrives at
    its output port. So accounts that must not rise too far fall first, and the other way round.
    """
    links = env.links
    first = net.first_port[node]
    w0 = clock.clock[0].w0
    for ingress in local_ports_of(net, node):
        if holds_back(scratch, worker, ingress):
            arrival, end = arrivals_by(net, env, scratch, worker, node, ingress)
            for k in range(arrival, end):
                pkt = links.pool[scratch.slots[worker][k]]
                if int(pkt.kind) != PFC and (scratch.asked[worker][ingress] >> int(pkt.prio)) & 1:
                    let_in(env, links.ports[first + ingress], scratch.slots[worker][k], pkt.time)
    for out in local_ports_of(net, node):
        for at in range(scratch.log_first[worker][out], scratch.log_end[worker][out]):
            what = scratch.log_what[worker][at]
            ingress = LocalPort(what >> INGRESS_AT)
            if not includes(scratch.stirred[worker], 0, ingress):
                now = w0 + scratch.log_time[worker][at]
                cls = (what >> CLASS_AT) & CLASS_MASK
                port = links.ports[first + ingress]
                notify_departure(env, port, cls, Bytes(what & SIZE_MASK), now)


def holds_back(scratch: Scratch, worker: int, ingress: LocalPort) -> bool:
    """Is the neighbor of an ingress that might have mattered asked to hold a class back?"""
    if not includes(scratch.mattering[worker], 0, ingress):
        return False
    if includes(scratch.stirred[worker], 0, ingress):
        return False
    return scratch.asked[worker][ingress] & (FRAME_DUE - 1) != 0
