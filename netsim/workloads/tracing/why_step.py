"""Explain a step of a job: its critical path, with the network's part explained flow by flow."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from netsim.tracing.causes import CAUSES
from netsim.tracing.record import Replay
from netsim.tracing.why import SENTENCES, Explanation, budget_table, joined_rows
from netsim.workloads.tracing.budget_rows import FlowRows, Row, budget_row
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

    replay = Replay.of(result, directory, trust=trust, progress=progress)
    path = critical_path(result, step=step, replay=replay)
    crossing = path.segments.filter(pl.col("ideal_ps").is_not_null()).to_dicts()
    flows = FlowRows(
        {one["flow"]: (one["start_ps"], one["end_ps"]) for one in crossing},
        {one["flow"]: one["ideal_ps"] for one in crossing},
        lambda: replay,
    )
    what = "The run" if step is None else f"Step {step}"
    return Explanation(
        f"{what} of {result.name}",
        path.end_ps - path.start_ps,
        None,
        budget_table(joined_rows(_rows(path.segments, flows, _usual_times(result.tasks)))),
        result.flows,
        (*path.warnings, *(text for text in flows.warnings if text not in path.warnings)),
        CAUSES_OF_STEPS,
        SENTENCES_OF_STEPS,
    )


def _rows(segments: pl.DataFrame, flows: FlowRows, usual_ps: dict[int, int]) -> Iterator[Row]:
    """Yield rows that add up to the time of the segments of a critical path."""
    for one in segments.iter_rows(named=True):
        time_ps, kind = one["end_ps"] - one["start_ps"], one["kind"] or ""
        place = f"h{one['host']}"
        if one["segment_type"] == "compute":
            usual = usual_ps.get(one["task"], time_ps)
            more = time_ps - usual if time_ps > NOTABLE * usual else 0
            yield budget_row("straggler", kind or one["label"], place, more)
            yield budget_row("compute", kind, "", time_ps - more)
        elif one["segment_type"] in ("flow", "send"):
            yield from flows.of(one["flow"], time_ps, kind)
        elif one["segment_type"] == "start":
            yield budget_row("start", kind, place, time_ps)
        else:
            cause = "formula" if one["segment_type"] == "formula" else "software"
            yield budget_row(cause, kind, "", time_ps)


def _usual_times(tasks: pl.DataFrame | None) -> dict[int, int]:
    """Return the median time, in ps, of the compute tasks at the same place of the work of other
    hosts: the n-th with the same label, or else the n-th of all. Tasks without such are left out.
    """
    import polars as pl

    if tasks is None:
        return {}
    label = pl.col("label").fill_null("") if "label" in tasks.columns else pl.lit("")
    took = pl.col("end_ps") - pl.col("start_ps")
    if "busy_ps" in tasks.columns:
        took = pl.when(pl.col("busy_ps") > 0).then("busy_ps").otherwise(took)
    computing = tasks.filter(tasks["kind"].cast(pl.String) == "compute").drop_nulls("end_ps")
    computing = computing.select("task", "host", label=label, took=took)
    usual: dict[int, int] = {}
    for keys in ([], ["label"]):
        same = computing.with_columns(nth=pl.int_range(pl.len()).over("host", *keys))
        same = same.select(
            "task", "took", hosts=pl.len().over(*keys, "nth"), place=pl.struct(*keys, "nth")
        ).filter(pl.col("hosts") > 1)
        low = pl.col("took").sort().get((pl.len() - 1) // 2)
        medians = same.group_by("place").agg(low.alias("usual"))
        usual |= dict(same.join(medians, on="place").select("task", "usual").rows())
    return usual
