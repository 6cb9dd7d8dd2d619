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

from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

from netsim.common.inputs import bounded, read_bytes
from netsim.errors import InputError
from netsim.units import written

SENDS = ("s", "rcs", "rrs", "rrcs")
RECEIVES = ("r", "rrc", "rcs", "rrs", "rrcs")
LOCAL = ("cpy", "re", "nop")
"""Types of steps: sending, receiving (some do both), and local."""

NONE = -1


@dataclass(frozen=True)
class ThreadBlockStep:
    """A step of a thread block: `count` chunks, after (thread block, step)."""

    number: int
    type: str
    count: int
    after: tuple[int, int] | None


@dataclass(frozen=True)
class ThreadBlock:
    """A thread block and its peers, GPUs or NONE."""

    gpu: int
    number: int
    send: int
    receive: int
    channel: int
    steps: tuple[ThreadBlockStep, ...]

    @property
    def name(self) -> str:
        return f"gpu {self.gpu}, tb {self.number}"


@dataclass(frozen=True)
class Algorithm:
    """An algorithm for `n_gpus` GPUs and a buffer of `n_chunks`."""

    path: Path
    name: str
    collective: str
    n_gpus: int
    n_chunks: int
    blocks: tuple[ThreadBlock, ...]

    def error(self, block: ThreadBlock, message: str) -> InputError:
        return InputError(f"{block.name}: {message}", file=str(self.path))


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
    if root.tag != "algo":
        raise InputError(
            f"starts with <{root.tag}>", hint='<algo ngpus="8" nchunksperloop="8" ...>'
        )
    n_gpus, n_chunks = _number(root, "ngpus", 1), _number(root, "nchunksperloop", 1)
    blocks: list[ThreadBlock] = []
    seen: set[int] = set()
    for gpu in _children(root, "gpu"):
        number = _number(gpu, "id")
        if number >= n_gpus or number in seen:
            what = "duplicate" if number in seen else f"not one of {n_gpus}"
            raise InputError(f"gpu {number} is {what}")
        seen.add(number)
        blocks += [_block(number, block, n_gpus, n_chunks) for block in _children(gpu, "tb")]
    if len(seen) < n_gpus:
        raise InputError(f"has {len(seen)} of {n_gpus} GPUs (ngpus)")
    name, collective = (root.get(key, "") for key in ("name", "coll"))
    made = Algorithm(path, name, collective, n_gpus, n_chunks, tuple(blocks))
    _check(made)
    return made


def _block(gpu: int, block: ElementTree.Element, n_gpus: int, n_chunks: int) -> ThreadBlock:
    number = _number(block, "id")
    try:
        send, receive = _number(block, "send", NONE), _number(block, "recv", NONE)
        for peer in (send, receive):
            if peer >= n_gpus or peer == gpu:
                raise InputError(f"invalid peer GPU {peer}")
        steps = [_step(step) for step in _children(block, "step")]
        if [step.number for step in steps] != list(range(len(steps))):
            raise InputError("steps must be numbered from 0")
        for step in steps:
            if step.count > n_chunks:
                raise InputError(f"step {step.number} moves {step.count} of {n_chunks} chunks")
            if (step.type in SENDS and send == NONE) or (step.type in RECEIVES and receive == NONE):
                raise InputError(f"step {step.number} ({step.type}) has no peer")
        return ThreadBlock(gpu, number, send, receive, _number(block, "chan"), tuple(steps))
    except InputError as error:
        raise InputError(f"gpu {gpu}, tb {number}: {error.message}", hint=error.hint) from None


def _step(step: ElementTree.Element) -> ThreadBlockStep:
    number, kind = _number(step, "s"), step.get("type", "")
    if kind not in (*SENDS, *RECEIVES, *LOCAL):
        known = ", ".join(dict.fromkeys((*SENDS, *RECEIVES, *LOCAL)))
        raise InputError(f"step {number}: {written(kind)} is not a type", hint=known)
    block, of = _number(step, "depid", NONE), _number(step, "deps", NONE)
    after = None if NONE in (block, of) else (block, of)
    return ThreadBlockStep(number, kind, _number(step, "cnt", 0 if kind in LOCAL else 1), after)


def _check(made: Algorithm) -> None:
    """Check that thread blocks are unique and their dependencies exist."""
    steps: dict[tuple[int, int], int] = {}
    for block in made.blocks:
        if (block.gpu, block.number) in steps:
            raise made.error(block, "duplicate thread block")
        steps[block.gpu, block.number] = len(block.steps)
    for block in made.blocks:
        for step in block.steps:
            if step.after is not None and step.after[1] >= steps.get((block.gpu, step.after[0]), 0):
                what = f"step {step.number} waits for step {step.after[1]} of tb {step.after[0]}"
                raise made.error(block, f"{what}, which does not exist")


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
