"""GPUs that failures leave in service: measured from a run's log, and by formula."""

from __future__ import annotations

from typing import Any

import numpy as np

from netsim.workloads.cost.availability import goodput_of_groups, up_shares_cold
from netsim.workloads.serving.data import DONE, DOWN, FIRST_TOKEN, PREFILL, UP, ServingPlan
from netsim.workloads.serving.failures import SHRINK, Policy
from netsim.workloads.serving.tokens import Ints, Log


def capacity_metrics(plan: ServingPlan, log: Log, since_ps: int, until_ps: int) -> dict[str, Any]:
    """Return the number of failures between two times and the mean share of GPUs in service.

    An instance that is down has no GPU in service, a shrunk one has one fewer. An instance without
    further requests counts as whole: the log has no transitions after its last request.
    """
    rows = np.flatnonzero((log["event"] == DOWN) | (log["event"] == UP))
    rows = rows[np.lexsort((rows, log["time_ps"][rows], log["host"][rows]))]
    host, time_ps = log["host"][rows], log["time_ps"][rows]
    instance = _instance_of(plan, host)
    begin = np.clip(time_ps, since_ps, until_ps)
    end = np.maximum(begin, _over_ps(plan, log, until_ps)[instance])
    end[:-1][host[1:] == host[:-1]] = begin[1:][host[1:] == host[:-1]]
    lost = (plan.instances.size[instance] - log["count"][rows]).astype(float) @ (end - begin)
    inside = (log["event"][rows] == DOWN) & (time_ps >= since_ps) & (time_ps < until_ps)
    every = float(plan.instances.size.sum()) * max(until_ps - since_ps, 1)
    return {"count": int(inside.sum()), "available_gpu_share": 1 - float(lost) / every}


def _instance_of(plan: ServingPlan, hosts: Ints) -> Ints:
    """Return the instance that each leader host leads."""
    leader = plan.instances.leader
    order = np.argsort(leader)
    found: Ints = order[np.searchsorted(leader, hosts, sorter=order)]
    return found


def _over_ps(plan: ServingPlan, log: Log, until_ps: int) -> Ints:
    """int64[k]: when each instance finished its last request, at most `until_ps`.

    A prefill instance finishes a request with its first token, others with its last.
    """
    k, instance = len(plan.instances), _instance_of(plan, log["host"])
    comes = np.bincount(plan.prefill_instance, minlength=k)
    comes += np.bincount(plan.decode_instance[plan.decode_instance >= 0], minlength=k)
    leaves = np.where(plan.instances.role == PREFILL, FIRST_TOKEN, DONE)
    rows = np.flatnonzero(log["event"] == leaves[instance])
    last_ps = np.zeros(k, np.int64)
    np.maximum.at(last_ps, instance[rows], log["time_ps"][rows])
    over = np.bincount(instance[rows], minlength=k) == comes
    return np.where(over, np.minimum(last_ps, until_ps), until_ps)


def expected_capacity(policy: Policy, gpus: int, instances: int) -> float | None:
    """Return the mean share of GPUs in service for equal instances of `gpus` GPUs each.

    Without spares an instance is an alternating renewal process, and the result is exact. With
    spares, the wait for one is that of Palm's machine interference model, which ignores the swap
    time. Returns None for spares with shrinking instances: there is no formula.
    """
    mean_up_ps = policy.mtbf_ps / gpus
    if policy.spares == 0:
        short_ps = float(policy.repair_ps + policy.swap_ps)
        working_ps = mean_up_ps
        if policy.on_failure == SHRINK and gpus > 1:
            working_ps += (gpus - 1) / gpus * max(short_ps - policy.restart_ps, 0)
        return working_ps / (mean_up_ps + short_ps)
    if policy.on_failure == SHRINK:
        return None
    up = up_shares_cold(instances, policy.spares, mean_up_ps, max(policy.repair_ps, 1))
    return 1 / (1 / goodput_of_groups(up, instances, 1) + policy.swap_ps / mean_up_ps)
