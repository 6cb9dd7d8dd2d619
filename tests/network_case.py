"""The network of a case of the reference simulator, and its routes."""

from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
from reference.model import Case

from netsim.model.builder import NetworkBuilder
from netsim.model.circuits import Schedule
from netsim.model.faults import RowWriter
from netsim.model.flows import FlowTable
from netsim.model.network import Network
from netsim.model.routing import (
    NEVER,
    NO_ROUTE,
    RouteChanges,
    RoutingTable,
    TableWriter,
    Wiring,
    shortest_paths,
)
from netsim.model.routing_policy import NamedRouting, RoutingPolicy, TimeSlotRouting, TimeSlotTables


def network_of(case: Case) -> Network:
    """Return the case's network; builder cables have one delay, so delays are set afterwards."""
    builder = NetworkBuilder()
    builder.add_hosts(case.n_hosts)
    for _ in range(case.n_switches):
        builder.add_switch()
    for c in case.cables:
        if c.circuit is None:
            builder.cable(c.a, c.b, c.rate_bps, 1, nic=c.nic)
    for number, one in enumerate(case.circuits):
        times = {
            name: getattr(one, name)
            for name in ("reconfiguration_delay_ps", "sync_delay_ps", "offset_ps")
        }
        if one.control_delay_ps is None:
            ways = {"repeats": one.repeats, "bidirectional": one.bidirectional}
            schedule = Schedule(one.slots_ps, one.matchings, **ways, **times)
        else:
            ways = {"control_delay_ps": one.control_delay_ps, "bidirectional": one.bidirectional}
            schedule = Schedule(None, one.matchings, **ways, **times)
        switch = builder.add_circuit_switch(f"ocs{number}", schedule)
        for edge, delay_ps in one.fibers:
            builder.fiber(edge, switch, one.rate_bps, delay_ps)
    network = builder.build("case")
    if case.policy is not None:
        network = builder.build("case", policy=policy_of(case, network))
    delay = np.zeros(network.n_ports, np.int64)
    free = list(network.node_first_port[:-1])
    for c in case.cables:
        for node, delay_ps in ((c.a, c.delay_ab_ps), (c.b, c.delay_ba_ps)):
            delay[free[node]] = delay_ps
            free[node] += 1
    network = replace(network, port_delay_ps=delay)
    return network.with_phases(case.phases) if case.phases else network


@dataclass(frozen=True, eq=False)
class Over:
    """All shortest paths that use only some ports."""

    ports: np.ndarray

    def __call__(self, wiring: Wiring) -> RoutingTable:
        return shortest_paths(wiring.only(self.ports))


@dataclass(frozen=True, eq=False)
class OverBySlot(TimeSlotRouting):
    """The same by slot; ``slots_ps`` are their durations, and slot 0 starts at ``offset_ps``."""

    by: list[Over]
    slots_ps: tuple[int, ...]
    offset_ps: int

    def __call__(self, wiring: Wiring) -> RoutingTable:
        return self.by[0](wiring)

    def by_slot(self, wiring: Wiring) -> TimeSlotTables:
        tables = (one(wiring) for one in self.by)
        return TimeSlotTables(np.array(self.slots_ps), self.offset_ps, tables)


def policy_of(case: Case, network: Network) -> RoutingPolicy:
    """Return the case's routing policy, given its network without a policy."""
    assert case.policy is not None
    cable_of = np.zeros(network.n_ports, np.int64)
    free = list(network.node_first_port[:-1])
    for number, cable in enumerate(case.cables):
        for node in (cable.a, cable.b):
            cable_of[free[node]] = number
            free[node] += 1
    routings = []
    for number in range(len(case.policy.cables)):
        by = [Over(np.isin(cable_of, list(cables))) for cables in case.policy.slots_of(number)]
        is_slotted = number == case.policy.slotted
        slots = OverBySlot(by, case.policy.slots_ps, case.policy.offset_ps)
        routings.append(NamedRouting(str(number), slots if is_slotted else by[0]))
    numbers = case.policy.small_table, case.policy.control_table, case.policy.fallback
    small, control, fallback = (None if one is None else str(one) for one in numbers)
    of_flow = case.policy.of_flow

    def table_of(flows: FlowTable) -> np.ndarray:
        """Return the tables of odd flows; even flows name their own."""
        tables = [of_flow.get(flow, -1) if flow % 2 else -1 for flow in range(len(flows))]
        return np.array(tables, np.int64)

    given = {"large_min_bytes": case.policy.large_min_bytes, "by_phase": case.policy.by_phase}
    tables = {"small_table": small, "control_table": control, "fallback": fallback}
    return RoutingPolicy(routings, **given, **tables, table_of=table_of)


def routes_of(case: Case) -> RouteChanges | None:
    """Return the changes of switches' routes, starting from shortest paths."""
    if not case.reroutes:
        return None
    network = network_of(case)
    writer, lists = RowWriter(network), TableWriter()
    groups = [
        (network.edge_switch[begin:end] + case.n_hosts).tolist()
        for begin, end in pairwise(network.first_group.tolist())
    ]
    wiring = network.wiring()
    route = network.table.dense(wiring) if network.policy is None else network.route
    route = lists.translated(route, network.route_ports)
    for reroute in sorted(case.reroutes, key=lambda one: one.at_ps):
        switch = reroute.switch - case.n_hosts
        edges = groups[network.switch_network[switch]]
        first = int(wiring.route_first[switch]) * network.n_tables + reroute.table * len(edges)
        for edge, ports in reroute.ports.items():
            entry = lists.entry(np.array(ports)) if ports else NO_ROUTE
            route[first + edges.index(edge)] = entry
        table = lists.table(route, network.n_tables * wiring.route_first)
        from_ps = np.full(network.n_switches, NEVER)
        from_ps[switch] = reroute.at_ps
        writer.add(table, from_ps)
    return writer.changes(np.zeros(0, np.int64))
