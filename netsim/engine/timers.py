"""One binary heap of timers per host, ordered by (key, slot).

A timer has one deadline. Moving it later, which is what retransmission timers do
on every acknowledgement, costs one store: the heap entry stays and is put right
when it surfaces. Capacity is exact by construction: a host's segment of ``heap``
is as long as the number of timers it owns.
"""

from __future__ import annotations

from netsim.engine.layout import INF


def _earlier(timers, a, b):
    ka = timers[a].key
    kb = timers[b].key
    return ka < kb or (ka == kb and a < b)


def _sift_up(timers, heap, off, i):
    slot = heap[off + i]
    while i > 0:
        up = (i - 1) >> 1
        other = heap[off + up]
        if not _earlier(timers, slot, other):
            break
        heap[off + i] = other
        timers[other].pos = i
        i = up
    heap[off + i] = slot
    timers[slot].pos = i


def _sift_down(timers, heap, off, n, i):
    slot = heap[off + i]
    while True:
        down = 2 * i + 1
        if down >= n:
            break
        if down + 1 < n and _earlier(timers, heap[off + down + 1], heap[off + down]):
            down += 1
        other = heap[off + down]
        if not _earlier(timers, other, slot):
            break
        heap[off + i] = other
        timers[other].pos = i
        i = down
    heap[off + i] = slot
    timers[slot].pos = i


def arm(timers, heap, host, slot, deadline):
    """Give timer ``slot`` of ``host`` a new deadline, in place of the old one."""
    timer = timers[slot]
    timer.deadline = deadline
    if timer.pos < 0:
        timer.key = deadline
        n = host.heap_len
        heap[host.heap_off + n] = slot
        host.heap_len = n + 1
        _sift_up(timers, heap, host.heap_off, n)
    elif deadline < timer.key:
        timer.key = deadline
        _sift_up(timers, heap, host.heap_off, timer.pos)


def pop(timers, heap, host):
    """Take the top entry off the heap."""
    off = host.heap_off
    n = host.heap_len - 1
    host.heap_len = n
    timers[heap[off]].pos = -1
    if n > 0:
        heap[off] = heap[off + n]
        _sift_down(timers, heap, off, n, 0)


def first_key(timers, heap, host):
    """Earliest key of a host's timers, a lower bound of its next deadline."""
    if host.heap_len == 0:
        return INF
    return timers[heap[host.heap_off]].key


def surface(timers, heap, host):
    """Take the top timer if its deadline is its key, else put it right. Returns its slot or -1."""
    slot = heap[host.heap_off]
    timer = timers[slot]
    if timer.deadline == timer.key:
        pop(timers, heap, host)
        timer.deadline = INF
        return slot
    if timer.deadline >= INF:
        pop(timers, heap, host)
    else:
        timer.key = timer.deadline
        _sift_down(timers, heap, host.heap_off, host.heap_len, 0)
    return -1
