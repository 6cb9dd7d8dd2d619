"""The hosts' side of the state as a run begins: hosts, flows, their timers and bitmaps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from netsim.bounds.ideal import ideal_times
from netsim.engine.compiling.protocol import Protocol
from netsim.engine.kernels.ids import Array
from netsim.engine.kernels.layout import (
    INF,
    TIMER,
    TIMER_RX,
    TIMER_START,
    TIMER_TASK,
    TIMER_TX,
    Ends,
    grouped,
)
from netsim.engine.simulation import Simulation
from netsim.engine.sizes import Rings
from netsim.engine.tasks import build_tasks, waiting
from netsim.limits import RATE_SHIFT
from netsim.model.arithmetic import byte_quotient
from netsim.model.fabric import packet_counts
from netsim.model.flows import FlowTable
from netsim.model.network import Network


def build_ends(
    simulation: Simulation,
    protocol: Protocol,
    pars: Sequence[Mapping[str, int | float]],
    rings: Rings,
) -> Ends:
    """The hosts' side of the state; ``pars`` are the parameters of each transport."""
    flows = simulation.flows
    tx, rx = _sides(simulation, protocol)
    bits = _bitmaps(tx, rx, protocol)
    hosts = _hosts(simulation.network, protocol, rings)
    found = waiting(simulation)
    next_flow, next_flows = _successors(flows, found.elsewhere)
    built = build_tasks(found.tasks, flows)
    tx["waits_for"] = np.bincount(next_flows[:-1], minlength=len(flows))
    if found.tasks is not None:
        tx["waits_for"][built.send_task >= 0] = 1
    timers, heap = _build_timers(hosts, tx, rx, built.tasks, protocol)
    return grouped(
        Ends,
        hosts=hosts,
        tx=tx,
        rx=rx,
        timers=timers,
        heap=heap,
        bits=bits,
        pars=_parameters(simulation, protocol, pars),
        next_flow=next_flow,
        next_flows=next_flows,
        **vars(built),
    )


def _sides(simulation: Simulation, protocol: Protocol) -> tuple[np.ndarray, np.ndarray]:
    """The records of all flows, at their senders and at their receivers."""
    network, flows, packets = simulation.network, simulation.flows, simulation.packets
    n = len(flows)
    n_packets = packet_counts(flows.size_bytes, packets)
    tx = np.zeros(n, protocol.tx)
    rx = np.zeros(n, protocol.rx)
    for side, here, there in ((tx, flows.src, flows.dst), (rx, flows.dst, flows.src)):
        side["flow"] = np.arange(n)
        if simulation.transport_of_flow is not None:
            side["transport"] = simulation.transport_of_flow
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
    return tx, rx


def _bitmaps(tx: np.ndarray, rx: np.ndarray, protocol: Protocol) -> Array:
    """Empty bitmaps of all flows; sets where each side's begin and end."""
    words = (tx["n_packets"] + 31) >> 5
    # A sender's are followed by the engine's own, of packets that were skipped.
    tx_words, rx_words = words * (protocol.tx_bitmaps + 1), words * protocol.rx_bitmaps
    tx["bits"] = np.cumsum(tx_words) - tx_words
    rx["bits"] = tx_words.sum() + np.cumsum(rx_words) - rx_words
    tx["bits_end"] = tx["bits"] + words * protocol.tx_bitmaps
    rx["bits_end"] = rx["bits"] + rx_words
    return np.zeros(max(1, int(tx_words.sum() + rx_words.sum())), np.int64)


def _hosts(network: Network, protocol: Protocol, rings: Rings) -> np.ndarray:
    h = network.n_hosts
    slots = rings.sizes.control_slots
    hosts = np.zeros(h, protocol.host)
    hosts["host"] = np.arange(h)
    hosts["port"] = network.node_first_port[:h]
    hosts["ps_per_byte_q20"] = byte_quotient(network.port_rate_bps[:h])
    hosts["ctrl_off"] = rings.control_at + np.arange(h) * slots
    hosts["ctrl_mask"] = slots - 1
    for field in ("ready_head", "ready_tail", "done_head"):
        hosts[field] = -1
    return hosts


def _parameters(
    simulation: Simulation, protocol: Protocol, pars: Sequence[Mapping[str, int | float]]
) -> np.ndarray:
    """A record that holds one record for each transport: ``transport0``, ..."""
    packets = simulation.packets
    common = {
        "payload_bytes": packets.payload_bytes,
        "header_bytes": packets.header_bytes,
        "control_bytes": packets.control_bytes,
        "seed": simulation.seed,
    }
    kinds = [(f"transport{i}", dtype) for i, dtype in enumerate(protocol.pars)]
    records = np.zeros(1, np.dtype(kinds, align=True))
    for (name, _), par in zip(kinds, pars, strict=True):
        for field, value in {**par, **common}.items():
            records[name][field] = value
    return records


def _successors(flows: FlowTable, elsewhere: Array) -> tuple[np.ndarray, np.ndarray]:
    """Transpose "f waits for g", where that is out of band: for each flow, who waits for it."""
    n = len(flows)
    if flows.after_ptr is None or flows.after_flow is None:
        return np.zeros(n + 1, np.int64), np.zeros(1, np.int64)
    waiter = np.repeat(np.arange(n), np.diff(flows.after_ptr))[elsewhere]
    after = flows.after_flow[elsewhere]
    counts = np.bincount(after, minlength=n)
    followers = np.append(waiter[np.argsort(after, kind="stable")], -1)
    return np.concatenate([[0], np.cumsum(counts)]).astype(np.int64), followers


def _build_timers(
    hosts: Any, tx: Any, rx: Any, tasks: Any, protocol: Protocol
) -> tuple[Any, np.ndarray]:
    """Number the timers: of each host its own, then those of what it sends, receives and does.

    Flows and tasks that wait for nothing have theirs set.
    """
    h, n = hosts.shape[0], tx.shape[0]
    per_tx, per_rx = 1 + protocol.tx_timers, protocol.rx_timers
    own = protocol.host_timers
    n_tx = np.bincount(tx["host"], minlength=h)
    n_rx = np.bincount(rx["host"], minlength=h)
    n_tasks = np.bincount(tasks["host"], minlength=h)
    per_host = own + n_tx * per_tx + n_rx * per_rx + n_tasks
    first = np.cumsum(per_host) - per_host
    hosts["first_timer"] = first
    hosts["n_timers"] = per_host
    hosts["heap_off"] = first

    def rank(side: Any, counts: np.ndarray) -> np.ndarray:
        """Position of each among those of its host, in order."""
        order = np.argsort(side["host"], kind="stable")
        ranks = np.empty(order.size, np.int64)
        ranks[order] = np.arange(order.size) - np.repeat(np.cumsum(counts) - counts, counts)
        return ranks

    start = first[tx["host"]] + own + rank(tx, n_tx) * per_tx
    tx["first_timer"] = start + 1
    rx["first_timer"] = (
        first[rx["host"]] + own + (n_tx * per_tx)[rx["host"]] + rank(rx, n_rx) * per_rx
    )
    tasks["timer"] = (first + per_host - n_tasks)[tasks["host"]] + rank(tasks, n_tasks)
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

    timers["owner"][tasks["timer"]] = np.arange(tasks.size)
    timers["code"][tasks["timer"]] = TIMER_TASK

    heap = np.zeros(max(1, int(per_host.sum())), np.int64)
    free = np.flatnonzero(tx["waits_for"] == 0)
    first_tasks = tasks[(tasks["edges"] == 0) & (tasks["held"] == 0)]
    slots = np.concatenate([start[free], first_tasks["timer"]])
    at = np.concatenate([tx["start_ps"][free], np.zeros(first_tasks.size, np.int64)])
    timers["deadline"][slots] = at
    timers["key"][slots] = at
    # Sorted by (host, time, slot), each host's stretch is a valid heap.
    hosts_of = np.concatenate([tx["host"][free], first_tasks["host"]])
    order = np.lexsort((slots, at, hosts_of))
    host = hosts_of[order]
    counts = np.bincount(host, minlength=h)
    pos = np.arange(order.size) - np.repeat(np.cumsum(counts) - counts, counts)
    heap[first[host] + pos] = slots[order]
    timers["pos"][slots[order]] = pos
    hosts["heap_len"] = counts
    return timers, heap
