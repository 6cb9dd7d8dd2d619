"""Choose where the points of a run are simulated."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from netsim.errors import InputError
from netsim.running.executor import Executor, Serial
from netsim.units import written

if TYPE_CHECKING:
    from netsim.running.worker_process import WorkerProcess

DASK, SLURM, ADDRESSES = "dask", "slurm", ("tcp://", "tls://")


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
    from netsim.running.processes import Processes

    return Processes(jobs, threads, started)
