"""What packets look like and how switches treat them, as the simulator reads it.

These are the resolved forms, in bytes and plain numbers. How they are written in
an experiment, and every check of them, is in `netsim.experiment`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from netsim.model.network import Network

MODELS = ("drop_tail", "trim", "lossless")
LOAD_BALANCING = ("ecmp", "spray_random", "spray_rr", "spray_permutation", "least_loaded")
MAX_CLASSES = 8
PFC_FRAME_BYTES = 64


@dataclass(frozen=True)
class PacketFormat:
    """Sizes of packets on the wire. A full data packet is payload and header."""

    payload_bytes: int = 4096
    header_bytes: int = 64
    control_bytes: int = 64

    @property
    def data_bytes(self) -> int:
        """A full data packet on the wire."""
        return self.payload_bytes + self.header_bytes


@dataclass(frozen=True)
class Ecn:
    """RED-like marking: never up to `kmin_bytes`, always above `kmax_bytes`.

    In between a packet is marked with a probability that rises to `pmax`. A single
    threshold is kmin = kmax. `at` says when the queue is looked at: "enqueue"
    (without the packet) or "dequeue" (with it).
    """

    kmin_bytes: int
    kmax_bytes: int
    pmax: float = 1.0
    at: str = "enqueue"


@dataclass(frozen=True)
class Fabric:
    """How every switch of the network queues, drops, trims, marks, pauses and spreads.

    | model | fields that matter |
    |---|---|
    | drop_tail | queue_bytes |
    | trim | queue_bytes, header_queue_bytes, header_ratio; n_classes is 2 |
    | lossless | xoff_bytes, xon_bytes, headroom_bytes |
    | lossless, shared buffer | shared_buffer_bytes, alpha, xon_gap_bytes, headroom_bytes |

    `load_balancing`, `n_classes` and `ecn` matter to all. Sizes are per port and
    class, PFC's per ingress port and class, and `shared_buffer_bytes` per switch.
    """

    model: str = "drop_tail"
    load_balancing: str = "ecmp"
    n_classes: int = 1
    queue_bytes: int = 100 * 4160
    header_queue_bytes: int = 100 * 4160
    header_ratio: int = 10
    ecn: Ecn | None = None
    ecn_from_class: int = 0
    xoff_bytes: int = 15 * 4160
    xon_bytes: int = 12 * 4160
    headroom_bytes: int | None = None
    """None stands for what the network's longest cable needs: see `for_network`."""
    shared_buffer_bytes: int | None = None
    alpha: float = 0.125
    xon_gap_bytes: int = 3000

    def for_network(self, network: Network, packets: PacketFormat) -> Fabric:
        """This fabric with `headroom_bytes` settled; unchanged if it was settled already."""
        if self.headroom_bytes is not None:
            return self
        delays_ps = network.port_delay_ps
        round_trips_ps = delays_ps + delays_ps[network.port_peer]
        rates_bps = network.port_rate_bps.tolist()
        cables = set(zip(rates_bps, round_trips_ps.tolist(), strict=True))
        needed = (pfc_headroom_bytes(rate, round_trip, packets) for rate, round_trip in cables)
        return replace(self, headroom_bytes=max(needed, default=0))


def pfc_headroom_bytes(rate_bps: int, round_trip_ps: int, packets: PacketFormat) -> int:
    """Most bytes that can still arrive over one cable after its receiver crossed XOFF.

    The pause frame waits for the packet that is being sent the same way, is sent, and
    travels; the sender then finishes the packet it has begun, and what it sent before
    is still under way. One packet more is the one that crossed XOFF. `round_trip_ps`
    is the cable's delay there and back.
    """
    under_way = -(-rate_bps * round_trip_ps // (8 * 10**12))
    largest = max(packets.data_bytes, packets.control_bytes)
    return under_way + 3 * largest + PFC_FRAME_BYTES


def packet_counts(size_bytes: NDArray[np.int64], packets: PacketFormat) -> NDArray[np.int64]:
    """Data packets of each flow."""
    return -(-size_bytes // packets.payload_bytes)
