"""Options of a collective."""

from __future__ import annotations

from dataclasses import dataclass

SAME, ROTATED, ALTERNATING = RING_ORDERS = ("same", "rotated", "alternating")


@dataclass(frozen=True)
class CollectiveOptions:
    """The options of a collective; each algorithm takes those that concern it.

    Attributes:
        algorithm: its name; "auto": the one that takes the least time by its closed form, in the
            network if that is known (`Operations.lower`), or else on wires of `rate_bps`; or the
            path of a file of sends (`netsim.workloads.collectives.custom`), which decides all but
            `latency_ps`, `reduce_bps` and `root`.
        chunk_bytes: what is sent on is cut into pieces of at most so many bytes, each of which is
            sent on as it has arrived; None: it is not cut. Of `pat`, the largest message.
        channels: so many equal parts of the buffer are treated each by itself, at the same time.
            The sends of a position in one channel are handed over to the network in order.
        latency_ps: the time that software takes for each send, from when all that it waits for is
            there; where sends follow one another that passes while the one before is going.
        reduce_bps: bits per second at which a position adds up what has arrived, no sooner than it
            begins itself, and before it sends it on; None: that takes no time.
        window: of `direct`, how many sends a position has under way at most; None: all of them.
        node: how many neighboring positions are near to one another, of `hierarchical`, "auto" and
            `ring_order`.
        root: the position that broadcasts, scatters, gathers, or ends with the sum.
        rate_bps: bits per second of a position's wire, for what "auto" chooses in no network.
        ring_order: of `ring`, in which order its channels go round
        (`netsim.workloads.collectives.ring`).
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
