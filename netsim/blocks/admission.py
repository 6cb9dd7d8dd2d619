"""Admit a host's flows first come, first served, while the sum of their rates fits.

A flow asks for its rate, waits until the host has room, and releases the rate when it has nothing
more to send. A waiting flow of any rate cannot be overtaken; only a flow that was admitted
before may ask to be next. Each host decides independently.

    TX_STATE = (*admission.TX_STATE, *pacing.TX_STATE, ...)    HOST_STATE = admission.HOST_STATE

A flow's ``rate_bps`` must not exceed the capacity. A flow admitted while another flow's handler
runs is woken by its timer ``ADMITTED``, which needs no handler.
"""

from __future__ import annotations

from netsim.transport import set_timer

TX_STATE = ("rate_bps", "admitted", "waiting", "next_waiting")
HOST_STATE = ("admitted_bps", "has_waiting", "wait_head", "wait_tail", "free_at_ps")
ADMITTED = 0


def ask(env, now, tx, capacity_bps, first):
    """Queue for the flow's rate, at the head (``first``) or the tail of the host's queue."""
    host = env.host
    tx.waiting = 1
    tx.next_waiting = -1
    if host.has_waiting == 0:
        host.wait_head = tx.flow
        host.wait_tail = tx.flow
    elif first:
        tx.next_waiting = host.wait_head
        host.wait_head = tx.flow
    else:
        env.tx[host.wait_tail].next_waiting = tx.flow
        host.wait_tail = tx.flow
    host.has_waiting = 1
    admit(env, now, capacity_bps)


def admit(env, now, capacity_bps):
    """Admit flows from the head of the queue while their rates fit."""
    host = env.host
    while host.has_waiting == 1:
        tx = env.tx[host.wait_head]
        if tx.finished == 0:
            if host.admitted_bps + tx.rate_bps > capacity_bps:
                return
            host.admitted_bps += tx.rate_bps
            tx.admitted = 1
            tx.next_send_ps = max(now, host.free_at_ps)
            set_timer(env, now, tx, ADMITTED, now)
        tx.waiting = 0
        host.wait_head = tx.next_waiting
        if tx.next_waiting < 0:
            host.has_waiting = 0


def release(env, now, tx, capacity_bps):
    """Release the flow's rate. The next flow starts when the last packet's pacing gap is over."""
    host = env.host
    tx.admitted = 0
    host.admitted_bps -= tx.rate_bps
    host.free_at_ps = max(host.free_at_ps, tx.next_send_ps)
    admit(env, now, capacity_bps)
