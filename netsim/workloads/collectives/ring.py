"""Rings: each position sends only to the next one.

The buffer is cut into n shards, and in each step every position forwards the shard it got in the
step before: n - 1 steps to add (reduce-scatter), n - 1 to distribute (all-gather), both for an
all-reduce (P. Patarasuk and X. Yuan, Journal of Parallel and Distributed Computing 69(2), 117-124,
2009). Channels have their own parts of each shard, and chunks are parts of those.

All channels follow ascending positions, or with `node` positions per node, channel c has its own
order, so that channels use different rails between nodes, as NCCL's do:

- "rotated": in every node from place c mod `node` around to the one before it. Between nodes it
  goes from place c - 1 to place c: through a peer and rail c if these places share no network (NCCL
  with NCCL_CROSS_NIC=0, and PXN).
- "alternating": the same in nodes 0, 2, ..., and reversed in the others, so that it enters a node
  at the place where it left the one before: by rail c - 1, and from odd nodes by rail c. The number
  of nodes must be even.
"""

from __future__ import annotations

import numpy as np

from netsim.errors import InputError
from netsim.workloads.collectives.steps import (
    ALTERNATING,
    SAME,
    Carried,
    CollectiveOptions,
    HopRow,
    Hops,
    Ints,
    Steps,
    Wire,
    cut,
    pieces_of,
    steps,
)

WHATS = ("all_reduce", "reduce_scatter", "all_gather")


def schedule(what: str, n: int, size_bytes: int, how: CollectiveOptions) -> Steps:
    """Sends by step, position, channel and chunk."""
    channels = how.channels
    chunks = pieces_of(-(-size_bytes // n), channels, how.chunk_bytes)
    n_steps, adding = _steps(what, n)
    step = np.arange(n_steps)[:, None, None]
    position = np.arange(n)[None, :, None]
    part = np.arange(channels * chunks)[None, None, :]
    # Position i ends a reduce-scatter with shard i, and begins an all-gather with it.
    shard = (position - step - (what == "reduce_scatter")) % n
    here = (step * n + position) * part.size + part
    before = (here - (n + 1) * part.size)[1:, 1:], (here - part.size)[1:, :1]
    send = np.concatenate([before[1], before[0]], axis=1)
    order, channel = orders(n, how), part // chunks
    return steps(
        n,
        (order[channel, position], order[channel, (position + 1) % n]),
        Carried(order[channel, shard] * part.size + part, adds=step < adding),
        cut(cut(cut(size_bytes, n), channels), chunks).reshape(-1),
        after=(send, here[1:]),
        follows=_in_order(here, chunks),
    )


def orders(n: int, how: CollectiveOptions) -> Ints:
    """int64[channels, n]: the positions of each channel's ring, in order."""
    position = np.arange(n)
    if how.ring_order == SAME:
        return np.broadcast_to(position, (how.channels, n))
    node = how.node
    if node is None or n % node or (how.ring_order == ALTERNATING and n // node % 2):
        even = "an even number of " if how.ring_order == ALTERNATING else ""
        given = "no node" if node is None else f"nodes of {node}"
        message = f"{given} for rings of {n} in {how.ring_order} order"
        raise InputError(message, hint=f"{even}nodes that fill {n}")
    which, place = np.divmod(position, node)
    if how.ring_order == ALTERNATING:
        place = np.where(which % 2, node - 1 - place, place)
    channel = np.arange(how.channels)[:, None]
    found: Ints = which * node + (channel + place) % node
    return found


def _steps(what: str, n: int) -> tuple[int, int]:
    """Return the number of steps, and how many of them add."""
    return {
        "all_reduce": (2 * (n - 1), n - 1),
        "reduce_scatter": (n - 1, n - 1),
        "all_gather": (n - 1, 0),
    }[what]


def _in_order(here: np.ndarray, chunks: int) -> np.ndarray:
    """Predecessors of sends: the previous one of the same position and channel.

    A single chunk has none: it is forwarded when it has arrived.
    """
    if chunks == 1:
        return np.full(1, -1)
    n_steps, n, parts = here.shape
    in_channel = here.reshape(n_steps, n, parts // chunks, chunks)
    follows = np.full(in_channel.shape, -1)
    follows[..., 1:] = in_channel[..., :-1]
    follows[1:, ..., 0] = in_channel[:-1, ..., -1]
    return follows.reshape(here.shape)


def hops(what: str, n: int, size_bytes: int, how: CollectiveOptions) -> Hops:  # noqa: ARG001
    order = orders(n, how)
    row = HopRow(order.reshape(-1), np.roll(order, -1, axis=1).reshape(-1))
    chunks = pieces_of(-(-size_bytes // n), how.channels, how.chunk_bytes)
    message = size_bytes // n // how.channels // chunks
    return Hops((row,), message, 1 / how.channels, at_once=True, chain=True)


def closed_form_ps(what: str, n: int, size_bytes: int, wire: Wire, how: CollectiveOptions) -> int:
    """Duration when positions do not share links.

    A step takes one chunk's transfer time or the transmission of all chunks of all channels,
    whichever is longer. Exact for one channel if shards and chunks divide evenly and all hops are
    alike. Otherwise a lower bound: a step takes the mean hop's transfer or the slowest hop's
    transmission, and channels wait for each other only there.
    """
    chunks = pieces_of(-(-size_bytes // n), how.channels, how.chunk_bytes)
    chunk = size_bytes // n // how.channels // chunks
    n_steps, _ = _steps(what, n)
    moved = wire.send_ps(chunk) if how.channels == 1 else wire.message_ps(chunk)
    on_its_way = how.latency_ps + moved + wire.delay_ps
    period = max(on_its_way, chunks * how.channels * wire.busiest_ps(chunk))
    return (n_steps - 1) * period + on_its_way + (chunks - 1) * wire.busiest_ps(chunk)
