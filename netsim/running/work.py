"""Predict the work of a simulation, and how long it takes.

The engine steps every node that has work through windows as long as the shortest link delay. A
run's time therefore depends on more than its packet-hops: with few packets in flight, each wakes a
node by itself, and every window checks all nodes. The time is the sum of

    packet-hops x HOP_NS, more in a network larger than the processor's caches,
    and more again with lossless switches
    steps       x STEP_NS: a step is one node with work in one window
    windows     x nodes x WINDOW_NODE_NS
    flows       x FLOW_NS

The constants were fitted to the shipped experiments (without p2p_8192) on one thread of a quiet
virtual machine, two cores of an Intel Xeon, on 2026-11-21. Of their 304 points 299 are within a
factor of two; whole experiments are at 0.66 (wan_fec) to 1.3 (p2p_512) of the measured time. The
worst are points of a few milliseconds, and BBR, whose probing prolongs a run up to threefold. Other
machines differ by tens of percent.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from netsim.bounds.fair_shares import NO_LINK, ecmp_paths
from netsim.bounds.ideal import hand_over_times, longest_chain_ps, round_trips
from netsim.errors import InputError
from netsim.model.circuit_times import duty, longest_period_ps
from netsim.model.fabric import packet_counts
from netsim.model.port_pairs import walk
from netsim.plugins.calls import call

if TYPE_CHECKING:
    from netsim.experiment import Point
    from netsim.experiment.scenario import Scenario
    from netsim.model.network import Network

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

HOP_NS = 33.0
LARGE_HOP_NS = 55.0
LOSSLESS_HOP_NS = 124.0
"""Extra time per packet-hop in a large network, and more if it is lossless."""

LARGE_NODES = 100
"""Nodes on the flows' paths at which half of the extra time applies."""

STEP_NS = 145.0
WINDOW_NODE_NS = 13.0
FLOW_NS = 930.0
START_S = 0.001

BARRIER_NS = 10_000.0
"""Time that several threads wait for each other per window. A second thread does not speed up
windows of 20 us (homa_w4), but those of 2 ms (p2p_512) 1.8 times."""

FURTHER_THREAD = 0.85
"""Efficiency of each thread after the first."""

SETUP_S = 0.1
SETUP_FLOW_NS = 2300.0
"""Building network, traffic and engine, and writing the results (fitted to md1)."""

COMPILE_S = 10.0
LOAD_S = 0.4
"""Per transport and fabric: compiling takes 8 to 12 s, otherwise code is loaded from the cache."""

MANY_STARTS = 100
"""Fewest different start times of open arrivals."""

MAX_CONTROL = 1000.0
"""Most control packets per data packet; more is an error of the transport."""

BLOCK = 1 << 16
PATHS_SEED = 1


@dataclass(frozen=True)
class Work:
    """Predicted work of a point.

    `hops` counts all packets, `resent` the transmissions per data packet, `windows` those in which
    something happens, and `steps` the nodes stepped in all of them. `path_nodes` and `path_ports`
    are on the flows' paths, in both directions.
    """

    packets: int
    hops: int
    control_per_data: float
    resent: float
    simulated_ps: int
    windows: float
    steps: float
    path_nodes: int
    path_ports: int
    nodes: int
    flows: int
    lossless: bool
    offered: float = 0.0
    """Mean load that open arrivals offer the links between switches that they use, of capacity."""

    def seconds(self, threads: int) -> float:
        """Wall-clock time of the simulation."""
        size = self.path_nodes / (self.path_nodes + LARGE_NODES)
        hop_ns = HOP_NS + size * (LARGE_HOP_NS + (LOSSLESS_HOP_NS if self.lossless else 0.0))
        shared_ns = self.hops * hop_ns + self.steps * STEP_NS + self.flows * FLOW_NS
        alone_ns = self.windows * self.nodes * WINDOW_NODE_NS
        together_ns = shared_ns / (1 + FURTHER_THREAD * (threads - 1)) + self.windows * BARRIER_NS
        # The engine tries one worker and all of them, and keeps the faster.
        return START_S + 1e-9 * (alone_ns + min(shared_ns, together_ns))

    @property
    def setup_seconds(self) -> float:
        """Wall-clock time before and after the simulation, without compiling."""
        return SETUP_S + 1e-9 * SETUP_FLOW_NS * self.flows


def work(point: Point, scenario: Scenario, simulated_ps: int | None = None) -> Work:
    """Predict the work of a point whose network and traffic are built; `simulated_ps` if it is
    known."""
    from netsim.engine.sizes import longest_window_ps

    network, flows = scenario.network, scenario.flows
    packets = packet_counts(flows.size_bytes, point.packets)
    links, load_ps, nodes, ports = _loads(scenario, packets, point.packets.header_bytes)
    resent = _resent(point, scenario)
    control = _control_packets(point, scenario, packets)
    all_hops = float((links * (packets + control) * resent).sum())
    if simulated_ps is None:
        simulated_ps = max(int(load_ps.max(initial=0)), _last_ps(point, scenario), 1)
    share = 1.0
    if point.end_ps is not None and point.end_ps < simulated_ps:
        share = point.end_ps / simulated_ps
    # With few flows, most windows are empty.
    active_ps = float(simulated_ps)
    if network.circuits is None:
        active_ps = min(active_ps, float(scenario.ideal.fct_ps.sum(dtype=np.float64)))
    window_ps = longest_window_ps(network, flows)
    windows, steps = _windows(share * active_ps / window_ps, share * all_hops, nodes)
    return Work(
        packets=int(packets.sum()),
        hops=int(share * all_hops),
        control_per_data=float(control.sum() / max(1, packets.sum())),
        resent=float((packets * resent).sum() / max(1, packets.sum())),
        simulated_ps=int(share * simulated_ps),
        windows=windows,
        steps=steps,
        path_nodes=nodes,
        path_ports=ports,
        nodes=network.n_nodes,
        flows=len(flows),
        lossless=scenario.fabric.coupled,
        offered=_offered(network, flows.start_ps, load_ps),
    )


def _last_ps(point: Point, scenario: Scenario) -> int:
    """Return when a workload may end: the largest of the last start plus the longest ideal FCT, the
    longest chain of tasks, and what parts of the workload expect; plus the wait for a circuit (all
    reconfigurations, if circuits follow the workload)."""
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


def _offered(network: Network, start_ps: Ints, load_ps: Floats) -> float:
    """Return `Work.offered`; 0 for few arrivals."""
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
    """Return the windows in which something happens, and the steps of nodes in them.

    Assumes that hops fall on windows, and those of a window on nodes, at random.
    """
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
    """Return the mean transmissions per packet of each flow.

    That exceeds 1 where senders keep their rate (KEEPS_RATE), switches trim, and links inside the
    network are overloaded; the load is what the hosts' own links allow.
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
