"""Several jobs on one network: each has its own traffic pattern and hosts.

A table [traffic.jobs.NAME] has `kind` and the parameters of a pattern, and `hosts`: how many, or a
list in the order of the ranks. Lists may share hosts; a number gets free hosts. The pattern sees
only these hosts, the first as host 0. A job starts at its `start`; its times are relative to it.

`run = ["all", "a", "b"]` runs the jobs together and each alone, on the same hosts and with the same
random numbers; `netsim run` then prints how much longer each takes with the others. A job that runs
alone may get other paths by flow hashing, since flows are numbered over all jobs.

With `arrivals`, a CSV file, the tables are kinds of work, and each row is a job that arrives and,
if hosts are free, starts:

- job: its name;
- work: NAME of its table;
- arrival: time with a unit ("4ms");
- estimate: how long its user expects it to take, used to assign hosts;
- hosts: how many, optional; default: as in the table;
- placement: optional; default: `placement`.

First come, first served: a job gets hosts that are free when it arrives, or else the hosts that
become free first by the estimates; no job is placed before an earlier job. This plan is made before
the run. In the run, a job starts when the jobs that had its hosts have ended. Its first host learns
this by messages of 1000 bytes: from all hosts of a job to its first host, from there to the next
job's first host, and from there to its other hosts. The job's `start` then delays its work.
(`interleaved` is like `packed`, since jobs arrive one at a time.)
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from netsim.common.inputs import user_path, whole
from netsim.errors import InputError, did_you_mean
from netsim.flows import Rng, TrafficContext, Workload
from netsim.model.traffic import PLACEMENTS, Arrival, jobs_workload, place_jobs, queue_jobs
from netsim.network import Network
from netsim.params import REQUIRED, Param, Params
from netsim.traffic._rows import each, read_csv
from netsim.units import parse_time_ps, written

ALL = "all"

PARAMS = [
    Param("jobs", "jobs", REQUIRED, "[traffic.jobs.NAME]: a pattern, its hosts and its start"),
    Param(
        "placement",
        "choice",
        "packed",
        "which hosts jobs get: the next hosts, every job in turn, one rack after the other, any",
        choices=PLACEMENTS,
    ),
    Param("run", "text", ALL, 'the jobs that run: "all", or the name of one'),
    Param("arrivals", "file", None, "a list of jobs that come and go; default: the tables"),
]

NEEDED, OPTIONAL = ("job", "work", "arrival", "estimate"), ("hosts", "placement")


def flows(params: Params, network: Network, rng: Rng, context: TrafficContext) -> Workload:
    uses, run = params["jobs"], params["run"]
    arrivals = _arrivals(params, context.directory, network.n_hosts)
    if arrivals is not None:
        uses = {name: uses[one.work] for name, one in arrivals.items()}
    if ALL in uses:
        message = f'"{ALL}" is not a name of a job'
        raise InputError(message, key=f"traffic.jobs.{ALL}", hint=f'run = "{ALL}" runs all')
    if run not in (ALL, *uses):
        hint = did_you_mean(run, (ALL, *uses))
        raise InputError(f'unknown job "{run}"', key="traffic.run", hint=hint, code="unknown_value")
    streams = dict(zip(uses, rng.integers(1, 1 << 62, len(uses)).tolist(), strict=True))
    try:
        queue = None if arrivals is None else queue_jobs(arrivals, network, rng)
        wanted = {name: use.params["hosts"] for name, use in uses.items()}
        hosts = queue.hosts if queue else place_jobs(wanted, params["placement"], network, rng)
    except InputError as error:
        raise error.under("traffic.jobs") from None
    chosen = uses if run == ALL else {run: uses[run]}
    return jobs_workload(chosen, hosts, network, context, streams, queue)


def _arrivals(params: Params, directory: Path, n_hosts: int) -> dict[str, Arrival] | None:
    """Return the jobs of the list by name, in order of arrival; None without a list."""
    if params["arrivals"] is None:
        return None
    path, tables = user_path(params["arrivals"], directory), params["jobs"]
    table = read_csv(path)
    for name in NEEDED:
        if name not in table.columns:
            hint = f"columns are {', '.join((*NEEDED, *OPTIONAL))}"
            raise InputError(f"has no column {name}", file=str(path), hint=hint)
    for name in table.columns:
        if name not in (*NEEDED, *OPTIONAL):
            hint = did_you_mean(name, (*NEEDED, *OPTIONAL))
            raise InputError(f"unknown column {written(name)}", file=str(path), hint=hint)
    if not table.n_rows:
        raise InputError("has no jobs", file=str(path))
    arrival, estimate = (each(table, name, parse_time_ps) for name in ("arrival", "estimate"))
    empty = [""] * table.n_rows
    sizes = each(replace(table, columns={"hosts": empty, **table.columns}), "hosts", _size)
    policies = table.columns.get("placement", empty)
    names = [name.strip() for name in table.columns["job"]]

    def jobs() -> Iterator[tuple[str, Arrival]]:
        for row, work in enumerate(map(str.strip, table.columns["work"])):
            if work not in tables:
                raise table.error(row, f"work: {written(work)} is none of {', '.join(tables)}")
            count = sizes[row] or tables[work].params["hosts"]
            placement = policies[row].strip() or params["placement"]
            if not names[row] or names[row] in names[:row]:
                raise table.error(row, f"job: {written(names[row])} is empty or there already")
            if not isinstance(count, int) or count > n_hosts:
                raise table.error(row, f"hosts: {count} is not a number up to {n_hosts}")
            if placement not in PLACEMENTS:
                choices = ", ".join(PLACEMENTS)
                raise table.error(row, f"placement: {written(placement)} is none of {choices}")
            yield names[row], Arrival(work, arrival[row], count, estimate[row], placement)

    return dict(sorted(jobs(), key=lambda job: job[1].arrival_ps))


def _size(cell: str) -> int:
    """Return a number of hosts; 0 for an empty cell."""
    return whole(cell.strip()) if cell.strip() else 0
