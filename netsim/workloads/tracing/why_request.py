"""Explain the latency of a request: its stages, with the flow that completed its KV cache."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from netsim.errors import InputError
from netsim.tracing.causes import CAUSES
from netsim.tracing.record import Replay
from netsim.tracing.why import SENTENCES, Explanation, budget_table, explain_flows, joined_rows
from netsim.workloads.tracing.request_latency import (
    BY_ITERATION,
    GONE,
    KV,
    QUEUEING,
    LatencyBreakdown,
    request_latency,
)

if TYPE_CHECKING:
    from netsim.results import Result
    from netsim.running.point import Progress

CAUSES_OF_REQUESTS = CAUSES | {
    "prefill": "prefill compute",
    "decode": "decode compute",
    "network": "network inside iterations",
    "queueing": "waiting for prefill",
    "waiting": "waiting for an iteration",
    "down": "instance down",
    "lost": "lost with its instance",
    "kv": "KV cache transfer",
    "kv_behind": "KV cache behind other transfers",
    "kv_slow": "KV cache delayed",
}
"""Causes of requests besides those of flows, with their titles."""

SENTENCES_OF_REQUESTS = SENTENCES | {
    "queueing": "waiting for prefill at {place}, which computed {manner} meanwhile",
    "waiting": "waiting for an iteration of {place}",
    "network": "the network inside iterations of {place} ({manner})",
    "down": "{place}, which was down",
    "lost": "a failure of {place}: the request had to start again",
    "kv_behind": "its KV cache, behind other transfers at {place} ({manner}): {flows}",
    "kv_slow": "its KV cache ({manner})",
}

BEHIND = ("incast", "collision", "shared_link", "pfc", "nic")
"""Causes of flows that are other flows."""

TTFT, TBT = "ttft", "tbt"


def explain_request(
    result: Result,
    request: int,
    what: str = "",
    *,
    directory: Path | None = None,
    trust: bool = False,
    progress: Callable[[Progress], None] | None = None,
) -> Explanation:
    """Explain the time of a request: until its first token ("ttft"), in its longest gap between
    tokens ("tbt"), or from its arrival to its end ("").

    Only a KV cache transfer in that time needs another simulation. Arguments and errors as for
    `explain_flow` and `request_latency`.
    """
    breakdown = request_latency(result, request)
    start_ps, end_ps = _times(breakdown, what, str(result.path))
    rows = [
        {**row, "start_ps": max(start_ps, row["start_ps"]), "end_ps": min(end_ps, row["end_ps"])}
        for row in breakdown.rows.iter_rows(named=True)
        if row["start_ps"] < end_ps and row["end_ps"] > start_ps
    ]
    flows = sorted({row["flow"] for row in rows if row["stage"] == KV and row["flow"] is not None})
    explained: dict[int, Explanation] = {}
    if flows:
        replay = Replay.of(result, directory, trust=trust, progress=progress)
        explained = explain_flows(replay, flows)
    titles = {TTFT: "time to first token of ", TBT: "longest gap between tokens of "}
    subject = f"{titles.get(what, '')}request {request} of {result.name}"
    return Explanation(
        subject[0].upper() + subject[1:],
        end_ps - start_ps,
        None,
        budget_table(joined_rows(_rows(rows, explained, result))),
        result.flows,
        tuple({text for one in explained.values() for text in one.warnings}),
        CAUSES_OF_REQUESTS,
        SENTENCES_OF_REQUESTS,
    )


def _times(breakdown: LatencyBreakdown, what: str, file: str) -> tuple[int, int]:
    """Return the start and the end of the time to explain, in ps."""
    one = breakdown.request
    arrival = int(one["arrival_ps"])
    if what == TTFT and one["ttft_ps"] is not None:
        return arrival, arrival + int(one["ttft_ps"])
    if what == TBT and len(breakdown.gaps()):
        longest = breakdown.gaps().sort("gap_ps", descending=True, maintain_order=True)
        return int(longest["start_ps"][0]), int(longest["end_ps"][0])
    if what or not len(breakdown.rows):
        message = f"request {one['request']} has no such time: it did not get that far"
        raise InputError(message, file=file, key="--request")
    return arrival, int(breakdown.rows["end_ps"][-1])


def _rows(
    rows: list[dict[str, Any]], explained: dict[int, Explanation], result: Result
) -> Iterator[dict[str, Any]]:
    """Yield rows of a budget that add up to the time of the rows of a breakdown."""
    traffic = result.experiment["resolved"]["traffic"]
    kind = "in packets" if traffic.get("all_reduces") == "packets" else "by formula"
    for one in rows:
        place, time_ps = f"instance {one['instance']}", one["end_ps"] - one["start_ps"]
        stage, down_ps = one["stage"], min(time_ps, one["down_ps"] or 0)
        if stage == KV:
            yield from _of_kv(one, explained.get(one["flow"]), result)
        elif stage in BY_ITERATION:
            network_ps = min(time_ps - down_ps, one["network_ps"])
            computing_ps = min(time_ps - down_ps - network_ps, one["computing_ps"])
            yield _row("down", stage, place, down_ps)
            yield _row("network", f"{stage}, {kind}", place, network_ps)
            yield _row(stage, f"batch of {one['decode_batch']}", place, computing_ps)
            yield _row("waiting", stage, place, time_ps - down_ps - network_ps - computing_ps)
        else:
            cause = {QUEUEING: "queueing", GONE: "lost"}.get(stage, "waiting")
            work = f"{one['prompt_tokens']:,} prompt tokens in {one['iterations']:,} iterations"
            yield _row("down", stage, place, down_ps)
            yield _row(cause, work, place, time_ps - down_ps)


def _of_kv(
    one: dict[str, Any], explained: Explanation | None, result: Result
) -> Iterator[dict[str, Any]]:
    """Yield the rows of a KV cache transfer: of the flow that was delivered last, and the rest."""
    time_ps = one["end_ps"] - one["start_ps"]
    if explained is None:
        yield _row("kv", "transfer", "", time_ps)
        return
    start_ps = int(result.flows["start_ps"][one["flow"]])
    inside = one["start_ps"] <= start_ps and start_ps + explained.total_ps <= one["end_ps"]
    if not inside:  # layer by layer, it began before
        yield _row("kv", f"flow {one['flow']}, which began earlier", "", time_ps)
        return
    yield _row("kv", "earlier flows and software", "", time_ps - explained.total_ps)
    for row in explained.budget.iter_rows(named=True):
        cause = "kv_behind" if row["cause"] in BEHIND else "kv_slow"
        cause = cause if row["cause"] in SENTENCES else "kv"
        yield {**row, "cause": cause, "manner": f"{CAUSES[row['cause']]}, {row['manner']}"}


def _row(cause: str, manner: str, place: str, time_ps: int) -> dict[str, Any]:
    base = {"cause": cause, "manner": manner, "place": place, "root": ""}
    return {**base, "time_ps": time_ps, "flows": [], "flows_ps": []}
