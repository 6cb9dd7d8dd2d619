"""Random routing policies: tables over some of the cables each."""

from __future__ import annotations

import random
from dataclasses import replace

from .model import Case
from .random_graphs import NS, US
from .random_routing import VIA
from .routing_policy import RoutingPolicy


def with_policy(case: Case, rng: random.Random) -> Case:
    """Add two or three routing tables, the last over all cables, as a fallback.

    The others are over some cables: random ones, circuits, or all except circuits. The first may
    differ between slots. Unchanged if packets go over intermediate groups.
    """
    if case.fabric["routing"] in VIA:
        return case
    inner = [k for k, cable in enumerate(case.cables) if min(cable.a, cable.b) >= case.n_hosts]
    circuits = frozenset(k for k in inner if case.cables[k].circuit is not None)
    chosen = []
    for _ in range(rng.randint(1, 2)):
        some = frozenset(k for k in inner if rng.random() < rng.choice((0.3, 0.8)))
        chosen.append(rng.choice((some, circuits, frozenset(inner) - circuits)))
    numbers = [*range(len(chosen)), len(chosen)]
    named = [flow for flow in range(len(case.flows)) if rng.random() < 0.3]
    sizes = sorted(size for *_, size, _ in case.flows)
    policy = RoutingPolicy(
        cables=(*chosen, frozenset(inner)),
        large_min_bytes=rng.choice((0, rng.choice(sizes), sizes[-1] + 1)),
        small_table=rng.choice(numbers),
        control_table=rng.choice((None, rng.choice(numbers))),
        fallback=len(chosen),
        of_flow={flow: rng.choice(numbers) for flow in named},
    )
    if rng.random() < 0.5:
        policy = _slotted(policy, inner, rng)
    return replace(case, policy=policy)


def _slotted(policy: RoutingPolicy, inner: list[int], rng: random.Random) -> RoutingPolicy:
    """Return the policy with other cables of its first table in each slot."""
    by_slot = [policy.cables[0]]
    for _ in range(rng.randrange(1, 5)):
        some = frozenset(k for k in inner if rng.random() < 0.8)
        by_slot.append(rng.choice((some, *by_slot)))
    most_ps = rng.choice((2, 100 * NS, US, 10 * US))
    return replace(
        policy,
        slotted=0,
        by_slot=tuple(by_slot),
        slots_ps=tuple(rng.choice((most_ps, rng.randint(1, most_ps))) for _ in by_slot),
        offset_ps=rng.choice((0, rng.randrange(30 * US))),
    )
