"""The all-reduces of serving iterations as tasks and flows, declared before the run.

The iterations of a run are not known in advance, so a fixed number is declared for each instance.
In an iteration, the leader sends two messages that describe the batch to each other GPU. Then all
GPUs alternate: compute one group of layers, all-reduce. The run sets the sizes of all flows
(`iteration_exchange.py`); the declared sizes are the largest possible.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from netsim.errors import InputError
from netsim.flows import JOIN, RECEIVE, SEND, Workload
from netsim.limits import COUNT
from netsim.workloads.collectives import CollectiveOptions, Wire, closed_form_ps
from netsim.workloads.inference import all_reduce_bytes, compute_ps, prompt_pairs
from netsim.workloads.operations import Operations
from netsim.workloads.operations.table import OperationTable
from netsim.workloads.serving.data import ROLES, Requests, ServingPlan
from netsim.workloads.serving.kv_partition import flows_between
from netsim.workloads.serving.plan import Group
from netsim.workloads.serving.state import ANNOUNCED, REDUCED, ROW_BYTES, TICKS
from netsim.workloads.serving.tables import ALL_REDUCE, CONTROL, ServingTasks

Ints = NDArray[np.int64]

MESSAGES = 2
"""Messages of a leader to each other GPU per iteration: the number of rows and the compute time."""


@dataclass(frozen=True)
class ListedIterations:
    """The declared iterations of a role.

    Attributes:
        n_iterations: iterations per instance.
        groups: all-reduces simulated per iteration.
        how: algorithm and options of the all-reduces.
        max_rows: largest number of tokens and sequences of an iteration.
        max_batch: largest number of decoding sequences.
        control_bytes: size of a message without the number it encodes.
        ways: the wire between the hosts of each instance, for the latency of merged all-reduces.
    """

    n_iterations: int
    groups: int
    how: CollectiveOptions
    max_rows: int
    max_batch: int
    control_bytes: int
    ways: tuple[Wire, ...]


def reduces_merged(group: Group, listed: ListedIterations) -> int:
    """Return how many of the model's all-reduces each simulated one stands for.

    Raises InputError unless the number divides evenly.
    """
    n = group.cost.all_reduces
    if n % listed.groups:
        message = f"{group.deployment.name} has {n} all-reduces, not a multiple of {listed.groups}"
        raise InputError(message, key="traffic.all_reduces_per_iteration", hint=f"a divisor of {n}")
    return n // listed.groups


def left_out_ps(group: Group, listed: ListedIterations) -> Ints:
    """int64[k]: latency of the merged all-reduces that are not sent, for each instance."""
    alone = {
        wire: closed_form_ps("all_reduce", group.deployment.tp, 1, wire, listed.how)
        for wire in set(listed.ways)
    }
    return (reduces_merged(group, listed) - 1) * np.array([alone[wire] for wire in listed.ways])


def check_iterations(
    plan: ServingPlan, listed: Mapping[int, ListedIterations], token_budget: int | None
) -> None:
    """Raise InputError if an instance certainly needs more iterations than are declared.

    A request needs at least one iteration per part of its prompt and per further token, and an
    instance as many as its prompts fill. `token_budget` is None if prompts are not split.
    """
    asked, k = plan.requests, len(plan.instances)
    need, later = np.zeros(k, np.int64), asked.output_tokens - 1
    budget = int(asked.prompt_tokens.max()) if token_budget is None else token_budget
    alone = -(-asked.prompt_tokens // budget)
    alone += np.where(plan.decode_instance < 0, later, 0)
    np.maximum.at(need, plan.prefill_instance, alone)
    if token_budget is not None:
        every = np.zeros(k, np.int64)
        np.add.at(every, plan.prefill_instance, asked.prompt_tokens)
        need = np.maximum(need, -(-every // budget))
    split = np.flatnonzero(plan.decode_instance >= 0)
    np.maximum.at(need, plan.decode_instance[split], later[split])
    count = np.array(
        [listed[role].n_iterations if role in listed else COUNT for role in range(len(ROLES))]
    )
    short = need - count[plan.instances.role]
    if short.max() > 0:
        instance = int(short.argmax())
        has, name = count[plan.instances.role[instance]], plan.instances.name(instance)
        message = f"{name} needs at least {need[instance]:,} iterations, above the {has:,} declared"
        raise InputError(
            message, key="traffic.max_iterations", hint="more iterations, or fewer requests"
        )


def clock_ps(group: Group, listed: ListedIterations, requests: Requests) -> int:
    """Return the unit in which leaders encode compute times: the longest one over TICKS."""
    longest = int((requests.prompt_tokens + requests.output_tokens).max())
    rows, batch = listed.max_rows, listed.max_batch
    pairs = prompt_pairs(group.deployment.causal, longest, rows) + rows * longest
    most = compute_ps(group.cost, rows + batch, pairs, batch, batch * longest)
    return -(-most // TICKS)


def flows_of_iteration(group: Group, listed: ListedIterations) -> int:
    """Return the number of flows declared per iteration, including reads of a memory pool."""
    one, tp, pool = _template(group, listed), group.deployment.tp, group.pool
    reads = 0 if pool is None else pool.hosts + flows_between(pool.hosts, tp)
    return listed.groups * len(one.flows) + MESSAGES * (tp - 1) + reads


def _template(group: Group, listed: ListedIterations) -> Workload:
    """The largest all-reduce, between hosts 0 to tp - 1."""
    tp = group.deployment.tp
    size = all_reduce_bytes(group.cost, listed.max_rows) * reduces_merged(group, listed)
    ops = Operations(tp)
    ops.collective("all_reduce", np.arange(tp), size, listed.how)
    return ops.lower(np.arange(tp))


def add_iterations(
    tables: ServingTasks, group: Group, hosts: Ints, listed: ListedIterations, requests: Requests
) -> None:
    """Add the tasks and flows of a role's iterations; `hosts` is int64[k, tp].

    Tasks that belong together are consecutive at their host, whose record points to the first one.
    """
    for name, value in (
        ("n_iterations", listed.n_iterations),
        ("n_groups", listed.groups),
        ("left_out_ps", left_out_ps(group, listed)[:, None]),
        ("clock_ps", clock_ps(group, listed, requests)),
        ("max_rows", listed.max_rows),
    ):
        tables.set_host(name, hosts, value)
    _add_messages(tables, hosts, listed)
    one = _template(group, listed)
    assert one.tasks is not None
    operations = one.part(OperationTable)
    assert operations is not None
    n, times = len(one.tasks), listed.n_iterations * listed.groups
    shape = (len(hosts), times)
    flows = tables.add_flows(
        np.broadcast_to(hosts[:, None, one.flows.src], (*shape, len(one.flows))),
        hosts[:, None, one.flows.dst],
        one.flows.size_bytes,
        ALL_REDUCE,
    )
    begin, end = operations.begin_task, operations.end_task
    tasks = tables.add_tasks(
        one.tasks.kind,
        np.broadcast_to(hosts[:, None, one.tasks.host], (*shape, n)),
        flow=np.where(one.tasks.flow < 0, -1, flows[:, :, np.maximum(one.tasks.flow, 0)]),
        duration_ps=one.tasks.duration_ps,
        deferred=np.isin(np.arange(n), begin),
        done_when=one.tasks.done_when,
    )
    first, then = one.tasks.edges()
    tables.wait(tasks[:, :, first], tasks[:, :, then])
    tables.set("role", tasks[:, :, end], REDUCED)
    sends = np.flatnonzero(one.tasks.kind == SEND)
    tables.set("max_bytes", tasks[:, :, sends], one.flows.size_bytes[one.tasks.flow[sends]])
    for rank in range(hosts.shape[1]):
        mine = np.flatnonzero(one.tasks.host == rank)
        tables.point_host("reduces", hosts[:, rank], tasks[:, 0, mine[0]])
        tables.set_host("reduce_tasks", hosts[:, rank], mine.size)
        tables.set_host("reduce_begin", hosts[:, rank], np.flatnonzero(np.isin(mine, begin))[0])


def _add_messages(tables: ServingTasks, hosts: Ints, listed: ListedIterations) -> None:
    """Add the messages of leaders to the other GPUs.

    Each of those GPUs has first the tasks that receive rows, then those that receive times, then
    those that wait for both.
    """
    k, tp = hosts.shape
    most = listed.control_bytes + np.array([ROW_BYTES * listed.max_rows, TICKS])
    shape = (k, listed.n_iterations, tp - 1, MESSAGES)
    leader = np.broadcast_to(hosts[:, :1, None, None], shape)
    flows = tables.add_flows(leader, hosts[:, None, 1:, None], most, CONTROL)
    sends = tables.add_tasks(SEND, leader, flow=flows, deferred=True)
    tables.point_host("messages", hosts[:, 0], sends[:, 0, 0, 0])
    for gpu in range(1, tp):
        host = hosts[:, gpu, None, None]
        mine = flows[:, :, gpu - 1].transpose(0, 2, 1)
        come = tables.add_tasks(RECEIVE, host, flow=mine)
        both = tables.add_tasks(JOIN, np.broadcast_to(host[:, :, 0], (k, listed.n_iterations)))
        tables.wait(come, both[:, None])
        tables.set("role", both, ANNOUNCED)
        tables.point_host("announcements", hosts[:, gpu], come[:, 0, 0])
