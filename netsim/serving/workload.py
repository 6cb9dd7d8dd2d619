"""The workload of a serving run: a plan's tasks and flows, and what leaders know as it begins."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from netsim.flows import JOIN, SEND, Workload
from netsim.inference import IterationCost, kv_bytes_of_token
from netsim.model.serving import DECODE, PREFILL, ServingPlan
from netsim.serving.all_reduces import Slots, add_slots, clock_ps, left_out_ps
from netsim.serving.changes import Changes
from netsim.serving.plan import Group
from netsim.serving.pool import Reads, add_reads
from netsim.serving.shares import shares
from netsim.serving.state import CHANGE, KV_SENT, REQUEST, TICKS, WHOLE
from netsim.serving.tables import (
    CONTROL,
    Tables,
    Transfer,
    Transferred,
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
    requests = plan.requests
    arrivals = add_arrivals(tables, leader[plan.first_machine], requests.arrival_ps)
    _describe(tables, plan, arrivals, np.arange(len(requests)))
    tables.set("left", arrivals, requests.prompt_tokens)
    tables.set("kv", arrivals, -1)
    moved = np.flatnonzero(plan.second_machine >= 0)
    transferred = None
    if moved.size:
        transferred = _transfers(tables, plan, groups, moved, sending)
        _describe(tables, plan, transferred.there, moved)
        tables.set("told", transferred.there, 1)
        tables.set("role", transferred.starts[:, :, : transferred.own.shape[2]], KV_SENT)
        tables.set("sending", arrivals[moved], transferred.own[0].size)
        plan = replace(
            plan,
            kv_first_flow=_spread(len(requests), moved, transferred.flows[:, 0, 0]),
            kv_flows=_spread(len(requests), moved, transferred.flows[0].size),
        )
    listed = _listed(tables, plan, groups, sending)
    reads = _reads(tables, plan, groups, sending)
    if not tables.n_flows:
        _one_flow(tables, plan, n_hosts)
    turns = tables.add_tasks(JOIN, leader[changes.machine], held=True)
    for name, values in (("role", CHANGE), ("of", changes.becomes), ("at_ps", changes.at_ps)):
        tables.set(name, turns, values)
    tasks = tables.task_table()
    places = tasks.places()
    if transferred is not None:
        tables.set("kv", arrivals[moved], places[transferred.starts[:, 0, 0]])
        tables.set("of", transferred.own, places[arrivals[moved]][:, None, None])
    host_state = _leaders(plan, groups, n_hosts)
    host_state["change"], host_state["changes_end"] = _turns(plan, changes, places[turns], n_hosts)
    if transferred is not None:
        host_state["starts"] = transferred.starts.shape[2]
    host_state["n_parts"] = _at(plan.machines.leader, plan.machines.role == PREFILL, n_hosts)
    host_state["n_parts"] *= sending.kv_parts
    host_state |= _of_gpus(plan, groups, sending, listed, places, n_hosts)
    host_state |= _of_pool(tables, plan, groups, sending, (reads, places, n_hosts))
    return Workload(
        tables.flow_table(sending.classes),
        tasks,
        tables.task_state(),
        host_state,
        serving=plan,
        log_rows=log_rows(plan, changes, n_hosts),
    )


def _describe(tables: Tables, plan: ServingPlan, tasks: Ints, which: Ints) -> None:
    """What a request is, at one of its leaders."""
    tables.set("role", tasks, REQUEST)
    tables.set("request", tasks, which)
    tables.set("prompt", tasks, plan.requests.prompt_tokens[which])
    tables.set("output", tasks, plan.requests.output_tokens[which])
    tables.set("next", tasks, -1)


def _transfers(
    tables: Tables,
    plan: ServingPlan,
    groups: Mapping[int, Group],
    moved: Ints,
    sending: Sending,
) -> Transferred:
    machines = plan.machines
    ends = []
    for machine, role in ((plan.first_machine, PREFILL), (plan.second_machine, DECODE)):
        gpus = np.arange(groups[role].deployment.tp)
        ends.append(machines.hosts[machines.hosts_ptr[machine[moved]][:, None] + gpus])
    of_token = kv_bytes_of_token(groups[PREFILL].deployment)
    n_bytes = np.ceil(plan.requests.prompt_tokens[moved] * of_token).astype(np.int64)
    return add_transfers(
        tables,
        Transfer(
            parts=sending.kv_parts,
            control_bytes=sending.control_bytes,
            from_hosts=ends[0].astype(np.int64),
            to_hosts=ends[1].astype(np.int64),
            size_bytes=n_bytes,
            shares=shares(ends[0].shape[1], ends[1].shape[1]),
        ),
    )


def _listed(
    tables: Tables, plan: ServingPlan, groups: Mapping[int, Group], sending: Sending
) -> dict[int, Mapping[str, Ints]]:
    """The slots of each role's machines, as fields of their hosts that are tasks by number."""
    return {
        role: add_slots(tables, groups[role], _hosts_of(plan, role), slots)
        for role, slots in sending.slots.items()
    }


def _reads(
    tables: Tables, plan: ServingPlan, groups: Mapping[int, Group], sending: Sending
) -> dict[int, Reads]:
    """The reads of each role's machines that read from a pool."""
    found = {}
    for role, slots in sending.slots.items():
        group, pool = groups[role], groups[role].pool
        if pool is not None:
            one = group.deployment
            n_bytes = pool.weights(one) + pool.token(one) * most_context(group, plan, slots)
            asked = sending.control_bytes + TICKS
            whole = max(1, round(n_bytes * one.tp))
            hosts = _hosts_of(plan, role)
            found[role] = add_reads(tables, hosts, sending.pool, whole, slots.slots, asked)
    return found


def most_context(group: Group, plan: ServingPlan, slots: Slots) -> int:
    """Tokens of all contexts of an iteration, at most."""
    longest = int((plan.requests.prompt_tokens + plan.requests.output_tokens).max())
    return max(1, min(slots.max_batch * longest, group.capacity_tokens))


def _of_pool(
    tables: Tables,
    plan: ServingPlan,
    groups: Mapping[int, Group],
    sending: Sending,
    listed: tuple[Mapping[int, Reads], Ints, int],
) -> dict[str, Any]:
    """What GPUs, leaders and hosts of the pool know of what is pooled."""
    reads, places, n_hosts = listed
    names = ("pooled", "asks", "n_asks", "most_context")
    found: dict[str, Any] = {name: np.zeros(n_hosts, np.int64) for name in names}
    found |= {name: np.zeros(n_hosts) for name in ("reading_ps", "token_reading_ps")}
    for role, group in groups.items():
        pool, hosts = group.pool, _hosts_of(plan, role)
        if pool is None:
            continue
        found["reading_ps"][hosts] = pool.reading_ps(pool.weights(group.deployment))
        found["token_reading_ps"][hosts] = pool.reading_ps(pool.token(group.deployment))
        if role in reads:
            found["pooled"][hosts] = 1
            found["asks"][hosts[:, 0]] = places[reads[role].asks]
            found["n_asks"][hosts[:, 0]] = sending.pool.size
            if pool.token(group.deployment):
                most = most_context(group, plan, sending.slots[role])
                found["most_context"][hosts[:, 0]] = most
            tables.set("of", reads[role].asked, places[reads[role].sends])
    return found


def _hosts_of(plan: ServingPlan, role: int) -> Ints:
    """int64[k, tp]: the hosts of each machine of a role."""
    machines = np.flatnonzero(plan.machines.role == role).tolist()
    return np.stack([plan.machines.of(machine) for machine in machines]).astype(np.int64)


def _of_gpus(
    plan: ServingPlan,
    groups: Mapping[int, Group],
    sending: Sending,
    listed: Mapping[int, Mapping[str, Ints]],
    places: Ints,
    n_hosts: int,
) -> dict[str, Any]:
    """What each GPU knows of its machine's slots."""
    found: dict[str, Any] = {}
    for role, fields in listed.items():
        hosts, slots, group = _hosts_of(plan, role), sending.slots[role], groups[role]
        same = {
            "n_slots": slots.slots,
            "n_groups": slots.groups,
            "left_out_ps": left_out_ps(group, slots),
            "clock_ps": clock_ps(group, slots, plan.requests),
            "most_rows": slots.max_rows,
        }
        counts = ("reduce_tasks", "reduce_begin")
        columns = {name: one if name in counts else places[one] for name, one in fields.items()}
        for name, values in {**same, **columns}.items():
            found.setdefault(name, np.zeros(n_hosts, np.int64))[hosts] = values
    return found


def _one_flow(tables: Tables, plan: ServingPlan, n_hosts: int) -> None:
    """A run is of flows: where there are none there is one that is never started."""
    src = int(plan.machines.leader[0])
    flow = tables.add_flows([src], [(src + 1) % n_hosts], 1, CONTROL)
    tables.add_tasks(SEND, [src], flow=flow, held=True)


def _leaders(plan: ServingPlan, groups: Mapping[int, Group], n_hosts: int) -> dict[str, Any]:
    """The fields of leaders' records, which are 0 at all other hosts."""
    machines = plan.machines
    leader, roles = machines.leader, machines.role.tolist()
    group = [groups[role] for role in roles]
    column: dict[str, Any] = {
        "role": machines.role + 1,
        "state": np.full(len(machines), WHOLE),
        "room": np.array([one.capacity_tokens for one in group]),
        "shrunk_room": np.array([one.shrunk_tokens for one in group]),
        "size": machines.size,
        "causal": np.array([one.causal for one in group]),
        "open": _open(plan),
        **{name: np.full(len(machines), -1) for name in LISTS},
    }
    costs = [one.cost for one in group]
    for name in IterationCost._fields:
        column[f"cost_{name}"] = np.array([float(getattr(cost, name)) for cost in costs])
    return {name: _at(leader, values, n_hosts) for name, values in column.items()}


def _open(plan: ServingPlan) -> Ints:
    """int64[k]: how many requests come to each machine."""
    which = [plan.first_machine, plan.second_machine[plan.second_machine >= 0]]
    return np.bincount(np.concatenate(which), minlength=len(plan.machines))


def _turns(plan: ServingPlan, changes: Changes, places: Ints, n_hosts: int) -> tuple[Ints, Ints]:
    """Of each leader, the place of its machine's first change, and the one behind the last."""
    counts = np.bincount(changes.machine, minlength=len(plan.machines))
    known, at = np.unique(changes.machine, return_index=True)
    first, leader = _spread(len(plan.machines), known, places[at]), plan.machines.leader
    return _at(leader, first, n_hosts), _at(leader, first + counts, n_hosts)


def log_rows(plan: ServingPlan, changes: Changes, n_hosts: int) -> Ints:
    """int64[n_hosts]: rows of the log that each host may have.

    An iteration computes one token at least, and what a machine that fails had computed it computes
    once more. A request has five rows, and as many again for each failure.
    """
    requests, k = plan.requests, len(plan.machines)
    tokens = requests.prompt_tokens + requests.output_tokens
    rows = np.bincount(plan.first_machine, weights=tokens + 5, minlength=k)
    moved = plan.second_machine >= 0
    rows += np.bincount(plan.second_machine[moved], weights=(tokens + 5)[moved], minlength=k)
    turns = np.bincount(changes.machine, minlength=k)
    return _at(plan.machines.leader, rows.astype(np.int64) * (1 + turns) + turns, n_hosts)


def _at(hosts: NDArray[np.int32], values: ArrayLike, n_hosts: int) -> NDArray[Any]:
    """A column of all hosts with a value for each of some."""
    given = np.asarray(values)
    found = np.zeros(n_hosts, np.float64 if given.dtype.kind == "f" else np.int64)
    found[hosts] = given
    return found


def _spread(n: int, which: Ints, values: ArrayLike) -> Ints:
    """int64[n] with values at some places, else 0."""
    found = np.zeros(n, np.int64)
    found[which] = values
    return found
