"""`netsim trace`: trace one flow of a result, or explain what took time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from netsim.cli.interrupt import Interruption
from netsim.cli.options import (
    FILE,
    PATH,
    WHOLE,
    experiment_dir_option,
    flow_number,
    json_option,
    print_json,
    together,
    trust_option,
)
from netsim.cli.trace_output import (
    LONGEST,
    TraceOutputs,
    flow_json,
    longest_table,
    print_events,
    remarks,
    summary,
    time_table,
    write_tables,
)
from netsim.common.discovery import applications
from netsim.common.terminal import show
from netsim.errors import InputError, did_you_mean
from netsim.units import written

if TYPE_CHECKING:
    import polars as pl

    from netsim.results import Result
    from netsim.tracing import FlowTrace

DRAWS = True

LIMIT = 60
EVENTS = (
    "send", "arrive", "forward", "drop", "trim", "mark", "lost", "receive", "create", "timer",
    "pause", "resume", "indirect",
)  # fmt: skip
SHOWN = tuple(name for name in EVENTS if name != "create")  # events printed without --events


TRACES = [import_module(name) for package in applications("cli") for name in package.TRACES]
"""Modules of applications that show parts of a result: OPTIONS (name -> click option;
the first selects it), WITH (other options that it takes) and show(result, asked, outputs)."""


@click.command("trace")
@click.argument("result", type=PATH)
@click.option("--flow", metavar="N", help='Flow number, "slowest", or rank: "p50", "p99:slowdown".')
@together(*(option for one in TRACES for option in one.OPTIONS.values()))
@click.option("--from", "since", metavar="TIME", help="Start of the output, such as 10us.")
@click.option("--to", "until", metavar="TIME", help="Stop the simulation at this time.")
@click.option("--seq", metavar="N", help='Number, or range "3..7", of the packets to show.')
@click.option("--events", metavar="NAMES", help=f"Events to show: {', '.join(EVENTS)}.")
@click.option("--fields", metavar="NAMES", help="State to show, such as next_seq or tx.next_seq.")
@click.option("--limit", type=click.IntRange(0), help=f"Lines to print ({LIMIT}); 0 prints all.")
@click.option("--csv", type=FILE, help="Write all rows as CSV.")  # fmt: skip
@click.option("--parquet", type=FILE, help="Write all rows as Parquet.")  # fmt: skip
@click.option(
    "--plot",
    is_flag=False,
    flag_value="",
    metavar="[FILE]",
    help="Save a plot instead of printing events (trace_N.png in the result).",
)
@experiment_dir_option
@trust_option
@json_option
@click.option("--quiet", is_flag=True, help="Print only errors and warnings.")
def command(
    result: Path,
    flow: str | None,
    since: str | None,
    until: str | None,
    seq: str | None,
    events: str | None,
    fields: str | None,
    limit: int | None,
    csv: Path | None,
    parquet: Path | None,
    plot: str | None,
    directory: Path | None,
    trust: bool,
    as_json: bool,
    quiet: bool,
    **asked: Any,
) -> None:
    """Trace one flow of RESULT, or explain what took time in the run.

    With --flow, netsim simulates the same run again until the flow is done. It prints the flow's
    packets, state, round trips and paths, and a breakdown of its completion time. p99 is the flow
    at the 99th percentile of completion times, "slowest" the one with the largest slowdown. Times
    count from the start of the run. Ctrl-C stops and prints the trace up to then.

    --critical-path and --request only read the result and simulate nothing.
    """
    from netsim.results import load_result
    from netsim.units import parse_time_ps

    loaded = load_result(result)
    lines = LIMIT if limit is None else limit
    given: dict[str, Any] = {"flow": flow, "from": since, "to": until, "seq": seq, "events": events}
    given |= {"fields": fields, "plot": plot, "experiment-dir": directory}
    given |= asked
    for one in TRACES:
        name = next(iter(one.OPTIONS))
        if asked[name]:
            _alone(name, given, (*one.OPTIONS, *one.WITH))
            outputs = TraceOutputs(limit, csv, parquet, quiet, as_json)
            one.show(loaded, {**given, "trust": trust}, outputs)
            return
    if flow is None:
        hint = " or ".join(_dashed(next(iter(one.OPTIONS))) for one in TRACES)
        raise InputError("nothing to show", key="--flow", hint=f"--flow N, {hint}")
    _alone("flow", asked, ())
    since_ps = parse_time_ps(since) if since else 0
    until_ps = parse_time_ps(until) if until else None
    wanted, first_last = _event_names(events), _seq_range(seq)
    number = flow_number(loaded, flow)
    trace, interruption = _record(loaded, number, until_ps, quiet, directory=directory, trust=trust)
    for warning in trace.warnings:
        click.echo(f"warning: {warning}", err=True)
    chosen = select(trace.events, since_ps, first_last)
    write_tables("trace", chosen, csv, parquet)
    if plot is not None:
        from netsim.plots import save
        from netsim.plots.over_time import traced_flow

        path = Path(plot) if plot else result / f"trace_{number}.png"
        click.echo(save(traced_flow(trace, chosen, _state(trace, fields)), path), err=as_json)
    if as_json:
        print_json(flow_json(trace, chosen, limit))
    elif not quiet:
        if plot is None and not csv and not parquet:
            print_events(chosen, wanted, _state(trace, fields), lines)
        for line in summary(trace):
            click.echo(line)
        _print_time(trace, LONGEST if limit is None else limit)
    if interruption():
        click.echo("interrupted: the trace is partial", err=True)
        raise SystemExit(interruption.exit_code)


def _print_time(trace: FlowTrace, limit: int) -> None:
    """Print the breakdown of the completion time."""
    if not len(trace.segments):
        return
    click.echo()
    show(time_table(trace))
    for line in remarks(trace):
        click.echo(line)
    show(longest_table(trace, limit))


def _alone(asked: str, given: Mapping[str, object], allowed: Sequence[str]) -> None:
    """Raise InputError if an option conflicts with the one that selects the output."""
    for name, value in given.items():
        if value not in (None, False) and name not in allowed:
            hint = "remove one of them"
            both = f"{_dashed(name)} and {_dashed(asked)}"
            raise InputError(f"{both} are mutually exclusive", hint=hint)


def _dashed(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _event_names(text: str | None) -> tuple[str, ...]:
    if text is None:
        return SHOWN
    names = tuple(name.strip() for name in text.split(",") if name.strip())
    for name in names:
        if name not in EVENTS:
            hint = did_you_mean(name, EVENTS)
            raise InputError(f'unknown event "{name}"', key="--events", hint=hint)
    return names


def _seq_range(text: str | None) -> tuple[int, int] | None:
    if text is None:
        return None
    first, dots, last = text.partition("..")
    if not WHOLE.fullmatch(first.strip()) or (dots and not WHOLE.fullmatch(last.strip())):
        raise InputError(
            f"{written(text)} is not a packet number", key="--seq", hint='"3" or "3..7"'
        )
    return int(first), int(last if dots else first)


def _state(trace: FlowTrace, text: str | None) -> list[str]:
    """Return the state columns to show."""
    if text is None:
        return list(trace.state)
    known = [name for name in trace.events.columns if name.startswith(("tx.", "rx."))]
    chosen: list[str] = []
    for name in (name.strip() for name in text.split(",") if name.strip()):
        found = [k for k in known if name in (k, k.partition(".")[2], k.partition("[")[0])]
        if not found:
            hint = did_you_mean(name, known)
            raise InputError(f'unknown state field "{name}"', key="--fields", hint=hint)
        chosen += found
    return chosen


def _record(
    result: Result, flow: int, until_ps: int | None, quiet: bool, **where: Any
) -> tuple[FlowTrace, Interruption]:
    from netsim.cli.progress import reporter
    from netsim.tracing import trace_flow

    interruption = Interruption(at_once=True)
    report = None if quiet else reporter()
    with interruption:
        try:
            trace = trace_flow(
                result,
                flow,
                until_ps=until_ps,
                **where,
                progress=interruption.watching(
                    report.watch(f"{result.name}, flow {flow}") if report else None
                ),
                should_stop=interruption,
            )
        finally:
            if report:
                report.close()
    return trace, interruption


def select(
    events: pl.DataFrame, since_ps: int = 0, first_last: tuple[int, int] | None = None
) -> pl.DataFrame:
    """Return the events from a time on, of packets in an inclusive range of numbers."""
    import polars as pl

    chosen = events.filter(pl.col("time_ps") >= since_ps)
    if first_last is not None:
        # A state row belongs to the packet before it, unless a timer caused it.
        seq = pl.when(pl.col("timer").is_null()).then(pl.col("seq").forward_fill())
        chosen = chosen.filter(seq.is_between(*first_last))
    return chosen
