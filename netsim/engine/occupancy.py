"""Used slots of the packet pool and rows of a program's log."""

from __future__ import annotations

from typing import Any

import numpy as np

from netsim.engine.kernels.ids import Array
from netsim.engine.state import State


def on_links(state: State) -> Array:
    """Return the slots of packets on links, PFC frames included. Call it between windows."""
    readers = state.links.readers
    return _slots(*(readers[name] for name in ("ring_off", "ring_mask", "head", "tail")))


def in_queues(state: State) -> Array:
    """Return the slots of packets in switch queues."""
    queues = state.links.queues
    return _slots(queues["off"], queues["mask"], queues["head"], queues["tail"])


def in_hosts(state: State) -> Array:
    """Return the slots of control packets that hosts have yet to send."""
    host_ports = state.hosts.host_ports
    ends = host_ports["ctrl_head"], host_ports["ctrl_tail"]
    return _slots(host_ports["ctrl_off"], host_ports["ctrl_mask"], *ends)


def _slots(off: Any, mask: Any, head: Any, tail: Any) -> Array:
    """Return the slots of positions head .. tail of each ring."""
    length = tail - head
    owner = np.repeat(np.arange(length.size), length)
    rank = np.arange(owner.size) - np.repeat(np.cumsum(length) - length, length)
    slots: Array = off[owner] + ((head[owner] + rank) & mask[owner])
    return slots


def rows_written(state: State) -> Array:
    """Return the written rows of a program's log, host by host."""
    hosts: Any = np.asarray(state.hosts.program_hosts)
    counts = hosts["next_row"] - hosts["first_row"]
    within = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
    return np.asarray(np.repeat(hosts["first_row"], counts) + within)
