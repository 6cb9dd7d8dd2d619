"""Random faults of links, and random changes of routes."""

from __future__ import annotations

import random
from dataclasses import replace

from .model import Case, FaultInterval, LinkFault, Reroute
from .random_graphs import GBPS, US, Pairs


def with_faults(case: Case, rng: random.Random) -> Case:
    """Add faults to some links, to all, or to those of a node that is down for a while."""
    links = _links(case)
    if rng.random() < 0.2:
        node = rng.randrange(case.n_hosts + case.n_switches)
        down = rng.randrange(30 * US)
        outages = ((down, down + rng.randrange(1, 50 * US)),)
        nominal = (FaultInterval(0, 0.0, 0.0),)
        struck = [port for port, ends in enumerate(links) if node in ends]
        return replace(case, faults={port: LinkFault(nominal, outages) for port in struck})
    ports = range(len(links))
    chosen = rng.sample(ports, rng.randint(1, len(ports))) if rng.random() < 0.7 else ports
    return replace(case, faults={port: _fault(rng) for port in chosen})


def _links(case: Case) -> list[tuple[int, int]]:
    """Return the two ends of the link of every port."""
    nodes = range(case.n_hosts + case.n_switches)
    return [(c.a, c.b) for node in nodes for c in case.cables if node in (c.a, c.b)]


def _fault(rng: random.Random) -> LinkFault:
    down = rng.randrange(50 * US)
    outages: tuple[tuple[int, int], ...] = ()
    if rng.random() < 0.3:
        outages = ((down, down + rng.randrange(1, 100 * US)),)
    if outages and rng.random() < 0.3:
        outages += ((down + 30 * US, down + 130 * US),)
    return LinkFault(_intervals(rng), outages)


def _intervals(rng: random.Random) -> tuple[FaultInterval, ...]:
    """Return intervals with other error rates, and perhaps other link rates."""
    loss, errors = rng.choice((0.0, 0.02, 0.2)), rng.choice((0.0, 1e-6, 1e-5))
    intervals = [FaultInterval(0, loss, errors)]
    while rng.random() < 0.6 and len(intervals) < 5:
        begin = intervals[-1].start_ps + rng.choice((1, rng.randrange(1, 10 * US), 5 * US))
        loss, errors = rng.choice((0.0, 0.0, 0.2, 1.0)), rng.choice((0.0, 0.0, 1e-5))
        rate = rng.choice((None, rng.choice(GBPS) * 10**9))
        intervals.append(FaultInterval(begin, loss, errors, rate))
    return tuple(intervals)


def with_reroutes(case: Case, rng: random.Random) -> Case:
    """Let some switches route anywhere for a while, or nowhere.

    Unchanged if routes have slots.
    """
    if case.policy is not None and case.policy.slotted is not None:
        return case
    n_hosts, n_switches = case.n_hosts, case.n_switches
    pairs = [(c.a, c.b) for c in case.cables]
    ends = [[pair for pair in pairs if node in pair] for node in range(n_hosts + n_switches)]
    edges = {max(pair) for pair in pairs if min(pair) < n_hosts}
    reroutes: list[Reroute] = []
    for _ in range(rng.randint(1, 5)):
        switch = rng.randrange(n_hosts, n_hosts + n_switches)
        inner = [k for k, pair in enumerate(ends[switch]) if min(pair) >= n_hosts]
        ports = {
            edge: tuple(sorted(rng.sample(inner, rng.randint(0, min(3, len(inner))))))
            for edge in sorted((edges & _joined_to(switch, pairs, n_hosts)) - {switch})
            if rng.random() < 0.6
        }
        at = rng.choice((0, 10 * US, rng.randrange(50 * US)))
        table = rng.randrange(len(case.policy.cables)) if case.policy else 0
        if all((one.at_ps, one.switch) != (at, switch) for one in reroutes):
            reroutes.append(Reroute(at, switch, ports, table))
    return replace(case, reroutes=reroutes)


def _joined_to(switch: int, pairs: Pairs, n_hosts: int) -> set[int]:
    """Return the switches of a network, given one of them."""
    found = {switch}
    while True:
        inner = [set(pair) for pair in pairs if min(pair) >= n_hosts and found & set(pair)]
        more = set().union(found, *inner)
        if more == found:
            return found
        found = more


def with_carrier(case: Case, rng: random.Random) -> Case:
    """Let hosts detect loss of carrier, which some ports have."""
    own = rng.choice((0, 1, 2 * US, rng.randrange(20 * US)))
    links = _links(case)
    at_hosts = [port for port, ends in enumerate(links) if min(ends) < case.n_hosts]
    faults = dict(case.faults)
    for port in rng.sample(at_hosts, rng.randint(1, max(1, len(at_hosts) // 2))):
        there = faults.get(port, LinkFault((FaultInterval(0, 0.0, 0.0),), ()))
        down = rng.randrange(20 * US)
        outage = (down, down + rng.randrange(1, 60 * US))
        faults[port] = replace(there, outages=(*there.outages, outage))
    other = own + rng.choice((0, 0, 1, rng.randrange(20 * US), 2**62))
    return replace(case, faults=faults, carrier=(own, other))
