"""Wires: rates and latencies for collectives between hosts of a network.

A `Wire`, the input of closed forms, is measured per algorithm: between the hosts of all groups that
send at the same time, over all ports they may use. Packets are assumed to spread evenly over paths
of equal length; hash collisions and transport overheads are ignored.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from netsim.limits import PS_BITS
from netsim.model.arithmetic import byte_quotient, send_time
from netsim.model.columns import Floats, Ints
from netsim.model.fabric import PacketFormat
from netsim.model.flows import FlowTable
from netsim.model.ideal import PathTimes
from netsim.model.network import Network
from netsim.model.port_pairs import port_pairs_of, walk
from netsim.workloads.collectives import fastest
from netsim.workloads.collectives.steps import CollectiveOptions, Hops, Wire


class _Segments(NamedTuple):
    """The flows of k sends: one per send, or two if a peer relays it."""

    send: Ints  # the send of each flow
    first: Ints  # the start of each flow's port pairs
    src: Ints
    to: Ints


class Wires:
    """The wires between hosts of a network, for a given packet size."""

    def __init__(self, network: Network, payload_bytes: int, header_bytes: int) -> None:
        self.network = network
        self.payload_bytes, self.header_bytes = payload_bytes, header_bytes
        full = payload_bytes + header_bytes
        packets = PacketFormat(payload_bytes, header_bytes)
        self._times = PathTimes(network, packets, multipath=False)
        # Packet times are rounded to picoseconds.
        took = send_time(np.full(network.n_ports, full), byte_quotient(network.port_rate_bps))
        self._rate_bps = full * PS_BITS / took
        self._found: dict[tuple[object, ...], CollectiveOptions] = {}

    def settled(
        self, what: str, groups: ArrayLike, size_bytes: int, how: CollectiveOptions
    ) -> CollectiveOptions:
        """Return `how` with "auto" replaced by the fastest algorithm for int[g, n] groups of hosts.
        Raises InputError if no algorithm suits the groups."""
        if how.algorithm != "auto":
            return how
        hosts = np.atleast_2d(np.asarray(groups, np.int64))
        key = (what, size_bytes, how, hosts.shape, hosts.tobytes())
        if key not in self._found:
            near = replace(how, node=self.near(hosts) if how.node is None else how.node)
            n = hosts.shape[1]
            name = fastest(what, n, size_bytes, near, lambda hops: self.wire(hops, hosts))
            self._found[key] = replace(near, algorithm=name)
        return self._found[key]

    def near(self, groups: Ints) -> int | None:
        """Return the number of consecutive members below one switch; None if it is one or all."""
        if groups.shape[1] < 2:
            return None
        network = self.network
        port = network.node_first_port[groups]
        begin = network.first_group[network.port_network[port]]
        edge = network.edge_switch[begin + network.port_group[port]]
        n = groups.shape[1]
        changes = np.flatnonzero((edge[:, 1:] != edge[:, :-1]).any(axis=0)) + 1
        node = int(np.gcd.reduce(np.append(changes, n)))
        return node if 1 < node < n else None

    def wire(self, hops: Hops, groups: ArrayLike) -> Wire:
        """Return the wire of an algorithm's hops, in concurrent int[g, n] groups of hosts."""
        hosts = np.atleast_2d(np.asarray(groups, np.int64))
        far = None if hops.far is None else self.wire(hops.far, hosts)
        rows = [(hosts[:, row.src].reshape(-1), hosts[:, row.dst].reshape(-1)) for row in hops.rows]
        if not rows or not rows[0][0].size:
            return far or Wire(PS_BITS)
        sizes = np.array([src.size for src, _ in rows])
        if hops.at_once:
            src, dst = (np.concatenate(side) for side in zip(*rows, strict=True))
            took, alone, delay = self._measured(src, dst, hops)
        else:
            each = [self._measured(src, dst, hops) for src, dst in rows]
            took, alone, delay = (np.concatenate(side) for side in zip(*each, strict=True))
        begin = np.cumsum(sizes) - sizes
        if hops.chain:
            of_row, delays = (np.add.reduceat(one, begin) / sizes for one in (took, delay))
        else:
            of_row, delays = (np.maximum.reduceat(one, begin) for one in (took, delay))
        share = np.array([row.share for row in hops.rows])
        slowest = float(took.max())
        mean = float((share * of_row).sum() / share.sum())
        return Wire(
            round(1 / mean),
            round(float(delays.mean())),
            self.payload_bytes,
            self.header_bytes,
            round(1 / slowest) if hops.at_once else None,
            far,
            round(1 / float(alone.mean())),
        )

    def _measured(self, src: Ints, dst: Ints, hops: Hops) -> tuple[Floats, Floats, Floats]:
        """Return the cost of concurrent sends: seconds per bit sent by a position, the same for a
        single message, and latency in ps."""
        segments = self._segments(src, dst)
        port_pairs = np.diff(segments.first)
        flow = np.repeat(np.arange(port_pairs.size), port_pairs)
        own = hops.weight / port_pairs[flow]
        rates = self._rate_bps
        load = np.zeros(rates.size)
        alone = np.full(flow.size, np.inf)  # bits per second
        split = np.ones(flow.size)
        for port_pair, port, _, parallel in walk(self.network, segments.src, segments.to):
            split[port_pair] /= parallel
            np.add.at(load, port, own[port_pair] * split[port_pair])
            alone[port_pair] = np.minimum(alone[port_pair], rates[port])
        took = own / alone
        for port_pair, port, _, _ in walk(self.network, segments.src, segments.to):
            took[port_pair] = np.maximum(took[port_pair], load[port] / rates[port])
        of_flow = np.maximum.reduceat(took, segments.first[:-1])
        slowest, lone = np.zeros((2, src.size))
        np.maximum.at(slowest, segments.send, of_flow)
        rate_bps = np.add.reduceat(alone, segments.first[:-1])
        np.maximum.at(lone, segments.send, 1 / rate_bps)
        return slowest, lone, self._delays(segments, rate_bps, hops)

    def _delays(self, segments: _Segments, rate_bps: Floats, hops: Hops) -> Floats:
        """Return each send's time from the end of transmission to delivery. A relayed send also
        waits for a chunk at the peer."""
        message = max(1, hops.message_bytes)
        packet = np.full(segments.src.size, min(message, self.payload_bytes) + self.header_bytes)
        arrival = self._times.alone(segments.src, segments.to, packet)
        came = np.minimum.reduceat(arrival, segments.first[:-1]).astype(float)
        came -= packet[0] * PS_BITS / rate_bps
        n = int(segments.send.max()) + 1
        found: Floats = np.bincount(segments.send, came, n).astype(float)
        rule = self.network.relays
        twice = np.bincount(segments.send, minlength=n) > 1
        if rule is None or not twice.any():
            return found
        chunk = min(message, rule.chunk_bytes or message)
        on_wire = chunk + -(-chunk // self.payload_bytes) * self.header_bytes
        fastest_bps = np.zeros(n)
        np.maximum.at(fastest_bps, segments.send, rate_bps)
        return np.where(twice, found + on_wire * PS_BITS / fastest_bps, found)

    def _segments(self, src: Ints, dst: Ints) -> _Segments:
        send = np.arange(src.size)
        rule = self.network.relays
        if rule is not None:
            peer = rule.peers(FlowTable(src, dst, 1))
            apart = np.flatnonzero(peer >= 0)
            send = np.concatenate([send, apart])
            src, dst = np.concatenate([src, peer[apart]]), np.concatenate([dst, dst[apart]])
            dst[apart] = peer[apart]
        port_pairs = port_pairs_of(self.network, FlowTable(src, dst, 1))
        return _Segments(send, port_pairs.first, port_pairs.src_port, port_pairs.data_to)
