"""Tables of requests and iterations, times of tokens, and metrics, from the log of a serving run.

The log (`LOG` of `plan.py`) has the iterations, and when a request entered and left the decode
batch of an instance: it gets a token at the end of each iteration in between. A FIRST_TOKEN row
adds the token at the end of a prefill.

The audit checks that each request is served once, with every token it asked for. A percentile is
the smallest value that at least a given share of the values does not exceed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from netsim.errors import InputError, RunError
from netsim.frozen import frozen
from netsim.model.columns import Ints, rows_of
from netsim.workloads.cost.costs import SHRINK, goodput_of_groups, up_shares_cold
from netsim.workloads.inference.deployment import compute_ps
from netsim.workloads.serving.failures import Policy
from netsim.workloads.serving.plan import (
    DECODE_START,
    DONE,
    DOWN,
    EVENTS,
    FIRST_TOKEN,
    ITERATION,
    KV_TRANSFER_END,
    LOG,
    LOST,
    PREFILL,
    PREFILL_START,
    ROLES,
    UP,
    ServingPlan,
)

Table = dict[str, NDArray[Any]]
Log = Mapping[str, Ints]  # "host", "time_ps" and those of `LOG`; a host's rows are in order
AT_ONCE = 1 << 22  # tokens processed at once

NEVER = np.iinfo(np.int64).max

SHARES = {"p50": 0.5, "p90": 0.9, "p99": 0.99}


def log_of(table: Any) -> Log:
    """Return the columns of a log. Raises InputError if one is missing or not integer."""
    names = ("host", "time_ps", *LOG)
    for name in names:
        if name not in table.columns or not table[name].dtype.is_integer():
            raise InputError("the log has no integer column of this name", key=name)
    return {name: table[name].fill_null(-1).to_numpy() for name in names}


# --- times of tokens ------------------------------------------------------------------------------


class Stays(NamedTuple):
    """Intervals of decoding, sorted by request: iterations `begin` to `end` - 1 of `ends_ps`, which
    holds the ends of all iterations, grouped by instance."""

    request: Ints
    begin: Ints
    end: Ints
    ends_ps: Ints


def stays(log: Log) -> Stays:
    """Return the decoding intervals of all requests; open ones last until the log ends."""
    host, event, time = log["host"], log["event"], log["time_ps"]
    iteration = np.flatnonzero(event == ITERATION)
    iteration = iteration[np.lexsort((time[iteration], host[iteration]))]
    ends = time[iteration]
    rows = np.flatnonzero(np.isin(event, (DECODE_START, DONE, LOST)))
    rows = rows[np.lexsort((rows, time[rows], log["request"][rows]))]
    at = np.flatnonzero(event[rows] == DECODE_START)
    joined = rows[at]
    then = np.minimum(at + 1, rows.size - 1)
    left = rows[then]
    goes_on = (then == at) | (log["request"][left] != log["request"][joined])
    until = np.where(goes_on, NEVER, time[left])
    begin, end = np.zeros((2, joined.size), np.int64)
    for one in np.unique(host[joined]).tolist():
        a, b = np.searchsorted(host[iteration], [one, one + 1])
        here = host[joined] == one
        begin[here] = a + np.searchsorted(ends[a:b], time[joined[here]], side="right")
        end[here] = a + np.searchsorted(ends[a:b], until[here], side="right")
    return Stays(log["request"][joined], begin, end, ends)


class Tokens(NamedTuple):
    """Tokens of requests `first` to `end` - 1: int64[m] each, sorted by request and time."""

    first: int
    end: int
    request: Ints
    time_ps: Ints


def tokens(n_requests: int, log: Log, found: Stays, at_once: int = AT_ONCE) -> Iterator[Tokens]:
    """Yield all tokens in parts of about `at_once`, at least one request each. Requests without
    tokens are also in the range of `first` and `end`."""
    rows = np.flatnonzero(log["event"] == FIRST_TOKEN)
    rows = rows[np.argsort(log["request"][rows], kind="stable")]
    prefilled, at = log["request"][rows], log["time_ps"][rows]
    length = found.end - found.begin
    told = np.bincount(prefilled, minlength=n_requests).astype(np.int64)
    told += np.bincount(found.request, length, n_requests).astype(np.int64)
    cuts = np.flatnonzero(np.diff(np.cumsum(told) // at_once)) + 1
    for first, end in pairwise([0, *cuts.tolist(), n_requests]):
        a, b = np.searchsorted(prefilled, [first, end])
        c, d = np.searchsorted(found.request, [first, end])
        decoded = found.ends_ps[rows_of(found.begin[c:d], length[c:d])]
        request = np.concatenate([prefilled[a:b], np.repeat(found.request[c:d], length[c:d])])
        time = np.concatenate([at[a:b], decoded])
        order = np.lexsort((time, request))
        yield Tokens(first, end, request[order], time[order])


def gaps_of(n: int, log: Log) -> tuple[Ints, Ints]:
    """Return the distinct times between tokens of all n requests, ascending, and their counts."""
    return _gaps(n, log)[0]


def _gaps(n: int, log: Log) -> tuple[tuple[Ints, Ints], Table]:
    """Return the result of `gaps_of`, and columns on the gaps of each request."""
    columns: list[Table] = []
    counted: list[tuple[Ints, Ints]] = []
    for part in tokens(n, log, stays(log)):
        of_part, gaps = _gaps_of(part)
        columns.append(of_part)
        counted.append(np.unique(gaps, return_counts=True))
    values, counts = (np.concatenate(of) for of in zip(*counted, strict=True))
    every, which = np.unique(values, return_inverse=True)
    counts = np.bincount(which.reshape(-1), counts, every.size).astype(np.int64)
    table = {name: np.concatenate([of[name] for of in columns]) for name in columns[0]}
    return (every, counts), table


def _gaps_of(part: Tokens) -> tuple[Table, Ints]:
    """Return columns on the gaps of some requests, and all of these gaps."""
    k = part.end - part.first
    request = part.request - part.first
    told = np.bincount(request, minlength=k)
    many = np.maximum(told - 1, 0)
    inside = request[1:] == request[:-1]
    gap, of = np.diff(part.time_ps)[inside], request[1:][inside]
    some = many > 0
    second = np.full(k, -1, np.int64)
    second[some] = gap[(np.cumsum(many) - many)[some]]
    rising = gap[np.lexsort((gap, of))]
    p50, p99, largest = percentiles(rising, many, (0.5, 0.99, 1.0))
    with np.errstate(invalid="ignore"):
        mean = np.bincount(of, gap, k) / np.where(some, many, np.nan)
    table: Table = {
        "generated_tokens": told,
        "second_token_ps": second,
        "tbt_p50_ps": p50,
        "tbt_p99_ps": p99,
        "tbt_max_ps": largest,
        "tpot_ps": mean,
    }
    return table, gap


def percentiles(values: Ints, count: Ints, shares: Sequence[float]) -> list[Ints]:
    """Return percentiles of k groups, one int64[k] per share; -1 for empty groups. `values` holds
    the groups one after another, sorted within each; `count`, int64[k], their sizes."""
    first, some = np.cumsum(count) - count, count > 0
    found = np.full((len(shares), count.size), -1, np.int64)
    for at, share in zip(found, shares, strict=True):
        at[some] = values[first[some] + _rank(count[some], share) - 1]
    return list(found)


def _rank(count: Ints, share: float) -> Ints:
    """Return the rank, 1 to `count`, of a percentile."""
    # Tolerate rounding: 0.99 * 100 may exceed 99 in double precision.
    return np.clip(np.ceil(share * count - 1e-9 * count).astype(np.int64), 1, count)


def distribution(values: Ints, counts: Ints | None = None) -> dict[str, float | None]:
    """Return mean, percentiles and maximum; all None without values. With `counts`, the values are
    distinct and ascending."""
    if counts is None:
        values, counts = np.unique(values, return_counts=True)
    if not values.size:
        return dict.fromkeys(("mean", *SHARES, "max"))
    upto = np.cumsum(counts)
    mean = float((values * (counts / upto[-1])).sum())
    places = [np.searchsorted(upto, _rank(upto[-1:], share))[0] for share in SHARES.values()]
    told = dict(zip(SHARES, values[places].tolist(), strict=True))
    return {"mean": mean, **told, "max": int(values[-1])}


# --- tables ---------------------------------------------------------------------------------------


@frozen(eq=False)
class ServingTables:
    """Tables of requests and iterations, and the times between tokens of all requests: distinct
    values and their counts."""

    requests: Table
    iterations: Table
    gaps: tuple[Ints, Ints]


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
    """int64[n]: the smallest of the values with each index; -1: none."""
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
    start = flow_start_ps[rows_of(plan.kv_first_flow, many)]
    return _least(n, request[start >= 0], start[start >= 0])


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
    """int64[n]: communication not overlapped with compute in each iteration. With fewer GPUs, an
    instance computes proportionally longer."""
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
    return np.asarray(np.maximum(0, whole - took))


BEFORE_END = (PREFILL_START, FIRST_TOKEN, DECODE_START, LOST)


def audit(requests: Table, log: Log, *, complete: bool) -> dict[str, int]:
    """Count requests and tokens at the end of a run, in the table of `outcome` and its log.

    Raises RunError if a request is lost, is done twice, continues after its end, or got a wrong
    number of tokens.
    """
    n = requests["request"].size
    event, request = log["event"], log["request"]
    rows = np.flatnonzero((request < 0) & np.isin(event, (*BEFORE_END, DONE)))
    if rows.size:
        raise RunError(f"row {rows[0]} of the serving log names no request (netsim bug)")
    done = np.bincount(request[event == DONE], minlength=n)
    started = np.bincount(request[event == PREFILL_START], minlength=n) > 0
    _refuse(done > 1, "was served twice")
    _refuse((done == 1) & ~started, "is done but never started")
    generated, asked = requests["generated_tokens"], requests["output_tokens"]
    _refuse((done == 1) & (generated != asked), "got {} tokens of {}", generated, asked)
    unfinished = (done == 0) & (generated >= asked)
    _refuse(unfinished, "got {} tokens of {} but is not done", generated, asked)
    logged = np.zeros(n, np.int64)
    logged[request[event == DONE]] = log["count"][event == DONE]
    _refuse((done == 1) & (logged != asked), "ended with {} tokens of {}", logged, asked)
    for kind in BEFORE_END:
        rows = np.flatnonzero(event == kind)
        end = requests["end_ps"][request[rows]]
        late = np.zeros(n, bool)
        late[request[rows[(end >= 0) & (log["time_ps"][rows] > end)]]] = True
        _refuse(late, f'has an event "{EVENTS[kind]}" after its end')
    if complete:
        _refuse(done == 0, "is lost: the run is complete, the request is not")
    return {
        "done": int(done.sum()),
        "under_way": int((started & (done == 0)).sum()),
        "waiting": int((~started).sum()),
        "tokens": int(generated.sum()),
    }


def _refuse(bad: np.ndarray, message: str, *columns: Ints) -> None:
    for request in np.flatnonzero(bad)[:1].tolist():
        problem = message.format(*(int(column[request]) for column in columns))
        raise RunError(f"request {request} {problem} (netsim bug)")


# --- metrics --------------------------------------------------------------------------------------


def serving_metrics(plan: ServingPlan, found: ServingTables, log: Log) -> dict[str, Any]:
    """Return the summary's part "serving".

    "Results" in `docs/serving.md` defines the metrics. Unset limits count as met. Goodput is the
    share of requests that met the SLO times the arrival rate, so that the time to serve the last
    requests of a short run does not count.
    """
    table = found.requests
    done = table["end_ps"] >= 0
    arrival_ps = table["arrival_ps"]
    first, arriving_ps = int(arrival_ps[0]), int(arrival_ps[-1] - arrival_ps[0])
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
        "offered_per_s": (done.size - 1) / (arriving_ps / 1e12) if arriving_ps else None,
    }
    for name in ("queueing_ps", "ttft_ps", "second_token_ps"):
        figures[name] = distribution(table[name][table[name] >= 0])
    figures["tbt_ps"] = distribution(*found.gaps)
    mean = table["tpot_ps"]
    figures["tpot_ps"] = distribution(np.rint(mean[~np.isnan(mean)]).astype(np.int64))
    figures["latency_ps"] = distribution((table["end_ps"] - arrival_ps)[done])
    begin, end = table["first_token_ps"], table["kv_transfer_end_ps"]
    figures["kv_ps"] = distribution((end - begin)[(begin >= 0) & (end >= 0)])
    came = figures["offered_per_s"] or done.size / seconds
    figures["slo"] = _slo(plan, table, came)
    figures["roles"] = _roles(plan, found.iterations, last - first)
    figures["network"] = _network_shares(table, found.iterations)
    figures["failures"] = capacity_metrics(plan, log, first, last)
    return figures


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
    first, gaps, longest = met(plan, table)
    n, every = max(1, first.size), first & gaps & longest
    stalled = 0
    if plan.stall_ps is not None:  # also of unfinished requests
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
    busy = np.zeros(len(plan.instances), np.int64)
    length = iterations["end_ps"] - iterations["start_ps"]
    np.add.at(busy, iterations["instance"], length)
    found = {}
    for role in np.unique(plan.instances.role).tolist():
        these, instances = iterations["role"] == ROLES[role], plan.instances.role == role
        time, batch = int(length[these].sum()), iterations["decode_batch"][these]
        used = busy[instances] / max(1, span_ps)
        found[ROLES[role]] = {
            "instances": int(instances.sum()),
            "hosts": int(plan.instances.size[instances].sum()),
            "iterations": int(these.sum()),
            "iteration_ps": distribution(length[these]),
            "prompt_tokens": int(iterations["prompt_tokens"][these].sum()),
            "batch_mean": float(np.average(batch, weights=length[these])) if time else None,
            "utilization_mean": float(used.mean()),
            "utilization_max": float(used.max()),
            "network_share": int(iterations["network_ps"][these].sum()) / time if time else None,
        }
    return found


def _network_shares(table: Table, iterations: Table) -> dict[str, float | None]:
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

    A failed instance has no GPU in service, a shrunk instance one fewer. An instance without
    further requests counts as fully in service: the log has no transitions after its last request.
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
    """int64[k]: when each instance finished its last request, at most `until_ps`. A prefill
    instance finishes a request with its first token, others with its last."""
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
    spares, the wait for one follows Palm's machine interference model, which ignores the swap time.
    Returns None for spares with shrinking instances: there is no formula.
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
