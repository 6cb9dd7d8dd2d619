"""How much there is to simulate, and how long that takes.

The engine steps every node that has something to do through windows as long as the shortest link
delay. So a run's time is not its packet-hops alone: where few packets are under way, each of them
wakes a node for itself, and every window looks once at all nodes. The time is the sum of

    packet-hops x HOP_NS, more in a network that does not fit into the processor's caches,
    and more again where switches are lossless
    steps       x STEP_NS: a step is one node with something to do in one window
    windows     x nodes x WINDOW_NODE_NS
    flows       x FLOW_NS

The constants were fitted to the shipped experiments (p2p_8192 left out) on one thread of a quiet
virtual machine, two cores of an Intel Xeon, on 2026-11-21. Of their 304 points 299 come out within
a factor of two, and every experiment as a whole between 0.66 (wan_fec) and 1.3 (p2p_512) of what it
took. The worst are points of some milliseconds, and BBR, whose probing makes a run longer than its
bottleneck does (a factor of three). Other machines differ by tens of percent.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from netsim.bounds.chains import longest_chain_ps
from netsim.bounds.fair_shares import NO_LINK, ecmp_paths
from netsim.bounds.ideal import hand_over_times, round_trips
from netsim.errors import InputError
from netsim.model.circuit_times import duty, longest_period_ps
from netsim.model.fabric import PATH_FOR_LIFE, packet_counts
from netsim.model.port_pairs import walk
from netsim.plugins.calls import call

if TYPE_CHECKING:
    from netsim.experiment import Point
    from netsim.experiment.scenario import Scenario
    from netsim.model.tasks import TaskTable

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

HOP_NS = 33.0
LARGE_HOP_NS = 55.0
LOSSLESS_HOP_NS = 124.0
"""What a packet-hop costs more in a large network, and a further time if that is lossless."""

LARGE_NODES = 100
"""Nodes on the flows' paths for which half of that is paid."""

STEP_NS = 145.0
WINDOW_NODE_NS = 13.0
FLOW_NS = 930.0
START_S = 0.001

BARRIER_NS = 10_000.0
"""Several threads wait for each other in each window. With two, a window of 20 us (homa_w4) is
no faster than with one, and one of 2 ms (p2p_512) 1.8 times as fast."""

FURTHER_THREAD = 0.85
"""How much of a thread each one after the first is worth."""

SETUP_S = 0.1
SETUP_FLOW_NS = 2300.0
"""Around a simulation: network, traffic and engine are built, and the results written (md1)."""

COMPILE_S = 10.0
LOAD_S = 0.4
"""For each transport and fabric: machine code is made, 8 to 12 s, or read from the cache."""

MAX_CONTROL = 1000.0
"""Packets that a data packet may cause; more is a mistake of the transport's."""

BLOCK = 1 << 16
PATHS_SEED = 1


@dataclass(frozen=True)
class Work:
    """What a point asks of the engine.

    `hops` has all packets; `control_per_data` are those that a data packet causes; `resent` is how
    often a data packet is sent, on average; `windows` are those in which something happens, and
    `steps` the nodes that are stepped in all of them.
    `path_nodes` and `path_ports` are on the flows' paths, there and back.
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

    def seconds(self, threads: int) -> float:
        """Wall-clock time of the simulation itself."""
        size = self.path_nodes / (self.path_nodes + LARGE_NODES)
        hop_ns = HOP_NS + size * (LARGE_HOP_NS + (LOSSLESS_HOP_NS if self.lossless else 0.0))
        shared_ns = self.hops * hop_ns + self.steps * STEP_NS + self.flows * FLOW_NS
        alone_ns = self.windows * self.nodes * WINDOW_NODE_NS
        together_ns = shared_ns / (1 + FURTHER_THREAD * (threads - 1)) + self.windows * BARRIER_NS
        # The engine tries one worker and all of them, and goes on with the faster.
        return START_S + 1e-9 * (alone_ns + min(shared_ns, together_ns))

    @property
    def setup_seconds(self) -> float:
        """Wall-clock time before and after the simulation, without compiling."""
        return SETUP_S + 1e-9 * SETUP_FLOW_NS * self.flows


def work(point: Point, scenario: Scenario) -> Work:
    """The work of a point whose network and traffic are built.

    The simulated time is taken to be what the busiest link needs for its bytes while it is there,
    or the last flow's start, its time alone and a wait for its circuit (for all turns, if circuits
    follow the workload), and what the longest chain of tasks takes, or the router of a serving run
    expects, if that is later.
    """
    network, flows = scenario.network, scenario.flows
    packets = packet_counts(flows.size_bytes, point.packets)
    links, load_ps, nodes, ports = _loads(scenario, packets, point.packets.header_bytes)
    resent = _resent(point, scenario)
    control = _control_packets(point, scenario, packets)
    all_hops = float((links * (packets + control) * resent).sum())
    longest_ps = int(scenario.ideal.fct_ps.max(initial=0))
    last_ps = int(flows.start_ps.max(initial=0)) + longest_ps
    if scenario.load.tasks is not None:
        last_ps = max(last_ps, _chain_ps(point, scenario, scenario.load.tasks))
    last_ps = max([last_ps, *(part.expected_ps for part in scenario.load.parts)])
    last_ps += longest_period_ps(network.circuits)
    if network.circuits is not None and network.circuits.phase_schedule is not None:
        last_ps += network.circuits.phase_schedule.reconfiguration_ps
    simulated_ps = max(int(load_ps.max(initial=0)), last_ps, 1)
    share = 1.0
    if point.stop.max_time_ps is not None and point.stop.max_time_ps < simulated_ps:
        share = point.stop.max_time_ps / simulated_ps
    # Where flows are few and far between, nothing happens for most of the time.
    active_ps = float(simulated_ps)
    if network.circuits is None:
        active_ps = min(active_ps, float(scenario.ideal.fct_ps.sum(dtype=np.float64)))
    windows, steps = _windows(share * active_ps / _window_ps(scenario), share * all_hops, nodes)
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
    )


def _chain_ps(point: Point, scenario: Scenario, tasks: TaskTable) -> int:
    """What the longest chain of tasks takes, with flows alone in the network."""
    left_ps = hand_over_times(scenario.network, scenario.flows, point.packets, scenario.port_pairs)
    return longest_chain_ps(tasks, scenario.flows, scenario.ideal.fct_ps, left_ps)


def _control_packets(point: Point, scenario: Scenario, packets: Ints) -> Floats:
    """How many packets each flow causes besides its own, as its transport tells."""
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
        told = call(use, "control_packets", use.params, packets[these], bdp_packets)
        try:
            control[these] = np.minimum(told, MAX_CONTROL * packets[these])
        except (TypeError, ValueError):
            message = "control_packets() does not return a number for each flow"
            raise InputError(message, file=str(use.plugin.path)) from None
    return np.maximum(control, 0.0)


def _per_flow(point: Point, scenario: Scenario, name: str, default: float) -> Floats:
    """What the transport of each flow declares under a name."""
    uses = point.transport_of_class
    declared = np.array([float(getattr(use.module, name, default)) for use in uses])
    of_flow: Floats = declared[scenario.class_of_flow]
    return of_flow


def _window_ps(scenario: Scenario) -> int:
    from netsim.engine.sizes import longest_window_ps

    return longest_window_ps(scenario.network, scenario.flows)


def _windows(most: float, hops: float, nodes: int) -> tuple[float, float]:
    """Windows in which something happens, and the steps of nodes in all of them.

    As if hops fell on windows, and those of a window on nodes, at random.
    """
    windows = max(1.0, most)
    windows *= -np.expm1(-hops / windows)
    if not windows:
        return 0.0, 0.0
    return float(windows), float(-windows * nodes * np.expm1(-hops / windows / max(1, nodes)))


def _crossings(scenario: Scenario) -> Iterator[tuple[Ints, Ints, Floats]]:
    """(flow, port, share) of links that flows cross, each a part of all.

    A flow has equal shares on its port pairs. Under ECMP it has a random path; where packets
    spread, a port stands for all that are like it, and gets a share of the flow.
    """
    network, port_pairs = scenario.network, scenario.port_pairs
    rng = np.random.default_rng(PATHS_SEED)
    flow_of = np.repeat(np.arange(port_pairs.counts.size), port_pairs.counts)
    part = 1 / port_pairs.counts[flow_of]
    for begin in range(0, flow_of.size, BLOCK):
        src, dst = (
            side[begin : begin + BLOCK] for side in (port_pairs.src_port, port_pairs.data_to)
        )
        if scenario.fabric.load_balancing in PATH_FOR_LIFE:
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
    """Links on each flow's path, how long each port sends in all, the nodes on the paths, and the
    ports there and back, those that several flows share counted for each.
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
    """How often each flow's packets are sent, on average.

    More than once where its sender does not slow down (KEEPS_RATE), switches trim, and the links
    inside the network are asked for more than they carry: hosts' shares of their own links alone
    decide what is asked for.
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
