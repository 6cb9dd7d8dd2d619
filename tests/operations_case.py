"""Convert random calls to `Operations` and to the plan of the reference executor."""

from dataclasses import replace

import numpy as np
from collective_play import pieces_of, waits_of
from reference.model import Case, Task
from reference.operations import Message, Operation, Plan
from reference.random_operations import Call, Calls

from netsim.model.workload import KINDS, Workload
from netsim.workloads.collectives import ALGORITHMS, schedule
from netsim.workloads.collectives.steps import COLLECTIVES
from netsim.workloads.operations import CollectiveOptions, Operations

KNOWN = {
    what: [
        name for name, module in ALGORITHMS.items() if what in module.whats and name != "in_network"
    ]
    for what in COLLECTIVES
}
"""Collective -> its algorithms without in-network reduction."""


def noted(calls: Calls) -> Operations:
    """Return the operations of the calls."""
    ops = Operations(calls.n_ranks)
    made = [_make(ops, call) for call in calls.calls]
    for call, ids in zip(calls.calls, made, strict=True):
        if call.orders:
            ops.set_order(ids, call.orders)
    for pairs, note in ((calls.after, ops.after), (calls.after_start, ops.after_start)):
        for (one, at), (then, behind) in pairs:
            note(made[one][at], made[then][behind])
    return ops


def _make(ops: Operations, call: Call) -> list[int]:
    """Add a call; return the operation of each of its ranks."""
    if call.what == "compute":
        return [ops.compute(call.ranks[0], call.duration_ps or 0, call.streams[0])]
    if call.what == "join":
        return [ops.join(call.ranks[0], call.streams[0])]
    if call.what == "send":
        given = {"kind": call.kind, "latency_ps": call.latency_ps}
        return list(ops.send(*call.ranks, call.size_bytes, *call.streams, **given))
    made = ops.collective(
        call.what,
        call.ranks,
        call.size_bytes,
        CollectiveOptions(**dict(call.how)),
        call.streams,
        call.kind,
        call.duration_ps,
    )
    return [int(one) for one in made]


def plan_of(calls: Calls) -> Plan:
    """Return the executor's plan of the calls, with the sends of each collective's algorithm."""
    plan, first = Plan(), []
    for call in calls.calls:
        first.append(len(plan.operations))
        packets = call.duration_ps is None and call.what != "send"
        whats = ("send", "receive") if call.what == "send" else (call.what,) * len(call.ranks)
        sizes = [call.size_bytes] * len(call.ranks)
        if isinstance(call.size_bytes, tuple):
            sizes = [sum(row) for row in call.size_bytes]
        plan.operations += [
            Operation(rank, what, call.kind, stream, order, call.duration_ps, size)
            for rank, what, stream, order, size in zip(
                call.ranks, whats, call.streams, call.orders or [0] * len(sizes), sizes, strict=True
            )
        ]
        if call.what == "send":
            ends = first[-1], first[-1] + 1
            plan.messages.append(Message(*ends, call.size_bytes, call.latency_ps))
        elif packets:
            plan.messages += _sends(call, first[-1], len(plan.messages))
    for ours, pairs in ((plan.after, calls.after), (plan.after_start, calls.after_start)):
        ours += [(first[a] + i, first[b] + j) for (a, i), (b, j) in pairs]
    return plan


def _sends(call: Call, first: int, number: int) -> list[Message]:
    """Return the sends of a collective whose first operation and message have these numbers."""
    how, n = CollectiveOptions(**dict(call.how)), len(call.ranks)
    matrix = isinstance(call.size_bytes, tuple)
    if matrix:
        auto = how.algorithm == "auto"
        how = replace(how, channels=1, algorithm="direct" if auto else how.algorithm)
    steps = schedule(call.what, n, 0 if matrix else call.size_bytes, how)
    blocks = np.ravel(call.size_bytes)
    found = []
    for k in range(len(steps)):
        size = int(blocks[pieces_of(steps, k)].sum()) if matrix else int(steps.size_bytes[k])
        follows = int(steps.follows[k])
        found.append(
            Message(
                first + int(steps.src[k]),
                first + int(steps.dst[k]),
                size,
                how.latency_ps,
                tuple(number + one for one in waits_of(steps, k)),
                number + follows if follows >= 0 else -1,
                how.reduce_bps if steps.adds[k] else None,
            )
        )
    return found


def case_of(case: Case, load: Workload) -> Case:
    """Return the case with its flows and tasks replaced by a workload's."""
    flows, tasks = load.flows, load.tasks
    assert tasks is not None
    assert flows.start_ps.max(initial=0) == 0
    first, then = tasks.edges()
    after: list[list[int]] = [[] for _ in range(len(tasks))]
    for one, behind in zip(first.tolist(), then.tolist(), strict=True):
        after[behind].append(one)
    columns = (tasks.kind, tasks.host, tasks.duration_ps, tasks.stream, tasks.flow)
    rows = zip(*(column.tolist() for column in columns), after, strict=True)
    ends = (flows.src, flows.dst, flows.size_bytes, flows.start_ps)
    return replace(
        case,
        flows=list(zip(*(column.tolist() for column in ends), strict=True)),
        tasks=[
            Task(KINDS[kind], host, took, stream, flow, after=tuple(before))
            for kind, host, took, stream, flow, before in rows
        ],
        nics={},
        after={},
        until_ps=case.until_ps,
    )


US, RANKS = 10**6, 5

Pairs = list[tuple[int, int]]


def random_operations(seed: int) -> tuple[Operations, Pairs, Pairs]:
    """Return operations of all kinds; some wait for the end or the start of earlier ones."""
    rng = np.random.default_rng(seed)
    ops = Operations(RANKS)
    of_rank: list[list[int]] = [[] for _ in range(RANKS)]
    for _ in range(14):
        rank, other = rng.permutation(RANKS)[:2].tolist()
        stream = int(rng.integers(-1, 3))
        sort = rng.integers(5)
        if sort == 0:
            made = {rank: ops.compute(rank, int(rng.integers(3 * US)), stream)}
        elif sort == 1:
            made = {rank: ops.join(rank, stream)}
        elif sort == 2:
            sent, got = ops.send(rank, other, 5000, stream, stream, latency_ps=US)
            made = {rank: sent, other: got}
        else:
            group = rng.permutation(RANKS)[: int(rng.integers(1, RANKS + 1))]
            what = ("all_reduce", "all_gather", "broadcast")[int(rng.integers(3))]
            took = US if sort == 3 else None
            kind = "formula" if took else "packets"
            ids = ops.collective(what, group, 9000, "auto", stream, kind, took)
            made = dict(zip(group.tolist(), ids.tolist(), strict=True))
        for one, operation in made.items():
            of_rank[one].append(int(operation))
    ops.send(0, 1, 1)  # a run needs at least one flow
    pairs: list[list[tuple[int, int]]] = [[], []]
    for k in range(20):
        found = of_rank[int(rng.integers(RANKS))]
        if len(found) > 1:
            first, then = sorted(rng.permutation(len(found))[:2].tolist())
            pairs[k % 2].append((found[first], found[then]))
    for kind, note in zip(pairs, (ops.after, ops.after_start), strict=True):
        if kind:
            note(*np.array(kind).T)
    return ops, *pairs
