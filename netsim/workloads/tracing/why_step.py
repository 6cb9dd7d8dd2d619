"""Explain a step of a job: its critical path, with the network's part explained flow by flow."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median_low
from typing import TYPE_CHECKING, Any

from netsim.tracing.causes import CAUSES
from netsim.tracing.record import Replay
from netsim.tracing.why import SENTENCES, Explanation, budget_table, explain_flows, joined_rows
from netsim.workloads.tracing.critical_path import critical_path

if TYPE_CHECKING:
    import polars as pl

    from netsim.results import Result
    from netsim.running.point import Progress

CAUSES_OF_STEPS = CAUSES | {
    "compute": "compute",
    "straggler": "straggler",
    "formula": "collectives by formula",
    "software": "software latency",
    "start": "start times",
    "network": "other network time",
}
"""Causes of steps besides those of flows, with their titles."""

SENTENCES_OF_STEPS = SENTENCES | {
    "straggler": "a straggler: {place} computed for longer than other hosts at the same place of "
    "their work",
    "start": "a start time in the traffic",
    "network": "flows that were not traced, beyond their ideal times",
}

TRACED = 20
"""Most flows of a path that are explained, those that waited longest."""

NOTABLE = 1.05
"""A task that takes this multiple of the median of its peers is a straggler."""


def explain_step(
    result: Result,
    step: int | None,
    *,
    directory: Path | None = None,
    trust: bool = False,
    progress: Callable[[Progress], None] | None = None,
) -> Explanation:
    """Explain the time of a step, or of the whole run without one: what is on its critical path.

    The flows on it that waited longest are explained as by `explain_flow`; arguments and errors as
    there and as for `critical_path`.
    """
    import polars as pl

    path = critical_path(result, directory, step, trust=trust)
    waited = path.segments.filter(segment_type="flow").with_columns(
        ps=pl.col("end_ps") - pl.col("start_ps") - pl.col("ideal_ps")
    )
    waited = waited.filter(pl.col("ps") > 0, pl.col("start_ps") > path.start_ps)
    flows = waited.sort("ps", descending=True, maintain_order=True)["flow"].head(TRACED).to_list()
    found: dict[int, Explanation] = {}
    if flows:
        replay = Replay.of(result, directory, trust=trust, progress=progress)
        found = explain_flows(replay, flows)
    rows = _Rows(result, found)
    total_ps = path.end_ps - path.start_ps
    what = "The run" if step is None else f"Step {step}"
    warnings = {*path.warnings, *(text for one in found.values() for text in one.warnings)}
    return Explanation(
        f"{what} of {result.name}",
        total_ps,
        None,
        budget_table(joined_rows(rows.of_path(path.segments))),
        result.flows,
        tuple(sorted(warnings)),
        CAUSES_OF_STEPS,
        SENTENCES_OF_STEPS,
    )


class _Rows:
    """Rows of the budget of a critical path."""

    def __init__(self, result: Result, explained: dict[int, Explanation]) -> None:
        self.explained, self.flows = explained, result.flows
        self.peers = _Peers(result.tasks)

    def of_path(self, segments: pl.DataFrame) -> Iterator[dict[str, Any]]:
        """Yield rows that add up to the time of the segments."""
        for one in segments.iter_rows(named=True):
            time_ps, kind = one["end_ps"] - one["start_ps"], one["kind"] or ""
            place = f"h{one['host']}"
            if one["segment_type"] == "compute":
                more = min(time_ps, self.peers.excess_ps(one["task"], time_ps))
                yield _row("straggler", kind or one["label"], place, more)
                yield _row("compute", kind, "", time_ps - more)
            elif one["segment_type"] in ("flow", "send"):
                yield from self._of_flow(one, time_ps, kind)
            else:
                causes = {"formula": "formula", "start": "start"}
                cause = causes.get(one["segment_type"], "software")
                yield _row(cause, kind, place if cause == "start" else "", time_ps)

    def _of_flow(self, one: dict[str, Any], time_ps: int, kind: str) -> Iterator[dict[str, Any]]:
        explained = self.explained.get(one["flow"])
        if explained is not None and explained.total_ps == time_ps:
            for row in explained.budget.iter_rows(named=True):
                manner = f"{kind}, {row['manner']}" if kind else row["manner"]
                yield {**row, "manner": manner}
            return
        ideal_ps = min(time_ps, one["ideal_ps"] or 0)
        yield _row("data", kind, "", ideal_ps)
        yield _row("network", kind, "", time_ps - ideal_ps)


class _Peers:
    """Compute tasks at the same place of the work of other hosts: the n-th with the same label, or
    else the n-th of all."""

    def __init__(self, tasks: pl.DataFrame | None) -> None:
        self.of_task: dict[tuple[int, bool], tuple[Any, ...]] = {}
        self.lengths: dict[tuple[Any, ...], dict[int, int]] = {}
        if tasks is None:
            return
        counts: dict[tuple[Any, ...], int] = {}
        computing = tasks.filter(tasks["kind"].cast(str) == "compute").drop_nulls("end_ps")
        for row in computing.iter_rows(named=True):
            for label in {row.get("label") or "", None}:
                place = row["host"], label
                counts[place] = counts.get(place, -1) + 1
                key = label, counts[place]
                length_ps = row.get("busy_ps") or row["end_ps"] - row["start_ps"]
                self.lengths.setdefault(key, {})[row["host"]] = length_ps
                self.of_task[row["task"], label is None] = key

    def excess_ps(self, task: int, time_ps: int) -> int:
        """Return by how much a task is longer than the median of its peers; 0 if not notably."""
        for by_place in (False, True):
            of_hosts = self.lengths.get(self.of_task.get((task, by_place), ()), {})
            if len(of_hosts) > 1:
                usual = median_low(sorted(of_hosts.values()))
                return time_ps - usual if time_ps > NOTABLE * usual else 0
        return 0


def _row(cause: str, manner: str, place: str, time_ps: int) -> dict[str, Any]:
    base = {"cause": cause, "manner": manner, "place": place, "root": ""}
    return {**base, "time_ps": time_ps, "flows": [], "flows_ps": []}
