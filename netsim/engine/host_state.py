"""Initial state of hosts and flows, with timers and bitmaps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from netsim.bounds.ideal import round_trips
from netsim.engine.circuits import phases
from netsim.engine.compiling.declarations import Program, Protocol
from netsim.engine.kernels.ids import Array
from netsim.engine.kernels.layout import (
    HOST_PORT,
    INF,
    PORT_CHOICE,
    TIMER,
    TIMER_BEGIN,
    TIMER_PROGRAM,
    TIMER_RX,
    TIMER_START,
    TIMER_TASK,
    TIMER_TX,
    HostState,
    grouped,
)
from netsim.engine.records import aligned_zeros
from netsim.engine.simulation import Simulation
from netsim.engine.tasks import Tasks, build_tasks, waiting
from netsim.limits import RATE_SHIFT
from netsim.model.arithmetic import (
    PURPOSE_ENTROPY,
    PURPOSE_PLANE_PERMUTATION,
    byte_quotient,
    mix,
    salt,
)
from netsim.model.fabric import packet_counts
from netsim.model.faults import times_without_carrier
from netsim.model.flows import FlowTable
from netsim.model.network import Network
from netsim.model.port_pairs import ENTROPY, HASH, PortPairs, draws_of, pairs_used, port_pairs_of


def build_hosts(
    simulation: Simulation,
    protocol: Protocol,
    program: Program,
    pars: Sequence[Mapping[str, int | float]],
) -> HostState:
    """Return the hosts' state; ``pars`` are the parameters of each transport."""
    network, flows = simulation.network, simulation.flows
    port_pairs = pairs_used(network, flows, simulation.fabric.plane_balancing, simulation.seed)
    carrier = simulation.feature_set.carrier
    tx, rx = _sides(simulation, protocol, port_pairs)
    bits = _bitmaps(tx, rx, protocol)
    nics = _nics(network, protocol)
    used_ports = port_pairs.src_port, port_pairs.dst_port
    flow_nics = tuple(network.nic_of_port[side[port_pairs.first[:-1]]] for side in used_ports)
    found = waiting(simulation)
    next_flow, next_flows = _successors(flows, found.elsewhere)
    built = build_tasks(found.tasks, simulation, program)
    tx["waits_for"] = np.bincount(next_flows[:-1], minlength=len(flows))
    if found.tasks is not None:
        tx["waits_for"][built.send_task >= 0] = 1
    timers, heap = _build_timers(nics, (tx, rx), flow_nics, built, (protocol, program))
    return grouped(
        HostState,
        nics=nics,
        first_nic=network.first_nic,
        host_ports=_host_ports(network),
        **_port_choices(
            simulation, port_pairs_of(network, flows) if carrier else port_pairs, flow_nics
        ),
        **_carrier(simulation),
        tx=tx,
        rx=rx,
        timers=timers,
        heap=heap,
        bits=bits,
        pars=_parameters(simulation, protocol, pars),
        next_flow=next_flow,
        next_flows=next_flows,
        phase=phases(simulation),
        **vars(built),
    )


def _sides(
    simulation: Simulation, protocol: Protocol, port_pairs: PortPairs
) -> tuple[np.ndarray, np.ndarray]:
    """Return the sender and receiver records of all flows."""
    network, flows, packets = simulation.network, simulation.flows, simulation.packets
    n = len(flows)
    n_packets = packet_counts(flows.size_bytes, packets)
    tx = aligned_zeros(n, protocol.tx)
    rx = aligned_zeros(n, protocol.rx)
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
    if network.has_several_ports or network.n_tables > 1:
        tx["port_choice"], rx["port_choice"] = np.arange(n), n + np.arange(n)
    rate_bps = np.add.reduceat(network.port_rate_bps[port_pairs.src_port], port_pairs.first[:-1])
    q20 = byte_quotient(rate_bps)
    if _pair_by_entropy(simulation):
        draws = mix(salt(simulation.seed, PURPOSE_ENTROPY, np.arange(n)))
        tx["entropy"] = rx["entropy"] = draws & 0xFFFF
    tx["next_ready"] = -1
    tx["start_ps"] = flows.start_ps
    tx["acked_ps"] = -1
    tx["ps_per_byte_q20"] = q20
    tx["base_rtt_ps"] = round_trips(network, port_pairs, packets)
    tx["bdp_bytes"] = (tx["base_rtt_ps"].astype(float) * 2**RATE_SHIFT / q20).astype(np.int64)
    rx["done_ps"] = -1
    rx["next_done"] = -1
    return tx, rx


def _bitmaps(tx: np.ndarray, rx: np.ndarray, protocol: Protocol) -> Array:
    """Return empty bitmaps of all flows; set where each side's begin and end."""
    words = (tx["n_packets"] + 31) >> 5
    # A sender's bitmaps, then the engine's own of skipped packets.
    tx_words, rx_words = words * (protocol.tx_bitmaps + 1), words * protocol.rx_bitmaps
    tx["bits"] = np.cumsum(tx_words) - tx_words
    rx["bits"] = tx_words.sum() + np.cumsum(rx_words) - rx_words
    tx["bits_end"] = tx["bits"] + words * protocol.tx_bitmaps
    rx["bits_end"] = rx["bits"] + rx_words
    return np.zeros(max(1, int(tx_words.sum() + rx_words.sum())), np.int64)


def _nics(network: Network, protocol: Protocol) -> np.ndarray:
    """Return the NICs of all hosts."""
    n_nics = int(network.first_nic[-1])
    nics = np.zeros(n_nics, protocol.host)
    nics["nic"] = np.arange(n_nics)
    nics["host"] = np.repeat(np.arange(network.n_hosts), np.diff(network.first_nic))
    nics["port"] = network.node_first_port[nics["host"]]
    nics["ps_per_byte_q20"] = byte_quotient(network.nic_rate_bps)
    nics["done_head"] = -1
    return nics


def _host_ports(network: Network) -> np.ndarray:
    """Return the host ports, with empty queues."""
    host_ports = np.zeros(network.n_host_ports, HOST_PORT)
    host_ports["ready_head"] = host_ports["ready_tail"] = -1
    host_ports["nic"] = network.nic_of_port
    return host_ports


def _port_choices(
    simulation: Simulation, port_pairs: PortPairs, flow_nics: Sequence[Array]
) -> dict[str, np.ndarray]:
    """Return the port choices of all flows, with several host ports or routing tables."""
    rows = [
        np.stack([port_pairs.src_port, port_pairs.data_to, port_pairs.control_to], axis=1),
        np.stack([port_pairs.dst_port, port_pairs.control_back, port_pairs.control_back], axis=1),
    ]
    table = np.concatenate(rows).astype(np.int32)
    if not simulation.network.has_several_ports:
        several = simulation.network.n_tables > 1
        return {
            "port_choices": np.zeros(1, PORT_CHOICE),
            "port_pairs": table if several else table[:1],
        }
    n, total = len(simulation.flows), int(port_pairs.first[-1])
    port_choices = np.zeros((2, n), PORT_CHOICE)  # senders, receivers
    port_choices["nic"] = flow_nics
    port_choices["first_pair"] = port_pairs.first[:-1], total + port_pairs.first[:-1]
    port_choices["n_pairs"] = port_pairs.counts
    entity = 4 * np.arange(n)
    for field, number in (("salt_data", 0), ("salt_control", 1)):
        for side in range(2):
            at = entity + 2 * side + number
            port_choices[field][side] = salt(simulation.seed, PURPOSE_PLANE_PERMUTATION, at)
    if simulation.fabric.plane_balancing == HASH:
        port_choices["salt_data"] = draws_of(n, simulation.seed)
    return {"port_choices": port_choices.reshape(-1), "port_pairs": table}


def _carrier(simulation: Simulation) -> dict[str, np.ndarray]:
    """Return when host ports have no carrier; minimal if hosts do not detect it."""
    faults = simulation.faults
    delays, first, lost = np.zeros(2, np.int64), np.zeros(1, np.int64), np.zeros((1, 2), np.int64)
    if simulation.feature_set.carrier and faults is not None and faults.carrier is not None:
        delays[:] = faults.carrier.own_ps, faults.carrier.other_ps
        first, lost = times_without_carrier(
            simulation.network, faults.outage_ptr, faults.outages_ps
        )
    return {"carrier_delays": delays, "carrier_first": first, "carrier_lost": lost}


def _pair_by_entropy(simulation: Simulation) -> bool:
    """Return whether flows choose their port by entropy."""
    return simulation.network.has_several_ports and simulation.fabric.plane_balancing == ENTROPY


def _parameters(
    simulation: Simulation, protocol: Protocol, pars: Sequence[Mapping[str, int | float]]
) -> np.ndarray:
    """Return a record with one record per transport: ``transport0``, ..."""
    packets = simulation.packets
    common = {
        "payload_bytes": packets.payload_bytes,
        "header_bytes": packets.header_bytes,
        "control_bytes": packets.control_bytes,
        "seed": simulation.seed,
        "pair_by_entropy": int(_pair_by_entropy(simulation)),
    }
    kinds = [(f"transport{i}", dtype) for i, dtype in enumerate(protocol.pars)]
    records = np.zeros(1, np.dtype(kinds, align=True))
    for (name, _), par in zip(kinds, pars, strict=True):
        for field, value in {**par, **common}.items():
            records[name][field] = value
    return records


def _successors(flows: FlowTable, elsewhere: Array) -> tuple[np.ndarray, np.ndarray]:
    """Return, as CSR, the flows that wait for each flow out of band."""
    n = len(flows)
    if flows.after_ptr is None or flows.after_flow is None:
        return np.zeros(n + 1, np.int64), np.zeros(1, np.int64)
    waiter = np.repeat(np.arange(n), np.diff(flows.after_ptr))[elsewhere]
    after = flows.after_flow[elsewhere]
    counts = np.bincount(after, minlength=n)
    followers = np.append(waiter[np.argsort(after, kind="stable")], -1)
    return np.concatenate([[0], np.cumsum(counts)]).astype(np.int64), followers


def _build_timers(
    nics: Any,
    sides: tuple[Any, Any],
    flow_nics: Sequence[Array],
    built: Tasks,
    files: tuple[Protocol, Program],
) -> tuple[Any, np.ndarray]:
    """Number the timers, host by host.

    First those of each NIC, then those of the flows it sends and receives; then the program's start
    timer, those of tasks, and the program's own. ``flow_nics`` are the NICs of the flows'
    ``sides``. Timers of flows and tasks that wait for nothing are set.
    """
    protocol, program = files
    tasks: Any = built.tasks
    n_nics, h = nics.shape[0], int(nics["host"][-1]) + 1
    (tx, rx), (tx_nic, rx_nic) = sides, flow_nics
    n = tx.shape[0]
    per_tx, per_rx = 1 + protocol.tx_timers, protocol.rx_timers
    own = protocol.host_timers
    n_tx = np.bincount(tx_nic, minlength=n_nics)
    n_rx = np.bincount(rx_nic, minlength=n_nics)
    per_nic = own + n_tx * per_tx + n_rx * per_rx
    n_tasks = np.bincount(tasks["host"], minlength=h)
    begins = np.zeros(h, np.int64)
    if program.modules:
        begins[built.program_hosts["n_tasks"] > 0] = 1
    behind = n_tasks + begins * (1 + program.timers)
    per_host = np.bincount(nics["host"], per_nic, h).astype(np.int64) + behind
    first_of_host = np.cumsum(per_host) - per_host
    behind_before = np.cumsum(behind) - behind
    first = np.cumsum(per_nic) - per_nic + behind_before[nics["host"]]
    heap_off = 1 + np.arange(h) + first_of_host
    nics["first_timer"] = first
    nics["n_timers"] = per_nic
    nics["heap_off"] = heap_off[nics["host"]]

    def rank(owner: np.ndarray, counts: np.ndarray) -> np.ndarray:
        """Return the rank of each entry among those of its owner."""
        order = np.argsort(owner, kind="stable")
        ranks = np.empty(order.size, np.int64)
        ranks[order] = np.arange(order.size) - np.repeat(np.cumsum(counts) - counts, counts)
        return ranks

    start = first[tx_nic] + own + rank(tx_nic, n_tx) * per_tx
    tx["first_timer"] = start + 1
    rx["first_timer"] = first[rx_nic] + own + (n_tx * per_tx)[rx_nic] + rank(rx_nic, n_rx) * per_rx
    after_nics = first_of_host + per_host - behind
    tasks["timer"] = (after_nics + begins)[tasks["host"]] + rank(tasks["host"], n_tasks)
    begin, begin_host = after_nics[begins == 1], np.flatnonzero(begins)
    # Padding, so that no search for a timer leaves the array.
    timers = np.zeros(int(per_host.sum()) + TIMER_RX, TIMER)
    timers["owner"] = -1
    timers["deadline"] = INF
    timers["key"] = INF
    timers["pos"] = -1
    for k in range(own):
        timers["owner"][first + k] = nics["host"]
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
    if program.modules:
        built.program_hosts["first_timer"] = own_timers = after_nics + begins + n_tasks
        timers["code"][begin] = TIMER_BEGIN
        for k in range(program.timers):
            timers["code"][own_timers[begin_host] + k] = TIMER_PROGRAM - k

    heap = np.zeros(h + int(per_host.sum()), np.int64)
    free = np.flatnonzero(tx["waits_for"] == 0)
    first_tasks = tasks[(tasks["edges"] == 0) & (tasks["pending"] == 0)]
    slots = np.concatenate([start[free], begin, first_tasks["timer"]])
    at = np.concatenate([tx["start_ps"][free], np.zeros(slots.size - free.size, np.int64)])
    timers["deadline"][slots] = at
    timers["key"][slots] = at
    # Sorted by (host, time, slot), each segment is a valid heap after its length.
    hosts_of = np.concatenate([tx["host"][free], begin_host, first_tasks["host"]])
    order = np.lexsort((slots, at, hosts_of))
    host = hosts_of[order]
    counts = np.bincount(host, minlength=h)
    pos = np.arange(order.size) - np.repeat(np.cumsum(counts) - counts, counts)
    heap[heap_off[host] + pos] = slots[order]
    heap[heap_off - 1] = counts
    timers["pos"][slots[order]] = pos
    return timers, heap
