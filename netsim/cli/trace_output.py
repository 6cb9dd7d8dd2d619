"""Output of `netsim trace`: events and a summary as text, tables, files."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from netsim.common.terminal import Column, Wide, common_unit, number
from netsim.common.writing import replacing_file, writing_to

if TYPE_CHECKING:
    import polars as pl

    from netsim.tracing import FlowTrace

DROPPED_AS = {
    "drop": "dropped",
    "trim": "trimmed",
    "mark": "marked",
    "lost": "lost",
    "unroutable": "without a route",
}

HOST_TIMER = "host timer"  # prefix of timers that the flows of a host share
STATE = ("sender", "receiver")  # copies of state, printed with the event that caused them


def print_events(
    events: pl.DataFrame, names: Sequence[str], state: Sequence[str], limit: int
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
        click.echo(
            f"... and {more:,} more (--limit 0 prints all; filter by --from, --seq, --events)"
        )
    click.echo()


Line = tuple[str, str, str, str, str, str, str]


def lines(events: pl.DataFrame, names: Sequence[str], state: Sequence[str]) -> Iterator[Line]:
    """Yield the cells of each line: an event and its changes of state."""
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
        elif (changes or _of_flow(timer)) and "timer" in names:
            yield _line(row, timer or event, changes)
        row = following


def _of_flow(timer: str | None) -> bool:
    """Return whether a timer belongs to the flow alone, not to its host."""
    return timer is not None and not timer.startswith(HOST_TIMER)


def _belongs(copy: Mapping[str, Any], cause: Mapping[str, Any]) -> bool:
    """Return whether a row is the state after an event."""
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
        if row["is_retransmit"]:
            notes.append("retransmit")
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
    """Format a time in microseconds, to 0.1 ns."""
    return f"{time_ps / 1e6:.4f}"


def summary(trace: FlowTrace) -> list[str]:
    """Return a few lines: the flow, its packets by outcome, round trips, paths."""
    import polars as pl

    from netsim.units import format_bytes, format_time

    done = f"not done ({trace.stop_reason})"
    if trace.fct_ps is not None:
        slowdown = trace.fct_ps / trace.ideal_ps
        done = f"done after {format_time(trace.fct_ps, 5)}, {slowdown:.3f} times the ideal"
    size = f"{format_bytes(trace.size_bytes)} in {trace.n_packets:,} packets"
    by = f" by {trace.routing_table}" if trace.routing_table else ""
    text = [
        f"flow {trace.flow} of {trace.point} ({trace.transport}): {trace.src} to {trace.dst}{by}, "
        f"{size}, start {format_time(trace.start_ps, 5)}, {done}"
    ]
    events = trace.events
    data = events.filter(pl.col("kind").is_in(["DATA", "TRIMMED"]))
    counts = [(len(data.filter(pl.col("event") == "send")), "data packets sent")]
    counts.append((int(data["is_retransmit"].sum()), "of them retransmissions"))
    counts.append((len(data.filter(pl.col("event") == "receive")), "received"))
    for event, word in DROPPED_AS.items():
        counts.append((len(events.filter(pl.col("event") == event)), word))
    text.append(", ".join(f"{n:,} {word}" for n, word in counts))
    rtt = events["rtt_ps"].drop_nulls()
    if len(rtt):
        times = [int(rtt.min()), int(rtt.median()), int(rtt.max())]  # type: ignore[arg-type]
        shown = " / ".join(format_time(t, 4) for t in times)
        text.append(f"round trip min / median / max: {shown}")
    used = paths(events)
    if used:
        most, least = max(used.values()), min(used.values())
        share = f"{least:,} to {most:,} packets on each" if len(used) > 1 else next(iter(used))
        text.append(f"data paths: {len(used)} ({share})")
    waits = hops(events)
    if waits:
        text.append("longest wait of data per hop: " + ", ".join(waits))
    return text


def paths(events: pl.DataFrame) -> dict[str, int]:
    """Return the number of delivered data packets of each path, given as its nodes."""
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
    """Return the longest wait of a data packet at each hop, with its node."""
    import polars as pl

    from netsim.units import format_time

    leaving = events.filter((pl.col("event") == "forward") & (pl.col("kind") == "DATA"))
    worst = leaving.sort("wait_ps", descending=True).unique("hops", keep="first").sort("hops")
    return [
        f"{format_time(row['wait_ps'] or 0, 3)} at {row['node_name']}"
        for row in worst.iter_rows(named=True)
    ]


LONGEST = 5  # segments shown without --limit
PORTS = 6  # named ports where packets waited

SEGMENT_TITLES = {
    "queue": "queueing in switches",
    "transmission": "transmission",
    "propagation": "propagation",
    "paused": "paused by PFC",
    "retry": "until a link sent it again",
    "nic": "NIC busy with other flows",
    "sending": "sending earlier packets of the flow",
    "pacing": "paced by the sender",
    "timeout": "timeouts",
    "timer": "other sender timers",
    "receiver": "paced by the receiver",
    "other": "unexplained",
}
"""Titles of segment types (`netsim.tracing.segments`)."""

OF_PACKETS = ("queue", "transmission", "propagation", "retry", "paused")
"""Segment types listed separately for data and control packets."""


def totals(segments: pl.DataFrame) -> pl.DataFrame:
    """Return the time of each segment type, longest first; data and control separately."""
    import polars as pl

    apart = pl.when(pl.col("segment_type").is_in(OF_PACKETS)).then(pl.col("control"))
    return (
        segments.group_by("segment_type", apart.alias("control"), maintain_order=True)
        .agg((pl.col("end_ps") - pl.col("start_ps")).sum().alias("time_ps"))
        .with_columns(share=pl.col("time_ps") / pl.col("time_ps").sum())
        .sort("time_ps", descending=True, maintain_order=True)
    )


def time_table(trace: FlowTrace) -> Wide:
    """Return the breakdown of the completion time by segment type."""
    rows = totals(trace.segments)
    unit, scale = common_unit([trace.fct_ps])
    whose = {None: "", True: ", control packets", False: ", data"}
    names = [
        SEGMENT_TITLES[what] + whose[control]
        for what, control in rows.select("segment_type", "control").rows()
    ]
    columns = [
        Column("", names, left=True),
        Column(f"time\n{unit}", [number(t, scale) for t in rows["time_ps"].to_list()]),
        Column("share", [f"{100 * share:.1f} %" for share in rows["share"].to_list()]),
    ]
    return Wide(columns, title=f"Completion time: {number(trace.fct_ps, scale)} {unit}")


def remarks(trace: FlowTrace) -> Iterator[str]:
    """Yield lines about queueing by port, what blocked the sender, and losses."""
    import polars as pl

    from netsim.units import format_time

    length = (pl.col("end_ps") - pl.col("start_ps")).sum().alias("time_ps")
    waits = trace.segments.filter(pl.col("segment_type") == "queue").group_by(
        "node_name", "to_name"
    )
    longest = waits.agg(length).sort("time_ps", "node_name", descending=[True, False])
    at = [f"{format_time(time, 4)} at {node} -> {to}" for node, to, time in longest.rows()]
    if at:
        more = f", and {len(at) - PORTS:,} more" if len(at) > PORTS else ""
        yield f"queueing by port: {', '.join(at[:PORTS])}{more}"
    blocked = trace.segments.drop_nulls("blocked").group_by("blocked", maintain_order=True)
    of = [f"{what} {format_time(time, 4)}" for what, time in blocked.agg(length).rows()]
    if of:
        yield f"time in which the sender was blocked, by cause: {', '.join(of)}"
    again = trace.segments.drop_nulls("lost_seq")
    if len(again):
        time = again.select(length).item()
        share = 100 * time / max(1, trace.fct_ps or 0)
        yield (f"recovery of lost or trimmed packets: {format_time(time, 4)} ({share:.1f} %)")


def longest_table(trace: FlowTrace, limit: int) -> Wide:
    """Return the longest segments."""
    import polars as pl

    length = (pl.col("end_ps") - pl.col("start_ps")).alias("time_ps")
    found = trace.segments.with_columns(length).sort(
        "time_ps", descending=True, maintain_order=True
    )
    rows = list((found.head(limit) if limit else found).iter_rows(named=True))
    unit, scale = common_unit([row["end_ps"] for row in rows])
    columns = [
        Column(f"longest\n{unit}", [number(row["time_ps"], scale) for row in rows]),
        Column(f"from\n{unit}", [number(row["start_ps"], scale) for row in rows]),
        Column("at", [_where(row) for row in rows], left=True),
        Column("type", [row["timer"] or row["segment_type"] for row in rows], left=True),
        Column("packet", [_packet(row) for row in rows], left=True),
    ]
    return Wide(columns)


def _where(row: Mapping[str, Any]) -> str:
    to = f" -> {row['to_name']}" if row["to_name"] else ""
    return f"{row['node_name'] or ''}{to}"


def _packet(row: Mapping[str, Any]) -> str:
    if row["kind"] is None or row["segment_type"] == "sending":  # several
        return ""
    return f"{row['kind']} {row['seq']}"


class TraceOutputs(NamedTuple):
    """Requested output: lines to print (0: all, None: the default), and files."""

    limit: int | None
    csv: Path | None
    parquet: Path | None
    quiet: bool
    as_json: bool = False


def flow_json(trace: FlowTrace, events: pl.DataFrame, limit: int | None) -> dict[str, Any]:
    """Return a flow's trace as JSON: the flow, `limit` events (0: all), its time by segment type.
    Rows have no null values."""
    tables = {"events": events.head(limit) if limit else events, "segments": trace.segments}
    rest = {one.name: getattr(trace, one.name) for one in fields(trace) if one.name not in tables}
    rows = {
        name: [{k: v for k, v in row.items() if v is not None} for row in table.to_dicts()]
        for name, table in tables.items()
    }
    return {**rest, "time": totals(trace.segments).to_dicts(), **rows}


def write_tables(name: str, table: pl.DataFrame, csv: Path | None, parquet: Path | None) -> None:
    """Write a table of `netsim.results.COLUMNS` as CSV and Parquet. Raises InputError."""
    from netsim.results.files import table_metadata

    if csv:
        with writing_to(csv), replacing_file(csv) as file:
            table.write_csv(file)
    if parquet:
        with writing_to(parquet), replacing_file(parquet) as file:
            table.write_parquet(file, metadata=dict(table_metadata(name, table.columns)))
