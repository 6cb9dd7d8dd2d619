"""Algorithms by rings: of all positions, and within and between nodes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from netsim.errors import InputError
from netsim.workloads.collectives.steps import (
    ALTERNATING,
    SAME,
    Algorithm,
    Carried,
    CollectiveOptions,
    HopRow,
    Hops,
    Ints,
    Steps,
    Wire,
    cut,
    one_after_the_other,
    pieces_of,
    side_by_side,
    some_of,
    steps,
)


def _ring(what: str, n: int, size_bytes: int, how: CollectiveOptions) -> Steps:
    """Rings: each position sends only to the next one.

    The buffer is cut into n shards, and in each step every position forwards the shard it got in
    the step before: n - 1 steps to add (reduce-scatter), n - 1 to distribute (all-gather), both for
    an all-reduce (P. Patarasuk and X. Yuan, Journal of Parallel and Distributed Computing 69(2),
    117-124, 2009). Channels have their own parts of each shard, and chunks are parts of those.

    All channels follow ascending positions, or with `node` positions per node, channel c has its
    own order, so that channels use different rails between nodes, as NCCL's do:

    - "rotated": in every node from place c mod `node` around to the one before it. Between nodes it
      goes from place c - 1 to place c: through a peer and rail c if these places share no network
      (NCCL with NCCL_CROSS_NIC=0, and PXN).
    - "alternating": the same in nodes 0, 2, ..., and reversed in the others, so that it enters a
      node at the place where it left the one before: by rail c - 1, and from odd nodes by rail c.
      The number of nodes must be even.

    Sends by step, position, channel and chunk.
    """
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


def _ring_hops(what: str, n: int, size_bytes: int, how: CollectiveOptions) -> Hops:
    order = orders(n, how)
    row = HopRow(order.reshape(-1), np.roll(order, -1, axis=1).reshape(-1))
    chunks = pieces_of(-(-size_bytes // n), how.channels, how.chunk_bytes)
    message = size_bytes // n // how.channels // chunks
    return Hops((row,), message, 1 / how.channels, at_once=True, chain=True)


def _ring_ps(what: str, n: int, size_bytes: int, wire: Wire, how: CollectiveOptions) -> int:
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


RING = Algorithm(("all_reduce", "reduce_scatter", "all_gather"), _ring, _ring_hops, _ring_ps)


PHASES = {
    "all_reduce": (("near", "reduce_scatter"), ("far", "all_reduce"), ("near", "all_gather")),
    "reduce_scatter": (("near", "reduce_scatter"), ("far", "reduce_scatter")),
    "all_gather": (("far", "all_gather"), ("near", "all_gather")),
}
"""Phases: within nodes ("near") or between them ("far"), and their collective."""


def _hierarchical(what: str, n: int, size_bytes: int, how: CollectiveOptions) -> Steps:
    """Hierarchical: within nodes first, then between them, and back.

    Nodes are `node` consecutive positions. An all-reduce is a reduce-scatter in rings within each
    node, all-reduces of the shards in rings of the positions with the same place in their nodes,
    and an all-gather within each node; a reduce-scatter is the first two, an all-gather the last
    two. In an all-to-all, each position first gives a neighbor everything for that neighbor's place
    in any node; then each sends the positions of its place in other nodes one message, so that
    messages between nodes are fewer and larger.

    Channels and chunks are parts of the buffer that do all of this independently.

    Sends by part and phase.
    """
    node = _node(n, how)
    if what == "all_to_all":
        return _all_to_all(n, node, size_bytes)
    parts = how.channels * pieces_of(size_bytes, how.channels, how.chunk_bytes)
    phases = [_rings(one, whose == "near", n, node) for whose, one in PHASES[what]]
    alone = one_after_the_other(n, [one for one in phases if len(one)], np.ones(n, np.int64))
    return side_by_side(alone, parts, cut(cut(size_bytes, n), parts).reshape(-1))


def _node(n: int, how: CollectiveOptions) -> int:
    if how.node is None or n % how.node:
        given = "no node" if how.node is None else f"nodes of {how.node}"
        raise InputError(f"{given} for a hierarchical collective of {n}", hint=f"a divisor of {n}")
    return how.node


def _rings(what: str, near: bool, n: int, node: int) -> Steps:
    """Rings in all nodes, or across nodes for each place; position p ends with piece p.

    A shard of a ring within a node holds the pieces of all positions with one place.
    """
    place, which = np.arange(node), np.arange(n // node)
    members = which[:, None] * node + place
    if not near:
        members = members.T
    inner = _ring(what, members.shape[1], 1, CollectiveOptions())
    first = inner.first if near else members[:, inner.first]
    k = members.shape[1]
    rows = np.arange(members.shape[0])[:, None] * len(inner)
    before = np.arange(-k, len(inner) - k)  # the send of a position in the step before
    waiting = np.repeat(np.arange(len(inner)), np.diff(inner.after_ptr))
    return steps(
        n,
        (members[:, inner.src], members[:, inner.dst]),
        Carried(first, n // node if near else 1, node if near else 1, inner.adds),
        np.ones(n, np.int64),
        after=(rows + inner.after, rows + waiting),
        follows=np.where(before < 0, -1, rows + before),
    )


def _all_to_all(n: int, node: int, size_bytes: int) -> Steps:
    """Send blocks to the neighbor with the destination's place, then to the destination."""
    position = np.arange(n)
    place, first = position % node, position // node * node
    blocks = np.tile(cut(size_bytes, n), n)
    near = np.arange(1, node)[:, None]
    to = (place + near) % node
    nodes = n // node
    far = np.arange(1, nodes)[:, None] * node
    there = (position + far) % n
    phases = [
        steps(n, (position, first + to), Carried(position * n + to, nodes, node), blocks),
        steps(n, (position, there), Carried(first * n + there, node, n), blocks),
    ]
    return one_after_the_other(n, [one for one in phases if len(one)], blocks)


def _hierarchical_hops(what: str, n: int, size_bytes: int, how: CollectiveOptions) -> Hops:
    node = _node(n, how)
    members = np.arange(n).reshape(-1, node)
    parts = (
        1
        if what == "all_to_all"
        else how.channels * pieces_of(size_bytes, how.channels, how.chunk_bytes)
    )
    near, far = size_bytes // parts // node, size_bytes // parts // n
    if what == "all_to_all":
        far *= node
    rings = what != "all_to_all"
    return replace(
        _among(members, near, rings), far=_among(members.T, far, rings) if node < n else None
    )


def _among(members: Ints, message_bytes: int, rings: bool) -> Hops:
    """Rings of the rows of `members`, or exchanges of all pairs within rows."""
    k = members.shape[1]
    if k == 1:
        none = np.zeros(0, np.int64)
        return Hops((HopRow(none, none),), message_bytes)
    away = [1] if rings else some_of(k)
    src = np.concatenate([members.reshape(-1)] * len(away))
    dst = np.concatenate([np.roll(members, -one, axis=1).reshape(-1) for one in away])
    return Hops((HopRow(src, dst),), message_bytes, 1 / len(away), at_once=True, chain=rings)


def _hierarchical_ps(what: str, n: int, size_bytes: int, wire: Wire, how: CollectiveOptions) -> int:
    """Duration in one part when positions do not share links, with `wire.far` between nodes.

    Exact if the buffer divides evenly.
    """
    node = _node(n, how)
    far = wire.far or wire
    plain = replace(how, chunk_bytes=None, channels=1)
    if what == "all_to_all":
        block, nodes = size_bytes // n, n // node
        messages = ((node - 1, nodes, wire), (nodes - 1, node, far))
        return sum(
            how.latency_ps + count * one.send_ps(blocks * block) + one.delay_ps
            for count, blocks, one in messages
            if count
        )
    near = [(one, node, size_bytes, wire) for whose, one in PHASES[what] if whose == "near"]
    outer = [(one, n // node, size_bytes // node, far) for w, one in PHASES[what] if w == "far"]
    rings = [args for args in (*near, *outer) if args[1] > 1]
    return sum(_ring_ps(*args, plain) for args in rings)


HIERARCHICAL = Algorithm(
    ("all_reduce", "reduce_scatter", "all_gather", "all_to_all"),
    _hierarchical,
    _hierarchical_hops,
    _hierarchical_ps,
)
