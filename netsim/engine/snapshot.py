"""Save the state of a run as plain memory, and restore it; where packets are in the pool.

A snapshot has all of `State`, including nested groups, except the constant network, scratch memory,
and places of packets, which are rebuilt. It has the packets, and the used rows of a program's log.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields
from typing import Any, NamedTuple

import numpy as np

from netsim.engine.division import ALL, WHOLE, Rows, Share
from netsim.engine.kernels import links as rings
from netsim.engine.kernels.fields import Array
from netsim.engine.pool import lay_out
from netsim.engine.state import State
from netsim.model.columns import rows_of


def on_links(state: State, ports: Rows = ALL) -> Array:
    """Return the slots of packets on links to some ports, PFC frames included. Call it between
    windows."""
    readers, size = np.asarray(state.links.readers)[ports], rings.BLOCK_SLOTS
    owner, position = _positions(readers["head"], readers["tail"])
    slots = np.empty(owner.size, np.int64)
    block, end = readers["block"].astype(np.int64), readers["block_end"].copy()
    rest = np.arange(owner.size)
    while rest.size:
        here = position[rest] < end[owner[rest]]
        of, at = owner[rest[here]], position[rest[here]]
        slots[rest[here]] = block[of] * size + at % size
        rest = rest[~here]
        on = np.unique(owner[rest])
        block[on], end[on] = state.links.next_block[block[on]], end[on] + size
    return slots


def in_queues(state: State, which: Rows = ALL) -> Array:
    """Return the slots of packets in some of the queues of switches."""
    queues = np.asarray(state.links.queues)[which]
    return _slots(queues["off"], queues["mask"], queues["head"], queues["tail"])


def in_hosts(state: State, ports: Rows) -> Array:
    """Return the slots of control packets that hosts have yet to send by some ports."""
    host_ports = np.asarray(state.hosts.host_ports)[ports]
    ends = host_ports["ctrl_head"], host_ports["ctrl_tail"]
    return _slots(host_ports["ctrl_off"], host_ports["ctrl_mask"], *ends)


def not_accepted(state: State) -> Array:
    """Return the entries of `links.kept` that hold packets on links: the other ends have not
    accepted them."""
    retries = np.asarray(state.links.retries)
    return _slots(*(retries[name] for name in ("off", "mask", "expected", "tail")))


def _slots(off: Any, mask: Any, head: Any, tail: Any) -> Array:
    """Return the slots of positions head .. tail of each ring."""
    owner, position = _positions(head, tail)
    slots: Array = off[owner] + (position & mask[owner])
    return slots


def _positions(head: Any, tail: Any) -> tuple[Array, Array]:
    """Return the owner of each packet, and its position there."""
    length = tail - head
    owner = np.repeat(np.arange(length.size), length)
    return owner, rows_of(head, length)


def rows_written(state: State) -> Array:
    """Return the written rows of a program's log, host by host."""
    hosts: Any = np.asarray(state.hosts.program_hosts)
    return rows_of(hosts["first_row"], hosts["next_row"] - hosts["first_row"])


REBUILT = ("net", "crew", "scratch", "share", "first_timer")  # what is not saved
LAID_OUT = ("links.next_block", "links.free_blocks", "links.pool_used", "links.pool_full")
"""Arrays that are not saved (pool.py)."""

BY_SLOT = ("links.pool", "links.origins")  # an entry per pool slot, of which used ones are saved
LOG = "hosts.log"  # array of the log, of which written rows are saved


class Stored(NamedTuple):
    """Entries of an array: type in words, shape, memory."""

    kind: str
    shape: tuple[int, ...]
    raw: Array  # uint8[...]


Snapshot = dict[str, Stored]  # arrays by their path in the state, such as "links.ports"


class ForeignSnapshotError(Exception):
    """A snapshot of another run; the text says how it differs."""


def take(state: State) -> Snapshot:
    """Return the state between two calls of the engine, as views valid until the next."""
    assert state.clock.clock["resume"][0] == 0, "a window is not complete"
    in_use = _in_use(state)
    snapshot = {}
    for path, array in _leaves(state):
        kept = array
        if path in in_use:
            kept = entries_of(array)[in_use[path]]
        shape = (kept.shape[0], *array.shape[1:])
        snapshot[path] = Stored(_kind(array.dtype), shape, _bytes_of(kept))
    return snapshot


def stored(array: Any) -> Stored:
    """Return an array as it is in a snapshot."""
    return Stored(_kind(array.dtype), array.shape, _bytes_of(array))


def put(state: State, snapshot: Snapshot) -> None:
    """Restore a snapshot into ``state``, of an engine for the same run.

    Raises ForeignSnapshotError, with nothing changed, if its arrays differ or its packets do not
    fit into memory.
    """
    leaves, in_part = dict(_leaves(state)), kept_in_part(state)
    _compare(leaves, in_part, snapshot)
    for path in snapshot.keys() - in_part:
        _bytes_of(leaves[path])[:] = snapshot[path].raw
    # Arrays that are saved in part are laid out once all others are restored.
    lay_out(state.net, state.links, state.hosts)
    for path, entries in _in_use(state).items():
        kept = entries_of(leaves[path])
        kept[entries] = snapshot[path].raw.reshape(-1, kept.shape[1])


def paths(state: State) -> list[str]:
    """Return the paths of all arrays that are saved, except within nested groups."""
    return [path for path, _ in _leaves(state) if path.count(".") == 1]


def _groups() -> list[str]:
    """Return the names of the saved groups of arrays."""
    return [field.name for field in fields(State) if field.name not in REBUILT]


def _leaves(state: State) -> Iterator[tuple[str, Any]]:
    """Yield every array that is saved, with its path."""
    for group in _groups():
        for path, array in _walk(group, getattr(state, group)):
            if path not in LAID_OUT:
                yield path, array


def _walk(path: str, value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, np.ndarray):
        yield path, value
        return
    for name, inner in _fields(value):
        yield from _walk(f"{path}.{name}", inner)


def _fields(group: Any) -> Iterable[tuple[str, Any]]:
    """Return a group's arrays and nested groups by name."""
    return zip(group._fields, group, strict=True)


def occupied(state: State, share: Share = WHOLE) -> Array:
    """Return the pool slots that hold a packet of a share."""
    queues = share.queues(state.links.queues.shape[0] // state.links.ports.shape[0])
    of_share = (
        on_links(state, share.ports),
        in_queues(state, queues),
        in_hosts(state, share.host_ports),
    )
    return np.concatenate(of_share)


def pools(state: State) -> list[Array]:
    """Return the arrays with an entry for each pool slot."""
    links = state.links
    return [links.pool, *([links.origins] if links.origins.shape[0] > 1 else [])]


def kept_in_part(state: State) -> list[str]:
    """Return the paths of arrays that are saved in part. An unused array has one entry."""
    return [LOG, *BY_SLOT[: len(pools(state))]]


def _in_use(state: State) -> dict[str, Array]:
    """Return the entries of these arrays that a snapshot has."""
    slots = occupied(state)
    return {path: rows_written(state) if path == LOG else slots for path in kept_in_part(state)}


def entries_of(array: Any) -> Any:
    """Return an array's memory as a view: uint8[n, ...], with the same first axis."""
    return _bytes_of(array).reshape(array.shape[0], array.itemsize * math.prod(array.shape[1:]))


def _compare(leaves: Mapping[str, Any], in_part: Sequence[str], snapshot: Snapshot) -> None:
    """Raise ForeignSnapshotError unless a snapshot's arrays match a state's."""
    for path in sorted(leaves.keys() ^ snapshot.keys()):
        raise ForeignSnapshotError(f"{path} is missing on one side")
    for path, stored in snapshot.items():
        array = leaves[path]
        if (stored.kind, stored.shape[1:]) != (_kind(array.dtype), array.shape[1:]):
            raise ForeignSnapshotError(f"the records of {path} differ")
        if path not in in_part and stored.shape != array.shape:
            raise ForeignSnapshotError(f"{path} has a different length")
        if stored.raw.size != math.prod(stored.shape) * array.dtype.itemsize:
            raise ForeignSnapshotError(f"{path} does not have its stated length")
    packets, links = snapshot["links.pool"].shape[0], leaves["links.readers"].shape[0]
    owners = links + leaves["links.queues"].shape[0] + leaves["hosts.host_ports"].shape[0]
    room = leaves["links.pool"].shape[0] // rings.BLOCK_SLOTS
    if 2 * (packets // rings.BLOCK_SLOTS + owners) > room:
        raise ForeignSnapshotError(f"no memory is left for {packets:,} packets")


def _bytes_of(array: Any) -> Any:
    """Return an array's memory as a view: uint8[...]."""
    assert array.flags.c_contiguous
    return np.asarray(array).reshape(-1).view(np.uint8)


def _kind(dtype: np.dtype) -> str:
    """Describe a type; equal descriptions mean equal memory layouts."""
    fields_ = dtype.fields
    if fields_ is None:
        return dtype.str if dtype.subdtype is None else f"{dtype.subdtype[0].str}{dtype.shape}"
    inner = [f"{name} {_kind(kind)} at {at}" for name, (kind, at, *_) in fields_.items()]
    return f"{{{', '.join(inner)}; {dtype.itemsize}}}"
