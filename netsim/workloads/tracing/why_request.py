"""Explain the latency of a request: its stages, with the flow that completed its KV cache."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from netsim.errors import InputError
from netsim.tracing.causes import CAUSES
from netsim.tracing.record import Replay
from netsim.tracing.why import SENTENCES, Explanation, budget_table, joined_rows
from netsim.workloads.tracing.budget_rows import FlowRows, Row, budget_row
from netsim.workloads.tracing.request_latency import (
    BY_ITERATION,
    GONE,
    KV,
    QUEUEING,
    LatencyBreakdown,
    request_latency,
)
from netsim.workloads.tracing.serving_path import ServingPaths

if TYPE_CHECKING:
    from netsim.results import Result
    from netsim.running.point import Progress
    from netsim.tracing.critical_path_search import PathSegment

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
    request_rows = _RequestRows(
        result, rows, request, lambda: Replay.of(result, directory, trust=trust, progress=progress)
    )
    titles = {TTFT: "time to first token of ", TBT: "longest gap between tokens of "}
    subject = f"{titles.get(what, '')}request {request} of {result.name}"
    return Explanation(
        subject[0].upper() + subject[1:],
        end_ps - start_ps,
        None,
        budget_table(joined_rows(row for one in rows for row in request_rows.of(one))),
        result.flows,
        request_rows.flows.warnings,
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


class _RequestRows:
    """Rows of the budget of a request: its stages, with the paths of its KV cache and of iterations
    in packets."""

    def __init__(
        self,
        result: Result,
        rows: list[Row],
        request: int,
        replay: Callable[[], Replay],
    ) -> None:
        traffic = result.experiment["resolved"]["traffic"]
        self.in_packets = traffic.get("all_reduces") == "packets"
        self.kinds = result.flows["flow_kind"]
        self.paths: dict[int, list[PathSegment]] = {}
        stages = {KV, *(BY_ITERATION if self.in_packets else ())}
        crossed = [row for row in rows if row["stage"] in stages]
        replay = cache(replay)
        if crossed:
            paths = ServingPaths(result, replay().scenario)
            for row in crossed:
                window = row["start_ps"], row["end_ps"]
                with suppress(InputError):  # times that are not those of one path
                    self.paths[row["start_ps"]] = (
                        paths.of_transfer(request, *window)
                        if row["stage"] == KV
                        else paths.of_iteration(row["instance"], *window)
                    )
        ideals = result.flows["ideal_ps"]
        windows = {
            one.flow: (one.start_ps, one.end_ps)
            for path in self.paths.values()
            for one in path
            if one.segment_type in ("flow", "send")
        }
        self.flows = FlowRows(windows, {flow: int(ideals[flow]) for flow in windows}, replay)

    def of(self, one: Row) -> Iterator[Row]:
        """Yield rows that add up to the time of a row of the breakdown."""
        place, time_ps = f"instance {one['instance']}", one["end_ps"] - one["start_ps"]
        stage, down_ps = one["stage"], min(time_ps, one["down_ps"] or 0)
        path = self.paths.get(one["start_ps"])
        if stage == KV:
            yield from self._of_kv(path, time_ps)
        elif stage in BY_ITERATION and path:
            yield from self._of_iteration(one, path, place)
        elif stage in BY_ITERATION:
            network_ps = min(time_ps - down_ps, one["network_ps"])
            computing_ps = min(time_ps - down_ps - network_ps, one["computing_ps"])
            kind = "in packets" if self.in_packets else "by formula"
            yield budget_row("down", stage, place, down_ps)
            yield budget_row("network", f"{stage}, {kind}", place, network_ps)
            yield budget_row(stage, _work(one), place, computing_ps)
            waiting_ps = time_ps - down_ps - network_ps - computing_ps
            yield budget_row("waiting", stage, place, waiting_ps)
        else:
            cause = {QUEUEING: "queueing", GONE: "lost"}.get(stage, "waiting")
            yield budget_row("down", stage, place, down_ps)
            yield budget_row(cause, _work(one), place, time_ps - down_ps)

    def _of_iteration(self, one: Row, path: list[PathSegment], place: str) -> Iterator[Row]:
        """Yield the rows of an iteration's path. Hosts compute, and wait for the latency of
        all-reduces that are not sent."""
        stage, begin_ps = one["stage"], path[0].start_ps
        yield budget_row("waiting", stage, place, begin_ps - one["start_ps"])
        own_ps = one["end_ps"] - begin_ps
        for segment in path:
            if segment.flow in self.flows.ideals and segment.segment_type in ("flow", "send"):
                time_ps = segment.end_ps - segment.start_ps
                own_ps -= time_ps
                yield from self.flows.of(segment.flow, time_ps, self.kinds[segment.flow])
        computing_ps = min(own_ps, one["computing_ps"])
        yield budget_row(stage, _work(one), place, computing_ps)
        latency_ps = own_ps - computing_ps
        yield budget_row("network", f"{stage}, latency of all-reduces", place, latency_ps)

    def _of_kv(self, path: list[PathSegment] | None, time_ps: int) -> Iterator[Row]:
        """Yield the rows of a KV cache transfer."""
        for segment in path or ():
            if segment.segment_type in ("flow", "send"):
                took_ps = segment.end_ps - segment.start_ps
                time_ps -= took_ps
                for row in self.flows.of(segment.flow, took_ps, self.kinds[segment.flow]):
                    cause = "kv_behind" if row["cause"] in BEHIND else "kv_slow"
                    cause = cause if row["cause"] in SENTENCES_OF_REQUESTS else "kv"
                    title = CAUSES_OF_REQUESTS[row["cause"]]
                    yield {**row, "cause": cause, "manner": f"{row['manner']}, {title}"}
        yield budget_row("kv", "software" if path else "transfer", "", time_ps)


def _work(one: Row) -> str:
    """Return what was computed in a row of a breakdown."""
    batch = one["decode_batch"] // max(1, one["iterations"])
    work = [f"{batch:,} sequences"] * (batch > 0)
    work += [f"{one['prompt_tokens']:,} prompt tokens"] * (one["prompt_tokens"] > 0)
    many = f" in {one['iterations']:,} iterations" if one["iterations"] > 1 else ""
    return f"{' and '.join(work) or 'nothing'}{many}"
