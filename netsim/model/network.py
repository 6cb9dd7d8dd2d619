"""Networks as flat arrays: hosts and switches connected by cables.

A topology builds its graph with `NetworkBuilder` (builder.py) and returns a `Network`, which is
checked and numbered. Each cable is two directed links, identified by the egress port of each.
"""

from __future__ import annotations

from dataclasses import field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from netsim.errors import InputError
from netsim.frozen import frozen
from netsim.model.circuits import CABLE_COLUMNS, NONE, Circuits
from netsim.model.columns import Flags, Ints, offsets, rows_of
from netsim.model.relays import RelayRule
from netsim.model.routing import (
    COUNT_BITS,
    COUNT_MASK,
    NO_ROUTE,
    WIRED,
    Routing,
    RoutingTable,
    Wiring,
    shortest_paths,
)
from netsim.model.routing_policy import CompactSlotTables, RoutingPolicy

if TYPE_CHECKING:
    import networkx


from netsim.model.circuits import CircuitSwitch


@frozen(eq=False)
class Plan:
    """The parts of a network, in order.

    Attributes:
        names, tiers, latency_ps: of the switches.
        cables: int64[n, 7], two nodes, bit/s, ps, the NIC of a host's end, weight and dimension;
        without cables of circuit switches. circuit_switches: with their fibers.
    """

    names: list[str] = field(default_factory=list)
    tiers: list[int] = field(default_factory=list)
    latency_ps: list[int] = field(default_factory=list)
    cables: Ints = field(default_factory=lambda: np.zeros((0, CABLE_COLUMNS), np.int64))
    circuit_switches: list[CircuitSwitch] = field(default_factory=list)


HOST_TIER = -1


@frozen(eq=False)
class Network:
    """A checked network. Hosts are nodes 0..n_hosts-1, switches follow.

    Ports are numbered globally: nodes in order of id, each node's ports in the order in which its
    cables were added. A port's *local* number counts from its node's first port. Packets are
    addressed to a host's port in one of the routing tables; in the first, an address is the port's
    number.

    Attributes:
        node_first_port: int64[n_nodes + 1].
        port_node: int32[n_ports], node of a port.
        port_peer: int32[n_ports], port at the other end of the cable.
        port_rate_bps: int64[n_ports], line rate of the link that leaves by the port.
        port_delay_ps: int64[n_ports], propagation delay of the cable plus the latency of the switch
            that it enters (0 for a host).
        tier: int8[n_nodes], -1 for hosts.
        port_nic: int16[n_host_ports], NIC of its host, from 0.
        port_network: int32[n_host_ports], network of a host's port: a set of switches that is
            connected without the hosts.
        host_group: int32[n_tables * n_host_ports], entry of each address (`address`) in the rows of
            its network's switches: one for each group (edge switch) by the first routing table,
            then by the second, and so on.
        host_port: int32[n_tables * n_host_ports], local port of each address at its edge switch.
        edge_switch: int32[n_groups], switch index (node - n_hosts) of each group, network by
            network.
        first_group: int64[n_networks + 1], first group of each network.
        switch_network: int32[n_switches], network of each switch.
        route_first: int64[n_switches], start of a switch's row of the routing table; rows may
            overlap.
        route, route_ports: see `netsim.model.routing.RoutingTable`.
        routing: makes routing tables, also when links are down.
        port_weight, port_dimension: int64[n_ports], of cables (see `NetworkBuilder.cables`); None:
            1 and 0 for all.
        policy: several routing tables and which packets use which; None: a single table.
        time_slots: routes of each time slot (the routes above are slot 0's); None: routes do not
            change.
        circuits: cables through circuit switches; None if there are none.
        relays: which messages a peer relays; None: hosts without a common network cannot
            communicate.
        switch_queue_bytes: int64[n_switches], queue size of switches that differ from [fabric], 0
            for others; None: none differs.
        reduction: reduction units of switches (`with_reduction`); None: none.
        shape: of the grid of its hosts, for traffic patterns; (): none. Every place has
            the same number of hosts, numbered place by place; the last coordinate changes fastest.
        note: the topology's choices, for messages.
        plan: its parts, to add it to another network.
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
    port_weight: NDArray[np.int64] | None = None
    port_dimension: NDArray[np.int64] | None = None
    policy: RoutingPolicy | None = None
    time_slots: CompactSlotTables | None = None
    circuits: Circuits | None = None
    relays: RelayRule | None = None
    switch_queue_bytes: NDArray[np.int64] | None = None
    reduction: Reduction | None = None
    shape: tuple[int, ...] = ()
    note: str = ""
    plan: Plan = field(default_factory=Plan, repr=False)

    @property
    def n_switches(self) -> int:
        return self.n_nodes - self.n_hosts

    @property
    def n_ports(self) -> int:
        return int(self.port_node.size)

    @property
    def n_host_ports(self) -> int:
        """Number of ports of all hosts; they come first."""
        return int(self.node_first_port[self.n_hosts])

    @property
    def port_group(self) -> NDArray[np.int32]:
        """int32[n_host_ports], group of each host's port."""
        return self.host_group[: self.n_host_ports]

    @property
    def n_tables(self) -> int:
        return 1 if self.policy is None else len(self.policy.routings)

    def address(self, port: Ints, table: Ints | int) -> Ints:
        """Return the addresses of hosts' ports in one routing table, or in one table per port."""
        found: Ints = port + table * self.n_host_ports
        return found

    def table_name(self, address: int) -> str:
        """Return the name of an address's routing table; "" if there is only one."""
        return "" if self.policy is None else self.policy.names[address // self.n_host_ports]

    @property
    def has_several_ports(self) -> bool:
        return self.n_host_ports > self.n_hosts

    @cached_property
    def first_nic(self) -> Ints:
        """int64[n_hosts + 1], first NIC of each host, with NICs numbered over all hosts."""
        last = np.maximum.reduceat(self.port_nic, self.node_first_port[: self.n_hosts])
        return offsets(last.astype(np.int64) + 1)

    @cached_property
    def nic_of_port(self) -> Ints:
        """int64[n_host_ports], NIC of each host's port, numbered over all hosts."""
        return self.first_nic[self.port_node[: self.n_host_ports]] + self.port_nic

    @cached_property
    def nic_rate_bps(self) -> Ints:
        """int64[n_nics], total line rate of each NIC's ports."""
        rates = np.zeros(int(self.first_nic[-1]), np.int64)
        np.add.at(rates, self.nic_of_port, self.port_rate_bps[: self.n_host_ports])
        return rates

    @cached_property
    def is_scale_up(self) -> Flags:
        """bool[n_networks], networks that hosts with several NICs reach only by their fastest NIC,
        such as NVLink; all other networks are scale-out."""
        fastest = np.maximum.reduceat(self.nic_rate_bps, self.first_nic[:-1])
        is_fastest = self.nic_rate_bps == np.repeat(fastest, np.diff(self.first_nic))
        n_fastest = np.add.reduceat(is_fastest.astype(np.int64), self.first_nic[:-1])
        alone = (n_fastest == 1) & (np.diff(self.first_nic) > 1)
        up = (is_fastest & np.repeat(alone, np.diff(self.first_nic)))[self.nic_of_port]
        found = np.ones(self.first_group.size - 1, bool)
        found[self.port_network[~up]] = False
        return found

    def of_hosts(self, hosts: Ints) -> Network:
        """Return the network for a job on some hosts, int64[k]: these become hosts 0..k-1 in this
        order, and no other hosts exist. Switches, their ports and routes are the same.

        Traffic patterns may use it; it cannot be simulated, since ports to other hosts lead
        nowhere. It has no circuits and no shape. Raises InputError if peers relay messages and the
        hosts are not whole racks.
        """
        k, n_tables, end = hosts.size, self.n_tables, self.n_host_ports
        if np.array_equal(hosts, np.arange(self.n_hosts)):
            return self
        counts = np.diff(self.node_first_port)
        own = rows_of(self.node_first_port[hosts], counts[hosts])
        kept = np.concatenate([own, np.arange(end, self.n_ports)])
        counts = np.concatenate([counts[hosts], counts[self.n_hosts :]])
        new_of = np.full(self.n_ports, -1, np.int32)
        new_of[kept] = np.arange(kept.size)
        peer = new_of[self.port_peer[kept]]
        host_group, host_port = (
            column.reshape(n_tables, end)[:, own].reshape(-1)
            for column in (self.host_group, self.host_port)
        )
        reduction = self.reduction
        if reduction is not None:
            units = np.arange(self.n_hosts, reduction.network.n_hosts)
            made = reduction.network.of_hosts(np.concatenate([hosts, units]))
            reduction = Reduction(made, reduction.unit[hosts] - self.n_hosts + k)
        weight, dimension = self.port_weight, self.port_dimension
        return replace(
            self,
            n_hosts=k,
            n_nodes=k + self.n_switches,
            node_first_port=offsets(counts),
            port_node=np.repeat(np.arange(counts.size, dtype=np.int32), counts),
            port_peer=np.where(peer < 0, new_of[kept], peer),
            port_rate_bps=self.port_rate_bps[kept],
            port_delay_ps=self.port_delay_ps[kept],
            tier=np.concatenate([self.tier[hosts], self.tier[self.n_hosts :]]),
            port_nic=self.port_nic[own],
            port_network=self.port_network[own],
            host_group=host_group,
            host_port=host_port,
            port_weight=None if weight is None else weight[kept],
            port_dimension=None if dimension is None else dimension[kept],
            time_slots=None,
            circuits=None,
            relays=None if self.relays is None else self.relays.of_hosts(hosts),
            reduction=reduction,
            shape=(),
        )

    @property
    def n_links(self) -> int:
        return self.n_ports

    @property
    def n_groups(self) -> int:
        return int(self.edge_switch.size)

    @property
    def table(self) -> RoutingTable:
        """The routing tables."""
        return RoutingTable(self.route, self.route_ports, self.route_first)

    def wiring(self, usable: Flags | None = None) -> Wiring:
        """Return the wiring for routing; routes leave by `usable` ports (bool[n_ports]) only.
        Ports whose circuit is never up in that direction are always excluded."""
        up = None if self.circuits is None else self.circuits.ever_up
        if up is not None:
            usable = up if usable is None else usable & up
        shared: dict[str, Any] = {name: getattr(self, name) for name in WIRED}
        weight, dimension = self.port_weight, self.port_dimension
        return Wiring(**shared, usable=usable, weight=weight, dimension=dimension)

    @cached_property
    def lookahead_ps(self) -> int:
        """Smallest delay of any link, the least time until an event affects another node."""
        return int(self.port_delay_ps.min())

    @cached_property
    def host_rate_bps(self) -> int:
        """Smallest line rate of a host's first NIC, all its ports together."""
        return int(self.nic_rate_bps[self.first_nic[:-1]].min())

    @cached_property
    def diameter(self) -> int:
        """Links on the longest of the first shortest paths between hosts, over all tables."""
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
        """Return a switch's local ports toward a group of its network; empty for its own group.
        Raises InputError if there is no route."""
        begin, end = self.first_group[self.switch_network[switch] :][:2].tolist()
        entry = int(self.route[int(self.route_first[switch]) + table * (end - begin) + group])
        if entry == NO_ROUTE:
            names = self.switch_names
            to = names[self.edge_switch[begin + group]]
            raise InputError(f"no route from {names[switch]} to {to}")
        offset = entry >> COUNT_BITS
        return self.route_ports[offset : offset + (entry & COUNT_MASK)]

    @cached_property
    def reaches_all(self) -> bool:
        """Whether every switch has a route to every edge switch of its network, in every table."""
        return not (self.route == NO_ROUTE).any()

    def reaches(self, src: Ints, dst: Ints) -> Flags:
        """Return bool[n], whether routes exist from hosts' ports to addresses of the same
        network."""
        switch = self.next_switch(src)
        found: Flags = self.route[self.route_first[switch] + self.host_group[dst]] != NO_ROUTE
        return found

    def first_port(self, switch: Ints, index: Ints) -> Ints:
        """Return the global first candidate port of each switch (index) for an entry of its row.
        The entry is a group or a value of `host_group`, other than the switch's own."""
        entry = self.route[self.route_first[switch] + index]
        local: NDArray[np.int32] = self.route_ports[entry >> COUNT_BITS]
        return self.node_first_port[switch + self.n_hosts] + local

    def next_switch(self, port: Ints) -> Ints:
        return self.port_node[self.port_peer[port]].astype(np.int64) - self.n_hosts

    def path(self, src: int, dst: int, table: int = 0) -> list[int]:
        """Return the global egress ports on the first path between two hosts' ports, by one routing
        table.

        Raises InputError if they are not hosts' ports, are in different networks, or have no route.
        """
        for port in (src, dst):
            if not 0 <= port < self.n_host_ports:
                message = f"no host has port {port} (hosts' ports are 0..{self.n_host_ports - 1})"
                raise InputError(message)
        if self.port_network[src] != self.port_network[dst]:
            message = f"{self.port_name(src)} and {self.port_name(dst)} are in different networks"
            raise InputError(message)
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
    def phase_of_flow(self) -> Ints | None:
        """int64[n_flows], the phase of each flow (-1: none) from `with_phases`; None without it."""
        phase_schedule = None if self.circuits is None else self.circuits.phase_schedule
        return None if phase_schedule is None else phase_schedule.phase_of_flow

    def with_phases(self, phase_of_flow: ArrayLike) -> Network:
        """Return the network with the phase of each flow of the workload (-1: none).

        Its phase-driven circuit switches start slot k + 1 when the flows of phase k are delivered.
        Raises InputError if it has no such switches, or for invalid phases.
        """
        circuits = self.circuits
        if circuits is None or circuits.phase_schedule is None:
            raise InputError("flows have phases, but no circuit switch is phase-driven")
        phases = np.array(phase_of_flow)
        last = circuits.phase_schedule.n_slots - 1
        if phases.ndim != 1 or not np.issubdtype(phases.dtype, np.integer):
            raise InputError("phases of flows must be a list of whole numbers")
        for flow in np.flatnonzero((phases < -1) | (phases > last))[:1].tolist():
            message = f"flow {flow}: phase {phases[flow]} is out of range"
            raise InputError(message, hint=f"0 to {last}, one for each slot, or -1 for none")
        if self.policy is not None and self.policy.by_phase and last >= self.n_tables:
            message = f"{self.n_tables} routing tables for phases 0 to {last}"
            raise InputError(message, hint="one for each slot")
        phase_schedule = replace(circuits.phase_schedule, phase_of_flow=phases.astype(np.int64))
        return replace(self, circuits=replace(circuits, phase_schedule=phase_schedule))

    def node_name(self, node: int) -> str:
        """Return "h7" for host 7, the name of a switch otherwise."""
        return f"h{node}" if node < self.n_hosts else self.switch_names[node - self.n_hosts]

    def port_name(self, port: int) -> str:
        """Return the node's name and the local port number, as in "leaf3:12"."""
        node = int(self.port_node[port])
        return f"{self.node_name(node)}:{port - int(self.node_first_port[node])}"

    def circuit_switch(self, port: int) -> str:
        """Return the name of the circuit switch of a port's cable, "" if none."""
        number = NONE if self.circuits is None else int(self.circuits.of_port[port])
        return "" if self.circuits is None or number == NONE else self.circuits.names[number]

    def to_networkx(self) -> networkx.MultiGraph[int]:
        """Return the graph with one edge for each cable.

        Node attributes: kind ("host" or "switch"), tier, name. Edge attributes: ports (at the lower
        and at the higher node), rate_bps, delay_ps as a pair of both directions, and
        circuit_switch, its name or "". With one-way circuits also ever_up, a pair of flags.
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


@frozen(eq=False)
class Reduction:
    """The same network with a host for each reduction unit after its own hosts. `unit`,
    int64[n_hosts], is the unit of each host."""

    network: Network
    unit: NDArray[np.int64]
