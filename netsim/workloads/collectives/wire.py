"""The inputs of algorithms: options, the wire between positions, and which positions send."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from netsim.limits import PS_BITS

SAME, ROTATED, ALTERNATING = RING_ORDERS = ("same", "rotated", "alternating")

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class CollectiveOptions:
    """The options of a collective; each algorithm uses those that apply to it.

    Attributes:
        algorithm: a name; "auto", the shortest closed form, on the network if known
            (`Operations.lower`), else on wires of `rate_bps`; or the path of a file of sends
            (`netsim.workloads.collectives.custom`), which determines everything except
            `latency_ps`, `reduce_bps` and `root`.
        chunk_bytes: largest unit of forwarding: each chunk is forwarded when it has arrived; None:
            not chunked. For `pat`, the largest message.
        channels: number of equal parts of the buffer that proceed independently. A position's sends
            of one channel leave in order.
        latency_ps: software time of each send, after its dependencies; consecutive sends overlap it
            with the previous one.
        reduce_bps: bits per second at which a position reduces arrived data, not before its own
            operation begins, and before it forwards the result; None: no time.
        window: for `direct`, the largest number of sends a position has in progress; None:
            unlimited.
        node: consecutive positions per node, for `hierarchical`, "auto" and `ring_order`.
        root: the position that broadcasts, scatters, gathers, or gets the sum.
        rate_bps: bits per second of a position's wire, for "auto" without a network.
        ring_order: for `ring`, the order of positions in its channels.
    """

    algorithm: str = "auto"
    chunk_bytes: int | None = None
    channels: int = 1
    latency_ps: int = 0
    reduce_bps: int | None = None
    window: int | None = None
    node: int | None = None
    root: int = 0
    rate_bps: int = 400_000_000_000
    ring_order: str = SAME


@dataclass(frozen=True)
class Wire:
    """The path from one position to another, without other traffic.

    Attributes:
        rate_bps: bits per second in each direction.
        delay_ps: from the end of a message's transmission to its delivery: cables, switches, and
            its last packet again for each switch.
        payload_bytes, header_bytes: of a full packet; 0, 0: no headers.
        busiest_bps: rate of the slowest hop of a chain with mean rate `rate_bps`; None: all are
            equal.
        far: the wire between nodes, for hierarchical algorithms; None: this one.
        message_bps: mean rate of a single message on its hops; None: as `rate_bps`, which counts
            what a position sends at the same time, by all its ports.
    """

    rate_bps: int
    delay_ps: int = 0
    payload_bytes: int = 0
    header_bytes: int = 0
    busiest_bps: int | None = None
    far: Wire | None = None
    message_bps: int | None = None

    def send_ps(self, n_bytes: int) -> int:
        """Return the transmission time of a message, at least one byte."""
        return self._on_wire(n_bytes) * PS_BITS // self.rate_bps

    def busiest_ps(self, n_bytes: int) -> int:
        """Return the transmission time at the slowest hop."""
        return self._on_wire(n_bytes) * PS_BITS // (self.busiest_bps or self.rate_bps)

    def message_ps(self, n_bytes: int) -> int:
        """Return the transmission time of a single message."""
        return self._on_wire(n_bytes) * PS_BITS // (self.message_bps or self.rate_bps)

    def _on_wire(self, n_bytes: int) -> int:
        n_bytes = max(1, n_bytes)
        packets = -(-n_bytes // self.payload_bytes) if self.payload_bytes else 0
        return n_bytes + packets * self.header_bytes


class HopRow(NamedTuple):
    """Sends from positions `src` to `dst`, and their share of all bytes."""

    src: Ints
    dst: Ints
    share: float = 1.0


@dataclass(frozen=True, eq=False)
class Hops:
    """The pairs of positions between which an algorithm sends, to be measured in a network.

    Attributes:
        rows: concurrent sends; rows are sequential unless `at_once`.
        message_bytes: of a send.
        weight: share of one send in what a position sends during a row, or during all of them.
        at_once: whether all rows are concurrent.
        chain: whether bytes pass the hops of a row in sequence, so that their mean counts instead
            of the slowest.
        far: hops between nodes, for hierarchical algorithms.
    """

    rows: tuple[HopRow, ...]
    message_bytes: int
    weight: float = 1.0
    at_once: bool = False
    chain: bool = False
    far: Hops | None = None


WHOLE_PACKETS = 1 << 30
"""Bytes of a message whose packets are all full, for any group."""

ONE_WAY = Hops((HopRow(np.zeros(1, np.int64), np.ones(1, np.int64)),), WHOLE_PACKETS)
"""From position 0 to position 1."""

MAX_SHIFTS = 16
"""Largest number of distances measured in all-to-all exchanges."""


def shifted(n: int, away: Sequence[int]) -> HopRow:
    """Sends of every position to those `away` positions further."""
    src = np.tile(np.arange(n), len(away))
    return HopRow(src, (src + np.repeat(np.array(away, np.int64), n)) % n)


def some_of(n: int) -> list[int]:
    """Return distances from 1 to n - 1: all, or an evenly spread sample."""
    return sorted(set(np.linspace(1, n - 1, min(n - 1, MAX_SHIFTS)).astype(int).tolist()))
