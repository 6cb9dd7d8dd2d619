"""Recovery: how long sampled flows received nothing after a link went down."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from netsim.common.terminal import Column as Cells
from netsim.common.terminal import any_of, count, time_columns, time_text
from netsim.results.columns import Metric
from netsim.results.run_result import Run

if TYPE_CHECKING:
    from netsim.engine.engine import Engine

SWEEP = Metric.each("""
silent_flows      flows  recovery.flows   sampled flows that retransmitted, and received nothing for
    longer than a round trip after a link went down
recovery_p50_ps#  ps     recovery.p50_ps  median over these flows of their longest silence
recovery_max_ps#  ps     recovery.max_ps  longest of these silences
""")
ORDER = 85


Ints = NDArray[np.int64]


def recovery_metrics(engine: Engine) -> dict[str, Any]:
    """Return the summary of recovery, if links went down and flows were sampled.

    A flow is silent if it receives no payload for longer than its base round-trip time. For each
    flow that retransmitted or is unfinished, its longest silence after a link failure counts,
    measured from the last failure before it.
    """
    found, faults = engine.series(), engine.faults
    if found is None or faults is None or not found.flows.size:
        return {}
    downs = np.unique(faults.outages_ps[: faults.outage_ptr[-1], 0])
    downs = downs[downs < engine.now_ps]
    if not downs.size:
        return {}
    states = engine.flow_states()
    times, never = [], 0
    for flow, delivered in zip(found.flows.tolist(), found.flow_delivered_bytes.T, strict=True):
        lost_nothing = states.retransmits[flow] == 0 and states.done_ps[flow] >= 0
        if states.waits_for[flow] > 0 or lost_nothing:
            continue
        some = np.flatnonzero(delivered)
        begin = np.concatenate([states.start_ps[flow : flow + 1], found.end_ps[some]])
        end = np.append(found.end_ps[some - 1] * (some > 0), engine.now_ps)
        if states.done_ps[flow] >= 0:
            begin, end = begin[:-1], end[:-1]
        silence = longest_silence(begin, end, downs, int(states.base_rtt_ps[flow]))
        if silence is None:
            continue
        if silence[1] == engine.now_ps and states.done_ps[flow] < 0:
            never += 1
        else:
            times.append(silence[1] - silence[0])
    return {
        "recovery": {
            "interval_ps": found.interval_ps,
            "flows": len(times) + never,
            "flows_not_back": never,
            "p50_ps": int(np.median(times)) if times else None,
            "max_ps": max(times) if times else None,
        }
    }


def longest_silence(
    begin: Ints, end: Ints, downs: Ints, more_than_ps: int
) -> tuple[int, int] | None:
    """Return the failure before the longest silence and the end of that silence, as times in ps.

    `downs` are the ascending times at which links went down. A silence belongs to the last
    failure before it, or else the first within it. Return None if none exceeds `more_than_ps`.
    """
    before = np.searchsorted(downs, begin, side="right") - 1
    down = downs[np.maximum(before, 0)]
    length = end - np.maximum(begin, down)
    length[(end - begin <= more_than_ps) | (down >= end)] = 0
    if not length.any():
        return None
    longest = int(length.argmax())
    return int(down[longest]), int(end[longest])


def report(run: Run) -> dict[str, Any]:
    """Return the summary of recovery."""
    return {} if run.engine is None else recovery_metrics(run.engine)


def lines(summary: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the recovery in words."""
    if "recovery" in summary:
        yield "recovery", _recovery(summary["recovery"])


def sweep_columns(rows: Sequence[Mapping[str, Any]]) -> Iterator[Cells]:
    """Yield silent flows and recovery times of each point."""
    if not any_of(rows, "silent_flows"):
        return
    yield Cells("silent\nflows", [count(row.get("silent_flows")) for row in rows], 4)
    yield from time_columns(
        (f"recovery\n{name}", [row.get(f"recovery_{name}_ps") for row in rows], 3)
        for name in ("p50", "max")
    )


def _recovery(found: Mapping[str, Any]) -> str:
    if not found["flows"]:
        return "no flow was silent"
    text = f"{found['flows']:,} flows were silent"
    if found["flows_not_back"]:
        text += f", {found['flows_not_back']:,} of them to the end"
    if found["max_ps"] is not None:
        median, longest = (time_text(found[name], 4) for name in ("p50_ps", "max_ps"))
        text += f"; recovered after {median} (median), {longest} (max)"
    return text
