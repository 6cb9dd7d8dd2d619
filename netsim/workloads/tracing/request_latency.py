"""What became of one request of a serving run, and what it waited for, from the result alone."""

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
from netsim.workloads.serving.tokens import Log, log_of

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
"""What a request does, or waits for."""

BY_ITERATION = (PREFILL, DECODE)
"""Of these there is a row for each iteration."""

Row = dict[str, Any]


@dataclass(frozen=True)
class LatencyBreakdown:
    """The story of a request.

    Attributes:
        rows: consecutive, from its arrival to its end; columns as in `COLUMNS["request_latency"]`.
        request: its row of requests.parquet.
        point: name of the result's point.
    """

    rows: pl.DataFrame
    request: Row
    point: str

    def gaps(self) -> pl.DataFrame:
        """The gaps between its tokens, a row each, in the order of time.

        Columns: token, the later one; start_ps, end_ps, gap_ps; of the gap what the KV cache was on
        its way (kv_ps), it waited for an iteration (waiting_ps, machines that are down left out),
        machines were down otherwise (down_ps), and iterations computed with it in them
        (computing_ps) and were on the network (network_ps); of its last iteration batch and
        prompt_tokens.
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


class _Stretch(NamedTuple):
    """A time in which a request does one thing, at a host."""

    what: str
    start_ps: int
    end_ps: int
    host: int


def request_latency(result: Result, request: int) -> LatencyBreakdown:
    """The story of a request, from the tables of a result; nothing is simulated again.

    Raises InputError if the result is of no serving run, or has no such request.
    """
    import polars as pl

    requests, iterations, log = result.requests, result.iterations, result.log
    if requests is None or iterations is None or log is None:
        hint = 'of a run with [traffic] kind = "serving"'
        raise InputError("serves no requests", file=str(result.path), hint=hint)
    if not 0 <= request < len(requests):
        raise InputError(
            f"request {request} does not exist",
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
    """Makes the rows of a story."""

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
        self.machines = self._machines()
        self.of_machine = {
            machine: _Iterations(iterations, machine)
            for machine in {int(request["prefill_instance"]), *self.machines.values()}
        }
        self.told = 0

    def _machines(self) -> dict[int, int]:
        """The machines of the request, by the hosts that its rows are of."""
        found = {}
        second = self.request["decode_instance"]
        for what, host in zip(self.what, self.host, strict=True):
            if what in (KV_TRANSFER_END, DECODE_START) and second is not None:
                found[host] = int(second)
            elif what == PREFILL_START and host not in found:
                found[host] = int(self.request["prefill_instance"])
        return found

    def stretches(self) -> Iterator[_Stretch]:
        """What the request did, from its arrival to its end or to that of the run."""
        what, since, host = QUEUEING, int(self.request["arrival_ps"]), -1
        for event, time, host in zip(self.what, self.time, self.host, strict=True):
            yield _Stretch(what, since, time, host)
            since = time
            if event == DONE:
                return
            what = _NEXT[event]
            if event == FIRST_TOKEN and self.request["decode_instance"] is None:
                what = JOINING
        if since < self.end_ps:
            yield _Stretch(what, since, self.end_ps, host)

    def rows(self) -> Iterator[Row]:
        """The rows of the story."""
        stretches = list(self.stretches())
        for place, one in enumerate(stretches):
            ends = self.what[place] if place < len(self.what) else -1
            machine = self.machines.get(one.host, int(self.request["prefill_instance"]))
            if one.what in BY_ITERATION:
                yield from self._iterations(one, machine, ends)
            elif one.end_ps > one.start_ps:
                yield self._stretch(one, machine)

    def _iterations(self, one: _Stretch, machine: int, ends: int) -> Iterator[Row]:
        """A row for each iteration of a stretch; it begins as the one before it ended."""
        these, since = self.of_machine[machine], one.start_ps
        for k in these.ending_in(one.start_ps, one.end_ps):
            until = int(these.end[k])
            last = until == one.end_ps
            if one.what == DECODE or (last and ends == FIRST_TOKEN):
                self.told += 1
                token = self.told
            else:
                token = None
            yield {
                **_row(one.what, since, until, machine),
                "token": token,
                **these.sums(k, k + 1, since, until),
            }
            since = until
        if since < one.end_ps:  # an iteration that was lost
            yield {**_row(one.what, since, one.end_ps, machine), **self._down(one)}

    def _stretch(self, one: _Stretch, machine: int) -> Row:
        """A row of what takes no iteration."""
        these = self.of_machine[machine]
        a, b = these.under_way(one.start_ps, one.end_ps)
        row = _row(one.what, one.start_ps, one.end_ps, machine)
        row |= these.sums(a, b, one.start_ps, one.end_ps)
        if one.what == KV:
            # Flows go on while a machine is down: all of this time is theirs.
            whole = {"computing_ps": 0, "network_ps": one.end_ps - one.start_ps}
            return row | self._last_flow() | whole
        return row | self._down(one)

    def _down(self, one: _Stretch) -> Row:
        """For how long of a stretch its machine was down."""
        at = self.log["host"] == one.host
        down, up = (
            np.sort(self.log["time_ps"][at & (self.log["event"] == what)]) for what in (DOWN, UP)
        )
        # A machine that is back has another row when it is whole.
        back = np.append(up, one.end_ps)[np.searchsorted(up, down, side="right")]
        inside = np.minimum(back, one.end_ps) - np.maximum(down, one.start_ps)
        return {"down_ps": int(np.maximum(inside, 0).sum())}

    def _last_flow(self) -> Row:
        """The flow of the KV cache that was delivered last."""
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
"""What follows on a row of the log."""


def _row(what: str, since: int, until: int, machine: int) -> Row:
    counts = dict.fromkeys(
        ("iterations", "decode_batch", "prompt_tokens", "computing_ps", "network_ps", "down_ps"), 0
    )
    return {"start_ps": since, "end_ps": until, "stage": what, "instance": machine, **counts}


class _Iterations:
    """The iterations of a machine, in order: int64[k] each."""

    def __init__(self, table: pl.DataFrame, machine: int) -> None:
        import polars as pl

        mine = table.filter(pl.col("instance") == machine)
        self.start, self.end, self.batch, self.prompt, self.network = (
            mine[name].to_numpy()
            for name in ("start_ps", "end_ps", "decode_batch", "prompt_tokens", "network_ps")
        )

    def ending_in(self, since: int, until: int) -> range:
        """Those that end later than `since` and no later than `until`."""
        a, b = np.searchsorted(self.end, [since, until], side="right")
        return range(int(a), int(b))

    def under_way(self, since: int, until: int) -> tuple[int, int]:
        """Those that were under way between two times: from which to before which."""
        a = int(np.searchsorted(self.end, since, side="right"))
        return a, max(a, int(np.searchsorted(self.start, until, side="left")))

    def sums(self, a: int, b: int, since: int, until: int) -> Row:
        """What those from `a` to before `b` did, and for how long between two times.

        An iteration that is only in part between them is taken to be on the network for that part
        of its time there.
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
    """Of each part of a whole what is inside, rounded down; all of it where all is."""
    found = (part * (inside / np.maximum(whole, 1))).astype(np.int64)
    return np.where(inside == whole, part, found)
