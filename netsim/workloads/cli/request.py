"""`netsim trace --request` and `netsim why --request`: the latency of a request."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from itertools import groupby
from typing import TYPE_CHECKING, Any

import click

from netsim.cli.options import print_json
from netsim.cli.trace_output import TraceOutputs, write_tables
from netsim.common.terminal import Column, Wide, common_unit, count, number
from netsim.common.terminal import show as show_table
from netsim.errors import InputError
from netsim.units import format_time, written

if TYPE_CHECKING:
    import polars as pl

    from netsim.results import Result
    from netsim.tracing.why import Explanation
    from netsim.workloads.tracing.request_latency import LatencyBreakdown

WORST = {"worst-ttft": "ttft_ps", "worst-tbt": "tbt_max_ps"}
"""Names of requests: each has the largest value in a column of requests.parquet."""

GAPS = 5  # default of --limit: longest gaps shown

OPTIONS = {
    "request": click.option(
        "--request",
        metavar="N",
        help="Break down the latency of this request and its longest token gaps; "
        '"worst-ttft" and "worst-tbt" select the worst. Simulates nothing.',
    )
}
WITH = ()


def show(result: Result, asked: Mapping[str, Any], outputs: TraceOutputs) -> None:
    from netsim.workloads.tracing.request_latency import request_latency

    breakdown = request_latency(result, request_number(result, asked["request"]))
    write_tables("request_latency", breakdown.rows, outputs.csv, outputs.parquet)
    if outputs.as_json:
        print_json({"request": breakdown.request, "rows": breakdown.rows.to_dicts()})
        return
    if outputs.quiet:
        return
    for line in headlines(breakdown):
        click.echo(line)
    if not len(breakdown.rows):
        click.echo("the run ended before it arrived")
        return
    show_table(stage_table(breakdown))
    gaps = breakdown.gaps()
    if len(gaps):
        show_table(gap_table(gaps, GAPS if outputs.limit is None else outputs.limit))
    for line in hints(breakdown):
        click.echo(line)


def request_number(result: Result, text: str) -> int:
    if re.fullmatch("[0-9]{1,18}", text):
        return int(text)
    if text not in WORST:
        hint = f"a number, or {' or '.join(WORST)}"
        raise InputError(f"{written(text)} is not a request", key="--request", hint=hint)
    requests = result.requests
    if requests is None:
        raise InputError("has no requests", file=str(result.path))
    found = requests.drop_nulls(WORST[text]).sort(WORST[text], descending=True)
    if not len(found):
        raise InputError("no request completed this metric", file=str(result.path), key="--request")
    return int(found["request"][0])


def headlines(breakdown: LatencyBreakdown) -> Iterator[str]:
    one = breakdown.request
    prompt, output = (f"{one[name]:,}" for name in ("prompt_tokens", "output_tokens"))
    done = "" if one["end_ps"] is not None else f", {one['generated_tokens']:,} generated"
    named = f"request {one['request']} of {breakdown.point}"
    yield f"{named}: {prompt} prompt tokens, {output} output tokens{done}"
    parts = [f"arrival {format_time(one['arrival_ps'], 5)}"]
    for name, title in (("ttft_ps", "time to first token"), ("tbt_p50_ps", "gaps: median")):
        if one[name] is not None:
            parts.append(f"{title} {format_time(one[name], 4)}")
    if one["tbt_max_ps"] is not None:
        parts.append(f"99 % {format_time(one['tbt_p99_ps'], 4)}")
        parts.append(f"longest {format_time(one['tbt_max_ps'], 4)}")
    yield ", ".join(parts)


def stage_table(breakdown: LatencyBreakdown) -> Wide:
    """Return a row per stage; consecutive tokens on one instance are joined."""
    from netsim.workloads.tracing.request_latency import LABELS

    rows = list(_joined_rows(breakdown.rows))
    unit, scale = common_unit([row["end_ps"] for row in rows])
    batches = [
        row["decode_batch"] / row["iterations"] if row["iterations"] else None for row in rows
    ]
    columns = [
        Column(f"start\n{unit}", [number(row["start_ps"], scale) for row in rows]),
        Column(f"time\n{unit}", [number(row["end_ps"] - row["start_ps"], scale) for row in rows]),
        Column("stage", [LABELS[row["stage"]] for row in rows], left=True),
        Column("instance", [str(row["instance"]) for row in rows]),
        Column("iterations", [count(row["iterations"]) for row in rows], rank=1),
        Column("prompt\ntokens", [count(row["prompt_tokens"]) for row in rows], rank=2),
        Column("mean\nbatch", [number(batch) for batch in batches], rank=3),
        Column(f"network\n{unit}", [number(row["network_ps"], scale) for row in rows], rank=4),
    ]
    if any(row["down_ps"] for row in rows):
        columns.append(Column(f"down\n{unit}", [number(row["down_ps"], scale) for row in rows], 5))
    return Wide(columns, elsewhere="--csv has all")


def _joined_rows(table: pl.DataFrame) -> Iterator[dict[str, Any]]:
    """Yield consecutive rows of equal stage and instance as one."""
    for _, some in groupby(
        table.iter_rows(named=True), key=lambda row: (row["stage"], row["instance"])
    ):
        rows = list(some)
        sums = ("iterations", "decode_batch", "prompt_tokens", "network_ps", "down_ps")
        joined = {name: sum(row[name] for row in rows) for name in sums}
        yield {**rows[0], "end_ps": rows[-1]["end_ps"], **joined}


def gap_table(gaps: pl.DataFrame, limit: int = GAPS) -> Wide:
    """Return the parts of the longest token gaps (0: all), and of the median gap."""
    from netsim.workloads.tracing.request_latency import GAP_PARTS

    longest = gaps.sort("gap_ps", descending=True, maintain_order=True).head(limit or len(gaps))
    median = gaps.sort("gap_ps")[(len(gaps) - 1) // 2]
    rows = [*longest.iter_rows(named=True), *median.iter_rows(named=True)]
    names = [*(f"token {row['token']}" for row in rows[:-1]), f"median, token {rows[-1]['token']}"]
    unit, scale = common_unit([row["gap_ps"] for row in rows])
    columns = [Column("gap before", names, left=True)]
    columns.append(Column(f"at\n{unit}", [number(row["start_ps"], scale) for row in rows], rank=4))
    columns.append(Column(f"gap\n{unit}", [number(row["gap_ps"], scale) for row in rows]))
    for name, title in GAP_PARTS.items():
        if any(row[name] for row in rows):
            columns.append(Column(f"{title}\n{unit}", [number(row[name], scale) for row in rows]))
    for name, title, rank in (("decode_batch", "batch", 2), ("prompt_tokens", "prompt\ntokens", 3)):
        columns.append(Column(title, [count(row[name]) for row in rows], rank))
    return Wide(columns, title="Longest token gaps", elsewhere="--csv has all")


def hints(breakdown: LatencyBreakdown) -> Iterator[str]:
    """Yield the flow that completed the KV cache."""
    for row in breakdown.rows.filter(breakdown.rows["flow"].is_not_null()).iter_rows(named=True):
        times = row["flow_ps"] / max(1, row["ideal_ps"])
        yield (
            f"last of {breakdown.request['kv_flows']} KV cache flows: {row['flow']}, "
            f"{format_time(row['flow_ps'], 4)}, slowdown {times:.3f} (trace it with --flow "
            f"{row['flow']})"
        )


TTFT, TBT = "ttft", "tbt"

OPTION = (
    "request",
    click.option(
        "--request",
        metavar="N",
        help=f'Explain this request; "{TTFT}": the worst time to first token, "{TBT}": the longest '
        "gap between tokens.",
    ),
)


def applies(result: Result) -> bool:
    return result.requests is not None


def explain(result: Result, text: str | None, where: Mapping[str, Any]) -> Explanation:
    """Explain a request, by default the worst time to first token."""
    from netsim.workloads.tracing.why import explain_request

    text = text or TTFT
    number = request_number(result, f"worst-{text}" if text in (TTFT, TBT) else text)
    return explain_request(result, number, text if text in (TTFT, TBT) else "", **where)
