"""What `netsim trace` says of where the completion time of a flow went."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from netsim.terminal import Column, Wide, common_unit, number

if TYPE_CHECKING:
    import polars as pl

    from netsim.tracing import FlowTrace

LONGEST = 5
"""Single segments that are shown without --limit."""

PORTS = 6
"""Ports at which packets waited that are named."""

SAID = {
    "queue": "waiting in queues of switches",
    "transmission": "transmission",
    "propagation": "propagation",
    "paused": "paused by PFC",
    "nic": "waiting for a NIC that is busy with other flows",
    "sending": "sending the flow's earlier packets",
    "pacing": "paced by the sender",
    "timeout": "timeouts",
    "timer": "other timers of the sender",
    "receiver": "paced by the receiver",
    "other": "not explained",
}
"""Kinds of segments (`netsim.tracing.segments`), and how they are told."""

OF_PACKETS = ("queue", "transmission", "propagation", "paused")
"""Kinds of segments that are told apart for data and for control packets."""


def totals(segments: pl.DataFrame) -> pl.DataFrame:
    """The time of each kind of segment, of data and control packets apart, the longest first."""
    import polars as pl

    apart = pl.when(pl.col("segment_type").is_in(OF_PACKETS)).then(pl.col("control"))
    return (
        segments.group_by("segment_type", apart.alias("control"), maintain_order=True)
        .agg((pl.col("end_ps") - pl.col("start_ps")).sum().alias("time_ps"))
        .with_columns(share=pl.col("time_ps") / pl.col("time_ps").sum())
        .sort("time_ps", descending=True, maintain_order=True)
    )


def time_table(trace: FlowTrace) -> Wide:
    """Where the completion time went, by kind of segment."""
    rows = totals(trace.segments)
    unit, scale = common_unit([trace.fct_ps])
    whose = {None: "", True: ", control packets", False: ", data"}
    names = [
        SAID[what] + whose[control]
        for what, control in rows.select("segment_type", "control").rows()
    ]
    columns = [
        Column("", names, left=True),
        Column(f"time\n{unit}", [number(t, scale) for t in rows["time_ps"].to_list()]),
        Column("share", [f"{100 * share:.1f} %" for share in rows["share"].to_list()]),
    ]
    return Wide(columns, title=f"Where the {number(trace.fct_ps, scale)} {unit} went")


def remarks(trace: FlowTrace) -> Iterator[str]:
    """At which ports packets waited, what blocked the sender, how long losses took."""
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
        yield f"in queues, by port: {', '.join(at[:PORTS])}{more}"
    blocked = trace.segments.drop_nulls("blocked").group_by("blocked", maintain_order=True)
    of = [f"{what} {format_time(time, 4)}" for what, time in blocked.agg(length).rows()]
    if of:
        yield f"in this time the sender could send nothing, and waited for: {', '.join(of)}"
    again = trace.segments.drop_nulls("lost_seq")
    if len(again):
        time = again.select(length).item()
        share = 100 * time / max(1, trace.fct_ps or 0)
        yield (
            f"until what was lost or trimmed was sent again: {format_time(time, 4)} ({share:.1f} %)"
        )


def longest_table(trace: FlowTrace, limit: int) -> Wide:
    """The longest single segments."""
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
        Column("segment_type", [row["timer"] or row["segment_type"] for row in rows], left=True),
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
