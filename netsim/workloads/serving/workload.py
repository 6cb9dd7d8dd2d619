"""The workload of a serving run: its plan as tasks, flows, and records of the program.

At the leader of its first instance, a request is a task that is done when it arrives; at the leader
of its decode instance, a task that is done when the whole KV cache is there. In between, for each
part of the cache:

    leader      starts its own flows to the decode instance, and a message to each other GPU
    other GPU   starts its flows when it gets that message
    decode GPU  sends a message to its leader when it has its share of all parts
    leader      waits for its own share and these messages

The tasks that a leader starts for one part of one request are consecutive.

The iterations of a run are not known in advance, so with all-reduces in packets a fixed number is
declared for each instance. In an iteration, the leader sends two messages that describe the batch
to each other GPU. Then all GPUs alternate: compute one group of layers, all-reduce. The run sets
the sizes of all flows (`instance.py`); the declared sizes are the largest possible.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from netsim.errors import InputError
from netsim.flows import ACKED, COMPUTE, JOIN, RECEIVE, SEND, SENT, FlowTable, TaskTable, Workload
from netsim.frozen import frozen
from netsim.limits import COUNT
from netsim.model.columns import Ints
from netsim.params import Params
from netsim.workloads.collectives import closed_form_ps
from netsim.workloads.collectives.steps import CollectiveOptions, Wire
from netsim.workloads.inference.deployment import (
    all_reduce_bytes,
    compute_ps,
    kv_bytes_of_token,
    prompt_pairs,
)
from netsim.workloads.operations import Operations
from netsim.workloads.operations.table import OperationTable
from netsim.workloads.serving.failures import Transitions
from netsim.workloads.serving.instance import (
    ANNOUNCED,
    DOWN,
    KV_SENT,
    POOL_READ,
    POOL_REQUEST,
    REDUCED,
    REQUEST,
    ROW_BYTES,
    TICKS,
    TRANSITION,
    WHOLE,
)
from netsim.workloads.serving.plan import PREFILL, ROLES, Group, Requests, ServingPlan, check_used

AFTER_PREFILL, LAYERWISE = "after_prefill", "layerwise"  # when KV caches are sent

KINDS = ("kv", "control", "all_reduce", "pool")
KV, CONTROL, ALL_REDUCE, POOL = range(4)  # kinds of flows

LISTS = ("waiting", "filling", "decoding", "fresh")
"""Leaders' fields that are heads of lists of requests, initially empty."""

MESSAGES = 2  # of a leader to each other GPU per iteration: rows, and compute time


# --- shares of a KV cache -------------------------------------------------------------------------


@frozen(eq=False)
class KvPartition:
    """The f flows of a KV cache between `sources` and `sinks` GPUs, in the order of the cache.

    The GPUs of an instance share the cache evenly, in order: GPU i of m holds it from i / m to
    (i + 1) / m. The overlap of a pair of GPUs is one flow.
    """

    sources: int
    sinks: int
    # int64[f], GPUs of either instance
    source: Ints
    sink: Ints
    # int64[f + 1], where the flows' shares end; each GPU holds an integer number of these units
    bounds: Ints

    def __len__(self) -> int:
        return int(self.source.size)

    def sizes(self, n_bytes: Ints, parts: int) -> Ints:
        """int64[n, parts, f]: bytes of each flow of n caches sent in equal parts; at least 1."""
        whole, n_bytes = self.bounds[-1], n_bytes[:, None]
        # n_bytes * bounds / whole, without overflow of the product.
        ends = n_bytes // whole * self.bounds + n_bytes % whole * self.bounds // whole
        ends = np.diff(ends)[:, None, :] * np.arange(parts + 1)[:, None] // parts
        return np.asarray(np.maximum(np.diff(ends, axis=1), 1))


def flows_between(sources: int, sinks: int) -> int:
    """Return the number of flows of `partition`."""
    return sources + sinks - math.gcd(sources, sinks)


def partition(sources: int, sinks: int) -> KvPartition:
    whole = math.lcm(sources, sinks)
    bounds = np.union1d(
        np.arange(sources + 1) * (whole // sources), np.arange(sinks + 1) * (whole // sinks)
    )
    begin = bounds[:-1]
    return KvPartition(
        sources, sinks, begin * sources // whole, begin * sinks // whole, bounds.astype(np.int64)
    )


# --- tasks and flows ------------------------------------------------------------------------------


@dataclass
class ServingTasks:
    """Growing columns of tasks and flows, which are identified by their indices."""

    n_tasks: int = 0
    n_flows: int = 0
    tasks: list[list[Ints]] = field(default_factory=list)
    flows: list[list[Ints]] = field(default_factory=list)
    edges: list[list[Ints]] = field(default_factory=list)
    fields: list[tuple[bool, bool, str, NDArray[Any], NDArray[Any]]] = field(default_factory=list)
    """Fields of the program: of hosts (or of tasks), local, name, rows, values."""

    def add_flows(self, src: ArrayLike, dst: ArrayLike, size: ArrayLike, kind: int) -> Ints:
        """Add flows between hosts; return their indices in the broadcast shape."""
        numbers = _added(self.flows, self.n_flows, src, dst, size, kind)
        self.n_flows += numbers.size
        return numbers

    def add_tasks(
        self,
        kind: ArrayLike,
        host: ArrayLike,
        *,
        flow: ArrayLike = -1,
        duration_ps: ArrayLike = 0,
        deferred: ArrayLike = False,
        done_when: ArrayLike = SENT,
    ) -> Ints:
        """Add tasks; return their indices in the broadcast shape."""
        columns = (kind, host, duration_ps, flow, done_when, deferred)
        numbers = _added(self.tasks, self.n_tasks, *columns)
        self.n_tasks += numbers.size
        return numbers

    def wait(self, first: ArrayLike, then: ArrayLike) -> None:
        """Make each task `then` wait for `first`, as broadcast."""
        self.edges.append(list(_flat(first, then)))

    def set(self, name: str, tasks: Ints, values: ArrayLike, *, local: bool = False) -> None:
        """Set a program field of tasks; `local`: to the local index of a task at the same host."""
        self.fields.append((False, local, name, *_flat(tasks, values)))

    def set_host(self, name: str, hosts: Ints, values: ArrayLike, *, local: bool = False) -> None:
        """Set a program field of hosts; `local`: to the local index of one of their tasks."""
        self.fields.append((True, local, name, *_flat(hosts, values)))

    def workload(self, n_hosts: int, classes: ArrayLike) -> Workload:
        """Build the workload; `classes` is the traffic class of each kind of flow."""
        kind, host, duration, flow, done_when, deferred = _columns(self.tasks)
        tasks = TaskTable(kind, host, duration, flow=flow, done_when=done_when, deferred=deferred)
        if self.edges:
            tasks.wait_for_pairs(*_columns(self.edges))
        src, dst, size_bytes, kinds = _columns(self.flows)
        flows = FlowTable(src, dst, size_bytes, cls=np.asarray(classes)[kinds])
        flows.use_kinds(kinds, KINDS)
        places = tasks.local_indices()
        state: list[dict[str, NDArray[Any]]] = [{}, {}]
        for of_hosts, local, name, rows, values in self.fields:
            n = n_hosts if of_hosts else self.n_tasks
            dtype = np.float64 if values.dtype.kind == "f" else np.int64
            column = state[of_hosts].setdefault(name, np.zeros(n, dtype))
            column[rows] = places[values] if local else values
        return Workload(flows, tasks, state[False], state[True])


def _flat(*columns: ArrayLike) -> Iterator[Any]:
    """Return arrays, broadcast, in one dimension."""
    return (one.reshape(-1) for one in np.broadcast_arrays(*columns))


def _added(rows: list[list[Ints]], first: int, *columns: ArrayLike) -> Ints:
    """Append columns, as broadcast, and return their indices from `first` on, in that shape."""
    rows.append(list(_flat(*columns)))
    shape = np.broadcast_shapes(*(np.shape(one) for one in columns))
    return first + np.arange(rows[-1][0].size).reshape(shape)


def _columns(rows: list[list[Ints]]) -> list[Ints]:
    return [np.concatenate(column) for column in zip(*rows, strict=True)]


def add_arrivals(tables: ServingTasks, leader: Ints, arrival_ps: Ints) -> Ints:
    """int64[n]: the task of each request at its leader, done when it arrives. They run in sequence,
    each for the time since the previous arrival. `arrival_ps` does not decrease."""
    order = np.argsort(leader, kind="stable")
    times = arrival_ps[order]
    gaps = np.diff(times, prepend=0)
    first = np.flatnonzero(np.diff(leader[order], prepend=-1))
    gaps[first] = times[first]
    duration = np.empty_like(gaps)
    duration[order] = gaps
    return tables.add_tasks(COMPUTE, leader, duration_ps=duration)


# --- all-reduces in packets -----------------------------------------------------------------------


@frozen
class ListedIterations:
    """The declared iterations of a role."""

    n_iterations: int  # per instance
    groups: int  # all-reduces simulated per iteration
    how: CollectiveOptions
    max_rows: int  # largest number of tokens and sequences of an iteration
    max_batch: int  # largest number of decoding sequences
    control_bytes: int  # size of a message without the number it encodes
    ways: tuple[Wire, ...]  # between hosts of each instance, for the latency of merged all-reduces


def reduces_merged(group: Group, listed: ListedIterations) -> int:
    """Return the number of the model's all-reduces per simulated all-reduce. Raises InputError
    unless the number divides evenly."""
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
    instance at least as many as its prompts fill. `token_budget` is None if prompts are not split.
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
    """Return the unit in which leaders encode compute times: the longest time divided by TICKS."""
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
    """Add the tasks and flows of a role's iterations; `hosts` is int64[k, tp]. Tasks that belong
    together are consecutive at their host, whose record points to the first one."""
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
    operations = one.part(OperationTable)
    assert one.tasks is not None
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
        tables.set_host("reduces", hosts[:, rank], tasks[:, 0, mine[0]], local=True)
        tables.set_host("reduce_tasks", hosts[:, rank], mine.size)
        tables.set_host("reduce_begin", hosts[:, rank], np.flatnonzero(np.isin(mine, begin))[0])


def _add_messages(tables: ServingTasks, hosts: Ints, listed: ListedIterations) -> None:
    """Add the messages of leaders to the other GPUs. Each of those GPUs first has tasks that
    receive rows, then tasks that receive times, then tasks that wait for both."""
    k, tp = hosts.shape
    most = listed.control_bytes + np.array([ROW_BYTES * listed.max_rows, TICKS])
    shape = (k, listed.n_iterations, tp - 1, MESSAGES)
    leader = np.broadcast_to(hosts[:, :1, None, None], shape)
    flows = tables.add_flows(leader, hosts[:, None, 1:, None], most, CONTROL)
    sends = tables.add_tasks(SEND, leader, flow=flows, deferred=True)
    tables.set_host("messages", hosts[:, 0], sends[:, 0, 0, 0], local=True)
    for gpu in range(1, tp):
        host = hosts[:, gpu, None, None]
        mine = flows[:, :, gpu - 1].transpose(0, 2, 1)
        come = tables.add_tasks(RECEIVE, host, flow=mine)
        both = tables.add_tasks(JOIN, np.broadcast_to(host[:, :, 0], (k, listed.n_iterations)))
        tables.wait(come, both[:, None])
        tables.set("role", both, ANNOUNCED)
        tables.set_host("announcements", hosts[:, gpu], come[:, 0, 0], local=True)


# --- the whole run --------------------------------------------------------------------------------


def kv_parts_of(params: Params) -> int:
    layerwise = params["kv_transfer"] == LAYERWISE
    uses = {"kv_layer_groups": (layerwise, f'kv_transfer = "{LAYERWISE}"')}
    check_used(params, uses, optional=uses)
    return params["kv_layer_groups"] or 8 if layerwise else 1


def workload_of(
    plan: ServingPlan,
    groups: Mapping[int, Group],
    params: Params,
    n_hosts: int,
    packets: tuple[Mapping[int, ListedIterations], Ints],
    transitions: Transitions,
) -> Workload:
    """Build the workload of a plan from the serving parameters. `packets` are the declared
    iterations of each role, empty for analytic all-reduces, and the hosts of the memory pool."""
    tables = ServingTasks()
    leader = plan.instances.leader.astype(np.int64)
    _add_leaders(tables, plan, groups)
    arrivals = add_arrivals(tables, leader[plan.prefill_instance], plan.requests.arrival_ps)
    _describe(tables, plan, arrivals, np.arange(len(plan.requests)))
    tables.set("left", arrivals, plan.requests.prompt_tokens)
    tables.set("kv", arrivals, -1)
    moved = np.flatnonzero(plan.decode_instance >= 0)
    if moved.size:
        flows = add_transfers(tables, plan, groups, params, arrivals)
        first, many = np.zeros((2, len(plan.requests)), np.int64)
        first[moved], many[moved] = flows[:, 0, 0], flows[0].size
        plan = replace(plan, kv_first_flow=first, kv_flows=many)
    listed, pool = packets
    for role, iterations in listed.items():
        hosts = _hosts_of(plan, role)
        add_iterations(tables, groups[role], hosts, iterations, plan.requests)
        add_reads(tables, plan, groups[role], iterations, pool)
    _add_transitions(tables, plan, transitions)
    if not tables.n_flows:  # a run needs at least one flow, even if it never starts
        flow = tables.add_flows(leader[:1], (leader[:1] + 1) % n_hosts, 1, CONTROL)
        tables.add_tasks(SEND, leader[:1], flow=flow, deferred=True)
    load = tables.workload(n_hosts, tuple(params["classes"].values()))
    return replace(
        load, parts=(plan,), log_rows=log_rows(plan, groups, params, transitions, n_hosts)
    )


def _describe(tables: ServingTasks, plan: ServingPlan, tasks: Ints, which: Ints) -> None:
    """Set the fields of requests at one of their leaders."""
    tables.set("role", tasks, REQUEST)
    tables.set("request", tasks, which)
    tables.set("prompt", tasks, plan.requests.prompt_tokens[which])
    tables.set("output", tasks, plan.requests.output_tokens[which])
    tables.set("next", tasks, -1)


def add_transfers(
    tables: ServingTasks,
    plan: ServingPlan,
    groups: Mapping[int, Group],
    params: Params,
    arrivals: Ints,
) -> Ints:
    """Add the KV caches of requests that change instance, in parts that follow each other.

    `arrivals`, int64[n], are the tasks of all requests. Returns int64[moved, parts, f], the flows.
    """
    moved, parts = np.flatnonzero(plan.decode_instance >= 0), kv_parts_of(params)
    sources = plan.instances.of(plan.prefill_instance[moved])
    sinks = plan.instances.of(plan.decode_instance[moved])
    of_token = kv_bytes_of_token(groups[PREFILL].deployment)
    size_bytes = np.ceil(plan.requests.prompt_tokens[moved] * of_token).astype(np.int64)
    control, request = params["control_message_size"], arrivals[moved]
    n, share = moved.size, partition(sources.shape[1], sinks.shape[1])
    src = sources[:, share.source][:, None, :]
    dst = sinks[:, share.sink][:, None, :]
    flows = tables.add_flows(src, dst, share.sizes(size_bytes, parts), KV)
    leader, others = sources[:, :1, None], sources[:, None, 1:]
    orders = tables.add_flows(np.broadcast_to(leader, (n, parts, 1)), others, control, CONTROL)
    own = flows[:, :, share.source == 0]
    # A leader's own sends end on acknowledgment, when it frees that part of the cache.
    started = np.concatenate([own, orders], axis=2)
    starts = tables.add_tasks(SEND, leader, flow=started, deferred=True, done_when=ACKED)
    for gpu in range(1, share.sources):
        told = tables.add_tasks(RECEIVE, others[:, :, gpu - 1], flow=orders[:, :, gpu - 1])
        mine = flows[:, :, share.source == gpu]
        sends = tables.add_tasks(SEND, others[:, :, gpu - 1, None], flow=mine)
        tables.wait(told[:, :, None], sends)
    there = tables.add_tasks(JOIN, sinks[:, 0])
    for gpu in range(share.sinks):
        host = sinks[:, gpu, None, None]
        mine = flows[:, :, share.sink == gpu]
        arrived = tables.add_tasks(RECEIVE, host, flow=mine).reshape(n, -1)
        if gpu == 0:
            tables.wait(arrived, there[:, None])
            continue
        reports = tables.add_flows(host[:, 0, 0], sinks[:, 0], control, CONTROL)
        tables.wait(arrived, tables.add_tasks(SEND, host[:, 0, 0], flow=reports)[:, None])
        tables.wait(tables.add_tasks(RECEIVE, sinks[:, 0], flow=reports), there)
    own = starts[:, :, : own.shape[2]]
    tables.set("kv", request, starts[:, 0, 0], local=True)
    tables.set("sending", request, own[0].size)
    tables.set("role", own, KV_SENT)
    tables.set("of", own, request[:, None, None], local=True)
    _describe(tables, plan, there, moved)
    tables.set("generated", there, 1)
    leaders = _hosts_of(plan, PREFILL)[:, 0]
    tables.set_host("starts", leaders, starts.shape[2])
    tables.set_host("n_parts", leaders, parts)
    return flows


def add_reads(
    tables: ServingTasks, plan: ServingPlan, group: Group, listed: ListedIterations, pool: Ints
) -> None:
    """Add reads from the pool's hosts, consecutive per iteration at each host, for a role. Each
    pool host has an equal share for every instance. Request sizes grow with answer sizes."""
    memory, one = group.pool, group.deployment
    if memory is None:
        return
    hosts = _hosts_of(plan, group.role)
    longest = int((plan.requests.prompt_tokens + plan.requests.output_tokens).max())
    most = max(1, min(listed.max_batch * longest, group.capacity_tokens))
    n_bytes = max(1, round((memory.weights(one) + memory.token(one) * most) * one.tp))
    if memory.token(one):
        tables.set_host("max_context", hosts[:, 0], most)
    share = partition(pool.size, hosts.shape[1])
    shape = (len(hosts), listed.n_iterations)
    leader = np.broadcast_to(hosts[:, :1, None], (*shape, pool.size))
    orders = tables.add_flows(leader, pool, listed.control_bytes + TICKS, CONTROL)
    asks = tables.add_tasks(SEND, leader, flow=orders, deferred=True)
    tables.set_host("pooled", hosts, 1)
    tables.set_host("n_pool_requests", hosts[:, 0], pool.size)
    tables.set_host("pool_requests", hosts[:, 0], asks[:, 0, 0], local=True)
    size = share.sizes(np.array([n_bytes]), 1)[0, 0]
    src = np.broadcast_to(pool[share.source], (*shape, len(share)))
    flows = tables.add_flows(src, hosts[:, None, share.sink], size, POOL)
    for k, host in enumerate(pool.tolist()):
        mine = share.source == k
        come = tables.add_tasks(RECEIVE, host, flow=orders[:, :, k])
        sends = tables.add_tasks(SEND, host, flow=flows[:, :, mine], deferred=True)
        tables.set("role", come, POOL_REQUEST)
        tables.set("of", come, sends[:, :, 0], local=True)
        tables.set("parts", come, int(mine.sum()))
        tables.set("max_bytes", sends, size[mine])
    for gpu in range(hosts.shape[1]):
        host = hosts[:, gpu, None]
        come = tables.add_tasks(RECEIVE, host[:, :, None], flow=flows[:, :, share.sink == gpu])
        read = tables.add_tasks(JOIN, np.broadcast_to(host, shape))
        tables.wait(come, read[:, :, None])
        tables.set("role", read, POOL_READ)


def _hosts_of(plan: ServingPlan, role: int) -> Ints:
    """int64[k, tp]: the hosts of each instance of a role."""
    return plan.instances.of(np.flatnonzero(plan.instances.role == role))


def _add_leaders(tables: ServingTasks, plan: ServingPlan, groups: Mapping[int, Group]) -> None:
    """Set the fields of leaders' records; other hosts' fields are 0."""
    instances = plan.instances
    leader = instances.leader.astype(np.int64)
    for name in LISTS:
        tables.set_host(name, leader, -1)
    served = [plan.prefill_instance, plan.decode_instance[plan.decode_instance >= 0]]
    tables.set_host("open", leader, np.bincount(np.concatenate(served), minlength=len(instances)))
    for role, group in groups.items():
        mine, pool, one = leader[instances.role == role], group.pool, group.deployment
        fields: dict[str, float] = {
            "role": 1 + role,
            "state": WHOLE,
            "room": group.capacity_tokens,
            "shrunk_room": group.shrunk_tokens,
            "size": one.tp,
            "causal": int(one.causal),
            "reading_ps": 0.0 if pool is None else pool.reading_ps(pool.weights(one)),
            "token_reading_ps": 0.0 if pool is None else pool.reading_ps(pool.token(one)),
            **{name: float(value) for name, value in group.cost._asdict().items()},
        }
        for name, value in fields.items():
            tables.set_host(name, mine, value)


def _add_transitions(tables: ServingTasks, plan: ServingPlan, transitions: Transitions) -> None:
    """Add transitions as tasks of leaders that never start."""
    leader = plan.instances.leader.astype(np.int64)
    tasks = tables.add_tasks(JOIN, leader[transitions.instance], deferred=True)
    tables.set("role", tasks, TRANSITION)
    tables.set("of", tasks, transitions.becomes)
    tables.set("at_ps", tasks, transitions.at_ps)
    instance, first, many = np.unique(transitions.instance, return_index=True, return_counts=True)
    tables.set_host("transition", leader[instance], tasks[first], local=True)
    tables.set_host("n_transitions", leader[instance], many)


def log_rows(
    plan: ServingPlan,
    groups: Mapping[int, Group],
    params: Params,
    transitions: Transitions,
    n_hosts: int,
) -> Ints:
    """int64[n_hosts]: largest number of log rows of each host.

    An iteration makes at least one token of output, or spends the whole token budget on a prompt.
    A request has five rows. After a failure, requests in progress have these rows again, and the
    tokens of the KV cache are computed again.
    """
    output, prompt = plan.requests.output_tokens, plan.requests.prompt_tokens
    k, budget, moved = len(plan.instances), params["token_budget"], plan.decode_instance >= 0
    at = np.concatenate([plan.prefill_instance, plan.decode_instance[moved]])

    def served(prefilled: Ints, decoded: Ints) -> Ints:
        return np.bincount(at, np.concatenate([prefilled, decoded[moved]]), k).astype(np.int64)

    n, tokens = np.bincount(at, minlength=k), served(prompt + output, prompt + output)
    made, computed = served(np.where(moved, 1, output), output), served(prompt, 0 * prompt)
    rows = made + 5 * n + computed // budget
    room = np.array([groups[role].capacity_tokens for role in plan.instances.role.tolist()])
    again = np.minimum(tokens, room) // budget + 5 * np.minimum(n, params["max_batch"]) + 1
    failed = transitions.instance[transitions.becomes == DOWN]
    rows += np.bincount(failed, minlength=k) * again
    found = np.zeros(n_hosts, np.int64)
    found[plan.instances.leader] = rows + np.bincount(transitions.instance, minlength=k)
    return found
