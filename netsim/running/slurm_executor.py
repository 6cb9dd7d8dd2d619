"""Points as jobs of Slurm, by submitit (`netsim[slurm]`)."""

from __future__ import annotations

import math
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from netsim.errors import InputError
from netsim.running import point_spec
from netsim.running.executor import Batch, Executor, PointRun
from netsim.running.worker_process import Reply

INSTALL = "pip install 'netsim[slurm]'"

JOBS = 100
"""Jobs at a time unless `--jobs` is given."""

JOB_S = 600.0
"""Predicted time of a job that is worth queueing: small points share one."""

SPARE_TIME, SPARE_S = 3.0, 900.0
SPARE_MEMORY = 1.3
"""What a job asks for, over its prediction."""

POLL_S = 1.0
SIGNAL_S = 90
"""Seconds before its time limit in which a job writes its checkpoint."""


class PointsTask:
    """The points of one job, one after the other. Preempted, it checkpoints and is queued again."""

    def __init__(self, specs: list[dict[str, Any]]) -> None:
        self.specs = specs

    def __call__(self) -> list[Reply]:
        try:
            return [point_spec.run_remotely(spec, lambda: False) for spec in self.specs]
        finally:
            point_spec.WORKERS.end_idle()

    def checkpoint(self) -> Any:
        """Let the running point write its checkpoint; return the job to queue again.

        submitit calls this in the handler of a signal, in the midst of `__call__`.
        """
        from submitit.helpers import DelayedSubmission

        point_spec.WORKERS.stop_and_wait()
        return DelayedSubmission(PointsTask(self.specs))


class Slurm(Executor):
    """Slurm jobs, or local processes if `cluster` is "local"."""

    has_own_memory = True

    def __init__(
        self,
        jobs: int | None = None,
        threads: int | None = None,
        partition: str | None = None,
        cluster: str = "slurm",
    ) -> None:
        try:
            import submitit  # noqa: F401
        except ImportError:
            raise InputError("submitit is not installed", hint=INSTALL) from None
        if cluster == "slurm" and shutil.which("sbatch") is None:
            raise InputError("sbatch not found: no Slurm here", file="--scheduler")
        self.jobs, self.threads = jobs or JOBS, threads or 1
        self._partition, self._cluster = partition, cluster
        self._lock = -1
        self._folder, self._is_stopped = Path(), False
        self._groups: list[list[PointRun]] = []
        self.submitted: list[Any] = []

    def open(self, lock: int) -> None:
        self._lock = lock

    def start(
        self, waiting: Sequence[PointRun], running: Mapping[str, PointRun], batch: Batch
    ) -> list[PointRun]:
        del running  # all are submitted at once
        seconds = {name: one.seconds_with(self.threads) for name, one in batch.estimates.items()}
        groups = divided(waiting, seconds, self.jobs)
        self._folder = waiting[0].folder.parent.with_name(f"{waiting[0].folder.parent.name}.jobs")
        executor = self._executor(
            memory_bytes=max(one.memory_bytes for one in batch.estimates.values()),
            seconds=max(sum(seconds[run.name] for run in group) for group in groups),
            parallel=min(self.jobs, len(groups)),
        )
        with executor.batch():
            for group in groups:
                specs = [point_spec.remote_spec(run, batch.options, self._lock) for run in group]
                self.submitted.append(executor.submit(PointsTask(specs)))
        self._groups = groups
        return [*waiting]

    def replies(self, running: Mapping[str, PointRun], batch: Batch) -> Iterator[tuple[str, Reply]]:
        del batch
        if self._is_stopped:
            yield from ((name, {"stopped": True}) for name in [*running])
            return
        time.sleep(POLL_S)
        n_left = len(running)
        for job, group in zip(self.submitted, self._groups, strict=True):
            left = [run for run in group if run.name in running]
            for name, reply in _ended(job, left) if left else ():
                n_left -= 1
                yield name, reply
        if not n_left:
            shutil.rmtree(self._folder, ignore_errors=True)

    def stop(self) -> None:
        self._is_stopped = True

    def close(self) -> None:
        for job in self.submitted:
            if not job.done():
                job.cancel()

    def _executor(self, *, memory_bytes: int, seconds: float, parallel: int) -> Any:
        import submitit

        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        executor = submitit.AutoExecutor(folder=self._folder, cluster=self._cluster)
        executor.update_parameters(
            name="netsim",
            timeout_min=math.ceil((SPARE_TIME * seconds + SPARE_S) / 60),
            mem_gb=math.ceil(SPARE_MEMORY * memory_bytes / 1e9),
            cpus_per_task=self.threads,
            slurm_array_parallelism=parallel,
            slurm_signal_delay_s=SIGNAL_S,
        )
        if self._partition is not None:
            executor.update_parameters(slurm_partition=self._partition)
        return executor


def _ended(job: Any, left: Sequence[PointRun]) -> Iterator[tuple[str, Reply]]:
    """Yield the replies of a job's points that are done: their results are written, or the job has
    ended."""
    is_done = job.done()
    error = job.exception() if is_done else None
    replies = job.result() if is_done and error is None else []
    if replies:
        yield from zip((run.name for run in left), replies[-len(left) :], strict=False)
        left = left[len(replies) :]
    for run in left:
        if run.kept() is not None:
            yield run.name, {"directory": str(run.folder), "error": None}
        elif is_done:
            yield run.name, {"directory": None, "error": f"its job ended: {_last_line(error)}"}


def divided(
    runs: Sequence[PointRun], seconds: Mapping[str, float], jobs: int
) -> list[list[PointRun]]:
    """Return the points of each job: longest first, each to the job with the least to do."""
    total_s = sum(seconds[run.name] for run in runs)
    count = max(1, min(jobs, len(runs), math.ceil(total_s / JOB_S)))
    groups: list[list[PointRun]] = [[] for _ in range(count)]
    busy_s = [0.0] * count
    for run in sorted(runs, key=lambda run: -seconds[run.name]):
        least = busy_s.index(min(busy_s))
        groups[least].append(run)
        busy_s[least] += seconds[run.name]
    return groups


def _last_line(error: BaseException | None) -> str:
    lines = str(error).strip().splitlines()
    return lines[-1] if lines else "without an answer"
