"""What `netsim trace` prints of a flow: its events, a line for each, and a summary."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    import polars as pl

    from netsim.tracing import FlowTrace

BEFELL = {
    "drop": "dropped",
    "trim": "trimmed",
    "mark": "marked",
    "lost": "lost",
    "unroutable": "without a route",
}

HOST_TIMER = "host timer"
"""Begins the names of timers that the flows of a host share."""

STATE = ("sender", "receiver")
"""Events that are copies of state: in the text they stand beside what caused them."""


def print_events(
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
        elif (changes or _of_flow(timer)) and "timer" in names:
            yield _line(row, timer or event, changes)
        row = following


def _of_flow(timer: str | None) -> bool:
    """Is this a timer of the flow, rather than one that all flows of the host share?"""
    return timer is not None and not timer.startswith(HOST_TIMER)


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
    """A time in microseconds, to a tenth of a nanosecond."""
    return f"{time_ps / 1e6:.4f}"


def summary(trace: FlowTrace) -> list[str]:
    """A few lines: the flow, what became of its packets, round trips and paths."""
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
    counts.append((int(data["is_retransmit"].sum()), "of them retransmits"))
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
