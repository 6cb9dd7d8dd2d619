"""Points as jobs of Slurm, by submitit (`netsim[slurm]`)."""

from __future__ import annotations

import math
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from netsim.errors import InputError
from netsim.running import remote
from netsim.running.executor import Batch, Executor
from netsim.running.point_run import PointOutcome, PointRun

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

    def __call__(self) -> list[dict[str, Any]]:
        try:
            return [remote.run_remotely(spec, lambda: False) for spec in self.specs]
        finally:
            remote.end_idle()

    def checkpoint(self) -> Any:
        """Let the running point write its checkpoint; return the job to queue again.

        submitit calls this in the handler of a signal, in the midst of `__call__`.
        """
        from submitit.helpers import DelayedSubmission

        remote.stop_and_wait()
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
        self._jobs, self._threads = jobs or JOBS, threads or 1
        self._partition, self._cluster = partition, cluster
        self._lock = -1
        self.submitted: list[Any] = []

    def open(self, lock: int) -> None:
        self._lock = lock

    def run(self, batch: Batch) -> Iterator[PointOutcome]:
        if not batch.runs:
            return
        seconds = {name: one.seconds_with(self._threads) for name, one in batch.estimates.items()}
        groups = divided(batch.runs, seconds, self._jobs)
        options = replace(batch.options, threads=self._threads)
        folder = batch.runs[0].folder.parent
        folder = folder.with_name(f"{folder.name}.jobs")
        executor = self._executor(
            folder,
            memory_bytes=max(one.memory_bytes for one in batch.estimates.values()),
            seconds=max(sum(seconds[run.name] for run in group) for group in groups),
            parallel=min(self._jobs, len(groups)),
        )
        with executor.batch():
            for group in groups:
                specs = [remote.remote_spec(run, options, self._lock) for run in group]
                self.submitted.append(executor.submit(PointsTask(specs)))
        batch.callbacks.parallel(min(self._jobs, len(groups)))
        waiting = dict(zip(range(len(groups)), groups, strict=True))
        while waiting and not batch.callbacks.should_stop():
            for number, group in list(waiting.items()):
                yield from self._finished(number, group)
                if not group:
                    del waiting[number]
            time.sleep(POLL_S if waiting else 0)
        if not waiting:
            shutil.rmtree(folder, ignore_errors=True)

    def close(self) -> None:
        for job in self.submitted:
            if not job.done():
                job.cancel()

    def _executor(self, folder: Path, *, memory_bytes: int, seconds: float, parallel: int) -> Any:
        import submitit

        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        executor = submitit.AutoExecutor(folder=folder, cluster=self._cluster)
        executor.update_parameters(
            name="netsim",
            timeout_min=math.ceil((SPARE_TIME * seconds + SPARE_S) / 60),
            mem_gb=math.ceil(SPARE_MEMORY * memory_bytes / 1e9),
            cpus_per_task=self._threads,
            slurm_array_parallelism=parallel,
            slurm_signal_delay_s=SIGNAL_S,
        )
        if self._partition is not None:
            executor.update_parameters(slurm_partition=self._partition)
        return executor

    def _finished(self, number: int, group: list[PointRun]) -> Iterator[PointOutcome]:
        """Yield and remove the points of a job that are done."""
        job = self.submitted[number]
        is_done = job.done()
        for run in list(group):
            if (found := run.kept()) is not None and not is_done:
                group.remove(run)
                yield replace(found, kept=False)
        if not is_done:
            return
        error = job.exception()
        replies = [] if error is not None else job.result()
        if len(replies) > len(group):
            replies = replies[-len(group) :] if group else []
        for run, reply in zip(list(group), replies, strict=False):
            group.remove(run)
            if (outcome := remote.reply_outcome(run, reply)) is not None:
                yield outcome
        for run in list(group):
            group.remove(run)
            yield replace(
                run.kept() or run.failed(f"its job ended: {_last_line(error)}"), kept=False
            )


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
