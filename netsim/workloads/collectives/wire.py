"""What closed forms know of a network: how long a message is on the wire, between whom."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from netsim.limits import PS_BITS

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Wire:
    """From one position to another, where nobody else is.

    Attributes:
        rate_bps: bits per second in each direction.
        delay_ps: from the moment in which a message has left until it is delivered: cables,
            switches, and its last packet once more for each switch on the way.
        payload_bytes, header_bytes: of a full packet; 0, 0: bytes go without headers.
        busiest_bps: of the slowest of all hops, where a chain of them is `rate_bps` fast on
            average; None: all are alike.
        far: between nodes, for algorithms that tell near from far; None: this one.
    """

    rate_bps: int
    delay_ps: int = 0
    payload_bytes: int = 0
    header_bytes: int = 0
    busiest_bps: int | None = None
    far: Wire | None = None

    def send_ps(self, n_bytes: int) -> int:
        """How long it takes to hand over so many bytes; a message has one at least."""
        return self._on_wire(n_bytes) * PS_BITS // self.rate_bps

    def busiest_ps(self, n_bytes: int) -> int:
        """The same at the slowest hop."""
        return self._on_wire(n_bytes) * PS_BITS // (self.busiest_bps or self.rate_bps)

    def _on_wire(self, n_bytes: int) -> int:
        n_bytes = max(1, n_bytes)
        packets = -(-n_bytes // self.payload_bytes) if self.payload_bytes else 0
        return n_bytes + packets * self.header_bytes


class HopRow(NamedTuple):
    """Sends from positions `src` to `dst`, and which share of all bytes they are."""

    src: Ints
    dst: Ints
    share: float = 1.0


@dataclass(frozen=True, eq=False)
class Hops:
    """Between which positions an algorithm sends, for who measures that in a network.

    Attributes:
        rows: sends that go at the same time; rows go one after the other unless `at_once`.
        message_bytes: of a send.
        weight: of what a position sends in all, so much is one send, while all of a row go, or of
            all rows.
        at_once: all rows are under way together.
        chain: bytes pass the hops of a row one after the other, so that the mean of them counts,
            and not the slowest.
        far: between nodes, for algorithms that tell near from far.
    """

    rows: tuple[HopRow, ...]
    message_bytes: int
    weight: float = 1.0
    at_once: bool = False
    chain: bool = False
    far: Hops | None = None


WHOLE_PACKETS = 1 << 30
"""Bytes of a message whose packets are all full, in any group."""

ONE_WAY = Hops((HopRow(np.zeros(1, np.int64), np.ones(1, np.int64)),), WHOLE_PACKETS)
"""From position 0 to position 1."""

MAX_SHIFTS = 16
"""Of exchanges of everybody with everybody, so many of the distances are looked at."""


def shifted(n: int, away: Sequence[int]) -> HopRow:
    """Everybody sends to those so many positions further."""
    src = np.tile(np.arange(n), len(away))
    return HopRow(src, (src + np.repeat(np.array(away, np.int64), n)) % n)


def some_of(n: int) -> list[int]:
    """Distances from 1 to n - 1, all of them or some that are spread evenly."""
    return sorted(set(np.linspace(1, n - 1, min(n - 1, MAX_SHIFTS)).astype(int).tolist()))
