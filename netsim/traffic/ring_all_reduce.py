"""All-reduce in rings: every host of a group ends with the sum of what all of them had.

The hosts of a group, blocks of `group_size` next to one another, form a ring. The `size` bytes of
each are cut into as many shards as the group has hosts. In each of 2 (n - 1) steps a host sends to
the next one the shard that it got in the step before, n - 1 times to add it up and n - 1 times to
hand the sums on; in the first step host i sends shard i. With `chunks`, shards are cut again, and
the pieces go round independently of one another.

A step of a piece begins as its last one is delivered: `latency` later, the time that software takes
for a step, counted once, its flow starts. What hosts do with the bytes takes no time.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from netsim.errors import InputError
from netsim.flows import RECEIVE, SEND, FlowTable, TaskTable, TrafficContext, Workload
from netsim.network import Network
from netsim.params import Param

PARAMS = [
    Param("size", "bytes", "8MB", "bytes that each host has", minimum="1B"),
    Param("group_size", "count", None, "hosts of a ring; all hosts by default", minimum=2),
    Param("chunks", "count", 1, "pieces of a shard, each of which goes round by itself", minimum=1),
    Param("latency", "time", "0us", "of software, in each step of a piece"),
]


def flows(
    params: Mapping[str, Any], network: Network, rng: np.random.Generator, context: TrafficContext
) -> Workload:
    """A flow for each step, host and piece, in this order, with its send and its receive task."""
    n_hosts, chunks = network.n_hosts, params["chunks"]
    n = params["group_size"] or n_hosts
    if n_hosts % n or n_hosts < 2:
        raise InputError(
            f"rings of {n} hosts do not fill {n_hosts} hosts",
            key="traffic.group_size",
            hint=f"a divisor of {n_hosts}",
        )
    if params["size"] < n * chunks:
        raise InputError(
            f"{params['size']} bytes cannot be cut into {n * chunks} pieces",
            key="traffic.size",
            hint=f"at least {n * chunks} B",
        )
    steps = 2 * (n - 1)
    context.expect(3 * steps * n_hosts * chunks, key="traffic.group_size")
    step = np.arange(steps)[:, None, None]
    host = np.arange(n_hosts)[None, :, None]
    piece = np.arange(chunks)[None, None, :]
    shard = (host % n - step) % n
    size = _piece_bytes(_piece_bytes(params["size"], n, shard), chunks, piece)
    src = np.broadcast_to(host, size.shape)
    dst = src - src % n + (src + 1) % n
    table = FlowTable(src.reshape(-1), dst.reshape(-1), size.reshape(-1))
    return Workload(table, _tasks(table, steps, chunks, params["latency"]))


def _tasks(flows: FlowTable, steps: int, chunks: int, latency_ps: int) -> TaskTable:
    """Of each step first the send tasks of its flows, then their receive tasks."""
    in_step = len(flows) // steps
    flow = np.repeat(np.arange(len(flows)).reshape(steps, 1, in_step), 2, axis=1)
    sends = np.zeros(flow.shape, bool)
    sends[:, 0] = True
    tasks = TaskTable(
        np.where(sends, SEND, RECEIVE).reshape(-1),
        np.where(sends, flows.src[flow], flows.dst[flow]).reshape(-1),
        np.where(sends, latency_ps, 0).reshape(-1),
        flow=flow.reshape(-1),
    )
    # Who receives a piece in a step sends it on in the next one.
    onward = flows.dst[:in_step] * chunks + np.arange(in_step) % chunks
    number = np.arange(len(tasks)).reshape(flow.shape)
    tasks.wait_for_pairs(number[:-1, 1].reshape(-1), number[1:, 0][:, onward].reshape(-1))
    return tasks


def _piece_bytes(n_bytes: Any, pieces: int, piece: NDArray[np.int64]) -> NDArray[np.int64]:
    """Of ``n_bytes`` those in a piece: the first ones have one more if it does not divide."""
    return np.asarray(n_bytes // pieces + (piece < n_bytes % pieces), np.int64)
