"""Simulated and wall-clock time of a run."""

from __future__ import annotations

from typing import Any

import numpy as np

from netsim.results.columns import Metric
from netsim.results.run_result import Run

SWEEP = (
    Metric("packet_hops", "packet-hops", "packets, data and control, times links crossed"),
    Metric("packet_hops_per_s", "packet-hops/s", "speed of the simulation, without compilation"),
    Metric("simulated_ps", "ps", "simulated time at the end", whole=True),
    Metric("wall_s", "s", "wall-clock time of the run"),
    Metric("compile_s", "s", "wall-clock time of the compilation"),
)
ORDER = 90


def report(run: Run) -> dict[str, Any]:
    """Return times, packet-hops and their rate."""
    counts, wall_s = None if run.engine is None else run.engine.counts, run.timings["wall_s"]
    end_ps, hops = makespan_ps(run), 0 if counts is None else counts.hops
    return {
        "simulated_ps": end_ps if counts is None else counts.now_ps,
        **run.timings,
        "packet_hops": hops,
        "packet_hops_per_s": hops / wall_s if wall_s > 0 else 0.0,
        "makespan_ps": end_ps,
    }


def makespan_ps(run: Run) -> int:
    """Return when the last flow was delivered or the last task ended; 0 if none did."""
    flows = run.tables["flows"]
    done = flows["fct_ps"] >= 0
    ends = [(flows["start_ps"] + flows["fct_ps"])[done]]
    if "tasks" in run.tables:
        ends.append(run.tables["tasks"]["end_ps"])
    return int(np.concatenate(ends).max(initial=0))
