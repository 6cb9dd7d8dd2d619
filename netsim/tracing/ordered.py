"""What a recording engine gave, in the order of time, with the packets told apart."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from netsim.engine.kernels.trace import (
    FORWARDED,
    LOST,
    PORT,
    RX,
    SENT_INDIRECT,
    TX,
    WHAT,
    TraceEntries,
)
from netsim.model.network import Network
from netsim.tracing.packet_latency import PacketLatency, follow


@dataclass(frozen=True)
class Ordered:
    """Entries of a trace in the order of time; at one instant, in that of nodes and ports.

    Attributes:
        entries: int64[n, 5], as in `TraceEntries`.
        recorded: of each entry, its place in the order in which they were recorded. The events of
            one host stand in the order in which they happened there.
        node, far: the node of each entry's port, and the one at the other end of its link.
        row: of each entry, that in the array that it belongs to.
        is_packet: whether it is about a packet.
        packets: of the entries that are about a packet.
        tx, rx: copies of the flow's sides, in the order of `row`.
        latency: which entries are about the same packet.
    """

    entries: np.ndarray
    recorded: np.ndarray
    node: np.ndarray
    far: np.ndarray
    row: np.ndarray
    is_packet: np.ndarray
    packets: np.ndarray
    tx: np.ndarray
    rx: np.ndarray
    latency: PacketLatency

    def of_packets(self, name: str) -> np.ndarray:
        """A field of the packet of each entry; 0 for those about none."""
        column = np.zeros(len(self.entries), np.int64)
        column[self.is_packet] = self.packets[name]
        return column


def ordered(network: Network, recorded: TraceEntries) -> Ordered:
    """Put entries in order, which does not depend on the lengths of windows."""
    entries = recorded.entries
    node = network.port_node[entries[:, PORT]].astype(np.int64)
    order = np.lexsort((_places(entries), node, entries[:, 0]))
    row = np.empty(len(entries), np.int64)
    kept = entries[:, WHAT]
    for which in (kept < TX, kept == TX, kept == RX):
        row[which] = np.arange(np.count_nonzero(which))
    entries, node, row = entries[order], node[order], row[order]
    far = network.port_node[network.port_peer[entries[:, PORT]]].astype(np.int64)
    is_packet = entries[:, WHAT] < TX
    packets = recorded.packets[row[is_packet]]
    latency = _follow(entries, packets, is_packet, node, far)
    return Ordered(
        entries, order, node, far, row, is_packet, packets, recorded.tx, recorded.rx, latency
    )


def _places(entries: np.ndarray) -> np.ndarray:
    """The port of each entry; of a packet that a port sends for another one, that other one."""
    ports, what = entries[:, PORT].copy(), entries[:, WHAT]
    for given in np.flatnonzero(what == SENT_INDIRECT).tolist():
        behind = given + 1
        while what[behind] != FORWARDED:  # it may be marked before
            ports[behind] = ports[given]
            behind += 1
        ports[behind] = ports[given]
        if behind + 1 < what.size and what[behind + 1] == LOST:
            ports[behind + 1] = ports[given]
    return ports


def _follow(
    entries: np.ndarray,
    packets: np.ndarray,
    is_packet: np.ndarray,
    node: np.ndarray,
    far: np.ndarray,
) -> PacketLatency:
    about: list[Any] = [None] * len(entries)
    heads = zip(
        packets["kind"].tolist(), packets["seq"].tolist(), packets["time"].tolist(), strict=True
    )
    for i, head in zip(np.flatnonzero(is_packet).tolist(), heads, strict=True):
        about[i] = head
    return follow([tuple(e[:4]) for e in entries.tolist()], about, node.tolist(), far.tolist())
