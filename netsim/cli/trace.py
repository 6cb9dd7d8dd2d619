"""`netsim trace`: what one flow of a result did."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from netsim.cli.interrupt import Interruption
from netsim.errors import InputError, did_you_mean
from netsim.units import written

if TYPE_CHECKING:
    import polars as pl

    from netsim.results import Result
    from netsim.tracing import FlowTrace

SLOWEST = "slowest"
LIMIT = 60
WHOLE = re.compile("[0-9]{1,18}")
EVENTS = (
    "send", "arrive", "forward", "drop", "trim", "mark", "lose", "receive", "create", "timer",
    "pause", "resume", "give",
)  # fmt: skip
SHOWN = tuple(name for name in EVENTS if name != "create")
"""Events of the text without --events."""

BEFELL = {
    "drop": "dropped",
    "trim": "trimmed",
    "mark": "marked",
    "lose": "lost",
    "no route": "without a route",
}

STATE = ("sender", "receiver")
"""Events that are copies of state: in the text they stand beside what caused them."""


@click.command("trace")
@click.argument("result", type=click.Path(path_type=Path))
@click.option("--flow", required=True, metavar="N", help='Number of the flow, or "slowest".')
@click.option("--from", "since", metavar="TIME", help="Leave out what is earlier, such as 10us.")
@click.option("--until", metavar="TIME", help="Simulate no further than this.")
@click.option("--seq", metavar="N", help='Packets with this number only, or these: "3..7".')
@click.option("--events", metavar="NAMES", help=f"Events to show, of: {', '.join(EVENTS)}.")
@click.option("--fields", metavar="NAMES", help="State to show, such as tx.next_seq or next_seq.")
@click.option(
    "--limit",
    type=click.IntRange(0),
    default=LIMIT,
    show_default=True,
    help="Lines of events to print; 0 is all.",
)
@click.option("--csv", type=click.Path(path_type=Path, dir_okay=False), help="Write all as CSV.")
@click.option(
    "--parquet", type=click.Path(path_type=Path, dir_okay=False), help="Write all as Parquet."
)
@click.option(
    "--plot",
    is_flag=False,
    flag_value="",
    metavar="[FILE]",
    help="Draw it; trace_N.png beside the result without FILE. Prints no events.",
)
@click.option(
    "--directory",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    help="Where files that the experiment names are, if they are not found.",
)
@click.option("--quiet", is_flag=True, help="Print nothing but errors and warnings.")
def command(
    result: Path,
    flow: str,
    since: str | None,
    until: str | None,
    seq: str | None,
    events: str | None,
    fields: str | None,
    limit: int,
    csv: Path | None,
    parquet: Path | None,
    plot: str | None,
    directory: Path | None,
    quiet: bool,
) -> None:
    """Show what one flow of RESULT did: its packets, its state, its round trips and paths.

    RESULT is a directory that netsim run has written. It holds no trace: its experiment is
    simulated again, which gives the same run, until the flow is done. Times are counted from the
    start of the run. Ctrl-C stops and shows what there is.
    """
    from netsim.results import load_result
    from netsim.units import parse_time_ps

    loaded = load_result(result)
    since_ps = parse_time_ps(since) if since else 0
    until_ps = parse_time_ps(until) if until else None
    wanted, first_last = _event_names(events), _seq_range(seq)
    number = flow_number(loaded, flow)
    trace, interruption = _record(loaded, number, until_ps, directory, quiet)
    for warning in trace.warnings:
        click.echo(f"warning: {warning}", err=True)
    chosen = select(trace.events, since_ps, first_last)
    if csv:
        _write(csv, lambda: chosen.write_csv(csv))
    if parquet:
        _write(parquet, lambda: _write_parquet(parquet, chosen))
    if plot is not None:
        from netsim.plots import save
        from netsim.plots.trace import draw

        path = Path(plot) if plot else result / f"trace_{number}.png"
        click.echo(save(draw(trace, chosen, _state(trace, fields)), path))
    if not quiet:
        if plot is None and not csv and not parquet:
            _print_events(chosen, wanted, _state(trace, fields), limit)
        for line in summary(trace):
            click.echo(line)
    if interruption():
        click.echo("interrupted: this is the trace until then", err=True)
        raise SystemExit(interruption.exit_code)


def flow_number(result: Result, text: str) -> int:
    """The number of the flow that is meant."""
    if text != SLOWEST:
        if not WHOLE.fullmatch(text):
            hint = f'a whole number, or "{SLOWEST}"'
            raise InputError(f"{written(text)} is not a flow", key="--flow", hint=hint)
        return int(text)
    flows = result.flows.drop_nulls("slowdown")
    if not len(flows):
        raise InputError("no flow is finished, so none is the slowest", key="--flow")
    return int(flows.sort("slowdown", descending=True)["flow"][0])


def _event_names(text: str | None) -> tuple[str, ...]:
    if text is None:
        return SHOWN
    names = tuple(name.strip() for name in text.split(",") if name.strip())
    for name in names:
        if name not in EVENTS:
            hint = did_you_mean(name, EVENTS)
            raise InputError(f'there is no event "{name}"', key="--events", hint=hint)
    return names


def _seq_range(text: str | None) -> tuple[int, int] | None:
    if text is None:
        return None
    first, dots, last = text.partition("..")
    if not WHOLE.fullmatch(first.strip()) or (dots and not WHOLE.fullmatch(last.strip())):
        raise InputError(f"{written(text)} is no packet number", key="--seq", hint='"3" or "3..7"')
    return int(first), int(last if dots else first)


def _state(trace: FlowTrace, text: str | None) -> list[str]:
    """The state columns to show."""
    if text is None:
        return list(trace.state)
    known = [name for name in trace.events.columns if name.startswith(("tx.", "rx."))]
    chosen: list[str] = []
    for name in (name.strip() for name in text.split(",") if name.strip()):
        found = [k for k in known if name in (k, k.partition(".")[2], k.partition("[")[0])]
        if not found:
            hint = did_you_mean(name, known)
            raise InputError(f'there is no state field "{name}"', key="--fields", hint=hint)
        chosen += found
    return chosen


def _record(
    result: Result, flow: int, until_ps: int | None, directory: Path | None, quiet: bool
) -> tuple[FlowTrace, Interruption]:
    from netsim.cli.progress import reporter
    from netsim.tracing import trace_flow

    interruption = Interruption()
    report = None if quiet else reporter()
    with interruption:
        try:
            trace = trace_flow(
                result,
                flow,
                until_ps=until_ps,
                directory=directory,
                progress=report.watch(f"{result.name}, flow {flow}") if report else None,
                should_stop=interruption,
            )
        finally:
            if report:
                report.close()
    return trace, interruption


def select(
    events: pl.DataFrame, since_ps: int = 0, first_last: tuple[int, int] | None = None
) -> pl.DataFrame:
    """The events from a time on, of packets with numbers in a range (both ends included)."""
    import polars as pl

    chosen = events.filter(pl.col("time_ps") >= since_ps)
    if first_last is not None:
        # A copy of the state belongs to the packet before it, unless a timer caused it.
        seq = pl.when(pl.col("timer").is_null()).then(pl.col("seq").forward_fill())
        chosen = chosen.filter(seq.is_between(*first_last))
    return chosen


def _write(path: Path, write: Any) -> None:
    try:
        write()
    except OSError as error:
        raise InputError(f"cannot be written: {error.strerror}", file=str(path)) from None


def _write_parquet(path: Path, events: pl.DataFrame) -> None:
    from netsim.results.files import write_table

    write_table(path, "trace", {name: events[name].to_arrow() for name in events.columns})


def _print_events(
    events: pl.DataFrame,
    names: Sequence[str],
    state: Sequence[str],
    limit: int,
) -> None:
    rows = list(lines(events, names, state))
    shown = rows[:limit] if limit else rows
    header = ("time us", "node", "event", "packet", "", "queue", "state")
    widths = [max(map(len, column)) for column in zip(header, *shown, strict=True)]
    for row in [header, *shown]:
        cells = [row[0].rjust(widths[0])]
        cells += [cell.ljust(width) for cell, width in zip(row[1:], widths[1:], strict=True)]
        click.echo("  ".join(cells).rstrip())
    if len(shown) < len(rows):
        more = len(rows) - len(shown)
        click.echo(f"... and {more:,} more (--limit 0 prints all; --from, --seq, --events choose)")
    click.echo()


Line = tuple[str, str, str, str, str, str, str]


def lines(events: pl.DataFrame, names: Sequence[str], state: Sequence[str]) -> Iterator[Line]:
    """The cells of each line of text: what happened and how it changed the state."""
    known: dict[str, Any] = {}
    rows = events.iter_rows(named=True)
    row = next(rows, None)
    while row is not None:
        changes: list[str] = []
        event = row["event"]
        timer = row["timer"]
        if event in STATE:
            changes += _changes(row, state, known)
        following = next(rows, None)
        while following is not None and _belongs(following, row):
            changes += _changes(following, state, known)
            following = next(rows, None)
        if event not in STATE:
            if event in names:
                yield _line(row, event, changes)
        elif (timer is not None or changes) and "timer" in names:
            yield _line(row, timer or event, changes)
        row = following


def _belongs(copy: Mapping[str, Any], cause: Mapping[str, Any]) -> bool:
    """Is this a copy of the state that the event before it has led to?"""
    if copy["event"] not in STATE or copy["node"] != cause["node"]:
        return False
    return bool(copy["time_ps"] == cause["time_ps"] and copy["timer"] == cause["timer"])


def _changes(row: Mapping[str, Any], state: Sequence[str], known: dict[str, Any]) -> list[str]:
    changes = []
    for name in state:
        value = row[name]
        if value is not None and known.get(name) != value:
            known[name] = value
            changes.append(f"{name}={value:g}" if isinstance(value, float) else f"{name}={value}")
    return changes


def _line(row: Mapping[str, Any], event: str, changes: Iterable[str]) -> Line:
    packet = place = queue = ""
    notes: list[str] = []
    if row["kind"] is not None:
        packet = f"{row['kind']} {row['seq']}"
        place = f"-> {row['to_name']}" if row["to_name"] else ""
        if row["again"]:
            notes.append("again")
        if row["ecn"] & 1 and event != "mark":
            notes.append("CE")
        if row["ecn"] & 2:
            notes.append("echo of CE")
        if row["rtt_ps"] is not None:
            notes.append(f"rtt {microseconds(row['rtt_ps'])} us")
        if row["wait_ps"]:
            notes.append(f"waited {microseconds(row['wait_ps'])} us")
    if row["queue_bytes"] is not None:
        queue = f"{row['queue_bytes']:,} B"
    return (
        microseconds(row["time_ps"]),
        row["node_name"],
        event,
        packet,
        place,
        queue,
        ", ".join([*notes, *changes]),
    )


def microseconds(time_ps: int) -> str:
    """A time in microseconds, to a tenth of a nanosecond."""
    return f"{time_ps / 1e6:.4f}"


def summary(trace: FlowTrace) -> list[str]:
    """A few lines: the flow, what became of its packets, round trips and paths."""
    import polars as pl

    from netsim.units import format_bytes, format_time

    done = f"not done ({trace.stopped_because})"
    if trace.fct_ps is not None:
        slowdown = trace.fct_ps / trace.ideal_ps
        done = f"done after {format_time(trace.fct_ps, 5)}, {slowdown:.3f} times the ideal"
    size = f"{format_bytes(trace.size_bytes)} in {trace.n_packets:,} packets"
    by = f" by {trace.way}" if trace.way else ""
    text = [
        f"flow {trace.flow} of {trace.point} ({trace.transport}): {trace.src} to {trace.dst}{by}, "
        f"{size}, start {format_time(trace.start_ps, 5)}, {done}"
    ]
    events = trace.events
    data = events.filter(pl.col("kind").is_in(["DATA", "TRIMMED"]))
    counts = [(len(data.filter(pl.col("event") == "send")), "data packets sent")]
    counts.append((int(data["again"].sum()), "of them again"))
    counts.append((len(data.filter(pl.col("event") == "receive")), "received"))
    for event, word in BEFELL.items():
        counts.append((len(events.filter(pl.col("event") == event)), word))
    text.append(", ".join(f"{n:,} {word}" for n, word in counts))
    rtt = events["rtt_ps"].drop_nulls()
    if len(rtt):
        times = [int(rtt.min()), int(rtt.median()), int(rtt.max())]  # type: ignore[arg-type]
        shown = " / ".join(format_time(t, 4) for t in times)
        text.append(f"round trip, least / median / most: {shown}")
    used = paths(events)
    if used:
        most, least = max(used.values()), min(used.values())
        share = f"{least:,} to {most:,} packets on each" if len(used) > 1 else next(iter(used))
        text.append(f"paths of data: {len(used)} ({share})")
    waits = hops(events)
    if waits:
        text.append("most waiting of data, by hop: " + ", ".join(waits))
    return text


def paths(events: pl.DataFrame) -> dict[str, int]:
    """Each path that data took all the way, as its nodes, and the packets that took it."""
    import polars as pl

    moves = events.filter(
        pl.col("kind").is_in(["DATA", "TRIMMED"])
        & pl.col("event").is_in(["send", "forward", "receive"])
        & pl.col("packet").is_not_null()
    )
    whole = moves.group_by("packet", maintain_order=True).agg(
        pl.col("node_name").str.join(" "), (pl.col("event") == "receive").any().alias("arrived")
    )
    counts = whole.filter("arrived")["node_name"].value_counts(sort=True)
    return dict(counts.iter_rows())


def hops(events: pl.DataFrame) -> list[str]:
    """The longest wait of a data packet at each hop, and where."""
    import polars as pl

    from netsim.units import format_time

    leaving = events.filter((pl.col("event") == "forward") & (pl.col("kind") == "DATA"))
    worst = leaving.sort("wait_ps", descending=True).unique("hops", keep="first").sort("hops")
    return [
        f"{format_time(row['wait_ps'] or 0, 3)} at {row['node_name']}"
        for row in worst.iter_rows(named=True)
    ]
