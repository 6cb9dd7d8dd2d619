"""Functions that a transport's handlers call, imported from `netsim.transport`."""

from __future__ import annotations

from typing import Any, TypeVar

from netsim.engine.kernels.fields import (
    Bytes,
    FlowRecord,
    GlobalPort,
    Ps,
    RxRecord,
    TimerSlot,
    TxRecord,
)
from netsim.engine.kernels.handlers import (
    NO_BIT,
    NO_TIMER,
    NOT_HERE,
    TOO_MANY_BYTES,
    TOO_MANY_CONTROL,
    Env,
    broken,
)
from netsim.engine.kernels.layout import INF, ONE_PORT, TIMER_TX, TIMERS_OF_A_KIND, ring_slot
from netsim.engine.kernels.port_pairs import control_pair, is_up, pairs_in_use
from netsim.engine.kernels.specialization_constants import (
    CARRIER,
    HAS_WORDS,
    PLANE_BALANCING,
    POLICY_ROUTING,
    TASKS,
    TRACE,
)
from netsim.engine.kernels.tasks import arm, flow_delivered, flow_finished
from netsim.engine.kernels.trace import trace_set

Number = TypeVar("Number", int, float)

MAX_TOLD = 62  # port pairs in a number of 64 bits
BLOCKED = INF  # result of ``ready`` when only an event can unblock the flow


def check_is_here(env: Env, side: FlowRecord) -> None:
    """Break a rule if a flow's side is not at the host that runs the handler."""
    if side.host != env.host.host:
        broken(env.host, NOT_HERE, int(side.flow))


def send(env: Env, side: FlowRecord, kind: int, seq: int, aux: int, prio: int) -> Any:
    """Queue a control packet to the other end of a flow and return it, so that you can set fields.

    ``side`` is the flow's record on this host; ``prio`` the traffic class. One handler call may
    send at most ``CONTROL_BURST``.
    """
    check_is_here(env, side)
    host = env.host
    p = host.port
    dst = int(side.peer)
    if PLANE_BALANCING != ONE_PORT:
        port_pair = control_pair(env, side)
        p = GlobalPort(env.hosts.port_pairs[port_pair, 0])
        dst = int(env.hosts.port_pairs[port_pair, 2])
    elif POLICY_ROUTING:
        dst = int(env.hosts.port_pairs[side.port_choice, 2])
    host_port = env.hosts.host_ports[p]
    if host_port.ctrl_tail - host_port.ctrl_head > host_port.ctrl_mask:
        broken(host, TOO_MANY_CONTROL, 0)
        host_port.ctrl_head += 1
    slot = ring_slot(host_port.ctrl_off, host_port.ctrl_mask, host_port.ctrl_tail)
    env.links.pool[slot] = env.links.zero_packet[0]
    pkt = env.links.pool[slot]
    host_port.ctrl_tail += 1
    pkt.flow = side.flow
    pkt.seq = seq
    pkt.dst = dst
    pkt.aux = aux
    pkt.size_bytes = env.par.control_bytes
    pkt.entropy = side.entropy
    pkt.kind = kind
    pkt.prio = prio
    return pkt


def port_pair(env: Env, side: FlowRecord) -> int:
    """Return which of a flow's port pairs its next data packet takes, or in ``build_packet`` the
    current one."""
    check_is_here(env, side)
    if PLANE_BALANCING == ONE_PORT:
        return 0
    return env.hosts.port_choices[side.port_choice].port_pair


def port_pairs_in_use(env: Env, side: FlowRecord) -> int:
    """Return the port pairs that a flow may use now, as far as this host knows: bit k is set for
    port pair k (of the first 62)."""
    check_is_here(env, side)
    if PLANE_BALANCING == ONE_PORT:
        return 1
    port_choice = env.hosts.port_choices[side.port_choice]
    n = min(port_choice.n_pairs, MAX_TOLD)
    every = (1 << n) - 1
    if CARRIER and pairs_in_use(env, port_choice) < port_choice.n_pairs:
        for k in range(n):
            if not is_up(env, port_choice, k):
                every -= 1 << k
    return every


def flow_word(env: Env, tx: TxRecord, k: int) -> int:
    """Return number ``k``, 0 or 1, that a program has given a flow for its receiver; else 0."""
    check_is_here(env, tx)
    if HAS_WORDS and 0 <= k <= 1:
        return env.hosts.words[tx.flow, k]
    return 0


def deliver(env: Env, now: Ps, rx: RxRecord, n_bytes: int) -> None:
    """Deliver ``n_bytes`` new payload bytes of a flow to the application."""
    check_is_here(env, rx)
    rx.received_bytes += n_bytes
    host = env.host
    host.payload_bytes += n_bytes
    if rx.received_bytes > rx.size_bytes:
        broken(host, TOO_MANY_BYTES, rx.received_bytes)
    if rx.received_bytes == rx.size_bytes and rx.done_ps < 0:
        rx.done_ps = now
        host.delivered += 1
        host.last_done_ps = now
        rx.next_done = host.done_head
        host.done_head = rx.flow
        if TASKS:
            flow_delivered(env, now, rx)


def finish(env: Env, now: Ps, tx: TxRecord) -> None:
    """Finish the flow at the sender: no handler is called again."""
    check_is_here(env, tx)
    if tx.finished == 0:
        tx.finished = 1
        tx.acked_ps = now
        env.host.finished += 1
        env.host.last_done_ps = now
        if TASKS:
            flow_finished(env, now, tx)


def packet_payload_bytes(env: Env, side: FlowRecord, seq: int) -> Bytes:
    """Return the payload bytes of packet ``seq`` of a flow."""
    if seq == side.n_packets - 1:
        return side.last_bytes
    return env.par.payload_bytes


def wire_bytes(env: Env, side: FlowRecord, seq: int) -> Bytes:
    """Return the wire bytes of data packet ``seq`` of a flow."""
    return packet_payload_bytes(env, side, seq) + env.par.header_bytes


def full_packet_bytes(env: Env) -> Bytes:
    """Return the wire bytes of a full data packet."""
    return env.par.payload_bytes + env.par.header_bytes


def or_default(value: Number, default: Number) -> Number:
    """Return a parameter's value, or ``default`` if it is not set."""
    if value < 0:
        return default
    return value


def _has_timer(env: Env, side: FlowRecord, k: int) -> bool:
    """Return whether timer ``k`` exists on this side of a flow and this NIC; else break a rule."""
    host = env.host
    own = side.first_timer - host.first_timer
    if 0 <= k < TIMERS_OF_A_KIND and 0 <= own < host.n_timers:
        timer = env.hosts.timers[side.first_timer + k]
        if timer.owner == side.flow and timer.code >= TIMER_TX:
            if timer.code & (TIMERS_OF_A_KIND - 1) == k:
                return True
    broken(env.host, NO_TIMER, k)
    return False


def set_timer(env: Env, now: Ps, side: FlowRecord, k: int, deadline: Ps) -> None:
    """Set timer ``k`` of a flow's side; it fires once, at ``deadline`` or now if that is past."""
    if _has_timer(env, side, k):
        slot = side.first_timer + k
        if TRACE:
            trace_set(env, side.flow, int(env.hosts.timers[slot].code), now)
        arm(env.hosts.timers, env.hosts.heap, env.host, slot, max(now, deadline))


def _has_host_timer(env: Env, k: int) -> bool:
    """Return whether this host has a timer ``k``; else break a rule."""
    if 0 <= k < TIMERS_OF_A_KIND:
        host = env.host
        number = env.par.first_host_timer + k
        timer = env.hosts.timers[host.first_timer + number]
        if timer.owner == host.host and timer.code == number:
            return True
    broken(env.host, NO_TIMER, k)
    return False


def _host_timer(env: Env, k: int) -> TimerSlot:
    """Return timer ``k`` of this host."""
    return env.host.first_timer + env.par.first_host_timer + k


def set_host_timer(env: Env, now: Ps, k: int, deadline: Ps) -> None:
    """Set timer ``k`` of this host."""
    if _has_host_timer(env, k):
        arm(env.hosts.timers, env.hosts.heap, env.host, _host_timer(env, k), max(now, deadline))


def cancel_timer(env: Env, side: FlowRecord, k: int) -> None:
    """Cancel timer ``k`` of a flow's side."""
    if _has_timer(env, side, k):
        env.hosts.timers[side.first_timer + k].deadline = INF


def armed(env: Env, side: FlowRecord, k: int) -> bool:
    """Return whether timer ``k`` of a flow's side is set."""
    if _has_timer(env, side, k):
        return env.hosts.timers[side.first_timer + k].deadline < INF
    return False


def host_timer_armed(env: Env, k: int) -> bool:
    """Return whether timer ``k`` of this host is set."""
    if _has_host_timer(env, k):
        return env.hosts.timers[_host_timer(env, k)].deadline < INF
    return False


def _word(env: Env, side: FlowRecord, bitmap: int, seq: int) -> int:
    """Return the word with bit ``seq`` of a bitmap; if there is none, break a rule and return
    -1."""
    w = side.bits + bitmap * ((side.n_packets + 31) >> 5) + (seq >> 5)
    if w < side.bits or w >= side.bits_end:
        broken(env.host, NO_BIT, seq)
        return -1
    return w


def bit_get(env: Env, side: FlowRecord, bitmap: int, seq: int) -> int:
    """Return bit ``seq`` of the side's ``bitmap`` (one bit per packet of the flow)."""
    w = _word(env, side, bitmap, seq)
    if w < 0:
        return 0
    return (env.bits[w] >> (seq & 31)) & 1


def bit_set(env: Env, side: FlowRecord, bitmap: int, seq: int) -> bool:
    """Set bit ``seq`` of ``bitmap``; return whether it was clear."""
    w = _word(env, side, bitmap, seq)
    if w < 0:
        return False
    old = env.bits[w]
    env.bits[w] = old | (1 << (seq & 31))
    return (old >> (seq & 31)) & 1 == 0


def bit_clear(env: Env, side: FlowRecord, bitmap: int, seq: int) -> bool:
    """Clear bit ``seq`` of ``bitmap``; return whether it was set."""
    w = _word(env, side, bitmap, seq)
    if w < 0:
        return False
    old = env.bits[w]
    env.bits[w] = old & ~(1 << (seq & 31))
    return (old >> (seq & 31)) & 1 == 1


def bit_first(env: Env, side: FlowRecord, bitmap: int, start: int) -> int:
    """Return the lowest set bit >= ``start`` of ``bitmap``, or ``n_packets``."""
    n = side.n_packets
    seq = start
    while seq < n:
        w = _word(env, side, bitmap, seq)
        if w < 0:
            return n
        word = env.bits[w] >> (seq & 31)
        if word == 0:
            seq = (seq | 31) + 1
            continue
        low = word & -word
        while low > 1:
            low = low >> 1
            seq += 1
        return seq
    return n


def bit_first_clear(env: Env, side: FlowRecord, bitmap: int, start: int) -> int:
    """Return the lowest clear bit >= ``start`` of ``bitmap``, or ``n_packets``."""
    seq = start
    while seq < side.n_packets and bit_get(env, side, bitmap, seq) == 1:
        seq += 1
    return seq
