"""Circuit switches in a random case, beside its cables, with odd slots and wrong clocks."""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import combinations

from .model import Cable, Case, CircuitSwitch
from .random_graphs import GBPS, NS, US

PAUSING = ("lossless", "mixed")
"""Disciplines that go only with circuits that are always there."""


def with_circuits(case: Case, rng: random.Random) -> Case:
    """The case with one to three circuit switches among the switches of its largest network.

    As it is if that is a single switch.
    """
    edges = _largest_network(case)
    if len(edges) < 2:
        return case
    switches, cables = [], []
    for number in range(rng.choice((1, 1, 2, 3))):
        switch = _circuit_switch(rng, edges)
        if case.fabric["model"] in PAUSING:
            matchings = switch.matchings[:1] * len(switch.matchings)
            switch = replace(switch, matchings=matchings, repeats=True)
        latency = rng.choice((0, rng.randrange(500 * NS)))
        for a, b in combinations(range(len(switch.fibres)), 2):
            if any(matching[a] == b for matching in switch.matchings):
                (near, one), (far, other) = switch.fibres[a], switch.fibres[b]
                delay = one + other + latency
                cables.append(
                    Cable(near, far, switch.rate_bps, delay, delay, circuit=(number, a, b))
                )
        switches.append(switch)
    rules = {
        "guard_ps": rng.choice((0, 0, 1, rng.randrange(300 * NS))),
        "clock_error_ps": rng.choice((0, 0, 1, rng.randrange(1, US))),
        "in_flight": rng.choice(("held", "lost")),
    }
    return replace(
        case,
        cables=[*case.cables, *cables],
        circuits=switches,
        fabric={**case.fabric, "circuits": rules},
    )


def _largest_network(case: Case) -> list[int]:
    """The switches of the largest part that is joined by cables."""
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


def _circuit_switch(rng: random.Random, edges: list[int]) -> CircuitSwitch:
    """Fibres to some of the edge switches, to some of them several; up to five slots."""
    n = rng.randint(2, 6)
    nodes = [rng.choice(edges) for _ in range(n)]
    if len(set(nodes)) == 1:
        nodes[0] = next(edge for edge in edges if edge != nodes[1])
    matchings = [_matching(rng, nodes) for _ in range(rng.randint(1, 5))]
    if rng.random() < 0.4:  # a pair that stays joined
        matchings.insert(rng.randrange(len(matchings)), rng.choice(matchings))
    dark = rng.choice((0, 0, 100 * NS, rng.randrange(2 * US)))
    even = rng.choice((US, 5 * US, 20 * US))
    alike = rng.random() < 0.5
    return CircuitSwitch(
        slots_ps=tuple(dark + (even if alike else rng.randrange(1, 3 * even)) for _ in matchings),
        matchings=tuple(matchings),
        fibres=tuple((node, rng.choice((NS, 100 * NS, rng.randint(1, 3 * US)))) for node in nodes),
        rate_bps=rng.choice(GBPS) * 10**9,
        switching_ps=(switching := rng.randint(0, dark)),
        sync_ps=dark - switching,
        offset_ps=rng.choice((0, 0, rng.randrange(30 * US))),
        repeats=rng.random() < 0.8,
    )


def _matching(rng: random.Random, nodes: list[int]) -> tuple[int, ...]:
    """Some of the pairs that lead to different nodes."""
    matching = [-1] * len(nodes)
    ports = list(range(len(nodes)))
    rng.shuffle(ports)
    for a, b in zip(ports[::2], ports[1::2], strict=False):
        if nodes[a] != nodes[b] and rng.random() < 0.9:
            matching[a], matching[b] = b, a
    return tuple(matching)
