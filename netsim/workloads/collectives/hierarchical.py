"""Hierarchical: within nodes first, then between them, and back.

Nodes are `node` consecutive positions. An all-reduce is a reduce-scatter in rings within each node,
all-reduces of the shards in rings of the positions with the same place in their nodes, and an
all-gather within each node; a reduce-scatter is the first two, an all-gather the last two. In an
all-to-all, each position first gives a neighbor everything for that neighbor's place in any node;
then each sends the positions of its place in other nodes one message, so that messages between
nodes are fewer and larger.

Channels and chunks are parts of the buffer that do all of this independently.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from netsim.errors import InputError
from netsim.workloads.collectives import ring
from netsim.workloads.collectives.steps import (
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

WHATS = ("all_reduce", "reduce_scatter", "all_gather", "all_to_all")

PHASES = {
    "all_reduce": (("near", "reduce_scatter"), ("far", "all_reduce"), ("near", "all_gather")),
    "reduce_scatter": (("near", "reduce_scatter"), ("far", "reduce_scatter")),
    "all_gather": (("far", "all_gather"), ("near", "all_gather")),
}
"""Phases: within nodes ("near") or between them ("far"), and their collective."""


def schedule(what: str, n: int, size_bytes: int, how: CollectiveOptions) -> Steps:
    """Sends by part and phase."""
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
    inner = ring.schedule(what, members.shape[1], 1, CollectiveOptions())
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


def hops(what: str, n: int, size_bytes: int, how: CollectiveOptions) -> Hops:
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


def closed_form_ps(what: str, n: int, size_bytes: int, wire: Wire, how: CollectiveOptions) -> int:
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
    return sum(ring.closed_form_ps(*args, plain) for args in rings)
