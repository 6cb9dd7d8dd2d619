"""The all-reduces of iterations as tasks and flows, listed before the run.

Which iterations there will be is not known, so a number of them is listed for each
instance. An iteration has two messages of the leader to each other GPU, that tell of the batch, and
some
groups: in each of them all GPUs compute for a while, and then add up what they have. The sizes of
what is sent are set in the run (`iteration_exchange.py`); listed are the largest.
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
"""Of a leader to each other GPU in an iteration: how many rows it has, and how long it takes."""


@dataclass(frozen=True)
class ListedIterations:
    """How iterations are listed.

    Attributes:
        n_iterations: iterations of each instance.
        groups: in which each is divided.
        how: all-reduces are done.
        max_rows: tokens and sequences of an iteration, at most.
        max_batch: sequences of it, at most.
        control_bytes: of a message, without what it tells.
        ways: of each instance, between its hosts, for the latency of all-reduces that are left
            out.
    """

    n_iterations: int
    groups: int
    how: CollectiveOptions
    max_rows: int
    max_batch: int
    control_bytes: int
    ways: tuple[Wire, ...]


def reduces_merged(group: Group, listed: ListedIterations) -> int:
    """How many all-reduces of the model each one that is simulated stands for.

    Raises InputError if they are not as many for each.
    """
    n = group.cost.all_reduces
    if n % listed.groups:
        message = (
            f"{n} all-reduces of {group.deployment.name} are not {listed.groups} times as many"
        )
        raise InputError(message, key="traffic.all_reduces_per_iteration", hint=f"a divisor of {n}")
    return n // listed.groups


def left_out_ps(group: Group, listed: ListedIterations) -> Ints:
    """int64[k]: of each instance the latency of the all-reduces that one stands for, but for it."""
    alone = {
        wire: closed_form_ps("all_reduce", group.deployment.tp, 1, wire, listed.how)
        for wire in set(listed.ways)
    }
    return (reduces_merged(group, listed) - 1) * np.array([alone[wire] for wire in listed.ways])


def check_iterations(
    plan: ServingPlan, listed: Mapping[int, ListedIterations], token_budget: int | None
) -> None:
    """Raise InputError if an instance surely has more iterations than it has listed.

    No request takes fewer than its parts of a prompt and its further tokens, nor all prompts of a
    instance fewer than they fill. `token_budget` is None where prompts are not cut.
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
        message = f"{has:,} iterations are listed, and {name} takes {need[instance]:,} at the least"
        raise InputError(
            message, key="traffic.max_iterations", hint="more iterations, or fewer requests"
        )


def clock_ps(group: Group, listed: ListedIterations, requests: Requests) -> int:
    """In which computing times are told: a part of the longest that there may be."""
    longest = int((requests.prompt_tokens + requests.output_tokens).max())
    rows, batch = listed.max_rows, listed.max_batch
    pairs = prompt_pairs(group.causal, longest, rows) + rows * longest
    most = compute_ps(group.cost, rows + batch, pairs, batch, batch * longest)
    return -(-most // TICKS)


def flows_of_iteration(group: Group, listed: ListedIterations) -> int:
    """How many flows an iteration has listed, reads of a pool among them."""
    one, tp, pool = _template(group, listed), group.deployment.tp, group.pool
    reads = 0 if pool is None else pool.hosts + flows_between(pool.hosts, tp)
    return listed.groups * len(one.flows) + MESSAGES * (tp - 1) + reads


def _template(group: Group, listed: ListedIterations) -> Workload:
    """One all-reduce between hosts 0 to tp - 1, the largest."""
    tp = group.deployment.tp
    size = all_reduce_bytes(group.cost, listed.max_rows) * reduces_merged(group, listed)
    ops = Operations(tp)
    ops.collective("all_reduce", np.arange(tp), size, listed.how)
    return ops.lower(np.arange(tp))


def add_iterations(
    tables: ServingTasks, group: Group, hosts: Ints, listed: ListedIterations, requests: Requests
) -> None:
    """The tasks and flows of the iterations listed for a role's instances, int64[k, tp] hosts.

    What belongs together stands together among the tasks of its host, whose record points to the
    first one.
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
    """What leaders tell the other GPUs.

    At such a GPU first come all that tell rows, then all that tell times, then what waits for both.
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
