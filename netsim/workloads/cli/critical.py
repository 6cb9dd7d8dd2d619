"""`netsim trace --critical-path` and `netsim why --step`: the critical path of a run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from netsim.cli.options import print_json
from netsim.cli.trace_output import TraceOutputs, write_tables
from netsim.common.terminal import Column, Wide, common_unit, number
from netsim.common.terminal import show as show_table

if TYPE_CHECKING:
    import polars as pl

    from netsim.results import Result
    from netsim.tracing.why import Explanation
    from netsim.workloads.tracing.critical_path import CriticalPath, Step


class _Step(click.ParamType):  # type: ignore[type-arg]
    """A step's number, or a tuple of a job and a step's number."""

    name = "[JOB:]N"

    def convert(self, value: Any, param: Any, ctx: Any) -> Any:
        job, colon, number = str(value).rpartition(":")
        if not number.isdecimal() or (colon and not job):
            self.fail(f"{value!r} is not a step, such as 0, or b:0 of job b", param, ctx)
        return (job, int(number)) if job else int(number)


OPTIONS = {
    "critical_path": click.option(
        "--critical-path",
        is_flag=True,
        help="Show the critical path of the run, and its time by compute, network (idle and "
        "waiting) and software. Simulates nothing.",
    ),
    "step": click.option("--step", type=_Step(), help="With --critical-path: end at this step."),
}
WITH = ("from", "experiment-dir")

LIMIT = 60  # default of --limit

LABELS = {
    "compute": "compute",
    "formula": "collectives by formula",
    "join": "joins",
    "flow": "flows",
    "send": "sends",
    "latency": "software latency",
    "start": "waiting for a start time",
}
"""Labels of `netsim.tracing.segments.SEGMENT_TYPES`."""


def show(result: Result, asked: Mapping[str, Any], outputs: TraceOutputs) -> None:
    import polars as pl

    from netsim.units import parse_time_ps
    from netsim.workloads.tracing.critical_path import critical_path

    since_ps = parse_time_ps(asked["from"]) if asked["from"] else 0
    path = critical_path(result, asked["experiment-dir"], asked["step"], trust=asked["trust"])
    for warning in path.warnings:
        click.echo(f"warning: {warning}", err=True)
    chosen = path.segments.filter(pl.col("end_ps") >= since_ps)
    write_tables("critical", chosen, outputs.csv, outputs.parquet)
    if outputs.as_json:
        kinds = path.by_kind().to_dicts()
        rest = {"point": path.point, "start_ps": path.start_ps, "warnings": path.warnings}
        print_json({**rest, "kinds": kinds, "segments": chosen.to_dicts()})
        return
    if outputs.quiet:
        return
    if not outputs.csv and not outputs.parquet:
        _print_segments(
            chosen.filter(pl.col("end_ps") > pl.col("start_ps")),
            LIMIT if outputs.limit is None else outputs.limit,
        )
    show_table(kinds_table(path))
    if not result.complete:
        click.echo("the run is not complete: the path ends at the last finished event")


def kinds_table(path: CriticalPath) -> Wide:
    kinds = path.by_kind().filter(path.by_kind()["time_ps"] > 0)
    length_ps = path.end_ps - path.start_ps
    unit, scale = common_unit([length_ps])

    def times(name: str) -> list[str]:
        return [number(value, scale) for value in kinds[name].to_list()]

    names = [_kind(row, LABELS[row["segment_type"]]) for row in kinds.iter_rows(named=True)]
    share = kinds["time_ps"] / max(1, length_ps)
    columns = [
        Column("", names, left=True),
        Column("segments", [f"{n:,}" for n in kinds["segments"].to_list()], rank=3),
        Column(f"time\n{unit}", times("time_ps")),
        Column("share", [f"{100 * one:.1f} %" for one in share.to_list()]),
    ]
    for name, title in (("ideal_ps", "idle"), ("waited_ps", "waiting")):
        if kinds[name].is_not_null().any():
            columns.append(Column(f"network,\n{title}, {unit}", times(name), rank=1))
    if kinds["stream_ps"].sum():
        columns.append(Column(f"blocked a\nstream, {unit}", times("stream_ps"), rank=2))
    title = f"Critical path of {path.point}, {number(length_ps, scale)} {unit}"
    return Wide(columns, title=title, elsewhere="use a wider terminal or a pipe")


def _kind(row: Mapping[str, Any], what: str) -> str:
    return f"{what}, {row['kind']}" if row["kind"] else what


def _print_segments(segments: pl.DataFrame, limit: int) -> None:
    shown = segments.head(limit) if limit else segments
    unit, scale = common_unit(segments["end_ps"].to_list()[-1:])
    rows = list(shown.iter_rows(named=True))
    columns = [
        Column(f"from\n{unit}", [number(row["start_ps"], scale) for row in rows]),
        Column(f"time\n{unit}", [number(row["end_ps"] - row["start_ps"], scale) for row in rows]),
        Column("host", [_hosts(row) for row in rows], left=True),
        Column("segment", [_kind(row, row["segment_type"]) for row in rows], left=True),
        Column("", [_name(row) for row in rows], left=True),
        Column("starts after", [row["start_reason"] for row in rows], left=True),
    ]
    show_table(Wide(columns))
    if len(shown) < len(segments):
        more = len(segments) - len(shown)
        click.echo(f"... and {more:,} more (--limit 0 prints all; --from skips)")


def _hosts(row: Mapping[str, Any]) -> str:
    return f"h{row['host']}" + (f" -> h{row['to']}" if row["to"] is not None else "")


def _name(row: Mapping[str, Any]) -> str:
    what = "task" if row["flow"] is None else "flow"
    named = f" ({row['label']})" if row["label"] else ""
    return f"{what} {row[what]}{named}"


OPTION = (
    "step",
    click.option("--step", type=_Step(), help="Explain this step of a job."),
)


def applies(result: Result) -> bool:
    return result.tasks is not None and "serving" not in result.summary


def explain(result: Result, step: Step | None, where: Mapping[str, Any]) -> Explanation:
    """Explain a step; without one the last step, or all tasks if there are no steps."""
    from netsim.workloads.tracing.critical_path import steps_done
    from netsim.workloads.tracing.why import explain_step

    if step is None and result.operations is not None:
        steps = steps_done(result)
        step = steps - 1 if steps else None
    return explain_step(result, step, **where)
