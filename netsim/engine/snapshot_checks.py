"""Check that a snapshot fits an engine, before any of it is restored.

Checks everything that addresses memory, by the declared types of fields, except plugins' fields.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

import numpy as np

from netsim.engine.kernels import fields
from netsim.engine.kernels.fields import Declared
from netsim.engine.kernels.layout import INF, PORTS_OF_A_WORD
from netsim.engine.kernels.packets import PFC
from netsim.engine.state import State

RECORDS: Mapping[str, type[Declared]] = {
    "links.ports": fields.PortRecord,
    "links.switches": fields.SwitchRecord,
    "links.fibers": fields.FiberRecord,
    "hosts.nics": fields.HostRecord,
    "hosts.host_ports": fields.HostPortRecord,
    "hosts.port_choices": fields.PortChoiceRecord,
    "hosts.tx": fields.TxRecord,
    "hosts.rx": fields.RxRecord,
    "hosts.tasks": fields.TaskRecord,
    "hosts.program_hosts": fields.ProgramHostRecord,
}

SAME: Mapping[str, tuple[str, ...]] = {
    "links.ports": ("number",),
    "links.switches": ("first_port", "first_word", "first_fiber", "last_fiber"),
    "hosts.nics": ("host", "nic", "port", "first_timer", "n_timers", "heap_off"),
    "hosts.host_ports": ("nic",),
    "hosts.port_choices": ("nic", "first_pair", "n_pairs"),
    "hosts.tx": (
        "flow",
        "transport",
        "host",
        "peer",
        "first_timer",
        "bits",
        "bits_end",
        "port_choice",
    ),
    "hosts.rx": (
        "flow",
        "transport",
        "host",
        "peer",
        "first_timer",
        "bits",
        "bits_end",
        "port_choice",
    ),
    "hosts.timers": ("owner", "code"),
    "hosts.tasks": ("number", "kind", "host", "flow", "timer"),
    "hosts.program_hosts": ("host", "n_tasks", "first_task", "first_timer", "first_row", "end_row"),
}
"""Fields that no run changes."""

SAME_ARRAYS = (
    *("links.discipline", "links.size_kind", "links.fabric"),
    *("links.fault_intervals", "links.loss_table"),
    *(
        "links.outages",
        "links.reconfiguring_ports",
        "links.day_ports",
        "links.first_watched",
        "links.watched",
    ),
    *("links.watched_words", "links.level_of", "hosts.first_nic", "hosts.next_flow"),
    *(
        "hosts.next_flows",
        "hosts.next_task",
        "hosts.next_tasks",
        "hosts.receive_task",
        "hosts.pars",
    ),
    *("hosts.program", "hosts.carrier_delays", "hosts.carrier_first", "hosts.carrier_lost"),
)
"""Arrays that no run changes."""

PORT_SETS = ("unread", "busy", "dirty_ports", "waiting_ports", "indirect_ready")
GROWING = ("links.pool", "links.ingress")  # arrays whose length may differ from a new engine's

MAX_COUNTED = 1 << 60


class ImpossibleError(Exception):
    """An invalid snapshot; the text says where."""


def check(state: State, found: Mapping[str, Any], pool: int) -> None:
    """Raise ImpossibleError unless `found`, arrays by path, fit the new `state`. `found` excludes
    arrays that are saved in part; the snapshot has `pool` slots of packets."""
    fresh = {f"{group}.{name}": array for group in ("links", "hosts", "clock")
             for name, array in _named(getattr(state, group))}  # fmt: skip
    for path in SAME_ARRAYS:
        if path in found:
            _require(_bytes(found[path]) == _bytes(fresh[path]), path)
    for path, names in SAME.items():
        for name in names:
            if name in (found[path].dtype.names or ()):
                same = np.array_equal(found[path][name], np.asarray(fresh[path])[name])
                _require(same, f"{path}.{name}")
    limits = _limits(state, pool)
    for path, record in RECORDS.items():
        own = set(found[path].dtype.names or ()) - set(SAME.get(path, ()))
        for name, kind in _typed(record):
            if kind in limits and name in own:
                _within(found[path][name], -1, limits[kind], f"{path}.{name}")
    _check_rings(state, found, pool)
    _check_heaps(found["hosts.nics"], found["hosts.timers"], found["hosts.heap"])
    _check_ports(state, found)
    _check_flows(state, found)
    _check_clock(state, found)


def _limits(state: State, pool: int) -> dict[str, int]:
    """Return the exclusive upper bound of each type of field."""
    net, hosts = state.net, state.hosts
    return {
        "Slot": pool,
        "GlobalPort": net.port_node.shape[0],
        "LocalPort": int(np.diff(net.first_port).max()),
        "HostId": int(net.n_hosts),
        "NicId": hosts.nics.shape[0],
        "FlowId": hosts.tx.shape[0],
        "TaskId": hosts.tasks.shape[0],
        "TimerSlot": hosts.timers.shape[0],
    }


def _check_rings(state: State, found: Mapping[str, Any], pool: int) -> None:
    ports, readers, queues = (found[f"links.{name}"] for name in ("ports", "readers", "queues"))
    host_ports, peer = found["hosts.host_ports"], np.asarray(state.net.port_peer)
    for name in ("ring_off", "ring_mask"):
        same = np.array_equal(readers[name], ports[name][peer])
        _require(same, f"links.readers.{name}")
    _ring(readers, ("ring_off", "ring_mask", "head", "tail"), pool, "links.readers")
    _ring(queues, ("off", "mask", "head", "tail"), pool, "links.queues")
    names = ("ctrl_off", "ctrl_mask", "ctrl_head", "ctrl_tail")
    _ring(host_ports, names, pool, "hosts.host_ports")
    checked = np.array_equal(host_ports["checked"], host_ports["ctrl_tail"])
    _require(checked, "hosts.host_ports.checked")
    _within(ports["tail"], 0, MAX_COUNTED, "links.ports.tail")
    _within(ports["tail"] - readers["head"][peer], 0, pool + 1, "links.ports.tail")
    _within(found["links.pool_used"], 0, pool + 1, "links.pool_used")


def _ring(records: Any, names: tuple[str, str, str, str], pool: int, path: str) -> None:
    off, mask, head, tail = (np.asarray(records[name]) for name in names)
    _within(mask, 0, pool, f"{path}.{names[1]}")
    _require(not (mask & (mask + 1)).any(), f"{path}.{names[1]}")
    _within(off, 0, pool, f"{path}.{names[0]}")
    _within(off + mask, 0, pool, f"{path}.{names[0]}")
    for name, ends in ((names[2], head), (names[3], tail)):
        _within(ends, 0, MAX_COUNTED, f"{path}.{name}")
    length = tail - head
    _require(bool(((length >= 0) & (length <= mask + 1)).all()), f"{path}.{names[3]}")


def _check_heaps(nics: Any, timers: Any, heap: Any) -> None:
    """Check that heaps fit and that timers know their positions in them."""
    begins = np.unique(nics["heap_off"])
    room = np.append(begins[1:] - 1, heap.size) - begins
    length = heap[begins - 1]
    _require(bool(((length >= 0) & (length <= room)).all()), "hosts.heap")
    within = np.arange(length.sum()) - np.repeat(np.cumsum(length) - length, length)
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
    levels, samples = found["links.levels"], found["links.samples"]
    _within(levels["row"], 0, samples.shape[0] + 1, "links.levels.row")


def _check_clock(state: State, found: Mapping[str, Any]) -> None:
    clock, n_nodes = found["clock.clock"], found["clock.next_event"].shape[0]
    _within(clock["n_active"], 0, n_nodes + 1, "clock.clock.n_active")
    _within(clock["resume"], 0, 1, "clock.clock.resume")
    _within(clock["slot"], -1, state.clock.slots.shape[0] + 1, "clock.clock.slot")
    for name in ("w0", "w1", "hops", "windows", "payload_bytes"):
        _within(clock[name], 0, int(INF) + 1, f"clock.clock.{name}")
    _within(found["clock.active"], 0, n_nodes, "clock.active")


def check_packets(state: State, packets: Any, classes: int) -> None:
    """Raise ImpossibleError for a packet with impossible fields. PFC frames, which stay on one
    link, have no flow or destination."""
    carried = packets[packets["kind"] != PFC]
    _within(carried["flow"], 0, state.hosts.tx.shape[0], "links.pool.flow")
    _within(carried["dst"], 0, state.net.host_port.shape[0], "links.pool.dst")
    _within(packets["prio"], 0, classes, "links.pool.prio")


def _typed(record: type[Declared]) -> list[tuple[str, str]]:
    return [
        (name, str(kind))
        for cls in reversed(record.__mro__)
        for name, kind in inspect.get_annotations(cls).items()
    ]


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
