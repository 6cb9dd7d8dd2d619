"""The tables of requests and iterations, built from the log of a serving run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from netsim.workloads.inference import compute_ps
from netsim.workloads.serving.data import (
    DECODE_START,
    DONE,
    DOWN,
    FIRST_TOKEN,
    ITERATION,
    KV_TRANSFER_END,
    LOST,
    PREFILL_START,
    ROLES,
    UP,
    ServingPlan,
)
from netsim.workloads.serving.distribution import CountedValues, percentiles
from netsim.workloads.serving.tokens import Ints, Log, Tokens, stays, tokens

NEVER = np.iinfo(np.int64).max

Table = dict[str, NDArray[Any]]


@dataclass(frozen=True, eq=False)
class ServingTables:
    """Tables of requests and iterations, and the times between tokens of all requests."""

    requests: Table
    iterations: Table
    gaps: CountedValues


def outcome(plan: ServingPlan, log: Log, flow_start_ps: Ints) -> ServingTables:
    """Build the tables of a run; `flow_start_ps` is -1 for flows that have not started."""
    n = len(plan.requests)
    times = {
        "prefill_start_ps": _earliest(n, log, PREFILL_START),
        "first_token_ps": _earliest(n, log, FIRST_TOKEN),
        "kv_transfer_start_ps": kv_start(plan, flow_start_ps),
        "kv_transfer_end_ps": _earliest(n, log, KV_TRANSFER_END),
        "decode_start_ps": _earliest(n, log, DECODE_START),
        "end_ps": _earliest(n, log, DONE),
    }
    arrival = plan.requests.arrival_ps
    lost = log["request"][log["event"] == LOST]
    gaps, of_gaps = _gaps(n, log)
    requests: Table = {
        "request": np.arange(n),
        "arrival_ps": arrival,
        "prompt_tokens": plan.requests.prompt_tokens,
        "output_tokens": plan.requests.output_tokens,
        "prefill_instance": plan.prefill_instance,
        "decode_instance": plan.decode_instance,
        "kv_first_flow": np.where(plan.kv_flows > 0, plan.kv_first_flow, -1),
        "kv_flows": plan.kv_flows,
        **times,
        "queueing_ps": _since(arrival, times["prefill_start_ps"]),
        "ttft_ps": _since(arrival, times["first_token_ps"]),
        **of_gaps,
        "restarts": np.bincount(lost, minlength=n),
    }
    return ServingTables(requests, iteration_table(plan, log), gaps)


def _earliest(n: int, log: Log, what: int) -> Ints:
    """int64[n]: time of each request's first event of a kind; -1: none."""
    rows = log["event"] == what
    return _least(n, log["request"][rows], log["time_ps"][rows])


def _least(n: int, which: Ints, values: Ints) -> Ints:
    """int64[n]: the least of the values with each index; -1: none."""
    found = np.full(n, NEVER, np.int64)
    np.minimum.at(found, which, values)
    found[found == NEVER] = -1
    return found


def _since(begin: Ints, end: Ints) -> Ints:
    return np.where(end < 0, -1, end - begin)


def kv_start(plan: ServingPlan, flow_start_ps: Ints) -> Ints:
    """int64[n]: start of the first flow of each request's KV cache; -1: none."""
    n, many = len(plan.requests), plan.kv_flows
    request = np.repeat(np.arange(n), many)
    before = np.arange(request.size) - np.repeat(np.cumsum(many) - many, many)
    start = flow_start_ps[np.repeat(plan.kv_first_flow, many) + before]
    return _least(n, request[start >= 0], start[start >= 0])


def gaps_of(n: int, log: Log) -> CountedValues:
    """Return the times between tokens of all n requests."""
    return _gaps(n, log)[0]


def _gaps(n: int, log: Log) -> tuple[CountedValues, Table]:
    names = ("generated_tokens", "second_token_ps", "tbt_p50_ps", "tbt_p99_ps", "tbt_max_ps")
    table: Table = {name: np.full(n, -1, np.int64) for name in names}
    table["tpot_ps"] = np.full(n, np.nan)
    gaps = CountedValues()
    for part in tokens(n, log, stays(log)):
        of_part, these = _gaps_of(part)
        gaps.add(these)
        for name, column in of_part.items():
            table[name][part.first : part.end] = column
    return gaps, table


def _gaps_of(part: Tokens) -> tuple[Table, Ints]:
    """Return columns on the gaps of some requests, and all of these gaps."""
    k = part.end - part.first
    request = part.request - part.first
    told = np.bincount(request, minlength=k)
    many = np.maximum(told - 1, 0)
    inside = request[1:] == request[:-1]
    gap, of = np.diff(part.time_ps)[inside], request[1:][inside]
    first = np.cumsum(many) - many
    some = many > 0
    second = np.full(k, -1, np.int64)
    second[some] = gap[first[some]]
    rising = gap[np.lexsort((gap, of))]
    p50, p99, largest = percentiles(rising, many, (0.5, 0.99, 1.0))
    with np.errstate(invalid="ignore"):
        mean = np.bincount(of, gap, k) / np.where(some, many, np.nan)
    table: Table = {
        "generated_tokens": told,
        "second_token_ps": second,
        "tpot_ps": mean,
        "tbt_p50_ps": p50,
        "tbt_p99_ps": p99,
        "tbt_max_ps": largest,
    }
    return table, gap


def iteration_table(plan: ServingPlan, log: Log) -> Table:
    """Return one row per iteration, grouped by instance."""
    instance = plan.instances.led_by(log["host"])
    rows = np.flatnonzero(log["event"] == ITERATION)
    rows = rows[np.lexsort((log["time_ps"][rows], instance[rows]))]
    table: Table = {
        "instance": instance[rows],
        "host": log["host"][rows],
        "role": np.array(ROLES)[plan.instances.role[instance[rows]]],
        "start_ps": log["start_ps"][rows],
        "end_ps": log["time_ps"][rows],
        "decode_batch": log["decode_batch"][rows],
        "prompt_tokens": log["count"][rows],
        "context_tokens": log["context_tokens"][rows],
        "attention_pairs": log["attention_pairs"][rows],
    }
    return {**table, "network_ps": _network(plan, table, _gpus(plan, log, table))}


def _gpus(plan: ServingPlan, log: Log, table: Table) -> Ints:
    """int64[n]: GPUs in service at the start of each iteration."""
    found = plan.instances.size[table["instance"]]
    changes = np.flatnonzero(np.isin(log["event"], (DOWN, UP)))
    for host in np.unique(log["host"][changes]).tolist():
        of = changes[log["host"][changes] == host]
        here = np.flatnonzero(table["host"] == host)
        last = np.searchsorted(log["time_ps"][of], table["start_ps"][here], side="right") - 1
        found[here[last >= 0]] = log["count"][of][last[last >= 0]]
    return found


def _network(plan: ServingPlan, table: Table, gpus: Ints) -> Ints:
    """int64[n]: communication not overlapped with compute in each iteration.

    With fewer GPUs, an instance computes proportionally longer.
    """
    role, size = (
        column[table["instance"]] for column in (plan.instances.role, plan.instances.size)
    )
    names = ("prompt_tokens", "decode_batch", "context_tokens", "attention_pairs")
    rows = zip(role.tolist(), *(table[name].tolist() for name in names), strict=True)
    computing = [
        compute_ps(plan.costs[of], prompt + batch, pairs, batch, context)
        for of, prompt, batch, context, pairs in rows
    ]
    whole = table["end_ps"] - table["start_ps"]
    took = np.array(computing, np.int64) * size // np.maximum(gpus, 1)
    found: Ints = np.maximum(0, whole - took)
    return found
