"""Build the engine's arrays from a network, its flows, a fabric and transports."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from netsim.engine import link_state
from netsim.engine.compiling.declarations import Discipline, Program, Protocol, RoutingAlgorithm
from netsim.engine.division import WHOLE, Rows, Share, build_crew, divide, share_of, worker_rows
from netsim.engine.host_state import build_hosts
from netsim.engine.kernels import layout
from netsim.engine.kernels.fields import NO_FLOW, Array
from netsim.engine.kernels.specialization_constants import FEATURES
from netsim.engine.kernels.trace import Trace, build_trace
from netsim.engine.pool import build_pool, lay_out
from netsim.engine.records import attribute_access
from netsim.engine.simulation import (
    FeatureSet,
    Options,
    Simulation,
    Sizes,
    longest_window_ps,
    shortest_delay_ps,
)
from netsim.errors import InputError
from netsim.frozen import frozen
from netsim.model.fabric import Fabric
from netsim.model.faults import constant_routes
from netsim.model.network import Network
from netsim.model.port_pairs import BY_ROUTING, PLANE_BALANCING

Files = tuple[Protocol, Discipline, RoutingAlgorithm, Program]  # declarations of a run's plugins


@dataclass
class State:
    """Complete state of a simulation, in groups of arrays."""

    net: layout.Net
    links: layout.LinkState
    hosts: layout.HostState
    clock: layout.Clock
    crew: layout.Crew
    scratch: layout.Scratch
    share: Share
    first_timer: Array  # int64[n_hosts + 1], first timer of each host


def build_state(
    simulation: Simulation,
    files: Files,
    pars: Sequence[Mapping[str, int | float]],
    options: Options,
    *,
    jit: bool,
) -> State:
    """Return the initial state; ``pars`` are the parameters of each transport. Without ``jit``,
    plain Python can use ``record.field``."""
    protocol, discipline, routing, program = files
    network = simulation.network
    sizes = options.sizes or Sizes()
    pool = build_pool(
        network.n_ports,
        protocol.packet,
        options.workers,
        origins=discipline.has("on_departure"),
        blocks=sizes.blocks,
    )
    trace: Trace | Array = np.zeros(1, np.int64)
    if options.traces:
        records = (protocol.packet, protocol.tx, protocol.rx)
        since = {flow: options.trace_starts.get(flow, 0) for flow in options.trace}
        times = [options.trace_ports.get(port, ()) for port in range(network.n_ports)]
        flows, n_hosts = simulation.flows, network.n_hosts
        capacity = options.trace_capacity
        trace = build_trace(flows, since, n_hosts, times, records, capacity)
    net, share, ranks = build_net(simulation, routing), WHOLE, options.ranks
    if ranks is not None:
        if routing.n_published:
            message = "publishes values, which processes do not exchange"
            raise InputError(message, key="fabric.routing", hint="run it without --mpi")
        if discipline.reorders:
            message = "changes the order of arrivals on a link, which processes do not exchange"
            hint = "run it without --mpi"
            raise InputError(message, key="fabric.queue_discipline", hint=hint)
        parts = divide(net, network.port_delay_ps, simulation.flows, ranks.n)
        share = share_of(simulation, parts, ranks.rank)
    hosts, first_timer = build_hosts(simulation, protocol, program, routing.plane, pars, share)
    state = State(
        net=net,
        links=link_state.build_links(simulation, protocol, discipline, routing, pool, trace, share),
        hosts=hosts,
        clock=build_clock(simulation, hosts, options.window_ps, share.nics),
        crew=build_crew(net, options.workers),
        scratch=build_scratch(network, options.workers, sizes.scratch),
        share=share,
        first_timer=first_timer,
    )
    lay_out(state.net, state.links, state.hosts, share)
    if not jit:
        groups = (state.links, state.hosts, state.clock, state.crew)
        state.links, state.hosts, state.clock, state.crew = map(attribute_access, groups)
    return state


@frozen
class Run:
    """The values that determine a run's specialization constants."""

    protocol: Protocol
    discipline: Discipline
    routing: RoutingAlgorithm
    program: Program
    fabric: Fabric
    needs: FeatureSet
    traces: bool = False
    profile: bool = False

    @property
    def constants(self) -> dict[str, Any]:
        """The values of the constants. Raises InputError, without a file, if the discipline or the
        routing algorithm does not support the network."""
        if self.needs.circuits and (self.discipline.pauses or self.discipline.has("has_credit")):
            raise InputError(
                "conflicts with circuits: pauses and credits cannot cross a circuit in time",
                key="fabric.queue_discipline",
                hint="use one without PFC, such as drop_tail or trim",
            )
        if self.fabric.class_weights is not None and self.discipline.is_shaped:
            raise InputError(
                f'conflicts with queue_discipline = "{self.fabric.queue_discipline}", which makes '
                "classes wait",
                key="fabric.class_weights",
                hint="remove it, or use another discipline",
            )
        if self.needs.phase_driven and self.indirect == layout.OPPORTUNISTIC:
            raise InputError(
                "conflicts with phase-driven circuits: indirect packets need circuits with a "
                "timetable",
                key="fabric.circuits.indirect",
                hint='"none"',
            )
        _check_routing(self.fabric, self.routing, self.needs, self.indirect)
        return {name: feature.value(self) for name, feature in FEATURES.items()}

    @property
    def indirect(self) -> int:
        return link_state.indirect(self.fabric, self.needs)

    @property
    def ecn_at(self) -> str | None:
        return None if self.fabric.ecn is None else self.fabric.ecn.at

    @property
    def coupled(self) -> bool:
        return (
            self.discipline.coupled or self.routing.coupled or self.indirect == layout.OPPORTUNISTIC
        )

    @property
    def routes_ahead(self) -> bool:
        if self.discipline.makes_packets:  # they count among the arrivals that draw
            return False
        return not self.coupled or (self.routing.ahead and self.indirect != layout.VLB)

    @property
    def plane_balancing(self) -> int:
        if not self.needs.several_ports:
            return layout.ONE_PORT
        return layout.HASH + PLANE_BALANCING.index(self.fabric.plane_balancing)

    @property
    def may_be_unroutable(self) -> bool:
        needs = self.needs
        lacks_routes = needs.faults or needs.time_slots or needs.apart
        return lacks_routes or self.indirect != layout.DIRECT or self.routing.via


def _check_routing(
    fabric: Fabric, routing: RoutingAlgorithm, feature_set: FeatureSet, how: int
) -> None:
    """Raise InputError if the routing algorithm does not support the network."""
    others = {
        "several routing tables": feature_set.policy,
        "time-slotted routes": feature_set.time_slots,
        "indirect packets": how != layout.DIRECT,
    }
    for other in (name for name, used in others.items() if used and routing.via):
        message = f"sends packets via other groups, which {other} exclude"
        raise InputError(f'"{fabric.routing.name}" {message}', key="fabric.routing")
    if fabric.plane_balancing == BY_ROUTING and not routing.has("choose_plane"):
        message = f'"{fabric.routing.name}" chooses no port of a host: it has no choose_plane'
        raise InputError(message, key="fabric.plane_balancing")
    if routing.has("on_tick") and fabric.routing.params["tick"] < 1:
        raise InputError("must be at least 1ps", key="fabric.tick")


def build_net(simulation: Simulation, routing: RoutingAlgorithm) -> layout.Net:
    """Return the network and its routes over time."""
    network, faults = simulation.network, simulation.faults
    routes = None if faults is None else faults.routes
    if routes is None and faults is not None:
        routes = constant_routes(network)
    none, slots = np.zeros(1, np.int64), network.time_slots
    ends_ps = none if slots is None else np.cumsum(slots.slots_ps)
    return layout.grouped(
        layout.Net,
        n_hosts=network.n_hosts,
        first_port=network.node_first_port,
        first_word=link_state.first_words(network),
        port_node=network.port_node,
        port_peer=network.port_peer,
        host_group=network.host_group,
        host_port=network.host_port,
        route_first=np.concatenate([np.zeros(network.n_hosts, np.int64), network.route_first]),
        row_ptr=none if routes is None else routes.row_ptr,
        row_from=none if routes is None else routes.row_from_ps,
        row_first=none if routes is None else routes.row_first,
        # The first slot begins up to a period before 0, so no time precedes it.
        slots_from=0 if slots is None else slots.offset_ps % ends_ps[-1] - ends_ps[-1],
        slot_ends=ends_ps,
        slot_row_first=none[None] if slots is None else slots.row_first,
        route=(slots or routes or network).route,
        route_ports=(slots or routes or network).route_ports,
        **link_state.build_facts(network, routing),
        **link_state.build_detours(simulation),
    )


def build_clock(
    simulation: Simulation, hosts: layout.HostState, window_ps: int | None, own: Rows
) -> layout.Clock:
    """Return the clock before the first window: hosts with the NICs ``own`` wake at their first
    flow's start."""
    network, clock = simulation.network, np.zeros(1, layout.CLOCK)
    longest_ps = longest_window_ps(network, simulation.flows)
    clock["lookahead_ps"] = network.lookahead_ps
    clock["last_delivered"] = NO_FLOW
    clock["returns_ps"] = layout.INF
    clock["expected"] = np.count_nonzero(hosts.send_task < 0)
    clock["window_ps"] = min(longest_ps, window_ps or longest_ps)
    clock["ending_ps"] = shortest_delay_ps(network, simulation.flows)
    next_event = np.full(network.n_nodes, layout.INF, np.int64)
    nics = hosts.nics[own]
    nics = nics[hosts.heap[nics["heap_off"] - 1] > 0]
    next_event[nics["host"]] = hosts.timers["key"][hosts.heap[nics["heap_off"]]]
    n = network.n_nodes
    return layout.grouped(
        layout.Clock,
        clock=clock,
        next_event=next_event,
        soonest=np.minimum.reduceat(next_event, np.arange(0, n, layout.BLOCK)),
        active=np.zeros(n, np.int64),
        status=np.zeros(n, np.int64),
        what=np.zeros(n, np.int64),
        parts=np.zeros(1, layout.STAGE_TIMES),
        slots=link_state.build_slots(simulation),
    )


def wake_only(clock: layout.Clock, hosts: np.ndarray) -> None:
    """Let only some hosts (bool[n_hosts]) start anything before the first window."""
    next_event = np.asarray(clock.next_event)
    next_event[: hosts.size][~hosts] = layout.INF
    starts = np.arange(0, next_event.size, layout.BLOCK)
    np.asarray(clock.soonest)[:] = np.minimum.reduceat(next_event, starts)


def build_scratch(network: Network, n_workers: int, capacity: int) -> layout.Scratch:
    """Return scratch memory for ``n_workers`` and ``capacity`` arrivals in a window at one
    switch."""
    most_ports = int(np.diff(network.node_first_port).max())
    w = n_workers
    return layout.grouped(
        layout.Scratch,
        keys=np.zeros((w, 2, capacity), np.int64),
        slots=np.zeros((w, capacity), np.int64),
        outs=np.zeros((w, capacity), np.int32),
        ins=np.zeros((w, capacity), np.int32),
        buckets=worker_rows(w, layout.N_BUCKETS + 1),
        ends=worker_rows(w, most_ports),
        read_to=worker_rows(w, most_ports),
        n_unroutable=worker_rows(w, most_ports),
        calendar=worker_rows(w, layout.N_BUCKETS),
        next_in_bucket=worker_rows(w, most_ports),
        due=worker_rows(w, most_ports),
        words=worker_rows(w, layout.N_BUCKETS // 32),
    )
