"""Schedules of circuit switches from the parameters of `ocs` (`params`)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import ceil
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from netsim.common.inputs import at_line, read_lines, whole
from netsim.errors import InputError
from netsim.model.demand import (
    GREEDY,
    MAX_WEIGHT,
    Submatching,
    Table,
    decompose_demand,
    permanent_matchings,
    slot_by_slot,
)
from netsim.network import Schedule, pairs_by_circuits, random_rounds, round_robin_matchings
from netsim.units import format_time

Ints = NDArray[np.int64]
Params = Mapping[str, Any]

NONE = -1
SLOT_PS, MARGIN = 100 * 10**6, 0.05
MAX_SLOTS = 1000
BYTE_BPS_PS = 8 * 10**12
"""Time in ps of a byte, times the rate in bit/s."""

CONTROL_PS = 20 * 10**6
"""Default delay from the end of a phase to the start of the reconfiguration."""

FOREVER_PS = 10**12
"""Slot of a switch with a single, permanent matching."""


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
    try:
        return [Schedule(slots_ps, matchings, **times) for _ in range(switches)]
    except InputError as error:
        raise error.at(key="topology.schedule") from None


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


DRAWS = 8
"""Limit on draws of matchings that always form an expander; then the best draw is used."""

MAX_MOMENTS = 300
"""Limit on instants of a period at which paths are checked."""

ABOVE_FEWEST = 2
"""Circuits that the longest path may have beyond the minimum for the number of uplinks."""


MAX_CIRCUITS = 10
"""Limit on the circuits of a path; expanders of thousands of racks have fewer."""


class Moment(NamedTuple):
    """Circuits when a rotor leaves the paths of an expander.

    `partners` (int64[racks, switches]) are each rack's partners, or itself.
    """

    at_ps: int
    partners: Ints
    turning: list[int]
    idle: list[int]


def rotors(params: Params) -> list[Schedule]:
    """Return the schedules of rotor switches, which share the matchings.

    With a drain time, matchings are drawn again while racks are far apart at any time. Raises
    InputError for invalid slots or numbers of switches, or if they are no expander.
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
    try:
        offsets = [number * slot_ps // switches * params["stagger"] for number in range(switches)]
        return [
            Schedule(slot_ps, share, offset_ps=offset_ps, **_times(params))
            for share, offset_ps in zip(shares, offsets, strict=True)
        ]
    except InputError as error:
        raise error.at(key="topology.slot") from None


def _moments(params: Params, schedules: Sequence[Schedule]) -> Iterator[Moment]:
    """Yield the instants of a period, or some of them, at which a rotor leaves paths. That is
    `drain_time` before its reconfiguration; at no time are fewer circuits up."""
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
    """Return the most circuits between two racks at any time, and when. The number of racks means
    unconnected racks."""
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
