"""The latency breakdown of one request of a serving run, from the result's tables."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from netsim.errors import InputError
from netsim.workloads.reports.traces import REQUEST_LATENCY
from netsim.workloads.serving.data import (
    DECODE_START,
    DONE,
    DOWN,
    FIRST_TOKEN,
    KV_TRANSFER_END,
    LOST,
    PREFILL_START,
    UP,
)
from netsim.workloads.serving.outcome import Log, log_of

if TYPE_CHECKING:
    import polars as pl

    from netsim.results import Result

QUEUEING, PREFILL, KV, JOINING, DECODE, GONE = (
    "queueing",
    "prefill",
    "kv",
    "decode_queue",
    "decode",
    "lost",
)

BY_ITERATION = (PREFILL, DECODE)
"""Stages with one row per iteration."""

Row = dict[str, Any]


@dataclass(frozen=True)
class LatencyBreakdown:
    """The latency breakdown of a request.

    Attributes:
        rows: consecutive stages, from arrival to end; columns as in `COLUMNS["request_latency"]`.
        request: its row of requests.parquet.
        point: name of the result's point.
    """

    rows: pl.DataFrame
    request: Row
    point: str

    def gaps(self) -> pl.DataFrame:
        """Return the gaps between tokens, in order of time.

        Columns: token, the later one; start_ps, end_ps, gap_ps; the parts of the gap: KV-cache
        transfer (kv_ps), waiting for an iteration with the instance up (waiting_ps), instance down
        (down_ps), and the request's iterations (computing_ps, network_ps); and decode_batch and
        prompt_tokens of its last iteration.
        """
        import polars as pl

        token = pl.col("token").fill_null(strategy="backward")
        length = pl.col("end_ps") - pl.col("start_ps")
        inside = pl.col("stage").is_in(BY_ITERATION)
        own = pl.when(inside)
        kv = pl.when(pl.col("stage") == KV).then(length).otherwise(0)
        rows = self.rows.with_columns(
            token=token,
            kv=kv,
            down=pl.col("down_ps"),
            computing=own.then("computing_ps").otherwise(0),
            network=own.then("network_ps").otherwise(0),
        )
        found = rows.filter(pl.col("token") > 1).group_by("token", maintain_order=True)
        gaps = found.agg(
            pl.col("start_ps").first(),
            pl.col("end_ps").last(),
            *(pl.col(name).sum().alias(f"{name}_ps") for name in ("kv", "computing", "network")),
            pl.col("down").sum().alias("down_sum"),
            *(pl.col(name).last() for name in ("decode_batch", "prompt_tokens")),
        ).rename({"down_sum": "down_ps"})
        gap = pl.col("end_ps") - pl.col("start_ps")
        known = sum(pl.col(f"{name}_ps") for name in ("kv", "computing", "network", "down"))
        return gaps.with_columns(gap_ps=gap, waiting_ps=gap - known)


class _Stage(NamedTuple):
    """A stage of a request at a host."""

    what: str
    start_ps: int
    end_ps: int
    host: int


def request_latency(result: Result, request: int) -> LatencyBreakdown:
    """Return the latency breakdown of a request, from a result's tables.

    Raises InputError for a result without requests, or an unknown request.
    """
    import polars as pl

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
    maker = _LatencyRows(row, log_of(log), iterations, result.flows, result.summary["simulated_ps"])
    schema = {
        column.name: pl.String if column.unit == "" else pl.Int64
        for column in REQUEST_LATENCY.columns
    }
    return LatencyBreakdown(pl.DataFrame(list(maker.rows()), schema=schema), row, result.name)


class _LatencyRows:
    """Builds the rows of a breakdown."""

    def __init__(
        self, request: Row, log: Log, iterations: pl.DataFrame, flows: pl.DataFrame, end_ps: int
    ) -> None:
        self.request, self.flows, self.log, self.end_ps = request, flows, log, end_ps
        mine = log["request"] == request["request"]
        rows = np.flatnonzero(mine & np.isin(log["event"], (*_NEXT, DONE)))
        rows = rows[np.lexsort((rows, log["time_ps"][rows]))]
        self.what, self.time, self.host = (
            log[name][rows].tolist() for name in ("event", "time_ps", "host")
        )
        self.instances = self._instances()
        self.iterations_of = {
            instance: _Iterations(iterations, instance)
            for instance in {int(request["prefill_instance"]), *self.instances.values()}
        }
        self.n_tokens = 0

    def _instances(self) -> dict[int, int]:
        """Return the request's instances by their leader hosts."""
        found = {}
        second = self.request["decode_instance"]
        for what, host in zip(self.what, self.host, strict=True):
            if what in (KV_TRANSFER_END, DECODE_START) and second is not None:
                found[host] = int(second)
            elif what == PREFILL_START and host not in found:
                found[host] = int(self.request["prefill_instance"])
        return found

    def stages(self) -> Iterator[_Stage]:
        """Yield the request's stages, to its end or that of the run."""
        what, since, host = QUEUEING, int(self.request["arrival_ps"]), -1
        for event, time, host in zip(self.what, self.time, self.host, strict=True):
            yield _Stage(what, since, time, host)
            since = time
            if event == DONE:
                return
            what = _NEXT[event]
            if event == FIRST_TOKEN and self.request["decode_instance"] is None:
                what = JOINING
        if since < self.end_ps:
            yield _Stage(what, since, self.end_ps, host)

    def rows(self) -> Iterator[Row]:
        """Yield the rows of the breakdown."""
        stages = list(self.stages())
        for place, one in enumerate(stages):
            ends = self.what[place] if place < len(self.what) else -1
            instance = self.instances.get(one.host, int(self.request["prefill_instance"]))
            if one.what in BY_ITERATION:
                yield from self._iterations(one, instance, ends)
            elif one.end_ps > one.start_ps:
                yield self._single_row(one, instance)

    def _iterations(self, one: _Stage, instance: int, ends: int) -> Iterator[Row]:
        """Yield one row per iteration of a stage; each begins when the one before ends."""
        these, since = self.iterations_of[instance], one.start_ps
        for k in these.ending_in(one.start_ps, one.end_ps):
            until = int(these.end[k])
            last = until == one.end_ps
            if one.what == DECODE or (last and ends == FIRST_TOKEN):
                self.n_tokens += 1
                token = self.n_tokens
            else:
                token = None
            yield {
                **_row(one.what, since, until, instance),
                "token": token,
                **these.sums(k, k + 1, since, until),
            }
            since = until
        if since < one.end_ps:  # a lost iteration
            yield {**_row(one.what, since, one.end_ps, instance), **self._down(one)}

    def _single_row(self, one: _Stage, instance: int) -> Row:
        """Return the row of a stage without iterations."""
        these = self.iterations_of[instance]
        a, b = these.under_way(one.start_ps, one.end_ps)
        row = _row(one.what, one.start_ps, one.end_ps, instance)
        row |= these.sums(a, b, one.start_ps, one.end_ps)
        if one.what == KV:
            # Flows continue while an instance is down.
            whole = {"computing_ps": 0, "network_ps": one.end_ps - one.start_ps}
            return row | self._last_flow() | whole
        return row | self._down(one)

    def _down(self, one: _Stage) -> Row:
        """Return how long the instance was down during a stage."""
        at = self.log["host"] == one.host
        down, up = (
            np.sort(self.log["time_ps"][at & (self.log["event"] == what)]) for what in (DOWN, UP)
        )
        # An instance logs UP again when it becomes whole.
        back = np.append(up, one.end_ps)[np.searchsorted(up, down, side="right")]
        inside = np.minimum(back, one.end_ps) - np.maximum(down, one.start_ps)
        return {"down_ps": int(np.maximum(inside, 0).sum())}

    def _last_flow(self) -> Row:
        """Return the last delivered flow of the KV cache."""
        import polars as pl

        first, many = self.request["kv_first_flow"], self.request["kv_flows"]
        if first is None or not many:
            return {}
        these = self.flows[int(first) : int(first) + int(many)].drop_nulls("fct_ps")
        if not len(these):
            return {}
        last = these.sort(pl.col("start_ps") + pl.col("fct_ps")).row(-1, named=True)
        return {"flow": last["flow"], "flow_ps": last["fct_ps"], "ideal_ps": last["ideal_ps"]}


_NEXT = {
    PREFILL_START: PREFILL,
    FIRST_TOKEN: KV,
    KV_TRANSFER_END: JOINING,
    DECODE_START: DECODE,
    LOST: GONE,
}
"""Stages after events of the log."""


def _row(what: str, since: int, until: int, instance: int) -> Row:
    counts = dict.fromkeys(
        ("iterations", "decode_batch", "prompt_tokens", "computing_ps", "network_ps", "down_ps"), 0
    )
    return {"start_ps": since, "end_ps": until, "stage": what, "instance": instance, **counts}


class _Iterations:
    """The iterations of an instance, in order: int64[k] each."""

    def __init__(self, table: pl.DataFrame, instance: int) -> None:
        import polars as pl

        mine = table.filter(pl.col("instance") == instance)
        self.start, self.end, self.batch, self.prompt, self.network = (
            mine[name].to_numpy()
            for name in ("start_ps", "end_ps", "decode_batch", "prompt_tokens", "network_ps")
        )

    def ending_in(self, since: int, until: int) -> range:
        """Return the iterations that end after `since` and not after `until`."""
        a, b = np.searchsorted(self.end, [since, until], side="right")
        return range(int(a), int(b))

    def under_way(self, since: int, until: int) -> tuple[int, int]:
        """Return the range of iterations in progress between two times."""
        a = int(np.searchsorted(self.end, since, side="right"))
        return a, max(a, int(np.searchsorted(self.start, until, side="left")))

    def sums(self, a: int, b: int, since: int, until: int) -> Row:
        """Return totals of iterations `a` to `b` - 1 between two times.

        The network's share of an iteration that is only partly between them is assumed to be
        uniform over its time.
        """
        start, end = self.start[a:b], self.end[a:b]
        inside = np.minimum(end, until) - np.maximum(start, since)
        network = _share(self.network[a:b], inside, end - start)
        return {
            "iterations": b - a,
            "decode_batch": int(self.batch[a:b].sum()),
            "prompt_tokens": int(self.prompt[a:b].sum()),
            "computing_ps": int((inside - network).sum()),
            "network_ps": int(network.sum()),
        }


def _share(part: NDArray[np.int64], inside: NDArray[np.int64], whole: NDArray[np.int64]) -> Any:
    """Scale `part` by `inside` / `whole`, rounded down."""
    found = (part * (inside / np.maximum(whole, 1))).astype(np.int64)
    return np.where(inside == whole, part, found)
