"""The schedules of circuit switches but rotors, as the parameters of `ocs` have them (`params`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import ceil
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from netsim.errors import InputError
from netsim.inputs import at_line, read_lines, whole
from netsim.matchings.decompose import GREEDY, MAX_WEIGHT, decomposed, for_good
from netsim.matchings.tables import Submatching, Table
from netsim.matchings.weights import slot_by_slot
from netsim.network import Schedule, round_robin_matchings

Ints = NDArray[np.int64]

SLOT_PS, MARGIN = 100 * 10**6, 0.05
MAX_SLOTS = 1000
BYTE_BPS_PS = 8 * 10**12
"""A byte takes so many ps, divided by the rate in bit/s."""

CONTROL_PS = 20 * 10**6
"""From the end of a phase to the order to turn, where nothing else is said."""

FOR_GOOD_PS = 10**12
"""The slot of a switch that has one matching, which it never leaves."""


def rounds_of(racks: int, bidirectional: bool) -> Ints:
    """Matchings, in order, in which each rack meets each other one once, int64[rounds, racks]."""
    if bidirectional:
        return round_robin_matchings(racks)
    return (np.arange(racks) + np.arange(1, racks)[:, None]) % racks


def fixed(params: Mapping[str, Any]) -> list[Schedule]:
    """Circuits that are there from the beginning, and stay."""
    if params["matching_file"] is not None:
        matchings = _from_file(params)
    else:
        matchings = _by_name(params["static_pattern"] or "mesh", params)
    return [
        Schedule(FOR_GOOD_PS, [one], bidirectional=params["bidirectional"]) for one in matchings
    ]


def _by_name(name: str, params: Mapping[str, Any]) -> Ints:
    """The matching of each switch, int64[switches, racks]."""
    racks, bidirectional, halves = params["racks"], params["bidirectional"], params["pair_switches"]
    switches, rack = params["circuit_switches"] - halves, np.arange(racks)
    if halves and (racks % 2 or switches < 0):
        raise InputError(
            f"{halves} of {params['circuit_switches']} switches join the halves of {racks} racks",
            key="topology.pair_switches",
            hint="no more than switches, and an even number of racks",
        )
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
            message = f"groups of {group} racks do not fill {racks} racks"
            raise InputError(message, key="topology.group_size", hint=f"a divisor of {racks}")
        make = _ring if name == "ring" else _hypercube
        ways = rack // group * group + make(group, switches, bidirectional)[:, rack % group]
    across = np.repeat((rack + racks // 2)[None, :] % racks, halves, axis=0)
    return np.concatenate([ways, across]).astype(np.int64)


def _ring(racks: int, switches: int, bidirectional: bool) -> Ints:
    if not bidirectional:
        return np.repeat(rounds_of(racks, bidirectional)[:1], switches, axis=0)
    if racks % 2 or switches % 2:
        raise InputError(
            f"circuits both ways make no ring of {racks} racks with {switches} switches",
            key="topology.static_pattern",
            hint="even numbers of both, or bidirectional = false",
        )
    rack = np.arange(racks)
    found: Ints = np.stack([rack ^ 1, ((rack - 1) ^ 1) + 1])[np.arange(switches) % 2] % racks
    return found


def _hypercube(racks: int, switches: int, bidirectional: bool) -> Ints:
    if racks & (racks - 1):
        message = f"{racks} racks make no hypercube"
        raise InputError(
            message, key="topology.static_pattern", hint="2, 4, 8, ... racks of a group"
        )
    dimensions = racks.bit_length() - 1
    found: Ints = np.arange(racks) ^ (1 << np.arange(switches) % dimensions)[:, None]
    return found


def _from_file(params: Mapping[str, Any]) -> Ints:
    """As `_by_name`, from lines SWITCH RACK RACK."""
    path = Path(params["matching_file"])
    ways = np.full((params["circuit_switches"], params["racks"]), -1)
    for line, text in read_lines(path):
        try:
            switch, one, other = (whole(word) for word in text.replace(",", " ").split())
        except ValueError:
            raise at_line(path, line, f'"{text}" is no circuit', "SWITCH RACK RACK") from None
        for number, most, what in (
            (switch, params["circuit_switches"], "circuit switch"),
            (one, params["racks"], "rack"),
            (other, params["racks"], "rack"),
        ):
            if not 0 <= number < most:
                raise at_line(path, line, f"there is no {what} {number}", f"0 to {most - 1}")
        for here, there in ((one, other), (other, one))[: 1 + params["bidirectional"]]:
            if ways[switch, here] >= 0:
                message = f"switch {switch} joins rack {here} already"
                raise at_line(path, line, message, "one circuit each at a switch")
            ways[switch, here] = there
    return ways


def by_demand(params: Mapping[str, Any], table: Table, packet_bytes: int) -> list[Schedule]:
    """The schedules of demand-aware switches. `table` is bytes from rack to rack."""
    algorithm, switches = params["algorithm"] or GREEDY, params["circuit_switches"]
    bidirectional, most = params["bidirectional"], params["max_matchings"] or MAX_SLOTS
    times = {
        "bidirectional": bidirectional,
        "reconfiguration_delay_ps": params["reconfiguration_delay"],
        "sync_delay_ps": params["sync_delay"],
    }
    if algorithm == GREEDY:
        chosen = for_good(table, switches, bidirectional=bidirectional)
        if params["control_delay"] is None:
            return [Schedule(FOR_GOOD_PS, [one], bidirectional=bidirectional) for one in chosen]
        begin = {"offset_ps": params["control_delay"], "repeats": False}
        slot_ps = FOR_GOOD_PS + params["reconfiguration_delay"] + params["sync_delay"]
        return [Schedule(slot_ps, [one], **times, **begin) for one in chosen]
    night_ps = params["reconfiguration_delay"] + params["sync_delay"]
    rate_bps = switches * params["uplink_rate"]
    if algorithm == MAX_WEIGHT:
        slot_ps = params["slot"] or SLOT_PS
        capacity = max(slot_ps - night_ps, 0) * rate_bps // BYTE_BPS_PS
        if not capacity:
            raise InputError(
                "ends before light passes",
                key="topology.slot",
                hint="longer than reconfiguration_delay and sync_delay",
            )
        parts = slot_by_slot(table, capacity, most, bidirectional=bidirectional)
        slots_ps = [slot_ps] * len(parts)
    else:
        parts = decomposed(table, algorithm, most)
        slots_ps = _lengths_ps(params, parts, rate_bps, packet_bytes)
    matchings = [part.columns for part in parts]
    if params["control_delay"] or not parts:
        slots_ps = [max(params["control_delay"] or 0, night_ps + 1), *slots_ps]
        matchings = [[-1] * params["racks"], *matchings]
    try:
        return [Schedule(slots_ps, matchings, **times) for _ in range(switches)]
    except InputError as error:
        raise error.at(key="topology.schedule") from None


def by_phases(
    params: Mapping[str, Any], tables: Sequence[Table]
) -> tuple[list[Schedule], list[int]]:
    """The schedules of switches that go on as the flows of a level are delivered.

    `tables` are bytes from rack to rack, level by level. Returns also the slot of each level; those
    one behind the other that need the same circuits share one, as does one that needs none.
    """
    slots: list[list[list[int]]] = []
    of_level = []
    for table in tables:
        chosen = for_good(table, params["circuit_switches"], bidirectional=params["bidirectional"])
        if any(table) and (not slots or chosen != slots[-1]):
            slots.append(chosen)
        of_level.append(max(len(slots) - 1, 0))
    return [
        Schedule(
            None,
            matchings,
            bidirectional=params["bidirectional"],
            reconfiguration_delay_ps=params["reconfiguration_delay"],
            sync_delay_ps=params["sync_delay"],
            control_delay_ps=CONTROL_PS
            if params["control_delay"] is None
            else params["control_delay"],
        )
        for matchings in zip(*slots, strict=True)
    ], of_level


def _lengths_ps(
    params: Mapping[str, Any], parts: Sequence[Submatching], rate_bps: int, packet_bytes: int
) -> list[int]:
    """How long each slot is: a night, and a day, in which the largest packet can be sent.

    `rate_bps` is that of all uplinks of a rack together.
    """
    night_ps, control_delay_ps = (
        params["reconfiguration_delay"] + params["sync_delay"],
        params["control_delay"] or 0,
    )
    if params["period"] is None or not parts:
        stretch = 1 + (MARGIN if params["day_margin"] is None else params["day_margin"])
        shortest_ps = params["shortest_day"]
        if shortest_ps is None:
            shortest_ps = ceil(packet_bytes * BYTE_BPS_PS / params["uplink_rate"])
    else:
        shortest_ps = 1
        left_ps = params["period"] - control_delay_ps - len(parts) * night_ps
        if left_ps <= 0:
            raise InputError(
                f"{len(parts)} nights are longer than the period",
                key="topology.period",
                hint="a longer one, or fewer slots",
            )
        stretch = left_ps * rate_bps / (BYTE_BPS_PS * sum(part.amount for part in parts))
    days_ps = [ceil(part.amount * BYTE_BPS_PS * stretch / rate_bps) for part in parts]
    return [night_ps + max(day_ps, shortest_ps) for day_ps in days_ps]
