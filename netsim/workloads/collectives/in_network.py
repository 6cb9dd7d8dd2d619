"""In-network reduction: a unit in the group's switch adds up data and multicasts it.

This is NVLink SHARP in a rack's switch, and SHARP in those of a cluster (R. L. Graham et al.,
COMHPC 2016): each position sends and receives the buffer of an all-reduce once, instead of almost
twice in a ring. The unit is position n, after those of the group, on a link with the capacity of
all ports of its switch (`with_reduction`). Each position sends the buffer in chunks; the
unit forwards a chunk when all contributions have arrived, but not back to a lone contributor.

Messages use the run's transport, with its retransmissions. The unit adds in no time and never runs
out of memory for sums.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from netsim.workloads.collectives.steps import (
    Algorithm,
    Carried,
    CollectiveOptions,
    Ints,
    Steps,
    Wire,
    cut,
    pieces_of,
    side_by_side,
    steps,
)

SHARDED = ("reduce_scatter", "all_gather")
FROM_ONE = ("all_gather", "broadcast")
"""Collectives that move one position's pieces; all others add."""


def _in_network(what: str, n: int, size_bytes: int, how: CollectiveOptions) -> Steps:
    """Sends by piece: first those to the unit, position n, then those from it.

    Pieces of shards alternate, one of each shard.
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
        Carried(np.broadcast_to(shard * chunks + chunk, here.shape), adds=_adds(what) & ups),
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


def _adds(what: str) -> bool:
    return what not in FROM_ONE


def _ends(what: str, n: int, shard: Ints, root: int) -> tuple[Ints, Ints]:
    """Senders of each piece to the unit, and its receivers."""
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
