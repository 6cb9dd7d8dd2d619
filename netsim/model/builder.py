"""NetworkBuilder: how a topology makes its network."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from netsim.errors import InputError
from netsim.limits import DELAY_PS, INT64
from netsim.memory import require_room
from netsim.model.circuits import CircuitSwitch, cables_of, circuits_of
from netsim.model.network import HOST_TIER, Network, Plan
from netsim.model.parts import placed
from netsim.model.routing import COUNT_MASK, Routing, Wiring, networks_of, shortest_paths
from netsim.model.routing_policy import RoutingPolicy
from netsim.model.schedules import Schedule
from netsim.units import format_time, written

MAX_SWITCH_PORTS = COUNT_MASK
MAX_NICS = 16

# What a network takes in memory while it is built.
HOST_BYTES, SWITCH_BYTES, CABLE_BYTES, ROUTE_BYTES = 200, 600, 400, 20
DELAY_HINT = f"less than {format_time(DELAY_PS, 4)}"


class NetworkBuilder:
    """Collects hosts, switches and cables; `build` checks them and numbers the ports."""

    def __init__(self) -> None:
        self._n_hosts = 0
        self._names: list[str] = []
        self._tiers: list[int] = []
        self._latency_ps: list[int] = []
        self._circuit_switches: list[CircuitSwitch] = []
        self._cables: list[NDArray[np.int64]] = []
        self._single: list[tuple[int, int, int, int, int]] = []

    def reserve(
        self, *, hosts: int, switches: int, cables: int, edges: int = 1, ports: int = 0
    ) -> None:
        """Announce how large the network is going to be, before anything of that size is made.

        Args:
            hosts, switches, cables: numbers of each.
            edges: switches with hosts; every switch has a route to each of them.
            ports: the most that a switch or a host has.

        Raises:
            InputError: the network cannot be built, or does not fit into memory.
        """
        if ports > MAX_SWITCH_PORTS:
            what = f"a switch or a host of {ports:,} ports"
            raise InputError(what, key="topology", hint=f"at most {MAX_SWITCH_PORTS:,}")
        n_bytes = (
            hosts * HOST_BYTES
            + switches * (SWITCH_BYTES + edges * ROUTE_BYTES)
            + cables * CABLE_BYTES
        )
        what = f"{hosts:,} hosts, {switches:,} switches and {cables:,} cables"
        require_room(n_bytes, what=what, key="topology")

    def add_hosts(self, count: int) -> range:
        """Adds `count` hosts and returns their ids. Hosts come before switches."""
        count = _integer(count, "the number of hosts")
        if self._names:
            raise InputError("hosts must be added before switches")
        if count < 1:
            raise InputError(f"the number of hosts must be at least 1, not {count}")
        first = self._n_hosts
        self.reserve(hosts=first + count, switches=0, cables=0)
        self._n_hosts += count
        return range(first, self._n_hosts)

    def add_switch(self, name: str = "", tier: int = 0, latency_ps: int = 0) -> int:
        """Adds a switch and returns its id.

        Args:
            name: unique; "s0", "s1", ... by default.
            tier: 0 at the edge, rising toward the core.
            latency_ps: from the last bit in until the packet stands in its output queue.
        """
        return self.add_switches([name or f"s{len(self._names)}"], tier, latency_ps)[0]

    def add_switches(self, names: Sequence[str], tier: int = 0, latency_ps: int = 0) -> range:
        """As `add_switch` for each of several names; returns the ids."""
        tier = _integer(tier, f"the tier of switch {names[0]}")
        latency_ps = _integer(latency_ps, f"the latency of switch {names[0]}")
        if latency_ps < 0:
            raise InputError(f"switch {names[0]} has a negative latency ({latency_ps} ps)")
        if latency_ps >= DELAY_PS:
            raise InputError(
                f"switch {names[0]} has a latency of {format_time(latency_ps)}", hint=DELAY_HINT
            )
        first = self._n_hosts + len(self._names)
        self._names.extend(names)
        self._tiers.extend([tier] * len(names))
        self._latency_ps.extend([latency_ps] * len(names))
        return range(first, first + len(names))

    def cable(self, a: int, b: int, rate_bps: int, delay_ps: int, *, nic: int = 0) -> None:
        """Joins nodes a and b, both ways, with one propagation delay.

        A host's end is a port of its NIC `nic`, counted from 0. Ports of one NIC that lead to
        different networks are its planes.
        """
        a, b = _integer(a, "a node id"), _integer(b, "a node id")
        nic = _nic(nic)
        rate_bps = _integer(rate_bps, "a cable's rate in bit/s")
        delay_ps = _integer(delay_ps, "a cable's delay in ps")
        self._single.append((a, b, rate_bps, delay_ps, nic))

    def cables(
        self, a: ArrayLike, b: ArrayLike, rate_bps: int, delay_ps: int, *, nic: int = 0
    ) -> None:
        """`cable` for each pair of two integer arrays, in order."""
        self._flush()
        first, second = np.broadcast_arrays(np.asarray(a), np.asarray(b))
        for ends in (first, second):
            if not np.issubdtype(ends.dtype, np.integer):
                raise InputError(f"node ids must be whole numbers, not {ends.dtype}")
        self.reserve(hosts=0, switches=0, cables=first.size)
        block = np.empty((first.size, 5), np.int64)
        block[:, 0], block[:, 1] = first.reshape(-1), second.reshape(-1)
        block[:, 2] = _integer(rate_bps, "a cable's rate in bit/s")
        block[:, 3] = _integer(delay_ps, "a cable's delay in ps")
        block[:, 4] = _nic(nic)
        self._cables.append(block)

    def add_circuit_switch(self, name: str, schedule: Schedule) -> CircuitSwitch:
        """Adds a circuit switch, which is joined by `fiber` to others, and returns it.

        Every two of its ports that the schedule ever joins, one way at least, become a cable
        between the switches that their fibers lead to: with the fibers' rate, with the delay of
        both of them, and there when light passes. These cables come behind all others, circuit
        switch by circuit switch, in ascending order of the ports that they join.
        """
        self._circuit_switches.append(CircuitSwitch(name, schedule))
        return self._circuit_switches[-1]

    def add_network(
        self, part: Network, hosts: ArrayLike, *, prefix: str = "", nic: int = 0, rate: float = 1.0
    ) -> range:
        """Adds the switches and cables of a finished network, beside what is there.

        Args:
            part: its routes are found anew.
            hosts: in the place of each of its hosts a host that is here already.
            prefix: of the names of its switches.
            nic: its hosts' NICs are counted from this one on.
            rate: its links have this share of their rates.

        Returns the ids of its switches here, in its own order. Raises InputError: not as many hosts
        as it has, or routes of its own making.
        """
        first = self._n_hosts + len(self._names)
        plan = placed(part, np.asarray(hosts), first, nic=nic, rate=rate)
        self._names += [prefix + name for name in plan.names]
        self._tiers += plan.tiers
        self._latency_ps += plan.latency_ps
        self._flush()
        self._cables.append(plan.cables)
        for one in plan.circuit_switches:
            one.name = prefix + one.name
            self._circuit_switches.append(one)
        return range(first, first + len(plan.names))

    def fiber(self, edge: int, to: CircuitSwitch, rate_bps: int, delay_ps: int) -> int:
        """Joins switch `edge` to the next port of a circuit switch; returns that port, from 0 on.

        All fibers of a circuit switch have one rate.
        """
        edge = _integer(edge, "a node id")
        n_nodes = self._n_hosts + len(self._names)
        if not self._n_hosts <= edge < n_nodes:
            what = f"host {edge}" if 0 <= edge < self._n_hosts else f"node {edge}"
            raise InputError(
                f"a fiber joins {what} to circuit switch {to.name}",
                hint="put a switch between hosts and circuits, where packets wait for them",
            )
        rate_bps = _integer(rate_bps, "a fiber's rate in bit/s")
        return to.add(edge, self._name(edge), rate_bps, _integer(delay_ps, "a fiber's delay in ps"))

    def build(
        self, name: str, routing: Routing | None = None, *, policy: RoutingPolicy | None = None
    ) -> Network:
        """The finished network.

        Args:
            name: shown in messages and results.
            routing: makes the routing table; all shortest paths by default.
            policy: in its place, several tables and which packets go by which.

        Raises:
            InputError: a host without a port or joined to a host, a rate or delay that is not
                positive, a switch that no host reaches, names used twice; it names the culprit.
        """
        self._flush()
        n_nodes = self._n_hosts + len(self._names)
        cables = np.concatenate([np.zeros((0, 5), np.int64), *self._cables])
        n_plain = len(cables)
        by_circuit = cables_of(self._circuit_switches) if self._circuit_switches else None
        if by_circuit is not None:
            cables = np.concatenate([cables, by_circuit.cables])
        self._check_nodes(cables, n_nodes)
        self._check_links(cables)
        # Both ends of each cable in the order added; a stable sort by node numbers the ports.
        ends = cables[:, :2].reshape(-1)
        order = np.argsort(ends, kind="stable")
        port_of_end = np.empty(order.size, np.int64)
        port_of_end[order] = np.arange(order.size)
        port_peer = port_of_end[order ^ 1]
        port_node = ends[order]
        counts = np.bincount(ends, minlength=n_nodes)
        first_port = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        self._check_ports(counts, port_node, port_peer)
        entered = port_node[port_peer]
        latency = np.concatenate(
            [np.zeros(self._n_hosts, np.int64), np.array(self._latency_ps, np.int64)]
        )
        delay_ps = cables[order >> 1, 3] + latency[entered]
        n_host_ports = int(first_port[self._n_hosts])
        port_nic = cables[order[:n_host_ports] >> 1, 4]
        self._check_nics(port_node[:n_host_ports], port_nic)

        host_peer = port_peer[:n_host_ports]
        host_switch = port_node[host_peer] - self._n_hosts
        switch_network = networks_of(port_node - self._n_hosts, port_peer, len(self._names))
        self._check_reached(switch_network, host_switch)
        # Groups are numbered network by network.
        edge_switch = np.unique(host_switch)
        edge_switch = edge_switch[np.argsort(switch_network[edge_switch], kind="stable")]
        of_network = np.bincount(switch_network[edge_switch])
        first_group = np.concatenate([[0], np.cumsum(of_network)]).astype(np.int64)
        number = np.empty(len(self._names), np.int64)  # of a switch's group in its network
        number[edge_switch] = np.arange(edge_switch.size)
        number[edge_switch] -= first_group[switch_network[edge_switch]]
        circuits = None
        if by_circuit is not None:
            circuits = circuits_of(self._circuit_switches, by_circuit, order - 2 * n_plain)
        wiring = Wiring(
            n_hosts=self._n_hosts,
            n_nodes=n_nodes,
            node_first_port=first_port,
            port_node=port_node.astype(np.int32),
            port_peer=port_peer.astype(np.int32),
            edge_switch=edge_switch.astype(np.int32),
            first_group=first_group,
            switch_network=switch_network.astype(np.int32),
            circuits=circuits,
            usable=None if circuits is None else circuits.ever_up,
            up_in_slot=None if circuits is None else circuits.up_in_slot,
        )
        n_tables = 1 if policy is None else len(policy.routings)
        self.reserve(
            hosts=self._n_hosts,
            switches=len(self._names),
            cables=len(cables),
            edges=n_tables * int(of_network.max()),
        )
        routing = policy or routing or shortest_paths
        table = routing(wiring)
        host_network = switch_network[host_switch]
        of_table = (
            np.arange(n_tables)[:, None] * of_network[host_network]
        )  # where its entries begin
        own_port = host_peer - first_port[host_switch + self._n_hosts]
        tiers = [HOST_TIER] * self._n_hosts + self._tiers
        return Network(
            name=name,
            n_hosts=self._n_hosts,
            n_nodes=n_nodes,
            node_first_port=first_port,
            port_node=wiring.port_node,
            port_peer=wiring.port_peer,
            port_rate_bps=cables[order >> 1, 2],
            port_delay_ps=delay_ps,
            tier=np.array(tiers, np.int8),
            switch_names=tuple(self._names),
            port_nic=port_nic.astype(np.int16),
            port_network=host_network.astype(np.int32),
            host_group=(of_table + number[host_switch]).reshape(-1).astype(np.int32),
            host_port=np.tile(own_port, n_tables).astype(np.int32),
            edge_switch=wiring.edge_switch,
            first_group=first_group,
            switch_network=wiring.switch_network,
            route_first=n_tables * wiring.route_first,
            route=table.route,
            route_ports=table.route_ports,
            routing=routing,
            policy=policy,
            time_slots=None if policy is None else policy.time_slots(wiring),
            circuits=circuits,
            plan=Plan(
                names=self._names,
                tiers=self._tiers,
                latency_ps=self._latency_ps,
                cables=cables[:n_plain],
                circuit_switches=self._circuit_switches,
            ),
        )

    def _flush(self) -> None:
        if self._single:
            self._cables.append(np.array(self._single, np.int64))
            self._single = []

    def _name(self, node: int) -> str:
        return f"h{node}" if node < self._n_hosts else self._names[node - self._n_hosts]

    def _check_nodes(self, cables: NDArray[np.int64], n_nodes: int) -> None:
        if not self._n_hosts:
            raise InputError("the network has no hosts")
        names = [*self._names, *(one.name for one in self._circuit_switches)]
        if len(set(names)) < len(names):
            twice, _ = Counter(names).most_common(1)[0]
            raise InputError(f"two switches are named {twice!r}")
        ends = cables[:, :2]
        for index in np.flatnonzero(((ends < 0) | (ends >= n_nodes)).any(axis=1))[:1].tolist():
            a, b = ends[index].tolist()
            raise InputError(
                f"cable {index} joins nodes {a} and {b}, but nodes are 0..{n_nodes - 1}"
            )

    def _check_links(self, cables: NDArray[np.int64]) -> None:
        a, b, rate, delay, _ = cables.T
        for bad, what in (
            (a == b, "joins a node to itself"),
            (rate <= 0, "has a rate that is not positive"),
            (delay <= 0, "has a delay that is not positive"),
        ):
            for index in np.flatnonzero(bad)[:1].tolist():
                ends = f"{self._name(int(a[index]))}-{self._name(int(b[index]))}"
                values = f"{rate[index]} bit/s, {delay[index]} ps"
                raise InputError(f"cable {ends} {what} ({values})")
        for index in np.flatnonzero(delay >= DELAY_PS)[:1].tolist():
            ends = f"{self._name(int(a[index]))}-{self._name(int(b[index]))}"
            raise InputError(
                f"cable {ends} has a delay of {format_time(int(delay[index]))}", hint=DELAY_HINT
            )

    def _check_ports(
        self,
        counts: NDArray[np.integer],
        port_node: NDArray[np.int64],
        port_peer: NDArray[np.int64],
    ) -> None:
        for host in np.flatnonzero(counts[: self._n_hosts] == 0)[:1].tolist():
            raise InputError(f"host {host} has no cable")
        for switch in np.flatnonzero(counts > MAX_SWITCH_PORTS)[:1].tolist():
            raise InputError(
                f"switch {self._name(switch)} has {counts[switch]} ports, more than "
                f"{MAX_SWITCH_PORTS}"
            )
        near, far = port_node, port_node[port_peer]
        both = (near < self._n_hosts) & (far < self._n_hosts)
        for port in np.flatnonzero(both)[:1].tolist():
            raise InputError(f"host {near[port]} is joined to host {far[port]}; it needs a switch")

    def _check_nics(self, host: NDArray[np.int64], nic: NDArray[np.int64]) -> None:
        """NICs are counted from 0 and none is left out."""
        there = np.zeros((self._n_hosts, MAX_NICS), bool)
        there[host, nic] = True
        left_out = ~there[:, :-1] & there[:, 1:]
        for one, below in np.argwhere(left_out)[:1].tolist():
            raise InputError(f"host {one} has a NIC {below + 1}, but no NIC {below}")

    def _check_reached(
        self, switch_network: NDArray[np.int64], host_switch: NDArray[np.int64]
    ) -> None:
        reached = np.isin(switch_network, switch_network[host_switch])
        for switch in np.flatnonzero(~reached)[:1].tolist():
            raise InputError(f"switch {self._names[switch]} cannot be reached from any host")


def _nic(value: Any) -> int:
    """The number of a NIC of a host."""
    nic = _integer(value, "the number of a NIC")
    if not 0 <= nic < MAX_NICS:
        raise InputError(f"NIC {nic} of a host", hint=f"0 to {MAX_NICS - 1}")
    return nic


def _integer(value: Any, what: str) -> int:
    """`value` as an int. A float or a bool where a count belongs is an error."""
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)):
        raise InputError(f"{what} must be a whole number, not {value!r}")
    number = int(value)
    if abs(number) >= INT64:
        raise InputError(f"{what} is too large: {written(number)}", hint="less than 2^62")
    return number
