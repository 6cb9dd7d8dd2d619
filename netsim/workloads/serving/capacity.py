"""What failures leave of the GPUs of a serving run: in a run, by its log, and by formula."""

from __future__ import annotations

from typing import Any

import numpy as np

from netsim.workloads.cost.availability import goodput_of_groups, up_shares_cold
from netsim.workloads.serving.data import DONE, DOWN, FIRST_TOKEN, PREFILL, UP, ServingPlan
from netsim.workloads.serving.failures import SHRINK, Policy
from netsim.workloads.serving.tokens import Ints, Log


def capacity_metrics(plan: ServingPlan, log: Log, since_ps: int, until_ps: int) -> dict[str, Any]:
    """How often instances failed between two times, and the mean share of all GPUs at work.

    An instance that is down has no GPU at work, one that shrank has one less. Whoever has nothing
    to do any more counts as whole: what becomes of such an instance is not in the log.
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
    """The instance that each of some leaders leads."""
    leader = plan.instances.leader
    order = np.argsort(leader)
    found: Ints = order[np.searchsorted(leader, hosts, sorter=order)]
    return found


def _over_ps(plan: ServingPlan, log: Log, until_ps: int) -> Ints:
    """int64[k]: when each instance was done with all that came to it, at most `until_ps`.

    A prefill instance is done with a request as its first token is told, others as its last one is.
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
    """The mean share of GPUs at work, of equal instances of `gpus` each; None where no formula is.

    Without spares an instance is an alternating renewal process: exact. With spares the wait for
        one is that of Palm's instance interference, which the time of a swap hardly changes. There
        is none for spares of instances that shrink.
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
