"""Save the state of a run as plain memory, and restore it; where packets are in the pool.

A snapshot has all of `State`, including nested groups, except what is rebuilt: the constant
network, scratch memory, and where packets are. It has the packets, and the used rows of a program's
log.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields
from typing import Any, NamedTuple

import numpy as np

from netsim.engine.division import ALL, WHOLE, Rows, Share, ranks_within, rows_of
from netsim.engine.kernels import layout
from netsim.engine.kernels import links as rings
from netsim.engine.kernels.fields import Array
from netsim.engine.kernels.layout import INF, PORTS_OF_A_WORD, HostState, LinkState, annotated
from netsim.engine.kernels.packets import PFC
from netsim.engine.pool import lay_out
from netsim.engine.state import State
from netsim.limits import CLASSES


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


def in_hosts(state: State, ports: Rows = ALL) -> Array:
    """Return the slots of control packets that hosts have yet to send by some ports."""
    host_ports = np.asarray(state.hosts.host_ports)[ports]
    ends = host_ports["ctrl_head"], host_ports["ctrl_tail"]
    return _slots(host_ports["ctrl_off"], host_ports["ctrl_mask"], *ends)


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
LAID_OUT = (
    "links.next_block",
    "links.free_blocks",
    "links.pool_used",
    "links.pool_full",
)
"""Arrays that are not saved (pool.py)."""

BY_SLOT = ("links.pool", "links.origins")
"""Arrays with an entry per pool slot, of which used ones are saved."""

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

    Raises ForeignSnapshotError, with nothing changed, if its arrays differ or its indices are out
    of range (`check`).
    """
    leaves, in_part = dict(_leaves(state)), kept_in_part(state)
    _compare(leaves, in_part, snapshot)
    found = {
        path: stored.raw.view(leaves[path].dtype).reshape(stored.shape)
        for path, stored in snapshot.items()
    }
    try:
        check(state, found)
    except ImpossibleError as error:
        raise ForeignSnapshotError(str(error)) from None
    for path in found.keys() - in_part:
        _bytes_of(leaves[path])[:] = snapshot[path].raw
    # What is kept in part has its place once all else is restored.
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
    """Raise ForeignSnapshotError unless a snapshot's arrays match those of a state."""
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


def _bytes_of(array: Any) -> Any:
    """Return an array's memory as a view: uint8[...]."""
    assert array.flags.c_contiguous
    return np.asarray(array).reshape(-1).view(np.uint8)


def _kind(dtype: np.dtype) -> str:
    """Return words for a type; equal words mean equal memory layout."""
    fields_ = dtype.fields
    if fields_ is None:
        return dtype.str if dtype.subdtype is None else f"{dtype.subdtype[0].str}{dtype.shape}"
    inner = [f"{name} {_kind(kind)} at {at}" for name, (kind, at, *_) in fields_.items()]
    return f"{{{', '.join(inner)}; {dtype.itemsize}}}"


FIXED = "Fixed["
GROUPS = {"links": LinkState, "hosts": HostState}
ARRAYS = {
    f"{group}.{name}": kind
    for group, arrays in GROUPS.items()
    for name, kind in annotated(arrays).items()
}
FIXED_ARRAYS = [path for path, kind in ARRAYS.items() if kind.startswith(FIXED)]
RECORDS = {
    path: annotated(getattr(layout, found[1]))
    for path, kind in ARRAYS.items()
    if (found := re.search(r", (\w+Record)\]$", kind))
}
"""By path: the arrays that no run changes; the fields of records, with their types."""

PORT_SETS = ("unread", "busy", "dirty_ports", "waiting_ports", "indirect_ready")

MAX_COUNTED = 1 << 60


class ImpossibleError(Exception):
    """An invalid snapshot; the text says where."""


def check(state: State, found: Mapping[str, Any]) -> None:
    """Raise ImpossibleError unless `found`, arrays by path, fit the new `state`. Where its packets
    were in memory does not matter (pool.py)."""
    fresh = {f"{group}.{name}": array for group in ("links", "hosts", "clock")
             for name, array in _named(getattr(state, group))}  # fmt: skip
    for path in FIXED_ARRAYS:
        if path in found:
            _require(_bytes(found[path]) == _bytes(fresh[path]), path)
    limits = _limits(state)
    for path, kinds in RECORDS.items():
        for name in kinds.keys() & set(found[path].dtype.names):
            kind, values = kinds[name], found[path][name]
            if kind.startswith(FIXED):
                same = np.array_equal(values, np.asarray(fresh[path])[name])
                _require(same, f"{path}.{name}")
            elif kind in limits:
                _within(values, -1, limits[kind], f"{path}.{name}")
    _check_packets(state, found)
    _check_heaps(found["hosts.nics"], found["hosts.timers"], found["hosts.heap"])
    _check_ports(state, found)
    _check_flows(state, found)
    _check_clock(state, found)


def _limits(state: State) -> dict[str, int]:
    """Return the exclusive upper bound of each type of field."""
    net, hosts = state.net, state.hosts
    return {
        "GlobalPort": net.port_node.shape[0],
        "LocalPort": int(np.diff(net.first_port).max()),
        "Origin": int(np.diff(net.first_port).max()) * CLASSES,
        "HostId": int(net.n_hosts),
        "NicId": hosts.nics.shape[0],
        "FlowId": hosts.tx.shape[0],
        "TaskId": hosts.tasks.shape[0],
        "TimerSlot": hosts.timers.shape[0],
    }


def _check_packets(state: State, found: Mapping[str, Any]) -> None:
    """Check the ends of links and queues, and the packets. PFC frames, which stay on one link,
    have no flow or destination."""
    ports, readers, queues = (found[f"links.{name}"] for name in ("ports", "readers", "queues"))
    packets, peer = found["links.pool"], np.asarray(state.net.port_peer)
    host_ports = found["hosts.host_ports"]
    n = 0
    for path, head, tail in (
        ("links.readers", readers["head"], readers["tail"]),
        ("links.queues", queues["head"], queues["tail"]),
        ("hosts.host_ports", host_ports["ctrl_head"], host_ports["ctrl_tail"]),
    ):
        _within(head, 0, MAX_COUNTED, path)
        _within(tail - head, 0, packets.size + 1, path)
        n += int((tail - head).sum())
    _require(n == packets.size, "links.pool")
    checked = np.array_equal(host_ports["checked"], host_ports["ctrl_tail"])
    _require(checked, "hosts.host_ports.checked")
    _require(np.array_equal(ports["tail"][peer], readers["tail"]), "links.ports.tail")
    _require(bool((found["links.first_new"] == INF).all()), "links.first_new")
    if state.links.origins.size > 1:
        origins, ports_of_a_node = found["links.origins"], np.diff(state.net.first_port)
        _require(origins.size == packets.size, "links.origins")
        _within(origins, 0, int(ports_of_a_node.max()) * CLASSES, "links.origins")
    carried = packets[packets["kind"] != PFC]
    _within(carried["flow"], 0, state.hosts.tx.shape[0], "links.pool.flow")
    _within(carried["dst"], 0, state.net.host_port.shape[0], "links.pool.dst")
    _within(packets["prio"], 0, queues.shape[0] // ports.shape[0], "links.pool.prio")
    needed = 2 * (packets.size // rings.BLOCK_SLOTS + ports.size + queues.size + host_ports.size)
    _require(needed <= state.links.next_block.size, "links.pool")


def _check_heaps(nics: Any, timers: Any, heap: Any) -> None:
    """Check that heaps fit and that timers know their positions in them."""
    begins = np.unique(nics["heap_off"])
    room = np.append(begins[1:] - 1, heap.size) - begins
    length = heap[begins - 1]
    _require(bool(((length >= 0) & (length <= room)).all()), "hosts.heap")
    within = ranks_within(length)
    slots = heap[np.repeat(begins, length) + within]
    _within(slots, 0, timers.shape[0], "hosts.heap")
    _require(np.array_equal(timers["pos"][slots], within), "hosts.timers.pos")
    _require(int((timers["pos"] >= 0).sum()) == slots.size, "hosts.timers.pos")


def _check_ports(state: State, found: Mapping[str, Any]) -> None:
    ports, queues = found["links.ports"], found["links.queues"]
    classes = queues.shape[0] // ports.shape[0]
    for name in ("backlog", "paused"):
        _within(ports[name], 0, 1 << classes, f"links.ports.{name}")
    _within(ports["pause_requested"], 0, 1 << 9, "links.ports.pause_requested")
    _within(ports["tx_class"], -2, classes, "links.ports.tx_class")
    first_port, first_word = np.asarray(state.net.first_port), np.asarray(state.net.first_word)
    words, n_ports = np.diff(first_word), np.diff(first_port)
    owner = np.repeat(np.arange(words.size), words)
    before = (np.arange(owner.size) - first_word[owner]) * PORTS_OF_A_WORD
    left = np.clip(n_ports[owner] - before, 0, PORTS_OF_A_WORD)
    for name in PORT_SETS:
        sets = found[f"links.{name}"]
        if sets.size == left.size:
            _require(not (sets >> left).any(), f"links.{name}")


def _check_flows(state: State, found: Mapping[str, Any]) -> None:
    tx, rx = found["hosts.tx"], found["hosts.rx"]
    classes = found["links.queues"].shape[0] // found["links.ports"].shape[0]
    # A sender's last bitmap, the engine's, ends at the next sender's.
    words = np.append(tx["bits"][1:], rx["bits"][:1]) - tx["bits_end"]
    # A transport with its own class sets the sender's; the receiver keeps the workload's, which
    # the fabric may lack.
    kept = rx["prio"] == np.asarray(state.hosts.rx["prio"])
    _within(tx["prio"], 0, classes, "hosts.tx.prio")
    _within(rx["prio"][~kept], 0, classes, "hosts.rx.prio")
    for side, path in ((tx, "hosts.tx"), (rx, "hosts.rx")):
        _require(bool((side["n_packets"] >= 0).all()), f"{path}.n_packets")
        _require(bool((side["n_packets"] <= 32 * words).all()), f"{path}.n_packets")
    _require(bool(((tx["high_seq"] >= 0) & (tx["high_seq"] <= tx["n_packets"])).all()), "hosts.tx")
    hosts = found["hosts.program_hosts"]
    rows = (hosts["next_row"] >= hosts["first_row"]) & (hosts["next_row"] <= hosts["end_row"])
    _require(bool(rows.all()), "hosts.program_hosts.next_row")
    written = int((hosts["next_row"] - hosts["first_row"]).sum())
    _require(found["hosts.log"].shape[0] == written, "hosts.log")
    levels, samples = found["links.levels"], found["links.samples"]
    _within(levels["row"], 0, samples.shape[0] + 1, "links.levels.row")


def _check_clock(state: State, found: Mapping[str, Any]) -> None:
    clock, n_nodes = found["clock.clock"], found["clock.next_event"].shape[0]
    _within(clock["n_active"], 0, n_nodes + 1, "clock.clock.n_active")
    _within(clock["resume"], 0, 1, "clock.clock.resume")
    _within(clock["slot"], -1, state.clock.slots.shape[0] + 1, "clock.clock.slot")
    for name in ("w0", "w1", "last_done_ps", "hops", "windows", "payload_bytes"):
        _within(clock[name], 0, int(INF) + 1, f"clock.clock.{name}")
    _within(clock["returns_ps"], int(INF), int(INF) + 1, "clock.clock.returns_ps")
    _within(found["clock.active"], 0, n_nodes, "clock.active")


def _named(group: Any) -> list[tuple[str, Any]]:
    return list(zip(group._fields, group, strict=True))


def _bytes(array: Any) -> bytes:
    return np.ascontiguousarray(array).tobytes()


def _within(values: Any, least: int, below: int, path: str) -> None:
    values = np.asarray(values)
    _require(bool(((values >= least) & (values < below)).all()), path)


def _require(holds: bool, path: str) -> None:
    if not holds:
        raise ImpossibleError(f"{path} has an impossible value")
