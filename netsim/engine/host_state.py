"""Initial state of hosts: flows with timers and bitmaps, and tasks with their dependencies.

Flows that wait for flows delivered at their own source do so by tasks, which are appended to the
table's tasks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from netsim.engine.compiling.declarations import Program, Protocol, program_parameters
from netsim.engine.division import ALL, Rows, Share
from netsim.engine.kernels import layout
from netsim.engine.kernels.fields import Array
from netsim.engine.link_state import phases
from netsim.engine.records import untouched_zeros
from netsim.engine.simulation import Simulation
from netsim.limits import RATE_SHIFT
from netsim.model import arithmetic
from netsim.model.columns import offsets, rank_of_each, ranks_within, rows_of
from netsim.model.fabric import packet_counts
from netsim.model.faults import times_without_carrier
from netsim.model.flows import FlowTable
from netsim.model.ideal import round_trips
from netsim.model.network import Network
from netsim.model.port_pairs import ENTROPY, HASH, PortPairs, draws_of, pairs_used, port_pairs_of
from netsim.model.workload import ACKED, RECEIVE, SEND, ProgramSpec, TaskTable, Workload


def waiting(simulation: Simulation) -> tuple[TaskTable | None, Array]:
    """Split dependencies between flows: resolved at the flow's host, or out of band.

    Return the tasks of the run, followed by tasks of flows that wait for flows delivered at their
    own source, or None if there are none; and the dependencies resolved out of band, bool[m] per
    ``after``.
    """
    flows, here = simulation.flows, simulation.flows.waits_at_source()
    if flows.after_ptr is None or not here.any():
        return simulation.tasks, ~here
    return _with_flows(simulation, here), ~here


def _with_flows(simulation: Simulation, here: Array) -> TaskTable:
    """Return the tasks of a run, followed by tasks with which flows wait for others ``here``."""
    flows = simulation.flows
    first, then = flows.edges()
    awaited, receive = np.unique(first[here], return_inverse=True)
    starting, send = np.unique(then[here], return_inverse=True)
    added = TaskTable(
        np.repeat([RECEIVE, SEND], [awaited.size, starting.size]),
        np.concatenate([flows.dst[awaited], flows.src[starting]]),
        np.concatenate([np.zeros(awaited.size, np.int64), flows.start_ps[starting]]),
        flow=np.concatenate([awaited, starting]),
        done_when=np.repeat([0, ACKED], [awaited.size, starting.size]),
    )
    added.wait_for_pairs(receive, awaited.size + send)
    if simulation.tasks is None:
        return added
    # Both parts number the same flows from 0, so no flows are joined.
    none = FlowTable([], [], [])
    both = Workload.join([Workload(none, simulation.tasks), Workload(none, added)]).tasks
    assert both is not None
    return both


def build_tasks(
    table: TaskTable | None, simulation: Simulation, program: Program
) -> dict[str, Array]:
    """Return the arrays of `HostState` for tasks and the program. Timers are numbered later."""
    flows, one = simulation.flows, np.zeros(1, np.int64)
    arrays = {
        "tasks": np.zeros(0, layout.TASK),
        **dict.fromkeys(("next_task", "next_tasks", "send_task", "receive_task"), one),
        "program": np.zeros(1, program.par),
        "program_hosts": np.zeros(1, program.host),
        "log": np.zeros((1, 1), np.int64),
        "words": np.zeros((len(flows) if program.has_words else 1, 2), np.int64),
    }
    if table is None:
        return arrays
    order = np.argsort(table.host, kind="stable")
    index = np.empty(order.size, np.int64)
    index[order] = np.arange(order.size)
    tasks = np.zeros(order.size, program.task)
    tasks["number"] = order
    for name in ("kind", "host", "flow", "duration_ps"):
        tasks[name] = getattr(table, name)[order]
    tasks["until_acked"] = table.done_when[order] == ACKED
    for name in ("in_stream", "next_done", "ready_ps", "start_ps", "end_ps"):
        tasks[name] = -1
    first, then = (index[side] for side in table.edges())
    tasks["edges"] = np.bincount(then, minlength=order.size)
    tasks["ready_ps"][tasks["edges"] == 0] = 0
    before, behind = (index[side] for side in table.stream_edges())
    tasks["in_stream"][before] = behind
    tasks["pending"][behind] = 1
    tasks["pending"][tasks["kind"] == RECEIVE] = 1
    if simulation.program is not None:
        tasks["pending"] += table.deferred[order]
        arrays |= _program_arrays(simulation, simulation.program, program, tasks)
    counts = np.bincount(first, minlength=order.size)
    return arrays | {
        "tasks": tasks,
        "next_task": offsets(counts),
        "next_tasks": np.concatenate([then[np.argsort(first, kind="stable")], [-1]]),
        "send_task": _indices(table, SEND, index, len(flows)),
        "receive_task": _indices(table, RECEIVE, index, len(flows)),
    }


def _program_arrays(
    simulation: Simulation, use: ProgramSpec, program: Program, tasks: Array
) -> dict[str, Array]:
    """Return a program's parameters, hosts and log; mark its tasks in ``tasks``."""
    assert simulation.tasks is not None
    end = use.first_task + use.n_tasks
    its = np.flatnonzero((tasks["number"] >= use.first_task) & (tasks["number"] < end))
    row = tasks["number"][its] - use.first_task
    tasks["of_program"][its] = 1
    tasks["waits_for_start"][its] = simulation.tasks.deferred[use.first_task : end][row]
    whole = np.flatnonzero((tasks["kind"] == SEND) & (tasks["of_program"] == 1))
    whole = whole[~np.isin(tasks["flow"][whole], use.relayed)]
    tasks["most_bytes"][whole] = simulation.flows.size_bytes[tasks["flow"][whole]]
    for name, column in use.task_state.items():
        tasks[name][its] = column[row]
    hosts = np.zeros(simulation.network.n_hosts, program.host)
    hosts["host"] = np.arange(hosts.size)
    hosts["n_tasks"] = np.bincount(tasks["host"][its], minlength=hosts.size)
    hosts["calls_at"] = -1
    # Sorted by host, then number: a host's tasks are consecutive.
    here, first = np.unique(tasks["host"][its], return_index=True)
    hosts["first_task"][here] = its[first]
    tasks["index"][its] = its - hosts["first_task"][tasks["host"][its]]
    for name, column in use.host_state.items():
        hosts[name] = column
    hosts["end_row"] = np.cumsum(use.log_rows)
    hosts["first_row"] = hosts["next_row"] = hosts["end_row"] - use.log_rows
    parameters = program_parameters(use.use.plugin, use.use.params)
    return {
        "program": simulation.parameters(program.par, parameters),
        "program_hosts": hosts,
        "log": _log(use, program),
    }


def _log(use: ProgramSpec, program: Program) -> Array:
    """Return the rows of a program's log, which take no memory until written. Raises MemoryError if
    they exceed the address space."""
    shape = max(1, int(use.log_rows.sum())), 1 + len(program.log)
    try:
        numbers = untouched_zeros(shape[0] * shape[1], np.dtype(np.int64))
    except (OSError, ValueError) as error:
        raise MemoryError(f"the program's log_rows total {shape[0]:,} (reduce them)") from error
    return numbers.reshape(shape)


def _indices(table: TaskTable, kind: int, index: Array, n_flows: int) -> Array:
    """Return the record of each flow's task of a kind, or -1."""
    numbers = table.of_flows(kind, n_flows)
    return np.where(numbers >= 0, index[numbers], -1)


def build_hosts(
    simulation: Simulation,
    protocol: Protocol,
    program: Program,
    port_choice: np.dtype,
    pars: Sequence[Mapping[str, int | float]],
    share: Share,
) -> tuple[layout.HostState, Array]:
    """Return the hosts' state with the rows of a share, and int64[n_hosts + 1], the first timer of
    each host; ``pars`` are the parameters of each transport, ``port_choice`` a record."""
    network, flows = simulation.network, simulation.flows
    port_pairs = pairs_used(network, flows, simulation.fabric.plane_balancing, simulation.seed)
    carrier = simulation.feature_set.carrier
    tx, rx = _sides(simulation, protocol, port_pairs, share)
    bits = _bitmaps(tx, rx, bitmap_words(simulation, protocol), share.flows)
    nics = _nics(network, protocol, share)
    used_ports = port_pairs.src_port, port_pairs.dst_port
    flow_nics = tuple(network.nic_of_port[side[port_pairs.first[:-1]]] for side in used_ports)
    task_table, elsewhere = waiting(simulation)
    next_flow, next_flows = _successors(flows, elsewhere)
    built = build_tasks(task_table, simulation, program)
    waits_for = np.bincount(next_flows[:-1], minlength=len(flows))
    if task_table is not None:
        waits_for[built["send_task"] >= 0] = 1
    tx["waits_for"][share.flows] = waits_for[share.flows]
    files = protocol, program
    timers, heap, first_timer = _build_timers(
        network, nics, (tx, rx), flow_nics, built, files, share
    )
    state = layout.grouped(
        layout.HostState,
        nics=nics,
        first_nic=network.first_nic,
        host_ports=_host_ports(network, share.host_ports),
        **_port_choices(
            simulation,
            port_choice,
            port_pairs_of(network, flows) if carrier else port_pairs,
            flow_nics,
        ),
        **_carrier(simulation),
        tx=tx,
        rx=rx,
        timers=timers,
        heap=heap,
        bits=bits,
        pars=_parameters(simulation, protocol, pars, _most_by_entropy(simulation, port_pairs)),
        next_flow=next_flow,
        next_flows=next_flows,
        phase=phases(simulation),
        **built,
    )
    return state, first_timer


def _sides(
    simulation: Simulation, protocol: Protocol, port_pairs: PortPairs, share: Share
) -> tuple[np.ndarray, np.ndarray]:
    """Return the sender and receiver records of all flows, with the rows of a share written."""
    network, flows, packets = simulation.network, simulation.flows, simulation.packets
    n = len(flows)
    tx, rx = share.zeros(n, protocol.tx), share.zeros(n, protocol.rx)
    at = share.flows
    number, sizes = np.arange(n)[at], flows.size_bytes[at]
    n_packets = packet_counts(sizes, packets)
    for side, here, there in ((tx, flows.src, flows.dst), (rx, flows.dst, flows.src)):
        side["flow"][at] = number
        if simulation.transport_of_flow is not None:
            side["transport"][at] = simulation.transport_of_flow[at]
        side["host"][at] = here[at]
        side["peer"][at] = there[at]
        side["size_bytes"][at] = sizes
        side["n_packets"][at] = n_packets
        side["last_bytes"][at] = sizes - (n_packets - 1) * packets.payload_bytes
        side["prio"][at] = flows.cls[at]
    if network.has_several_ports or network.n_tables > 1:
        tx["port_choice"][at], rx["port_choice"][at] = number, n + number
    rate_bps = np.add.reduceat(network.port_rate_bps[port_pairs.src_port], port_pairs.first[:-1])
    q20 = arithmetic.byte_quotient(rate_bps)[at]
    if _most_by_entropy(simulation, port_pairs):
        draws = arithmetic.mix(arithmetic.salt(simulation.seed, arithmetic.PURPOSE_ENTROPY, number))
        tx["entropy"][at] = rx["entropy"][at] = draws & 0xFFFF
    base_rtt_ps = round_trips(network, port_pairs, packets)[at]
    tx["next_ready"][at] = -1
    tx["start_ps"][at] = flows.start_ps[at]
    tx["acked_ps"][at] = -1
    tx["ps_per_byte_q20"][at] = q20
    tx["base_rtt_ps"][at] = base_rtt_ps
    tx["bdp_bytes"][at] = (base_rtt_ps.astype(float) * 2**RATE_SHIFT / q20).astype(np.int64)
    rx["done_ps"][at] = -1
    rx["next_done"][at] = -1
    return tx, rx


class BitmapWords(NamedTuple):
    """Words of each flow's bitmaps, int64[n_flows]: the sender's, ending with the engine's own
    bitmap of skipped packets, and the receiver's. All senders' words come first."""

    tx: Array
    tx_own: Array
    rx: Array


def bitmap_words(simulation: Simulation, protocol: Protocol) -> BitmapWords:
    """Return the sizes of all bitmaps."""
    words = (packet_counts(simulation.flows.size_bytes, simulation.packets) + 31) >> 5
    own = words * protocol.tx_bitmaps
    return BitmapWords(words + own, own, words * protocol.rx_bitmaps)


def _bitmaps(tx: np.ndarray, rx: np.ndarray, words: BitmapWords, at: Rows) -> Array:
    """Return empty bitmaps of all flows; set where each side's begin and end."""
    tx_begin = np.cumsum(words.tx) - words.tx
    rx_begin = words.tx.sum() + np.cumsum(words.rx) - words.rx
    tx["bits"][at], rx["bits"][at] = tx_begin[at], rx_begin[at]
    tx["bits_end"][at] = (tx_begin + words.tx_own)[at]
    rx["bits_end"][at] = (rx_begin + words.rx)[at]
    return np.zeros(max(1, int(words.tx.sum() + words.rx.sum())), np.int64)


def _nics(network: Network, protocol: Protocol, share: Share) -> np.ndarray:
    """Return the NICs of all hosts."""
    n_nics, at = int(network.first_nic[-1]), share.sources
    host = np.repeat(np.arange(network.n_hosts), np.diff(network.first_nic))[at]
    nics = share.zeros(n_nics, protocol.host)
    nics["nic"][at] = np.arange(n_nics)[at]
    nics["host"][at] = host
    nics["port"][at] = network.node_first_port[host]
    nics["ps_per_byte_q20"][at] = arithmetic.byte_quotient(network.nic_rate_bps[at])
    nics["done_head"][at] = nics["data_port"][at] = nics["control_port"][at] = -1
    return nics


def _host_ports(network: Network, at: Rows) -> np.ndarray:
    """Return the host ports, with empty queues."""
    host_ports = np.zeros(network.n_host_ports, layout.HOST_PORT)
    host_ports["ready_head"][at] = host_ports["ready_tail"][at] = -1
    host_ports["turn_end"][at] = -1
    host_ports["nic"][at] = network.nic_of_port[at]
    return host_ports


def _port_choices(
    simulation: Simulation, record: np.dtype, port_pairs: PortPairs, flow_nics: Sequence[Array]
) -> dict[str, np.ndarray]:
    """Return the port choices of all flows, with several host ports or routing tables."""
    rows = [
        np.stack([port_pairs.src_port, port_pairs.data_to, port_pairs.control_to], axis=1),
        np.stack([port_pairs.dst_port, port_pairs.control_back, port_pairs.control_back], axis=1),
    ]
    table = np.concatenate(rows).astype(np.int32)
    if not simulation.network.has_several_ports:
        several = simulation.network.n_tables > 1
        return {"port_choices": np.zeros(1, record), "port_pairs": table if several else table[:1]}
    n, total = len(simulation.flows), int(port_pairs.first[-1])
    port_choices = np.zeros((2, n), record)  # senders, receivers
    port_choices["nic"] = flow_nics
    port_choices["first_pair"] = port_pairs.first[:-1], total + port_pairs.first[:-1]
    port_choices["n_pairs"] = port_pairs.counts
    entity = 4 * np.arange(n)
    for field, number in (("salt_data", 0), ("salt_control", 1)):
        for side in range(2):
            at = entity + 2 * side + number
            port_choices[field][side] = arithmetic.salt(
                simulation.seed, arithmetic.PURPOSE_PLANE_PERMUTATION, at
            )
    if simulation.fabric.plane_balancing == HASH:
        port_choices["salt_data"] = draws_of(simulation.flows, simulation.seed, port_pairs.counts)
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


def _most_by_entropy(simulation: Simulation, port_pairs: PortPairs) -> int:
    """Return the maximum number of port pairs of a flow if entropies choose them, else 0."""
    several = simulation.network.has_several_ports
    if not several or simulation.fabric.plane_balancing != ENTROPY:
        return 0
    return int(port_pairs.counts.max())


def _parameters(
    simulation: Simulation,
    protocol: Protocol,
    pars: Sequence[Mapping[str, int | float]],
    most_by_entropy: int,
) -> np.ndarray:
    """Return a record with one record per transport: ``transport0``, ..."""
    by_entropy = {"pair_by_entropy": most_by_entropy}
    kinds = [(f"transport{i}", dtype) for i, dtype in enumerate(protocol.pars)]
    records = np.zeros(1, np.dtype(kinds, align=True))
    for (name, dtype), par in zip(kinds, pars, strict=True):
        records[name] = simulation.parameters(dtype, {**par, **by_entropy})
    return records


def _successors(flows: FlowTable, elsewhere: Array) -> tuple[np.ndarray, np.ndarray]:
    """Return, as CSR, the flows that wait for each flow out of band."""
    n = len(flows)
    if flows.after_ptr is None:
        return np.zeros(n + 1, np.int64), np.zeros(1, np.int64)
    after, waiter = (side[elsewhere] for side in flows.edges())
    counts = np.bincount(after, minlength=n)
    followers = np.append(waiter[np.argsort(after, kind="stable")], -1)
    return offsets(counts), followers


def _build_timers(
    network: Network,
    nics: Any,
    sides: tuple[Any, Any],
    flow_nics: Sequence[Array],
    built: Mapping[str, Array],
    files: tuple[Protocol, Program],
    share: Share,
) -> tuple[Any, np.ndarray, Array]:
    """Number the timers, host by host.

    For each NIC, its timers, then the timers of flows that it sends and receives; then the
    program's start timer, timers of tasks, and the program's other timers. ``flow_nics`` are the
    NICs of the flows' ``sides``. Timers of flows and tasks that wait for nothing are set. Also
    return the first timer of each host.
    """
    protocol, program = files
    tasks: Any = built["tasks"]
    n_nics, h = nics.shape[0], network.n_hosts
    host_of_nic = np.repeat(np.arange(h), np.diff(network.first_nic))
    (tx, rx), (tx_nic, rx_nic) = sides, flow_nics
    number = np.arange(tx.shape[0])
    per_tx, per_rx = 1 + protocol.tx_timers, protocol.rx_timers
    own = protocol.host_timers
    n_tx = np.bincount(tx_nic, minlength=n_nics)
    n_rx = np.bincount(rx_nic, minlength=n_nics)
    per_nic = own + n_tx * per_tx + n_rx * per_rx
    n_tasks = np.bincount(tasks["host"], minlength=h)
    begins = np.zeros(h, np.int64)
    if program.modules:
        begins[built["program_hosts"]["n_tasks"] > 0] = 1
    behind = n_tasks + begins * (1 + program.timers)
    per_host = np.bincount(host_of_nic, per_nic, h).astype(np.int64) + behind
    first_of_host = np.cumsum(per_host) - per_host
    behind_before = np.cumsum(behind) - behind
    first = np.cumsum(per_nic) - per_nic + behind_before[host_of_nic]
    heap_off = 1 + np.arange(h) + first_of_host
    at = share.sources
    nics["first_timer"][at] = first[at]
    nics["n_timers"][at] = per_nic[at]
    nics["heap_off"][at] = heap_off[host_of_nic[at]]

    start = first[tx_nic] + own + rank_of_each(tx_nic, n_tx) * per_tx
    first_rx = first[rx_nic] + own + (n_tx * per_tx)[rx_nic] + rank_of_each(rx_nic, n_rx) * per_rx
    at = share.flows
    tx["first_timer"][at], rx["first_timer"][at] = start[at] + 1, first_rx[at]
    after_nics = first_of_host + per_host - behind
    tasks["timer"] = (after_nics + begins)[tasks["host"]] + rank_of_each(tasks["host"], n_tasks)
    begin, begin_host = after_nics[begins == 1], np.flatnonzero(begins)
    # Padding, so that no search for a timer leaves the array.
    n_timers = int(per_host.sum())
    timers = np.zeros(n_timers + layout.TIMER_RX, layout.TIMER)
    at = ALL
    if not isinstance(share.hosts, slice):
        own_timers = rows_of(first_of_host[share.hosts], per_host[share.hosts])
        at = np.append(own_timers, n_timers + np.arange(layout.TIMER_RX))
    timers["owner"][at] = -1
    timers["deadline"][at] = layout.INF
    timers["key"][at] = layout.INF
    timers["pos"][at] = -1

    def set_up(slots: Array, owners: Array, code: int) -> None:
        timers["owner"][slots] = owners
        timers["code"][slots] = code

    for k in range(own):
        set_up(first[share.nics] + k, host_of_nic[share.nics], k)
    set_up(start[share.sent], number[share.sent], layout.TIMER_START)
    for k in range(protocol.tx_timers):
        set_up(start[share.sent] + 1 + k, number[share.sent], layout.TIMER_TX + k)
    for k in range(per_rx):
        set_up(first_rx[share.received] + k, number[share.received], layout.TIMER_RX + k)
    set_up(tasks["timer"], np.arange(tasks.size), layout.TIMER_TASK)
    if program.modules:
        built["program_hosts"]["first_timer"] = own_timers = after_nics + begins + n_tasks
        timers["code"][begin] = layout.TIMER_BEGIN
        for k in range(program.timers):
            timers["code"][own_timers[begin_host] + k] = layout.TIMER_PROGRAM - k

    heap = np.zeros(h + int(per_host.sum()), np.int64)
    free = number[share.sent]
    free = free[tx["waits_for"][free] == 0]
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
    pos = ranks_within(counts)
    heap[heap_off[host] + pos] = slots[order]
    heap[heap_off[share.hosts] - 1] = counts[share.hosts]
    timers["pos"][slots[order]] = pos
    return timers, heap, np.append(first_of_host, n_timers)
