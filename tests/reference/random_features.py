"""Random features of a case, each added by a function: see `FEATURES` of `cases.py`."""

import random
from dataclasses import replace
from itertools import combinations
from typing import Any

from .model import (
    Cable,
    Case,
    CircuitSwitch,
    FaultInterval,
    LinkFault,
    Reroute,
    Task,
    serialization_ps,
)
from .random_graphs import GBPS, NS, US, Pairs
from .routing_policy import RoutingPolicy

VIA = ("valiant", "ugal_l", "ugal_g", "par")
"""Those that need a single routing table, and packets that circuits do not send elsewhere."""

WITH_PARAMETERS = ("wcmp", "entropy_digits", "letflow", "conga", "drill", "adaptive", "dlb", *VIA)


def parameters(rng: random.Random) -> dict[str, Any]:
    """Return the parameters of all algorithms."""
    return {
        "flowlet_gap_ps": rng.choice((0, 100 * NS, US, 5 * US, 30 * US)),
        "feedback_age_ps": rng.choice((US, 20 * US, 500 * US)),
        "dre_period_ps": rng.choice((50 * NS, 333 * NS + 1, US, 20 * US)),
        "dre_alpha": rng.choice((0.01, 0.2, 0.33, 0.5, 1.0)),
        "samples": rng.choice((1, 2, 2, 3, 8)),
        "remember": rng.random() < 0.6,
        "queue_level": rng.choice((1, 1, 2, 4)),
        "valiant_unit": rng.choice(("packet", "flow")),
        "intermediate": rng.choice(("any", "other")),
        "ugal_weight": rng.choice((0, 1, 2)),
        "publish_delay_ps": rng.choice((5 * US, 7 * US + 1, 20 * US)),
        "ugal_threshold": rng.choice((0, 0, 1, 3)),
        "digit_planes": rng.choice((1, 2)),
        "digit_base": rng.choice((1, 2, 3, 256)),
        "tick_ps": rng.choice((50 * NS, US + 1, 16 * US)),
        "load_weight": rng.choice((1, 2, 16)),
    }


PAUSING = ("lossless", "pfc", "credits", "mixed")  # disciplines that need circuits without nights


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
        case, cables=[*plain, *cables], circuits=switches, fabric={**case.fabric, "circuits": rules}
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
    """Return the cables without some unneeded ones between `edges`, given circuits `ways`."""
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
    """Return matchings that pair every two of `n` ports once, in random order."""
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


def with_faults(case: Case, rng: random.Random) -> Case:
    """Add faults to some links, to all, or to the links of a node that is down for a while."""
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


def with_llr(case: Case, rng: random.Random) -> Case:
    """Let links replay lost packets. Unchanged if a circuit may have nights."""
    if case.circuits and case.fabric["queue_discipline"] not in PAUSING:
        return case
    if not case.faults and rng.random() < 0.8:
        case = with_faults(case, rng)
    llr = {
        "max_frames": rng.choice((1, 2, 5, 512, 512, 512)),
        "max_bytes": rng.choice((None, None, None, 1, 3000, 50_000)),
        "replay_timeout_ps": rng.choice((None, None, 20 * US, 100 * US)),
        "max_replays": rng.choice((None, None, 0, 1, 1, 2)),
    }
    if any(fault.intervals[-1].loss == 1.0 for fault in case.faults.values()):
        llr["max_replays"] = llr["max_replays"] or 0  # otherwise a port would never give up
    return replace(case, llr=llr)


def with_reroutes(case: Case, rng: random.Random) -> Case:
    """Let some switches route anywhere for a while, or nowhere. Unchanged if routes have slots."""
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
            edge: _list_of(inner, rng)
            for edge in sorted((edges & _joined_to(switch, pairs, n_hosts)) - {switch})
            if rng.random() < 0.6
        }
        at = rng.choice((0, 10 * US, rng.randrange(50 * US)))
        table = rng.randrange(len(case.policy.cables)) if case.policy else 0
        if all((one.at_ps, one.switch) != (at, switch) for one in reroutes):
            reroutes.append(Reroute(at, switch, ports, table))
    return replace(case, reroutes=reroutes)


def _list_of(ports: list[int], rng: random.Random) -> tuple[int, ...]:
    """Return up to three ports, ascending; some appear several times."""
    taken = rng.sample(ports, rng.randint(0, min(3, len(ports))))
    return tuple(sorted(port for port in taken for _ in range(rng.choice((1, 1, 1, 2, 5)))))


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
    """Let hosts detect loss of carrier, which occurs at some ports."""
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


def with_tasks(case: Case, rng: random.Random) -> Case:
    """Add tasks; some flows without tasks wait for others."""
    sending = {flow for flow in range(len(case.flows)) if rng.random() < 0.6}
    receiving = {flow for flow in range(len(case.flows)) if rng.random() < 0.6}
    tasks = _numbered(rng, _edges(rng, _in_order(rng, case, sending, receiving)))
    flows = [
        (src, dst, size, 0 if flow in sending else start)
        for flow, (src, dst, size, start) in enumerate(case.flows)
    ]
    after = _after(rng, case, sending | receiving)
    return replace(case, flows=flows, tasks=tasks, after=after)


def _in_order(rng: random.Random, case: Case, sending: set[int], receiving: set[int]) -> list[Task]:
    """Return tasks without edges; none waits for a later one."""
    tasks = [(rng.random(), _without_flow(rng, case.n_hosts)) for _ in range(rng.randint(0, 25))]
    for flow, (src, dst, *_) in enumerate(case.flows):
        first, then = sorted((rng.random(), rng.random()))
        if flow in sending:
            acked = rng.random() < 0.5
            tasks.append((first, Task("send", src, _duration(rng), flow=flow, acked=acked)))
        if flow in receiving:
            tasks.append((then, Task("receive", dst, _duration(rng), flow=flow)))
    return [task for _, task in sorted(tasks, key=lambda pair: pair[0])]


def _without_flow(rng: random.Random, n_hosts: int) -> Task:
    host = rng.randrange(n_hosts)
    if rng.random() < 0.3:
        return Task("join", host)
    return Task("compute", host, _duration(rng), stream=rng.choice((0, 0, 3)))


def _duration(rng: random.Random) -> int:
    return rng.choice((0, 0, NS, 500 * NS, US, rng.randrange(5 * US)))


def _edges(rng: random.Random, tasks: list[Task]) -> list[Task]:
    """Add edges from earlier tasks of a host to later ones."""
    found = []
    for k, task in enumerate(tasks):
        before = [i for i in range(k) if tasks[i].host == task.host]
        chosen = rng.sample(before, min(len(before), rng.choice((0, 1, 1, 2, 4))))
        found.append(replace(task, after=tuple(chosen)))
    return found


def _numbered(rng: random.Random, tasks: list[Task]) -> list[Task]:
    """Renumber the tasks, except the order of compute tasks of a stream."""
    places = list(range(len(tasks)))
    if rng.random() < 0.5:
        rng.shuffle(places)
    compute = [k for k, task in enumerate(tasks) if task.kind == "compute"]
    for k, place in zip(compute, sorted(places[k] for k in compute), strict=True):
        places[k] = place
    numbered = list(tasks)
    for k, task in enumerate(tasks):
        numbered[places[k]] = replace(task, after=tuple(places[i] for i in task.after))
    return numbered


def _after(rng: random.Random, case: Case, taken: set[int]) -> dict[int, tuple[int, ...]]:
    """Let flows without tasks wait for earlier flows, often flows to their source host."""
    after = {}
    free = [flow for flow in range(len(case.flows)) if flow not in taken]
    for k, flow in enumerate(free):
        here = [g for g in free[:k] if case.flows[g][1] == case.flows[flow][0]]
        others = here if here and rng.random() < 0.7 else free[:k]
        if others and rng.random() < 0.7:
            after[flow] = tuple(rng.sample(others, rng.randint(1, min(3, len(others)))))
    return after


def with_phases(case: Case, rng: random.Random) -> Case:
    """Make some or all of the case's circuit switches phase-driven. Unchanged without any, or if
    ports send packets for each other, which needs a timetable."""
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


def with_program(case: Case, rng: random.Random) -> Case:
    """Add a program with the last tasks; some of these are deferred."""
    if not case.tasks:
        return case
    first = rng.choice((0, rng.randrange(len(case.tasks))))
    share = rng.random()
    deferred = [number >= first and rng.random() < share for number in range(len(case.tasks))]
    return replace(
        case,
        tasks=[replace(task, deferred=one) for task, one in zip(case.tasks, deferred, strict=True)],
        program={
            "first": first,
            "gap_ps": rng.choice((1, NS, 3 * US, 20 * US)),
            "most_runs": rng.choice((1, 2, 5)),
            "most_draws": rng.choice((20, 200)),
            "resize": rng.choice((0, 1, 3)),
        },
    )


SIZES = ("queue_bytes", "header_queue_bytes", "xoff_bytes", "headroom_bytes", "xon_gap_bytes")
KINDS = 3  # most kinds of ports


def with_port_sizes(case: Case, rng: random.Random) -> Case:
    """Return some kinds of ports, each with a multiple of the fabric's sizes."""
    kinds = [_kind(case, rng) for _ in range(rng.randint(2, KINDS))]
    sizes = {port: rng.choice(kinds) for port in range(2 * len(case.cables))}
    return replace(case, port_sizes=sizes)


def _kind(case: Case, rng: random.Random) -> dict[str, int]:
    """Return the sizes of a kind; every kind has all of them."""

    def scaled(size_bytes: int) -> int:
        return size_bytes * rng.choice((1, 2, 3, 5)) // rng.choice((1, 2, 3))

    given = {name: case.fabric[name] for name in SIZES if case.fabric[name] is not None}
    sizes = {name: scaled(value) for name, value in given.items()}
    sizes["xon_bytes"] = rng.choice((max(1, sizes["xoff_bytes"]), sizes["xoff_bytes"] // 2 + 1, 1))
    if case.fabric["ecn"] is not None:
        sizes["kmin_bytes"] = scaled(case.fabric["ecn"]["kmin_bytes"])
        room = case.fabric["ecn"]["kmax_bytes"] - case.fabric["ecn"]["kmin_bytes"]
        sizes["kmax_bytes"] = sizes["kmin_bytes"] + scaled(room)
    return sizes


def with_cut_through(case: Case, rng: random.Random) -> Case:
    """Let switches forward a packet once they have its header; it is faster with equal rates."""
    rate_bps = rng.choice(case.cables).rate_bps
    plain = [cable if cable.circuit else replace(cable, rate_bps=rate_bps) for cable in case.cables]
    cables = plain if rng.random() < 0.7 else case.cables
    return replace(case, cables=cables, cut_through_bytes=rng.choice((1, 64, 300, 5000)))


def with_nic(case: Case, rng: random.Random) -> Case:
    """Let hosts take time to process packets."""
    times = (0, 1, 20 * NS, 300 * NS, 2 * US)
    kinds = ("data", "ack", "cnp")
    return replace(case, nic={kind: (rng.choice(times), rng.choice(times)) for kind in kinds})
