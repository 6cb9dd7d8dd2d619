"""The workload of a serving run: a plan's tasks and flows, and what leaders know as it begins."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from netsim.flows import JOIN, SEND, Workload
from netsim.workloads.inference import kv_bytes_of_token
from netsim.workloads.serving.all_reduces import Slots, add_slots
from netsim.workloads.serving.changes import Changes
from netsim.workloads.serving.data import DECODE, PREFILL, ServingPlan
from netsim.workloads.serving.plan import Group
from netsim.workloads.serving.pool import add_reads
from netsim.workloads.serving.shares import shares
from netsim.workloads.serving.state import CHANGE, KV_SENT, REQUEST, TICKS, WHOLE
from netsim.workloads.serving.tables import (
    CONTROL,
    Tables,
    Transfer,
    add_arrivals,
    add_transfers,
)

Ints = NDArray[np.int64]

LISTS = ("waiting", "filling", "decoding", "fresh")
"""Fields of leaders that are places of requests, at first of none."""


@dataclass(frozen=True)
class Sending:
    """What is sent, and how.

    Attributes:
        kv_parts: in which a KV cache goes.
        control_bytes: of a message between the GPUs of a machine.
        classes: the traffic class of each kind of flows (KINDS).
        slots: of each role, how its iterations are listed; empty if all-reduces are not sent.
        pool: hosts from which pooled memory is read; empty if that is not sent.
    """

    kv_parts: int
    control_bytes: int
    classes: tuple[int, ...]
    slots: Mapping[int, Slots]
    pool: Ints


def workload_of(
    plan: ServingPlan,
    groups: Mapping[int, Group],
    n_hosts: int,
    sending: Sending,
    changes: Changes,
) -> Workload:
    """Tasks, flows and fields of a plan."""
    tables = Tables()
    leader = plan.machines.leader.astype(np.int64)
    _add_leaders(tables, plan, groups)
    arrivals = add_arrivals(tables, leader[plan.prefill_instance], plan.requests.arrival_ps)
    _describe(tables, plan, arrivals, np.arange(len(plan.requests)))
    tables.set("left", arrivals, plan.requests.prompt_tokens)
    tables.set("kv", arrivals, -1)
    moved = np.flatnonzero(plan.decode_instance >= 0)
    if moved.size:
        flows = _add_transfers(tables, plan, groups, sending, arrivals)
        n = len(plan.requests)
        first, many = _spread(n, moved, flows[:, 0, 0]), _spread(n, moved, flows[0].size)
        plan = replace(plan, kv_first_flow=first, kv_flows=many)
    for role, slots in sending.slots.items():
        hosts = _hosts_of(plan, role)
        add_slots(tables, groups[role], hosts, slots, plan.requests)
        _add_pool(tables, plan, groups[role], sending)
    _add_turns(tables, plan, changes)
    if not tables.n_flows:
        _one_flow(tables, plan, n_hosts)
    load = tables.workload(n_hosts, sending.classes)
    return replace(load, parts=(plan,), log_rows=log_rows(plan, changes, n_hosts))


def _describe(tables: Tables, plan: ServingPlan, tasks: Ints, which: Ints) -> None:
    """What a request is, at one of its leaders."""
    tables.set("role", tasks, REQUEST)
    tables.set("request", tasks, which)
    tables.set("prompt", tasks, plan.requests.prompt_tokens[which])
    tables.set("output", tasks, plan.requests.output_tokens[which])
    tables.set("next", tasks, -1)


def _add_transfers(
    tables: Tables,
    plan: ServingPlan,
    groups: Mapping[int, Group],
    sending: Sending,
    arrivals: Ints,
) -> Ints:
    """KV caches of the requests that move. Gives int64[n, parts, f], their flows."""
    machines, moved = plan.machines, np.flatnonzero(plan.decode_instance >= 0)
    ends = []
    for machine, role in ((plan.prefill_instance, PREFILL), (plan.decode_instance, DECODE)):
        gpus = np.arange(groups[role].deployment.tp)
        ends.append(machines.hosts[machines.hosts_ptr[machine[moved]][:, None] + gpus])
    of_token = kv_bytes_of_token(groups[PREFILL].deployment)
    made = add_transfers(
        tables,
        Transfer(
            parts=sending.kv_parts,
            control_bytes=sending.control_bytes,
            from_hosts=ends[0].astype(np.int64),
            to_hosts=ends[1].astype(np.int64),
            size_bytes=np.ceil(plan.requests.prompt_tokens[moved] * of_token).astype(np.int64),
            shares=shares(ends[0].shape[1], ends[1].shape[1]),
        ),
    )
    request = arrivals[moved]
    tables.point("kv", request, made.starts[:, 0, 0])
    tables.set("sending", request, made.own[0].size)
    tables.set("role", made.own, KV_SENT)
    tables.point("of", made.own, request[:, None, None])
    _describe(tables, plan, made.there, moved)
    tables.set("told", made.there, 1)
    leaders = _hosts_of(plan, PREFILL)[:, 0]
    tables.set_host("starts", leaders, made.starts.shape[2])
    tables.set_host("n_parts", leaders, sending.kv_parts)
    return made.flows


def most_context(group: Group, plan: ServingPlan, slots: Slots) -> int:
    """Tokens of all contexts of an iteration, at most."""
    longest = int((plan.requests.prompt_tokens + plan.requests.output_tokens).max())
    return max(1, min(slots.max_batch * longest, group.capacity_tokens))


def _add_pool(tables: Tables, plan: ServingPlan, group: Group, sending: Sending) -> None:
    """What the machines of a role read, if any of it is pooled."""
    pool, one, slots = group.pool, group.deployment, sending.slots[group.role]
    if pool is None:
        return
    hosts, most = _hosts_of(plan, group.role), most_context(group, plan, slots)
    n_bytes = pool.weights(one) + pool.token(one) * most
    whole = max(1, round(n_bytes * one.tp))
    asked = sending.control_bytes + TICKS
    add_reads(tables, hosts, sending.pool, whole, slots.slots, asked)
    if pool.token(one):
        tables.set_host("most_context", hosts[:, 0], most)


def _hosts_of(plan: ServingPlan, role: int) -> Ints:
    """int64[k, tp]: the hosts of each machine of a role."""
    machines = np.flatnonzero(plan.machines.role == role).tolist()
    return np.stack([plan.machines.of(machine) for machine in machines]).astype(np.int64)


def _one_flow(tables: Tables, plan: ServingPlan, n_hosts: int) -> None:
    """A run is of flows: where there are none there is one that is never started."""
    src = int(plan.machines.leader[0])
    flow = tables.add_flows([src], [(src + 1) % n_hosts], 1, CONTROL)
    tables.add_tasks(SEND, [src], flow=flow, deferred=True)


def _add_leaders(tables: Tables, plan: ServingPlan, groups: Mapping[int, Group]) -> None:
    """The fields of leaders' records; at other hosts they are 0."""
    machines = plan.machines
    leader = machines.leader.astype(np.int64)
    for name in LISTS:
        tables.set_host(name, leader, -1)
    tables.set_host("open", leader, _open(plan))
    for role, group in groups.items():
        mine, pool, one = leader[machines.role == role], group.pool, group.deployment
        fields: dict[str, float] = {
            "role": 1 + role,
            "state": WHOLE,
            "room": group.capacity_tokens,
            "shrunk_room": group.shrunk_tokens,
            "size": one.tp,
            "causal": int(group.causal),
            "reading_ps": 0.0 if pool is None else pool.reading_ps(pool.weights(one)),
            "token_reading_ps": 0.0 if pool is None else pool.reading_ps(pool.token(one)),
            **{f"cost_{name}": float(value) for name, value in group.cost._asdict().items()},
        }
        for name, value in fields.items():
            tables.set_host(name, mine, value)


def _open(plan: ServingPlan) -> Ints:
    """int64[k]: how many requests come to each machine."""
    which = [plan.prefill_instance, plan.decode_instance[plan.decode_instance >= 0]]
    return np.bincount(np.concatenate(which), minlength=len(plan.machines))


def _add_turns(tables: Tables, plan: ServingPlan, changes: Changes) -> None:
    """What becomes of machines, as tasks of their leaders that are never started."""
    leader = plan.machines.leader.astype(np.int64)
    turns = tables.add_tasks(JOIN, leader[changes.machine], deferred=True)
    for name, values in (("role", CHANGE), ("of", changes.becomes), ("at_ps", changes.at_ps)):
        tables.set(name, turns, values)
    machine, first, many = np.unique(changes.machine, return_index=True, return_counts=True)
    tables.point_host("change", leader[machine], turns[first])
    tables.set_host("changes", leader[machine], many)


def log_rows(plan: ServingPlan, changes: Changes, n_hosts: int) -> Ints:
    """int64[n_hosts]: rows of the log that each host may have.

    An iteration computes one token at least, and what a machine that fails had computed it computes
    once more. A request has five rows, and as many again for each failure.
    """
    requests, k = plan.requests, len(plan.machines)
    tokens = requests.prompt_tokens + requests.output_tokens
    rows = np.bincount(plan.prefill_instance, weights=tokens + 5, minlength=k)
    moved = plan.decode_instance >= 0
    rows += np.bincount(plan.decode_instance[moved], weights=(tokens + 5)[moved], minlength=k)
    turns = np.bincount(changes.machine, minlength=k)
    most = rows.astype(np.int64) * (1 + turns) + turns
    return _spread(n_hosts, plan.machines.leader, most)


def _spread(n: int, which: NDArray[Any], values: ArrayLike) -> Ints:
    """int64[n] with values at some places, else 0."""
    found = np.zeros(n, np.int64)
    found[which] = values
    return found
