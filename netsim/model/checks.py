"""Checks that need network, traffic and packets together: bounds (`netsim.limits`), symmetric ECMP.

Single values are checked where they are parsed. All functions raise InputErrors without a file.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from netsim.errors import InputError
from netsim.limits import (
    COUNT,
    HORIZON_PS,
    PATH_BYTES,
    PS_BITS,
    RATE_SHIFT,
    TRAFFIC_BYTES,
    fastest_rate_bps,
    slowest_rate_bps,
)
from netsim.model.arithmetic import byte_quotient
from netsim.model.columns import Ints
from netsim.model.fabric import PFC_FRAME_BYTES, Fabric, PacketFormat, packet_counts
from netsim.model.flows import FlowTable
from netsim.model.network import Network
from netsim.model.port_pairs import ENTROPY, HASH, port_pairs_of, walk
from netsim.model.routing import COUNT_MASK, NO_ROUTE
from netsim.units import format_bytes, format_rate, format_time

HORIZON = f"a run lasts at most {HORIZON_PS / 3.6e15:.0f} simulated hours"


def check_links(
    network: Network, packets: PacketFormat, fabric: Fabric, topology: Mapping[str, Any]
) -> None:
    """Refuse links on which a packet's transmission time overflows or is 0.

    Args:
        topology: its parameters; the error names the parameter with the wrong rate.
    """
    largest, smallest = largest_packet(packets, fabric), smallest_packet(packets, fabric)
    slowest, fastest = slowest_rate_bps(largest), fastest_rate_bps(smallest)
    for rate in np.unique(network.port_rate_bps).tolist():
        if slowest <= rate <= fastest:
            continue
        port = int(np.flatnonzero(network.port_rate_bps == rate)[0])
        names = [name for name, value in topology.items() if value == rate]
        if rate < slowest:
            what = f"too slow for packets of {largest} bytes"
            hint = f"at least {format_rate(slowest)}"
        else:
            what = f"too fast: sending {smallest} bytes would take less than 1 ps"
            hint = f"at most {format_rate(fastest)}"
        message = f"link {network.port_name(port)} of {format_rate(rate)} is {what}"
        raise InputError(message, key=f"topology.{names[0]}" if names else "topology", hint=hint)
    round_trip_ps = network.port_delay_ps + network.port_delay_ps[network.port_peer]
    in_flight = network.port_rate_bps.astype(float) * round_trip_ps / PS_BITS
    port = int(in_flight.argmax())
    if in_flight[port] >= PATH_BYTES:
        raise InputError(
            f"link {network.port_name(port)} of {format_rate(network.port_rate_bps[port])} "
            f"and a round trip of {format_time(int(round_trip_ps[port]))} has "
            f"{format_bytes(int(in_flight[port]), 3)} in flight",
            key="topology",
            hint=f"less than {format_bytes(PATH_BYTES)}",
        )


def largest_packet(packets: PacketFormat, fabric: Fabric) -> int:
    return max(packets.data_bytes, packets.control_bytes, *_pfc(fabric))


def smallest_packet(packets: PacketFormat, fabric: Fabric) -> int:
    """Return the size on the wire of the smallest packet; the last of a flow may carry one byte."""
    return min(packets.header_bytes + 1, packets.control_bytes, *_pfc(fabric))


def _pfc(fabric: Fabric) -> list[int]:
    return [PFC_FRAME_BYTES] if fabric.coupled else []


def check_classes(flows: FlowTable, n_traffic_classes: int, key: str) -> None:
    """Refuse flows of a traffic class that the fabric lacks."""
    for flow in np.flatnonzero(flows.cls >= n_traffic_classes)[:1].tolist():
        message = f"flow {flow}: {no_class(int(flows.cls[flow]), n_traffic_classes)}"
        raise InputError(message, key=key, hint=CLASSES_HINT)


CLASSES_HINT = "see fabric.n_traffic_classes"


def no_class(cls: int, n_traffic_classes: int) -> str:
    """Return the message for a traffic class that the fabric lacks."""
    there = "class 0 only" if n_traffic_classes == 1 else f"classes 0 to {n_traffic_classes - 1}"
    return f"class {cls}, but the fabric has {there}"


def check_sizes(flows: FlowTable, packets: PacketFormat, key: str) -> None:
    """Refuse flows with too many packets, or too many bytes in total."""
    count = packet_counts(flows.size_bytes, packets)
    flow = int(count.argmax())
    if count[flow] > COUNT:
        raise InputError(
            f"flow {flow} of {format_bytes(int(flows.size_bytes[flow]), 4)} has {count[flow]} "
            f"packets of {format_bytes(packets.payload_bytes)}",
            key=key,
            hint=f"at most 2^31 - 1, {format_bytes(COUNT * packets.payload_bytes, 4)}",
        )
    if float(count.sum(dtype=float)) * packets.data_bytes >= TRAFFIC_BYTES:
        raise InputError(
            f"all flows together have {count.sum(dtype=float):.3g} packets of "
            f"{format_bytes(packets.data_bytes)}",
            key=key,
            hint=f"less than 2^{TRAFFIC_BYTES.bit_length() - 1} bytes in total",
        )


def check_durations(network: Network, flows: FlowTable, packets: PacketFormat, key: str) -> None:
    """Refuse flows that would end after the last possible time even in an idle network. Uses
    floating point, since these times may overflow an int64. Check sizes and links first."""
    quotient = byte_quotient(network.port_rate_bps)
    full = max(packets.data_bytes, packets.control_bytes)
    send_ps = quotient * (full / 2**RATE_SHIFT)
    hop_ps = float(send_ps.max()) + float(network.port_delay_ps.max())
    count = packet_counts(flows.size_bytes, packets)
    longest_ps = (int(count.max()) + 2 * network.n_nodes) * hop_ps + int(flows.start_ps.max())
    if longest_ps < HORIZON_PS:
        return  # on any path
    port_pairs = port_pairs_of(network, flows)
    path_ps, slowest_ps = np.zeros(port_pairs.src_port.size), np.zeros(port_pairs.src_port.size)
    for port_pair, port, _, _ in walk(network, port_pairs.src_port, port_pairs.data_to):
        path_ps[port_pair] += send_ps[port] + network.port_delay_ps[port]
        slowest_ps[port_pair] = np.maximum(slowest_ps[port_pair], send_ps[port])
    on_pair_ps = 2 * path_ps + np.repeat(count, port_pairs.counts) * slowest_ps
    alone_ps = np.maximum.reduceat(on_pair_ps, port_pairs.first[:-1])
    for flow in np.flatnonzero(flows.start_ps + alone_ps >= HORIZON_PS)[:1].tolist():
        size = format_bytes(int(flows.size_bytes[flow]), 4)
        raise InputError(
            f"flow {flow} of {size} would take {alone_ps[flow] / 3.6e15:.3g} hours from its start "
            f"at {format_time(int(flows.start_ps[flow]), 4)}, even alone",
            key=key,
            hint=HORIZON,
        )


KEY = "fabric.routing"
BOTH_WAYS = (HASH, ENTROPY)
"""Values of `fabric.plane_balancing` by which packets and acknowledgments use the same plane."""


def heights(network: Network) -> Ints:
    """Return int64[n_switches], the number of links from each switch to the nearest host."""
    low, high = _fabric_cables(network)
    height = np.full(network.n_switches, network.n_nodes, np.int64)
    height[network.edge_switch] = 1
    while True:
        before = height.copy()
        np.minimum.at(height, low, before[high] + 1)
        if np.array_equal(height, before):
            return height


def check_symmetric(network: Network, planes: str = HASH) -> None:
    """Refuse a network in which acknowledgments may take a different path than the data.

    "Routing algorithms" in `netsim/engine/MODEL.md` has the rule of `ecmp_symmetric`. `planes` is
    `fabric.plane_balancing`.

    Raises InputError with the key of the routing or of the plane balancing.
    """
    if network.n_host_ports > network.first_nic[-1] and planes not in BOTH_WAYS:
        message = f'"{planes}" conflicts with ecmp_symmetric: each end chooses its own plane'
        raise InputError(message, key="fabric.plane_balancing", hint=" or ".join(BOTH_WAYS))
    wiring = network.wiring()
    if wiring.usable is not None:
        port = int(np.flatnonzero(~wiring.usable)[0])
        raise _refusal(f"the circuit at {network.port_name(port)} is one-way")
    counts = np.where(network.route == NO_ROUTE, 0, network.route & COUNT_MASK)
    if int(counts.max(initial=0)) <= 1:
        return
    height = heights(network)
    low, high = _fabric_cables(network)
    for a, b in zip(low.tolist(), high.tolist(), strict=True):
        if height[a] == height[b]:
            raise _refusal(f"a cable connects {_names(network, a, b)}, equally far from hosts")
    uplinks: list[list[int]] = [[] for _ in range(network.n_switches)]
    for a, b in zip(low.tolist(), high.tolist(), strict=True):
        if height[a] < height[b]:
            if b in uplinks[a]:
                raise _refusal(f"several cables connect {_names(network, a, b)}")
            uplinks[a].append(b)
    rows = {int(edge): [[int(edge)]] for edge in np.unique(network.edge_switch)}
    while rows:
        rows = {edge: [uplinks[s] for layer in row for s in layer] for edge, row in rows.items()}
        rows = {edge: row for edge, row in rows.items() if any(row)}
        _check_layer(network, rows)


def _check_layer(network: Network, rows: dict[int, list[list[int]]]) -> None:
    """Raise InputError if two edge switches need different choices of uplinks to reach the same
    switch of a layer.

    For each edge switch, ``rows`` has the switches of the layer that it can reach: one list for
    each switch below, in the order of that switch's uplinks."""
    seen: dict[int, int] = {}
    for edge, row in rows.items():
        above = [s for layer in row for s in layer]
        if len(set(above)) < len(above):
            twice = next(s for s in above if above.count(s) > 1)
            raise _refusal(f"several shortest paths connect {_names(network, edge, twice)}")
        for s in above:
            other = seen.setdefault(s, edge)
            if rows[other] != row:
                pair = _names(network, other, edge)
                raise _refusal(f"the uplinks of {pair} differ or are in a different order")


def _fabric_cables(network: Network) -> tuple[Ints, Ints]:
    own = network.port_node.astype(np.int64) - network.n_hosts
    far = network.port_node[network.port_peer].astype(np.int64) - network.n_hosts
    between = (own >= 0) & (far >= 0)
    usable = network.wiring().usable
    if usable is not None:
        between &= usable
    return own[between], far[between]


def _names(network: Network, a: int, b: int) -> str:
    return f"{network.switch_names[a]} and {network.switch_names[b]}"


def _refusal(what: str) -> InputError:
    message = f"ecmp_symmetric cannot make paths symmetric: {what}"
    hint = "ecmp, or a tree with one cable between two switches and the same order of uplinks"
    return InputError(message, key=KEY, hint=hint)
