"""Predict when a lossless switch pauses its neighbors in a window.

PFC couples ports in one way only: a departure by any port lowers the account of its ingress, and if
that pauses or resumes the neighbor, the ingress port sends a PFC frame. So each port's departures
are first planned as if no frame were sent (port_plan.py). They and the arrivals bound how far the
account of each candidate ingress can change, which leaves the few whose pause state may change
(``affected_ingresses``). `replay` takes those through their arrivals and departures in time order,
which yields the frames that their ports owe. These ports are planned again with their frames, and
the changes replayed, until nothing changes. A frame changes only later events, so each round
settles at least one more frame, and the fixed point is the true order.
"""

from __future__ import annotations

from netsim.engine.kernels.coupled_switch import admit_at_ingress, notify_departure
from netsim.engine.kernels.env import QueueEnv, queue_env_at
from netsim.engine.kernels.fields import PortRecord
from netsim.engine.kernels.ids import Bytes, LocalPort, NodeId, Slot
from netsim.engine.kernels.indexing import (
    PFC_FRAME_PENDING,
    exclude,
    include,
    includes,
    local_ports_of,
    queue_of,
)
from netsim.engine.kernels.layout import INF, MAX_PENDING_PFC, SLICES, UNDO, Clock, Net, Scratch
from netsim.engine.kernels.packets import PFC
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
from netsim.engine.kernels.queue_handlers import IN_PREDICT_PAUSE
from netsim.engine.kernels.queue_services import NO_EFFECT
from netsim.engine.kernels.specialization_constants import N_CLASSES, PER_PORT_SIZES, predict_pause
from netsim.engine.kernels.switch import INDEX_BITS, KEY_BITS, KEY_MASK, insertion_sort, order_at

PREDICTED, NO_PREDICTION, LOG_FULL = range(3)
"""Result of a prediction: frames are known; they are too many or do not settle; the departure log
is full."""

MAX_ROUNDS = 64  # limit on rounds, reached only if a discipline contradicts itself


def predicted_effect(
    env: QueueEnv, port: PortRecord, cls: int, arrived_bytes: Bytes, change: Bytes
) -> int:
    """Return the effect of ``arrived_bytes`` arriving at ingress ``port`` in class ``cls``. Bytes
    held rise by at most ``change`` or, if the class is paused, fall by at most that."""
    if arrived_bytes == 0 and (port.pause_requested >> cls) & 1 == 0:
        return NO_EFFECT
    if PER_PORT_SIZES:
        env = queue_env_at(env, port)
    env.switch.handler = IN_PREDICT_PAUSE
    effect: int = predict_pause(env, port, cls, arrived_bytes, change)
    return effect


def largest_change(scratch: Scratch, worker: int, entry: int, sign: int) -> Bytes:
    """Return how much the bytes held of an ingress and class can rise (1) or fall (-1). An upper
    bound: within a slice of the window, everything in that direction counts first."""
    tallies = scratch.tallies[worker]
    half = tallies.shape[0] // 2
    held = 0
    most = 0
    for part in range(SLICES):
        arrived_bytes = tallies[entry, part]
        left = tallies[half + entry, part]
        helps = arrived_bytes if sign > 0 else left
        most = max(most, held + helps)
        held += sign * (arrived_bytes - left)
    return Bytes(most)


def take_back_departures(scratch: Scratch, worker: int, out: LocalPort) -> None:
    """Remove port ``out``'s logged departures from the tallies; mark their ingresses for replay."""
    log_what = scratch.log_what[worker]
    for at in range(scratch.log_first[worker][out], scratch.log_end[worker][out]):
        what = log_what[at]
        cls = (what >> CLASS_AT) & CLASS_MASK
        entry = account_of(scratch, LocalPort(what >> INGRESS_AT), cls)
        tally(scratch, worker, entry, scratch.log_time[worker][at], -(what & SIZE_MASK))
    mark_for_replay(scratch, worker, out)


def refine_prediction(
    net: Net, env: QueueEnv, scratch: Scratch, worker: int, node: NodeId, port: LocalPort
) -> None:
    """Check a candidate ingress against the plan; if affected, include it and save its account."""
    p = net.first_port[node] + port
    links = env.links
    for cls in range(N_CLASSES):
        sign = 1
        if (links.ports[p].pause_requested >> cls) & 1 == 1:
            sign = -1
        entry = port * N_CLASSES + cls
        change = largest_change(scratch, worker, entry, sign)
        arrived_bytes = scratch.arrived_bytes[worker][entry]
        if not includes(links.unread, net.first_word[node], port):
            arrived_bytes = Bytes(0)
        if predicted_effect(env, links.ports[p], cls, arrived_bytes, change) > NO_EFFECT:
            include(scratch.affected_ingresses[worker], 0, port)
    if includes(scratch.affected_ingresses[worker], 0, port):
        for cls in range(N_CLASSES):
            kept = kept_account(scratch, worker, port, cls)
            scratch.accounts[kept] = links.queues[queue_of(p, cls)]


def departures_by_ingress(net: Net, scratch: Scratch, worker: int, node: NodeId) -> None:
    """Collect, in time order, the logged departures of each ingress to replay.

    Those of ingress i are sort keys in ``account_keys`` from ``account_first[i]`` on; their lower
    bits are indices in the log.
    """
    n_ports = net.first_port[node + 1] - net.first_port[node]
    first = scratch.account_first[worker]
    accounts = scratch.account_keys[worker]
    log_what = scratch.log_what[worker]
    ingresses_to_replay = scratch.ingresses_to_replay[worker]
    first[: n_ports + 2] = 0
    for out in local_ports_of(net, node):
        for at in range(scratch.log_first[worker][out], scratch.log_end[worker][out]):
            ingress = LocalPort(log_what[at] >> INGRESS_AT)
            if includes(ingresses_to_replay, 0, ingress):
                first[ingress + 2] += 1
    for port in local_ports_of(net, node):
        first[port + 2] += first[port + 1]
    for out in local_ports_of(net, node):
        for at in range(scratch.log_first[worker][out], scratch.log_end[worker][out]):
            ingress = LocalPort(log_what[at] >> INGRESS_AT)
            if includes(ingresses_to_replay, 0, ingress):
                accounts[first[ingress + 1]] = scratch.log_time[worker][at] << KEY_BITS | at
                first[ingress + 1] += 1
    for port in local_ports_of(net, node):
        if includes(ingresses_to_replay, 0, port):
            insertion_sort(accounts, first[port], first[port + 1])


def kept_account(scratch: Scratch, worker: int, port: LocalPort, cls: int) -> int:
    """Return the index of the saved account of an ingress and class."""
    most_ports: int = scratch.pause_requested.shape[1]
    return (worker * most_ports + port) * N_CLASSES + cls


def restore_account(
    net: Net, env: QueueEnv, scratch: Scratch, worker: int, node: NodeId, port: LocalPort
) -> None:
    """Restore the account of an affected ingress to the start of the window."""
    p = net.first_port[node] + port
    env.links.ports[p].pause_requested = scratch.pause_requested[worker][port]
    for cls in range(N_CLASSES):
        kept = kept_account(scratch, worker, port, cls)
        env.links.queues[queue_of(p, cls)] = scratch.accounts[kept]


def restore_accounts(net: Net, env: QueueEnv, scratch: Scratch, worker: int, node: NodeId) -> None:
    """Restore the accounts of all affected ingresses."""
    for port in local_ports_of(net, node):
        if includes(scratch.affected_ingresses[worker], 0, port):
            restore_account(net, env, scratch, worker, node, port)


def add_pending_pfc(
    scratch: Scratch, worker: int, port: LocalPort, n: int, key: int, mask: int
) -> bool:
    """Set pending frame ``n`` of a port: its time and mask. Return whether that is a change."""
    at = MAX_PENDING_PFC * port + n
    keys = scratch.pending_pfc_keys[worker]
    masks = scratch.pending_pfc_masks[worker]
    known = n < scratch.n_pending_pfc[worker][port] and keys[at] == key and masks[at] == mask
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
    """Replay an ingress' arrivals and departures, and set its pending frames. Return whether the
    frames fit, and whether they changed."""
    links = env.links
    restore_account(net, env, scratch, worker, node, ingress)
    first = net.first_port[node]
    port = links.ports[first + ingress]
    w0 = clock.clock[0].w0
    arrival, arrivals_end = arrivals_by(net, env, scratch, worker, node, ingress)
    departure = scratch.account_first[worker][ingress]
    departures_end = scratch.account_first[worker][ingress + 1]
    n_pending_pfc = 0
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
        pause_requested = port.pause_requested & (PFC_FRAME_PENDING - 1)
        if leaves <= arrives:
            what = scratch.log_what[worker][at]
            cls = (what >> CLASS_AT) & CLASS_MASK
            notify_departure(env, port, cls, Bytes(what & SIZE_MASK), w0 + leaves)
            key = leaves << KEY_BITS | (what >> OUT_AT) & PORT_MASK
            departure += 1
        else:
            if int(links.pool[slot].kind) != PFC:
                admit_at_ingress(env, port, slot, w0 + arrives)
            index = order_at(links.readers[first + ingress], w0 + arrives)
            key = arrives << KEY_BITS | index << INDEX_BITS | arrival
            arrival += 1
        mask = port.pause_requested & (PFC_FRAME_PENDING - 1)
        if mask != pause_requested:
            if n_pending_pfc == MAX_PENDING_PFC:
                return False, True
            changed = add_pending_pfc(scratch, worker, ingress, n_pending_pfc, key, mask) or changed
            n_pending_pfc += 1
    changed = changed or n_pending_pfc != scratch.n_pending_pfc[worker][ingress]
    scratch.n_pending_pfc[worker][ingress] = n_pending_pfc
    return True, changed


def arrivals_by(
    net: Net, env: QueueEnv, scratch: Scratch, worker: int, node: NodeId, ingress: LocalPort
) -> tuple[int, int]:
    """Return the range of the window's arrivals by an ingress: first, and one past the last."""
    if includes(env.links.unread, net.first_word[node], ingress):
        at = UNDO * ingress
        return scratch.undo[worker][at + 5], scratch.undo[worker][at + 6]
    return 0, 0


def mark_for_replay(scratch: Scratch, worker: int, out: LocalPort) -> None:
    """Mark for replay the ingresses of port ``out``'s departures."""
    for at in range(scratch.log_first[worker][out], scratch.log_end[worker][out]):
        include(
            scratch.ingresses_to_replay[worker],
            0,
            LocalPort(scratch.log_what[worker][at] >> INGRESS_AT),
        )


def plan_again(
    net: Net, env: QueueEnv, clock: Clock, scratch: Scratch, worker: int, node: NodeId
) -> bool:
    """Plan the ports whose pending frames changed; mark the ingresses affected for replay."""
    scratch.ingresses_to_replay[worker][:] = 0
    for out in local_ports_of(net, node):
        if includes(scratch.ports_to_replan[worker], 0, out):
            take_back_departures(scratch, worker, out)
            end = plan_port(net, env.links, clock, scratch, worker, node, out)
            if end < 0:
                return False
            scratch.log_end[worker][out] = end
            mark_for_replay(scratch, worker, out)
    return True


def replay_ingresses(
    net: Net, env: QueueEnv, clock: Clock, scratch: Scratch, worker: int, node: NodeId
) -> tuple[bool, bool]:
    """Replay the marked ingresses that are affected; collect ports whose frames changed. Return
    whether all frames fit, and whether there is such a port."""
    affected_ingresses = scratch.affected_ingresses[worker]
    scratch.ports_to_replan[worker][:] = 0
    some = False
    for port in local_ports_of(net, node):
        if includes(scratch.ingresses_to_replay[worker], 0, port):
            if not includes(affected_ingresses, 0, port):
                refine_prediction(net, env, scratch, worker, node, port)
            if not includes(affected_ingresses, 0, port):
                exclude(scratch.ingresses_to_replay[worker], 0, port)
    departures_by_ingress(net, scratch, worker, node)
    for port in local_ports_of(net, node):
        if includes(scratch.ingresses_to_replay[worker], 0, port):
            fits, changed = replay(net, env, clock, scratch, worker, node, port)
            if not fits:
                return False, True
            if changed:
                include(scratch.ports_to_replan[worker], 0, port)
                some = True
    return True, some


def predict_pauses(
    net: Net, env: QueueEnv, clock: Clock, scratch: Scratch, worker: int, node: NodeId
) -> int:
    """Predict which PFC frames the switch's ports owe in the window, and when.

    Arrivals must be grouped by output port, and ``candidate_ingresses`` set. With PREDICTED, the
    accounts of ``affected_ingresses`` are those of the window's end; otherwise nothing changed.
    """
    for port in local_ports_of(net, node):
        scratch.pause_requested[worker][port] = env.links.ports[
            net.first_port[node] + port
        ].pause_requested
    if not plan_all(net, env.links, clock, scratch, worker, node):
        return LOG_FULL
    for word in range(scratch.affected_ingresses[worker].shape[0]):
        scratch.ingresses_to_replay[worker][word] = scratch.candidate_ingresses[worker][word]
    for _ in range(MAX_ROUNDS):
        fits, some = replay_ingresses(net, env, clock, scratch, worker, node)
        if not some:
            return PREDICTED
        if not fits or not plan_again(net, env, clock, scratch, worker, node):
            break
    restore_accounts(net, env, scratch, worker, node)
    return NO_PREDICTION


def settle_others(
    net: Net, env: QueueEnv, clock: Clock, scratch: Scratch, worker: int, node: NodeId
) -> None:
    """Update the accounts of unaffected candidates to the end of the window.

    Arrivals at candidates with no class paused are excluded; they are admitted at their output
    port. So accounts that must not rise too far fall first, and vice versa.
    """
    links = env.links
    first = net.first_port[node]
    w0 = clock.clock[0].w0
    for ingress in local_ports_of(net, node):
        if holds_back(scratch, worker, ingress):
            arrival, end = arrivals_by(net, env, scratch, worker, node, ingress)
            for k in range(arrival, end):
                pkt = links.pool[scratch.slots[worker][k]]
                if (
                    int(pkt.kind) != PFC
                    and (scratch.pause_requested[worker][ingress] >> int(pkt.prio)) & 1
                ):
                    admit_at_ingress(
                        env, links.ports[first + ingress], scratch.slots[worker][k], pkt.time
                    )
    for out in local_ports_of(net, node):
        for at in range(scratch.log_first[worker][out], scratch.log_end[worker][out]):
            what = scratch.log_what[worker][at]
            ingress = LocalPort(what >> INGRESS_AT)
            if not includes(scratch.affected_ingresses[worker], 0, ingress):
                now = w0 + scratch.log_time[worker][at]
                cls = (what >> CLASS_AT) & CLASS_MASK
                port = links.ports[first + ingress]
                notify_departure(env, port, cls, Bytes(what & SIZE_MASK), now)


def holds_back(scratch: Scratch, worker: int, ingress: LocalPort) -> bool:
    """Return whether an unaffected candidate has paused a class of its neighbor."""
    if not includes(scratch.candidate_ingresses[worker], 0, ingress):
        return False
    if includes(scratch.affected_ingresses[worker], 0, ingress):
        return False
    return scratch.pause_requested[worker][ingress] & (PFC_FRAME_PENDING - 1) != 0
