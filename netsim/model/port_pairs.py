"""Port pairs: the ports of its two hosts that a flow may use.

A port pair is a port of the source and one of the destination in the same network. "Hosts with
several ports" in `netsim/engine/MODEL.md` has the rules.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from netsim.errors import InputError, did_you_mean
from netsim.frozen import frozen
from netsim.model.arithmetic import PURPOSE_PLANE, mix, salt
from netsim.model.columns import Flags, Ints, column_of, first_of, offsets, rows_of
from netsim.model.routing import COUNT_BITS, COUNT_MASK
from netsim.units import written

if TYPE_CHECKING:
    from netsim.model.flows import FlowTable
    from netsim.model.network import Network
    from netsim.model.routing_policy import RoutingPolicy

ANY_NIC = -1  # NIC number for the fastest NIC that reaches the destination

HASH, ROUND_ROBIN, PERMUTATION, LEAST_LOADED, ENTROPY, BY_ROUTING = PLANE_BALANCING = (
    "hash",
    "round_robin",
    "permutation",
    "least_loaded",
    "entropy",
    "routing",
)
"""`plane_balancing` of [fabric]: a fixed port pair for each flow, or a choice for each packet, with
"routing" the routing algorithm's choice."""

DEALT_EVENLY = (ROUND_ROBIN, PERMUTATION)  # every port pair gets the same number of packets


@frozen(eq=False)
class PortPairs:
    """The port pairs of n flows."""

    first: Ints  # int64[n + 1], first port pair of each flow; each has at least one
    # src_port, dst_port: int64[...], global ports of each port pair
    src_port: Ints
    dst_port: Ints
    # data_to, control_to: int64[...], addresses (`Network.address`) of data packets and of the
    # sender's control packets: the destination, in their routing table
    data_to: Ints
    control_to: Ints
    control_back: Ints  # int64[...], addresses of the receiver's control packets

    @property
    def counts(self) -> Ints:
        """int64[n], number of port pairs of each flow."""
        return np.diff(self.first)

    def one_each(self, which: Ints) -> PortPairs:
        """Return only port pair number `which` of each flow."""
        at = self.first[:-1] + which
        columns = self.src_port, self.dst_port, self.data_to, self.control_to, self.control_back
        return PortPairs(np.arange(at.size + 1), *(column[at] for column in columns))


def pairs_used(network: Network, flows: FlowTable, planes: str, seed: int) -> PortPairs:
    """Return the port pairs that flows use: all, or with "hash" each flow's random pair. Raises
    the same InputErrors as `port_pairs_of`."""
    port_pairs = port_pairs_of(network, flows)
    if planes != HASH or not network.has_several_ports:
        return port_pairs
    return port_pairs.one_each((draws_of(flows, seed, port_pairs.counts) * port_pairs.counts) >> 32)


def draws_of(flows: FlowTable, seed: int, counts: Ints) -> Ints:
    """Return int64[n_flows], the 32 bits that select one of a flow's `counts` port pairs with
    "hash": random for a message; each of its queue pairs takes the next port pair."""
    if flows.queue_pairs is None:
        first, steps = np.arange(len(flows), dtype=np.int64), np.int64(0)
    else:
        first, steps = flows.queue_pairs
    draws: Ints = (
        mix(salt(seed, PURPOSE_PLANE, first)) + steps * -(-(1 << 32) // counts)
    ) & 0xFFFFFFFF
    return draws


def port_pairs_of(network: Network, flows: FlowTable) -> PortPairs:
    """Return all port pairs of each flow. Raises InputError, naming the flow, if a flow has no port
    pair or a port pair has no route in either direction."""
    first, src, dst = _ends(network, flows)
    port_pairs = PortPairs(first, src, dst, data_to=dst, control_to=dst, control_back=src)
    if network.policy is None:
        _named_tables((), flows)
    else:
        data = np.repeat(_wanted_tables(network, network.policy, flows), port_pairs.counts)
        data, control = _tables_of(network, network.policy, data, (src, dst))
        to = network.address
        port_pairs = PortPairs(first, src, dst, to(dst, data), to(dst, control), to(src, control))
    if not network.reaches_all:
        _check_routes(network, port_pairs, flows.unanswered)
    return port_pairs


def _wanted_tables(network: Network, policy: RoutingPolicy, flows: FlowTable) -> Ints:
    """Return int64[n_flows], the table that the data of each flow uses if it has a route. Raises
    InputError for tables that do not exist."""
    first = np.zeros(len(flows), np.int64)
    if policy.by_phase and network.phase_of_flow is not None:
        first = np.maximum(network.phase_of_flow, 0)
    found = np.where(
        flows.size_bytes >= policy.large_min_bytes, first, policy.number(policy.small_table)
    )
    if policy.table_of is not None:
        ruled = column_of(policy.table_of(flows), len(flows), np.int64, "table_of: tables")
        for flow in first_of(ruled >= network.n_tables):
            message = f"table_of: flow {flow}: table {ruled[flow]} does not exist"
            raise InputError(message, key="topology", hint=f"0 to {network.n_tables - 1}")
        found = np.where(ruled < 0, found, ruled)
    named = _named_tables(policy.names, flows)
    return found if named is None else np.where(named < 0, found, named)


def _named_tables(names: Sequence[str], flows: FlowTable) -> Ints | None:
    """Return int64[n_flows], the tables that flows name, -1 for flows that name none; None if no
    flow does. Raises InputError for unknown names."""
    if flows.table is None:
        return None
    number = []
    for name in flows.tables:
        if name and name not in names:
            flow = int(np.flatnonzero(flows.table == flows.tables.index(name))[0])
            hint = did_you_mean(name, names) if names else "the topology has only one table"
            message = f"flow {flow}: no routing table is named {written(name)}"
            raise InputError(message, key="traffic", hint=hint)
        number.append(names.index(name) if name else -1)
    return np.array(number, np.int64)[flows.table]


def _tables_of(
    network: Network, policy: RoutingPolicy, data: Ints, ends: tuple[Ints, Ints]
) -> tuple[Ints, Ints]:
    """Return the tables of the data and control packets of port pairs (source, destination).
    `data` are the preferred tables of data."""
    src, dst = ends

    def led(table: Ints, leads: Flags) -> Ints:
        return (
            table
            if policy.fallback is None
            else np.where(leads, table, policy.number(policy.fallback))
        )

    data = led(data, network.reaches(src, network.address(dst, data)))
    control = data
    if policy.control_table is not None:
        control = np.full(data.size, policy.number(policy.control_table))
    there = network.reaches(src, network.address(dst, control))
    back = network.reaches(dst, network.address(src, control))
    return data, led(control, there & back)


def _check_routes(network: Network, port_pairs: PortPairs, unanswered: Flags | None) -> None:
    src, dst = port_pairs.src_port, port_pairs.dst_port
    data = np.ones(src.size, bool)
    control = data if unanswered is None else ~np.repeat(unanswered, port_pairs.counts)
    sorts = (
        ("", data, src, dst, port_pairs.data_to),
        (" for the receiver's control packets", control, dst, src, port_pairs.control_back),
        (" for its control packets", control, src, dst, port_pairs.control_to),
    )
    for what, sent, here, there, to in sorts:
        for port_pair in np.flatnonzero(sent & ~network.reaches(here, to))[:1].tolist():
            flow = int(np.searchsorted(port_pairs.first, port_pair, side="right")) - 1
            a, b = (int(network.port_node[end[port_pair]]) for end in (here, there))
            table = network.table_name(int(to[port_pair]))
            by = f' in routing table "{table}"' if table else ""
            message = f"flow {flow}: no route from host {a} to host {b}{by}{what}"
            hint = "connect their switches by circuits, directly or over others"
            raise InputError(message, hint=hint)


def _ends(network: Network, flows: FlowTable) -> tuple[Ints, Ints, Ints]:
    """Return the first port pair of each flow, and both ports of each port pair."""
    src, dst = flows.src.astype(np.int64), flows.dst.astype(np.int64)
    n, n_networks = len(flows), int(network.first_group.size) - 1
    if not network.has_several_ports:
        apart = network.port_network[src] != network.port_network[dst]
        _refuse(network, flows, apart | (flows.nic > 0))
        return np.arange(n + 1), src, dst
    # The ports of all hosts, sorted by host and network.
    key = network.port_node[: network.n_host_ports] * n_networks + network.port_network
    by_key = np.argsort(key, kind="stable")
    sorted_key = key[by_key]
    place = np.empty_like(by_key)
    place[by_key] = np.arange(by_key.size)
    rank = place - np.searchsorted(sorted_key, key)  # among its host's ports in its network

    # Every pair of a flow and a port of its source.
    first = network.node_first_port
    n_ports = first[src + 1] - first[src]
    flow = np.repeat(np.arange(n), n_ports)
    port = rows_of(first[src], n_ports)
    there = dst[flow] * n_networks + network.port_network[port]
    begin = np.searchsorted(sorted_key, there, side="left")
    m = np.searchsorted(sorted_key, there, side="right") - begin

    reaches = np.flatnonzero(m > 0)
    flow, port, begin, m = flow[reaches], port[reaches], begin[reaches], m[reaches]
    to = by_key[begin + rank[port] % m]
    nic = network.port_nic[port].astype(np.int64)
    wanted = flows.nic.astype(np.int64)
    rate_bps = np.minimum(network.port_rate_bps[port], network.port_rate_bps[to])
    used = nic == np.where(wanted == ANY_NIC, _fastest(n, flow, nic, rate_bps), wanted)[flow]
    counts = np.bincount(flow[used], minlength=n)
    _refuse(network, flows, counts == 0)
    return offsets(counts), port[used], to[used]


def _fastest(n: int, flow: Ints, nic: Ints, rate_bps: Ints) -> Ints:
    """Return int64[n], the NIC with the highest total rate of its port pairs, for flows that have
    any. `flow`, `nic` and `rate_bps` describe the port pairs of all NICs, in the order of flows."""
    most = int(nic.max(initial=0)) + 1
    total = np.zeros(n * most, np.int64)
    np.add.at(total, flow * most + nic, rate_bps)
    fastest: Ints = total.reshape(n, most).argmax(axis=1)
    return fastest


def _refuse(network: Network, flows: FlowTable, bad: Flags) -> None:
    """Raise InputError for the first flow without a port pair."""
    for flow in np.flatnonzero(bad)[:1].tolist():
        src, dst, nic = int(flows.src[flow]), int(flows.dst[flow]), int(flows.nic[flow])
        nics = int(network.first_nic[src + 1] - network.first_nic[src])
        if nic >= nics:
            there = "NIC 0 only" if nics == 1 else f"NICs 0 to {nics - 1}"
            raise InputError(f"flow {flow}: host {src} has no NIC {nic}, {there}")
        if nic != ANY_NIC:
            raise InputError(f"flow {flow}: NIC {nic} of host {src} does not reach host {dst}")
        message = f"flow {flow}: host {src} and host {dst} have no network in common"
        raise InputError(message, key="topology", hint=_common(network))


def _common(network: Network) -> str:
    """Return a hint on how to connect hosts without a common network."""
    if network.circuits is not None:
        return "circuits between their racks: schedule, matchings or circuit_switches of ocs"
    if network.first_group.size > 2 and network.relays is None:
        return "relay messages: relay_at of multi_rail, or a RelayRule of the topology"
    if network.relays is not None:
        return "flows without a NIC, which a peer may relay"
    return "connect them by a network"


def walk(network: Network, src: Ints, dst: Ints) -> Iterator[tuple[Ints, Ints, Flags, Ints]]:
    """Follow the first shortest paths from hosts' ports to addresses, link by link.

    Yields for each step (flow, port, delivers, parallel), arrays of one length: the flows still on
    their way, the global port each leaves by, whether that port leads to its host, and the number
    of candidate ports, the first of which it is.
    """
    flow = np.arange(src.size)
    group = network.host_group[dst].astype(np.int64)
    port = src
    delivers = np.zeros(src.size, bool)
    parallel = np.ones(src.size, np.int64)
    while True:
        yield flow, port, delivers, parallel
        going = ~delivers
        if not going.all():
            flow, port, group = flow[going], port[going], group[going]
        if not flow.size:
            return
        switch = network.next_switch(port)
        entry = network.route[network.route_first[switch] + group]
        delivers = (entry & COUNT_MASK) == 0
        parallel = np.maximum(entry & COUNT_MASK, 1)
        local = network.host_port[dst[flow]].astype(np.int64)
        onward = ~delivers
        local[onward] = network.route_ports[entry[onward] >> COUNT_BITS]
        port = network.node_first_port[switch + network.n_hosts] + local
