"""The metrics of a serving run: latencies and SLO, instances, and the network's share."""

from __future__ import annotations

from typing import Any

import numpy as np

from netsim.workloads.cost.compare import goodput_of_groups, up_shares_cold
from netsim.workloads.serving.data import DONE, DOWN, FIRST_TOKEN, PREFILL, ROLES, UP, ServingPlan
from netsim.workloads.serving.distribution import distribution
from netsim.workloads.serving.failures import SHRINK, Policy
from netsim.workloads.serving.outcome import Ints, Log, ServingTables, Table


def serving_metrics(plan: ServingPlan, found: ServingTables, log: Log) -> dict[str, Any]:
    """Return the summary's part "serving".

    Rates are over the span from the first arrival to the last end. Times are distributions (mean,
    p50, p90, p99, max) over requests; `tbt_ps` is over all gaps between tokens. A request meets the
    SLO if its first token came within `ttft_ps`, 99 % of its gaps are within `tbt_ps`, and none
    exceeds `stall_ps`: otherwise a freeze could hide among a hundred gaps. Unset limits count as
    met. Goodput is the share of requests that met the SLO times the arrival rate, so that the time
    to serve the last requests of a short run does not count.
    """
    table = found.requests
    done = table["end_ps"] >= 0
    first = int(table["arrival_ps"][0])
    last = int(table["end_ps"].max(initial=first))
    last = max(last, int(found.iterations["end_ps"].max(initial=first)))  # of a run that was cut
    seconds = max(last - first, 1) / 1e12
    figures: dict[str, Any] = {
        "requests": int(done.size),
        "requests_done": int(done.sum()),
        "restarts": int(table["restarts"].sum()),
        "output_tokens": int(table["generated_tokens"].sum()),
        "span_ps": last - first,
        "requests_per_s": float(done.sum() / seconds),
        "tokens_per_s": float(table["generated_tokens"].sum() / seconds),
        "offered_per_s": _offered(table["arrival_ps"]),
    }
    for name in ("queueing_ps", "ttft_ps", "second_token_ps"):
        figures[name] = distribution(table[name][table[name] >= 0])
    figures["tbt_ps"] = found.gaps.distribution()
    mean = table["tpot_ps"]
    figures["tpot_ps"] = distribution(np.rint(mean[~np.isnan(mean)]).astype(np.int64))
    latency = table["end_ps"] - table["arrival_ps"]
    figures["latency_ps"] = distribution(latency[done])
    figures["kv_ps"] = distribution(_between(table["first_token_ps"], table["kv_transfer_end_ps"]))
    came = figures["offered_per_s"] or done.size / seconds
    figures["slo"] = _slo(plan, table, came)
    figures["roles"] = _roles(plan, found.iterations, last - first)
    figures["network"] = _network(table, found.iterations)
    figures["failures"] = capacity_metrics(plan, log, first, last)
    return figures


def _offered(arrival_ps: Ints) -> float | None:
    """Requests that arrived per second; None if all arrived at once."""
    length = int(arrival_ps[-1] - arrival_ps[0])
    return (arrival_ps.size - 1) / (length / 1e12) if length else None


def _between(begin: Ints, end: Ints) -> Ints:
    """Return the differences where both times are known."""
    return (end - begin)[(begin >= 0) & (end >= 0)]


def met(plan: ServingPlan, table: Table) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """bool[n] each: whether a request is done and meets the limit on its first token, on 99 % of
    its gaps, and on the longest gap."""
    done = table["end_ps"] >= 0
    first, gaps, longest = done, done, done
    if plan.ttft_ps is not None:
        first = done & (table["ttft_ps"] <= plan.ttft_ps)
    if plan.tbt_ps is not None:
        gaps = done & (table["tbt_p99_ps"] <= plan.tbt_ps)
    if plan.stall_ps is not None:
        longest = done & (table["tbt_max_ps"] <= plan.stall_ps)
    return first, gaps, longest


def _slo(plan: ServingPlan, table: Table, per_second: float) -> dict[str, Any]:
    """SLO attainment and goodput."""
    first, gaps, longest = met(plan, table)
    n, every = max(1, first.size), first & gaps & longest
    stalled = 0
    if plan.stall_ps is not None:  # of those that are not done, too
        stalled = int((table["tbt_max_ps"] > plan.stall_ps).sum())
    return {
        "ttft_ps": plan.ttft_ps,
        "tbt_ps": plan.tbt_ps,
        "stall_ps": plan.stall_ps,
        "stalled": stalled,
        "ttft_attainment": float(first.sum() / n),
        "tbt_attainment": float(gaps.sum() / n),
        "attainment": float(every.sum() / n),
        "goodput_per_s": float(every.sum() / n * per_second),
    }


def _roles(plan: ServingPlan, iterations: Table, span_ps: int) -> dict[str, dict[str, Any]]:
    """Metrics of the instances of each role."""
    busy = np.zeros(len(plan.instances), np.int64)
    length = iterations["end_ps"] - iterations["start_ps"]
    np.add.at(busy, iterations["instance"], length)
    found = {}
    for role in np.unique(plan.instances.role).tolist():
        these, instances = iterations["role"] == ROLES[role], plan.instances.role == role
        time = int(length[these].sum())
        used = busy[instances] / max(1, span_ps)
        found[ROLES[role]] = {
            "instances": int(instances.sum()),
            "hosts": int(plan.instances.size[instances].sum()),
            "iterations": int(these.sum()),
            "iteration_ps": distribution(length[these]),
            "prompt_tokens": int(iterations["prompt_tokens"][these].sum()),
            "batch_mean": _mean(iterations["decode_batch"][these], length[these]),
            "utilization_mean": float(used.mean()),
            "utilization_max": float(used.max()),
            "network_share": int(iterations["network_ps"][these].sum()) / time if time else None,
        }
    return found


def _mean(values: Ints, weights: Ints) -> float | None:
    """Time-weighted mean; None without any time."""
    return float(np.average(values, weights=weights)) if weights.any() else None


def _network(table: Table, iterations: Table) -> dict[str, float | None]:
    """Network's share of iteration time, and of the gap after the first token."""
    whole = int((iterations["end_ps"] - iterations["start_ps"]).sum())
    gap = table["second_token_ps"]
    kv = np.maximum(0, table["kv_transfer_end_ps"] - table["first_token_ps"])
    some = (gap > 0) & (table["kv_transfer_end_ps"] >= 0)
    return {
        "iterations": int(iterations["network_ps"].sum()) / whole if whole else None,
        "second_token": float(kv[some].sum() / gap[some].sum()) if some.any() else None,
    }


def capacity_metrics(plan: ServingPlan, log: Log, since_ps: int, until_ps: int) -> dict[str, Any]:
    """Return the number of failures between two times and the mean share of GPUs in service.

    An instance that is down has no GPU in service, a shrunk one has one fewer. An instance without
    further requests counts as whole: the log has no transitions after its last request.
    """
    rows = np.flatnonzero((log["event"] == DOWN) | (log["event"] == UP))
    rows = rows[np.lexsort((rows, log["time_ps"][rows], log["host"][rows]))]
    host, time_ps = log["host"][rows], log["time_ps"][rows]
    instance = plan.instances.led_by(host)
    begin = np.clip(time_ps, since_ps, until_ps)
    end = np.maximum(begin, _over_ps(plan, log, until_ps)[instance])
    end[:-1][host[1:] == host[:-1]] = begin[1:][host[1:] == host[:-1]]
    lost = (plan.instances.size[instance] - log["count"][rows]).astype(float) @ (end - begin)
    inside = (log["event"][rows] == DOWN) & (time_ps >= since_ps) & (time_ps < until_ps)
    every = float(plan.instances.size.sum()) * max(until_ps - since_ps, 1)
    return {"count": int(inside.sum()), "available_gpu_share": 1 - float(lost) / every}


def _over_ps(plan: ServingPlan, log: Log, until_ps: int) -> Ints:
    """int64[k]: when each instance finished its last request, at most `until_ps`.

    A prefill instance finishes a request with its first token, others with its last.
    """
    k, instance = len(plan.instances), plan.instances.led_by(log["host"])
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
