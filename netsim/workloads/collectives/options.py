"""Options of a collective."""

from __future__ import annotations

from dataclasses import dataclass

SAME, ROTATED, ALTERNATING = RING_ORDERS = ("same", "rotated", "alternating")


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
