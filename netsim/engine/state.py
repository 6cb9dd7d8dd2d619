"""Building the engine's arrays from a network, its flows, a fabric and a transport."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from netsim.bounds.ideal import ideal_times
from netsim.engine.balance import ECMP, LEAST_LOADED, SPRAY_PERMUTATION, SPRAY_RANDOM, SPRAY_RR
from netsim.engine.ids import Array
from netsim.engine.layout import (
    BALANCE,
    CHARGE,
    CLOCK,
    FABRIC,
    FAULT,
    INBOX,
    INF,
    LOSS,
    N_BUCKETS,
    PARTS,
    PORT,
    QUEUE,
    TIMER,
    TIMER_RX,
    TIMER_START,
    TIMER_TX,
    Clock,
    Ends,
    Net,
    Scratch,
    Wires,
    grouped,
)
from netsim.engine.protocol import Protocol
from netsim.engine.records import RecordArray
from netsim.engine.sizes import Sizes, longest_window_ps
from netsim.engine.trace import Trace
from netsim.limits import RATE_SHIFT
from netsim.model.arithmetic import (
    PURPOSE_ECMP,
    PURPOSE_PERMUTATION,
    PURPOSE_SPRAY,
    byte_quotient,
    salt,
)
from netsim.model.fabric import Fabric, PacketFormat
from netsim.model.faults import LinkFaults
from netsim.model.flows import FlowTable
from netsim.model.network import Network

BALANCING = {
    "ecmp": ECMP,
    "spray_random": SPRAY_RANDOM,
    "spray_rr": SPRAY_RR,
    "spray_permutation": SPRAY_PERMUTATION,
    "least_loaded": LEAST_LOADED,
}


@dataclass
class State:
    """The complete state of a simulation, as groups of arrays."""

    net: Net
    wires: Wires
    ends: Ends
    clock: Clock
    scratch: Scratch
    pool_used: int


def features(fabric: Fabric, with_faults: bool) -> dict[str, Any]:
    """The constants for which the engine is specialised."""
    at = fabric.ecn.at if fabric.ecn is not None else None
    return {
        "N_CLASSES": fabric.n_classes,
        "TRIM": fabric.model == "trim",
        "LOSSLESS": fabric.model == "lossless",
        "DYNAMIC": fabric.model == "lossless" and fabric.shared_buffer_bytes is not None,
        "ECN_ENQUEUE": at == "enqueue",
        "ECN_DEQUEUE": at == "dequeue",
        "COUPLED": is_coupled(fabric),
        "BALANCING": BALANCING[fabric.load_balancing],
        "FAULTS": with_faults,
    }


def is_coupled(fabric: Fabric) -> bool:
    """Do a switch's ports influence each other under this fabric?"""
    return fabric.model == "lossless" or fabric.load_balancing == "least_loaded"


def attribute_access(group: Any) -> Any:
    """The group with its records readable as ``record.field`` in plain Python too."""
    views: dict[str, Any] = {}
    for name, value in group._asdict().items():
        if isinstance(value, np.ndarray) and value.dtype.names:
            views[name] = value.view(RecordArray)
        elif isinstance(value, tuple):
            views[name] = attribute_access(value)
    return group._replace(**views)


def aligned_zeros(n: int, dtype: np.dtype) -> np.ndarray:
    """``n`` zeroed records that begin on a cache line, so that none straddles two needlessly."""
    line = 64
    raw = np.zeros(n * dtype.itemsize + line, np.uint8)
    start = -raw.ctypes.data % line
    return raw[start : start + n * dtype.itemsize].view(dtype)


def build_net(network: Network, seed: int) -> Net:
    return grouped(
        Net,
        n_hosts=network.n_hosts,
        n_groups=network.n_groups,
        first_port=network.node_first_port,
        port_node=network.port_node,
        port_peer=network.port_peer,
        host_group=network.host_group,
        host_port=network.host_port,
        route=network.route,
        route_ports=network.route_ports,
        node_salt=salt(seed, PURPOSE_ECMP, np.arange(network.n_nodes, dtype=np.int64)),
    )


def build_wires(
    network: Network,
    fabric: Fabric,
    packets: PacketFormat,
    packet: np.dtype,
    faults: LinkFaults | None,
    seed: int,
    sizes: Sizes,
    trace: Trace | Array,
) -> tuple[Wires, int]:
    """The packets' side of the state, and the number of pool slots in use.

    The pool holds, in this order: the links' rings, the switch ports' class queues, the
    hosts' control FIFOs, and spare room to grow into.
    """
    n, h, c = network.n_ports, network.n_hosts, fabric.n_classes
    queues_at = n * sizes.link_slots
    control_at = queues_at + (n - h) * c * sizes.queue_slots
    used = control_at + h * sizes.control_slots
    total = 4 * used + 4096  # costs nothing until it is touched; moving the pool does

    ports = aligned_zeros(n, PORT)
    ports["ring_off"] = np.arange(n) * sizes.link_slots
    ports["ring_mask"] = sizes.link_slots - 1
    ports["ps_per_byte_q20"] = byte_quotient(network.port_rate_bps)
    ports["delay_ps"] = network.port_delay_ps
    inbox = aligned_zeros(n, INBOX)
    inbox["ring_off"] = ports["ring_off"][network.port_peer]
    inbox["ring_mask"] = sizes.link_slots - 1

    # Host ports come first; they have counters only, their packets wait in the control FIFO.
    queues = aligned_zeros(n * c, QUEUE)
    queues["off"][h * c :] = queues_at + np.arange((n - h) * c) * sizes.queue_slots
    queues["mask"][h * c :] = sizes.queue_slots - 1

    entity = np.arange(n, dtype=np.int64)
    balance = np.zeros(n, BALANCE)
    balance["salt_random"] = salt(seed, PURPOSE_SPRAY, entity)
    balance["salt_data"] = salt(seed, PURPOSE_PERMUTATION, 2 * entity + 1)
    balance["salt_other"] = salt(seed, PURPOSE_PERMUTATION, 2 * entity)
    wires = grouped(
        Wires,
        pool=aligned_zeros(total, packet),
        blank=np.zeros(1, packet),
        ingress=np.zeros(total if fabric.model == "lossless" else 1, np.int32),
        ports=ports,
        inbox=inbox,
        balance=balance,
        queues=queues,
        charges=aligned_zeros(n * c if fabric.model == "lossless" else 1, CHARGE),
        used_bytes=np.zeros(network.n_nodes, np.int64),
        head_seen=np.zeros(n, np.int64),
        new_tail=np.zeros(n, np.int64),
        first_new=np.full(n, INF, np.int64),
        link_need=np.zeros(n, np.int64),
        queue_need=np.zeros(n * c, np.int64),
        fabric=_fabric_record(fabric, packets, seed),
        trace=trace,
        **_fault_state(faults, n, c),
    )
    return wires, used


def _fault_state(faults: LinkFaults | None, n_ports: int, n_classes: int) -> dict[str, Any]:
    """The arrays of Wires that say what goes wrong on which link."""
    if faults is None:
        faults, n_ports, n_classes = LinkFaults.none(1), 1, 1
    state = np.zeros(n_ports, FAULT)
    state["profile"] = faults.profile
    state["first_outage"] = faults.outage_ptr[:-1]
    state["last_outage"] = faults.outage_ptr[1:]
    return {
        "faults": state,
        "losses": np.zeros(n_ports * n_classes, LOSS),
        "loss_table": faults.loss_table,
        "outages": faults.outages_ps,
    }


def _fabric_record(fabric: Fabric, packets: PacketFormat, seed: int) -> Any:
    rec = np.zeros(1, FABRIC)
    for name in FABRIC.names or ():
        value = getattr(fabric, name, None)
        if value is not None:
            rec[name] = value
    rec["seed"] = seed
    rec["control_bytes"] = packets.control_bytes
    if fabric.ecn is not None:
        rec["kmin_bytes"] = fabric.ecn.kmin_bytes
        rec["kmax_bytes"] = fabric.ecn.kmax_bytes
        rec["pmax"] = fabric.ecn.pmax
    return rec


def build_ends(
    network: Network,
    flows: FlowTable,
    packets: PacketFormat,
    protocol: Protocol,
    pars: Sequence[Mapping[str, int | float]],
    transport_of_flow: np.ndarray,
    seed: int,
    control_at: int,
    control_slots: int,
) -> Ends:
    """The hosts' side of the state."""
    h, n = network.n_hosts, len(flows)
    n_packets = -(-flows.size_bytes // packets.payload_bytes)
    words = (n_packets + 31) >> 5

    tx = np.zeros(n, protocol.tx)
    rx = np.zeros(n, protocol.rx)
    for side, here, there in ((tx, flows.src, flows.dst), (rx, flows.dst, flows.src)):
        side["flow"] = np.arange(n)
        side["transport"] = transport_of_flow
        side["host"] = here
        side["peer"] = there
        side["size_bytes"] = flows.size_bytes
        side["n_packets"] = n_packets
        side["last_bytes"] = flows.size_bytes - (n_packets - 1) * packets.payload_bytes
        side["prio"] = flows.cls
    one_packet = FlowTable(flows.src, flows.dst, np.full(n, packets.payload_bytes))
    q20 = byte_quotient(network.port_rate_bps[flows.src])
    tx["next_ready"] = -1
    tx["start_ps"] = flows.start_ps
    tx["acked_ps"] = -1
    tx["ps_per_byte_q20"] = q20
    tx["base_rtt_ps"] = ideal_times(network, one_packet, packets).acked_ps
    tx["bdp_bytes"] = (tx["base_rtt_ps"].astype(float) * 2**RATE_SHIFT / q20).astype(np.int64)
    rx["done_ps"] = -1
    rx["next_done"] = -1

    # A sender's are followed by the engine's own, of packets that were skipped.
    tx_words, rx_words = words * (protocol.tx_bitmaps + 1), words * protocol.rx_bitmaps
    n_words = int(tx_words.sum() + rx_words.sum())
    tx["bits"] = np.cumsum(tx_words) - tx_words
    rx["bits"] = tx_words.sum() + np.cumsum(rx_words) - rx_words
    tx["bits_end"] = tx["bits"] + words * protocol.tx_bitmaps
    rx["bits_end"] = rx["bits"] + rx_words

    hosts = np.zeros(h, protocol.host)
    hosts["host"] = np.arange(h)
    hosts["port"] = network.node_first_port[:h]
    hosts["ps_per_byte_q20"] = byte_quotient(network.port_rate_bps[:h])
    hosts["ctrl_off"] = control_at + np.arange(h) * control_slots
    hosts["ctrl_mask"] = control_slots - 1
    for field in ("ready_head", "ready_tail", "done_head"):
        hosts[field] = -1

    next_flow, next_flows = _successors(flows)
    if flows.after_ptr is not None:
        tx["waits_for"] = np.diff(flows.after_ptr)
    timers, heap = _build_timers(hosts, tx, rx, protocol)
    bits = np.zeros(max(1, n_words), np.int64)
    common = {
        "payload_bytes": packets.payload_bytes,
        "header_bytes": packets.header_bytes,
        "control_bytes": packets.control_bytes,
        "seed": seed,
    }
    kinds = [(f"transport{i}", dtype) for i, dtype in enumerate(protocol.pars)]
    records = np.zeros(1, np.dtype(kinds, align=True))
    for (name, _), par in zip(kinds, pars, strict=True):
        for field, value in {**par, **common}.items():
            records[name][field] = value
    return grouped(
        Ends,
        hosts=hosts,
        tx=tx,
        rx=rx,
        timers=timers,
        heap=heap,
        bits=bits,
        pars=records,
        next_flow=next_flow,
        next_flows=next_flows,
    )


def _parameters(dtype: np.dtype, values: Mapping[str, int | float]) -> np.ndarray:
    rec = np.zeros(1, dtype)
    for name, value in values.items():
        rec[name] = value
    return rec


def _successors(flows: FlowTable) -> tuple[np.ndarray, np.ndarray]:
    """Transpose "f waits for g": for each flow, those that wait for it."""
    n = len(flows)
    if flows.after_ptr is None or flows.after_flow is None:
        return np.zeros(n + 1, np.int64), np.zeros(1, np.int64)
    waiter = np.repeat(np.arange(n), np.diff(flows.after_ptr))
    order = np.argsort(flows.after_flow, kind="stable")
    counts = np.bincount(flows.after_flow, minlength=n)
    return np.concatenate([[0], np.cumsum(counts)]).astype(np.int64), waiter[order].astype(np.int64)


def _build_timers(hosts: Any, tx: Any, rx: Any, protocol: Protocol) -> tuple[Any, np.ndarray]:
    """Number the timers host by host: the host's own, then its sending, then its receiving flows'.

    Flows that wait for nothing have their start timer set.
    """
    h, n = hosts.shape[0], tx.shape[0]
    per_tx, per_rx = 1 + protocol.tx_timers, protocol.rx_timers
    own = protocol.host_timers
    n_tx = np.bincount(tx["host"], minlength=h)
    n_rx = np.bincount(rx["host"], minlength=h)
    per_host = own + n_tx * per_tx + n_rx * per_rx
    first = np.cumsum(per_host) - per_host
    hosts["first_timer"] = first
    hosts["n_timers"] = per_host
    hosts["heap_off"] = first

    def rank(side: Any, counts: np.ndarray) -> np.ndarray:
        """Position of each flow among those of its host, in flow order."""
        order = np.argsort(side["host"], kind="stable")
        ranks = np.empty(n, np.int64)
        ranks[order] = np.arange(n) - np.repeat(np.cumsum(counts) - counts, counts)
        return ranks

    start = first[tx["host"]] + own + rank(tx, n_tx) * per_tx
    tx["first_timer"] = start + 1
    rx["first_timer"] = (
        first[rx["host"]] + own + (n_tx * per_tx)[rx["host"]] + rank(rx, n_rx) * per_rx
    )
    # So many more than there are that looking for one that does not exist stays inside.
    timers = np.zeros(int(per_host.sum()) + TIMER_RX, TIMER)
    timers["owner"] = -1
    timers["deadline"] = INF
    timers["key"] = INF
    timers["pos"] = -1
    for k in range(own):
        timers["owner"][first + k] = np.arange(h)
        timers["code"][first + k] = k
    timers["owner"][start] = np.arange(n)
    timers["code"][start] = TIMER_START
    for k in range(protocol.tx_timers):
        timers["owner"][start + 1 + k] = np.arange(n)
        timers["code"][start + 1 + k] = TIMER_TX + k
    for k in range(per_rx):
        timers["owner"][rx["first_timer"] + k] = np.arange(n)
        timers["code"][rx["first_timer"] + k] = TIMER_RX + k

    heap = np.zeros(max(1, int(per_host.sum())), np.int64)
    free = np.flatnonzero(tx["waits_for"] == 0)
    slots, at = start[free], tx["start_ps"][free]
    timers["deadline"][slots] = at
    timers["key"][slots] = at
    # Sorted by (host, time, slot), each host's stretch is a valid heap.
    order = np.lexsort((slots, at, tx["host"][free]))
    host = tx["host"][free][order]
    counts = np.bincount(host, minlength=h)
    pos = np.arange(free.size) - np.repeat(np.cumsum(counts) - counts, counts)
    heap[first[host] + pos] = slots[order]
    timers["pos"][slots[order]] = pos
    hosts["heap_len"] = counts
    return timers, heap


def build_clock(network: Network, ends: Ends, window_ps: int | None) -> Clock:
    """The clock before the first window: hosts wake at their first flow's start."""
    clock = np.zeros(1, CLOCK)
    longest_ps = longest_window_ps(network)
    clock["lookahead_ps"] = network.lookahead_ps
    clock["window_ps"] = min(longest_ps, window_ps or longest_ps)
    next_event = np.full(network.n_nodes, INF, np.int64)
    hosts = ends.hosts
    started = np.flatnonzero(hosts["heap_len"] > 0)
    top = ends.heap[hosts["heap_off"][started]]
    next_event[started] = ends.timers["key"][top]
    n = network.n_nodes
    return grouped(
        Clock,
        clock=clock,
        next_event=next_event,
        active=np.zeros(n, np.int64),
        status=np.zeros(n, np.int64),
        what=np.zeros(n, np.int64),
        tickets=np.zeros(1, np.int64),
        parts=np.zeros(1, PARTS),
    )


def build_scratch(network: Network, n_workers: int, capacity: int) -> Scratch:
    """Working memory for ``n_workers`` and ``capacity`` arrivals in a window at one switch."""
    most_ports = int(np.diff(network.node_first_port).max())
    w = n_workers
    return grouped(
        Scratch,
        keys=np.zeros((w, 2, capacity), np.int64),
        slots=np.zeros((w, capacity), np.int64),
        outs=np.zeros((w, capacity), np.int32),
        buckets=np.zeros((w, N_BUCKETS + 1), np.int64),
        starts=np.zeros((w, most_ports + 2), np.int64),
        undo=np.zeros((w, 4 * most_ports), np.int64),
        calendar=np.zeros((w, N_BUCKETS), np.int64),
        later=np.zeros((w, most_ports), np.int64),
        words=np.zeros((w, N_BUCKETS // 32), np.int64),
    )
