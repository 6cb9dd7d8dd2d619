"""One part of a network in a process of its own: which rows of the state it owns.

Every part has arrays for the whole network, of which it changes the rows of its own nodes. `merge`
makes an ordinary snapshot of those of all parts, from which any number of parts can resume.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import cached_property

import numpy as np

from netsim.engine import snapshot
from netsim.engine.kernels import layout
from netsim.engine.kernels.cut import Cut
from netsim.engine.kernels.ids import NO_FLOW, Array
from netsim.engine.kernels.layout import BLOCK, INF, TIMER_RX, grouped
from netsim.engine.kernels.series import BINS_APART
from netsim.engine.pool import lay_out
from netsim.engine.records import aligned_zeros
from netsim.engine.snapshot import Snapshot
from netsim.engine.state import State

CLOCK, NEXT_EVENT, SOONEST = "clock.clock", "clock.next_event", "clock.soonest"

FEW = 1024
"""Packets for which there is room at first."""

PACKETS = (
    ("links.readers", "head", "tail"),
    ("links.queues", "head", "tail"),
    ("hosts.host_ports", "ctrl_head", "ctrl_tail"),
)
"""Whose packets are in a snapshot, in this order, and where their ends are."""

LOGGED = ("hosts.program_hosts", "first_row", "next_row")
"""Likewise for the rows of a program's log."""

TOTALS = (
    *("hops", "delivered", "finished", "tasks_done", "under_way", "expected", "payload_bytes"),
)
"""Fields of the clock that each part counts for itself since the last snapshot."""


class Partition:
    """The division of a state's rows: ``of_node`` (int32[n_nodes]) is the part of each node, and
    ``part`` this one of ``n_parts``."""

    def __init__(self, state: State, of_node: Array, part: int, n_parts: int) -> None:
        self._state, self._of_node = state, of_node
        self.part, self.n_parts = part, n_parts

    @cached_property
    def of_rows(self) -> Mapping[str, Array]:
        """Return the part of each row of arrays that several parts change, by path. All others are
        the same in every part."""
        net, links, hosts = self._state.net, self._state.links, self._state.hosts
        host, switch = self._of_node[: net.n_hosts], self._of_node[net.n_hosts :]
        ports = self._of_node[net.port_node]
        queues = np.repeat(ports, links.queues.shape[0] // ports.size)
        words = np.repeat(switch, np.diff(net.first_word)[net.n_hosts :])
        tx, rx = (host[np.asarray(side)["host"]] for side in (hosts.tx, hosts.rx))
        heap_off = np.asarray(hosts.nics)["heap_off"][hosts.first_nic[:-1]]
        timers = np.repeat(host, np.diff(np.append(heap_off, hosts.heap.shape[0] + 1)) - 1)
        levels, samples = self._of_series(ports, queues)
        found = {
            "links": {
                **dict.fromkeys(("ports", "readers", "balance", "faults", "circuits"), ports),
                **dict.fromkeys(("queues", "losses"), queues),
                **dict.fromkeys(("unread", "busy", "dirty_ports"), words),
                **dict.fromkeys(("waiting_ports", "indirect_ready"), words),
                "switches": switch,
                "fibers": self._of_fibers(switch),
                "levels": levels,
                "level_times": np.repeat(levels, BINS_APART),
                "samples": samples,
                "series_due": host,
                "copies": self._of_copies(host),
            },
            "hosts": {
                "nics": host[np.asarray(hosts.nics)["host"]],
                "host_ports": ports[: hosts.host_ports.shape[0]],
                "port_choices": np.concatenate([tx, rx]),
                "tx": tx,
                "rx": rx,
                "timers": np.append(timers, np.zeros(TIMER_RX, np.int32)),
                "heap": np.repeat(host, np.diff(np.append(heap_off - 1, hosts.heap.shape[0]))),
                "bits": self._of_bits(tx, rx),
                "send_task": tx,
                "tasks": host[np.asarray(hosts.tasks)["host"]],
                "program_hosts": host,
            },
            "clock": {"next_event": self._of_node},
        }
        # An array of a feature that the run does not use has one row.
        return {
            f"{group}.{name}": rows
            for group, arrays in found.items()
            for name, rows in arrays.items()
            if getattr(getattr(self._state, group), name).shape[0] == rows.size
        }

    def _of_fibers(self, switch: Array) -> Array:
        switches = np.asarray(self._state.links.switches)
        return np.repeat(switch, switches["last_fiber"] - switches["first_fiber"])

    def _of_bits(self, tx: Array, rx: Array) -> Array:
        """Return the parts of bitmaps: those of all senders, then those of all receivers."""
        sides = np.asarray(self._state.hosts.tx)["bits"], np.asarray(self._state.hosts.rx)["bits"]
        ends = np.append(np.concatenate(sides), self._state.hosts.bits.shape[0])
        return np.repeat(np.concatenate([tx, rx]), np.diff(ends))

    def _of_series(self, ports: Array, queues: Array) -> tuple[Array, Array]:
        """Return the parts of levels and of samples."""
        links = self._state.links
        levels, n_rows = np.asarray(links.levels), int(links.series_clock["n_rows"][0])
        of_levels = np.zeros(levels.size, np.int32)
        first, classes = links.level_of, queues.size // ports.size
        for cls in range(classes):
            of_levels[first[first >= 0] + cls] = ports[first >= 0]
        if n_rows == 0:
            return of_levels, np.zeros(0, np.int32)
        sampled = levels["due_ps"] < INF
        of_columns = np.zeros(n_rows, np.int32)
        of_columns[levels["row"][sampled] % n_rows] = of_levels[sampled]
        return of_levels, np.tile(of_columns, links.samples.shape[0] // n_rows)

    def _of_copies(self, host: Array) -> Array:
        links = self._state.links
        of_columns = np.repeat(host, np.diff(links.first_watched))
        n = of_columns.size
        return np.tile(of_columns, links.copies.shape[0] // n if n else 0)

    @cached_property
    def _outgoing(self) -> tuple[Array, Array]:
        """Return own ports with a cable to another part, part by part, and these parts."""
        net, of_node = self._state.net, self._of_node
        there = of_node[net.port_node[net.port_peer]]
        leaves = (of_node[net.port_node] == self.part) & (there != self.part)
        ports = np.flatnonzero(leaves)
        ports = ports[np.argsort(there[ports], kind="stable")]
        return ports, there[ports]

    def neighbors(self, *, has_news: bool) -> list[tuple[int, slice]]:
        """Return the parts with which this one shares cables, each with its range of links in
        `cut`; with ``has_news`` all others."""
        ends = np.searchsorted(self._outgoing[1], np.arange(self.n_parts + 1)).tolist()
        ranges = [(i, slice(*ends[i : i + 2])) for i in range(self.n_parts) if i != self.part]
        return [(i, links) for i, links in ranges if has_news or links.stop > links.start]

    def cut(self) -> Cut:
        """Return the links between this part and others."""
        net, packet = self._state.net, self._state.links.pool.dtype
        outgoing, there = self._outgoing
        incoming = net.port_peer[outgoing].astype(np.int64)
        return grouped(
            Cut,
            own=(self._of_node == self.part).astype(np.int64),
            beyond=np.unique(net.port_node[incoming]).astype(np.int64),
            outgoing=outgoing,
            sent=np.zeros(outgoing.size, np.int64),
            incoming=incoming[np.lexsort((incoming, there))],
            received=np.zeros(outgoing.size, np.int64),
            outbox=aligned_zeros(FEW, packet),
            inbox=aligned_zeros(FEW, packet),
            flows=np.zeros(self._state.hosts.rx.shape[0], np.int64),
        )

    def hide(self) -> None:
        """Forget the events, packets and log of other parts, which a complete state has. The
        totals of the clock stay with the first part."""
        state, other = self._state, self._of_node != self.part
        next_event, clock = state.clock.next_event, np.asarray(state.clock.clock)
        next_event[other] = INF
        state.clock.soonest[:] = _soonest(next_event)
        clock["last_delivered"] = NO_FLOW
        if self.part:
            self.forget_totals()
        for path, head, tail in PACKETS:
            records, theirs = _array(state, path), self.of_rows[path] != self.part
            records[head][theirs] = records[tail][theirs]
        path, first, following = LOGGED
        if path in self.of_rows:
            records, theirs = _array(state, path), self.of_rows[path] != self.part
            records[following][theirs] = records[first][theirs]
        pools = [array for array in (state.links.pool, state.links.ingress) if array.size > 1]
        before = snapshot.occupied(state)
        kept = [np.asarray(array)[before] for array in pools]
        lay_out(state.net, state.links, state.hosts)
        after = snapshot.occupied(state)
        for array, entries in zip(pools, kept, strict=True):
            np.asarray(array)[after] = entries

    def forget_totals(self) -> None:
        """Count from 0 on; rank 0 has what was before."""
        clock = np.asarray(self._state.clock.clock)
        for name in TOTALS:
            clock[name] = 0

    def rows(self, path: str) -> Array:
        """Return the rows of an array that this part owns, as uint8[n, ...]."""
        rows: Array = self._bytes(path)[self.of_rows[path] == self.part]
        return rows

    def set_rows(self, path: str, part: int, rows: Array) -> None:
        """Set those that another part owns."""
        entries = self._bytes(path)
        if part != self.part:
            entries[self.of_rows[path] == part] = rows.reshape(-1, entries.shape[1])

    def _bytes(self, path: str) -> Array:
        return _array(self._state, path).view(np.uint8).reshape(-1, self._width(path))

    def own_rows(self) -> dict[str, Array]:
        """Return the rows that this part owns, as uint8[n, ...] by path, with its packets, log and
        clock."""
        rows = {}
        for path, stored in snapshot.take(self._state).items():
            entries = stored.raw.reshape(stored.shape[0], self._width(path))
            if path in self.of_rows:
                rows[path] = entries[self.of_rows[path] == self.part]
            elif path in (CLOCK, *snapshot.kept_in_part(self._state)):
                rows[path] = entries
        return rows

    def merge(self, of_parts: Sequence[Mapping[str, Array]]) -> Snapshot:
        """Return the snapshot of the run from the rows of all parts."""
        whole = snapshot.take(self._state)

        def put_together(path: str, of_rows: Array) -> None:
            raw = np.empty((of_rows.size, self._width(path)), np.uint8)
            for part, rows in enumerate(of_parts):
                raw[of_rows == part] = rows[path]
            shape = (of_rows.size, *whole[path].shape[1:])
            whole[path] = whole[path]._replace(shape=shape, raw=raw.reshape(-1))

        for path, of_rows in self.of_rows.items():
            put_together(path, of_rows)
        soonest = _soonest(whole[NEXT_EVENT].raw.view(np.int64))
        whole[SOONEST] = whole[SOONEST]._replace(raw=soonest.view(np.uint8))
        clocks = [rows[CLOCK].reshape(-1).view(layout.CLOCK) for rows in of_parts]
        clock = clocks[0].copy()
        for name in TOTALS:
            clock[name] = sum(one[name] for one in clocks)
        clock["last_done_ps"] = max(int(one["last_done_ps"][0]) for one in clocks)
        clock["last_delivered"] = NO_FLOW
        whole[CLOCK] = whole[CLOCK]._replace(raw=clock.view(np.uint8))
        of_packets = [self._of_entries(whole, path, *ends) for path, *ends in PACKETS]
        for path in snapshot.kept_in_part(self._state):
            rows = self._of_entries(whole, *LOGGED) if path == snapshot.LOG else None
            put_together(path, np.concatenate(of_packets) if rows is None else rows)
        return whole

    def _width(self, path: str) -> int:
        """Return the bytes of an array's row."""
        array = _array(self._state, path)
        return array.dtype.itemsize * math.prod(array.shape[1:])

    def _of_entries(self, whole: Snapshot, path: str, head: str, tail: str) -> Array:
        """Return the part of each entry from ``head`` to ``tail`` of each record."""
        records = whole[path].raw.view(_array(self._state, path).dtype)
        of_rows = self.of_rows.get(path, np.zeros(records.size, np.int32))
        return np.repeat(of_rows, records[tail] - records[head])


def _soonest(next_event: Array) -> Array:
    """Return the earliest of the events of each block of nodes."""
    return np.minimum.reduceat(next_event, np.arange(0, next_event.size, BLOCK))


def _array(state: State, path: str) -> Array:
    group, name = path.split(".")
    return np.asarray(getattr(getattr(state, group), name))
