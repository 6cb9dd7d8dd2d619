"""The tables of requests and iterations, and the time of each token, from the log of a serving run.

The log (`LOG` of `data.py`) has the iterations, and when a request entered and left the decode
batch of an instance: it got a token at the end of each iteration in between. A FIRST_TOKEN row
adds the token at the end of a prefill.

The audit checks that each request is served once, with every token it asked for.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from netsim.errors import InputError, RunError
from netsim.workloads.inference import compute_ps
from netsim.workloads.serving.data import (
    DECODE_START,
    DONE,
    DOWN,
    EVENTS,
    FIRST_TOKEN,
    ITERATION,
    KV_TRANSFER_END,
    LOG,
    LOST,
    PREFILL_START,
    ROLES,
    UP,
    ServingPlan,
)
from netsim.workloads.serving.data import PREFILL_START as START
from netsim.workloads.serving.distribution import CountedValues, percentiles

Ints = NDArray[np.int64]
Log = Mapping[str, Ints]
"""Columns "host", "time_ps" and those of `LOG`; the rows of a host are in order."""

AT_ONCE = 1 << 22
"""Tokens processed at once."""


def log_of(table: Any) -> Log:
    """Return the log of a result, a polars DataFrame, as columns."""
    names = ("host", "time_ps", *LOG)
    for name in names:
        if name not in table.columns or not table[name].dtype.is_integer():
            raise InputError("the log has no integer column of this name", key=name)
    return {name: table[name].fill_null(-1).to_numpy() for name in names}


class Tokens(NamedTuple):
    """Tokens of requests `first` to `end` - 1: int64[m] each, sorted by request and time."""

    first: int
    end: int
    request: Ints
    time_ps: Ints


@dataclass(frozen=True, eq=False)
class Stays:
    """Intervals of decoding, sorted by request: iterations `begin` to `end` - 1 of `ends_ps`, which
    holds the ends of all iterations, grouped by instance."""

    request: Ints
    begin: Ints
    end: Ints
    ends_ps: Ints


def stays(log: Log) -> Stays:
    """Return the decoding intervals of all requests; open ones last until the log ends."""
    host, what, time = log["host"], log["event"], log["time_ps"]
    iteration = np.flatnonzero(what == ITERATION)
    iteration = iteration[np.lexsort((time[iteration], host[iteration]))]
    ends = time[iteration]
    rows = np.flatnonzero((what == DECODE_START) | (what == DONE) | (what == LOST))
    rows = rows[np.lexsort((rows, time[rows], log["request"][rows]))]
    at = np.flatnonzero(what[rows] == DECODE_START)
    joined = rows[at]
    then = np.minimum(at + 1, rows.size - 1)
    left = rows[then]
    goes_on = (then == at) | (log["request"][left] != log["request"][joined])
    of = host[joined]
    begin, end = (np.zeros(joined.size, np.int64) for _ in range(2))
    until = np.where(goes_on, np.iinfo(np.int64).max, time[left])
    for one in np.unique(of).tolist():
        a, b = np.searchsorted(host[iteration], [one, one + 1])
        here, these = of == one, ends[a:b]
        begin[here] = a + np.searchsorted(these, time[joined[here]], side="right")
        end[here] = a + np.searchsorted(these, until[here], side="right")
    return Stays(log["request"][joined], begin, end, ends)


def tokens(n_requests: int, log: Log, found: Stays, at_once: int = AT_ONCE) -> Iterator[Tokens]:
    """Yield all tokens in parts of about `at_once`, at least one request each.

    Requests without tokens are also in the range of `first` and `end`.
    """
    rows = np.flatnonzero(log["event"] == FIRST_TOKEN)
    rows = rows[np.argsort(log["request"][rows], kind="stable")]
    prefilled, at = log["request"][rows], log["time_ps"][rows]
    length = found.end - found.begin
    told = np.bincount(prefilled, minlength=n_requests).astype(np.int64)
    told += np.bincount(found.request, length, n_requests).astype(np.int64)
    part = np.cumsum(told) // at_once
    bounds = np.unique(np.searchsorted(part, np.arange(part[-1] + 2 if part.size else 1)))
    bounds = np.unique(np.concatenate([[0], bounds, [n_requests]]))
    for first, end in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True):
        a, b = np.searchsorted(prefilled, [first, end])
        c, d = np.searchsorted(found.request, [first, end])
        many = length[c:d]
        # Index of each token within its interval.
        before = np.arange(many.sum()) - np.repeat(np.cumsum(many) - many, many)
        decoded = found.ends_ps[np.repeat(found.begin[c:d], many) + before]
        request = np.concatenate([prefilled[a:b], np.repeat(found.request[c:d], many)])
        time = np.concatenate([at[a:b], decoded])
        order = np.lexsort((time, request))
        yield Tokens(first, end, request[order], time[order])


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


BEFORE_END = (START, FIRST_TOKEN, DECODE_START, LOST)


def audit(requests: Table, log: Log, *, complete: bool) -> dict[str, int]:
    """Count requests and tokens at the end of a run.

    Args:
        requests: the table of `netsim.workloads.serving.outcome.outcome`.
        log: the log it was built from.
        complete: whether the run is complete.

    Raises:
        RunError: a request is lost, is done twice, continues after its end, or got another number
            of tokens than it asked for.
    """
    n = requests["request"].size
    event, request = log["event"], log["request"]
    rows = np.flatnonzero((request < 0) & np.isin(event, (*BEFORE_END, DONE)))
    if rows.size:
        raise RunError(f"row {rows[0]} of the serving log names no request (netsim bug)")
    done = np.bincount(request[event == DONE], minlength=n)
    started = np.bincount(request[event == START], minlength=n) > 0
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
    """Raise RunError for the first bad request."""
    for request in np.flatnonzero(bad)[:1].tolist():
        problem = message.format(*(int(column[request]) for column in columns))
        raise RunError(f"request {request} {problem} (netsim bug)")
