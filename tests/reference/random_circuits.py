"""Random circuit switches, with odd slots and clock offsets."""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import combinations

from .model import Cable, Case, CircuitSwitch
from .random_graphs import GBPS, NS, US
from .random_routing import VIA

PAUSING = ("lossless", "mixed")
"""Disciplines that need circuits without nights."""


def with_circuits(case: Case, rng: random.Random) -> Case:
    """Return the case with one to three circuit switches in its largest network.

    They may replace cables. Unchanged if that network is a single switch. Without cables between
    switches, circuits join all of them.
    """
    edges = _largest_network(case)
    cabled = any(min(cable.a, cable.b) >= case.n_hosts for cable in case.cables)
    rounds = None
    if not cabled and "plane_balancing" not in case.fabric:
        edges = list(range(case.n_hosts, case.n_hosts + case.n_switches))
        rounds = _rounds(len(edges))
    if len(edges) < 2:
        return case
    switches, cables = [], []
    pauses = case.fabric["queue_discipline"] in PAUSING
    n_circuit_switches = rng.choice((1, 1, 2, 3))
    if rounds and pauses:
        n_circuit_switches = len(rounds)
    for number in range(n_circuit_switches):
        if rounds:
            switch = _rotor(rng, edges, rounds[number::n_circuit_switches])
        else:
            switch = _circuit_switch(rng, edges, bidirectional=pauses or rng.random() < 0.6)
        if pauses:
            matchings = switch.matchings[:1] * len(switch.matchings)
            switch = replace(switch, matchings=matchings, repeats=True)
        latency = rng.choice((0, rng.randrange(500 * NS)))
        for a, b in combinations(range(len(switch.fibers)), 2):
            if switch.ever_joins(a, b) or switch.ever_joins(b, a):
                (near, one), (far, other) = switch.fibers[a], switch.fibers[b]
                delay = one + other + latency
                cables.append(
                    Cable(near, far, switch.rate_bps, delay, delay, circuit=(number, a, b))
                )
        switches.append(switch)
    rules = {
        "guard_ps": rng.choice((0, 0, 1, rng.randrange(300 * NS))),
        "clock_offset_ps": rng.choice((0, 0, 1, rng.randrange(1, US))),
        "at_circuit_end": rng.choice(("wait", "drop")),
        **_two_hops(case, rng),
    }
    plain = case.cables
    if rng.random() < 0.4:
        ways = {way for cable in cables for way in _ways(cable, switches)}
        plain = _needed(plain, edges, ways, rng)
    return replace(
        case,
        cables=[*plain, *cables],
        circuits=switches,
        fabric={**case.fabric, "circuits": rules},
    )


def _ways(cable: Cable, switches: list[CircuitSwitch]) -> list[tuple[int, int]]:
    """Return the directions of a cable's circuit as pairs of switches."""
    assert cable.circuit is not None
    number, a, b = cable.circuit
    ways = [(a, b, cable.a, cable.b), (b, a, cable.b, cable.a)]
    return [(near, far) for i, j, near, far in ways if switches[number].ever_joins(i, j)]


def _needed(
    cables: list[Cable], edges: list[int], ways: set[tuple[int, int]], rng: random.Random
) -> list[Cable]:
    """Return the cables without some between `edges` that are not needed, given circuits `ways`."""
    left = list(cables)
    for cable in rng.sample(cables, len(cables)):
        if {cable.a, cable.b} <= set(edges):
            others = [one for one in left if one is not cable]
            both = {(one.a, one.b) for one in others} | {(one.b, one.a) for one in others}
            if _all_reach(edges, ways | both):
                left = others
    return left


def _all_reach(edges: list[int], ways: set[tuple[int, int]]) -> bool:
    """Return whether all switches reach each other."""
    for from_one in (ways, {way[::-1] for way in ways}):
        met = {edges[0]}
        while more := {b for a, b in from_one if a in met and b in edges} - met:
            met |= more
        if len(met) < len(edges):
            return False
    return True


def _two_hops(case: Case, rng: random.Random) -> dict[str, str | int]:
    """Return random settings of indirect packets, if there are classes for them."""
    n_traffic_classes = case.fabric["n_traffic_classes"]
    chosen = rng.choice(("none", "vlb", "opportunistic", "opportunistic"))
    via = case.fabric["routing"] in VIA
    if via or case.fabric["queue_discipline"] in PAUSING or chosen == "none":
        return {}
    if chosen == "opportunistic" and n_traffic_classes > 1:
        return {
            "indirect": "opportunistic",
            "indirect_class": min(rng.choice((0, 0, 1)), n_traffic_classes - 2),
        }
    return {"indirect": "vlb"}


def _largest_network(case: Case) -> list[int]:
    """Return the switches of the largest network joined by cables."""
    left = set(range(case.n_hosts, case.n_hosts + case.n_switches))
    largest: set[int] = set()
    while left:
        part = {min(left)}
        while True:
            ends = [{c.a, c.b} for c in case.cables if min(c.a, c.b) >= case.n_hosts]
            more = part.union(*(pair for pair in ends if pair & part))
            if more == part:
                break
            part = more
        left -= part
        largest = max(largest, part, key=len)
    return sorted(largest)


def _circuit_switch(rng: random.Random, edges: list[int], *, bidirectional: bool) -> CircuitSwitch:
    """Return fibers to some edge switches, perhaps several each; up to five slots."""
    n = rng.randint(2, 6)
    nodes = [rng.choice(edges) for _ in range(n)]
    if len(set(nodes)) == 1:
        nodes[0] = next(edge for edge in edges if edge != nodes[1])
    draw = _matching if bidirectional else _permutation
    matchings = [draw(rng, nodes) for _ in range(rng.randint(1, 5))]
    if rng.random() < 0.4:  # a pair that stays joined
        matchings.insert(rng.randrange(len(matchings)), rng.choice(matchings))
    switch = _rotor(rng, nodes, matchings)
    return replace(switch, repeats=rng.random() < 0.8, bidirectional=bidirectional)


def _rounds(n: int) -> list[tuple[int, ...]]:
    """Return matchings in which every two of `n` ports meet once, in random order."""
    left = [set(pair) for pair in combinations(range(n), 2)]
    rounds = []
    while left:
        matching = [-1] * n
        for pair in list(left):
            a, b = sorted(pair)
            if matching[a] == matching[b] == -1:
                matching[a], matching[b] = b, a
                left.remove(pair)
        rounds.append(tuple(matching))
    return rounds


def _rotor(rng: random.Random, nodes: list[int], matchings: list[tuple[int, ...]]) -> CircuitSwitch:
    """Return a circuit switch with some of the matchings and odd times."""
    dark = rng.choice((0, 0, 100 * NS, rng.randrange(2 * US)))
    even = rng.choice((US, 5 * US, 20 * US))
    alike = rng.random() < 0.5
    return CircuitSwitch(
        slots_ps=tuple(dark + (even if alike else rng.randrange(1, 3 * even)) for _ in matchings),
        matchings=tuple(matchings),
        fibers=tuple((node, rng.choice((NS, 100 * NS, rng.randint(1, 3 * US)))) for node in nodes),
        rate_bps=rng.choice(GBPS) * 10**9,
        reconfiguration_delay_ps=(switching := rng.randint(0, dark)),
        sync_delay_ps=dark - switching,
        offset_ps=rng.choice((0, 0, rng.randrange(30 * US))),
    )


def _matching(rng: random.Random, nodes: list[int]) -> tuple[int, ...]:
    """Return some of the pairs that lead to different nodes."""
    matching = [-1] * len(nodes)
    ports = list(range(len(nodes)))
    rng.shuffle(ports)
    for a, b in zip(ports[::2], ports[1::2], strict=False):
        if nodes[a] != nodes[b] and rng.random() < 0.9:
            matching[a], matching[b] = b, a
    return tuple(matching)


def _permutation(rng: random.Random, nodes: list[int]) -> tuple[int, ...]:
    """Return the output of each port: at a different node, or none."""
    to = list(range(len(nodes)))
    rng.shuffle(to)
    return tuple(b if nodes[a] != nodes[b] and rng.random() < 0.9 else -1 for a, b in enumerate(to))
