"""Report of serving runs: requests, their latency, iterations and instances."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from netsim.common.terminal import (
    Column,
    Wide,
    any_of,
    common_unit,
    count,
    number,
    percent,
    time_columns,
)
from netsim.results.columns import Metric, TableSpec
from netsim.results.run_result import Run, Table
from netsim.units import format_time

if TYPE_CHECKING:
    from netsim.workloads.serving.plan import ServingPlan

REQUESTS = TableSpec.of(
    "requests",
    """
    request                index     request, in order of arrival
    arrival_ps             ps        arrival
    prompt_tokens          tokens    tokens of the prompt
    output_tokens          tokens    tokens to generate
    prefill_instance       index     instance that computes the prompt
    decode_instance?       index     instance that decodes; null if it is prefill_instance
    kv_first_flow?         index     first flow of the KV-cache transfer; null without one
    kv_flows               flows     flows of the KV-cache transfer, numbered consecutively
    prefill_start_ps?      ps        start of the prefill; null if it did not start, as for the
        times below
    first_token_ps?        ps        when the first token was generated
    kv_transfer_start_ps?  ps        start of the first flow of the KV cache; null without a
        transfer
    kv_transfer_end_ps?    ps        when the decode instance had the whole KV cache and was
        notified
    decode_start_ps?       ps        start of the first iteration that decoded the request
    end_ps?                ps        when the last token was generated
    queueing_ps?           ps        from arrival to prefill_start_ps
    ttft_ps?               ps        time to first token, from arrival
    generated_tokens       tokens    tokens generated
    second_token_ps?       ps        from the first token to the second, with the KV-cache transfer;
        null below two tokens
    tbt_p50_ps?            ps        median time between tokens, including the first gap
    tbt_p99_ps?            ps        99th percentile of the time between tokens, which the SLO
        limits
    tbt_max_ps?            ps        longest time between tokens
    tpot_ps                ps        mean time between tokens: time per output token after the first
    restarts               restarts  instance failures while the request was in progress
    """,
)

ITERATIONS = TableSpec.of(
    "iterations",
    """
    instance         index      instance that computes
    host             host       first host of the instance, its leader
    role             -          role of the instance: mixed, prefill or decode
    start_ps         ps         start of the iteration
    end_ps           ps         end of the iteration, when its tokens are generated
    decode_batch     sequences  sequences that decode; each gets a token
    prompt_tokens    tokens     prompt tokens computed
    context_tokens   tokens     tokens before the decoding sequences, summed
    attention_pairs  pairs      pairs of a query and a key, for the prompt tokens
    network_ps       ps         communication not overlapped with compute: all-reduces, by formula
        or in packets, and reads from a memory pool
    """,
)

REQUEST_LATENCY = TableSpec.of(
    "request_latency",
    """
    start_ps       ps          start
    end_ps         ps          end, which is the start of the next row
    stage          -           queueing: the prompt waits; prefill: it is computed; kv: its KV cache
        is transferred; decode_queue: the cache has arrived and waits for an iteration; decode: in
        an iteration whose end gives a token, or between two; lost: the instance failed, and the
        request starts over
    instance       index       instance of the row
    token          index       output token that ends the row, from 1; null without one
    iterations     iterations  iterations of the instance in that time; for prefill and decode 1,
        the request's own
    decode_batch   sequences   sequences that decoded in these, summed
    prompt_tokens  tokens      prompt tokens in these, summed
    computing_ps   ps          time in which these computed
    network_ps     ps          time in which these, or the KV cache, were on the network
    down_ps        ps          time for which the instance was down; 0 for kv
    flow           index       for kv, the flow that was delivered last; else null
    flow_ps        ps          for kv, the completion time of that flow; else null
    ideal_ps       ps          for kv, its completion time alone in the network; else null
    """,
    of_run=False,
)

TABLES = (REQUESTS, ITERATIONS, REQUEST_LATENCY)
ORDER = 32

SWEEP = Metric.each("""
offered_per_s         1/s       serving.offered_per_s        requests that arrived, per second
requests_per_s        1/s       serving.requests_per_s       requests completed, per second
tokens_per_s          1/s       serving.tokens_per_s         tokens generated, per second
goodput_per_s         1/s       serving.slo.goodput_per_s    requests that met the SLO, per second
    of arrivals
slo_attainment%       1         serving.slo.attainment       share of all requests that met the SLO
stalled               requests  serving.slo.stalled          requests with a time between tokens
    above the stall limit
queueing_p99_ps#      ps        serving.queueing_ps.p99      99th percentile of the time from
    arrival to prefill
ttft_p50_ps#          ps        serving.ttft_ps.p50          median time to first token
ttft_p99_ps#          ps        serving.ttft_ps.p99          99th percentile of the time to first
    token
tbt_p50_ps#           ps        serving.tbt_ps.p50           median time between tokens, over all
    requests
tbt_p99_ps#           ps        serving.tbt_ps.p99           99th percentile of the time between
    tokens
tbt_max_ps#           ps        serving.tbt_ps.max           longest time between tokens
second_token_p99_ps#  ps        serving.second_token_ps.p99  99th percentile of the time from first
    to second token
network_share%        1         serving.network.iterations   share of iteration time that is not
    compute
restarts              restarts  serving.restarts             requests lost to failures of instances,
    and restarted
available_gpu_share%  1         serving.failures.available_gpu_share  mean share of the GPUs that
    failures left available
""")


def report(run: Run) -> dict[str, Any]:
    """Add the tables of requests and iterations; return their metrics. Raises RunError if a request
    is lost or was served twice."""
    log = run.tables.get("log")
    if log is None:
        return {}
    from netsim.workloads.serving.plan import ServingPlan

    plan = run.scenario.load.part(ServingPlan)
    if plan is None:
        return {}
    tables, summary = serving_result(plan, log, run.tables["flows"], complete=run.ending.complete)
    run.tables |= tables
    return summary


def serving_result(
    plan: ServingPlan, log: Table, flows: Table, *, complete: bool
) -> tuple[dict[str, Table], dict[str, Any]]:
    """Return the tables "requests" and "iterations" and the summary's part.

    `log` is the program's log, `flows` the table of flows.

    Raises RunError if a request is lost or was served twice.
    """
    from netsim.workloads.serving.outcome import audit, outcome, serving_metrics

    found = outcome(plan, log, flows["start_ps"])
    counts = audit(found.requests, log, complete=complete)
    metrics = {**serving_metrics(plan, found, log), "account": counts}
    return {"requests": found.requests, "iterations": found.iterations}, {"serving": metrics}


def sections(summary: Mapping[str, Any]) -> Iterator[Wide]:
    serving = summary.get("serving")
    if serving is None:
        return
    if serving["ttft_ps"]["max"] is not None:
        yield _times(serving)
    yield _rates(serving)
    yield _roles(serving["roles"])


def first_columns(rows: Sequence[Mapping[str, Any]]) -> Iterator[Column]:
    """Columns of a sweep's table, if any point served requests."""
    if not any_of(rows, "requests_per_s"):
        return
    for what, title, statistics in (
        ("ttft", "TTFT", (("p50", 3), ("p99", 0))),
        ("tbt", "TBT", (("p50", 3), ("p99", 0), ("max", 4))),
        ("second_token", "first gap", (("p99", 2),)),
    ):
        yield from time_columns(
            (f"{title}\n{name}", [row.get(f"{what}_{name}_ps") for row in rows], rank)
            for name, rank in statistics
        )
    yield Column("met\n%", [percent(row.get("slo_attainment")) for row in rows], 0)
    for name, title, rank in (
        ("goodput_per_s", "goodput\n1/s", 0),
        ("offered_per_s", "offered\n1/s", 1),
        ("tokens_per_s", "tokens\n1/s", 5),
    ):
        yield Column(title, [number(row.get(name)) for row in rows], rank)
    if any_of(rows, "stalled"):
        yield Column("stalled", [count(row.get("stalled")) for row in rows], 0)


Serving = Mapping[str, Any]

TIMES = {
    "ttft_ps": "time to first token",
    "tbt_ps": "time between tokens",
    "second_token_ps": "first to second token",
    "queueing_ps": "waiting for prefill",
    "kv_ps": "KV cache transfer",
    "latency_ps": "from arrival to last token",
}
"""Distributions in summary.json ("serving"), and their titles."""

STATISTICS = ("mean", "p50", "p90", "p99", "max")


def _rates(serving: Serving) -> Wide:
    done, every = serving["requests_done"], serving["requests"]
    slo = serving["slo"]
    cells = {
        "requests": count(every) if done == every else f"{done:,}/{every:,}",
        "offered\n1/s": number(serving["offered_per_s"]),
        "done\n1/s": number(serving["requests_per_s"]),
        "tokens\n1/s": number(serving["tokens_per_s"]),
    }
    if serving["restarts"]:
        cells["restarts"] = count(serving["restarts"])
    failures = serving["failures"]
    if failures["count"]:
        cells["failures"] = count(failures["count"])
        cells["GPUs in\nservice, %"] = percent(failures["available_gpu_share"])
    limits = [
        f"{name} <= {format_time(slo[key], 4)}"
        for name, key in (("TTFT", "ttft_ps"), ("TBT", "tbt_ps"), ("any gap", "stall_ps"))
        if slo[key] is not None
    ]
    if limits:
        cells[f"met, %\n{', '.join(limits)}"] = percent(slo["attainment"])
        cells["goodput\n1/s"] = number(slo["goodput_per_s"])
        if slo["stall_ps"] is not None:
            cells["stalled"] = count(slo["stalled"])
    columns = [Column(title, [cell]) for title, cell in cells.items()]
    return Wide(columns, title="Requests", elsewhere="summary.json has all")


def _times(serving: Serving) -> Wide:
    rows = {title: serving[key] for key, title in TIMES.items() if serving[key]["max"] is not None}
    columns = [Column("", list(rows), left=True)]
    columns += time_columns(
        (name, [row[name] for row in rows.values()], rank)
        for rank, name in zip((3, 0, 2, 0, 1), STATISTICS, strict=True)
    )
    return Wide(columns, title="Latencies", elsewhere="summary.json has all")


def _roles(roles: Mapping[str, Mapping[str, Any]]) -> Wide:
    found = list(roles.values())
    unit, scale = common_unit([one["iteration_ps"]["max"] for one in found])
    columns = [
        Column("instances", list(roles), left=True),
        Column("", [count(one["instances"]) for one in found]),
        Column("GPUs", [count(one["hosts"]) for one in found], rank=2),
        Column("iterations", [count(one["iterations"]) for one in found], rank=3),
        Column("batch\nmean", [number(one["batch_mean"]) for one in found], rank=1),
        *(
            Column(f"{name}\n{unit}", [number(one["iteration_ps"][name], scale) for one in found])
            for name in ("p50", "p99")
        ),
        Column("busy\n%", [percent(one["utilization_mean"]) for one in found]),
        Column("busiest\n%", [percent(one["utilization_max"]) for one in found], rank=4),
        Column("network\n%", [percent(one["network_share"]) for one in found]),
    ]
    return Wide(columns, title="Instances and their iterations", elsewhere="summary.json has all")
