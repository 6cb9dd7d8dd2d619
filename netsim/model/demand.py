"""Bytes that a workload will send between the switches with hosts, for topologies with `adapt`."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from netsim.model.columns import longest_chains
from netsim.model.fabric import PacketFormat, packet_counts
from netsim.model.flows import FlowTable
from netsim.model.network import Network
from netsim.model.tasks import RECEIVE, SEND, TaskTable
from netsim.model.workload import Workload

Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Demand:
    """The bytes of n flows between switches with hosts.

    These switches are numbered from 0 in the order of their ids; a host with several ports counts
    at the switch of its first port.

    Attributes:
        n_edges: number of switches with hosts.
        src, dst: int64[n], source and destination switch of each flow.
        wire_bytes: int64[n], bytes of its data packets, headers included.
        packet_bytes: size on the wire of the largest packet.
        load: the workload.
        seed: the experiment's seed.
    """

    n_edges: int
    src: Ints
    dst: Ints
    wire_bytes: Ints
    packet_bytes: int
    load: Workload
    seed: int

    @cached_property
    def level(self) -> Ints:
        """int64[n], phase of each flow: 0 if it waits for none, else 1 + the highest it waits
        for."""
        return levels(self.load.flows, self.load.tasks)

    def entries(self, these: NDArray[np.bool_] | None = None) -> list[tuple[int, int, int]]:
        """Return (source, destination, bytes) for pairs of different switches, in ascending
        order. All flows count, or `these` (bool[n]), such as `demand.level == 1`."""
        away = self.src != self.dst
        these = away if these is None else away & these
        key = self.src[these] * self.n_edges + self.dst[these]
        pairs, which = np.unique(key, return_inverse=True)
        sums = np.zeros(pairs.size, np.int64)
        np.add.at(sums, which.reshape(-1), self.wire_bytes[these])
        rows, columns = np.divmod(pairs, self.n_edges)
        return list(zip(rows.tolist(), columns.tolist(), sums.tolist(), strict=True))


def demand_of(network: Network, load: Workload, packets: PacketFormat, seed: int) -> Demand:
    flows = load.flows
    switch = network.port_node[network.port_peer[: network.n_host_ports]]
    edges = np.unique(switch)
    of_host = np.searchsorted(edges, switch[network.node_first_port[: network.n_hosts]])
    counts = packet_counts(flows.size_bytes, packets)
    return Demand(
        n_edges=edges.size,
        src=of_host[flows.src],
        dst=of_host[flows.dst],
        wire_bytes=flows.size_bytes + counts * packets.header_bytes,
        packet_bytes=max(packets.payload_bytes + packets.header_bytes, packets.control_bytes),
        load=load,
        seed=seed,
    )


def levels(flows: FlowTable, tasks: TaskTable | None) -> Ints:
    """Return int64[n_flows], the most flows on a dependency chain before each flow. Chains may
    pass through tasks. There must be no cycle."""
    n = len(flows)
    first: list[Ints] = []
    then: list[Ints] = []
    if flows.after_ptr is not None and flows.after_flow is not None:
        first.append(flows.after_flow)
        then.append(np.repeat(np.arange(n), np.diff(flows.after_ptr)))
    size = n
    if tasks is not None:
        # Tasks are nodes after all flows.
        size += len(tasks)
        for before, after in (tasks.edges(), tasks.stream_edges()):
            first.append(n + before)
            then.append(n + after)
        sends = np.flatnonzero(tasks.kind == SEND)
        receives = np.flatnonzero(tasks.kind == RECEIVE)
        first += [n + sends, tasks.flow[receives]]
        then += [tasks.flow[sends], n + receives]
    if not first:
        return np.zeros(n, np.int64)
    before, after = np.concatenate(first), np.concatenate(then)
    return longest_chains(size, before, after, (before < n).astype(np.int64))[:n]
