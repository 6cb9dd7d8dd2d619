"""Choose where the points of a run are simulated."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from netsim.errors import InputError
from netsim.memory import available_bytes, available_cores
from netsim.running.executor import ALONE_S, Batch, Executor, Serial
from netsim.running.point_run import PointOutcome, PointRun
from netsim.units import written

if TYPE_CHECKING:
    from netsim.running.estimate import Estimate
    from netsim.running.processes import Processes
    from netsim.running.worker_process import WorkerProcess

DASK, SLURM, ADDRESSES = "dask", "slurm", ("tcp://", "tls://")

START_S = 1.0
"""Time in which worker processes start."""

SAVED_S = 3.0
"""Predicted gain below which points run in this process."""


def executor_of(
    jobs: int | None,
    threads: int | None,
    started: Sequence[WorkerProcess] = (),
    scheduler: str | None = None,
    partition: str | None = None,
) -> Executor:
    """Return the executor for the options of `netsim run`; it uses processes that have been started
    already.

    Raises InputError if a library is missing.
    """
    if scheduler == SLURM:
        from netsim.running.slurm_executor import Slurm

        return Slurm(jobs, threads, partition)
    if partition is not None:
        raise InputError("requires --scheduler slurm", file="--partition")
    if scheduler is not None:
        if scheduler != DASK and not scheduler.startswith(ADDRESSES):
            hint = f'"{DASK}", "{SLURM}" or the address of a scheduler of dask, such as tcp://host:8786'
            raise InputError(f"{written(scheduler)} is unknown", file="--scheduler", hint=hint)
        from netsim.running.dask_executor import Dask

        return Dask(None if scheduler == DASK else scheduler, jobs, threads, started)
    if jobs == 1:
        return Serial()
    if jobs is None:
        return Automatic(threads)
    from netsim.running.processes import Processes

    return Processes(jobs, threads, started)


def best_jobs(estimates: Sequence[Estimate], cores: int, threads: int | None = None) -> int:
    """Return the number of points at a time that is predicted to end first.

    The memory of that many points, the largest ones, must be available. Each point gets its share
    of the cores unless `threads` is given.
    """
    memory = sorted((one.memory_bytes for one in estimates), reverse=True)
    room = available_bytes()
    best, best_s = 1, sum(one.seconds_with(threads or cores) for one in estimates) - SAVED_S
    for jobs in range(2, min(cores, len(estimates)) + 1):
        if room is not None and sum(memory[:jobs]) > room:
            break
        of_point = [one.seconds_with(threads or cores // jobs) for one in estimates]
        seconds = START_S + max(sum(of_point) / jobs, *of_point)
        if seconds < best_s:
            best, best_s = jobs, seconds
    return best


class Automatic(Executor):
    """Small points in several processes with a thread each, large ones here with all threads."""

    def __init__(self, threads: int | None = None) -> None:
        self._threads = threads
        self._cores = available_cores()
        self.alone_s = ALONE_S if self._cores > 1 else math.inf
        self._lock: int | None = None
        self._helpers: Processes | None = None

    def open(self, lock: int) -> None:
        self._lock = lock
        if self._helpers is not None:
            self._helpers.open(lock)

    def estimates(
        self, runs: Sequence[PointRun], should_stop: Callable[[], bool]
    ) -> dict[str, Estimate]:
        found = super().estimates(runs, should_stop)
        rest = runs[len(found) :]
        if rest and not should_stop():
            helpers = self._processes(min(self._cores, len(rest)))
            found |= helpers.estimates(rest, should_stop)
        return found

    def run(self, batch: Batch) -> Iterator[PointOutcome]:
        estimates = [batch.estimates[run.name] for run in batch.runs]
        jobs = best_jobs(estimates, self._cores, self._threads)
        return (Serial() if jobs == 1 else self._processes(jobs)).run(batch)

    def close(self) -> None:
        if self._helpers is not None:
            self._helpers.close()

    def _processes(self, jobs: int) -> Executor:
        from netsim.running.processes import Processes

        if self._helpers is not None and self._helpers.jobs == jobs:
            return self._helpers
        self.close()
        self._helpers = Processes(jobs, self._threads)
        if self._lock is not None:
            self._helpers.open(self._lock)
        return self._helpers
