"""A binary heap of timers per host, ordered by (key, slot).

A timer has one deadline. Moving it later, as retransmission timers do on every acknowledgment,
costs one store: the heap entry stays and is corrected when it surfaces. A host's segment of
``heap`` has an entry for each of its timers, after one for the heap's length.
"""

from __future__ import annotations

from netsim.engine.kernels.fields import HostRecord, TxRecord
from netsim.engine.kernels.ids import NO_TIMER, Ps, TimerSlot
from netsim.engine.kernels.layout import INF, Heap, Timers


def length(heap: Heap, host: HostRecord) -> int:
    """Return the number of timers in a host's heap, which is stored before it."""
    return int(heap[host.heap_off - 1])


def _earlier(timers: Timers, a: TimerSlot, b: TimerSlot) -> bool:
    """Return whether ``a`` precedes ``b`` in a heap."""
    ka = timers[a].key
    kb = timers[b].key
    return ka < kb or (ka == kb and a < b)


def _sift_up(timers: Timers, heap: Heap, off: int, i: int) -> None:
    """Move entry ``i`` of the heap at ``off`` up to its position."""
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


def _sift_down(timers: Timers, heap: Heap, off: int, n: int, i: int) -> None:
    """Move entry ``i`` of the heap of ``n`` at ``off`` down to its position."""
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


def start_timer(tx: TxRecord) -> TimerSlot:
    """Return the start and pacing timer of a flow, which precedes its transport's timers."""
    return tx.first_timer - 1


def arm(timers: Timers, heap: Heap, host: HostRecord, slot: TimerSlot, deadline: Ps) -> None:
    """Set the deadline of timer ``slot`` of ``host``, replacing the old one."""
    timer = timers[slot]
    timer.deadline = deadline
    if timer.pos < 0:
        timer.key = deadline
        n = length(heap, host)
        heap[host.heap_off + n] = slot
        heap[host.heap_off - 1] = TimerSlot(n + 1)
        _sift_up(timers, heap, host.heap_off, n)
    elif deadline < timer.key:
        timer.key = deadline
        _sift_up(timers, heap, host.heap_off, timer.pos)


def pop(timers: Timers, heap: Heap, host: HostRecord) -> None:
    """Remove the top entry of the host's heap."""
    off = host.heap_off
    n = length(heap, host) - 1
    heap[off - 1] = TimerSlot(n)
    timers[heap[off]].pos = -1
    if n > 0:
        heap[off] = heap[off + n]
        _sift_down(timers, heap, off, n, 0)


def first_key(timers: Timers, heap: Heap, host: HostRecord) -> Ps:
    """Return the earliest key of a host's timers, a lower bound of its next deadline."""
    if length(heap, host) == 0:
        return INF
    return timers[heap[host.heap_off]].key


def surface(timers: Timers, heap: Heap, host: HostRecord) -> TimerSlot:
    """Remove and return the top timer if its deadline is its key; otherwise correct its entry.
    Returns NO_TIMER in the latter case."""
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
        _sift_down(timers, heap, host.heap_off, length(heap, host), 0)
    return NO_TIMER
