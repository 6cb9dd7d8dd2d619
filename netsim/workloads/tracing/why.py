"""Explain the time of a step of a job, by its critical path, and the latency of a request, by its
stages; the flows on these paths that waited longest are simulated again."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache
from typing import Any

import numpy as np
import polars as pl

from netsim.errors import InputError
from netsim.experiment.scenario import Scenario
from netsim.model.workload import JOIN, TaskTable
from netsim.results import Result
from netsim.tracing.causes import CAUSES, Part
from netsim.tracing.critical_path_search import PathSegment, Program, path_segments
from netsim.tracing.record import Replay
from netsim.tracing.why import ROW, SENTENCES, Explanation, explain_windows, joined
from netsim.workloads.serving.instance import ANNOUNCED, POOL_READ, POOL_REQUEST, REDUCED, REQUEST
from netsim.workloads.serving.plan import ServingPlan
from netsim.workloads.tracing.critical_path import (
    Step,
    critical_path,
    recorded_times,
    step_name,
)
from netsim.workloads.tracing.request_latency import (
    BY_ITERATION,
    GONE,
    KV,
    QUEUEING,
    LatencyBreakdown,
    request_latency,
)

TRACED = 20  # maximum number of traced flows of a path: the ones that waited longest

Row = dict[str, Any]


class FlowParts:
    """The budgets of flows on a path.

    Args:
        windows: the time that the path spends on each flow.
        ideals: the shortest such time, in an idle network.
        replay: makes the replay, if any flow waited.
    """

    def __init__(
        self,
        windows: Mapping[int, tuple[int, int]],
        ideals: Mapping[int, int],
        replay: Callable[[], Replay],
    ) -> None:
        self.ideals = ideals
        waited = {flow: end - start - ideals[flow] for flow, (start, end) in windows.items()}
        longest = sorted(windows, key=lambda flow: -waited[flow])[:TRACED]
        traced = {flow: windows[flow] for flow in longest if waited[flow] > 0}
        self.traced: dict[int, Explanation] = explain_windows(replay(), traced) if traced else {}

    @property
    def warnings(self) -> tuple[str, ...]:
        return tuple(sorted({text for one in self.traced.values() for text in one.warnings}))

    def of(self, flow: int, time_ps: int, kind: str) -> Iterator[Part]:
        """Yield parts that add up to the time on a flow of a kind."""
        if flow in self.traced:
            for part in self.traced[flow].parts:
                yield part._replace(manner=f"{kind}, {part.manner}") if kind else part
            return
        ideal_ps = min(time_ps, self.ideals[flow])
        yield Part("data", kind, "", ideal_ps)
        yield Part("network", kind, "", time_ps - ideal_ps)


CAUSES_OF_STEPS = CAUSES | {
    "compute": "compute",
    "straggler": "straggler",
    "formula": "collectives by formula",
    "software": "software latency",
    "start": "start times",
    "network": "other network time",
}
"""Causes of steps besides causes of flows, with their titles."""

SENTENCES_OF_STEPS = SENTENCES | {
    "straggler": "a straggler: {place} computed for longer than other hosts at the same place of "
    "their work",
    "start": "a start time in the traffic",
    "network": "flows that were not traced, beyond their ideal times",
}

NOTABLE = 1.05  # a task that takes this multiple of its peers' median is a straggler


def explain_step(result: Result, step: Step | None, **replaying: Any) -> Explanation:
    """Explain the time of a step by its critical path; without a step, the time of the whole run.

    `explain_flow` explains the flows on the path that waited longest. Raises the same InputErrors
    as `explain_flow` and `critical_path`. `replaying` are options of `Replay.of`.
    """
    replay = Replay.of(result, **replaying)
    path = critical_path(result, step=step, replay=replay)
    crossing = path.segments.filter(pl.col("ideal_ps").is_not_null()).to_dicts()
    flows = FlowParts(
        {one["flow"]: (one["start_ps"], one["end_ps"]) for one in crossing},
        {one["flow"]: one["ideal_ps"] for one in crossing},
        lambda: replay,
    )
    usual_ps = _usual_times(result.tasks, path.segments["task"].drop_nulls())
    what = "The run" if step is None else step_name(step).capitalize()
    return Explanation(
        f"{what} of {result.name}",
        path.end_ps - path.start_ps,
        None,
        joined(_parts(path.segments, flows, usual_ps), ROW),
        result.flows,
        (*path.warnings, *(text for text in flows.warnings if text not in path.warnings)),
        CAUSES_OF_STEPS,
        SENTENCES_OF_STEPS,
    )


def _parts(segments: pl.DataFrame, flows: FlowParts, usual_ps: dict[int, int]) -> Iterator[Part]:
    """Yield parts that add up to the time of the segments of a critical path."""
    for one in segments.iter_rows(named=True):
        time_ps, kind = one["end_ps"] - one["start_ps"], one["kind"] or ""
        place = f"h{one['host']}"
        if one["segment_type"] == "compute":
            usual = usual_ps.get(one["task"], time_ps)
            more = time_ps - usual if time_ps > NOTABLE * usual else 0
            yield Part("straggler", kind or one["label"], place, more)
            yield Part("compute", kind, "", time_ps - more)
        elif one["segment_type"] in ("flow", "send"):
            yield from flows.of(one["flow"], time_ps, kind)
        elif one["segment_type"] == "start":
            yield Part("start", kind, place, time_ps)
        else:
            cause = "formula" if one["segment_type"] == "formula" else "software"
            yield Part(cause, kind, "", time_ps)


def _usual_times(tasks: pl.DataFrame | None, path: pl.Series) -> dict[int, int]:
    """Return, for tasks of a path, the median time in ps of the corresponding compute tasks of all
    hosts: the n-th with the same label, or else the n-th of all. Tasks without counterparts on
    other hosts are left out.
    """
    if tasks is None:
        return {}
    label = pl.col("label").fill_null("") if "label" in tasks.columns else pl.lit("")
    took = pl.col("end_ps") - pl.col("start_ps")
    if "busy_ps" in tasks.columns:
        took = pl.when(pl.col("busy_ps") > 0).then("busy_ps").otherwise(took)
    computing = tasks.filter(tasks["kind"].cast(pl.String) == "compute").drop_nulls("end_ps")
    computing = computing.select("task", "host", label=label, took=took)
    usual: dict[int, int] = {}
    low = pl.col("took").sort().get((pl.len() - 1) // 2)
    for keys in ([], ["label"]):
        place = [*keys, "nth"]
        every = computing.with_columns(nth=pl.int_range(pl.len()).over("host", *keys))
        asked = every.filter(pl.col("task").is_in(path.implode())).select("task", *place)
        same = every.join(asked, on=place, how="semi").group_by(place)
        medians = same.agg(low.alias("usual"), hosts=pl.len()).filter(pl.col("hosts") > 1)
        usual |= dict(asked.join(medians, on=place).select("task", "usual").rows())
    return usual


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
"""Causes of requests besides causes of flows, with their titles."""

SENTENCES_OF_REQUESTS = SENTENCES | {
    "queueing": "waiting for prefill at {place}, which computed {manner} meanwhile",
    "waiting": "waiting for an iteration of {place}",
    "network": "the network inside iterations of {place} ({manner})",
    "down": "{place}, which was down",
    "lost": "a failure of {place}: the request had to start again",
    "kv_behind": "its KV cache, behind other transfers at {place} ({manner}): {flows}",
    "kv_slow": "its KV cache ({manner})",
}

BEHIND = ("incast", "collision", "shared_link", "pfc", "nic")  # causes due to other flows

TTFT, TBT = "ttft", "tbt"


def explain_request(result: Result, request: int, what: str = "", **replaying: Any) -> Explanation:
    """Explain the time of a request: until its first token ("ttft"), in its longest gap between
    tokens ("tbt"), or from its arrival to its end ("").

    Only a KV cache transfer in that time needs another simulation. Errors as for `explain_flow` and
    `request_latency`. `replaying` are options of `Replay.of`.
    """
    breakdown = request_latency(result, request)
    start_ps, end_ps = _times(breakdown, what, str(result.path))
    rows = [
        {**row, "start_ps": max(start_ps, row["start_ps"]), "end_ps": min(end_ps, row["end_ps"])}
        for row in breakdown.rows.iter_rows(named=True)
        if row["start_ps"] < end_ps and row["end_ps"] > start_ps
    ]
    request_parts = _RequestParts(result, rows, request, lambda: Replay.of(result, **replaying))
    titles = {TTFT: "time to first token of ", TBT: "longest gap between tokens of "}
    subject = f"{titles.get(what, '')}request {request} of {result.name}"
    return Explanation(
        subject[0].upper() + subject[1:],
        end_ps - start_ps,
        None,
        joined((part for row in rows for part in request_parts.of(row)), ROW),
        result.flows,
        request_parts.flows.warnings,
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


class _RequestParts:
    """Parts of a request's time: its stages, with the paths of its KV cache and of iterations in
    packets."""

    def __init__(
        self, result: Result, rows: list[Row], request: int, replay: Callable[[], Replay]
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
                with suppress(InputError):  # times that do not belong to a single path
                    self.paths[row["start_ps"]] = (
                        paths.of_transfer(request, *window)
                        if row["stage"] == KV
                        else paths.of_iteration(row["instance"], *window)
                    )
        ideals = result.flows["ideal_ps"]
        windows = {
            one.flow: (one.start_ps, one.end_ps)
            for path in self.paths.values()
            for one in _crossing(path)
        }
        self.flows = FlowParts(windows, {flow: int(ideals[flow]) for flow in windows}, replay)

    def of(self, one: Row) -> Iterator[Part]:
        """Yield parts that add up to the time of a row of the breakdown."""
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
            yield Part("down", stage, place, down_ps)
            yield Part("network", f"{stage}, {kind}", place, network_ps)
            yield Part(stage, _work(one), place, computing_ps)
            waiting_ps = time_ps - down_ps - network_ps - computing_ps
            yield Part("waiting", stage, place, waiting_ps)
        else:
            cause = {QUEUEING: "queueing", GONE: "lost"}.get(stage, "waiting")
            yield Part("down", stage, place, down_ps)
            yield Part(cause, _work(one), place, time_ps - down_ps)

    def _of_iteration(self, one: Row, path: list[PathSegment], place: str) -> Iterator[Part]:
        """Yield the parts of an iteration's path. Hosts compute, and wait for the latency of
        all-reduces that are not sent."""
        stage, begin_ps = one["stage"], path[0].start_ps
        yield Part("waiting", stage, place, begin_ps - one["start_ps"])
        own_ps = one["end_ps"] - begin_ps
        for segment in _crossing(path):
            time_ps = segment.end_ps - segment.start_ps
            own_ps -= time_ps
            yield from self.flows.of(segment.flow, time_ps, self.kinds[segment.flow])
        computing_ps = min(own_ps, one["computing_ps"])
        yield Part(stage, _work(one), place, computing_ps)
        latency_ps = own_ps - computing_ps
        yield Part("network", f"{stage}, latency of all-reduces", place, latency_ps)

    def _of_kv(self, path: list[PathSegment] | None, time_ps: int) -> Iterator[Part]:
        for segment in _crossing(path or ()):
            took_ps = segment.end_ps - segment.start_ps
            time_ps -= took_ps
            for part in self.flows.of(segment.flow, took_ps, self.kinds[segment.flow]):
                cause = "kv_behind" if part.cause in BEHIND else "kv_slow"
                cause = cause if part.cause in SENTENCES_OF_REQUESTS else "kv"
                title = CAUSES_OF_REQUESTS[part.cause]
                yield part._replace(cause=cause, manner=f"{part.manner}, {title}")
        yield Part("kv", "software" if path else "transfer", "", time_ps)


def _crossing(path: Sequence[PathSegment]) -> Iterator[PathSegment]:
    """Yield the segments of a path that cross the network."""
    return (one for one in path if one.segment_type in ("flow", "send"))


def _work(one: Row) -> str:
    """Describe the computation in a row of a breakdown."""
    batch = one["decode_batch"] // max(1, one["iterations"])
    work = [f"{batch:,} sequences"] * (batch > 0)
    work += [f"{one['prompt_tokens']:,} prompt tokens"] * (one["prompt_tokens"] > 0)
    many = f" in {one['iterations']:,} iterations" if one["iterations"] > 1 else ""
    return f"{' and '.join(work) or 'nothing'}{many}"


AT_ONCE = (POOL_REQUEST, POOL_READ)
"""Roles of tasks after which a host continues at the same instant, or for another reason."""


class ServingPaths:
    """Critical paths of a serving run. Raises InputError for an ambiguous path, such as one through
    a transfer that was repeated after a failure."""

    def __init__(self, result: Result, scenario: Scenario) -> None:
        self.flows, self.tasks = scenario.messages, scenario.tasks or TaskTable([], [])
        self.times = recorded_times(result)
        program, n = scenario.load.program, len(self.tasks)
        assert program is not None
        plan = scenario.load.part(ServingPlan)
        self.leader = [] if plan is None else plan.instances.leader.tolist()
        self.role, self.request = np.full((2, n), -1)  # of tasks other than the program's
        for column, name in ((self.role, "role"), (self.request, "request")):
            state = program.task_state[name][: n - program.first_task]
            column[program.first_task :][: state.size] = state

    def of_iteration(self, instance: int, start_ps: int, end_ps: int) -> list[PathSegment]:
        """Return the path of an iteration of an instance; [] if no packets end it."""
        ends = (self.role == REDUCED) & (self.tasks.host == self.leader[instance])
        return self._path(ends, start_ps, end_ps, self._after_work(start_ps))

    def of_transfer(self, request: int, start_ps: int, end_ps: int) -> list[PathSegment]:
        """Return the path of a request's KV cache from its first token on; [] if it is unknown."""
        ends = (self.role == REQUEST) & (self.request == request) & (self.tasks.kind == JOIN)
        return self._path(ends, start_ps, end_ps, lambda _, begin_ps: (-1, begin_ps))

    def _path(
        self, ends: np.ndarray, start_ps: int, end_ps: int, program: Program
    ) -> list[PathSegment]:
        """Return the path to a task that ends at a time, back to `start_ps`."""
        last = np.flatnonzero(ends & (self.times.end_ps == end_ps))
        if not last.size:
            return []
        found = path_segments(self.tasks, self.flows, self.times, int(last[0]), program)
        return [
            one._replace(start_ps=max(one.start_ps, start_ps))
            for one in found
            if one.end_ps > start_ps
        ]

    def _after_work(self, begin_ps: int) -> Program:
        """Return why hosts start tasks in an iteration that begins at a time: after computing since
        an all-reduce or the announcement, or after a pool read."""

        def program(task: int, start_ps: int) -> tuple[int, int]:
            end_ps = self.times.end_ps
            here = (self.tasks.host == self.tasks.host[task]) & (end_ps >= 0)
            asked = np.flatnonzero(here & np.isin(self.role, AT_ONCE) & (end_ps == start_ps))
            if asked.size:
                return int(asked[0]), start_ps
            worked = here & np.isin(self.role, (REDUCED, ANNOUNCED))
            before = np.flatnonzero(worked & (end_ps <= start_ps) & (end_ps > begin_ps))
            if not before.size:
                return -1, begin_ps
            last = int(before[np.argmax(end_ps[before])])
            return last, int(end_ps[last])

        return program
