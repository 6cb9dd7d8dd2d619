"""How long flows got nothing after links went down: the recovery that series of flows show."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from netsim.engine.engine import Engine

Ints = NDArray[np.int64]


def recovery_figures(engine: Engine) -> dict[str, Any]:
    """The recovery's part of the summary, if links went down and there are series of flows.

    A flow is silent between two intervals in which payload of it was delivered, or until the end of
    the run, if that is longer than its base round trip. Of each flow that sent something again, or
    is not delivered, the longest silence after a link went down counts, from the moment when the
    last link before it did.
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
    """When the link went down that the longest silence followed, and when that silence ended.

    Silences (int64[n]) may be of no length. `downs` are the times, in ascending order, at which
    links went down: what counts is the last one up to a silence's begin, or the first one in it.
    None if no silence of more than `more_than_ps` followed any.
    """
    before = np.searchsorted(downs, begin, side="right") - 1
    down = downs[np.maximum(before, 0)]
    length = end - np.maximum(begin, down)
    length[(end - begin <= more_than_ps) | (down >= end)] = 0
    if not length.any():
        return None
    longest = int(length.argmax())
    return int(down[longest]), int(end[longest])
