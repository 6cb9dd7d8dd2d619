"""Random tasks, and flows that wait for others."""

from __future__ import annotations

import random
from dataclasses import replace

from .model import Case, Task

NS = 1_000
US = 1_000_000


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
    """Let flows without tasks wait for earlier ones, often for those their host receives."""
    after = {}
    free = [flow for flow in range(len(case.flows)) if flow not in taken]
    for k, flow in enumerate(free):
        here = [g for g in free[:k] if case.flows[g][1] == case.flows[flow][0]]
        others = here if here and rng.random() < 0.7 else free[:k]
        if others and rng.random() < 0.7:
            after[flow] = tuple(rng.sample(others, rng.randint(1, min(3, len(others)))))
    return after
