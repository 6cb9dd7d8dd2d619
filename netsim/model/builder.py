"""Builds the network of a topology, also from networks that other topologies make."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from netsim.common.memory import require_room
from netsim.errors import CombinedInputError, InputError
from netsim.limits import DELAY_PS, INT64
from netsim.model.circuits import (
    CABLE_COLUMNS,
    DIMENSION,
    NIC,
    WEIGHT,
    CircuitSwitch,
    Schedule,
    cables_of,
    circuits_of,
)
from netsim.model.columns import Ints, offsets
from netsim.model.network import HOST_TIER, Network, Plan, Reduction
from netsim.model.routing import (
    COUNT_MASK,
    WIRED,
    Routing,
    RoutingTable,
    Wiring,
    networks_of,
    shortest_paths,
    weighted,
    wrong_table,
)
from netsim.model.routing_policy import RoutingPolicy, TimeSlotRouting
from netsim.params import Params, resolve_params
from netsim.plugins import registry
from netsim.plugins.registry import PluginSpec, call
from netsim.units import format_time, shortened, written

Numbers = NDArray[np.integer]

MAX_SWITCH_PORTS = COUNT_MASK
MAX_NICS = 16
MAX_WEIGHT = 1 << 31

# Memory needed to build a network.
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
        self._cables: list[Ints] = []

    def reserve(
        self, *, hosts: int, switches: int, cables: int, edges: int = 1, ports: int = 0
    ) -> None:
        """Announce the size of the network before creating arrays of that size.

        Args:
            hosts, switches, cables: numbers of each.
            edges: switches with hosts; every switch has a route to each of them.
            ports: largest number of ports of a switch or host.

        Raises InputError if the network cannot be built or does not fit into memory.
        """
        if ports > MAX_SWITCH_PORTS:
            what = f"a switch or host has {ports:,} ports"
            raise InputError(what, key="topology", hint=f"at most {MAX_SWITCH_PORTS:,}")
        n_bytes = (
            hosts * HOST_BYTES
            + switches * (SWITCH_BYTES + edges * ROUTE_BYTES)
            + cables * CABLE_BYTES
        )
        what = f"{hosts:,} hosts, {switches:,} switches and {cables:,} cables"
        require_room(n_bytes, what=what, key="topology")

    def add_hosts(self, count: int) -> range:
        """Add `count` hosts, before any switch, and return their ids."""
        count = _integer(count, "number of hosts")
        if self._names:
            raise InputError("hosts must be added before switches")
        if count < 1:
            raise InputError(f"number of hosts must be at least 1, not {count}")
        first = self._n_hosts
        self.reserve(hosts=first + count, switches=0, cables=0)
        self._n_hosts += count
        return range(first, self._n_hosts)

    def add_switch(self, name: str = "", tier: int = 0, latency_ps: int = 0) -> int:
        """Add a switch and return its id.

        Args:
            name: unique; default: "s0", "s1", ...
            tier: 0 at the edge, higher toward the core.
            latency_ps: from a packet's last bit in to its output queue.
        """
        return self.add_switches([name or f"s{len(self._names)}"], tier, latency_ps)[0]

    def add_switches(self, names: Sequence[str], tier: int = 0, latency_ps: int = 0) -> range:
        """Add a switch for each name, like `add_switch`, and return the ids."""
        tier = _integer(tier, f"tier of switch {names[0]}")
        latency_ps = _integer(latency_ps, f"latency of switch {names[0]}")
        if latency_ps < 0:
            raise InputError(f"switch {names[0]} has a negative latency ({latency_ps} ps)")
        if latency_ps >= DELAY_PS:
            message = f"switch {names[0]} has a latency of {format_time(latency_ps)}"
            raise InputError(message, hint=DELAY_HINT)
        first = self._n_hosts + len(self._names)
        self._names.extend(names)
        self._tiers.extend([tier] * len(names))
        self._latency_ps.extend([latency_ps] * len(names))
        return range(first, first + len(names))

    def cable(
        self, a: int, b: int, rate_bps: int, delay_ps: int, *, nic: int = 0, weight: int = 1
    ) -> None:
        """Connect nodes a and b in both directions, with the same propagation delay.

        At a host, the cable is a port of NIC `nic`, counted from 0. Ports of one NIC that lead to
        different networks are its planes. Shortest paths have the smallest sum of weights.
        """
        a, b = _integer(a, "node id"), _integer(b, "node id")
        nic = _nic(nic)
        rate_bps = _integer(rate_bps, "rate of a cable in bit/s")
        delay_ps = _integer(delay_ps, "delay of a cable in ps")
        row = (a, b, rate_bps, delay_ps, nic, _weight(weight), 0)
        self._cables.append(np.array([row], np.int64))

    def cables(
        self,
        a: ArrayLike,
        b: ArrayLike,
        rate_bps: int,
        delay_ps: int,
        *,
        nic: int = 0,
        weight: int = 1,
        dimension: int = 0,
    ) -> None:
        """Call `cable` for each pair of two integer arrays, in order.

        Of several shortest paths, packets take the paths that cross cables of low dimensions first
        (dimension-order routing).
        """
        first, second = np.broadcast_arrays(np.asarray(a), np.asarray(b))
        for ends in (first, second):
            if not np.issubdtype(ends.dtype, np.integer):
                raise InputError(f"node ids must be whole numbers, not {ends.dtype}")
        self.reserve(hosts=0, switches=0, cables=first.size)
        block = np.empty((first.size, CABLE_COLUMNS), np.int64)
        block[:, 0], block[:, 1] = first.reshape(-1), second.reshape(-1)
        block[:, 2] = _integer(rate_bps, "rate of a cable in bit/s")
        block[:, 3] = _integer(delay_ps, "delay of a cable in ps")
        block[:, NIC] = _nic(nic)
        block[:, WEIGHT] = _weight(weight)
        block[:, DIMENSION] = _integer(dimension, "dimension of a cable")
        self._cables.append(block)

    def add_circuit_switch(self, name: str, schedule: Schedule) -> CircuitSwitch:
        """Add a circuit switch, to be connected to other switches by `fiber`, and return it.

        Each pair of ports that the schedule ever joins, in at least one direction, becomes a cable
        between the switches at the ends of their fibers. It has the fibers' rate and the sum of
        their delays, and is up only while the circuit is up. These cables follow all others,
        circuit switch by circuit switch, in ascending order of their ports.
        """
        self._circuit_switches.append(CircuitSwitch(name, schedule))
        return self._circuit_switches[-1]

    def add_network(
        self, part: Network, hosts: ArrayLike, *, prefix: str = "", nic: int = 0, rate: float = 1.0
    ) -> range:
        """Add the switches and cables of a finished network.

        Args:
            part: its routes are computed again.
            hosts: existing hosts that replace the hosts of `part`, in order.
            prefix: prepended to the names of its switches.
            nic: number that NIC 0 of its hosts becomes.
            rate: factor applied to its link rates.

        Returns the ids of its switches, in order. Raises InputError if the number of hosts differs
        or it has its own routing.
        """
        first = self._n_hosts + len(self._names)
        plan = placed(part, np.asarray(hosts), first, nic=nic, rate=rate)
        self._names += [prefix + name for name in plan.names]
        self._tiers += plan.tiers
        self._latency_ps += plan.latency_ps
        self._cables.append(plan.cables)
        for one in plan.circuit_switches:
            one.name = prefix + one.name
            self._circuit_switches.append(one)
        return range(first, first + len(plan.names))

    def fiber(self, edge: int, to: CircuitSwitch, rate_bps: int, delay_ps: int) -> int:
        """Connect switch `edge` to the next port of a circuit switch; return the port, from 0.
        All fibers of a circuit switch have the same rate."""
        edge = _integer(edge, "node id")
        n_nodes = self._n_hosts + len(self._names)
        if not self._n_hosts <= edge < n_nodes:
            what = f"host {edge}" if 0 <= edge < self._n_hosts else f"node {edge}"
            message = f"{what} has a fiber to circuit switch {to.name}"
            hint = "connect a switch to it; packets queue there for circuits"
            raise InputError(message, hint=hint)
        rate_bps = _integer(rate_bps, "rate of a fiber in bit/s")
        delay_ps = _integer(delay_ps, "delay of a fiber in ps")
        return to.add(edge, self._name(edge), rate_bps, delay_ps)

    def build(
        self, name: str, routing: Routing | None = None, *, policy: RoutingPolicy | None = None
    ) -> Network:
        """Return the finished network.

        Args:
            name: shown in messages and results.
            routing: makes the routing table; default: all shortest paths.
            policy: several routing tables and which packets use which; replaces `routing`.

        Raises InputError, naming the culprit, for a host without a cable or connected to a host, a
        rate or delay that is not positive, a switch unreachable from all hosts, or a duplicate
        name.
        """
        n_nodes = self._n_hosts + len(self._names)
        cables = plain = np.concatenate([np.zeros((0, CABLE_COLUMNS), np.int64), *self._cables])
        self._cables = [plain]
        n_plain = len(plain)
        by_circuit = cables_of(self._circuit_switches) if self._circuit_switches else None
        if by_circuit is not None:
            cables = np.concatenate([cables, by_circuit.cables])
        self._check_nodes(cables, n_nodes)
        self._check_links(cables)
        order, port_node, port_peer = _ports(cables)
        counts = np.bincount(port_node, minlength=n_nodes)
        first_port = offsets(counts)
        self._check_ports(counts, port_node, port_peer)
        latency = np.concatenate(
            [np.zeros(self._n_hosts, np.int64), np.array(self._latency_ps, np.int64)]
        )
        delay_ps = cables[order >> 1, 3] + latency[port_node[port_peer]]
        rate_bps = cables[order >> 1, 2]
        n_host_ports = int(first_port[self._n_hosts])
        port_nic = cables[order[:n_host_ports] >> 1, NIC]
        self._check_nics(port_node[:n_host_ports], port_nic)

        host_peer = port_peer[:n_host_ports].astype(np.int64)
        host_switch = port_node[host_peer] - self._n_hosts
        switch_network = networks_of(port_node - self._n_hosts, port_peer, len(self._names))
        self._check_reached(switch_network, host_switch)
        edge_switch = np.unique(host_switch)
        edge_switch = edge_switch[np.argsort(switch_network[edge_switch], kind="stable")]
        of_network = np.bincount(switch_network[edge_switch])
        first_group = offsets(of_network)
        number = np.empty(len(self._names), np.int64)  # group of each switch within its network
        number[edge_switch] = np.arange(edge_switch.size)
        number[edge_switch] -= first_group[switch_network[edge_switch]]
        circuits = None
        if by_circuit is not None:
            circuits = circuits_of(self._circuit_switches, by_circuit, order - 2 * n_plain)
        weight, dimension = (
            None if (cables[:, column] == cables[0, column]).all() else cables[order >> 1, column]
            for column in (WEIGHT, DIMENSION)
        )
        wiring = Wiring(
            n_hosts=self._n_hosts,
            n_nodes=n_nodes,
            node_first_port=first_port,
            port_node=port_node,
            port_peer=port_peer,
            port_rate_bps=rate_bps,
            edge_switch=edge_switch.astype(np.int32),
            first_group=first_group,
            switch_network=switch_network.astype(np.int32),
            circuits=circuits,
            usable=None if circuits is None else circuits.ever_up,
            weight=weight,
            dimension=dimension,
        )
        del order
        n_tables = 1 if policy is None else len(policy.routings)
        routing = policy or routing or shortest_paths
        if routing is not shortest_paths:  # which checks its own memory
            self.reserve(
                hosts=self._n_hosts,
                switches=len(self._names),
                cables=len(cables),
                edges=n_tables * int(of_network.max()),
            )
        table = routing(wiring)
        host_network = switch_network[host_switch]
        first_entry = np.arange(n_tables)[:, None] * of_network[host_network]  # of each table
        own_port = host_peer - first_port[host_switch + self._n_hosts]
        tiers = [HOST_TIER] * self._n_hosts + self._tiers
        shared: dict[str, Any] = {name: getattr(wiring, name) for name in WIRED}
        return Network(
            name=name,
            **shared,
            port_delay_ps=delay_ps,
            tier=np.array(tiers, np.int8),
            switch_names=tuple(self._names),
            port_nic=port_nic.astype(np.int16),
            port_network=host_network.astype(np.int32),
            host_group=(first_entry + number[host_switch]).reshape(-1).astype(np.int32),
            host_port=np.tile(own_port, n_tables).astype(np.int32),
            route_first=table.row_first(wiring),
            route=table.route,
            route_ports=table.route_ports,
            routing=routing,
            port_weight=weight,
            port_dimension=dimension,
            policy=policy,
            time_slots=None if policy is None else policy.time_slots(wiring),
            plan=Plan(
                names=self._names,
                tiers=self._tiers,
                latency_ps=self._latency_ps,
                cables=plain,
                circuit_switches=self._circuit_switches,
            ),
        )

    def _name(self, node: int) -> str:
        return f"h{node}" if node < self._n_hosts else self._names[node - self._n_hosts]

    def _check_nodes(self, cables: Ints, n_nodes: int) -> None:
        if not self._n_hosts:
            raise InputError("the network has no hosts")
        names = [*self._names, *(one.name for one in self._circuit_switches)]
        if len(set(names)) < len(names):
            twice, _ = Counter(names).most_common(1)[0]
            raise InputError(f"duplicate switch name {twice!r}")
        ends = cables[:, :2]
        for index in np.flatnonzero(((ends < 0) | (ends >= n_nodes)).any(axis=1))[:1].tolist():
            a, b = ends[index].tolist()
            message = f"cable {index} connects nodes {a} and {b}, but nodes are 0..{n_nodes - 1}"
            raise InputError(message)

    def _check_links(self, cables: Ints) -> None:
        a, b, rate, delay = cables[:, :4].T
        for bad, what in (
            (a == b, "connects a node to itself"),
            (rate <= 0, "must have a positive rate"),
            (delay <= 0, "must have a positive delay"),
        ):
            for index in np.flatnonzero(bad)[:1].tolist():
                ends = f"{self._name(int(a[index]))}-{self._name(int(b[index]))}"
                values = f"{rate[index]} bit/s, {delay[index]} ps"
                raise InputError(f"cable {ends} {what} ({values})")
        for index in np.flatnonzero(delay >= DELAY_PS)[:1].tolist():
            ends = f"{self._name(int(a[index]))}-{self._name(int(b[index]))}"
            message = f"cable {ends} has a delay of {format_time(int(delay[index]))}"
            raise InputError(message, hint=DELAY_HINT)

    def _check_ports(self, counts: Numbers, port_node: Numbers, port_peer: Numbers) -> None:
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
            what = f"host {near[port]} is connected to host {far[port]}"
            raise InputError(what, hint="put a switch between them")

    def _check_nics(self, host: Numbers, nic: Numbers) -> None:
        there = np.zeros((self._n_hosts, MAX_NICS), bool)
        there[host, nic] = True
        left_out = ~there[:, :-1] & there[:, 1:]
        for one, below in np.argwhere(left_out)[:1].tolist():
            raise InputError(f"host {one} has NIC {below + 1} but no NIC {below}")

    def _check_reached(self, switch_network: Ints, host_switch: Numbers) -> None:
        reached = np.isin(switch_network, switch_network[host_switch])
        for switch in np.flatnonzero(~reached)[:1].tolist():
            raise InputError(f"switch {self._names[switch]} is unreachable from all hosts")


def _ports(cables: Ints) -> tuple[Ints, NDArray[np.int32], NDArray[np.int32]]:
    """Return the ends of cables in the order of ports, and the node and peer of each port. Ends are
    numbered in the order in which cables were added; a stable sort by node numbers ports."""
    ends = cables[:, :2].astype(np.int32).reshape(-1)
    order = np.argsort(ends, kind="stable")
    port_of_end = np.empty(order.size, np.int32)
    port_of_end[order] = np.arange(order.size, dtype=np.int32)
    return order, ends[order], port_of_end[order ^ 1]


def _nic(value: Any) -> int:
    nic = _integer(value, "NIC number")
    if not 0 <= nic < MAX_NICS:
        raise InputError(f"NIC {nic} is out of range", hint=f"0 to {MAX_NICS - 1}")
    return nic


def _weight(value: Any) -> int:
    weight = _integer(value, "weight of a cable")
    if not 1 <= weight <= MAX_WEIGHT:
        raise InputError(f"weight {weight} is out of range", hint=f"1 to {MAX_WEIGHT}")
    return weight


def _integer(value: Any, what: str) -> int:
    """Return `value` as an int; a float or a bool is an error."""
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)):
        raise InputError(f"{what} must be a whole number, not {value!r}")
    number = int(value)
    if abs(number) >= INT64:
        raise InputError(f"{what} is too large: {written(number)}", hint="less than 2^62")
    return number


def with_reduction(network: Network, latency_ps: int) -> Network:
    """Return the network with a reduction unit for the switches that NIC 0 of hosts leads to.

    A unit is an additional host, after all others, on a link as fast as all ports of its switch
    together, with its own queue at the switch. Hosts share a unit if their NIC 0 leads to the same
    switches: one switch, or one in each of several planes, where the unit also has a port.
    Transport is end to end between host and unit. "In-network reduction" in `docs/collectives.md`
    has the limits of the model.

    `latency_ps` is the delay between switch and unit, each way. Raises InputError for hosts whose
    NICs have different numbers of ports, and the same InputErrors as `NetworkBuilder.build`.
    """
    ports = np.flatnonzero(network.port_nic == 0)
    per_host = np.bincount(network.port_node[ports], minlength=network.n_hosts)
    if (per_host != per_host[0]).any():
        message = "reduction units need the same number of ports of NIC 0 at every host"
        raise InputError(message)
    switch = np.sort(network.next_switch(ports).reshape(network.n_hosts, -1), axis=1)
    switches, of_host = np.unique(switch, axis=0, return_inverse=True)
    capacity = np.zeros(network.n_nodes, np.int64)
    np.add.at(capacity, network.port_node, network.port_rate_bps)

    builder = NetworkBuilder()
    hosts = builder.add_hosts(network.n_hosts + len(switches))
    nodes = builder.add_network(network, np.arange(network.n_hosts))
    for unit, own in zip(hosts[network.n_hosts :], switches.tolist(), strict=True):
        for one in own:
            rate_bps = int(capacity[network.n_hosts + one])
            builder.cable(unit, nodes[one], rate_bps, latency_ps)
    relays = network.relays
    if relays is not None:
        relays = replace(relays, hosts=network.n_hosts)
    made = replace(builder.build(network.name), relays=relays)
    return replace(
        network, reduction=Reduction(made, network.n_hosts + of_host.reshape(-1).astype(np.int64))
    )


# --- topologies -----------------------------------------------------------------------------------


def build_subtopology(params: Params, name: str) -> Network:
    """Return the network of the topology that a topology's parameter `name` names. Raises the
    InputErrors of that topology, with keys of its table."""
    use: PluginSpec = params[name]
    try:
        network = built(use, "build", use.params)
    except InputError as error:
        raise CombinedInputError(_inside(one, name) for one in error.errors) from None
    return network


def build_topology(name: str | Path, **given: object) -> Network:
    """Return the network of a topology, by its name or the path of its file.

    `given` are its parameters as in an experiment, such as host_rate="100Gbps", or plane={"kind":
    "fat_tree", ...}. Raises the same InputErrors as an experiment.
    """
    use = topology_use("topology", str(name), given)
    return built(use, "build", use.params)


def topology_use(key: str, kind: str, given: Mapping[str, Any]) -> PluginSpec:
    """Return a topology with its parameters, including those of topologies that they name."""
    base, preset = registry.split_preset(kind)
    plugin = registry.find("topology", base, relative_to=Path.cwd())
    params = resolve_params(plugin.params, plugin.presets, given, preset, file=None, key=key)
    for param in plugin.params:
        table = params[param.name]
        if param.unit == "topology" and table is not None:
            inside = f"{key}.{param.name}"
            if not isinstance(table.get("kind"), str):
                raise InputError("missing", key=f"{inside}.kind", hint='such as "fat_tree"')
            own = {name: value for name, value in table.items() if name != "kind"}
            params[param.name] = topology_use(inside, table["kind"], own)
    return PluginSpec(plugin, params, preset)


def _inside(error: InputError, name: str) -> InputError:
    """Return an error of a topology with the key of its table inside another topology."""
    section, dot, rest = (error.key or "topology").partition(".")
    if section != "topology":
        return error
    key = f"topology.{name}{dot}{rest}"
    return error.replace(key=key)


def placed(part: Network, hosts: NDArray[Any], first: int, *, nic: int, rate: float) -> Plan:
    """Return the plan of a network within another.

    Its hosts become `hosts`, its switches are numbered from `first`, the NICs of its hosts from
    `nic`, and link rates are multiplied by `rate`. Raises InputError if that is impossible.
    """
    if hosts.shape != (part.n_hosts,):
        raise InputError(f"{part.name} has {part.n_hosts} hosts, not {hosts.size}")
    if part.routing is not shortest_paths:
        message = f"{part.name} has its own routes and cannot be part of another network"
        raise InputError(message, hint="use shortest paths")
    if part.switch_queue_bytes is not None:
        message = f"{part.name} has its own queue sizes and cannot be part of another network"
        raise InputError(message, hint="use those of [fabric]")
    if part.reduction is not None:
        message = f"{part.name} has reduction units and cannot be part of another network"
        raise InputError(message, hint="add them to the whole network")
    n_switches = len(part.plan.names)
    node = np.concatenate([hosts.astype(np.int64), first + np.arange(n_switches)])
    cables = part.plan.cables.copy()
    cables[:, :2] = node[cables[:, :2]]
    cables[:, NIC] += nic
    if rate != 1:
        cables[:, 2] = np.maximum(np.round(cables[:, 2] * rate), 1)
    circuits = [
        replace(
            one,
            edges=node[np.array(one.edges)].tolist(),
            delays_ps=list(one.delays_ps),
            rate_bps=max(round(one.rate_bps * rate), 1),
        )
        for one in part.plan.circuit_switches
    ]
    return replace(part.plan, cables=cables, circuit_switches=circuits)


def built(use: PluginSpec, function: str, *args: Any) -> Network:
    """Return the network that a plugin's function returns. Raises InputError, with the plugin's
    file, if the function fails or returns no valid network."""
    made = call(use, function, *args)
    if not isinstance(made, Network):
        message = f"{function}() returned {shortened(repr(made))}"
        raise InputError(message, file=str(use.plugin.path), hint="must return a Network")
    return made


def with_tables(network: Network, use: PluginSpec) -> Network:
    """Return a network with the routing table from a routing algorithm's `tables`, if it has that
    function, and with weights if it is WEIGHTED.

    Raises InputError, with the plugin's file, if `tables` fails or its table is wrong; without a
    file, if there is a `tables` and the network has several tables or circuits.
    """
    weigh = bool(getattr(use.module, "WEIGHTED", False))
    if not hasattr(use.module, "tables"):
        return _with_routing(network, _weighed(network.routing)) if weigh else network
    if network.policy is not None or network.circuits is not None:
        message = f"{use.name} makes a routing table, and {network.name} needs its own"
        raise InputError(message, key="fabric.routing", hint="use another routing or topology")

    def routing(wiring: Wiring) -> RoutingTable:
        made = call(use, "tables", use.params, wiring)
        problem = wrong_table(made, wiring) if isinstance(made, RoutingTable) else "no RoutingTable"
        if problem:
            file, hint = str(use.plugin.path), "table_from() of netsim.network makes one"
            raise InputError(f"tables() returned {problem}", file=file, hint=hint)
        table: RoutingTable = made
        return table

    return _with_routing(network, _weighed(routing) if weigh else routing)


def _weighed(routing: Routing) -> Routing:
    """Return a routing with `weighted` tables, except tables with time slots."""
    if isinstance(routing, TimeSlotRouting):
        return routing
    if isinstance(routing, RoutingPolicy):
        return replace(
            routing,
            routings=[replace(one, routing=_weighed(one.routing)) for one in routing.routings],
        )
    return lambda wiring: weighted(routing(wiring), wiring)


def _with_routing(network: Network, routing: Routing) -> Network:
    """Return a network with the routing tables that a routing makes."""
    wiring = network.wiring()
    table = routing(wiring)
    policy = routing if isinstance(routing, RoutingPolicy) else None
    return replace(
        network,
        route_first=table.row_first(wiring),
        route=table.route,
        route_ports=table.route_ports,
        routing=routing,
        policy=policy,
        time_slots=None if policy is None else policy.time_slots(wiring),
    )
