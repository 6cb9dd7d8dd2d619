"""What recorded ports sent, and what waited at them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import numpy as np

from netsim.engine.kernels import trace as event
from netsim.engine.kernels.trace import TraceEntries
from netsim.model.network import Network

LEAVES = (event.SENT, event.FORWARDED)

FRAME = -1
"""In the place of a flow's number: a PFC frame."""


class _Rows:
    """Entries of one kind in order of port, then of time."""

    def __init__(self, network: Network, recorded: TraceEntries, what: tuple[int, ...]) -> None:
        is_packet = recorded.entries[:, event.WHAT] < event.TX
        entries, packets = recorded.entries[is_packet], recorded.packets
        these = np.flatnonzero(np.isin(entries[:, event.WHAT], what))
        order = these[np.lexsort((entries[these, event.TIME], entries[these, event.PORT]))]
        rows, packets = entries[order], packets[order]
        self.time, self.flow = rows[:, event.TIME], rows[:, event.FLOW]
        self.paused_ps = rows[:, event.PAUSED_PS]
        self.arrival = packets["time"].astype(np.int64)
        self.end = self.arrival - network.port_delay_ps[rows[:, event.PORT]]
        self.size, self.kind = (packets[name].astype(np.int64) for name in ("size_bytes", "kind"))
        self.seq, self.traffic_class = (packets[name].astype(np.int64) for name in ("seq", "prio"))
        self.first = np.searchsorted(rows[:, event.PORT], np.arange(network.n_ports + 1))

    def of_port(self, port: int) -> slice:
        return slice(int(self.first[port]), int(self.first[port + 1]))

    def keys(self, rows: slice | np.ndarray) -> list[tuple[int, ...]]:
        """Return what identifies the packets of some rows: flow, kind and number."""
        return list(zip(*(c[rows].tolist() for c in (self.flow, self.kind, self.seq)), strict=True))


class PortLog:
    """The packets that arrived at recorded switch ports, and that recorded ports sent."""

    def __init__(
        self,
        network: Network,
        entries: TraceEntries,
        message_of: Callable[[int], int] = lambda flow: flow,
    ) -> None:
        self.network, self.message_of = network, message_of
        self.sent = _Rows(network, entries, LEAVES)
        self.arrived = _Rows(network, entries, (event.ARRIVED,))

    def sent_between(self, port: int, start_ps: int, end_ps: int) -> tuple[slice, np.ndarray]:
        """Return the rows in `sent` of transmissions between two times, and how long each of them
        occupied the port then, in ps."""
        rows = self.sent.of_port(port)
        begin = rows.start + int(np.searchsorted(self.sent.end[rows], start_ps, side="right"))
        end = rows.start + int(np.searchsorted(self.sent.time[rows], end_ps, side="left"))
        rows = slice(begin, max(begin, end))
        inside = np.minimum(self.sent.end[rows], end_ps) - np.maximum(
            self.sent.time[rows], start_ps
        )
        return rows, inside

    def shares(self, port: int, start_ps: int, end_ps: int) -> Counter[int]:
        """Return for how long each message's packets occupied a port between two times, in ps."""
        rows, inside = self.sent_between(port, start_ps, end_ps)
        flows, place = np.unique(self.sent.flow[rows], return_inverse=True)
        sums = np.zeros(flows.size, np.int64)
        np.add.at(sums, place, inside)
        found: Counter[int] = Counter()
        for flow, time_ps in zip(flows.tolist(), sums.tolist(), strict=True):
            found[self.message_of(flow)] += time_ps
        return found

    def paused_ps(self, port: int, traffic_class: int, start_ps: int, end_ps: int) -> int:
        """Return about how long PFC paused a class of a port between two times: between the last
        packet before and the first one after."""
        found = []
        for one in (self.sent, self.arrived):
            rows = one.of_port(port)
            mine = one.traffic_class[rows] == traffic_class
            found.append((one.time[rows][mine], one.paused_ps[rows][mine]))
        time, paused = (np.concatenate(part) for part in zip(*found, strict=True))
        if not time.size:
            return 0
        order = np.lexsort((paused, time))
        time, paused = time[order], paused[order]
        before = max(0, int(np.searchsorted(time, start_ps, side="right")) - 1)
        after = min(time.size - 1, int(np.searchsorted(time, end_ps, side="left")))
        return min(end_ps - start_ps, max(0, int(paused[after] - paused[before])))

    def queued(self, node: int, by_port: int, at_ps: int) -> Counter[int]:
        """Return the bytes that waited at each port of a switch at a time and had come by the link
        of `by_port`."""
        came = self.sent.of_port(by_port)
        came_keys = set(zip(self.sent.keys(came), self.sent.arrival[came].tolist(), strict=True))
        held: Counter[int] = Counter()
        first = self.network.node_first_port
        for port in range(int(first[node]), int(first[node + 1])):
            rows = self.arrived.of_port(port)
            until = rows.start + int(np.searchsorted(self.arrived.time[rows], at_ps, side="right"))
            rows = slice(rows.start, until)
            left = self.sent.of_port(port)
            gone_until = left.start + int(np.searchsorted(self.sent.end[left], at_ps, "right"))
            gone = Counter(self.sent.keys(slice(left.start, gone_until)))
            sizes = self.arrived.size[rows].tolist()
            times = self.arrived.time[rows].tolist()
            for key, time, size in zip(self.arrived.keys(rows), times, sizes, strict=True):
                if gone[key] > 0:
                    gone[key] -= 1
                elif (key, time) in came_keys:
                    held[port] += size
        return held
