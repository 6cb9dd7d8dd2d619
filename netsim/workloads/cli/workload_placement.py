"""`netsim workload JOB --placement`: which host each rank of a job is."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from netsim.terminal import plain_table

if TYPE_CHECKING:
    from rich.table import Table

    from netsim.workloads.job.job import Job

SEED = 1
"""Of a random placement: that of an experiment by default."""


def placement_tables(job: Job, placement: str, out: Path | None) -> Iterator[Table | str]:
    """Racks of the machine with the ranks of the whole job in them; drawn to `out`, if given."""
    from netsim.workloads.job.placement import describe, place
    from netsim.workloads.job.ranks import Ranks

    layout, rack_hosts = job.layout, job.machine.domain_gpus
    ranks = Ranks(layout.tp, layout.cp, layout.replicas, layout.pp, layout.dp_levels, layout.ep)
    # Racks need not be full: there are hosts enough for every stage to begin with a new one.
    n_hosts = rack_hosts * len(ranks)
    if placement == "random":
        n_hosts = -(-len(ranks) // rack_hosts) * rack_hosts
    rng = np.random.default_rng(SEED)
    hosts = place(placement, ranks, rack_hosts, n_hosts, rng)
    rows, more = describe(ranks, hosts, rack_hosts)
    yield f"{job.name}: {placement}, racks of {rack_hosts} GPUs"
    table = plain_table(*rows[0])
    for row in rows[1:-1]:
        table.add_row(*row)
    if more:
        table.add_row("...", *[""] * (len(rows[0]) - 1))
    table.add_row(*rows[-1])
    yield table
    if more:
        yield f"{more:,} more racks"
    if out is not None:
        from netsim.plots import save
        from netsim.workloads.plots.placement import draw

        yield str(save(draw(ranks, hosts, rack_hosts, f"{job.name}: {placement}"), out))
