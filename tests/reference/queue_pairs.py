"""Queue pairs (MODEL.md): turn a case into one whose messages are sent as several flows."""

from __future__ import annotations

from dataclasses import replace

from .model import Case, Task


def stripe(case: Case, queue_pairs: int, payload: int) -> Case:
    """Return the case with every flow sent over `queue_pairs`; `payload` is that of a packet."""
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
    return replace(case, flows=flows, tasks=tasks, after=after, beside=beside)
