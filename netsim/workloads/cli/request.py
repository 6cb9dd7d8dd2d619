"""`netsim trace --request`: what one request of a serving run waited for."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import click

from netsim.cli.options import print_json
from netsim.cli.trace_output import TraceOutputs, write_tables
from netsim.errors import InputError
from netsim.terminal import Column, Wide, common_unit, count, number
from netsim.terminal import show as show_table
from netsim.units import format_time, written

if TYPE_CHECKING:
    import polars as pl

    from netsim.results import Result
    from netsim.workloads.tracing.request_latency import LatencyBreakdown

WORST = {"worst-ttft": "ttft_ps", "worst-tbt": "tbt_max_ps"}
"""What may stand for a number: the request with the largest of a column of requests.parquet."""

GAPS = 5
"""So many of the longest gaps are shown without --limit."""

SAID = {
    "queueing": "waiting for prefill",
    "prefill": "prefill",
    "kv": "KV cache on its way",
    "decode_queue": "waiting to decode",
    "decode": "decoding",
    "lost": "lost, waiting to begin again",
}


OPTIONS = {
    "request": click.option(
        "--request",
        metavar="N",
        help="Show what this request to a served model waited for, and its longest gaps between "
        'tokens; "worst-ttft" or "worst-tbt" is the worst one. Nothing is simulated.',
    )
}
WITH = ()


def show(result: Result, asked: Mapping[str, Any], outputs: TraceOutputs) -> None:
    """Print or write the latency breakdown of a request."""
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
        click.echo("it had not come when the run ended")
        return
    show_table(stage_table(breakdown))
    gaps = breakdown.gaps()
    if len(gaps):
        show_table(gap_table(gaps, GAPS if outputs.limit is None else outputs.limit))
    for line in hints(breakdown):
        click.echo(line)


def request_number(result: Result, text: str) -> int:
    """The number of the request that is meant."""
    if re.fullmatch("[0-9]{1,18}", text):
        return int(text)
    if text not in WORST:
        hint = f"a whole number, or {' or '.join(WORST)}, the one with the longest"
        raise InputError(f"{written(text)} is no request", key="--request", hint=hint)
    requests = result.requests
    if requests is None:
        raise InputError("serves no requests", file=str(result.path))
    found = requests.drop_nulls(WORST[text]).sort(WORST[text], descending=True)
    if not len(found):
        raise InputError("no request has one", file=str(result.path), key="--request")
    return int(found["request"][0])


def headlines(breakdown: LatencyBreakdown) -> Iterator[str]:
    """The request, and what it saw."""
    one = breakdown.request
    prompt, output = (f"{one[name]:,}" for name in ("prompt_tokens", "output_tokens"))
    done = "" if one["end_ps"] is not None else f", {one['generated_tokens']:,} generated"
    named = f"request {one['request']} of {breakdown.point}"
    yield f"{named}: {prompt} tokens of prompt, {output} of output{done}"
    parts = [f"arrival {format_time(one['arrival_ps'], 5)}"]
    for name, title in (("ttft_ps", "time to first token"), ("tbt_p50_ps", "gaps: median")):
        if one[name] is not None:
            parts.append(f"{title} {format_time(one[name], 4)}")
    if one["tbt_max_ps"] is not None:
        parts.append(f"99 % {format_time(one['tbt_p99_ps'], 4)}")
        parts.append(f"longest {format_time(one['tbt_max_ps'], 4)}")
    yield ", ".join(parts)


def stage_table(breakdown: LatencyBreakdown) -> Wide:
    """A row for each thing that the request did, its tokens on one machine together."""
    rows = list(_stretches(breakdown.rows))
    unit, scale = common_unit([row["end_ps"] for row in rows])
    columns = [
        Column(f"from\n{unit}", [number(row["start_ps"], scale) for row in rows]),
        Column(f"time\n{unit}", [number(row["end_ps"] - row["start_ps"], scale) for row in rows]),
        Column("stage", [SAID[row["stage"]] for row in rows], left=True),
        Column("instance", [str(row["instance"]) for row in rows]),
        Column("its\niterations", [count(row["iterations"]) for row in rows], rank=1),
        Column("prompt\ntokens", [count(row["prompt_tokens"]) for row in rows], rank=2),
        Column("decoding\nmean", [_mean(row, "decode_batch") for row in rows], rank=3),
        Column(f"network\n{unit}", [number(row["network_ps"], scale) for row in rows], rank=4),
    ]
    if any(row["down_ps"] for row in rows):
        columns.append(Column(f"down\n{unit}", [number(row["down_ps"], scale) for row in rows], 5))
    return Wide(columns, elsewhere="--csv has all")


def _stretches(table: pl.DataFrame) -> Iterator[dict[str, Any]]:
    """Rows that follow on one another and are alike, as one."""
    open_: dict[str, Any] | None = None
    for row in table.iter_rows(named=True):
        if open_ is not None and (open_["stage"], open_["instance"]) == (
            row["stage"],
            row["instance"],
        ):
            open_["end_ps"] = row["end_ps"]
            for name in ("iterations", "decode_batch", "prompt_tokens", "network_ps", "down_ps"):
                open_[name] += row[name]
            continue
        if open_ is not None:
            yield open_
        open_ = dict(row)
    if open_ is not None:
        yield open_


def _mean(row: Mapping[str, Any], name: str) -> str:
    return number(row[name] / row["iterations"]) if row["iterations"] else "-"


def gap_table(gaps: pl.DataFrame, limit: int = GAPS) -> Wide:
    """The longest gaps between tokens (0: all), and what they are made of; the median beside."""
    longest = gaps.sort("gap_ps", descending=True, maintain_order=True).head(limit or len(gaps))
    median = gaps.sort("gap_ps")[(len(gaps) - 1) // 2]
    rows = [*longest.iter_rows(named=True), *median.iter_rows(named=True)]
    names = [*(f"token {row['token']}" for row in rows[:-1]), f"median, token {rows[-1]['token']}"]
    unit, scale = common_unit([row["gap_ps"] for row in rows])
    columns = [Column("gap before", names, left=True)]
    columns.append(Column(f"at\n{unit}", [number(row["start_ps"], scale) for row in rows], rank=4))
    columns.append(Column(f"gap\n{unit}", [number(row["gap_ps"], scale) for row in rows]))
    for name, title in (
        ("kv_ps", "KV cache"),
        ("waiting_ps", "waiting"),
        ("down_ps", "down"),
        ("computing_ps", "computing"),
        ("network_ps", "network"),
    ):
        if any(row[name] for row in rows):
            columns.append(Column(f"{title}\n{unit}", [number(row[name], scale) for row in rows]))
    for name, title, rank in (
        ("decode_batch", "decoding", 2),
        ("prompt_tokens", "prompt\ntokens", 3),
    ):
        columns.append(Column(title, [count(row[name]) for row in rows], rank))
    return Wide(columns, title="Longest gaps between its tokens", elsewhere="--csv has all")


def hints(breakdown: LatencyBreakdown) -> Iterator[str]:
    """Which flow the KV cache waited for, and where to look further."""
    for row in breakdown.rows.filter(breakdown.rows["flow"].is_not_null()).iter_rows(named=True):
        times = row["flow_ps"] / max(1, row["ideal_ps"])
        yield (
            f"the last flow of its KV cache was {row['flow']}, of {breakdown.request['kv_flows']}: "
            f"{format_time(row['flow_ps'], 4)}, {times:.3f} times what it takes alone "
            f"(--flow {row['flow']} shows what it waited for)"
        )
