"""Larger rings for nodes that stopped for lack of room.

A step that finds a ring full ends before the action that needs the slot and says what it asks
for (`layout.OK` and its neighbours). Between two calls of the compiled code that is given to it:
rings move to larger stretches of the pool, and the pool and the scratch memory are replaced by
larger ones. What is simulated does not change.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from netsim.engine.kernels.ids import GlobalPort, QueueId
from netsim.engine.kernels.layout import GROW_CONTROL, GROW_SCRATCH
from netsim.engine.records import RecordArray, aligned_zeros
from netsim.engine.state import State, build_scratch
from netsim.model.network import Network


class Growth:
    """Grows what ``state`` is made of, and keeps the stretches of the pool that became free."""

    def __init__(self, state: State, network: Network, threads: int) -> None:
        self.state, self.network, self.threads = state, network, threads
        self._free: dict[int, list[int]] = {}

    def give_room(self) -> None:
        """Give every node that stopped for lack of room what it asked for."""
        clock, wires = self.state.clock, self.state.wires
        for port in map(GlobalPort, np.flatnonzero(wires.link_need).tolist()):
            self._grow_link(port, int(wires.link_need[port]))
        for queue in map(QueueId, np.flatnonzero(wires.queue_need).tolist()):
            self._grow_queue(queue, int(wires.queue_need[queue]))
        wires.link_need[:] = 0
        wires.queue_need[:] = 0
        active = clock.active[: int(clock.clock["n_active"][0])]
        for host in active[clock.status[active] == GROW_CONTROL].tolist():
            self._grow_control(host)
        for node in active[clock.status[active] == GROW_SCRATCH].tolist():
            self._grow_scratch(int(clock.what[node]))

    def _grow_link(self, port: GlobalPort, need: int) -> None:
        ports, inbox = self.state.wires.ports, self.state.wires.inbox
        reader = GlobalPort(self.network.port_peer[port])
        ends = int(inbox["head"][reader]), int(ports["tail"][port])
        size = _power_of_two(need)
        off = self._move(int(ports["ring_off"][port]), int(ports["ring_mask"][port]), *ends, size)
        for array, index in ((ports, port), (inbox, reader)):
            array["ring_off"][index] = off
            array["ring_mask"][index] = size - 1

    def _grow_queue(self, index: QueueId, need: int) -> None:
        queues = self.state.wires.queues
        ends = int(queues["head"][index]), int(queues["tail"][index])
        size = _power_of_two(need)
        off = self._move(int(queues["off"][index]), int(queues["mask"][index]), *ends, size)
        queues["off"][index] = off
        queues["mask"][index] = size - 1

    def _grow_control(self, host: int) -> None:
        hosts = self.state.ends.hosts
        mask = int(hosts["ctrl_mask"][host])
        ends = int(hosts["ctrl_head"][host]), int(hosts["ctrl_tail"][host])
        off = self._move(int(hosts["ctrl_off"][host]), mask, *ends, 2 * (mask + 1))
        hosts["ctrl_off"][host] = off
        hosts["ctrl_mask"][host] = 2 * mask + 1

    def _grow_scratch(self, need: int) -> None:
        if need > self.state.scratch.slots.shape[1]:
            self.state.scratch = build_scratch(self.network, self.threads, _power_of_two(need))

    def _move(self, off: int, mask: int, head: int, tail: int, size: int) -> int:
        """Copy entries head .. tail of a ring into a segment of ``size`` slots; returns where."""
        new = self._segment(size)
        wires = self.state.wires
        # As bytes: NumPy copies records field by field, thirty times slower.
        pool = np.asarray(wires.pool).view(np.uint8).reshape(-1, wires.pool.itemsize)
        while head < tail:
            # Up to where the old ring wraps; the new one, a multiple of it, does not before.
            n = min(tail - head, mask + 1 - (head & mask))
            here, there = off + (head & mask), new + (head & (size - 1))
            pool[there : there + n] = pool[here : here + n]
            if wires.ingress.shape[0] > 1:
                wires.ingress[there : there + n] = wires.ingress[here : here + n]
            head += n
        self._free.setdefault(mask + 1, []).append(off)
        return new

    def _segment(self, size: int) -> int:
        """A free stretch of ``size`` pool slots; the pool grows if there is none."""
        if self._free.get(size):
            return self._free[size].pop()
        s = self.state
        start = s.pool_used
        s.pool_used += size
        pool = s.wires.pool
        if s.pool_used > pool.shape[0]:
            bigger: Any = aligned_zeros(s.pool_used + pool.shape[0] // 2, pool.dtype)
            bigger[:start] = pool[:start]
            if isinstance(pool, RecordArray):  # in plain Python
                bigger = bigger.view(RecordArray)
            ingress: Any = s.wires.ingress
            if ingress.shape[0] > 1:
                ingress = np.resize(ingress, bigger.shape[0])
            s.wires = s.wires._replace(pool=bigger, ingress=ingress)
        return start


def _power_of_two(n: int) -> int:
    """The smallest power of two that is at least ``n``."""
    return 1 << (n - 1).bit_length()
