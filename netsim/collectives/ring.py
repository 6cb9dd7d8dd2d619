"""Rings: each position sends to the next one only.

The buffer is cut into n shards, and in each step every position sends on the shard that it got in
the step before: n - 1 steps to add shards up (reduce-scatter), n - 1 to hand them round
(all-gather), both for an all-reduce (P. Patarasuk and X. Yuan, Journal of Parallel and Distributed
Computing 69(2), 117-124, 2009). Channels have their own parts of each shard, and chunks are parts
of those.
"""

from __future__ import annotations

import numpy as np

from netsim.collectives.how import How
from netsim.collectives.steps import Carried, Steps, cut, pieces_of, steps
from netsim.collectives.wire import Wire

WHATS = ("all_reduce", "reduce_scatter", "all_gather")


def schedule(what: str, n: int, size_bytes: int, how: How) -> Steps:
    """The sends: step by step, in each by position, channel and chunk."""
    channels = how.channels
    chunks = pieces_of(-(-size_bytes // n), channels, how.chunk_bytes)
    n_steps, adding = _steps(what, n)
    step = np.arange(n_steps)[:, None, None]
    position = np.arange(n)[None, :, None]
    part = np.arange(channels * chunks)[None, None, :]
    # So that position i ends with shard i, and begins an all-gather with it.
    shard = (position - step - (what == "reduce_scatter")) % n
    here = (step * n + position) * part.size + part
    before = (here - (n + 1) * part.size)[1:, 1:], (here - part.size)[1:, :1]
    send = np.concatenate([before[1], before[0]], axis=1)
    return steps(
        n,
        (position, np.broadcast_to((position + 1) % n, here.shape)),
        Carried(shard * part.size + part, adds=step < adding),
        cut(cut(cut(size_bytes, n), channels), chunks).reshape(-1),
        after=(send, here[1:]),
        follows=_in_order(here, chunks),
    )


def _steps(what: str, n: int) -> tuple[int, int]:
    """How many steps there are, and how many of them add up."""
    return {
        "all_reduce": (2 * (n - 1), n - 1),
        "reduce_scatter": (n - 1, n - 1),
        "all_gather": (n - 1, 0),
    }[what]


def _in_order(here: np.ndarray, chunks: int) -> np.ndarray:
    """What each send follows: the one before it of its position and channel.

    A lone chunk follows nothing: it is sent on as it has arrived.
    """
    if chunks == 1:
        return np.full(1, -1)
    n_steps, n, parts = here.shape
    in_channel = here.reshape(n_steps, n, parts // chunks, chunks)
    follows = np.full(in_channel.shape, -1)
    follows[..., 1:] = in_channel[..., :-1]
    follows[1:, ..., 0] = in_channel[:-1, ..., -1]
    return follows.reshape(here.shape)


def closed_form_ps(what: str, n: int, size_bytes: int, wire: Wire, how: How) -> int:
    """How long it takes where positions have their wires to themselves, one channel.

    With chunks, a step takes as long as one of them is on its way, or as long as all of them are on
    the wire, whichever is longer. Exact if shards and chunks divide evenly.
    """
    chunks = pieces_of(-(-size_bytes // n), 1, how.chunk_bytes)
    chunk_ps = wire.send_ps(size_bytes // n // chunks)
    n_steps, _ = _steps(what, n)
    on_its_way = how.latency_ps + chunk_ps + wire.delay_ps
    period = max(on_its_way, chunks * chunk_ps)
    return (n_steps - 1) * period + on_its_way + (chunks - 1) * chunk_ps
