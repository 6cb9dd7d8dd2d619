"""Chains: from the root to the next position, and so on.

A broadcast is pipelined along the chain in chunks; with small chunks it takes little longer than
one message. A reduction runs toward the root and adds on its way. NCCL does both this way.
"""

from __future__ import annotations

import numpy as np

from netsim.workloads.collectives.steps import (
    Carried,
    CollectiveOptions,
    HopRow,
    Hops,
    Steps,
    Wire,
    cut,
    pieces_of,
    steps,
)

WHATS = ("broadcast", "reduce")


def schedule(what: str, n: int, size_bytes: int, how: CollectiveOptions) -> Steps:
    """Sends by chunk and channel, along the chain."""
    chunks = pieces_of(size_bytes, how.channels, how.chunk_bytes)
    here = np.arange(chunks * how.channels * (n - 1)).reshape(chunks, how.channels, n - 1)
    chain = (how.root + np.arange(n)) % n
    if what == "reduce":
        chain = chain[::-1]
    part = np.arange(how.channels)[:, None] * chunks + np.arange(chunks)[:, None, None]
    follows = here - how.channels * (n - 1) if chunks > 1 else np.array(-1)
    return steps(
        n,
        (np.broadcast_to(chain[:-1], here.shape), np.broadcast_to(chain[1:], here.shape)),
        Carried(part, adds=what == "reduce"),
        cut(cut(size_bytes, how.channels), chunks).reshape(-1),
        after=(here[..., :-1], here[..., 1:]),
        follows=np.maximum(follows, -1),
    )


def hops(what: str, n: int, size_bytes: int, how: CollectiveOptions) -> Hops:
    chain = (how.root + np.arange(n)) % n
    row = HopRow(chain[:-1], chain[1:]) if what == "broadcast" else HopRow(chain[1:], chain[:-1])
    chunks = pieces_of(size_bytes, how.channels, how.chunk_bytes)
    return Hops((row,), size_bytes // how.channels // chunks, at_once=True, chain=True)


def closed_form_ps(what: str, n: int, size_bytes: int, wire: Wire, how: CollectiveOptions) -> int:  # noqa: ARG001
    """Duration when positions do not share links.

    Exact for one channel if the chunks divide evenly and all hops are alike.
    """
    chunks = pieces_of(size_bytes, how.channels, how.chunk_bytes)
    chunk = size_bytes // chunks
    on_its_way = how.latency_ps + wire.send_ps(chunk) + wire.delay_ps
    return (n - 1) * on_its_way + (chunks - 1) * wire.busiest_ps(chunk)
