"""Optical circuit switches: racks joined by circuits that are static or change over time.

Hosts are numbered rack by rack. A rack's switch connects its hosts and has an uplink to each
circuit switch. Circuit switches have no buffers and do not inspect packets: each joins the racks by
one matching at a time. Packets waiting for a circuit queue at the rack's switch, one queue per
destination rack. With one host per rack, that switch represents the network interface of a chip
with co-packaged optics, and the queues represent queues in its memory.

`schedule` defines the matchings of the circuit switches:

- "static": one permanent matching each, by `static_pattern` or from `matching_file`, in which a
  line "2 0 5" joins racks 0 and 5 by switch 2. "mesh" gives switch k the k-th round-robin matching,
  so that together they join every pair of racks. "ring" joins each rack to the next: of each two
  adjacent switches, one joins even racks to the next and one odd racks. "hypercube" gives switch k
  racks 2^k apart, repeating when all are used. "pairs" joins 0 and 1, 2 and 3, and so on, by
  all switches. With `group_size`, rings and hypercubes span that many adjacent racks, such as the
  instances of a job. The last `pair_switches` instead join each rack of the first half to its
  partner in the second half, such as prefill to decode.
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
  rack's uplinks act as one. At most `max_matchings` matchings, with the most bytes, are kept.

`control_delay`: demand-aware circuits wait for the demand to be collected and matchings to be
distributed. Permanent ones start this long after time 0, plus a night; otherwise each period begins
with this time, or with a night if that is longer, without circuits. By default the first circuits
are up at time 0.

`reconfigure = "per_phase"`: each level of the traffic (flows with equally long chains of flows
before them) is a separate demand, with "greedy" circuits. The switches begin to reconfigure
`control_delay` after all flows of a level are delivered (default 20 us, in which the last
acknowledgments pass). Consecutive levels that need the same circuits are merged. Packets use the
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

from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import ceil
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from netsim.common.inputs import at_line, read_lines, whole
from netsim.errors import InputError, errors_at
from netsim.model.columns import Ints, Rng
from netsim.model.demand import (
    ALGORITHMS,
    BVN,
    GREEDY,
    MAX_WEIGHT,
    SOLSTICE,
    Submatching,
    Table,
    decompose_demand,
    mispredict,
    permanent_matchings,
    slot_by_slot,
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
    pairs_by_circuits,
    random_rounds,
    round_robin_matchings,
    routes_in_slot,
)
from netsim.params import REQUIRED, Param, Params
from netsim.units import format_time

STATIC, ROTOR, DEMAND_AWARE = SCHEDULES = ("static", "rotor", "demand_aware")
ONCE, PHASES = WHEN = ("once", "per_phase")
PATTERNS = ("mesh", "ring", "hypercube", "pairs")
PREDICTION_STREAM = 0x6F6373  # separates predictions' random numbers from other uses of the seed

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


def build(params: Params) -> Network:
    """Return the network of `params` (see PARAMS), without demand-aware circuits. Raises InputError
    for an invalid schedule, or parameters of another schedule."""
    _check(params)
    if adapts(params):
        return _network(params, [])
    return _network(params, rotors(params) if params["schedule"] == ROTOR else fixed(params))


def adapts(params: Params) -> bool:
    return bool(params["schedule"] == DEMAND_AWARE)


def adapt(params: Params, network: Network, demand: Demand) -> Network:
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


def _expected(params: Params, entries: list[tuple[int, int, int]], rng: Rng) -> Table:
    """Return the predicted bytes from rack to rack."""
    if params["prediction_error"]:
        entries = mispredict(entries, params["racks"], params["prediction_error"], rng)
    return table_of(params["racks"], entries)


def _network(params: Params, schedules: Sequence[Schedule]) -> Network:
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


def _policy(params: Params, slots: int) -> RoutingPolicy | None:
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


def _check(params: Params) -> None:
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


# --- schedules ------------------------------------------------------------------------------------


NONE = -1
SLOT_PS, MARGIN = 100 * 10**6, 0.05
MAX_SLOTS = 1000
BYTE_BPS_PS = 8 * 10**12  # time in ps of a byte, times the rate in bit/s
CONTROL_PS = 20 * 10**6  # default delay from the end of a phase to the start of the reconfiguration
FOREVER_PS = 10**12  # slot of a switch with a single, permanent matching


def rounds_of(racks: int, bidirectional: bool) -> Ints:
    """Return matchings, in order, in which every two racks meet once: int64[rounds, racks]."""
    if bidirectional:
        return round_robin_matchings(racks)
    return (np.arange(racks) + np.arange(1, racks)[:, None]) % racks


def fixed(params: Params) -> list[Schedule]:
    """Return the schedules of static circuits."""
    if params["matching_file"] is not None:
        matchings = _from_file(params)
    else:
        matchings = _by_name(params["static_pattern"] or "mesh", params)
    return [Schedule(FOREVER_PS, [one], bidirectional=params["bidirectional"]) for one in matchings]


def _by_name(name: str, params: Params) -> Ints:
    """Return the matching of each switch, int64[switches, racks]."""
    racks, bidirectional, halves = params["racks"], params["bidirectional"], params["pair_switches"]
    switches, rack = params["circuit_switches"] - halves, np.arange(racks)
    if halves and (racks % 2 or switches < 0):
        message = f"{halves} of {params['circuit_switches']} switches cannot halve {racks} racks"
        hint = "at most circuit_switches, and an even number of racks"
        raise InputError(message, key="topology.pair_switches", hint=hint)
    if name == "pairs":
        wanted = (rack ^ 1)[None, :]
        wanted[wanted >= racks] = -1
        ways = np.repeat(wanted, switches, axis=0)
    elif name == "mesh":
        rounds = rounds_of(racks, bidirectional)
        ways = rounds[np.arange(switches) % len(rounds)]
    else:
        group = params["group_size"] or racks
        if racks % group:
            message = f"groups of {group} do not divide {racks} racks"
            raise InputError(message, key="topology.group_size", hint=f"a divisor of {racks}")
        make = _ring if name == "ring" else _hypercube
        ways = rack // group * group + make(group, switches, bidirectional)[:, rack % group]
    across = np.repeat((rack + racks // 2)[None, :] % racks, halves, axis=0)
    return np.concatenate([ways, across]).astype(np.int64)


def _ring(racks: int, switches: int, bidirectional: bool) -> Ints:
    if not bidirectional:
        return np.repeat(rounds_of(racks, bidirectional)[:1], switches, axis=0)
    if racks % 2 or switches % 2:
        message = f"bidirectional circuits form no ring of {racks} racks with {switches} switches"
        hint = "use even numbers of both, or bidirectional = false"
        raise InputError(message, key="topology.static_pattern", hint=hint)
    rack = np.arange(racks)
    found: Ints = np.stack([rack ^ 1, ((rack - 1) ^ 1) + 1])[np.arange(switches) % 2] % racks
    return found


def _hypercube(racks: int, switches: int, bidirectional: bool) -> Ints:
    if racks & (racks - 1):
        message = f"{racks} racks form no hypercube"
        raise InputError(message, key="topology.static_pattern", hint="a power of two per group")
    dimensions = racks.bit_length() - 1
    found: Ints = np.arange(racks) ^ (1 << np.arange(switches) % dimensions)[:, None]
    return found


def _from_file(params: Params) -> Ints:
    """Return `_by_name` from lines SWITCH RACK RACK."""
    path = Path(params["matching_file"])
    ways = np.full((params["circuit_switches"], params["racks"]), -1)
    for line, text in read_lines(path):
        try:
            switch, one, other = (whole(word) for word in text.replace(",", " ").split())
        except ValueError:
            raise at_line(path, line, f'"{text}" is not a circuit', "SWITCH RACK RACK") from None
        for number, most, what in (
            (switch, params["circuit_switches"], "circuit switch"),
            (one, params["racks"], "rack"),
            (other, params["racks"], "rack"),
        ):
            if not 0 <= number < most:
                raise at_line(path, line, f"unknown {what} {number}", f"0 to {most - 1}")
        for here, there in ((one, other), (other, one))[: 1 + params["bidirectional"]]:
            if ways[switch, here] >= 0:
                message = f"switch {switch} already joins rack {here}"
                raise at_line(path, line, message, "one circuit per rack and switch")
            ways[switch, here] = there
    return ways


def by_demand(params: Params, table: Table, packet_bytes: int) -> list[Schedule]:
    """Return the schedules of demand-aware switches; `table` is bytes from rack to rack."""
    algorithm, switches = params["algorithm"] or GREEDY, params["circuit_switches"]
    bidirectional, most = params["bidirectional"], params["max_matchings"] or MAX_SLOTS
    times, night_ps = _times(params), _night_ps(params)
    if algorithm == GREEDY:
        chosen = permanent_matchings(table, switches, bidirectional=bidirectional)
        if params["control_delay"] is None:
            return [Schedule(FOREVER_PS, [one], bidirectional=bidirectional) for one in chosen]
        begin = {"offset_ps": params["control_delay"], "repeats": False}
        return [Schedule(FOREVER_PS + night_ps, [one], **times, **begin) for one in chosen]
    rate_bps = switches * params["uplink_rate"]
    if algorithm == MAX_WEIGHT:
        slot_ps = params["slot"] or SLOT_PS
        capacity = max(slot_ps - night_ps, 0) * rate_bps // BYTE_BPS_PS
        if not capacity:
            message = "slot has no day"
            hint = "longer than reconfiguration_delay plus sync_delay"
            raise InputError(message, key="topology.slot", hint=hint)
        parts = slot_by_slot(table, capacity, most, bidirectional=bidirectional)
        slots_ps = [slot_ps] * len(parts)
    else:
        parts = decompose_demand(table, algorithm, most)
        slots_ps = _lengths_ps(params, parts, rate_bps, packet_bytes)
    matchings = [part.columns for part in parts]
    if params["control_delay"] or not parts:
        slots_ps = [max(params["control_delay"] or 0, night_ps + 1), *slots_ps]
        matchings = [[-1] * params["racks"], *matchings]
    with errors_at(key="topology.schedule"):
        return [Schedule(slots_ps, matchings, **times) for _ in range(switches)]


def by_phases(params: Params, tables: Sequence[Table]) -> tuple[list[Schedule], list[int]]:
    """Return the schedules of switches that reconfigure when the flows of a level are delivered.

    `tables` are bytes from rack to rack for each level. Also return the slot of each level;
    consecutive levels that need the same circuits share one, and a level without demand uses the
    previous one.
    """
    slots: list[list[list[int]]] = []
    of_level = []
    for table in tables:
        chosen = permanent_matchings(
            table, params["circuit_switches"], bidirectional=params["bidirectional"]
        )
        if any(table) and (not slots or chosen != slots[-1]):
            slots.append(chosen)
        of_level.append(max(len(slots) - 1, 0))
    control_ps = CONTROL_PS if params["control_delay"] is None else params["control_delay"]
    times = {**_times(params), "control_delay_ps": control_ps}
    return [Schedule(None, one, **times) for one in zip(*slots, strict=True)], of_level


def _times(params: Params) -> dict[str, Any]:
    return {
        "bidirectional": params["bidirectional"],
        "reconfiguration_delay_ps": params["reconfiguration_delay"],
        "sync_delay_ps": params["sync_delay"],
    }


def _night_ps(params: Params) -> int:
    return int(params["reconfiguration_delay"] + params["sync_delay"])


def _lengths_ps(
    params: Params, parts: Sequence[Submatching], rate_bps: int, packet_bytes: int
) -> list[int]:
    """Return the duration of each slot: a night, and a day that fits at least the largest
    packet. `rate_bps` is the total of a rack's uplinks."""
    night_ps, control_ps = _night_ps(params), params["control_delay"] or 0
    if params["period"] is None or not parts:
        stretch = 1 + (MARGIN if params["day_margin"] is None else params["day_margin"])
        shortest_ps = params["shortest_day"]
        if shortest_ps is None:
            shortest_ps = ceil(packet_bytes * BYTE_BPS_PS / params["uplink_rate"])
    else:
        shortest_ps = 1
        left_ps = params["period"] - control_ps - len(parts) * night_ps
        if left_ps <= 0:
            message = f"{len(parts)} nights exceed the period"
            raise InputError(message, key="topology.period", hint="a longer period, or fewer slots")
        stretch = left_ps * rate_bps / (BYTE_BPS_PS * sum(part.amount for part in parts))
    days_ps = [ceil(part.amount * BYTE_BPS_PS * stretch / rate_bps) for part in parts]
    return [night_ps + max(day_ps, shortest_ps) for day_ps in days_ps]


DRAWS = 8  # limit on draws of matchings that always form an expander; then the best draw is used
MAX_MOMENTS = 300  # limit on instants of a period at which paths are checked
ABOVE_FEWEST = 2  # circuits that the longest path may have above the minimum for its uplinks


MAX_CIRCUITS = 10  # limit on the circuits of a path; expanders of thousands of racks have fewer


class Moment(NamedTuple):
    """Circuits when a rotor leaves the paths of an expander. `partners` (int64[racks, switches])
    are each rack's partners, or itself."""

    at_ps: int
    partners: Ints
    turning: list[int]
    idle: list[int]


def rotors(params: Params) -> list[Schedule]:
    """Return the schedules of rotor switches, which share the matchings.

    With a drain time, matchings are drawn again until racks are close at all times. Raises
    InputError for invalid slots or numbers of switches, or if they do not form an expander.
    """
    if params["drain_time"] is None:
        return _schedules(params, _matchings(params, params["shuffle_seed"], 0))
    order = 1 if params["shuffle_seed"] is None else params["shuffle_seed"]
    best: list[Schedule] = []
    fewest = params["racks"]
    for draw in range(DRAWS):
        made = _schedules(params, _matchings(params, order, draw))
        longest, moment = _longest(params, made)
        if longest < fewest:
            best, fewest, farthest = made, longest, moment
        if longest <= _least(params["racks"], moment) + ABOVE_FEWEST:
            break
        if not best and draw == DRAWS - 1:
            raise _apart(params, moment, "circuits do not connect all racks")
    if fewest > MAX_CIRCUITS:
        raise _apart(params, farthest, f"two racks are {fewest} circuits apart")
    return best


def _matchings(params: Params, order: int | None, draw: int) -> Ints:
    """Return all matchings, in order or shuffled by a seed and the number of the draw."""
    racks = params["racks"]
    if order is None:
        return rounds_of(racks, params["bidirectional"])
    rng = np.random.default_rng([order, draw] if draw else order)
    if params["bidirectional"]:
        return random_rounds(racks, rng)
    shuffled: Ints = rng.permutation(rounds_of(racks, bidirectional=False))
    return shuffled


def _schedules(params: Params, matchings: Ints) -> list[Schedule]:
    switches, slot_ps = params["circuit_switches"], params["slot"] or SLOT_PS
    if switches > len(matchings):
        raise InputError(
            f"{switches} switches exceed the {len(matchings)} matchings of {params['racks']} racks",
            key="topology.circuit_switches",
            hint=f"at most {len(matchings)}",
        )
    shares = [matchings[number::switches] for number in range(switches)]
    fewer = len(matchings) % switches
    if params["drain_time"] is not None and fewer:
        # All switches get the same number of slots for a short combined period; idle slots are
        # evenly spaced.
        length, idle = len(shares[0]), switches - fewer
        for place, number in enumerate(range(fewer, switches)):
            at = length - 1 - place * length // idle
            shares[number] = np.insert(shares[number], at, NONE, axis=0)
    with errors_at(key="topology.slot"):
        offsets = [number * slot_ps // switches * params["stagger"] for number in range(switches)]
        return [
            Schedule(slot_ps, share, offset_ps=offset_ps, **_times(params))
            for share, offset_ps in zip(shares, offsets, strict=True)
        ]


def _moments(params: Params, schedules: Sequence[Schedule]) -> Iterator[Moment]:
    """Yield the instants of a period, or some of them, at which a rotor leaves paths. That is
    `drain_time` before its reconfiguration, when the fewest circuits are up."""
    racks, slot_ps, drain_ps = params["racks"], params["slot"] or SLOT_PS, params["drain_time"]
    night_ps, n_slots = _night_ps(params), len(schedules[0].matchings)
    begins = [(one.offset_ps, slot) for slot in range(n_slots) for one in schedules]
    step = -(-len(begins) // MAX_MOMENTS)
    for offset_ps, slot in begins[::step] if n_slots > 1 else [(drain_ps, 0)]:
        at_ps = offset_ps + slot * slot_ps - drain_ps
        partners = np.repeat(np.arange(racks)[:, None], len(schedules), axis=1)
        turning, idle = [], []
        for number, one in enumerate(schedules):
            which, past_ps = divmod(at_ps - one.offset_ps, slot_ps)
            partner = np.array(one.matchings[which % n_slots])
            here = np.flatnonzero(partner != NONE)
            if n_slots > 1 and not night_ps <= past_ps < slot_ps - drain_ps:
                turning.append(number)
            elif not here.size:
                idle.append(number)
            else:
                partners[here, number] = partner[here]
        yield Moment(at_ps % (n_slots * slot_ps), partners, turning, idle)


def _longest(params: Params, schedules: Sequence[Schedule]) -> tuple[int, Moment]:
    """Return the most circuits between two racks at any time, and when. If racks are unconnected,
    that is the number of racks."""
    racks, longest, found = params["racks"], 0, None
    for moment in _moments(params, schedules):
        counts = pairs_by_circuits(moment.partners)
        length = len(counts) if sum(counts) == racks * (racks - 1) else racks
        if length > longest:
            longest, found = length, moment
        if length == racks:
            break
    assert found is not None
    return longest, found


def _least(racks: int, moment: Moment) -> int:
    """Return the fewest circuits by which any of `racks` racks can be reached."""
    uplinks = moment.partners.shape[1] - len(moment.turning) - len(moment.idle)
    reached, further, circuits = 1, uplinks, 0
    while reached < racks and further:
        reached, further, circuits = reached + further, further * (uplinks - 1), circuits + 1
    return circuits


def _apart(params: Params, moment: Moment, how: str) -> InputError:
    """Return the error for racks that are too far apart, or not connected, at an instant."""
    names = [" and ".join(f"rotor{k}" for k in one) for one in (moment.turning, moment.idle)]
    why = [f"{names[0]} reconfigure" + "s" * (len(moment.turning) == 1)] if moment.turning else []
    hint = "more switches, or a shorter drain_time"
    if len(moment.turning) == params["circuit_switches"]:
        why, hint = ["all rotors reconfigure"], "several switches, and stagger = true"
    elif moment.idle:
        pairs = params["racks"] - 1 + (params["racks"] % 2 if params["bidirectional"] else 0)
        why.append(f"{names[1]} idle, as the rotors do not divide {pairs} matchings")
        hint = f"a number of switches that divides {pairs}, or more switches"
    return InputError(
        f"at {format_time(moment.at_ps, 6)} {how}: {', '.join(why)}",
        key="topology.drain_time",
        hint=hint,
    )
