"""Relayed messages (MODEL.md): turn a case into one of their segments."""

from __future__ import annotations

from dataclasses import replace

from .model import Case, Task


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
