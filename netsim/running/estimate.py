"""Predict the packets, memory and time of a run before it starts.

The engine steps every node that has work through windows as long as the shortest link delay. A
run's time therefore depends on more than its packet-hops: with few packets in flight, each packet
wakes a node separately, and every window checks all nodes. The time is the sum of

    packet-hops x HOP_NS, more in a network larger than the processor's caches,
    and more again with lossless switches
    steps       x STEP_NS: a step is one node with work in one window
    windows     x nodes x WINDOW_NODE_NS
    flows       x FLOW_NS

The constants were fitted to the shipped experiments (without p2p_8192) on one thread of a quiet
virtual machine, two cores of an Intel Xeon, on 2026-11-21. Of their 304 points, 299 are within a
factor of two; predictions for whole experiments are 0.66 (wan_fec) to 1.3 (p2p_512) times the
measured time. The worst are points of a few milliseconds, and BBR, whose probing prolongs a run up
to threefold. Other machines differ by tens of percent.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from netsim.common.memory import available_bytes, available_cores
from netsim.common.steps import step
from netsim.engine.compiling.declarations import counted
from netsim.engine.simulation import FeatureSet
from netsim.errors import InputError, errors_at
from netsim.experiment import Point
from netsim.experiment.scenario import (
    Built,
    Scenario,
    is_closed_form,
    is_one_way,
    key_of,
    prepare,
)
from netsim.frozen import frozen
from netsim.model.circuit_times import duty, longest_period_ps
from netsim.model.columns import Floats, Ints
from netsim.model.fabric import PacketFormat, packet_counts
from netsim.model.ideal import NO_LINK, ecmp_paths, hand_over_times, longest_chain_ps, round_trips
from netsim.model.network import Network
from netsim.model.port_pairs import walk
from netsim.plugins.registry import call
from netsim.units import format_bytes

HOP_NS = 33.0
LARGE_HOP_NS = 55.0
LOSSLESS_HOP_NS = 124.0  # extra time per packet-hop in a large network, and more if it is lossless
LARGE_NODES = 100  # nodes on the flows' paths at which half of the extra time applies

STEP_NS = 145.0
WINDOW_NODE_NS = 13.0
FLOW_NS = 930.0
START_S = 0.001

BARRIER_NS = 10_000.0
"""Time per window that several threads wait for each other. A second thread makes windows of 2 ms
(p2p_512) 1.8 times as fast, but not windows of 20 us (homa_w4)."""

FURTHER_THREAD = 0.85  # efficiency of each thread after the first

SETUP_S = 0.1
SETUP_FLOW_NS = 2300.0  # network, traffic, engine, and writing the results (fitted to md1)

COMPILE_S = 10.0
LOAD_S = 0.4  # per transport and fabric, from the cache; compiling takes 8 to 12 s
MANY_STARTS = 100  # minimum number of distinct start times of open-loop arrivals
MAX_CONTROL = 1000.0  # maximum control packets per data packet; more is a transport error

BLOCK = 1 << 16
PATHS_SEED = 1


SLOTS_PER_XOFF, SLOTS_PER_PACKET = 2.4, 1.25
"""Slots for packets that wait at a lossless port: per packet of XOFF, but at most per packet of the
run and port. Both exceed 1 since rings are powers of two (fitted to permutations)."""

MIN_RESENT = 1.01  # transmissions per data packet above which retransmissions are mentioned
BASE_BYTES = 165_000_000  # interpreter, libraries and loaded code; compiling takes 250 MB more
STATE_BYTES_PER_FLOW = 1000  # both sides, timers, rows in traffic, ideal times and results
STATE_BYTES_PER_TASK = 300  # record, edges and timer (180 bytes), and rows in traffic and results
HOST_BYTES = 250  # a host's record, route and events
ROW_BYTES = 280  # a row of the links table while it is built

RESULT_FLOW_BYTES, HELD_FLOW_BYTES, SET_UP_FLOW_BYTES = 125, 150, 700
"""A flow's rows in results and traffic, and its records on the rank that sets it up."""

HELD_PORT_BYTES, HELD_HOST_BYTES = 80, 140
"""Bytes that every rank of a run over MPI has per port and per host of the whole network."""

SCATTERED_BYTES = 3 * 4096  # pages that hold the records of a flow between other ranks' rows

NO_FEATURES = FeatureSet()


@frozen
class Memory:
    """The memory that a simulation needs, in bytes.

    Each rank of an MPI run has `held` and `outlines`; the ranks divide `state` and `packets`.
    `outlines` are a rank's records of the other ranks' ports and hosts, `ends` the parts of `state`
    that ranks also hold for the other ends of their cables, and `flows` the parts for flows that
    they set up; `n_flows` may be set up anywhere. Rank 0 gathers `state` when it writes `results`.
    """

    held: int = 0
    state: int = 0
    packets: int = 0
    results: int = 0
    outlines: int = 0
    ends: int = 0
    flows: int = 0
    n_flows: int = 0

    @property
    def total(self) -> int:
        """Bytes of a run without MPI."""
        return self.held + self.state + self.packets + self.results

    def of_ranks(self, n: int) -> tuple[int, int]:
        """Return the bytes of rank 0 and of each other rank of ``n``."""
        of_flows = min(self.flows, self.n_flows * SCATTERED_BYTES // n)
        held = self.held + self.outlines
        other = held + (self.state + self.ends + self.packets) // n + of_flows
        first = held + self.state + self.packets // n + self.results
        return max(first, other), other


@frozen
class Estimate:
    """Prediction for one point.

    `packet_hops` counts all packets, `resent` the transmissions per data packet, `windows` the
    windows with events, and `steps` the nodes stepped in all windows. `path_nodes` and `path_ports`
    are on the flows' paths, in both directions. `offered` is the mean load of open-loop arrivals on
    the inter-switch links they use, as a fraction of capacity. `notes` are the traffic's
    (`Workload`), `pfc` and `far` are the scenario's. `advice` is the traffic's for a budget of time
    (`WorkloadPart.advice`).
    """

    n_hosts: int = 0
    n_switches: int = 0
    n_links: int = 0
    n_flows: int = 0
    packets: int = 0
    packet_hops: int = 0
    control_per_data: float = 0.0
    resent: float = 1.0
    simulated_ps: int = 0
    windows: float = 0.0
    steps: float = 0.0
    path_nodes: int = 0
    path_ports: int = 0
    offered: float = 0.0
    lossless: bool = False
    is_simulated: bool = True
    memory: Memory = Memory()
    assumptions: str = ""
    notes: tuple[str, ...] = ()
    pfc: str | None = None
    far: tuple[str, ...] = ()
    advice: tuple[str, ...] = ()
    feature_set: FeatureSet = NO_FEATURES
    scenario: Scenario | None = None  # kept for the run, if asked

    @property
    def memory_bytes(self) -> int:
        """Peak memory of a run without MPI."""
        return self.memory.total

    def simulation_s(self, threads: int) -> float:
        """Return the wall-clock time of the simulation."""
        if not self.is_simulated:
            return 0.0
        size = self.path_nodes / (self.path_nodes + LARGE_NODES)
        hop_ns = HOP_NS + size * (LARGE_HOP_NS + (LOSSLESS_HOP_NS if self.lossless else 0.0))
        shared_ns = self.packet_hops * hop_ns + self.steps * STEP_NS + self.n_flows * FLOW_NS
        alone_ns = self.windows * (self.n_hosts + self.n_switches) * WINDOW_NODE_NS
        together_ns = shared_ns / (1 + FURTHER_THREAD * (threads - 1)) + self.windows * BARRIER_NS
        # The engine tries one worker and all of them, and keeps the faster.
        return START_S + 1e-9 * (alone_ns + min(shared_ns, together_ns))

    @property
    def seconds(self) -> float:
        """Wall-clock time of the simulation on all cores."""
        return self.simulation_s(available_cores())

    @property
    def setup_seconds(self) -> float:
        """Wall-clock time before and after the simulation, without compiling."""
        return SETUP_S + 1e-9 * SETUP_FLOW_NS * self.n_flows

    def seconds_with(self, threads: int) -> float:
        """Return the wall-clock time of the point, without loading its code."""
        return self.simulation_s(threads) + self.setup_seconds


def estimate(
    point: Point, budget_s: float | None = None, last: Built | None = None, *, keep: bool = False
) -> Estimate:
    """Predict a run of `point`. Reuse the network and traffic of the `last` point if they are the
    same, add advice for a budget of time, and with `keep` keep the scenario for the run. Raises
    InputError if the point cannot be built."""
    scenario = prepare(point, last)
    found = estimate_scenario(point, scenario)
    if keep:
        found = replace(found, scenario=scenario)
    if budget_s is None:
        return found
    told = (part.advice(budget_s, found.seconds) for part in scenario.load.parts)
    return replace(found, advice=tuple(text for text in told if text))


def estimate_each(
    points: Sequence[Point], budget_s: float | None = None, *, every_seed: bool = True
) -> Iterator[tuple[Point, Estimate]]:
    """Yield points with their predictions, the first one with advice for a budget of time.

    Points with the same network and traffic come one after another, so each is built once. Without
    `every_seed`, points that differ only in the seed have the prediction of the first one. Raises
    the same InputErrors as `estimate`.
    """
    places: dict[str, int] = {}
    order = {point.index: places.setdefault(key_of(point), len(places)) for point in points}
    known: dict[str, Estimate] = {}
    last, keep = Built(), len(points) == 1
    try:
        for done, point in enumerate(sorted(points, key=lambda point: order[point.index])):
            step(f"building and predicting {point.name}", done, len(points))
            key = repr({**point.resolved, "seed": point.seed if every_seed else 0})
            if key not in known:
                known[key] = estimate(point, None if done else budget_s, last, keep=keep)
            yield point, known[key]
    finally:
        step("")


def estimate_scenario(
    point: Point, scenario: Scenario, simulated_ps: int | None = None
) -> Estimate:
    """Predict the run of a point whose network and traffic are built; `simulated_ps` if it is
    known."""
    from netsim.engine.simulation import longest_window_ps

    network, flows, closed = scenario.network, scenario.flows, is_closed_form(point)
    packets = packet_counts(flows.size_bytes, point.packets)
    links, load_ps, nodes, ports = _loads(scenario, packets, point.packets.header_bytes)
    resent = _resent(point, scenario)
    control = _control_packets(point, scenario, packets)
    paced_ps = _paced_ps(point, scenario, packets)
    if simulated_ps is None:
        last_ps = int((flows.start_ps + paced_ps).max(initial=0))
        simulated_ps = max(int(load_ps.max(initial=0)), last_ps, _last_ps(point, scenario), 1)
    share, by_end = 1.0, np.ones(len(flows))
    if point.end_ps is not None and point.end_ps < simulated_ps:
        share = point.end_ps / simulated_ps
        by_end = _sent_by(point.end_ps, flows.start_ps, paced_ps, load_ps, share)
    hops = float((links * (packets + control) * resent * by_end).sum())
    # With few flows, most windows are empty.
    active_ps = float(simulated_ps)
    if network.circuits is None:
        active_ps = min(active_ps, float(scenario.ideal.fct_ps.sum(dtype=np.float64)))
    most_windows = share * active_ps / longest_window_ps(network, flows)
    windows, steps = _windows(most_windows, hops, nodes)
    found = Estimate(
        n_hosts=network.n_hosts,
        n_switches=network.n_switches,
        n_links=network.n_links,
        n_flows=len(flows),
        packets=int(packets.sum()),
        packet_hops=0 if closed else int(hops),
        control_per_data=float(control.sum() / max(1, packets.sum())),
        resent=float((packets * resent).sum() / max(1, packets.sum())),
        simulated_ps=int(share * simulated_ps),
        windows=windows,
        steps=steps,
        path_nodes=nodes,
        path_ports=ports,
        offered=_offered(network, flows.start_ps, load_ps),
        lossless=scenario.fabric.coupled,
        is_simulated=not closed,
        pfc=scenario.pfc,
        far=scenario.far,
        feature_set=feature_set_of(scenario, point.packets),
    )
    return replace(
        found,
        memory=_memory(scenario, point, found),
        assumptions="nothing is simulated" if closed else _assumptions(scenario, found),
        notes=(*scenario.notes, *_overload(found)),
    )


def feature_set_of(scenario: Scenario, packets: PacketFormat) -> FeatureSet:
    """Return the engine features that a scenario uses."""
    return FeatureSet.of(
        scenario.network,
        scenario.load,
        scenario.faults,
        scenario.sampling,
        scenario.sizes,
        packets,
    )


@frozen
class Code:
    """Specializations of the engine that points need, and how many are not compiled yet."""

    needed: int
    missing: int

    @property
    def seconds(self) -> float:
        """Time to compile missing code and load the rest."""
        return self.missing * COMPILE_S + (self.needed - self.missing) * LOAD_S


def code_needed(
    points: Sequence[Point],
    feature_sets: Sequence[FeatureSet],
    *,
    checked: bool = False,
    tracing: bool = False,
) -> Code:
    """Return the machine code that points need: one per set of transports and kind of fabric.
    Raises InputError, with the point's file, for transports that cannot be combined."""
    from netsim.engine.engine import code_of

    found = {}
    for point, of_point in zip(points, feature_sets, strict=True):
        if not is_closed_form(point):
            uses = point.transport_of_class
            with errors_at(file=point.file):
                code = code_of(uses, point.fabric, of_point, checked=checked, tracing=tracing)
            if code.key not in found:
                found[code.key] = code.is_kept()
    return Code(len(found), sum(not cached for cached in found.values()))


def _last_ps(point: Point, scenario: Scenario) -> int:
    """Return when a workload may end: the largest of the last start plus the longest ideal FCT, the
    longest chain of tasks, and the ends expected by parts of the workload; plus the wait for a
    circuit (all reconfigurations, if circuits follow the workload)."""
    network, flows, ideal_ps = scenario.network, scenario.flows, scenario.ideal.fct_ps
    last_ps = int(flows.start_ps.max(initial=0)) + int(ideal_ps.max(initial=0))
    if scenario.load.tasks is not None:
        left_ps = hand_over_times(network, flows, point.packets, scenario.port_pairs)
        last_ps = max(last_ps, longest_chain_ps(scenario.load.tasks, flows, ideal_ps, left_ps))
    last_ps = max([last_ps, *(part.expected_ps for part in scenario.load.parts)])
    last_ps += longest_period_ps(network.circuits)
    if network.circuits is not None and network.circuits.phase_schedule is not None:
        last_ps += network.circuits.phase_schedule.reconfiguration_ps
    return last_ps


def _paced_ps(point: Point, scenario: Scenario, packets: Ints) -> Floats:
    """Return the time that each flow takes to send without feedback, at its transport's `rate` or
    its port's; 0 for flows with feedback."""
    flows, ports = scenario.flows, scenario.port_pairs
    uses = point.transport_of_class
    alone = np.array([is_one_way(use) for use in uses])[scenario.class_of_flow]
    pace = np.array([use.params.get("rate") or np.inf for use in uses])[scenario.class_of_flow]
    line_bps = scenario.network.port_rate_bps[ports.src_port[ports.first[:-1]]]
    on_wire = flows.size_bytes + packets * point.packets.header_bytes
    of_flow: Floats = np.where(alone, 8e12 * on_wire / np.minimum(pace, line_bps), 0.0)
    return of_flow


def _sent_by(
    end_ps: int, start_ps: Ints, paced_ps: Floats, load_ps: Floats, share: float
) -> Floats:
    """Return the fraction of each flow sent by the end: `share`, or for a paced flow what its pace
    allows, scaled down to what links can carry."""
    paced = paced_ps > 0
    if not paced.any():
        return np.full(paced.size, share)
    sent = np.where(paced, np.clip((end_ps - start_ps) / np.maximum(paced_ps, 1.0), 0, 1), share)
    asked_ps = load_ps * sent.mean()
    fits = np.minimum(asked_ps, end_ps).sum() / max(1.0, asked_ps.sum())
    of_flow: Floats = np.where(paced, sent * fits, share)
    return of_flow


def _offered(network: Network, start_ps: Ints, load_ps: Floats) -> float:
    """Return `Estimate.offered`; 0 for few arrivals."""
    between = load_ps[network.n_host_ports :][
        network.port_peer[network.n_host_ports :] >= network.n_host_ports
    ]
    if np.unique(start_ps).size < MANY_STARTS or not between.any():
        return 0.0
    return float(between[between > 0].mean() / start_ps.max())


def _control_packets(point: Point, scenario: Scenario, packets: Ints) -> Floats:
    """Return the control packets that each flow causes, according to its transport."""
    control = packets * _per_flow(point, scenario, "CONTROL_PER_DATA", 1.0)
    rtt_ps: Ints | None = None
    for number, use in enumerate(point.transport_of_class):
        if not hasattr(use.module, "control_packets"):
            continue
        if rtt_ps is None:
            rtt_ps = round_trips(scenario.network, scenario.port_pairs, point.packets)
        these = np.flatnonzero(scenario.class_of_flow == number)
        ports = scenario.port_pairs.src_port[scenario.port_pairs.first[:-1][these]]
        bdp_bytes = rtt_ps[these] * (scenario.network.port_rate_bps[ports] / 8e12)
        bdp_packets = bdp_bytes / point.packets.data_bytes
        counts = call(use, "control_packets", use.params, packets[these], bdp_packets)
        try:
            control[these] = np.minimum(counts, MAX_CONTROL * packets[these])
        except (TypeError, ValueError):
            message = "control_packets() must return a number for each flow"
            raise InputError(message, file=str(use.plugin.path)) from None
    return np.maximum(control, 0.0)


def _per_flow(point: Point, scenario: Scenario, name: str, default: float) -> Floats:
    """Return what each flow's transport declares under a name."""
    uses = point.transport_of_class
    declared = np.array([float(getattr(use.module, name, default)) for use in uses])
    of_flow: Floats = declared[scenario.class_of_flow]
    return of_flow


def _windows(most: float, hops: float, nodes: int) -> tuple[float, float]:
    """Return the windows in which something happens, and the steps of nodes in them. Assumes that
    hops fall on windows at random, and a window's hops on nodes."""
    windows = max(1.0, most)
    windows *= -np.expm1(-hops / windows)
    if not windows:
        return 0.0, 0.0
    return float(windows), float(-windows * nodes * np.expm1(-hops / windows / max(1, nodes)))


def _crossings(scenario: Scenario) -> Iterator[tuple[Ints, Ints, Floats]]:
    """Yield (flow, port, share) of the links that flows cross.

    A flow has equal shares on its port pairs. ECMP picks a random path; where packets spread, one
    port represents its equals and gets a share of the flow.
    """
    network, port_pairs = scenario.network, scenario.port_pairs
    rng = np.random.default_rng(PATHS_SEED)
    flow_of = np.repeat(np.arange(port_pairs.counts.size), port_pairs.counts)
    part = 1 / port_pairs.counts[flow_of]
    for begin in range(0, flow_of.size, BLOCK):
        src, dst = (
            side[begin : begin + BLOCK] for side in (port_pairs.src_port, port_pairs.data_to)
        )
        if scenario.fabric.one_path:
            for port in ecmp_paths(network, src, dst, rng).T:
                port_pair = np.flatnonzero(port != NO_LINK)
                yield flow_of[begin + port_pair], port[port_pair], part[begin + port_pair]
            continue
        width = np.ones(src.size)
        for port_pair, port, delivers, parallel in walk(network, src, dst):
            width[port_pair] *= parallel
            share = part[begin + port_pair] / np.where(delivers, 1, width[port_pair])
            yield flow_of[begin + port_pair], port, share


def _loads(scenario: Scenario, packets: Ints, header_bytes: int) -> tuple[Ints, Floats, int, int]:
    """Return each flow's links, each port's sending time, the nodes on the paths, and the ports on
    them in both directions, shared ones counted per flow.
    """
    network, flows = scenario.network, scenario.flows
    crossed = np.zeros(len(flows), np.int64)  # links on all port pairs
    n_bytes, ports = np.zeros(network.n_ports), 0.0
    on_wire = flows.size_bytes + packets * header_bytes
    for flow, port, share in _crossings(scenario):
        np.add.at(crossed, flow, 1)
        ports += 2 * float((1 / (share * scenario.port_pairs.counts[flow])).sum())
        n_bytes += np.bincount(port, on_wire[flow] * share, network.n_ports)
    hosts = np.union1d(flows.src, flows.dst).size
    nodes = hosts + min(network.n_switches, hosts)
    links, busy_ps = crossed // scenario.port_pairs.counts, 8e12 * n_bytes / network.port_rate_bps
    if network.circuits is not None:
        busy_ps /= duty(network.circuits)
    return links, busy_ps, nodes, min(int(ports), network.n_ports)


def _resent(point: Point, scenario: Scenario) -> Floats:
    """Return the mean number of transmissions per packet, for each flow.

    It exceeds 1 if senders keep their rate (KEEPS_RATE), switches trim, and links inside the
    network are overloaded; the load is limited by the hosts' own links.
    """
    network, flows = scenario.network, scenario.flows
    times = np.ones(len(flows))
    keeps = _per_flow(point, scenario, "KEEPS_RATE", 0.0) > 0
    if not scenario.fabric.trims or not keeps.any():
        return times
    ends = scenario.port_pairs.src_port, scenario.port_pairs.dst_port
    src, dst = (network.nic_of_port[ports[scenario.port_pairs.first[:-1]]] for ports in ends)
    busiest = np.maximum(np.bincount(src)[src], np.bincount(dst)[dst])
    rate_bps = network.nic_rate_bps[src] / busiest
    asked = np.zeros(network.n_ports)
    for flow, port, share in _crossings(scenario):
        asked += np.bincount(port, rate_bps[flow] * share, network.n_ports)
    asked /= network.port_rate_bps
    for flow, port, _ in _crossings(scenario):
        np.maximum.at(times, flow, asked[port])
    return np.where(keeps, times, 1.0)


def _overload(found: Estimate) -> Iterator[str]:
    if found.offered > 1:
        yield (
            f"arrivals offer the links between switches {found.offered:.2f} times what they "
            "carry: completion times grow with the number of arrivals"
        )


def require_memory(
    estimate: Estimate, *, what: str, available: int | None = None, where: str = ""
) -> None:
    """Raise InputError if `what` needs more memory than is available."""
    room = available_bytes() if available is None else available
    if room is None or estimate.memory_bytes <= room:
        return
    raise InputError(
        f"needs about {format_bytes(estimate.memory_bytes, 3)} of memory, "
        f"only {format_bytes(room, 3)} is available{where}",
        file=what,
        hint=f"{estimate.n_hosts:,} hosts, {estimate.n_links:,} links, "
        f"{estimate.n_flows:,} flows, {estimate.packets:,} packets",
    )


def _assumptions(scenario: Scenario, found: Estimate) -> str:
    """Return the prediction's assumptions in one line."""
    from netsim.engine.compiling.declarations import program_of

    parts = [f"{found.control_per_data:.3g} control packets per data packet"]
    if found.resent > MIN_RESENT:
        parts.append("trimmed packets are resent at the same rate")
    else:
        parts.append("no retransmissions")
    if scenario.load.program is not None:
        known = [part.assumption for part in scenario.load.parts if part.assumption]
        parts += known or ["no time for tasks of the program"]
        if program_of(scenario.load.program.use).resizes:
            parts.append("flow sizes as listed, before the program changes them")
    if scenario.faults is not None:
        parts.append("no slowdown after losses and failures")
    if scenario.fabric.one_path:
        parts.append("random paths that differ from the run's")
    parts.append("simulated time of the busiest link, last flow or longest chain of tasks")
    return ", ".join(parts)


def _memory(scenario: Scenario, point: Point, found: Estimate) -> Memory:
    """Return the memory of a point."""
    if not found.is_simulated:
        return Memory(held=BASE_BYTES + found.n_flows * STATE_BYTES_PER_FLOW)
    from netsim.engine.link_state import (
        circuit_memory_bytes,
        retry_memory_bytes,
        routing_memory_bytes,
    )
    from netsim.engine.simulation import PORT_BYTES, QUEUE_BYTES

    network, classes, n_flows = scenario.network, scenario.fabric.n_link_classes, found.n_flows
    rows = network.n_ports * classes * ROW_BYTES
    tables = network.route.nbytes + circuit_memory_bytes(network, classes)
    tables += 0 if network.time_slots is None else network.time_slots.nbytes
    n_tasks = 0 if scenario.load.tasks is None else len(scenario.load.tasks)
    state = (
        n_flows * (STATE_BYTES_PER_FLOW - RESULT_FLOW_BYTES - HELD_FLOW_BYTES)
        + n_tasks * STATE_BYTES_PER_TASK
        + _program_bytes(scenario)
        + network.n_hosts * HOST_BYTES
        + network.n_ports * (PORT_BYTES + classes * QUEUE_BYTES)
        + routing_memory_bytes(network, scenario.fabric)
        + retry_memory_bytes(network, scenario.fabric)
        + _bitmap_bytes(scenario, point)
        + _series_bytes(scenario, point, found)
        + _readings_bytes(scenario, point)
    )
    return Memory(
        held=BASE_BYTES + tables + n_flows * HELD_FLOW_BYTES,
        state=state,
        packets=_pool_bytes(scenario, point, found),
        results=n_flows * RESULT_FLOW_BYTES + rows,
        outlines=network.n_ports * HELD_PORT_BYTES + network.n_hosts * HELD_HOST_BYTES,
        ends=network.n_ports * PORT_BYTES,
        flows=n_flows * SET_UP_FLOW_BYTES,
        n_flows=n_flows,
    )


def _program_bytes(scenario: Scenario) -> int:
    from netsim.engine.compiling.declarations import NO_PROGRAM, program_of

    program = scenario.load.program
    if program is None:
        return 0
    read, none = program_of(program.use), NO_PROGRAM
    of_tasks = program.n_tasks * (read.task.itemsize - none.task.itemsize)
    return of_tasks + scenario.network.n_hosts * read.host.itemsize


def _series_bytes(scenario: Scenario, point: Point, found: Estimate) -> int:
    """Return the memory of series. Raises InputError if their budget is too small."""
    from netsim.engine.series import memory_bytes

    if scenario.sampling is None:
        return 0
    n_traffic_classes = scenario.fabric.n_link_classes
    with errors_at(file=point.file):
        return memory_bytes(
            scenario.sampling, scenario.network, n_traffic_classes, found.simulated_ps
        )


def _readings_bytes(scenario: Scenario, point: Point) -> int:
    """Return the memory of the counters that [measure] reads at both ends of its window."""
    from netsim.engine.state_views import OF_QUEUES

    if point.measure is None:
        return 0
    n_queues = scenario.network.n_ports * scenario.fabric.n_traffic_classes
    return 2 * 8 * (len(scenario.flows) + len(OF_QUEUES) * n_queues)


def _pool_bytes(scenario: Scenario, point: Point, found: Estimate) -> int:
    """Return the memory of packets: packets on busy links, waiting packets, the empty parts of a
    link's first and last block, and the first rings of its queues."""
    from netsim.engine.kernels.links import BLOCK_SLOTS, FIRST_RING
    from netsim.engine.simulation import INGRESS_BYTES, SLOT_BYTES

    network, fabric = scenario.network, scenario.fabric
    slot_bytes = SLOT_BYTES + (INGRESS_BYTES if fabric.coupled else 0)
    per_delay = network.port_rate_bps * (network.port_delay_ps / 8e12) / point.packets.data_bytes
    flying = float(per_delay.mean()) * (1 + found.control_per_data)
    rest = BLOCK_SLOTS + FIRST_RING * fabric.n_link_classes
    per_port = min(flying, found.packet_hops / found.path_ports) + rest
    waiting = _waiting_slots(scenario, point, found)
    return int(found.path_ports * (waiting + per_port) * slot_bytes)


def _waiting_slots(scenario: Scenario, point: Point, found: Estimate) -> float:
    """Return the slots per port of packets that PFC holds; without PFC, `_pool_bytes` has room."""
    sizes = scenario.sizes
    fabrics = (scenario.fabric,) if sizes is None else sizes.fabrics
    n_ports = [1] if sizes is None else np.bincount(sizes.kind, minlength=len(fabrics))
    xoff_bytes = [fabric.queue.params.get("xoff_bytes", 0) for fabric in fabrics]
    held = SLOTS_PER_XOFF * np.average(xoff_bytes, weights=n_ports) / point.packets.data_bytes
    return float(min(held, SLOTS_PER_PACKET * found.packets / found.path_ports))


def _bitmap_bytes(scenario: Scenario, point: Point) -> int:
    """Return the memory of the transports' bitmaps: a bit per packet, in words of 32."""
    uses = point.transport_of_class
    bitmaps = sum(
        max(counted(getattr(use.module, name, 0), use.params) for use in uses)
        for name in ("TX_BITMAPS", "RX_BITMAPS")
    )
    words = (packet_counts(scenario.flows.size_bytes, point.packets) + 31) // 32
    return 8 * bitmaps * int(words.sum())
