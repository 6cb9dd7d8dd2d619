"""Figure 3c: exposed communication against the capacity between datacenters for each GPU."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from netsim.workloads.job.paper import PaperNetwork, paper_job, stage_seconds, wan_needed_bps
from netsim.workloads.plots.paper_figure import PaperFigure, Sweep, stated
from netsim.workloads.plots.sensitivity import JOBS, Line, Sensitivity, reproduce

if TYPE_CHECKING:
    from netsim.results import Result

SWEEPS: tuple[Sweep, ...] = ()

ENOUGH = "wan_ok_capacity"
"""The value that the paper calls sufficient, a metric of `netsim.workloads.job`."""

ROUND_TRIPS = ("", ", a round trip more")
"""Round trips that the transport adds to the delay of 30 ms, by number."""


def make(_: Sequence[Result]) -> PaperFigure:
    """Draw the figure from 1 to 100 Gbps per GPU, with and without an extra round trip."""
    lines = [Line(name, partial(_network, n)) for n, name in enumerate(ROUND_TRIPS)]
    values = [
        stated(
            ENOUGH, f"{model}{name}: the sufficient minimum",
            wan_needed_bps(stage_seconds(paper_job(job)), n) / 1e9,
        )
        for model, job in JOBS.items()
        for n, name in enumerate(ROUND_TRIPS)
    ]  # fmt: skip
    capacities = np.geomspace(1, 100, 101).tolist()
    one = Sensitivity(
        "3c", "capacity between datacenters", "Gbps a GPU", capacities, lines, named=values[0].paper
    )
    notes = ["the paper calls 20 Gbps sufficient without saying why"]
    return reproduce(one, values, notes)


def _network(round_trips: int, gbps: float) -> PaperNetwork:
    return PaperNetwork(wan_bps=gbps * 1e9, wan_round_trips=round_trips)
