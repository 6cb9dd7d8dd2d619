"""Where packets are in the pool, and which rows of a program's log are written."""

from __future__ import annotations

from typing import Any

import numpy as np

from netsim.engine.kernels import links as rings
from netsim.engine.kernels.fields import Array
from netsim.engine.share import ALL, Rows, rows_of
from netsim.engine.state import State


def on_links(state: State, ports: Rows = ALL) -> Array:
    """Return the slots of packets on links to some ports, PFC frames included. Call it between
    windows."""
    readers, size = np.asarray(state.links.readers)[ports], rings.BLOCK_SLOTS
    owner, position = _positions(readers["head"], readers["tail"])
    slots = np.empty(owner.size, np.int64)
    block, end = readers["block"].astype(np.int64), readers["block_end"].copy()
    rest = np.arange(owner.size)
    while rest.size:
        here = position[rest] < end[owner[rest]]
        of, at = owner[rest[here]], position[rest[here]]
        slots[rest[here]] = block[of] * size + at % size
        rest = rest[~here]
        on = np.unique(owner[rest])
        block[on], end[on] = state.links.next_block[block[on]], end[on] + size
    return slots


def in_queues(state: State, which: Rows = ALL) -> Array:
    """Return the slots of packets in some of the queues of switches."""
    queues = np.asarray(state.links.queues)[which]
    return _slots(queues["off"], queues["mask"], queues["head"], queues["tail"])


def in_hosts(state: State, ports: Rows = ALL) -> Array:
    """Return the slots of control packets that hosts have yet to send by some ports."""
    host_ports = np.asarray(state.hosts.host_ports)[ports]
    ends = host_ports["ctrl_head"], host_ports["ctrl_tail"]
    return _slots(host_ports["ctrl_off"], host_ports["ctrl_mask"], *ends)


def _slots(off: Any, mask: Any, head: Any, tail: Any) -> Array:
    """Return the slots of positions head .. tail of each ring."""
    owner, position = _positions(head, tail)
    slots: Array = off[owner] + (position & mask[owner])
    return slots


def _positions(head: Any, tail: Any) -> tuple[Array, Array]:
    """Return the owner of each packet, and its position there."""
    length = tail - head
    owner = np.repeat(np.arange(length.size), length)
    return owner, rows_of(head, length)


def rows_written(state: State) -> Array:
    """Return the written rows of a program's log, host by host."""
    hosts: Any = np.asarray(state.hosts.program_hosts)
    return rows_of(hosts["first_row"], hosts["next_row"] - hosts["first_row"])
