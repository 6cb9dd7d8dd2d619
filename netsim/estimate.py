"""What a run will take, before it is started: packets, memory, time."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from netsim.ideal import packet_counts, walk
from netsim.prepare import Scenario, is_closed_form, prepare

if TYPE_CHECKING:
    from netsim.experiment import Point
    from netsim.fabric import PacketFormat

BASE_BYTES = 260_000_000
"""The interpreter, the libraries and the compiled code."""

HOPS_PER_S = {"lossless": 6e6, "other": 12e6}
"""Packet-hops per second and thread that a small cloud machine does; `netsim bench` measures."""

STATE_BYTES_PER_FLOW = 1000
"""Both sides' records, timers, and the flow's row in traffic, ideal times and results."""

PORT_BYTES = 128 + 32 + 48 + 24 + 100
"""Port, inbox, balance, published ends, and its row in the results."""

QUEUE_BYTES = 144
SLOT_BYTES = 32


@dataclass(frozen=True)
class Estimate:
    """Prediction for one point. `seconds` leaves compilation out."""

    n_hosts: int
    n_switches: int
    n_links: int
    n_flows: int
    packets: int
    packet_hops: int
    memory_bytes: int
    seconds: float
    assumptions: str


def estimate(point: Point) -> Estimate:
    """Predict what running `point` takes. Raises InputError if the point cannot be built."""
    return estimate_scenario(point, prepare(point))


def estimate_scenario(point: Point, scenario: Scenario) -> Estimate:
    """As `estimate`, for a point whose network and traffic are built."""
    network, flows, fabric = scenario.network, scenario.flows, scenario.fabric
    packets = packet_counts(flows.size_bytes, point.packets)
    n_packets = int(packets.sum())
    control = float(getattr(point.transport.module, "CONTROL_PER_DATA", 1.0))
    hops = int((packets * _links(scenario)).sum() * (1 + control))
    threads = os.cpu_count() or 1
    speed = HOPS_PER_S["lossless" if fabric.model == "lossless" else "other"] * threads
    if is_closed_form(point):
        hops = 0
    return Estimate(
        n_hosts=network.n_hosts,
        n_switches=network.n_switches,
        n_links=network.n_links,
        n_flows=len(flows),
        packets=n_packets,
        packet_hops=hops,
        memory_bytes=_memory(scenario, point.packets, n_packets),
        seconds=hops / speed,
        assumptions=(
            f"{control:g} control packets per data packet, {speed / 1e6:.0f} M packet-hops/s on "
            f"{threads} threads (netsim bench measures it), no retransmissions, "
            "queues that stay short"
        ),
    )


def _links(scenario: Scenario) -> np.ndarray:
    """int64[n_flows]: links on the first shortest path of each flow."""
    flows = scenario.flows
    links = np.zeros(len(flows), np.int64)
    src, dst = flows.src.astype(np.int64), flows.dst.astype(np.int64)
    for flow, _, _, _ in walk(scenario.network, src, dst):
        links[flow] += 1
    return links


def _memory(scenario: Scenario, packets: PacketFormat, n_packets: int) -> int:
    from netsim.engine.state import initial_sizes

    network = scenario.network
    sizes = initial_sizes(network, packets)
    classes = scenario.fabric.n_classes
    switch_ports = network.n_ports - network.n_hosts
    slots = (
        network.n_ports * sizes.link_slots
        + switch_ports * classes * sizes.queue_slots
        + network.n_hosts * sizes.control_slots
    )
    slot_bytes = SLOT_BYTES + (4 if scenario.fabric.model == "lossless" else 0)
    packets_bytes = int(1.5 * slots * slot_bytes)  # some rings turn out too small and grow
    return (
        BASE_BYTES
        + packets_bytes
        + network.n_ports * (PORT_BYTES + classes * QUEUE_BYTES)
        + len(scenario.flows) * STATE_BYTES_PER_FLOW
        + n_packets
    )
