"""Find the nodes with an event in a window."""

from __future__ import annotations

from collections.abc import Iterable

from netsim.engine.kernels.ids import NodeId, Ps, span
from netsim.engine.kernels.layout import BLOCK, INF, UNFINISHED, Clock


def find_active(clock: Clock) -> bool:
    """Open the next window: set its bounds and active nodes; return False if no event is left."""
    window = clock.clock[0]
    soonest = clock.soonest
    w0 = INF
    for block in range(soonest.shape[0]):
        w0 = min(w0, soonest[block])
    window.n_active = 0
    if w0 >= INF:
        return False
    window.w0 = w0
    window.w1 = w0 + window.window_ps
    w1 = window.w1
    k = 0
    for block in range(soonest.shape[0]):
        if soonest[block] < w1:
            for node in nodes_of_block(clock, block):
                if clock.next_event[node] < w1:
                    clock.active[k] = node
                    clock.status[node] = UNFINISHED
                    k += 1
    window.n_active = k
    return True


def nodes_of_block(clock: Clock, block: int) -> Iterable[NodeId]:
    """The nodes of a block, in ascending order."""
    end = min((block + 1) * BLOCK, clock.next_event.shape[0])
    return span(NodeId(block * BLOCK), NodeId(end))


def expect(clock: Clock, node: NodeId, time: Ps) -> None:
    """Record that ``node`` has an event at ``time``."""
    if time < clock.next_event[node]:
        clock.next_event[node] = time
        block = node // BLOCK
        clock.soonest[block] = min(clock.soonest[block], time)


def note_next_events(clock: Clock) -> None:
    """Record the next event of every node that was active."""
    done = -1
    for i in range(clock.clock[0].n_active):
        block = clock.active[i] // BLOCK
        if block != done:
            soonest = INF
            for node in nodes_of_block(clock, block):
                soonest = min(soonest, clock.next_event[node])
            clock.soonest[block] = soonest
            done = block
