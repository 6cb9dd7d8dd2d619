"""A collective with an MSCCL algorithm, read from its XML.

GPU g is host g, unless `placement` differs. Each thread block runs its steps in sequence: it sends
chunks, which leave before its next step, or waits for chunks to arrive; a step that receives and
forwards does so when all of its chunks have arrived. The k-th message from one GPU to another on a
channel matches the k-th receive there. Copies and reductions take no time; `latency` precedes each
message.

`size` is the buffer that is cut into the algorithm's chunks (nchunksperloop): the data of each GPU
for an all-reduce, all shards for an all-gather.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from netsim.common.inputs import user_path
from netsim.errors import InputError
from netsim.flows import TrafficContext, Workload
from netsim.network import Network
from netsim.params import REQUIRED, Param
from netsim.units import written
from netsim.workloads.importers.msccl import NONE, RECEIVES, SENDS, Algorithm, read_msccl
from netsim.workloads.operations import Operations
from netsim.workloads.traffic._options import PLACEMENT_PARAMS, hosts_of

PARAMS = [
    Param("file", "file", REQUIRED, "MSCCL algorithm, an .xml file"),
    Param("size", "bytes", "8MB", "buffer size", minimum="1B"),
    Param("latency", "time", "0us", "software latency of each message"),
    *PLACEMENT_PARAMS,
]


def flows(
    params: Mapping[str, Any], network: Network, rng: np.random.Generator, context: TrafficContext
) -> Workload:
    made = read_msccl(user_path(params["file"], context.directory))
    if params["size"] < made.n_chunks:
        hint = f"at least {made.n_chunks} B"
        raise InputError("must have at least one byte per chunk", key="traffic.size", hint=hint)
    context.reserve(2 * len(made.steps), key="traffic.file")
    hosts = hosts_of(params, made.n_gpus, network.n_hosts, context.directory, rng)
    try:
        load = _operations(made, params["size"], params["latency"]).lower(hosts)
    except InputError as error:
        raise error.at(file=str(made.path)) from None
    note = f"{written(made.path.name)}: {made.collective} {written(made.name)}, "
    return replace(load, notes=(note + f"{len(load.flows):,} messages",))


def _operations(made: Algorithm, size_bytes: int, latency_ps: int) -> Operations:
    """Return the steps as operations, one stream per thread block."""
    ops = Operations(made.n_gpus)
    gpu, stream, step, count = (
        made.steps[name].to_numpy() for name in ("gpu", "stream", "step", "count")
    )
    begin, end = np.full((2, len(gpu)), -1)
    send, receive = _messages(made)
    chunk, rest = divmod(size_bytes, made.n_chunks)
    each = np.maximum(count * chunk + count * rest // made.n_chunks, 1)[send]
    of = (gpu[send], gpu[receive], each, stream[send], stream[receive])
    sent, received = ops.send(*of, made.collective, latency_ps)
    # A step that does both receives first.
    ops.set_order(sent, 2 * step[send] + 1)
    ops.set_order(received, 2 * step[receive])
    begin[send], end[receive] = sent, received
    begin[receive], end[send] = received, sent
    local = begin < 0
    begin[local] = end[local] = ops.join(gpu[local], stream[local])
    ops.set_order(begin[local], 2 * step[local])
    then, first = _waits(made)
    ops.after(end[first], begin[then])
    return ops


def _waits(made: Algorithm) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the steps that wait for another, and the others. Raises InputError for an unknown."""
    import polars as pl

    steps = made.steps
    waits = steps.filter((pl.col("after_block") != NONE) & (pl.col("after_step") != NONE))
    found = waits.join(
        steps,
        left_on=("gpu", "after_block", "after_step"),
        right_on=("gpu", "block", "step"),
        how="left",
        maintain_order="left",
    )
    for row in found.filter(pl.col("at_right").is_null()).head(1).iter_rows(named=True):
        what = f"step {row['step']} waits for step {row['after_step']} of tb {row['after_block']}"
        raise InputError(f"gpu {row['gpu']}, tb {row['block']}: {what}, which does not exist")
    return found["at"].to_numpy(), found["at_right"].to_numpy()


def _messages(made: Algorithm) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the steps that send and receive each message. Raises InputError for mismatches."""
    import polars as pl

    keys = ("src", "dst", "channel", "k")
    sides = []
    for types, src, dst in ((SENDS, "gpu", "send"), (RECEIVES, "receive", "gpu")):
        side = made.steps.filter(pl.col("type").is_in(types))
        side = side.select("at", "channel", "count", src=src, dst=dst)
        sides.append(side.with_columns(k=pl.int_range(pl.len()).over("src", "dst", "channel")))
    found = sides[0].join(sides[1], on=keys, how="full", coalesce=True).sort(keys)
    wrong = found.filter(pl.col("count").ne_missing(pl.col("count_right")))
    for row in wrong.head(1).iter_rows(named=True):
        counts = row["count"], row["count_right"]
        sent, received = ("nothing" if n is None else f"{n} chunks" for n in counts)
        raise InputError(
            f"message {row['k']} from GPU {row['src']} to {row['dst']} on channel "
            f"{row['channel']}: {sent} sent, {received} received"
        )
    return found["at"].to_numpy(), found["at_right"].to_numpy()
