"""Racks connected by circuits and by a packet switch or an expander."""

from typing import Any

import numpy as np

from netsim.network import (
    Expander,
    NamedRouting,
    Network,
    NetworkBuilder,
    RoutingPolicy,
    Schedule,
    circuit_routes,
    packet_fabric_routes,
    round_robin_matchings,
)

NS, US, GBPS = 10**3, 10**6, 10**9
CIRCUITS, PACKETS = (
    NamedRouting("circuits", circuit_routes),
    NamedRouting("packets", packet_fabric_routes),
)
TO_RACK, FIBER, TO_SPINE = US, 300 * NS, 500 * NS  # cable and fiber delays


def hybrid(schedule: Schedule | None = None, **rule: Any) -> Network:
    """Return four racks of one host; circuits have 100 Gbps, the packet fabric 10 Gbps. By default
    circuits are permanent and pair the racks, so packets never wait for one."""
    schedule = schedule or Schedule(10 * US, round_robin_matchings(4)[:1])
    builder = NetworkBuilder()
    racks = schedule.n_ports
    builder.add_hosts(racks)
    tors = builder.add_switches([f"tor{k}" for k in range(racks)])
    spine = builder.add_switch("spine", 1)
    for host, tor in enumerate(tors):
        builder.cable(host, tor, 100 * GBPS, TO_RACK)
        builder.cable(tor, spine, 10 * GBPS, TO_SPINE)
    ocs = builder.add_circuit_switch("ocs", schedule)
    for tor in tors:
        builder.fiber(tor, ocs, 100 * GBPS, FIBER)
    return builder.build("hybrid", policy=RoutingPolicy((CIRCUITS, PACKETS), **rule))


def opera(
    racks: int,
    rotors: int,
    *,
    slot_ps: int = 40 * US,
    night_ps: int = 2 * US,
    drain_ps: int = 3 * US,
    order: int = 1,
    **rule: Any,
) -> Network:
    """Return racks of one host connected by staggered rotors, with an expander.

    Each rotor has the same number of matchings, some of which may be idle; `order` seeds their
    distribution. All cables have 100 Gbps and the delays above. The first routing table is
    "direct", over one circuit, the second "expander".
    """
    matchings = round_robin_matchings(racks)
    idle = np.full((-len(matchings) % rotors, racks), -1)
    matchings = np.concatenate([matchings, idle])
    np.random.default_rng(order).shuffle(matchings)
    builder = NetworkBuilder()
    builder.add_hosts(racks)
    tors = builder.add_switches([f"tor{k}" for k in range(racks)])
    for host, tor in enumerate(tors):
        builder.cable(host, tor, 100 * GBPS, TO_RACK)
    for number in range(rotors):
        schedule = Schedule(
            slot_ps,
            matchings[number::rotors],
            reconfiguration_delay_ps=night_ps,
            offset_ps=number * slot_ps // rotors,
        )
        rotor = builder.add_circuit_switch(f"rotor{number}", schedule)
        for tor in tors:
            builder.fiber(tor, rotor, 100 * GBPS, FIBER)
    policy = RoutingPolicy(
        [NamedRouting("direct", circuit_routes), NamedRouting("expander", Expander(drain_ps))],
        **rule,
    )
    return builder.build("opera", policy=policy)
