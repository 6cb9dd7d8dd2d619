"""MSCCL collective algorithms: XML files with the sends and receives of every GPU.

    <algo name="ring" proto="Simple" nchannels="1" nchunksperloop="8" ngpus="8" coll="allreduce">
      <gpu id="0" i_chunks="8" o_chunks="0" s_chunks="0">
        <tb id="0" send="1" recv="7" chan="0">
          <step s="0" type="s" srcbuf="i" srcoff="0" dstbuf="i" dstoff="0" cnt="1" depid="-1"
                deps="-1" hasdep="0"/>

A thread block (tb) has one peer to send to and one to receive from, and runs its steps in sequence.
A step may wait for a step of another thread block of its GPU. TACOS also writes such files. Source:
MSCCL's parser; astra-sim/astra-sim, examples/system/custom_collectives.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

from netsim.common.inputs import bounded, read_bytes
from netsim.errors import InputError
from netsim.units import written

if TYPE_CHECKING:
    import polars as pl

SENDS = ("s", "rcs", "rrs", "rrcs")
RECEIVES = ("r", "rrc", "rcs", "rrs", "rrcs")
LOCAL = ("cpy", "re", "nop")
"""Types of steps: sending, receiving (some do both), and local."""

NONE = -1


COLUMNS = (
    "gpu", "block", "stream", "send", "receive", "channel", "step", "type", "count", "after_block",
    "after_step",
)  # fmt: skip
"""Columns of `Algorithm.steps`: a step's GPU, thread block, number of the block in the GPU, the
block's peers (GPUs or NONE) and channel; the step's number, type and chunks; and the thread block
and step that it waits for, or NONE."""


@dataclass(frozen=True)
class Algorithm:
    """An algorithm for `n_gpus` GPUs and a buffer of `n_chunks`.

    `steps` has the row index `at` and COLUMNS, a row per step in the order of the file.
    """

    path: Path
    name: str
    collective: str
    n_gpus: int
    n_chunks: int
    steps: pl.DataFrame


def read_msccl(path: Path) -> Algorithm:
    """Read an algorithm."""
    content = read_bytes(path)
    try:
        root = ElementTree.fromstring(content)
    except ElementTree.ParseError as error:
        raise InputError(f"is not XML: {error}", file=str(path), code="unreadable") from None
    except (ValueError, LookupError):  # unknown encoding
        raise InputError("is not XML", file=str(path), code="unreadable") from None
    try:
        return _algorithm(path, root)
    except InputError as error:
        raise error.at(file=str(path)) from None


def _algorithm(path: Path, root: ElementTree.Element) -> Algorithm:
    import polars as pl

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
    """Yield the rows of a thread block."""
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
    """Return an integer attribute."""
    if key not in of.attrib:
        raise InputError(f"<{of.tag}> has no {key}")
    return bounded(f"{key} of <{of.tag}>", of.attrib[key], least)
