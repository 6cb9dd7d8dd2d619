"""The metrics of a serving run: latencies and SLO, instances, and the network's share."""

from __future__ import annotations

from typing import Any

import numpy as np

from netsim.workloads.serving.capacity import capacity_metrics
from netsim.workloads.serving.data import ROLES, ServingPlan
from netsim.workloads.serving.distribution import distribution
from netsim.workloads.serving.outcome import ServingTables, Table
from netsim.workloads.serving.tokens import Ints, Log


def serving_metrics(plan: ServingPlan, found: ServingTables, log: Log) -> dict[str, Any]:
    """Return the summary's part "serving".

    Rates are over the span from the first arrival to the last end. Times are distributions (mean,
    p50, p90, p99, max) over requests; `tbt_ps` is over all gaps between tokens. A request meets the
    SLO if its first token came within `ttft_ps`, 99 % of its gaps are within `tbt_ps`, and none
    exceeds `stall_ps`: otherwise a freeze could hide among a hundred gaps. Limits that are not set
    are met. Goodput is the share of requests that met the SLO times the arrival rate, so that the
    time to serve the last requests of a short run does not count.
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
