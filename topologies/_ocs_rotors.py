"""The schedules of rotor switches, as the parameters of `ocs` have them (`params`)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from netsim.errors import InputError
from netsim.network import Schedule, pairs_by_circuits, random_rounds
from netsim.topologies._ocs_schedules import SLOT_PS, rounds_of
from netsim.units import format_time

Ints = NDArray[np.int64]

NOBODY = -1

DRAWS = 8
"""Of matchings, until those that are there at a time make an expander; then the best is taken."""

MAX_MOMENTS = 300
"""Of a period, at which that is looked at."""

ABOVE_FEWEST = 2
"""So many circuits more than so many uplinks need at least may a longest path have."""


class Moment(NamedTuple):
    """What rotors join as one of them leaves the paths of an expander: of each rack its partners
    (int64[racks, switches]), or itself."""

    at_ps: int
    partners: Ints
    turning: list[int]
    idle: list[int]


def rotors(params: Mapping[str, Any]) -> list[Schedule]:
    """Matchings in turn, shared by the switches. Raises InputError for slots or switches.

    With a drain they are drawn again if racks are not near one another at all times.
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
            best, fewest = made, longest
        if longest <= _least(params["racks"], moment) + ABOVE_FEWEST:
            break
        if not best and draw == DRAWS - 1:
            raise _apart(params, moment)
    return best


def _matchings(params: Mapping[str, Any], order: int | None, draw: int) -> Ints:
    """All that there are: in order, or as a number and the count of draws before say."""
    racks = params["racks"]
    if order is None:
        return rounds_of(racks, params["bidirectional"])
    rng = np.random.default_rng([order, draw] if draw else order)
    if params["bidirectional"]:
        return random_rounds(racks, rng)
    shuffled: Ints = rng.permutation(rounds_of(racks, bidirectional=False))
    return shuffled


def _schedules(params: Mapping[str, Any], matchings: Ints) -> list[Schedule]:
    switches, slot_ps = params["circuit_switches"], params["slot"] or SLOT_PS
    if switches > len(matchings):
        raise InputError(
            f"{switches} switches share {len(matchings)} matchings of {params['racks']} racks",
            key="topology.circuit_switches",
            hint=f"at most {len(matchings)}",
        )
    shares = [matchings[number::switches] for number in range(switches)]
    fewer = len(matchings) % switches
    if params["drain_time"] is not None and fewer:
        # As many slots at each switch, or it is long until all is as it was. The slots in which
        # switches join nobody are as far apart as they can be.
        length, idle = len(shares[0]), switches - fewer
        for place, number in enumerate(range(fewer, switches)):
            at = length - 1 - place * length // idle
            shares[number] = np.insert(shares[number], at, NOBODY, axis=0)
    try:
        return [
            Schedule(
                slot_ps,
                share,
                bidirectional=params["bidirectional"],
                reconfiguration_delay_ps=params["reconfiguration_delay"],
                sync_delay_ps=params["sync_delay"],
                offset_ps=number * slot_ps // switches if params["stagger"] else 0,
            )
            for number, share in enumerate(shares)
        ]
    except InputError as error:
        raise error.at(key="topology.slot") from None


def _moments(params: Mapping[str, Any], schedules: Sequence[Schedule]) -> Iterator[Moment]:
    """All times of a period, or some, at which a rotor leaves the paths: a drain before it turns.

    Fewer circuits than then are not there at any time.
    """
    racks, slot_ps, drain_ps = params["racks"], params["slot"] or SLOT_PS, params["drain_time"]
    night_ps, n_slots = (
        params["reconfiguration_delay"] + params["sync_delay"],
        len(schedules[0].matchings),
    )
    begins = [(one.offset_ps, slot) for slot in range(n_slots) for one in schedules]
    step = -(-len(begins) // MAX_MOMENTS)
    for offset_ps, slot in begins[::step] if n_slots > 1 else [(drain_ps, 0)]:
        at_ps = offset_ps + slot * slot_ps - drain_ps
        partners = np.repeat(np.arange(racks)[:, None], len(schedules), axis=1)
        turning, idle = [], []
        for number, one in enumerate(schedules):
            which, past_ps = divmod(at_ps - one.offset_ps, slot_ps)
            partner = np.array(one.matchings[which % n_slots])
            here = np.flatnonzero(partner != NOBODY)
            if n_slots > 1 and not night_ps <= past_ps < slot_ps - drain_ps:
                turning.append(number)
            elif not here.size:
                idle.append(number)
            else:
                partners[here, number] = partner[here]
        yield Moment(at_ps % (n_slots * slot_ps), partners, turning, idle)


def _longest(params: Mapping[str, Any], schedules: Sequence[Schedule]) -> tuple[int, Moment]:
    """The most circuits from one rack to another at any time, or as many as there are racks if at
    some time there is no path; and when that is."""
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
    """The fewest circuits with which the farthest of so many racks can be reached."""
    uplinks = moment.partners.shape[1] - len(moment.turning) - len(moment.idle)
    reached, further, circuits = 1, uplinks, 0
    while reached < racks and further:
        reached, further, circuits = reached + further, further * (uplinks - 1), circuits + 1
    return circuits


def _apart(params: Mapping[str, Any], moment: Moment) -> InputError:
    """Why racks do not hang together at a time."""
    names = [" and ".join(f"rotor{k}" for k in one) for one in (moment.turning, moment.idle)]
    why = [f"{names[0]} turn" + "s" * (len(moment.turning) == 1)] if moment.turning else []
    hint = "more switches, or less time to drain"
    if len(moment.turning) == params["circuit_switches"]:
        why, hint = ["all rotors turn"], "several switches, and stagger = true"
    elif moment.idle:
        pairs = params["racks"] - 1 + (params["racks"] % 2 if params["bidirectional"] else 0)
        why.append(f"{names[1]} join nobody, as {pairs} matchings do not divide by the rotors")
        hint = f"as many switches as divide {pairs}, or more of them"
    return InputError(
        f"at {format_time(moment.at_ps, 6)} circuits do not join all racks: {', '.join(why)}",
        key="topology.drain_time",
        hint=hint,
    )
