"""The network: hosts and switches joined by cables, as flat arrays.

A topology builds its graph with `NetworkBuilder` (builder.py) and hands back a `Network`, in which
everything is checked and numbered. Each cable is two directed links; a link is identified
with the egress port that feeds it.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from netsim.errors import InputError
from netsim.limits import DELAY_PS
from netsim.model.circuits import Circuits
from netsim.model.relays import RelayRule
from netsim.model.routing import COUNT_BITS, COUNT_MASK, NO_ROUTE, Routing, Wiring, shortest_paths
from netsim.model.routing_policy import CompactSlotTables, RoutingPolicy
from netsim.model.schedules import NONE
from netsim.units import format_time

if TYPE_CHECKING:
    import networkx


from netsim.model.circuits import CircuitSwitch


@dataclass(frozen=True, eq=False)
class Plan:
    """What a builder was told, in the order in which it was.

    Attributes:
        names, tiers, latency_ps: of the switches.
        cables: int64[n, 5], two nodes, bit/s, ps and the NIC of a host's end. Those of circuit
            switches are not among them.
        circuit_switches: with their fibers.
    """

    names: list[str] = field(default_factory=list)
    tiers: list[int] = field(default_factory=list)
    latency_ps: list[int] = field(default_factory=list)
    cables: NDArray[np.int64] = field(default_factory=lambda: np.zeros((0, 5), np.int64))
    circuit_switches: list[CircuitSwitch] = field(default_factory=list)


HOST_TIER = -1
MAX_SWITCH_PORTS = COUNT_MASK

# What a network takes in memory while it is built.
HOST_BYTES, SWITCH_BYTES, CABLE_BYTES, ROUTE_BYTES = 200, 600, 400, 20
DELAY_HINT = f"less than {format_time(DELAY_PS, 4)}"


@dataclass(frozen=True, eq=False)
class Network:
    """A checked network. Hosts are nodes 0..n_hosts-1, switches follow.

    Ports are numbered globally: nodes in order of id, each node's ports in the order in
    which its cables were added. A port's *local* number counts from its node's first port.

    Attributes:
        node_first_port: int64[n_nodes + 1].
        port_node: int32[n_ports], the node of a port.
        port_peer: int32[n_ports], the port at the other end of the cable.
        port_rate_bps: int64[n_ports], line rate of the link that leaves by the port.
        port_delay_ps: int64[n_ports], propagation of the cable plus the latency of the
            switch it enters (nothing is added at a host).
        tier: int8[n_nodes], -1 for hosts.
        port_nic: int16[n_host_ports], which NIC of its host a port belongs to, from 0 on.
        port_network: int32[n_host_ports], which network a host's port leads to: one of the
            parts into which the switches fall without the hosts.
        host_group: int32[n_tables * n_host_ports], the entry of each address (`address`) in
            the rows of its network's switches: those of the first routing table, one for each
            group (edge switch), then those of the second one.
        host_port: int32[n_tables * n_host_ports], of each address the local port at its edge switch
            that leads to it.
        edge_switch: int32[n_groups], switch index (node - n_hosts) of each group, network by
            network.
        first_group: int64[n_networks + 1], where the groups of each network begin.
        switch_network: int32[n_switches], the network of each switch.
        route_first: int64[n_switches], where a switch's row of the routing table begins.
        route, route_ports: see `netsim.model.routing.RoutingTable`.
        routing: what made them, and makes others when links are down.
        policy: several routing tables and who uses which; None: there is one.
        time_slots: routes of each time slot; those above are then of slot 0. None: they stay.
        circuits: of cables that go through circuit switches; None if there are no such switches.
        relays: which messages go by way of a peer; None: those without a network in common are
            refused.
        switch_queue_bytes: int64[n_switches], the queues of switches that have others than [fabric]
            says, and 0 of all that have not; None: of all.
        reduction: of switches that add up (`netsim.model.reduction`); None: they do not.
        plan: what it was built from, for a network that it becomes a part of.

    The ports of hosts come first. Packets are addressed to them by one of the routing tables; by
    the first one an address is the port's number. With one port a host they are numbered as hosts.
    """

    name: str
    n_hosts: int
    n_nodes: int
    node_first_port: NDArray[np.int64]
    port_node: NDArray[np.int32]
    port_peer: NDArray[np.int32]
    port_rate_bps: NDArray[np.int64]
    port_delay_ps: NDArray[np.int64]
    tier: NDArray[np.int8]
    switch_names: tuple[str, ...]
    port_nic: NDArray[np.int16]
    port_network: NDArray[np.int32]
    host_group: NDArray[np.int32]
    host_port: NDArray[np.int32]
    edge_switch: NDArray[np.int32]
    first_group: NDArray[np.int64]
    switch_network: NDArray[np.int32]
    route_first: NDArray[np.int64]
    route: NDArray[np.int64]
    route_ports: NDArray[np.int32]
    routing: Routing = shortest_paths
    policy: RoutingPolicy | None = None
    time_slots: CompactSlotTables | None = None
    circuits: Circuits | None = None
    relays: RelayRule | None = None
    switch_queue_bytes: NDArray[np.int64] | None = None
    reduction: Reduction | None = None
    plan: Plan = field(default_factory=Plan, repr=False)

    @property
    def n_switches(self) -> int:
        return self.n_nodes - self.n_hosts

    @property
    def n_ports(self) -> int:
        return int(self.port_node.size)

    @property
    def n_host_ports(self) -> int:
        """Ports of all hosts: those below this number."""
        return int(self.node_first_port[self.n_hosts])

    @property
    def port_group(self) -> NDArray[np.int32]:
        """int32[n_host_ports]: the group of each host's port."""
        return self.host_group[: self.n_host_ports]

    @property
    def n_tables(self) -> int:
        return 1 if self.policy is None else len(self.policy.routings)

    def address(self, port: NDArray[np.int64], table: NDArray[np.int64] | int) -> NDArray[np.int64]:
        """How packets are addressed to hosts' ports by a routing table, or by one for each."""
        found: NDArray[np.int64] = port + table * self.n_host_ports
        return found

    def table_name(self, address: int) -> str:
        """Return the name of an address's routing table; "" if there is only one."""
        return "" if self.policy is None else self.policy.names[address // self.n_host_ports]

    @property
    def has_several_ports(self) -> bool:
        """Has any host more than one port?"""
        return self.n_host_ports > self.n_hosts

    @cached_property
    def first_nic(self) -> NDArray[np.int64]:
        """int64[n_hosts + 1]: NICs counted through all hosts, the first one of each host."""
        last = np.maximum.reduceat(self.port_nic, self.node_first_port[: self.n_hosts])
        return np.concatenate([[0], np.cumsum(last.astype(np.int64) + 1)])

    @cached_property
    def nic_of_port(self) -> NDArray[np.int64]:
        """int64[n_host_ports]: the NIC of each host's port, counted through all hosts."""
        return self.first_nic[self.port_node[: self.n_host_ports]] + self.port_nic

    @cached_property
    def nic_rate_bps(self) -> NDArray[np.int64]:
        """int64[n_nics]: the line rates of each NIC's ports together."""
        rates = np.zeros(int(self.first_nic[-1]), np.int64)
        np.add.at(rates, self.nic_of_port, self.port_rate_bps[: self.n_host_ports])
        return rates

    @property
    def n_links(self) -> int:
        """Directed links, one for each port."""
        return self.n_ports

    @property
    def n_groups(self) -> int:
        return int(self.edge_switch.size)

    def wiring(self, usable: NDArray[np.bool_] | None = None) -> Wiring:
        """Who is joined to whom; routes lead out of `usable` ports (bool[n_ports]) only.

        In no case do they lead out of ports whose light never passes a circuit switch.
        """
        up = None if self.circuits is None else self.circuits.ever_up
        if up is not None:
            usable = up if usable is None else usable & up
        return Wiring(
            n_hosts=self.n_hosts,
            n_nodes=self.n_nodes,
            node_first_port=self.node_first_port,
            port_node=self.port_node,
            port_peer=self.port_peer,
            edge_switch=self.edge_switch,
            first_group=self.first_group,
            switch_network=self.switch_network,
            circuits=self.circuits,
            usable=usable,
            up_in_slot=None if self.circuits is None else self.circuits.up_in_slot,
        )

    @cached_property
    def lookahead_ps(self) -> int:
        """The smallest delay of any link: what happens at a node is felt no sooner elsewhere."""
        return int(self.port_delay_ps.min())

    @cached_property
    def host_rate_bps(self) -> int:
        """The line rate of the slowest host: of all ports of its first NIC together."""
        return int(self.nic_rate_bps[self.first_nic[:-1]].min())

    @cached_property
    def bisection_bps(self) -> int:
        """Capacity, one way, between the two halves of a network layered in tiers.

        That is half of the smallest capacity between neighboring tiers. Cables between
        switches of one tier are not counted, so for a network that is not layered this is
        only the half of what the hosts can send.
        """
        below = self.tier[self.port_node]
        above = self.tier[self.port_node[self.port_peer]]
        capacity = [
            int(self.port_rate_bps[(below <= tier) & (above > tier)].sum())
            for tier in range(HOST_TIER, int(self.tier.max()))
        ]
        return min(capacity) // 2

    @cached_property
    def diameter(self) -> int:
        """Links on the longest of all first shortest paths between two hosts, by any way."""
        sizes = np.diff(self.first_group)
        length = self.n_tables * sizes  # of a row
        switch = np.repeat(self.edge_switch.astype(np.int64), np.repeat(length, sizes))
        entry = np.concatenate([np.tile(np.arange(self.n_tables * n), n) for n in sizes.tolist()])
        there = self.route[self.route_first[switch] + entry] != NO_ROUTE
        entry, switch, hops = entry[there], switch[there], 2
        while True:
            count = self.route[self.route_first[switch] + entry] & COUNT_MASK
            entry, switch = entry[count > 0], switch[count > 0]
            if not switch.size:
                return hops
            switch = self.next_switch(self.first_port(switch, entry))
            hops += 1

    def candidates(self, switch: int, group: int, table: int = 0) -> NDArray[np.int32]:
        """Local ports of a switch (index) toward a group of its network; empty for its own.

        Raises InputError if there is no route to it.
        """
        begin, end = self.first_group[self.switch_network[switch] :][:2].tolist()
        entry = int(self.route[int(self.route_first[switch]) + table * (end - begin) + group])
        if entry == NO_ROUTE:
            names = self.switch_names
            to = names[self.edge_switch[begin + group]]
            raise InputError(f"no route leads from {names[switch]} to {to}")
        offset = entry >> COUNT_BITS
        return self.route_ports[offset : offset + (entry & COUNT_MASK)]

    @cached_property
    def reaches_all(self) -> bool:
        """Does every switch have a route to every edge switch of its network, by every way?"""
        return not (self.route == NO_ROUTE).any()

    def reaches(self, src: NDArray[np.int64], dst: NDArray[np.int64]) -> NDArray[np.bool_]:
        """bool[n]: does a route lead from hosts' ports to addresses, each in the same network?"""
        switch = self.next_switch(src)
        found: NDArray[np.bool_] = (
            self.route[self.route_first[switch] + self.host_group[dst]] != NO_ROUTE
        )
        return found

    def first_port(self, switch: NDArray[np.int64], index: NDArray[np.int64]) -> NDArray[np.int64]:
        """Global port of the first candidate of each switch (index), by a place in its row.

        That is a group, or what `host_group` says; none may be the switch's own.
        """
        entry = self.route[self.route_first[switch] + index]
        local: NDArray[np.int32] = self.route_ports[entry >> COUNT_BITS]
        return self.node_first_port[switch + self.n_hosts] + local

    def next_switch(self, port: NDArray[np.int64]) -> NDArray[np.int64]:
        """Index of the switch that each global port leads to."""
        return self.port_node[self.port_peer[port]].astype(np.int64) - self.n_hosts

    def path(self, src: int, dst: int, table: int = 0) -> list[int]:
        """Global ports that a packet leaves by on the first path between two hosts' ports.

        They are by one routing table.

        Raises InputError if they are not ports of hosts, lead to different networks, or no route
        leads from the one to the other.
        """
        for port in (src, dst):
            if not 0 <= port < self.n_host_ports:
                raise InputError(
                    f"no host has port {port} (hosts' ports are 0..{self.n_host_ports - 1})"
                )
        if self.port_network[src] != self.port_network[dst]:
            raise InputError(
                f"{self.port_name(src)} and {self.port_name(dst)} are in different networks"
            )
        ports = [src]
        group = int(self.host_group[dst])
        while True:
            switch = int(self.port_node[self.port_peer[ports[-1]]]) - self.n_hosts
            candidates = self.candidates(switch, group, table)
            first = int(self.node_first_port[self.n_hosts + switch])
            if not candidates.size:
                return [*ports, first + int(self.host_port[dst])]
            ports.append(first + int(candidates[0]))

    @property
    def phase_of_flow(self) -> NDArray[np.int64] | None:
        """int64[n_flows]: the phase of each flow (-1: none), if `with_phases` has told."""
        phase_schedule = None if self.circuits is None else self.circuits.phase_schedule
        return None if phase_schedule is None else phase_schedule.phase_of_flow

    def with_phases(self, phase_of_flow: ArrayLike) -> Network:
        """The network, told which phase each flow of the workload has (-1: none).

        Its phase-driven circuit switches go on to slot k + 1 as the flows of phase k are delivered.
        Raises InputError if it has none, or for what are no phases.
        """
        circuits = self.circuits
        if circuits is None or circuits.phase_schedule is None:
            raise InputError("flows have phases, and no circuit switch is phase-driven by them")
        phases = np.array(phase_of_flow)
        last = circuits.phase_schedule.n_slots - 1
        if phases.ndim != 1 or not np.issubdtype(phases.dtype, np.integer):
            raise InputError("the phases of flows are no list of whole numbers")
        for flow in np.flatnonzero((phases < -1) | (phases > last))[:1].tolist():
            message = f"flow {flow} has phase {phases[flow]}"
            raise InputError(message, hint=f"0 to {last}, one for each slot, or -1 for none")
        if self.policy is not None and self.policy.by_phase and last >= self.n_tables:
            message = f"phases 0 to {last} need a routing table each: there are {self.n_tables}"
            raise InputError(message, hint="a way for each slot")
        phase_schedule = replace(circuits.phase_schedule, phase_of_flow=phases.astype(np.int64))
        return replace(self, circuits=replace(circuits, phase_schedule=phase_schedule))

    def node_name(self, node: int) -> str:
        """Short name of a node: "h7" for host 7, the given name for a switch."""
        return f"h{node}" if node < self.n_hosts else self.switch_names[node - self.n_hosts]

    def port_name(self, port: int) -> str:
        """The node's name and the local port number, as in "leaf3:12"."""
        node = int(self.port_node[port])
        return f"{self.node_name(node)}:{port - int(self.node_first_port[node])}"

    def circuit_switch(self, port: int) -> str:
        """The name of the circuit switch that a port's cable goes through; "" if there is none."""
        number = NONE if self.circuits is None else int(self.circuits.of_port[port])
        return "" if self.circuits is None or number == NONE else self.circuits.names[number]

    def to_networkx(self) -> networkx.MultiGraph[int]:
        """The graph, one edge for each cable.

        Node attributes: kind ("host" or "switch"), tier, name. Edge attributes: ports (at the
        lower and at the higher node), rate_bps, delay_ps as a pair of the two directions, and
        circuit_switch, its name or "". With circuits also ever_up, a pair of flags.
        """
        import networkx

        graph: networkx.MultiGraph[int] = networkx.MultiGraph(name=self.name)
        up = None if self.circuits is None else self.circuits.ever_up
        for node in range(self.n_nodes):
            kind = "host" if node < self.n_hosts else "switch"
            graph.add_node(node, kind=kind, tier=int(self.tier[node]), name=self.node_name(node))
        for port in np.flatnonzero(self.port_peer > np.arange(self.n_ports)).tolist():
            peer = int(self.port_peer[port])
            graph.add_edge(
                int(self.port_node[port]),
                int(self.port_node[peer]),
                ports=(port, peer),
                rate_bps=int(self.port_rate_bps[port]),
                delay_ps=(int(self.port_delay_ps[port]), int(self.port_delay_ps[peer])),
                circuit_switch=self.circuit_switch(port),
                **({} if up is None else {"ever_up": (bool(up[port]), bool(up[peer]))}),
            )
        return graph


@dataclass(frozen=True, eq=False)
class Reduction:
    """The reduction units of a network's switches: it again, with these as hosts behind its own.

    `unit`, int64[n_hosts], is that of each of the network's hosts.
    """

    network: Network
    unit: NDArray[np.int64]
