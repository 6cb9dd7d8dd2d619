"""Optical circuit switches: racks joined by circuits alone, which stay or change in turn.

Hosts are numbered rack by rack. A rack's switch has its hosts and an uplink to each of the circuit
switches, which have no buffers and look at no packet: each joins the racks by one matching at a
time. What waits for a circuit stands at the rack's switch, in a queue for each other rack. With one
host in a rack that switch stands for the network interface of a chip whose light goes to the
circuit switches itself (co-packaged optics), and the queues for those in its memory.

`schedule` says what the circuit switches join:

- "static": one matching each, for good: of `static_pattern` or from the file `matching_file`, in
  which a line
  "2 0 5" says that switch 2 joins racks 0 and 5. "mesh" gives switch k the k-th
  round-robin matching, so that with all of them every two racks have a circuit; "ring" joins
  each rack to the next, by any two switches next to one another the ones with even numbers and
  those with odd ones; "hypercube" gives switch k the racks 2^k apart, and begins again where they
  are used up; "pairs" joins 0 and 1, 2 and 3, and so on, by all switches. With `group_size` rings
  and hypercubes are of so many racks next to one another, such as the machines of a job. The last
  `pair_switches` join each rack of the first half to that of the second half instead, as who makes
  something there to who goes on with it.
- "rotor": all round-robin matchings in turn (the circle method): `racks - 1` rounds in which
  every rack has a partner or, if their number is odd, `racks` with one left out in each. The
  switches share them, switch r has rounds r, r + switches, r + 2 switches, ..., and stays in each
  for `slot`. With `stagger` switch r begins `r / switches` of a slot later, so that they never turn
  all at once. A rotor with one matching is never dark. With `shuffle_seed` the matchings are
  others, that this number draws: every two racks still meet once, but what several switches join at
  a time is like a random graph, in which nobody is far from anybody, where rounds of the circle
  method are reflections. RoutingPolicy of light that go one way (`bidirectional = false`) are only
  shuffled.

- "demand_aware": what the traffic needs, bytes on the wire from rack to rack, known before it
  begins.
  Messages that go by packets do not count. `algorithm` says how: "greedy" gives each switch one
  matching, for good, by most bytes for each circuit; with "max_weight" the matching that carries
  most of what is left has the next `slot`;
  "bvn" (Birkhoff and von Neumann) and "solstice" cut the demand into matchings that last as long as
  they are needed, and `day_margin` longer, since the last packets come after the first ones; none
  is there for less than `shortest_day`, by default what the largest packet takes. These go
  one way (`bidirectional = false`). All slots are gone through again and again, in a `period` that
  they are stretched to. All switches have the same matching at a time, so that a rack's uplinks are
  as one. At most `max_matchings` are kept, those with most bytes.

With `control_delay` demand-aware circuits wait for who collects the demand and hands out the
matchings: those that stay are there so long after time 0, and a night; where they change, each
period begins with so long a time without light, or with a night if that is longer. Without it the
first ones are there at time 0.

With `reconfigure = "per_phase"` each level of the traffic, of flows that wait for as many others,
is a demand of its own, and gets "greedy" circuits. Those of the next level come as all flows of one
are delivered: `control_delay` later (by default 20 us, in which the last acknowledgments have to
pass) the mirrors begin to turn. Levels one behind the other that need the same circuits are one.
Packets take the circuits of their own level.

A prediction may be wrong: `prediction_error` is the share of the bytes of each two racks that is
expected of two others, drawn at random, while the traffic is what it is.

In a new slot the mirrors turn for `reconfiguration_delay`, then receivers find the beat of another
sender for `sync_delay`, before light passes; `fabric.circuits.guard` comes on top of it.

With `bidirectional = false` light goes one way, as through a switch of single fibers: a matching
says for each rack to which one its light goes, whoever sends to it. Of a file a line "2 0 5" is
then the way from rack 0 to rack 5 alone; rotors go through the cyclic shifts, in which rack i sends
to rack i + 1, i + 2, ...; "ring" is the first of them, and "mesh" gives switch k the k-th.

With a `drain_time` rotors are an expander for small messages, as in Opera: control packets, and
messages smaller than `small_message_max`, go at once, over as many circuits as it takes that are
there and stay for `drain_time` more, by routes that take turns. Others take the direct circuit.
What waits in queues on the way has to be out within `drain_time`. Racks have to hang together at
all times: several rotors, which turn one after the other (`stagger`), and matchings of an
`shuffle_seed`, 1 by default, which are drawn again if paths are long at some time. Where rotors
have not as many matchings each, some join nobody for a slot, or it would be long until all is as it
was; they take turns in this. `netsim topo` tells how many circuits the longest path has.

With a `packet_uplink_rate` there is a packet fabric beside the circuits: `packet_switches` to which
each rack has a cable of that rate. Control packets go by it, and messages smaller than
`small_message_max`, and what is for racks that no circuit ever joins directly.

Without it packets take the shortest path over circuits, whether they are there at the time or not:
the direct one if there is any, and that of several of them if not. Traffic between racks that no
path joins is refused. How racks' switches use circuits is said in [fabric.circuits],
as is whether packets go by way of a third rack (`indirect`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from netsim.errors import InputError
from netsim.matchings.choose import ALGORITHMS, BVN, GREEDY, MAX_WEIGHT, SOLSTICE
from netsim.matchings.prediction import mispredicted
from netsim.matchings.tables import Table, table_of
from netsim.network import (
    Demand,
    Expander,
    NamedRouting,
    Network,
    NetworkBuilder,
    RoutingPolicy,
    Schedule,
    direct_circuit_routes,
    packet_fabric_routes,
    routes_in_slot,
)
from netsim.params import REQUIRED, Param
from netsim.topologies._ocs_rotors import rotors
from netsim.topologies._ocs_schedules import by_demand, by_phases, fixed

STATIC, ROTOR, DEMAND_AWARE = SCHEDULES = ("static", "rotor", "demand_aware")
PHASES = "per_phase"
PREDICTION_STREAM = 0x6F6373
"""Keeps the random numbers of predictions apart from other uses of the seed."""

PARAMS = [
    Param("racks", "count", REQUIRED, "racks, each with a switch", minimum=2),
    Param("hosts_per_rack", "count", REQUIRED, "hosts in each rack", minimum=1),
    Param("circuit_switches", "count", 1, "circuit switches: uplinks of every rack", minimum=1),
    Param("host_rate", "rate", "100Gbps", "line rate of a host"),
    Param("uplink_rate", "rate", "100Gbps", "line rate of a rack's uplink"),
    Param("schedule", "choice", ROTOR, "what they join, and when", choices=SCHEDULES),
    Param(
        "static_pattern",
        "choice",
        None,
        "static: who is joined; mesh by default",
        choices=("mesh", "ring", "hypercube", "pairs"),
    ),
    Param("group_size", "count", None, "ring, hypercube: racks of one; all by default", minimum=2),
    Param("pair_switches", "count", 0, "static: of the switches, those that join the two halves"),
    Param(
        "matching_file", "file", None, "static: a file of lines SWITCH RACK RACK in place of that"
    ),
    Param("algorithm", "choice", None, "demand_aware: greedy by default", choices=ALGORITHMS),
    Param("slot", "time", None, "rotor, max_weight: of a matching, the night included; 100us"),
    Param("reconfiguration_delay", "time", "10us", "of a slot: the mirrors turn"),
    Param("sync_delay", "time", "0us", "and then: receivers find the beat of another sender"),
    Param(
        "shuffle_seed",
        "count",
        None,
        "rotor: a number that draws the matchings; 1 with a drain_time",
    ),
    Param("stagger", "bool", False, "rotor: whether the switches turn one after the other"),
    Param(
        "max_matchings",
        "count",
        None,
        "max_weight, bvn, solstice: the most matchings; 1000",
        minimum=1,
    ),
    Param("period", "time", None, "bvn, solstice: all slots of a switch; as the demand needs"),
    Param("day_margin", "ratio", None, "bvn, solstice: so much longer are days; 0.05"),
    Param(
        "shortest_day", "time", None, "bvn, solstice: no day is shorter; one packet", minimum="1ps"
    ),
    Param("control_delay", "time", None, "demand_aware: to collect it and to hand out matchings"),
    Param("reconfigure", "choice", None, "greedy: once by default", choices=("once", PHASES)),
    Param(
        "prediction_error", "fraction", 0.0, "demand_aware: share of the bytes expected elsewhere"
    ),
    Param("bidirectional", "bool", True, "whether light goes both ways by one matching"),
    Param("packet_uplink_rate", "rate", None, "line rate of a rack's uplink to each packet switch"),
    Param(
        "packet_switches", "count", None, "beside the circuits, if there is a rate; 1", minimum=1
    ),
    Param(
        "drain_time", "time", None, "rotor: for how long circuits stay that lead several at once"
    ),
    Param(
        "small_message_max",
        "bytes",
        None,
        "smaller messages go by packets, or over several circuits; 0B",
    ),
    Param("host_latency", "time", "500ns", "propagation between host and rack", minimum="1ps"),
    Param("fiber_latency", "time", "500ns", "propagation: rack to circuit switch", minimum="1ps"),
    Param("packet_latency", "time", "1us", "propagation: rack to packet switch", minimum="1ps"),
    Param("switch_latency", "time", "0ns", "from a packet's last bit in to its output queue"),
]

# The times of published fabrics. What they do besides is said in [fabric.circuits].
PRESETS = {
    # W. M. Mellette et al., SIGCOMM 2017. switching: its model of a rotor switch. slot: assumption,
    # ten times as long, so that a tenth of the time is dark.
    "rotornet": {"schedule": "rotor", "slot": "200us", "reconfiguration_delay": "20us"},
    # W. M. Mellette et al., NSDI 2020, as its simulator has it (TritonNetworking/opera-sim). slot:
    # of six rotors one turns every 99 us, and its results show a cycle of 10.7 ms.
    "opera": {
        "schedule": "rotor",
        "racks": 108,
        "hosts_per_rack": 6,
        "circuit_switches": 6,
        "host_rate": "10Gbps",
        "uplink_rate": "10Gbps",
        "slot": "594us",
        "reconfiguration_delay": "10us",
        "shuffle_seed": 1,
        "stagger": True,
        "fiber_latency": "250ns",
    },
    # H. Ballani et al., SIGCOMM 2020. switching: end to end, of the prototype, at 50 Gbps. slot:
    # assumption, so that four percent are dark. Packets have to be smaller than a slot.
    "sirius": {
        "schedule": "rotor",
        "uplink_rate": "50Gbps",
        "slot": "100ns",
        "reconfiguration_delay": "3.84ns",
        "bidirectional": False,
    },
    # Crossbars of mirrors, of which N. Jouppi et al. (TPU v4, ISCA 2023) say milliseconds, and of
    # piezoelectric beam steering: assumptions of that order, both.
    "mems": {"schedule": "demand_aware", "reconfiguration_delay": "10ms"},
    "piezo": {"schedule": "demand_aware", "reconfiguration_delay": "25ms"},
}


def build(params: Mapping[str, Any]) -> Network:
    """The network of `params` (see PARAMS); demand-aware circuits are not there yet.

    Raises:
        InputError: a schedule that cannot be, or parameters of another one.
    """
    _check(params)
    if adapts(params):
        return _network(params, [])
    return _network(params, rotors(params) if params["schedule"] == ROTOR else fixed(params))


def adapts(params: Mapping[str, Any]) -> bool:
    """Do the circuits follow the demand?"""
    return bool(params["schedule"] == DEMAND_AWARE)


def adapt(params: Mapping[str, Any], network: Network, demand: Demand) -> Network:
    """The network with circuits that follow the demand.

    Raises:
        InputError: slots or a period in which nothing could be sent.
    """
    rng = np.random.Generator(np.random.Philox([demand.seed, PREDICTION_STREAM]))
    large = demand.load.flows.size_bytes >= (params["small_message_max"] or 0)
    if params["reconfigure"] != PHASES:
        return _network(
            params,
            by_demand(params, _expected(params, demand.entries(large), rng), demand.packet_bytes),
        )
    levels = range(int(demand.level.max(initial=-1)) + 1)
    tables = [_expected(params, demand.entries(large & (demand.level == k)), rng) for k in levels]
    schedules, slot_of_level = by_phases(params, tables)
    made = _network(params, schedules)
    return made.with_phases(np.array(slot_of_level)[demand.level]) if schedules else made


def _expected(
    params: Mapping[str, Any], entries: list[tuple[int, int, int]], rng: np.random.Generator
) -> Table:
    """The bytes from rack to rack that a prediction says, right or wrong."""
    if params["prediction_error"]:
        entries = mispredicted(entries, params["racks"], params["prediction_error"], rng)
    return table_of(params["racks"], entries)


def _network(params: Mapping[str, Any], schedules: Sequence[Schedule]) -> Network:
    """Racks, and a circuit switch for each schedule."""
    racks, hosts = params["racks"], params["racks"] * params["hosts_per_rack"]
    builder = NetworkBuilder()
    cables = hosts + sum(_circuits(one) for one in schedules)
    spines = 0 if params["packet_uplink_rate"] is None else params["packet_switches"] or 1
    builder.reserve(
        hosts=hosts,
        switches=racks + spines,
        cables=cables + racks * spines,
        edges=racks,
    )
    builder.add_hosts(hosts)
    latency_ps = params["switch_latency"]
    tors = builder.add_switches([f"tor{k}" for k in range(racks)], 0, latency_ps)
    rack_of_host = np.repeat(np.array(tors), params["hosts_per_rack"])
    builder.cables(np.arange(hosts), rack_of_host, params["host_rate"], params["host_latency"])
    name = "rotor" if params["schedule"] == ROTOR else "ocs"
    for number, schedule in enumerate(schedules):
        switch = builder.add_circuit_switch(f"{name}{number}", schedule)
        for tor in tors:
            builder.fiber(tor, switch, params["uplink_rate"], params["fiber_latency"])
    names = [f"spine{k}" for k in range(spines)]
    for spine in builder.add_switches(names, 1, latency_ps) if names else ():
        builder.cables(
            np.array(tors), spine, params["packet_uplink_rate"], params["packet_latency"]
        )
    title = f"{name}_{racks}x{params['hosts_per_rack']}"
    policy = _policy(params, slots=len(schedules[0].matchings) if _phase_driven(schedules) else 0)
    try:
        return builder.build(title, policy=policy)
    except InputError as error:
        raise (
            error if params["drain_time"] is None else error.at(key="topology.drain_time")
        ) from None


def _phase_driven(schedules: Sequence[Schedule]) -> bool:
    """Do circuits follow the phases of the workload?"""
    return bool(schedules) and schedules[0].phase_driven


def _policy(params: Mapping[str, Any], slots: int) -> RoutingPolicy | None:
    """Which packets go by what, if not all by the same; `slots` are those that follow phases."""
    circuits, expander, packets = "circuits", "expander", "packets"
    large_min_bytes = params["small_message_max"] or 0
    if params["drain_time"] is not None:
        by = [
            NamedRouting(circuits, direct_circuit_routes),
            NamedRouting(expander, Expander(params["drain_time"])),
        ]
        return RoutingPolicy(
            by, large_min_bytes=large_min_bytes, small_table=expander, control_table=expander
        )
    if params["packet_uplink_rate"] is None:
        by = [NamedRouting(f"slot {k}", routes_in_slot(k)) for k in range(slots)]
        return RoutingPolicy(by, by_phase=True) if slots else None
    by = [NamedRouting(f"slot {k}", routes_in_slot(k, direct_circuit_routes)) for k in range(slots)]
    return RoutingPolicy(
        [
            *(by or [NamedRouting(circuits, direct_circuit_routes)]),
            NamedRouting(packets, packet_fabric_routes),
        ],
        large_min_bytes=large_min_bytes,
        by_phase=slots > 0,
        small_table=packets,
        control_table=packets,
        fallback=packets,
    )


def _circuits(schedule: Schedule) -> int:
    """Pairs of racks that a switch ever joins."""
    slot, rack = np.nonzero(schedule.matchings >= 0)
    other = schedule.matchings[slot, rack]
    pairs = np.minimum(rack, other) * schedule.n_ports + np.maximum(rack, other)
    return int(np.unique(pairs).size)


def _check(params: Mapping[str, Any]) -> None:
    """Refuse parameters that mean nothing with the schedule that there is."""
    schedule, algorithm = params["schedule"], params["algorithm"] or GREEDY
    what = f'algorithm = "{algorithm}"' if schedule == DEMAND_AWARE else f'schedule = "{schedule}"'
    in_turn, cut = (MAX_WEIGHT, BVN, SOLSTICE), (BVN, SOLSTICE)
    means_something = {
        "static_pattern": schedule == STATIC,
        "matching_file": schedule == STATIC,
        "group_size": params["static_pattern"] in ("ring", "hypercube"),
        "pair_switches": schedule == STATIC and params["matching_file"] is None,
        "shuffle_seed": schedule == ROTOR,
        "stagger": schedule == ROTOR,
        "slot": schedule == ROTOR or (schedule == DEMAND_AWARE and algorithm == MAX_WEIGHT),
        "max_matchings": schedule == DEMAND_AWARE and algorithm in in_turn,
        "period": schedule == DEMAND_AWARE and algorithm in cut,
        "day_margin": schedule == DEMAND_AWARE and algorithm in cut,
        "shortest_day": schedule == DEMAND_AWARE and algorithm in cut,
        "algorithm": schedule == DEMAND_AWARE,
        "control_delay": schedule == DEMAND_AWARE,
        "reconfigure": schedule == DEMAND_AWARE and algorithm == GREEDY,
        "prediction_error": schedule == DEMAND_AWARE,
        "packet_switches": params["packet_uplink_rate"] is not None,
        "drain_time": schedule == ROTOR,
        "small_message_max": params["packet_uplink_rate"] is not None
        or params["drain_time"] is not None,
    }
    for key, has_effect in means_something.items():
        if params[key] not in (None, False, 0) and not has_effect:
            needs = {
                "packet_switches": "a packet_uplink_rate",
                "small_message_max": "a packet_uplink_rate or a drain_time",
            }
            needs["group_size"] = "a ring or a hypercube"
            by = f"without {needs[key]}" if key in needs else f"with {what}"
            raise InputError(f"has no effect {by}", key=f"topology.{key}", hint="remove it")
    if params["drain_time"] is not None and params["packet_uplink_rate"] is not None:
        message = "small messages go by the packet fabric"
        raise InputError(
            message, key="topology.drain_time", hint="one of drain_time and packet_uplink_rate"
        )
    if params["static_pattern"] is not None and params["matching_file"] is not None:
        raise InputError(
            "matchings come from a file", key="topology.static_pattern", hint="one of the two"
        )
    if algorithm in cut and params["bidirectional"]:
        raise InputError(
            f"{algorithm} is of circuits that go one way",
            key="topology.algorithm",
            hint="bidirectional = false, or max_weight",
        )
