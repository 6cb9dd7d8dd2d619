"""Bounds (`netsim.limits`) that depend on network, traffic and packets together.

Single values are checked where they are parsed. All functions raise InputErrors without a file.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

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
from netsim.model.fabric import PFC_FRAME_BYTES, Fabric, PacketFormat, packet_counts
from netsim.model.port_pairs import port_pairs_of, walk
from netsim.units import format_bytes, format_rate, format_time

if TYPE_CHECKING:
    from netsim.model.flows import FlowTable
    from netsim.model.network import Network

HORIZON = f"a run lasts at most {HORIZON_PS / 3.6e15:.0f} simulated hours"


def check_links(
    network: Network, packets: PacketFormat, fabric: Fabric, topology: Mapping[str, Any]
) -> None:
    """Refuse links on which a packet's transmission time overflows or is 0.

    Args:
        topology: its parameters; the error names the one with the wrong rate.
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
    """Refuse flows that would end after the last possible time even if they were alone. Uses
    floating point, as these times may overflow. Sizes and links must have been checked."""
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
