"""Points in worker processes of this machine, several at a time.

Each process runs one point after the other, so it compiles or loads code once; a thread of this
process waits for its answer. The predicted memory of points that run together stays within the
memory available at the start.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any

from netsim.common.memory import available_bytes, available_cores
from netsim.common.steps import step
from netsim.errors import warn_once
from netsim.running.estimate import BASE_BYTES, NO_FEATURES, Estimate, Memory, require_memory
from netsim.running.executor import (
    Batch,
    Executor,
    PointOutcome,
    PointRun,
    Report,
    RunOptions,
    Serial,
    input_error,
)
from netsim.running.point import Progress
from netsim.running.worker import point_spec
from netsim.running.worker_process import POLL_S, Reply, WorkerProcess, Workers

ALONE_S = 1.0  # seconds for which this process predicts points alone; then workers help
START_S = 1.0  # startup time of worker processes, in seconds
SAVED_S = 3.0  # points run in this process if workers are predicted to save fewer seconds


class Processes(Executor):
    """At most `jobs` worker processes, each with its share of the threads unless `threads` is
    given. Without `jobs`, small points run in several processes with a thread each, and large ones
    here with all threads."""

    alone_s = ALONE_S

    def __init__(
        self,
        jobs: int | None = None,
        threads: int | None = None,
        started: Sequence[WorkerProcess] = (),
    ) -> None:
        self._given = jobs, threads
        self._memory = available_bytes()
        self._workers = Workers(started)
        self._pool: ThreadPoolExecutor | None = None
        self._messages: SimpleQueue[tuple[str, str, Any]] = SimpleQueue()
        self._reports: dict[str, Report | None] = {}
        self._stopped = False
        self._use(jobs or available_cores())
        if self.jobs == 1:
            self.alone_s = math.inf

    def _use(self, jobs: int) -> None:
        self.jobs, self.threads = jobs, self._given[1] or max(1, available_cores() // jobs)

    def open(self, lock: int) -> None:
        self._workers.open(lock)

    def estimates(
        self, runs: Sequence[PointRun], should_stop: Callable[[], bool]
    ) -> dict[str, Estimate]:
        if self._given[0] is not None:
            self._workers.start(min(self.jobs, len(runs)))  # while this process predicts
        found = super().estimates(runs, should_stop)
        rest = [run for run in runs if run.name not in found]
        asked = {run.name: self._ask("estimate", run, RunOptions()) for run in rest}
        n_done = -1
        while not should_stop():
            done, left = wait(asked.values(), POLL_S)
            if left and len(done) > n_done:
                n_done = len(done)
                step("building and predicting the other points", n_done, len(rest))
            wrong = [future for future in done if "input_error" in future.result()]
            if wrong or not left:
                break
        step("")
        for future in asked.values():
            future.cancel()
        if should_stop():
            self._stopped = True
            return found
        for run in rest:
            if asked[run.name].done() and not asked[run.name].cancelled():
                found[run.name] = self._estimate(run, asked[run.name].result())
        return found

    def _estimate(self, run: PointRun, reply: Reply) -> Estimate:
        """Return the estimate of a point from a reply. If its process has ended, assume that the
        point needs all memory, so that it runs alone and shows why."""
        if "input_error" in reply:
            raise input_error(reply["input_error"])
        if "error" in reply:
            return Estimate(memory=Memory(held=self._memory or 0))
        reply.pop("lost", None)
        memory = Memory(**reply.pop("memory"))
        estimate = Estimate(**{**reply, "memory": memory, "feature_set": NO_FEATURES})
        require_memory(estimate, what=run.point.file, available=self._memory)
        return estimate

    def run(self, batch: Batch) -> Iterator[PointOutcome]:
        jobs, threads = self._given
        if jobs is None:
            found = [batch.estimates[run.name] for run in batch.runs]
            self._use(best_jobs(found, available_cores(), threads))
            if self.jobs == 1:
                yield from Serial().run(batch)
                return
        yield from super().run(batch)

    def start(
        self, waiting: Sequence[PointRun], running: Mapping[str, PointRun], batch: Batch
    ) -> list[PointRun]:
        started: list[PointRun] = []
        for run in waiting:
            if len(running) + len(started) >= self.jobs:
                break
            if self._has_room(run, [*running.values(), *started], batch.estimates):
                started.append(run)
                self._reports[run.name] = batch.callbacks.watch(run.point)
                asked = self._ask("run", run, batch.options)
                asked.add_done_callback(partial(self._put, run.name, "reply"))
        return started

    def _has_room(
        self, run: PointRun, others: Sequence[PointRun], estimates: Mapping[str, Estimate]
    ) -> bool:
        """Return whether a point fits into memory. End idle processes if only their memory is
        missing."""
        if self._memory is None:
            return True
        room = self._memory - sum(estimates[one.name].memory_bytes for one in (run, *others))
        if room < 0 and others:
            return False
        self._workers.end_idle(left=1 + max(0, room) // BASE_BYTES)
        return True

    def _ask(self, kind: str, run: PointRun, options: RunOptions) -> Future[Reply]:
        """Ask a process in a thread."""
        if self._pool is None:
            self._pool = ThreadPoolExecutor(self.jobs, "netsim-point")
        spec, heard = point_spec(run, options), partial(self._put, run.name)
        return self._pool.submit(self._workers.ask, kind, spec, lambda: self._stopped, heard)

    def _put(self, name: str, kind: str, content: Any) -> None:
        self._messages.put((name, kind, content))

    def replies(self, running: Mapping[str, PointRun], batch: Batch) -> Iterator[tuple[str, Reply]]:
        block = True
        while True:
            try:
                name, kind, content = self._messages.get(block, POLL_S)
            except Empty:
                return
            block = False
            if kind == "note":
                batch.callbacks.note(str(content))
            elif kind == "warning":
                warn_once(str(content))
            elif kind == "reply" and name in running:
                yield name, content.result()
            elif kind == "progress" and (report := self._reports.get(name)) is not None:
                counted = content["counted"]
                report(Progress(**{**content, "counted": tuple(counted) if counted else None}))

    def stop(self) -> None:
        self._stopped = True

    def close(self) -> None:
        self._stopped = True
        self._workers.kill()
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)
        self._workers.end_idle()


def best_jobs(estimates: Sequence[Estimate], cores: int, threads: int | None = None) -> int:
    """Return the number of concurrent points that is predicted to finish soonest.

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
