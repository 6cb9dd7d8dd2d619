"""What packets look like and how switches treat them, as the simulator reads it.

These are the resolved forms, in bytes and plain numbers. How they are written in
an experiment, and every check of them, is in `netsim.experiment`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

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
    """None stands for what the network's longest cable needs: see `with_headroom`."""
    shared_buffer_bytes: int | None = None
    alpha: float = 0.125
    xon_gap_bytes: int = 3000

    def with_headroom(self, rate_bps: int, delay_ps: int, packets: PacketFormat) -> Fabric:
        """This fabric with `headroom_bytes` set; unchanged if it was set already.

        `rate_bps` and `delay_ps` are those of the cable that needs most.
        """
        if self.headroom_bytes is not None:
            return self
        return replace(self, headroom_bytes=pfc_headroom_bytes(rate_bps, delay_ps, packets))


def pfc_headroom_bytes(rate_bps: int, delay_ps: int, packets: PacketFormat) -> int:
    """Most bytes that can still arrive over one cable after its receiver crossed XOFF.

    The pause frame waits for the packet that is being sent the same way, is sent,
    and travels for `delay_ps`; the sender then finishes the packet it has begun, and
    a cable full of bytes is under way. One packet more is the one that crossed XOFF.
    """
    cable = -(-rate_bps * delay_ps // (8 * 10**12))
    largest = max(packets.data_bytes, packets.control_bytes)
    return 2 * cable + 3 * largest + PFC_FRAME_BYTES
