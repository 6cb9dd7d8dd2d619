"""Points on a cluster of dask (`netsim[dask]`): a local one, or that of a scheduler."""

from __future__ import annotations

import asyncio
import hashlib
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError
from typing import TYPE_CHECKING, Any

from netsim.common.memory import available_bytes, available_cores
from netsim.errors import InputError, RunError
from netsim.running import point_spec
from netsim.running.estimate import Estimate, require_memory
from netsim.running.executor import Batch, Executor, PointOutcome, PointRun

if TYPE_CHECKING:
    from distributed import Client, Future

    from netsim.running.worker_process import Reply, WorkerProcess

INSTALL = "pip install 'netsim[dask]'"
MEMORY = "MEM"
"""Resource of workers: bytes that points may need at the same time."""

HERE = "127.0.0.1:0"
"""Where a local cluster listens for HTTP, which it always does: for this machine only."""

POLL_S = 0.05
CONNECT_S = 30
NOTE_S = 5.0
"""Seconds without workers after which a note says so."""

LOST_S = 5.0
"""Seconds without a scheduler after which a run ends."""

_stopped: set[str] = set()
"""Runs that have been stopped; in a process of workers."""


def run_task(spec: Mapping[str, Any], run: str) -> Reply:
    """Run a point in a worker of dask, until it is stopped or the client has gone."""
    from distributed import get_worker

    worker = get_worker()
    key = worker.get_current_task()

    def should_stop() -> bool:
        task = worker.state.tasks.get(key)
        return run in _stopped or task is None or task.state in ("cancelled", "released")

    return point_spec.run_remotely(spec, should_stop)


def stop_tasks(run: str) -> None:
    """Stop the points of a run that this process has."""
    _stopped.add(run)


class Dask(Executor):
    """Points as tasks of dask; `jobs` at a time if the cluster is a local one."""

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
            raise InputError("dask.distributed is not installed", hint=INSTALL) from None
        cores = available_cores()
        self._address, self.jobs = address, jobs or cores
        self.threads = threads or (1 if address else max(1, cores // self.jobs))
        self.has_own_memory = address is not None
        point_spec.WORKERS.idle += started
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
                point_spec.remote_spec(run, batch.options, self._lock),
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
        time.sleep(POLL_S)
        for name in [*running]:
            future = self._futures[name]
            if future.status == "cancelled":
                raise self._lost()
            if future.status in ("finished", "error"):
                yield name, _reply(future)

    def stop(self) -> None:
        self._connect().run(stop_tasks, self._run_id)

    def close(self) -> None:
        point_spec.WORKERS.end_idle()  # of a local cluster; others end theirs after a while
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
