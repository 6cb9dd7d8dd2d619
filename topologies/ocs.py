"""Optical circuit switches: racks joined by circuits that are static or change over time.

Hosts are numbered rack by rack. A rack's switch connects its hosts and has an uplink to each
circuit switch. Circuit switches have no buffers and inspect no packets: each joins the racks by one
matching at a time. Packets waiting for a circuit queue at the rack's switch, one queue per
destination rack. With one host per rack, that switch represents the network interface of a chip
with co-packaged optics, and the queues for those in its memory.

`schedule` defines the matchings of the circuit switches:

- "static": one permanent matching each, by `static_pattern` or from `matching_file`, in which a
  line "2 0 5" joins racks 0 and 5 by switch 2. "mesh" gives switch k the k-th round-robin matching,
  so that all of them together join every two racks. "ring" joins each rack to the next: of each two
  adjacent switches, one joins even racks to the next and one odd racks. "hypercube" gives switch k
  racks 2^k apart, repeating when they are used up. "pairs" joins 0 and 1, 2 and 3, and so on, by
  all switches. With `group_size`, rings and hypercubes span that many adjacent racks, such as the
  instances of a job. The last `pair_switches` instead join each rack of the first half to the one
  in the second half, such as prefill to decode.
- "rotor": all round-robin matchings (circle method): `racks - 1` rounds in which every rack has a
  partner or, for an odd number, `racks` rounds with one rack left out. Switch r cycles through
  rounds r, r + circuit_switches, ... and stays in each for `slot`. With `stagger`, switch r starts
  `r / circuit_switches` of a slot later, so that not all reconfigure at once. A rotor with one
  matching has no nights. `shuffle_seed` draws other matchings: every two racks still meet once, but
  the graph at any time is like a random one with short paths, while rounds of the circle method are
  reflections. One-way matchings (`bidirectional = false`) are only shuffled.
- "demand_aware": by the bytes on the wire between racks, known before the run; messages that use
  packet switches do not count. `algorithm` "greedy" gives each switch one permanent matching, by
  most bytes per circuit; "max_weight" gives each `slot` the matching that carries most of the
  remaining bytes; "bvn" (Birkhoff-von Neumann) and "solstice" cut the demand into matchings that
  last as long as needed, `day_margin` longer as packets do not all arrive at once, and at least
  `shortest_day` (default: the largest packet). These are one-way (`bidirectional = false`). All
  slots repeat, stretched to `period`; all switches have the same matching at a time, so that a
  rack's uplinks act as one. At most `max_matchings` are kept, those with most bytes.

`control_delay`: demand-aware circuits wait for the demand to be collected and matchings to be
distributed. Permanent ones start this long after time 0, plus a night; otherwise each period begins
with this time, or with a night if that is longer, without circuits. By default the first circuits
are up at time 0.

`reconfigure = "per_phase"`: each level of the traffic (flows with equally long chains of flows
before them) is a demand of its own, with "greedy" circuits. The switches begin to reconfigure
`control_delay` after all flows of a level are delivered (default 20 us, in which the last
acknowledgments pass). Consecutive levels that need the same circuits are one. Packets use the
circuits of their level.

`prediction_error` is the share of the bytes between two racks that is expected between two others,
drawn at random; the traffic does not change.

A slot begins with a night: `reconfiguration_delay`, then `sync_delay`, in which receivers
synchronize. `guard` in [fabric.circuits] is additional.

`bidirectional = false`: circuits are one-way, as with single fibers, and a matching names the
destination of each rack. A line "2 0 5" of a file is then rack 0 to rack 5 only; rotors cycle
through the cyclic shifts, in which rack i sends to rack i + 1, i + 2, ...; "ring" is the first
shift, and "mesh" gives switch k the k-th.

`drain_time`: rotors are an expander for small messages, as in Opera. Control packets and messages
below `small_message_max` leave at once, over as many circuits as needed that are up and stay up for
`drain_time`; others use the direct circuit. Packets queued on the way must leave within
`drain_time`. The racks must be connected in every slot: this needs several rotors, `stagger`, and a
`shuffle_seed` (default 1), whose matchings are drawn again if paths are long at some time. If
rotors have unequal numbers of matchings, some alternately idle for a slot, which keeps the
schedule short. `netsim topo` prints the circuits of the longest path.

`packet_uplink_rate`: adds `packet_switches`, each with a cable of this rate to every rack, for
control packets, messages below `small_message_max`, and racks that no circuit ever joins. Without
it, packets take the shortest path over circuits, up or not: the direct one if it exists, otherwise
several. Traffic between racks without a path is an error. [fabric.circuits] defines how switches
use circuits, and whether packets may go through a third rack (`indirect`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from netsim.errors import InputError
from netsim.model.demand import (
    ALGORITHMS,
    BVN,
    GREEDY,
    MAX_WEIGHT,
    SOLSTICE,
    Table,
    mispredict,
    table_of,
)
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
from netsim.topologies._ocs_schedules import by_demand, by_phases, fixed, rotors

STATIC, ROTOR, DEMAND_AWARE = SCHEDULES = ("static", "rotor", "demand_aware")
ONCE, PHASES = WHEN = ("once", "per_phase")
PATTERNS = ("mesh", "ring", "hypercube", "pairs")
PREDICTION_STREAM = 0x6F6373
"""Separates the random numbers of predictions from other uses of the seed."""

PARAMS = [
    Param("racks", "count", REQUIRED, "racks; each has a switch", minimum=2),
    Param("hosts_per_rack", "count", REQUIRED, "hosts in each rack", minimum=1),
    Param("circuit_switches", "count", 1, "circuit switches, uplinks per rack", minimum=1),
    Param("host_rate", "rate", "100Gbps", "line rate of a host"),
    Param("uplink_rate", "rate", "100Gbps", "line rate of a rack's uplink"),
    Param("schedule", "choice", ROTOR, "which circuits are up, and when", choices=SCHEDULES),
    Param("static_pattern", "choice", None, "static: pattern; default: mesh", choices=PATTERNS),
    Param("group_size", "count", None, "ring, hypercube: racks in one; default: all", minimum=2),
    Param("pair_switches", "count", 0, "static: number of switches that join the two halves"),
    Param("matching_file", "file", None, "static: file of lines SWITCH RACK RACK"),
    Param("algorithm", "choice", None, "demand_aware: default greedy", choices=ALGORITHMS),
    Param("slot", "time", None, "rotor, max_weight: time per matching with night; default: 100us"),
    Param("reconfiguration_delay", "time", "10us", "time to reconfigure a switch; starts a slot"),
    Param("sync_delay", "time", "0us", "time until receivers synchronize, after that"),
    Param("shuffle_seed", "count", None, "rotor: seed of matchings; default with a drain time: 1"),
    Param("stagger", "bool", False, "rotor: whether switches reconfigure at different times"),
    Param(
        "max_matchings", "count", None, "max_weight, bvn, solstice: limit; default: 1000", minimum=1
    ),
    Param("period", "time", None, "bvn, solstice: total of slots; default: by demand"),
    Param("day_margin", "ratio", None, "bvn, solstice: extra share of days; default: 0.05"),
    Param(
        "shortest_day", "time", None, "bvn, solstice: minimum; default: one packet", minimum="1ps"
    ),
    Param("control_delay", "time", None, "demand_aware: time to collect demand and distribute it"),
    Param("reconfigure", "choice", None, "greedy: when to change; default: once", choices=WHEN),
    Param("prediction_error", "fraction", 0.0, "demand_aware: share of bytes predicted wrongly"),
    Param("bidirectional", "bool", True, "whether a circuit joins both directions"),
    Param("packet_uplink_rate", "rate", None, "line rate of a rack's uplink to each packet switch"),
    Param(
        "packet_switches", "count", None, "packet switches; default with their rate: 1", minimum=1
    ),
    Param("drain_time", "time", None, "rotor: time that circuits of an expander path must stay up"),
    Param("small_message_max", "bytes", None, "limit for packet switches or expander; default: 0B"),
    Param("host_latency", "time", "500ns", "propagation delay host to rack switch", minimum="1ps"),
    Param("fiber_latency", "time", "500ns", "propagation, rack to circuit switch", minimum="1ps"),
    Param("packet_latency", "time", "1us", "propagation, rack to packet switch", minimum="1ps"),
    Param("switch_latency", "time", "0ns", "delay from a packet's last bit to its output queue"),
]

# Times of published fabrics; see also [fabric.circuits].
PRESETS = {
    # W. M. Mellette et al., SIGCOMM 2017. reconfiguration_delay: its model of a rotor switch. slot:
    # assumption, ten times as long, so that nights are a tenth of the time.
    "rotornet": {"schedule": "rotor", "slot": "200us", "reconfiguration_delay": "20us"},
    # W. M. Mellette et al., NSDI 2020, as in its simulator (TritonNetworking/opera-sim). slot: one
    # of six rotors reconfigures every 99 us; its results show a cycle of 10.7 ms.
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
    # H. Ballani et al., SIGCOMM 2020. reconfiguration_delay: end to end, of the prototype, at 50
    # Gbps. slot: assumption, so that nights are 4 %. Packets must be smaller than a slot.
    "sirius": {
        "schedule": "rotor",
        "uplink_rate": "50Gbps",
        "slot": "100ns",
        "reconfiguration_delay": "3.84ns",
        "bidirectional": False,
    },
    # MEMS mirrors, which take milliseconds (N. Jouppi et al., TPU v4, ISCA 2023), and piezoelectric
    # beam steering: both are assumptions of that order.
    "mems": {"schedule": "demand_aware", "reconfiguration_delay": "10ms"},
    "piezo": {"schedule": "demand_aware", "reconfiguration_delay": "25ms"},
}


def build(params: Mapping[str, Any]) -> Network:
    """Return the network of `params` (see PARAMS), without demand-aware circuits. Raises
    InputError for an invalid schedule, or parameters of another one."""
    _check(params)
    if adapts(params):
        return _network(params, [])
    return _network(params, rotors(params) if params["schedule"] == ROTOR else fixed(params))


def adapts(params: Mapping[str, Any]) -> bool:
    return bool(params["schedule"] == DEMAND_AWARE)


def adapt(params: Mapping[str, Any], network: Network, demand: Demand) -> Network:
    """Return the network with circuits that follow the demand. Raises InputError for slots or a
    period in which nothing could be sent."""
    rng = np.random.Generator(np.random.Philox([demand.seed, PREDICTION_STREAM]))
    large = demand.load.flows.size_bytes >= (params["small_message_max"] or 0)
    if params["reconfigure"] != PHASES:
        table = _expected(params, demand.entries(large), rng)
        return _network(params, by_demand(params, table, demand.packet_bytes))
    levels = range(int(demand.level.max(initial=-1)) + 1)
    tables = [_expected(params, demand.entries(large & (demand.level == k)), rng) for k in levels]
    schedules, slot_of_level = by_phases(params, tables)
    made = _network(params, schedules)
    return made.with_phases(np.array(slot_of_level)[demand.level]) if schedules else made


def _expected(
    params: Mapping[str, Any], entries: list[tuple[int, int, int]], rng: np.random.Generator
) -> Table:
    """Return the predicted bytes from rack to rack."""
    if params["prediction_error"]:
        entries = mispredict(entries, params["racks"], params["prediction_error"], rng)
    return table_of(params["racks"], entries)


def _network(params: Mapping[str, Any], schedules: Sequence[Schedule]) -> Network:
    """Return racks with a circuit switch for each schedule."""
    racks, hosts = params["racks"], params["racks"] * params["hosts_per_rack"]
    builder = NetworkBuilder()
    cables = hosts + sum(_circuits(one) for one in schedules)
    spines = 0 if params["packet_uplink_rate"] is None else params["packet_switches"] or 1
    builder.reserve(
        hosts=hosts, switches=racks + spines, cables=cables + racks * spines, edges=racks
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
        return replace(builder.build(title, policy=policy), shape=(racks,))
    except InputError as error:
        if params["drain_time"] is None:
            raise
        raise error.at(key="topology.drain_time") from None


def _phase_driven(schedules: Sequence[Schedule]) -> bool:
    return bool(schedules) and schedules[0].phase_driven


def _policy(params: Mapping[str, Any], slots: int) -> RoutingPolicy | None:
    """Return the routing tables, None for a single one; `slots` are phase-driven slots."""
    circuits, expander, packets = "circuits", "expander", "packets"
    large_min_bytes = params["small_message_max"] or 0
    if params["drain_time"] is not None:
        paths = NamedRouting(expander, Expander(params["drain_time"]))
        by = [NamedRouting(circuits, direct_circuit_routes), paths]
        return RoutingPolicy(
            by, large_min_bytes=large_min_bytes, small_table=expander, control_table=expander
        )
    if params["packet_uplink_rate"] is None:
        by = [NamedRouting(f"slot {k}", routes_in_slot(k)) for k in range(slots)]
        return RoutingPolicy(by, by_phase=True) if slots else None
    by = [NamedRouting(f"slot {k}", routes_in_slot(k, direct_circuit_routes)) for k in range(slots)]
    by = by or [NamedRouting(circuits, direct_circuit_routes)]
    return RoutingPolicy(
        [*by, NamedRouting(packets, packet_fabric_routes)],
        large_min_bytes=large_min_bytes,
        by_phase=slots > 0,
        small_table=packets,
        control_table=packets,
        fallback=packets,
    )


def _circuits(schedule: Schedule) -> int:
    slot, rack = np.nonzero(schedule.matchings >= 0)
    other = schedule.matchings[slot, rack]
    pairs = np.minimum(rack, other) * schedule.n_ports + np.maximum(rack, other)
    return int(np.unique(pairs).size)


def _check(params: Mapping[str, Any]) -> None:
    """Refuse parameters without effect, and conflicts."""
    schedule, algorithm = params["schedule"], params["algorithm"] or GREEDY
    demand = schedule == DEMAND_AWARE
    what = f'algorithm = "{algorithm}"' if demand else f'schedule = "{schedule}"'
    cut = (BVN, SOLSTICE)
    packets, drain = params["packet_uplink_rate"] is not None, params["drain_time"] is not None
    has_effect = {
        **dict.fromkeys(("static_pattern", "matching_file"), schedule == STATIC),
        "group_size": params["static_pattern"] in ("ring", "hypercube"),
        "pair_switches": schedule == STATIC and params["matching_file"] is None,
        **dict.fromkeys(("shuffle_seed", "stagger", "drain_time"), schedule == ROTOR),
        "slot": schedule == ROTOR or (demand and algorithm == MAX_WEIGHT),
        "max_matchings": demand and algorithm != GREEDY,
        **dict.fromkeys(("period", "day_margin", "shortest_day"), demand and algorithm in cut),
        **dict.fromkeys(("algorithm", "control_delay", "prediction_error"), demand),
        "reconfigure": demand and algorithm == GREEDY,
        "packet_switches": packets,
        "small_message_max": packets or drain,
    }
    needs = {
        "packet_switches": "a packet_uplink_rate",
        "small_message_max": "a packet_uplink_rate or a drain_time",
        "group_size": "a ring or a hypercube",
    }
    for key, has in has_effect.items():
        if params[key] not in (None, False, 0) and not has:
            by = f"without {needs[key]}" if key in needs else f"with {what}"
            raise InputError(f"has no effect {by}", key=f"topology.{key}", hint="remove it")
    if drain and packets:
        raise InputError("conflicts with packet_uplink_rate", key="topology.drain_time")
    if params["static_pattern"] is not None and params["matching_file"] is not None:
        raise InputError("conflicts with matching_file", key="topology.static_pattern")
    if algorithm in cut and params["bidirectional"]:
        hint = "bidirectional = false, or max_weight"
        raise InputError(f"{algorithm} needs one-way circuits", key="topology.algorithm", hint=hint)
