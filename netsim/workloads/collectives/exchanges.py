"""Algorithms by rings, by exchanges with all or with partners, and by reduction in switches."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from netsim.errors import InputError
from netsim.model.columns import Ints
from netsim.workloads.collectives.steps import (
    ALTERNATING,
    COLLECTIVES,
    SAME,
    Algorithm,
    Carried,
    CollectiveOptions,
    HopRow,
    Hops,
    Steps,
    Wire,
    cut,
    one_after_the_other,
    pieces_of,
    shifted,
    side_by_side,
    some_of,
    steps,
)


def _ring(what: str, n: int, size_bytes: int, how: CollectiveOptions) -> Steps:
    """Rings: each position sends only to the next one.

    The buffer is cut into n shards, and in each step every position forwards the shard it got in
    the step before: n - 1 steps to add (reduce-scatter), n - 1 to distribute (all-gather), both for
    an all-reduce (P. Patarasuk and X. Yuan, Journal of Parallel and Distributed Computing 69(2),
    117-124, 2009). Each channel has its own part of each shard, which chunks divide further.

    All channels follow ascending positions, or with `node` positions per node, channel c has its
    own order, so that channels use different rails between nodes, as NCCL's do:

    - "rotated": in every node from place c mod `node` around to the place before it. Between nodes
      it goes from place c - 1 to place c: through a peer and rail c if these places share no
      network (NCCL with NCCL_CROSS_NIC=0, and PXN).
    - "alternating": the same in nodes 0, 2, ..., and reversed in the others, so that it enters a
      node at the place where it left the previous node: by rail c - 1, and from odd nodes by rail
      c. The number of nodes must be even.

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
    return np.asarray(which * node + (channel + place) % node)


def _steps(what: str, n: int) -> tuple[int, int]:
    """Return the number of steps, and how many of them add."""
    return {
        "all_reduce": (2 * (n - 1), n - 1),
        "reduce_scatter": (n - 1, n - 1),
        "all_gather": (n - 1, 0),
    }[what]


def _in_order(here: np.ndarray, chunks: int) -> np.ndarray:
    """Predecessors of sends: the previous one of the same position and channel. A single chunk has
    no predecessor: it is forwarded when it arrives."""
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

    Channels and chunks are parts of the buffer that proceed independently.

    Sends by part and phase.
    """
    node = _node(n, how)
    if what == "all_to_all":
        return _all_to_all(n, node, size_bytes)
    parts = how.channels * pieces_of(size_bytes, how.channels, how.chunk_bytes)
    phases = [_rings(phase, whose == "near", n, node) for whose, phase in PHASES[what]]
    alone = one_after_the_other(n, [phase for phase in phases if len(phase)], np.ones(n, np.int64))
    return side_by_side(alone, parts, cut(cut(size_bytes, n), parts).reshape(-1))


def _node(n: int, how: CollectiveOptions) -> int:
    if how.node is None or n % how.node:
        given = "no node" if how.node is None else f"nodes of {how.node}"
        raise InputError(f"{given} for a hierarchical collective of {n}", hint=f"a divisor of {n}")
    return how.node


def _rings(what: str, near: bool, n: int, node: int) -> Steps:
    """Rings within all nodes, or across nodes for each place; position p ends with piece p. In a
    ring within a node, a shard holds the pieces of all positions with one place."""
    place, which = np.arange(node), np.arange(n // node)
    members = which[:, None] * node + place
    if not near:
        members = members.T
    inner = _ring(what, members.shape[1], 1, CollectiveOptions())
    first = inner.first if near else members[:, inner.first]
    k = members.shape[1]
    rows = np.arange(members.shape[0])[:, None] * len(inner)
    before = np.arange(-k, len(inner) - k)  # the send of a position in the step before
    return steps(
        n,
        (members[:, inner.src], members[:, inner.dst]),
        Carried(first, n // node if near else 1, node if near else 1, inner.adds),
        np.ones(n, np.int64),
        after=(rows + inner.after, rows + inner.waiting),
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
    return one_after_the_other(n, [phase for phase in phases if len(phase)], blocks)


def _hierarchical_hops(what: str, n: int, size_bytes: int, how: CollectiveOptions) -> Hops:
    node = _node(n, how)
    members = np.arange(n).reshape(-1, node)
    rings = what != "all_to_all"
    parts = how.channels * pieces_of(size_bytes, how.channels, how.chunk_bytes) if rings else 1
    near, far = size_bytes // parts // node, size_bytes // parts // n * (1 if rings else node)
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
    """Duration in one part when positions do not share links, with `wire.far` between nodes. Exact
    if the buffer divides evenly."""
    node = _node(n, how)
    far = wire.far or wire
    plain = replace(how, chunk_bytes=None, channels=1)
    if what == "all_to_all":
        block, nodes = size_bytes // n, n // node
        messages = ((node - 1, nodes, wire), (nodes - 1, node, far))
        return sum(
            how.latency_ps + count * way.send_ps(blocks * block) + way.delay_ps
            for count, blocks, way in messages
            if count
        )
    near = [(phase, node, size_bytes, wire) for whose, phase in PHASES[what] if whose == "near"]
    outer = [(phase, n // node, size_bytes // node, far) for w, phase in PHASES[what] if w == "far"]
    rings = [args for args in (*near, *outer) if args[1] > 1]
    return sum(_ring_ps(*args, plain) for args in rings)


HIERARCHICAL = Algorithm(
    ("all_reduce", "reduce_scatter", "all_gather", "all_to_all"),
    _hierarchical,
    _hierarchical_hops,
    _hierarchical_ps,
)


def _direct(what: str, n: int, size_bytes: int, how: CollectiveOptions) -> Steps:
    """Direct: every position sends to each receiver without intermediaries.

    Position i sends to i + 1 first, then to i + 2, and so on, so that no two positions start with
    the same receiver. All sends start at once, or with a `window` each starts when the send
    `window` before it has left.

    Sends by round, and by position within each round.
    """
    if what == "all_reduce":
        shards = cut(size_bytes, n)
        two = [_direct(one, n, size_bytes, how) for one in ("reduce_scatter", "all_gather")]
        return one_after_the_other(n, two, shards)
    if what in ("broadcast", "reduce", "gather", "scatter"):
        return _with_root(what, n, size_bytes, how)
    away = np.arange(1, n)[:, None]
    src = np.broadcast_to(np.arange(n), (n - 1, n))
    dst = (src + away) % n
    number = np.arange(src.size).reshape(src.shape)
    if what == "all_to_all":
        carried, pieces = Carried(src * n + dst), np.tile(cut(size_bytes, n), n)
    elif what == "reduce_scatter":
        carried, pieces = Carried(dst, adds=True), cut(size_bytes, n)
    elif what == "all_gather":
        carried, pieces = Carried(src), cut(size_bytes, n)
    else:  # barrier
        carried, pieces = Carried(np.zeros_like(src), adds=True), np.zeros(1, np.int64)
    return steps(n, (src, dst), carried, pieces, follows=_windowed(number, how.window))


def _windowed(number: Ints, window: int | None) -> Ints:
    """Predecessors of sends in rows of [round, position]."""
    follows = np.full(number.shape, -1)
    if window is not None:
        follows[window:] = number[:-window]
    return follows


def _with_root(what: str, n: int, size_bytes: int, how: CollectiveOptions) -> Steps:
    other = (how.root + np.arange(1, n)) % n
    root = np.full(n - 1, how.root)
    sends = what in ("broadcast", "scatter")
    whole = what in ("broadcast", "reduce")
    pieces = np.array([size_bytes], np.int64) if whole else cut(size_bytes, n)
    follows = _windowed(np.arange(n - 1), how.window if sends else None)
    return steps(
        n,
        (root, other) if sends else (other, root),
        Carried(np.zeros_like(other) if whole else other, adds=what == "reduce"),
        pieces,
        follows=follows,
    )


def _direct_hops(what: str, n: int, size_bytes: int, how: CollectiveOptions) -> Hops:
    message = size_bytes if what in ("broadcast", "reduce") else size_bytes // n
    if what == "barrier":
        message = 1
    away = some_of(n)
    if what in ("broadcast", "reduce", "gather", "scatter"):
        root, other = np.full(len(away), how.root), (how.root + np.array(away)) % n
        row = HopRow(root, other) if what in ("broadcast", "scatter") else HopRow(other, root)
    else:
        row = shifted(n, away)
    return Hops((row,), message, 1 / len(away), at_once=True)


def _direct_ps(what: str, n: int, size_bytes: int, wire: Wire, how: CollectiveOptions) -> int:
    """Duration of the busiest position's sends or receives, without other traffic.

    Exact if shards divide evenly, all sends start at once, and no message queues longer than its
    transmission time, as staggered receivers ensure.
    """
    whole = what in ("broadcast", "reduce")
    rounds = 2 if what == "all_reduce" else 1
    each = wire.send_ps(1 if what == "barrier" else size_bytes if whole else size_bytes // n)
    return rounds * (how.latency_ps + (n - 1) * each + wire.delay_ps)


DIRECT = Algorithm(COLLECTIVES, _direct, _direct_hops, _direct_ps)


def _dissemination(what: str, n: int, size_bytes: int, how: CollectiveOptions) -> Steps:
    """Dissemination barrier: in round k each position notifies the one 2^k ahead.

    After ceil(log2 n) rounds, all have heard from all (D. Hensgen, R. Finkel and U. Manber,
    International Journal of Parallel Programming 17(1), 1-17, 1988). A message is one byte.
    """
    away = 1 << np.arange((n - 1).bit_length())[:, None]
    position = np.arange(n)
    here = np.arange(away.size)[:, None] * n + position
    return steps(
        n,
        (np.broadcast_to(position, here.shape), (position + away) % n),
        Carried(np.zeros_like(here), adds=True),
        np.zeros(1, np.int64),
        after=(here[:-1, :1] + (position - away[:-1]) % n, here[1:]),
        follows=np.maximum(here - n, -1),
    )


def _dissemination_hops(what: str, n: int, size_bytes: int, how: CollectiveOptions) -> Hops:
    return Hops(tuple(shifted(n, [1 << k]) for k in range((n - 1).bit_length())), 1)


def _dissemination_ps(
    what: str, n: int, size_bytes: int, wire: Wire, how: CollectiveOptions
) -> int:
    return (n - 1).bit_length() * (how.latency_ps + wire.send_ps(1) + wire.delay_ps)


DISSEMINATION = Algorithm(("barrier",), _dissemination, _dissemination_hops, _dissemination_ps)


def _halving(what: str, n: int, size_bytes: int, how: CollectiveOptions) -> Steps:
    """Halving and doubling: exchanges with partners at halving distances, then doubling ones.

    In a reduce-scatter each position exchanges half of the buffer with the position half a group
    away, which adds it to its own half, then half of that with the position a quarter away, and so
    on. An all-gather runs these steps in reverse, doubling the exchanged bytes; an all-reduce does
    both (R. Thakur, R. Rabenseifner and W. Gropp, International Journal of High Performance
    Computing Applications 19(1), 49-66, 2005). Groups are powers of two; in other all-reduces, each
    surplus position first hands its buffer to a neighbor, and gets the sum at the end.

    Sends by step, by position within each.
    """
    core = _core(what, n)
    if core == n:
        return _exchanges(what, np.arange(n), size_bytes)
    # The first pairs are (0, 1), (2, 3) ...; their odd positions drop out.
    away = 2 * np.arange(n - core)
    members = np.concatenate([away, np.arange(2 * (n - core), n)])
    inner = _exchanges(what, members, size_bytes)
    whole = Carried(np.zeros_like(away), count=core, adds=True)
    back = Carried(np.zeros_like(away), count=core)
    pieces = inner.piece_bytes
    before = steps(n, (away + 1, away), whole, pieces)
    after = steps(n, (away, away + 1), back, pieces)
    return one_after_the_other(n, [before, inner, after], pieces)


def _core(what: str, n: int) -> int:
    """Return the largest power of two up to n, the positions that take part in all steps."""
    core = 1 << (n.bit_length() - 1)
    if core < n and what != "all_reduce":
        raise InputError(f"{what} by halving_doubling needs a power of two, not {n} positions")
    return core


def _exchanges(what: str, members: Ints, size_bytes: int) -> Steps:
    """All steps among members, a power of two; piece i is the share that member i ends with."""
    n = members.size
    away = n >> np.arange(1, n.bit_length())
    halving = np.ones(away.size, bool)
    if what == "all_gather":
        away, halving = away[::-1], ~halving
    elif what == "all_reduce":
        away, halving = np.concatenate([away, away[::-1]]), np.arange(2 * away.size) < away.size
    away, halving = away[:, None], halving[:, None]
    member = np.arange(n)
    partner = member ^ away
    # Halving sends a partner its half of the common data; doubling sends everything.
    first = np.where(halving, partner, member) // away * away
    step = np.arange(away.size)[1:, None]
    received = (step - 1) * n + partner[:-1]
    return steps(
        int(members.max()) + 1,
        (members[np.broadcast_to(member, partner.shape)], members[partner]),
        Carried(first, count=away, adds=halving),
        _halves(size_bytes, n),
        after=(received, step * n + member),
        # Data from two steps ago has also arrived, since the previous step waited for it.
        follows=np.arange(-n, partner.size - n).reshape(partner.shape).clip(-1),
    )


def _halves(size_bytes: int, n: int) -> Ints:
    """int64[n]: bytes halved repeatedly; the first half is larger if they do not divide."""
    parts = np.array([size_bytes], np.int64)
    while parts.size < n:
        parts = np.stack([parts - parts // 2, parts // 2], axis=1).reshape(-1)
    return parts


def _halving_hops(what: str, n: int, size_bytes: int, how: CollectiveOptions) -> Hops:
    core = _core(what, n)
    pair = 2 * np.arange(n - core)
    members = np.concatenate([pair, np.arange(2 * (n - core), n)])
    member = np.arange(core)
    away = [core >> k for k in range(1, core.bit_length())]
    rows = [HopRow(members, members[member ^ one], one / core) for one in away]
    if pair.size:
        rows.append(HopRow(pair + 1, pair))
    return Hops(tuple(rows), size_bytes >> 1)


def _halving_ps(what: str, n: int, size_bytes: int, wire: Wire, how: CollectiveOptions) -> int:
    """Duration when positions do not share links.

    Exact for powers of two if the buffer halves evenly; otherwise approximate, as positions with
    and without a neighbor to serve proceed at different times.
    """
    core = 1 << (n.bit_length() - 1)
    each = how.latency_ps + wire.delay_ps
    once = sum(each + wire.send_ps(size_bytes >> k) for k in range(1, core.bit_length()))
    if what != "all_reduce":
        return once
    if core == n:
        return 2 * once
    # An unpaired position's half meets a paired position's whole buffer.
    pairs = 2 * (each + wire.send_ps(size_bytes)) + wire.send_ps(size_bytes >> 1)
    return 2 * once + pairs


HALVING_DOUBLING = Algorithm(
    ("all_reduce", "reduce_scatter", "all_gather"), _halving, _halving_hops, _halving_ps
)

SHARDED = ("reduce_scatter", "all_gather")

FROM_ONE = ("all_gather", "broadcast")  # move one position's pieces; all others add


def _in_network(what: str, n: int, size_bytes: int, how: CollectiveOptions) -> Steps:
    """In-network reduction: a unit in the group's switch adds up data and multicasts it.

    This is NVLink SHARP in a rack's switch, and SHARP in a cluster's (R. L. Graham et al.,
    COMHPC 2016): each position sends and receives the buffer of an all-reduce once, instead of
    almost twice in a ring. The unit is position n, on a link with the capacity of all ports of its
    switch (`with_reduction`). Each position sends the buffer in chunks; the unit forwards a chunk
    when all contributions have arrived, but not back to a lone contributor. Messages use the run's
    transport. The unit adds in no time and never runs out of memory for sums.

    Sends by piece, alternating between shards: first to the unit, then from it.
    """
    shards, chunks = _pieces(what, n, size_bytes, how)
    chunk, shard = np.divmod(np.arange(shards * chunks)[:, None], shards)
    up, down = _ends(what, n, shard, how.root)
    n_up, width = up.shape[1], up.shape[1] + down.shape[1]
    here = np.arange(shard.size * width).reshape(shard.size, width)
    ups = np.arange(width) < n_up
    pairs = (shard.size, n_up, width - n_up)
    earlier = shards if what in FROM_ONE else 1  # pieces since the same positions last sent
    alone = steps(
        n + 1,
        (
            np.concatenate([up, np.full(down.shape, n)], axis=1),
            np.concatenate([np.full(up.shape, n), down], axis=1),
        ),
        Carried(
            np.broadcast_to(shard * chunks + chunk, here.shape), adds=(what not in FROM_ONE) & ups
        ),
        np.ones(shard.size, np.int64),
        after=(
            np.broadcast_to(here[:, :n_up, None], pairs),
            np.broadcast_to(here[:, None, n_up:], pairs),
        ),
        follows=np.where(ups, np.maximum(here - earlier * width, -1), -1),
    )
    of_shards = cut(cut(size_bytes, shards), chunks)
    made = side_by_side(alone, how.channels, cut(of_shards, how.channels).reshape(-1))
    return replace(made, units=1)


def _pieces(what: str, n: int, size_bytes: int, how: CollectiveOptions) -> tuple[int, int]:
    """Return the number of shards, and of consecutive chunks of each."""
    shards = n if what in SHARDED else 1
    return shards, pieces_of(-(-size_bytes // shards), how.channels, how.chunk_bytes)


def _ends(what: str, n: int, shard: Ints, root: int) -> tuple[Ints, Ints]:
    """Each piece's senders to the unit and its receivers."""
    everybody = np.broadcast_to(np.arange(n), (shard.size, n))
    owner = shard if what in SHARDED else np.full(shard.shape, root)
    if what in FROM_ONE:
        return owner, (owner + np.arange(1, n)) % n
    return everybody, everybody if what in ("all_reduce", "barrier") else owner


def _in_network_ps(what: str, n: int, size_bytes: int, wire: Wire, how: CollectiveOptions) -> int:
    """Duration with one channel when positions do not share links.

    `wire` leads from a position to the unit; its delay includes the last packets of all n at the
    unit's link. Exact for an all-reduce if chunks divide evenly and the group has all ports of its
    switch. Otherwise, also when only one position sends or receives at a time, it overestimates
    queueing at the unit's link by up to one packet time per direction.
    """
    shards, chunks = _pieces(what, n, size_bytes, replace(how, channels=1))
    piece_ps = wire.send_ps(size_bytes // shards // chunks)
    busiest = {"reduce_scatter": n, "all_gather": n - 1}.get(what, 1) * chunks
    return how.latency_ps + (busiest + 1) * piece_ps + 2 * wire.delay_ps


IN_NETWORK = Algorithm(
    ("all_reduce", "reduce_scatter", "all_gather", "broadcast", "reduce", "barrier"),
    _in_network,
    None,
    _in_network_ps,
)
