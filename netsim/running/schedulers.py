"""Points run by a scheduler: dask, or Slurm through submitit (extras of netsim-fabric)."""

from __future__ import annotations

import asyncio
import hashlib
import math
import os
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError
from pathlib import Path
from typing import TYPE_CHECKING, Any

from netsim.common.memory import available_bytes, available_cores
from netsim.errors import InputError, RunError
from netsim.running import worker
from netsim.running.estimate import Estimate, require_memory
from netsim.running.executor import Batch, Executor, PointOutcome, PointRun
from netsim.running.worker_process import Reply, WorkerProcess

if TYPE_CHECKING:
    from distributed import Client, Future


INSTALL_DASK = "pip install 'netsim-fabric[dask]'"
MEMORY = "MEM"  # resource of workers: bytes that points may need at the same time
HERE = "127.0.0.1:0"  # HTTP address of a local cluster: reachable from this machine only

DASK_POLL_S = 0.05
CONNECT_S = 30
NOTE_S = 5.0  # seconds without workers after which a note says so
LOST_S = 5.0  # seconds without a scheduler after which a run ends
_stopped: set[str] = set()  # stopped runs, in a worker process


def run_task(spec: Mapping[str, Any], run: str) -> Reply:
    """Run a point in a dask worker, until it is stopped or the client disconnects."""
    from distributed import get_worker

    here = get_worker()
    key = here.get_current_task()

    def should_stop() -> bool:
        task = here.state.tasks.get(key)
        return run in _stopped or task is None or task.state in ("cancelled", "released")

    return worker.run_remotely(spec, should_stop)


def stop_tasks(run: str) -> None:
    """Stop the points of a run in this process."""
    _stopped.add(run)


class Dask(Executor):
    """Points as dask tasks; `jobs` at a time on a local cluster."""

    def __init__(
        self,
        address: str | None = None,
        jobs: int | None = None,
        threads: int | None = None,
        started: Sequence[WorkerProcess] = (),
    ) -> None:
        try:
            import distributed  # noqa: F401
        except ImportError:
            raise InputError("dask.distributed is not installed", hint=INSTALL_DASK) from None
        cores = available_cores()
        self._address, self.jobs = address, jobs or cores
        self.threads = threads or (1 if address else max(1, cores // self.jobs))
        self.has_own_memory = address is not None
        worker.WORKERS.idle += started
        self._lock = -1
        self._client: Client | None = None
        self._cluster: Any = None
        self._run_id = f"netsim-{os.getpid()}-{time.time_ns()}"
        self._futures: dict[str, Future] = {}
        self._began_s = self._heard_s = 0.0

    def open(self, lock: int) -> None:
        self._lock = lock

    def estimates(
        self, runs: Sequence[PointRun], should_stop: Callable[[], bool]
    ) -> dict[str, Estimate]:
        if self.has_own_memory:
            self._connect()
        return super().estimates(runs, should_stop)

    def run(self, batch: Batch) -> Iterator[PointOutcome]:
        try:
            client = self._connect()
            self.jobs = max(1, sum(client.nthreads().values()))
            self._began_s = self._heard_s = time.monotonic()
            yield from super().run(batch)
        except (asyncio.CancelledError, CancelledError, OSError):
            raise self._lost() from None

    def start(
        self, waiting: Sequence[PointRun], running: Mapping[str, PointRun], batch: Batch
    ) -> list[PointRun]:
        del running  # dask decides which points run
        client = self._connect()
        limit = self._memory_limit(client)
        for run in waiting:
            predicted = batch.estimates[run.name]
            if limit is not None:
                where = " on the largest worker"
                require_memory(predicted, what=run.point.file, available=limit, where=where)
            self._futures[run.name] = client.submit(
                run_task,
                worker.remote_spec(run, batch.options, self._lock),
                self._run_id,
                key=_key(run),
                pure=False,
                priority=predicted.seconds_with(self.threads),
                resources={} if limit is None else {MEMORY: predicted.memory_bytes},
            )
        return [*waiting]

    def replies(self, running: Mapping[str, PointRun], batch: Batch) -> Iterator[tuple[str, Reply]]:
        client, now_s = self._connect(), time.monotonic()
        if self._began_s and now_s > self._began_s + NOTE_S:
            self._began_s = 0.0
            if client.status == "running" and not client.nthreads():
                batch.callbacks.note(f"{self._address} has no workers: waiting for some")
        if client.status == "running":
            self._heard_s = now_s
        elif now_s > self._heard_s + LOST_S:
            raise self._lost()
        time.sleep(DASK_POLL_S)
        for name in [*running]:
            future = self._futures[name]
            if future.status == "cancelled":
                raise self._lost()
            if future.status in ("finished", "error"):
                yield name, _reply(future)

    def stop(self) -> None:
        self._connect().run(stop_tasks, self._run_id)

    def close(self) -> None:
        worker.WORKERS.end_idle()  # of a local cluster; others end theirs after a while
        for one in (self._client, self._cluster):
            if one is not None:
                one.close(timeout=2)

    def _connect(self) -> Client:
        if self._client is not None:
            return self._client
        import logging

        from distributed import Client, LocalCluster

        for name in [*logging.root.manager.loggerDict]:
            if name.partition(".")[0] in ("distributed", "tornado"):
                logging.getLogger(name).setLevel(logging.CRITICAL + 1)
        try:
            if self._address is None:
                resources = {MEMORY: available_bytes() or 1 << 60}
                self._cluster = LocalCluster(
                    n_workers=1,
                    threads_per_worker=self.jobs,
                    processes=False,
                    dashboard_address=HERE,
                    worker_dashboard_address=HERE,
                    resources=resources,
                )
            self._client = Client(self._cluster or self._address, timeout=CONNECT_S)
        except (OSError, ValueError, TimeoutError) as error:
            message = f"cannot connect to {self._address}: {error}"
            raise InputError(message, file="--scheduler") from None
        return self._client

    def _lost(self) -> RunError:
        where = self._address or "of dask"
        return RunError(f"lost the scheduler {where}: the same command continues")

    def _memory_limit(self, client: Client) -> int | None:
        """Return the largest memory that a worker declares; None if none does."""
        workers = client.scheduler_info(n_workers=-1)["workers"].values()
        return int(max((one["resources"].get(MEMORY, 0) for one in workers), default=0)) or None


def _key(run: PointRun) -> str:
    """Return the key of a point: the hash of a finished one, and where its result goes."""
    folder = hashlib.sha256(str(run.folder).encode()).hexdigest()
    return f"netsim-{run.provenance.fingerprint[:32]}-{folder[:8]}"


def _reply(future: Future) -> Reply:
    """Return the reply of a task that has ended."""
    if future.status == "finished":
        reply: Reply = future.result()
        future.release()
        return reply
    error = future.exception()
    if type(error).__name__ == "KilledWorker":
        message = "its workers were lost again and again, perhaps for lack of memory"
    else:
        message = f"its worker failed: {type(error).__name__}: {error}"
    return {"directory": None, "error": message}


# --- Slurm ----------------------------------------------------------------------------------------

INSTALL_SLURM = "pip install 'netsim-fabric[slurm]'"

JOBS = 100  # jobs at a time unless `--jobs` is given
JOB_S = 600.0  # predicted time of a job worth queueing: small points share one

SPARE_TIME, SPARE_S = 3.0, 900.0
SPARE_MEMORY = 1.3  # a job's request, relative to its prediction

SLURM_POLL_S = 1.0
SIGNAL_S = 90  # seconds before its time limit in which a job writes its checkpoint


class PointsTask:
    """The points of one job, one after the other. Preempted, it checkpoints and is queued again."""

    def __init__(self, specs: list[dict[str, Any]]) -> None:
        self.specs = specs

    def __call__(self) -> list[Reply]:
        try:
            return [worker.run_remotely(spec, lambda: False) for spec in self.specs]
        finally:
            worker.WORKERS.end_idle()

    def checkpoint(self) -> Any:
        """Let the running point write its checkpoint; return the job to queue again. submitit calls
        this in a signal handler, while `__call__` runs."""
        from submitit.helpers import DelayedSubmission

        worker.WORKERS.stop_and_wait()
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
            raise InputError("submitit is not installed", hint=INSTALL_SLURM) from None
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
                specs = [worker.remote_spec(run, batch.options, self._lock) for run in group]
                self.submitted.append(executor.submit(PointsTask(specs)))
        self._groups = groups
        return [*waiting]

    def replies(self, running: Mapping[str, PointRun], batch: Batch) -> Iterator[tuple[str, Reply]]:
        del batch
        if self._is_stopped:
            yield from ((name, {"stopped": True}) for name in [*running])
            return
        time.sleep(SLURM_POLL_S)
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
