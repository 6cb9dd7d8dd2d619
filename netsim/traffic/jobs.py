"""Several jobs on one network: other patterns, each on hosts of its own.

A table [traffic.jobs.NAME] has `kind` and the parameters of a pattern, and `hosts`: how many, or a
list in the order of the ranks. Lists may share hosts; numbers get free ones. The pattern sees only
these hosts, the first as host 0. A job begins at its `start`, and its times are told from there.

`run = ["all", "a", "b"]` runs the jobs together and each alone, on the same hosts and with the same
random numbers; `netsim run` then prints how much longer each takes with the others. The hash of
flows may choose other paths for a job alone, since flows are numbered over all jobs.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from netsim.errors import InputError, did_you_mean
from netsim.flows import TrafficContext, Workload
from netsim.model.traffic import PLACEMENTS, jobs_workload, place_jobs
from netsim.network import Network
from netsim.params import REQUIRED, Param

ALL = "all"

PARAMS = [
    Param("jobs", "jobs", REQUIRED, "[traffic.jobs.NAME]: a pattern, its hosts and its start"),
    Param(
        "placement",
        "choice",
        "packed",
        "which hosts jobs get: the next ones, every job in turn, one rack after the other, any",
        choices=PLACEMENTS,
    ),
    Param("run", "text", ALL, 'the jobs that run: "all", or the name of one'),
]


def flows(
    params: Mapping[str, Any], network: Network, rng: np.random.Generator, context: TrafficContext
) -> Workload:
    uses, run = params["jobs"], params["run"]
    if ALL in uses:
        message = f'"{ALL}" is not a name of a job'
        raise InputError(message, key=f"traffic.jobs.{ALL}", hint=f'run = "{ALL}" runs all')
    if run not in (ALL, *uses):
        hint = did_you_mean(run, (ALL, *uses))
        raise InputError(f'unknown job "{run}"', key="traffic.run", hint=hint, code="unknown_value")
    streams = dict(zip(uses, rng.integers(1, 1 << 62, len(uses)).tolist(), strict=True))
    wanted = {name: use.params["hosts"] for name, use in uses.items()}
    try:
        hosts = place_jobs(wanted, params["placement"], network, rng)
    except InputError as error:
        raise error.under("traffic.jobs") from None
    chosen = uses if run == ALL else {run: uses[run]}
    return jobs_workload(chosen, hosts, network, context, streams)
