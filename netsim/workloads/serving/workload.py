"""The workload of a serving run: its plan as tasks, flows, and records of the program."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from netsim.flows import JOIN, SEND, Workload
from netsim.workloads.inference import kv_bytes_of_token
from netsim.workloads.serving.all_reduces import ListedIterations, add_iterations
from netsim.workloads.serving.data import DECODE, PREFILL, ServingPlan
from netsim.workloads.serving.failures import Transitions
from netsim.workloads.serving.given import check_used
from netsim.workloads.serving.plan import Group
from netsim.workloads.serving.pool import add_reads
from netsim.workloads.serving.state import KV_SENT, REQUEST, TICKS, TRANSITION, WHOLE
from netsim.workloads.serving.tables import (
    CONTROL,
    ServingTasks,
    add_arrivals,
    add_transfers,
)

Ints = NDArray[np.int64]

AFTER_PREFILL, LAYERWISE = "after_prefill", "layerwise"
"""When KV caches are sent."""

LISTS = ("waiting", "filling", "decoding", "fresh")
"""Leaders' fields that are heads of lists of requests, initially empty."""


def kv_parts_of(params: Mapping[str, Any]) -> int:
    """Return the number of parts in which a KV cache is sent."""
    layerwise = params["kv_transfer"] == LAYERWISE
    uses = {"kv_layer_groups": (layerwise, f'kv_transfer = "{LAYERWISE}"')}
    check_used(params, uses, optional=uses)
    return params["kv_layer_groups"] or 8 if layerwise else 1


def workload_of(
    plan: ServingPlan,
    groups: Mapping[int, Group],
    params: Mapping[str, Any],
    n_hosts: int,
    packets: tuple[Mapping[int, ListedIterations], Ints],
    transitions: Transitions,
) -> Workload:
    """Build the workload of a plan by the parameters of serving.

    `packets` are the declared iterations of each role, empty for analytic all-reduces, and the
    hosts of the memory pool.
    """
    tables = ServingTasks()
    leader = plan.instances.leader.astype(np.int64)
    _add_leaders(tables, plan, groups)
    arrivals = add_arrivals(tables, leader[plan.prefill_instance], plan.requests.arrival_ps)
    _describe(tables, plan, arrivals, np.arange(len(plan.requests)))
    tables.set("left", arrivals, plan.requests.prompt_tokens)
    tables.set("kv", arrivals, -1)
    moved = np.flatnonzero(plan.decode_instance >= 0)
    if moved.size:
        flows = _add_transfers(tables, plan, groups, params, arrivals)
        n = len(plan.requests)
        first, many = _spread(n, moved, flows[:, 0, 0]), _spread(n, moved, flows[0].size)
        plan = replace(plan, kv_first_flow=first, kv_flows=many)
    listed, pool = packets
    for role, iterations in listed.items():
        hosts = _hosts_of(plan, role)
        add_iterations(tables, groups[role], hosts, iterations, plan.requests)
        _add_pool(tables, plan, groups[role], iterations, pool)
    _add_transitions(tables, plan, transitions)
    if not tables.n_flows:
        _one_flow(tables, plan, n_hosts)
    load = tables.workload(n_hosts, tuple(params["classes"].values()))
    return replace(load, parts=(plan,), log_rows=log_rows(plan, transitions, n_hosts))


def _describe(tables: ServingTasks, plan: ServingPlan, tasks: Ints, which: Ints) -> None:
    """Set the fields of requests at one of their leaders."""
    tables.set("role", tasks, REQUEST)
    tables.set("request", tasks, which)
    tables.set("prompt", tasks, plan.requests.prompt_tokens[which])
    tables.set("output", tasks, plan.requests.output_tokens[which])
    tables.set("next", tasks, -1)


def _add_transfers(
    tables: ServingTasks,
    plan: ServingPlan,
    groups: Mapping[int, Group],
    params: Mapping[str, Any],
    arrivals: Ints,
) -> Ints:
    """Add KV caches of requests that change instance; return int64[n, parts, f], their flows."""
    instances, moved = plan.instances, np.flatnonzero(plan.decode_instance >= 0)
    ends = []
    for instance, role in ((plan.prefill_instance, PREFILL), (plan.decode_instance, DECODE)):
        gpus = np.arange(groups[role].deployment.tp)
        ends.append(instances.hosts[instances.hosts_ptr[instance[moved]][:, None] + gpus])
    of_token = kv_bytes_of_token(groups[PREFILL].deployment)
    parts = kv_parts_of(params)
    size_bytes = np.ceil(plan.requests.prompt_tokens[moved] * of_token).astype(np.int64)
    made = add_transfers(
        tables,
        ends[0].astype(np.int64),
        ends[1].astype(np.int64),
        size_bytes,
        parts,
        params["control_message_size"],
    )
    request = arrivals[moved]
    tables.point("kv", request, made.starts[:, 0, 0])
    tables.set("sending", request, made.own[0].size)
    tables.set("role", made.own, KV_SENT)
    tables.point("of", made.own, request[:, None, None])
    _describe(tables, plan, made.there, moved)
    tables.set("generated", made.there, 1)
    leaders = _hosts_of(plan, PREFILL)[:, 0]
    tables.set_host("starts", leaders, made.starts.shape[2])
    tables.set_host("n_parts", leaders, parts)
    return made.flows


def max_context(group: Group, plan: ServingPlan, listed: ListedIterations) -> int:
    """Return the largest number of context tokens of an iteration."""
    longest = int((plan.requests.prompt_tokens + plan.requests.output_tokens).max())
    return max(1, min(listed.max_batch * longest, group.capacity_tokens))


def _add_pool(
    tables: ServingTasks, plan: ServingPlan, group: Group, listed: ListedIterations, hosts: Ints
) -> None:
    """Add reads from the pool's hosts for the instances of a role."""
    pool, one = group.pool, group.deployment
    if pool is None:
        return
    readers, most = _hosts_of(plan, group.role), max_context(group, plan, listed)
    n_bytes = pool.weights(one) + pool.token(one) * most
    whole = max(1, round(n_bytes * one.tp))
    asked = listed.control_bytes + TICKS
    add_reads(tables, readers, hosts, whole, listed.n_iterations, asked)
    if pool.token(one):
        tables.set_host("max_context", readers[:, 0], most)


def _hosts_of(plan: ServingPlan, role: int) -> Ints:
    """int64[k, tp]: the hosts of each instance of a role."""
    instances = np.flatnonzero(plan.instances.role == role).tolist()
    return np.stack([plan.instances.of(instance) for instance in instances]).astype(np.int64)


def _one_flow(tables: ServingTasks, plan: ServingPlan, n_hosts: int) -> None:
    """Add a flow that never starts: a run needs at least one."""
    src = int(plan.instances.leader[0])
    flow = tables.add_flows([src], [(src + 1) % n_hosts], 1, CONTROL)
    tables.add_tasks(SEND, [src], flow=flow, deferred=True)


def _add_leaders(tables: ServingTasks, plan: ServingPlan, groups: Mapping[int, Group]) -> None:
    """Set the fields of leaders' records; those of other hosts are 0."""
    instances = plan.instances
    leader = instances.leader.astype(np.int64)
    for name in LISTS:
        tables.set_host(name, leader, -1)
    tables.set_host("open", leader, _open(plan))
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


def _open(plan: ServingPlan) -> Ints:
    """int64[k]: number of requests of each instance."""
    which = [plan.prefill_instance, plan.decode_instance[plan.decode_instance >= 0]]
    return np.bincount(np.concatenate(which), minlength=len(plan.instances))


def _add_transitions(tables: ServingTasks, plan: ServingPlan, transitions: Transitions) -> None:
    """Add transitions as tasks of leaders that never start."""
    leader = plan.instances.leader.astype(np.int64)
    tasks = tables.add_tasks(JOIN, leader[transitions.instance], deferred=True)
    for name, values in (
        ("role", TRANSITION),
        ("of", transitions.becomes),
        ("at_ps", transitions.at_ps),
    ):
        tables.set(name, tasks, values)
    instance, first, many = np.unique(transitions.instance, return_index=True, return_counts=True)
    tables.point_host("transition", leader[instance], tasks[first])
    tables.set_host("n_transitions", leader[instance], many)


def log_rows(plan: ServingPlan, transitions: Transitions, n_hosts: int) -> Ints:
    """int64[n_hosts]: largest number of log rows of each host.

    An iteration computes at least one token, and a failed instance computes its tokens again. A
    request has five rows, and as many again for each failure.
    """
    requests, k = plan.requests, len(plan.instances)
    tokens = requests.prompt_tokens + requests.output_tokens
    rows = np.bincount(plan.prefill_instance, weights=tokens + 5, minlength=k)
    moved = plan.decode_instance >= 0
    rows += np.bincount(plan.decode_instance[moved], weights=(tokens + 5)[moved], minlength=k)
    n_transitions = np.bincount(transitions.instance, minlength=k)
    most = rows.astype(np.int64) * (1 + n_transitions) + n_transitions
    return _spread(n_hosts, plan.instances.leader, most)


def _spread(n: int, which: NDArray[Any], values: ArrayLike) -> Ints:
    """int64[n] with values at the given indices, else 0."""
    found = np.zeros(n, np.int64)
    found[which] = values
    return found
