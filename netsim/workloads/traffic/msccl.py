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

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from netsim.common.inputs import user_path
from netsim.errors import InputError
from netsim.flows import TrafficContext, Workload
from netsim.network import Network
from netsim.params import REQUIRED, Param
from netsim.units import written
from netsim.workloads.importers.msccl import RECEIVES, SENDS, Algorithm, read_msccl
from netsim.workloads.operations import Operations
from netsim.workloads.traffic._options import PLACEMENT_PARAMS, hosts_of

PARAMS = [
    Param("file", "file", REQUIRED, "MSCCL algorithm, an .xml file"),
    Param("size", "bytes", "8MB", "buffer size", minimum="1B"),
    Param("latency", "time", "0us", "software latency of each message"),
    *PLACEMENT_PARAMS,
]

Place = tuple[int, int, int]
"""GPU, thread block and step."""


def flows(
    params: Mapping[str, Any], network: Network, rng: np.random.Generator, context: TrafficContext
) -> Workload:
    made = read_msccl(user_path(params["file"], context.directory))
    if params["size"] < made.n_chunks:
        hint = f"at least {made.n_chunks} B"
        raise InputError("must have at least one byte per chunk", key="traffic.size", hint=hint)
    context.reserve(2 * sum(len(block.steps) for block in made.blocks), key="traffic.file")
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
    streams = _streams(made)
    begin: dict[Place, int] = {}
    end: dict[Place, int] = {}
    ends = _messages(made)
    if ends:
        count = np.array([count for _, _, count in ends], np.int64)
        at = [np.array([place for place, _, _ in ends]), np.array([to for _, to, _ in ends])]
        of = [[streams[gpu, block] for gpu, block, _ in side.tolist()] for side in at]
        chunk, rest = divmod(size_bytes, made.n_chunks)
        each = np.maximum(count * chunk + count * rest // made.n_chunks, 1)
        sent, received = ops.send(
            at[0][:, 0], at[1][:, 0], each, of[0], of[1], made.collective, latency_ps
        )
        # A step that does both receives first.
        ops.set_order(sent, 2 * at[0][:, 2] + 1)
        ops.set_order(received, 2 * at[1][:, 2])
        for (one, other, _), first, then in zip(
            ends, sent.tolist(), received.tolist(), strict=True
        ):
            end[one], begin[other] = first, then
            begin.setdefault(one, first)
            end.setdefault(other, then)
    for block in made.blocks:
        for step in block.steps:
            place = (block.gpu, block.number, step.number)
            if place not in begin:
                begin[place] = end[place] = int(ops.join(block.gpu, streams[place[:2]]))
                ops.set_order(begin[place], 2 * step.number)
    waits = [
        (end[block.gpu, *step.after], begin[block.gpu, block.number, step.number])
        for block in made.blocks
        for step in block.steps
        if step.after is not None
    ]
    ops.after(*np.array(waits, np.int64).reshape(-1, 2).T)
    return ops


def _streams(made: Algorithm) -> dict[tuple[int, int], int]:
    """Return the index of each thread block within its GPU."""
    found: dict[tuple[int, int], int] = {}
    blocks: defaultdict[int, int] = defaultdict(int)
    for block in made.blocks:
        found[block.gpu, block.number] = blocks[block.gpu]
        blocks[block.gpu] += 1
    return found


def _messages(made: Algorithm) -> list[tuple[Place, Place, int]]:
    """Return source, destination and chunks of messages. Raises InputError for mismatches."""
    sends: defaultdict[Place, list[tuple[Place, int]]] = defaultdict(list)
    receives: defaultdict[Place, list[tuple[Place, int]]] = defaultdict(list)
    for block in made.blocks:
        for step in block.steps:
            place = (block.gpu, block.number, step.number)
            if step.type in SENDS:
                sends[block.gpu, block.send, block.channel].append((place, step.count))
            if step.type in RECEIVES:
                receives[block.receive, block.gpu, block.channel].append((place, step.count))
    found = []
    for key in sorted(sends.keys() | receives.keys()):
        counts = [[count for _, count in side[key]] for side in (sends, receives)]
        if counts[0] != counts[1]:
            src, dst, channel = key
            at = next(
                (k for k, (a, b) in enumerate(zip(*counts, strict=False)) if a != b),
                min(map(len, counts)),
            )
            counted = [f"{side[at]} chunks" if at < len(side) else "nothing" for side in counts]
            raise InputError(
                f"message {at} from GPU {src} to {dst} on channel {channel}: {counted[0]} sent, "
                f"{counted[1]} received"
            )
        pairs = zip(sends[key], receives[key], strict=True)
        found += [(one, other, count) for (one, count), (other, _) in pairs]
    return found
