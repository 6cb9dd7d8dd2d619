"""Enlarge buffers for nodes that ran out of room.

Rings grow within a step (`kernels/rings.py`). If the pool is full, or a switch has more arrivals in
a window than scratch memory holds, the step ends before it changes any result and reports it
(`layout.OK` and its neighbors). The engine makes room between calls of the compiled code and
repeats the call.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from netsim.engine.kernels.layout import GROW_POOL, GROW_SCRATCH, Scratch
from netsim.engine.records import RecordArray, aligned_zeros, attribute_access
from netsim.engine.state import State, build_scratch
from netsim.model.network import Network


def grow_buffers(state: State, network: Network, threads: int) -> None:
    """Give every node of the window the room it needs."""
    clock = state.clock
    active = clock.active[: int(clock.clock["n_active"][0])]
    status = clock.status[active]
    if (status == GROW_POOL).any():
        _grow_pool(state)
    need = int(clock.what[active[status == GROW_SCRATCH]].max(initial=0))
    if need > state.scratch.slots.shape[1]:
        planned = state.links.queues.dtype if isinstance(state.scratch, Scratch) else None
        scratch = build_scratch(network, planned, threads, 1 << (need - 1).bit_length())
        state.scratch = attribute_access(scratch) if _in_plain_python(state) else scratch


def _grow_pool(state: State) -> None:
    """Double the pool, with all packets in their slots."""
    links = state.links
    slots, used = links.pool.shape[0], int(links.pool_used[0])
    pool: Any = aligned_zeros(2 * slots, links.pool.dtype)
    # As bytes: NumPy copies records field by field, thirty times slower.
    pool.view(np.uint8)[: used * pool.itemsize] = np.asarray(links.pool[:used]).view(np.uint8)
    if _in_plain_python(state):
        pool = pool.view(RecordArray)
    ingress: Any = links.ingress
    if ingress.shape[0] > 1:
        ingress = np.zeros(2 * slots, ingress.dtype)
        ingress[:used] = links.ingress[:used]
    state.links = links._replace(pool=pool, ingress=ingress)


def _in_plain_python(state: State) -> bool:
    """Return whether the state's records are for plain Python."""
    return isinstance(state.links.pool, RecordArray)
