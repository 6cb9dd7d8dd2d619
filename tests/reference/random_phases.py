"""Random phase-driven circuit switches."""

from __future__ import annotations

import random
from dataclasses import replace

from .model import Case, serialization_ps
from .random_graphs import US


def with_phases(case: Case, rng: random.Random) -> Case:
    """Make some or all of the case's circuit switches phase-driven.

    Unchanged without any, or if ports send packets for each other, which needs a timetable.
    """
    if not case.circuits or case.fabric["circuits"].get("indirect") == "opportunistic":
        return case
    control_delay_ps = _least_control(case) + rng.choice((0, 0, 1, rng.randrange(5 * US)))
    chosen = {rng.randrange(len(case.circuits))}
    chosen |= {number for number in range(len(case.circuits)) if rng.random() < 0.8}
    lengths = [len(case.circuits[number].matchings) for number in chosen]
    n_slots = max(rng.choice((1, 2, 3, 5)), *lengths)
    switches = list(case.circuits)
    for number in sorted(chosen):
        one = switches[number]
        more = [rng.choice(one.matchings) for _ in range(n_slots - len(one.matchings))]
        matchings = (*one.matchings, *more)  # keep all matchings, so that the cables stay
        phase_driven = replace(one, matchings=matchings, control_delay_ps=control_delay_ps)
        switches[number] = replace(phase_driven, slots_ps=(), offset_ps=0, repeats=False)
    none = rng.choice((0.2, 0.7))
    late = sorted(rng.choice((-1, *range(n_slots))) for _ in case.flows)
    if rng.random() < 0.3:
        rng.shuffle(late)
    phases = tuple(-1 if rng.random() < none else phase for phase in late)
    policy = case.policy
    if policy is not None and rng.random() < 0.5:
        missing = [rng.choice(policy.cables) for _ in range(n_slots - len(policy.cables))]
        policy = replace(policy, cables=(*policy.cables, *missing), by_phase=True)
    return replace(case, circuits=switches, phases=phases, policy=policy)


def _least_control(case: Case) -> int:
    """Return the least control delay, for any port."""
    rules = case.fabric["circuits"]
    packets = case.packets
    largest = max(packets["payload_bytes"] + packets["header_bytes"], packets["control_bytes"])
    rates = [one.rate_bps for one in case.circuits]
    rates += [
        interval.rate_bps
        for fault in case.faults.values()
        for interval in fault.intervals
        if interval.rate_bps is not None
    ]
    lookahead_ps = min(min(c.delay_ab_ps, c.delay_ba_ps) for c in case.cables)
    away_ps = max(away for one in case.circuits for _, away in one.fibers)
    guard_ps, error_ps = int(rules["guard_ps"]), int(rules["clock_offset_ps"])
    send_ps = serialization_ps(largest, min(rates))
    return lookahead_ps + away_ps + send_ps + 2 * guard_ps + error_ps
