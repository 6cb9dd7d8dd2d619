"""The table of segments that a flow's completion time consists of."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from netsim.engine.kernels.trace import RX, TIMER_NAMES, WHAT
from netsim.model.network import Network
from netsim.tracing.ordered import Ordered
from netsim.tracing.why import Segment, Stretch, Walk

if TYPE_CHECKING:
    import polars as pl


def segment_table(
    network: Network,
    found: Ordered,
    ends: tuple[int, int],
    times: tuple[int, int],
    names: tuple[Mapping[int, str], Mapping[tuple[str, int], str]],
) -> pl.DataFrame:
    """The segments of a flow, in the order of time; none if the flow is not complete.

    Parameters
    ----------
    ends : its source and its destination.
    times : when it started, and when its receiver had every byte; -1 for never.
    names : of kinds of packets, and of the timers of either side.
    """
    import polars as pl

    kinds, timers = names
    walk = Walk(network, found, *ends, times[0], kinds)
    if times[1] >= 0 and RX in found.entries[:, WHAT]:
        walk.run(times[1])
    rows = [
        _row(walk, piece, blocked, again, timers)
        for piece, blocked, again in _pieces(walk.segments, walk.blocked, walk.again)
    ]
    types = {
        "start_ps": pl.Int64,
        "end_ps": pl.Int64,
        "segment_type": pl.String,
        "node_name": pl.String,
        "to_name": pl.String,
        "kind": pl.String,
        "seq": pl.Int64,
        "control": pl.Boolean,
        "timer": pl.String,
        "blocked": pl.String,
        "lost_seq": pl.Int64,
    }
    return pl.DataFrame(rows, schema=types, orient="row")


def _pieces(
    segments: list[Segment], blocked: list[Stretch], again: list[Stretch]
) -> list[tuple[Segment, Stretch | None, Stretch | None]]:
    """The segments, cut where stretches begin and end, each with those that it lies in."""
    cuts = sorted({t for one in (*blocked, *again) for t in (one.start_ps, one.end_ps)})
    pieces, k = [], 0
    places = [0, 0]
    for segment in segments:
        while k < len(cuts) and cuts[k] <= segment.start_ps:
            k += 1
        begin = segment.start_ps
        while begin < segment.end_ps:
            end = min(segment.end_ps, cuts[k] if k < len(cuts) else segment.end_ps)
            inside: list[Stretch | None] = []
            for which, stretches in enumerate((blocked, again)):
                while places[which] < len(stretches) and stretches[places[which]].end_ps <= begin:
                    places[which] += 1
                one = stretches[places[which]] if places[which] < len(stretches) else None
                inside.append(one if one and one.start_ps <= begin else None)
            pieces.append((segment._replace(start_ps=begin, end_ps=end), inside[0], inside[1]))
            begin = end
            if k < len(cuts) and cuts[k] <= begin:
                k += 1
    return pieces


def _row(
    walk: Walk,
    piece: Segment,
    blocked: Stretch | None,
    again: Stretch | None,
    timers: Mapping[tuple[str, int], str],
) -> tuple[Any, ...]:
    """A row of the table."""
    name = walk.network.node_name
    entry = piece.packet
    kind = walk.kind_name(entry) if entry >= 0 else None
    awaited = None
    if blocked is not None:
        awaited = walk.kind_name(blocked.entry)
        if awaited is None:
            awaited = _timer(walk, walk.value[blocked.entry], walk.src, timers)
    return (
        piece.start_ps,
        piece.end_ps,
        piece.what,
        name(piece.node) if piece.node >= 0 else None,
        name(piece.to) if piece.to >= 0 else None,
        kind,
        walk.seq[entry] if entry >= 0 else None,
        walk.number[entry] in walk.control if entry >= 0 else None,
        _timer(walk, piece.timer, piece.node, timers) if piece.timer >= 0 else None,
        awaited,
        walk.seq[again.entry] if again is not None else None,
    )


def _timer(walk: Walk, code: int, node: int, timers: Mapping[tuple[str, int], str]) -> str:
    """What the transport calls a timer."""
    shown = TIMER_NAMES[code]
    number = shown.rpartition(" ")[2]
    side = "tx" if node == walk.src else "rx"
    return timers.get((side, int(number)), shown) if number.isdigit() else shown
