"""The latency breakdown of one request of a serving run, from the result's tables."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import polars as pl

from netsim.errors import InputError
from netsim.frozen import frozen
from netsim.results import Result
from netsim.workloads.reports.serving import REQUEST_LATENCY
from netsim.workloads.serving.outcome import Log, log_of
from netsim.workloads.serving.plan import (
    DECODE_START,
    DONE,
    DOWN,
    FIRST_TOKEN,
    KV_TRANSFER_END,
    LOST,
    PREFILL_START,
    UP,
)

QUEUEING, PREFILL, KV, JOINING, DECODE, GONE = (
    *("queueing", "prefill", "kv", "decode_queue", "decode", "lost"),
)
LABELS = {
    QUEUEING: "waiting for prefill",
    PREFILL: "prefill",
    KV: "KV cache transfer",
    JOINING: "waiting to decode",
    DECODE: "decode",
    GONE: "lost, waiting for restart",
}
"""Stages and their titles."""

NEXT = {
    PREFILL_START: PREFILL,
    FIRST_TOKEN: KV,
    KV_TRANSFER_END: JOINING,
    DECODE_START: DECODE,
    LOST: GONE,
}
"""The stage that follows each event of the log."""

BY_ITERATION = (PREFILL, DECODE)  # stages with one row per iteration

GAP_PARTS = {
    "kv_ps": "KV cache",
    "waiting_ps": "waiting",
    "down_ps": "down",
    "computing_ps": "compute",
    "network_ps": "network",
}
"""Columns of `LatencyBreakdown.gaps` that add up to a gap, and their titles."""

Row = dict[str, Any]


@frozen
class LatencyBreakdown:
    """The latency breakdown of a request."""

    # consecutive stages, from arrival to end; columns as in `COLUMNS["request_latency"]`
    rows: pl.DataFrame
    request: Row  # its row of requests.parquet
    point: str  # name of the result's point

    def gaps(self) -> pl.DataFrame:
        """Return the gaps between tokens, in order of time.

        Columns: token, the later one; start_ps, end_ps, gap_ps; the parts of the gap: KV-cache
        transfer (kv_ps), waiting for an iteration with the instance up (waiting_ps), instance down
        (down_ps), and the request's iterations (computing_ps, network_ps); and decode_batch and
        prompt_tokens of its last iteration.
        """
        length = pl.col("end_ps") - pl.col("start_ps")
        own = pl.when(pl.col("stage").is_in(BY_ITERATION))
        rows = self.rows.with_columns(
            token=pl.col("token").fill_null(strategy="backward"),
            kv_ps=pl.when(pl.col("stage") == KV).then(length).otherwise(0),
            computing_ps=own.then("computing_ps").otherwise(0),
            network_ps=own.then("network_ps").otherwise(0),
        )
        known = [name for name in GAP_PARTS if name != "waiting_ps"]
        gaps = rows.filter(pl.col("token") > 1).group_by("token", maintain_order=True)
        return gaps.agg(
            pl.col("start_ps").first(),
            pl.col("end_ps").last(),
            pl.col(known).sum(),
            pl.col("decode_batch", "prompt_tokens").last(),
        ).with_columns(gap_ps=length, waiting_ps=length - pl.sum_horizontal(known))


def request_latency(result: Result, request: int) -> LatencyBreakdown:
    """Return the latency breakdown of a request, from a result's tables. Raises InputError for a
    result without requests, or an unknown request."""
    requests, iterations, log = result.requests, result.iterations, result.log
    if requests is None or iterations is None or log is None:
        hint = 'choose a run with [traffic] kind = "serving"'
        raise InputError("serves no requests", file=str(result.path), hint=hint)
    if not 0 <= request < len(requests):
        raise InputError(
            f"unknown request {request}",
            file=str(result.path),
            key="--request",
            hint=f"0 to {len(requests) - 1}",
        )
    row = requests.row(request, named=True)
    maker = _LatencyRows(row, log_of(log), iterations, result.flows)
    rows = pl.DataFrame(
        list(maker.rows(result.summary["simulated_ps"])), schema=REQUEST_LATENCY.schema()
    )
    return LatencyBreakdown(rows, row, result.name)


class _LatencyRows:
    """Builds the rows of a breakdown."""

    def __init__(
        self, request: Row, log: Log, iterations: pl.DataFrame, flows: pl.DataFrame
    ) -> None:
        self.request, self.flows, self.log = request, flows, log
        mine = log["request"] == request["request"]
        rows = np.flatnonzero(mine & np.isin(log["event"], (*NEXT, DONE)))
        rows = rows[np.lexsort((rows, log["time_ps"][rows]))]
        columns = (log[name][rows].tolist() for name in ("event", "time_ps", "host"))
        self.events: list[tuple[int, int, int]] = list(zip(*columns, strict=True))
        self.first, second = request["prefill_instance"], request["decode_instance"]
        self.instances: dict[int, int] = {}  # by leader
        for event, _, host in self.events:
            if event in (KV_TRANSFER_END, DECODE_START) and second is not None:
                self.instances[host] = second
            elif event == PREFILL_START:
                self.instances.setdefault(host, self.first)
        self.iterations = {
            one: _Iterations(iterations.filter(pl.col("instance") == one))
            for one in {self.first, *self.instances.values()}
        }
        self.n_tokens = 0

    def rows(self, end_ps: int) -> Iterator[Row]:
        """Yield the rows of the request's stages, to its end or the run's."""
        stage, since, host = QUEUEING, int(self.request["arrival_ps"]), -1
        for event, time, host in self.events:
            yield from self._of_stage(stage, since, time, host, event)
            if event == DONE:
                return
            stage, since = NEXT[event], time
            if event == FIRST_TOKEN and self.request["decode_instance"] is None:
                stage = JOINING
        if since < end_ps:
            yield from self._of_stage(stage, since, end_ps, host, -1)

    def _of_stage(self, stage: str, since: int, until: int, host: int, event: int) -> Iterator[Row]:
        """Yield the rows of a stage at a host that ends with an event: one row for each iteration,
        which begins when the one before ends, or a single row."""
        instance = self.instances.get(host, self.first)
        these = self.iterations[instance]
        counts = ("iterations", "decode_batch", "prompt_tokens", "computing_ps", "network_ps")
        row = {"stage": stage, "instance": instance, **dict.fromkeys((*counts, "down_ps"), 0)}
        if stage in BY_ITERATION:
            begin = since
            for k in these.ending_in(since, until):
                end = int(these.end[k])
                token = None
                if stage == DECODE or (end == until and event == FIRST_TOKEN):
                    self.n_tokens += 1
                    token = self.n_tokens
                sums = these.sums(k, k + 1, since, end)
                yield {**row, "start_ps": since, "end_ps": end, "token": token, **sums}
                since = end
            if since < until:  # a lost iteration
                row["down_ps"] = self._down_ps(host, begin, until)
                yield {**row, "start_ps": since, "end_ps": until}
        elif until > since:
            row |= {"start_ps": since, "end_ps": until, **these.under_way(since, until)}
            if stage == KV:
                # Flows continue while an instance is down.
                row |= {**self._last_flow(), "computing_ps": 0, "network_ps": until - since}
            else:
                row["down_ps"] = self._down_ps(host, since, until)
            yield row

    def _down_ps(self, host: int, since: int, until: int) -> int:
        """Return how long the instance of a host was down between two times."""
        at = self.log["host"] == host
        down, up = (
            np.sort(self.log["time_ps"][at & (self.log["event"] == event)]) for event in (DOWN, UP)
        )
        # An instance logs UP again when it becomes whole.
        back = np.append(up, until)[np.searchsorted(up, down, side="right")]
        inside = np.minimum(back, until) - np.maximum(down, since)
        return int(np.maximum(inside, 0).sum())

    def _last_flow(self) -> Row:
        first, many = self.request["kv_first_flow"], self.request["kv_flows"]
        if first is None or not many:
            return {}
        these = self.flows[int(first) : int(first) + int(many)].drop_nulls("fct_ps")
        if not len(these):
            return {}
        last = these.sort(pl.col("start_ps") + pl.col("fct_ps")).row(-1, named=True)
        return {"flow": last["flow"], "flow_ps": last["fct_ps"], "ideal_ps": last["ideal_ps"]}


class _Iterations:
    """The iterations of an instance, in order: int64[k] each."""

    def __init__(self, table: pl.DataFrame) -> None:
        names = ("start_ps", "end_ps", "decode_batch", "prompt_tokens", "network_ps")
        columns = (table[name].to_numpy() for name in names)
        self.start, self.end, self.batch, self.prompt, self.network = columns

    def ending_in(self, since: int, until: int) -> range:
        """Return the iterations that end after `since` and not after `until`."""
        a, b = np.searchsorted(self.end, [since, until], side="right")
        return range(int(a), int(b))

    def under_way(self, since: int, until: int) -> Row:
        """Return totals of the iterations in progress between two times."""
        a = int(np.searchsorted(self.end, since, side="right"))
        return self.sums(a, max(a, int(np.searchsorted(self.start, until))), since, until)

    def sums(self, a: int, b: int, since: int, until: int) -> Row:
        """Return totals of iterations `a` to `b` - 1 between two times. The network's share of an
        iteration that is only partly between them is assumed to be uniform over its time."""
        start, end, network = self.start[a:b], self.end[a:b], self.network[a:b]
        inside, whole = np.minimum(end, until) - np.maximum(start, since), end - start
        part = (network * (inside / np.maximum(whole, 1))).astype(np.int64)
        network = np.where(inside == whole, network, part)
        return {
            "iterations": b - a,
            "decode_batch": int(self.batch[a:b].sum()),
            "prompt_tokens": int(self.prompt[a:b].sum()),
            "computing_ps": int((inside - network).sum()),
            "network_ps": int(network.sum()),
        }
