"""What failures leave of the GPUs of a serving run: in a run, by its log, and by formula."""

from __future__ import annotations

from typing import Any

import numpy as np

from netsim.economics.availability import goodput_of_groups, up_shares_cold
from netsim.model.serving import DOWN, UP, ServingPlan
from netsim.serving.failures import SHRINK, Policy
from netsim.serving.tokens import Log


def capacity_figures(plan: ServingPlan, log: Log, since_ps: int, until_ps: int) -> dict[str, Any]:
    """How often machines failed between two times, and the mean share of all GPUs at work.

    A machine that is down has no GPU at work, one that shrank has one less. Changes of machines
    that have nothing to do any more are not in the log.
    """
    rows = np.flatnonzero((log["what"] == DOWN) | (log["what"] == UP))
    rows = rows[np.lexsort((rows, log["time_ps"][rows], log["host"][rows]))]
    host, time_ps = log["host"][rows], log["time_ps"][rows]
    size = dict(zip(plan.machines.leader.tolist(), plan.machines.size.tolist(), strict=True))
    whole = np.array([size[one] for one in host.tolist()], np.int64)
    begin = np.clip(time_ps, since_ps, until_ps)
    end = np.full(rows.size, until_ps)
    end[:-1][host[1:] == host[:-1]] = begin[1:][host[1:] == host[:-1]]
    lost = float(((whole - log["tokens"][rows]) * (end - begin)).sum())
    inside = (log["what"][rows] == DOWN) & (time_ps >= since_ps) & (time_ps < until_ps)
    every = float(plan.machines.size.sum()) * max(until_ps - since_ps, 1)
    return {"count": int(inside.sum()), "capacity": 1 - lost / every}


def expected_capacity(policy: Policy, gpus: int, machines: int) -> float | None:
    """The mean share of GPUs at work, of equal machines of `gpus` each; None where no formula is.

    Without spares a machine is an alternating renewal process: exact. With spares the wait for one
    is that of Palm's machine interference, which the time of a swap hardly changes. There is none
    for spares of machines that shrink.
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
    up = up_shares_cold(machines, policy.spares, mean_up_ps, max(policy.repair_ps, 1))
    return 1 / (1 / goodput_of_groups(up, machines, 1) + policy.swap_ps / mean_up_ps)
