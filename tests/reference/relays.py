"""Relayed messages, messages over several queue pairs, and random racks that need relays."""

import random
from dataclasses import replace

from .model import Cable, Case, Task
from .small import FULL, NS, PAYLOAD, G, case, fabric


def relay(case: Case, rack: int, rail: int, at: str, chunk: int) -> Case:
    """Return the case with every message relayed if it needs it; ``chunk`` is in bytes."""
    flows = list(case.flows)
    tasks = list(case.tasks)
    after = dict(case.after)
    beside = dict(case.beside)
    last_legs: dict[int, list[int]] = {}
    sends = {task.flow: n for n, task in enumerate(tasks) if task.kind == "send"}
    receives = {task.flow: n for n, task in enumerate(tasks) if task.kind == "receive"}
    cut: list[tuple[int, list[int], list[int]]] = []

    for f, (src, dst, size, start) in enumerate(case.flows):
        last_legs[f] = [f]
        ranks = src % rack, dst % rack
        if src // rack == dst // rack or ranks[0] // rail == ranks[1] // rail or f in case.nics:
            continue
        peer = src - ranks[0] + ranks[1] if at == "source" else dst - ranks[1] + ranks[0]
        sizes = [min(chunk, size - k) for k in range(0, size, chunk)]
        a, b = [], []
        for k, part in enumerate(sizes):
            if k == 0:
                flows[f] = (src, peer, part, start)
                a.append(f)
            else:
                a.append(len(flows))
                flows.append((src, peer, part, 0))
            b.append(len(flows))
            flows.append((peer, dst, part, 0))
        last_legs[f] = b
        if f in beside:
            beside |= dict.fromkeys((*a, *b), beside[f])
        if len(sizes) == 1:
            after[b[0]] = (f,)
        else:
            cut.append((f, a, b))
    for f, waits in case.after.items():
        after[f] = tuple(g for w in waits for g in last_legs[w])

    def add(task: Task) -> int:
        tasks.append(task)
        return len(tasks) - 1

    def receive(flow: int) -> int:
        if flow not in received:
            received[flow] = add(Task("receive", flows[flow][1], flow=flow))
        return received[flow]

    received: dict[int, int] = {}
    for f, n in receives.items():
        *others, final = last_legs[f]
        edges = tuple(receive(g) for g in others)
        tasks[n] = replace(tasks[n], flow=final, after=tasks[n].after + edges)
    instead: dict[int, int] = {}
    for f, a, b in cut:
        src, dst, size, start = flows[f]
        if f in sends:
            first = sends[f]
        else:
            edges = tuple(receive(g) for g in after.pop(f, ()))
            first = add(Task("send", src, start, flow=f, after=edges))
            flows[f] = (src, dst, size, 0)
        before, behind = first, -1
        for k in range(len(a)):
            if k:
                before = add(Task("send", src, flow=a[k], after=(before,)))
            edges = (receive(a[k]),) if behind < 0 else (receive(a[k]), behind)
            behind = add(Task("send", flows[b[k]][0], flow=b[k], after=edges))
        if f in sends:
            instead[first] = before
            tasks[before] = replace(tasks[before], acked=tasks[first].acked)
            tasks[first] = replace(tasks[first], acked=False)
    for n in range(len(case.tasks)):
        moved = tuple(instead.get(k, k) for k in tasks[n].after)
        tasks[n] = replace(tasks[n], after=moved)
    return replace(case, flows=flows, tasks=tasks, after=after, beside=beside)


def stripe(case: Case, queue_pairs: int, payload: int) -> Case:
    """Return the case with every flow sent over `queue_pairs`; `payload` is a packet's."""
    flows, tasks = list(case.flows), list(case.tasks)
    beside, after = dict(case.beside), dict(case.after)
    parts: dict[int, list[int]] = {}
    for f, (src, dst, size, start) in enumerate(case.flows):
        n = -(-size // payload)
        k = min(queue_pairs, n)
        sizes = [payload * (n // k + (one < n % k)) for one in range(k)]
        sizes[-1] -= payload * n - size
        parts[f] = [f, *range(len(flows), len(flows) + k - 1)]
        flows[f] = (src, dst, sizes[0], start)
        flows += [(src, dst, one, start) for one in sizes[1:]]
        if f in beside:
            beside |= dict.fromkeys(parts[f], beside[f])
    for f, waits in case.after.items():
        for part in parts[f]:
            after[part] = tuple(g for w in waits for g in parts[w])

    def several(kind: str) -> list[int]:
        return [
            number
            for number, task in enumerate(case.tasks)
            if task.kind == kind and len(parts[task.flow]) > 1
        ]

    sends: dict[int, list[int]] = {}
    for number in several("send"):
        task = case.tasks[number]
        sends[number] = [number]
        for part in parts[task.flow][1:]:
            sends[number].append(len(tasks))
            tasks.append(replace(task, flow=part))
    for number in several("receive"):
        task = case.tasks[number]
        for part in parts[task.flow][1:]:
            tasks[number] = replace(tasks[number], after=(*tasks[number].after, len(tasks)))
            tasks.append(Task("receive", task.host, flow=part))
    join = {number: len(tasks) + place for place, number in enumerate(sends)}
    for number, task in enumerate(tasks):
        tasks[number] = replace(task, after=tuple(join.get(k, k) for k in task.after))
    for number, own in sends.items():
        tasks.append(Task("join", case.tasks[number].host, after=tuple(own)))
    pairs = {part: (f, k) for f, own in parts.items() for k, part in enumerate(own)}
    return replace(case, flows=flows, tasks=tasks, after=after, beside=beside, queue_pairs=pairs)


def racks(rng: random.Random) -> tuple[Case, int, int]:
    n_racks, rack = rng.randint(2, 3), rng.choice((2, 3, 4))
    rail = 2 if rack == 4 and rng.random() < 0.5 else 1
    n = n_racks * rack
    rates = [rng.choice((10, 50, 100)) * G for _ in range(2)]
    delays = [rng.randint(50, 2_000) * NS for _ in range(2)]
    cables = [Cable(h, n + h // rack, rates[0], delays[0], delays[0]) for h in range(n)]
    planes = rng.choice((1, 3))
    for h in range(n):
        for plane in range(planes):
            switch = n + n_racks + h % rack // rail * planes + plane
            cables.append(Cable(h, switch, rates[1], delays[1], delays[1], nic=1))
    flows = []
    for _ in range(rng.randint(1, 9)):
        src, dst = rng.sample(range(n), 2)
        flows.append(
            (src, dst, rng.randint(1, 12 * PAYLOAD), rng.choice((0, rng.randrange(10**7))))
        )
    queue = rng.choice((3, 10, 1000)) * FULL
    kind = rng.choice(("datagram", "roce", "ndp"))
    in_fabric = fabric("trim" if kind == "ndp" else "drop_tail", queue_bytes=queue)
    made = case(n, cables, flows, kind, in_fabric=in_fabric, seed=rng.randrange(1000))
    if kind == "roce":
        made.params["rto_ps"] = 50_000 * NS
    if kind == "ndp":
        made.params["rto_ps"] = 80_000 * NS
    return made, rack, rail
