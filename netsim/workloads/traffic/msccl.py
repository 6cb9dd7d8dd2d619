"""A collective with an MSCCL algorithm, read from its XML.

GPU g is host g, unless `placement` differs. Each thread block runs its steps in sequence: it sends
chunks, which leave before its next step, or waits for chunks to arrive; a step that receives and
forwards does so when all of its chunks have arrived. The k-th message from one GPU to another on a
channel matches the k-th receive there. Copies and reductions take no time; `latency` precedes each
message.

`size` is the buffer that is cut into the algorithm's chunks (nchunksperloop): the data of each GPU
for an all-reduce, all shards for an all-gather.

    <algo name="ring" proto="Simple" nchannels="1" nchunksperloop="8" ngpus="8" coll="allreduce">
      <gpu id="0" i_chunks="8" o_chunks="0" s_chunks="0">
        <tb id="0" send="1" recv="7" chan="0">
          <step s="0" type="s" srcbuf="i" srcoff="0" dstbuf="i" dstoff="0" cnt="1" depid="-1"
                deps="-1" hasdep="0"/>

A thread block (tb) has one peer to send to and one to receive from. A step may wait for a step of
another thread block of its GPU. TACOS also writes such files. Source: MSCCL's parser;
astra-sim/astra-sim, examples/system/custom_collectives.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import polars as pl

from netsim.common.inputs import bounded, read_bytes, user_path
from netsim.errors import InputError, errors_at
from netsim.flows import Rng, TrafficContext, Workload
from netsim.frozen import frozen
from netsim.model.columns import Ints
from netsim.network import Network
from netsim.params import REQUIRED, Param, Params
from netsim.units import written
from netsim.workloads.operations import Operations
from netsim.workloads.traffic._options import PLACEMENT_PARAMS, hosts_of

PARAMS = [
    Param("file", "file", REQUIRED, "MSCCL algorithm, an .xml file"),
    Param("size", "bytes", "8MB", "buffer size", minimum="1B"),
    Param("latency", "time", "0us", "software latency of each message"),
    *PLACEMENT_PARAMS,
]


def flows(params: Params, network: Network, rng: Rng, context: TrafficContext) -> Workload:
    made = read_msccl(user_path(params["file"], context.directory))
    if params["size"] < made.n_chunks:
        hint = f"at least {made.n_chunks} B"
        raise InputError("must have at least one byte per chunk", key="traffic.size", hint=hint)
    context.reserve(2 * len(made.steps), key="traffic.file")
    hosts = hosts_of(params, made.n_gpus, network.n_hosts, context.directory, rng)
    with errors_at(file=made.path):
        load = _operations(made, params["size"], params["latency"]).lower(hosts)
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


def _waits(made: Algorithm) -> tuple[Ints, Ints]:
    """Return the steps that wait for a step, and these steps. Raises InputError if unknown."""
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


def _messages(made: Algorithm) -> tuple[Ints, Ints]:
    """Return the steps that send and receive each message. Raises InputError for mismatches."""
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


SENDS = ("s", "rcs", "rrs", "rrcs")
RECEIVES = ("r", "rrc", "rcs", "rrs", "rrcs")
LOCAL = ("cpy", "re", "nop")  # types of steps: sending, receiving (some do both), and local

NONE = -1


COLUMNS = (
    "gpu", "block", "stream", "send", "receive", "channel", "step", "type", "count", "after_block",
    "after_step",
)  # fmt: skip
"""Columns of `Algorithm.steps`: a step's GPU, thread block, number of the block in the GPU, the
block's peers (GPUs or NONE) and channel; the step's number, type and chunks; and the thread block
and step that it waits for, or NONE."""


@frozen
class Algorithm:
    """An algorithm for `n_gpus` GPUs and a buffer of `n_chunks`. `steps` has the row index `at` and
    COLUMNS, a row per step in the order of the file."""

    path: Path
    name: str
    collective: str
    n_gpus: int
    n_chunks: int
    steps: pl.DataFrame


def read_msccl(path: Path) -> Algorithm:
    content = read_bytes(path)
    try:
        root = ElementTree.fromstring(content)
    except ElementTree.ParseError as error:
        raise InputError(f"is not XML: {error}", file=str(path), code="unreadable") from None
    except (ValueError, LookupError):  # unknown encoding
        raise InputError("is not XML", file=str(path), code="unreadable") from None
    with errors_at(file=path):
        return _algorithm(path, root)


def _algorithm(path: Path, root: ElementTree.Element) -> Algorithm:
    if root.tag != "algo":
        raise InputError(
            f"starts with <{root.tag}>", hint='<algo ngpus="8" nchunksperloop="8" ...>'
        )
    n_gpus, n_chunks = _number(root, "ngpus", 1), _number(root, "nchunksperloop", 1)
    rows: list[tuple[Any, ...]] = []
    seen: set[int] = set()
    for gpu in _children(root, "gpu"):
        number = _number(gpu, "id")
        if number >= n_gpus or number in seen:
            what = "duplicate" if number in seen else f"not one of {n_gpus}"
            raise InputError(f"gpu {number} is {what}")
        seen.add(number)
        blocks: set[int] = set()
        for stream, block in enumerate(_children(gpu, "tb")):
            block_id = _number(block, "id")
            try:
                if block_id in blocks:
                    raise InputError("duplicate thread block")
                rows += _block((number, block_id, stream), block, n_gpus, n_chunks)
            except InputError as error:
                message = f"gpu {number}, tb {block_id}: {error.message}"
                raise InputError(message, hint=error.hint) from None
            blocks.add(block_id)
    if len(seen) < n_gpus:
        raise InputError(f"has {len(seen)} of {n_gpus} GPUs (ngpus)")
    name, collective = (root.get(key, "") for key in ("name", "coll"))
    steps = pl.DataFrame(
        rows, schema=dict.fromkeys(COLUMNS, pl.Int64) | {"type": pl.String}, orient="row"
    )
    return Algorithm(path, name, collective, n_gpus, n_chunks, steps.with_row_index("at"))


def _block(
    place: tuple[int, int, int], block: ElementTree.Element, n_gpus: int, n_chunks: int
) -> Iterator[tuple[Any, ...]]:
    send, receive = _number(block, "send", NONE), _number(block, "recv", NONE)
    for peer in (send, receive):
        if peer >= n_gpus or peer == place[0]:
            raise InputError(f"invalid peer GPU {peer}")
    channel = _number(block, "chan")
    for number, step in enumerate(_children(block, "step")):
        if _number(step, "s") != number:
            raise InputError("steps must be numbered from 0")
        kind = step.get("type", "")
        if kind not in (*SENDS, *RECEIVES, *LOCAL):
            known = ", ".join(dict.fromkeys((*SENDS, *RECEIVES, *LOCAL)))
            raise InputError(f"step {number}: {written(kind)} is not a type", hint=known)
        count = _number(step, "cnt", 0 if kind in LOCAL else 1)
        if count > n_chunks:
            raise InputError(f"step {number} moves {count} of {n_chunks} chunks")
        if (kind in SENDS and send == NONE) or (kind in RECEIVES and receive == NONE):
            raise InputError(f"step {number} ({kind}) has no peer")
        after = _number(step, "depid", NONE), _number(step, "deps", NONE)
        yield *place, send, receive, channel, number, kind, count, *after


def _children(of: ElementTree.Element, tag: str) -> list[ElementTree.Element]:
    for child in of:
        if child.tag != tag:
            raise InputError(f"<{child.tag}> in <{of.tag}>", hint=f"<{tag}>")
    return list(of)


def _number(of: ElementTree.Element, key: str, least: int = 0) -> int:
    if key not in of.attrib:
        raise InputError(f"<{of.tag}> has no {key}")
    return bounded(f"{key} of <{of.tag}>", of.attrib[key], least)
