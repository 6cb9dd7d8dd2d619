"""Check that a snapshot fits an engine, before any of it is restored.

Checks what is `Fixed` and everything that addresses memory, by the declared types of fields, except
plugins' fields.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from netsim.engine.kernels import layout, rings
from netsim.engine.kernels.layout import INF, PORTS_OF_A_WORD, HostState, LinkState, annotated
from netsim.engine.kernels.packets import PFC
from netsim.engine.share import ranks_within
from netsim.engine.state import State
from netsim.limits import CLASSES

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
