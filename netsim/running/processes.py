"""Points in worker processes of this machine, several at a time.

Each process runs one point after the other, so it compiles or loads code once. A process that ends
before it has answered costs only its point, which is tried once more. The predicted memory of what
runs at the same time stays within what was available at the start.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from multiprocessing.connection import wait
from typing import Any

from netsim.errors import CombinedInputError, InputError, warn_once
from netsim.memory import available_bytes, available_cores
from netsim.results import destination
from netsim.results.received import checked, receive
from netsim.results.replace import recover
from netsim.running.estimate import BASE_BYTES, Estimate, require_memory
from netsim.running.executor import ALONE_S, Batch, Executor
from netsim.running.point import Progress
from netsim.running.point_run import PointOutcome, PointRun, RunOptions
from netsim.running.point_spec import point_spec
from netsim.running.work import Work
from netsim.running.worker_process import WorkerProcess

UNKNOWN = Estimate(0, 0, 0, 0, 0, 0, 0, 0, 0.0, 0.0, assumptions="")

POLL_S = 0.1
ATTEMPTS = 2
STOP_S = 3.0
"""Seconds after a stop in which a process must have begun to simulate, or it is ended."""


class Processes(Executor):
    """At most `jobs` worker processes, each with its share of the threads unless `threads` is
    given."""

    alone_s = ALONE_S

    def __init__(
        self, jobs: int, threads: int | None = None, started: Sequence[WorkerProcess] = ()
    ) -> None:
        self.jobs = jobs
        self.threads = threads or max(1, available_cores() // jobs)
        self._memory = available_bytes()
        self._lock: int | None = None
        self._workers = [*started]
        self._stop_s: float | None = None

    def open(self, lock: int) -> None:
        self._lock = lock
        for worker in self._workers:
            worker.share(lock)

    def estimates(
        self, runs: Sequence[PointRun], should_stop: Callable[[], bool]
    ) -> dict[str, Estimate]:
        self._grow(len(runs))
        found = super().estimates(runs, should_stop)  # while the processes start
        waiting = [run for run in runs if run.name not in found][::-1]
        wrong: list[tuple[int, InputError]] = []
        while (waiting and not wrong) or self._busy():
            if should_stop():
                break
            for worker in self._workers:
                if worker.run is None and waiting and not wrong:
                    spec = point_spec(waiting[-1], RunOptions())
                    worker.give("estimate", waiting.pop(), spec)
            for worker, kind, content in self._messages():
                run, worker.run = worker.run, None
                assert run is not None
                try:
                    found[run.name] = self._estimate(run, kind, content)
                except InputError as error:
                    wrong.append((run.point.index, error))
            self._grow(len(waiting))
        if wrong:
            raise min(wrong, key=lambda one: one[0])[1]
        return found

    def run(self, batch: Batch) -> Iterator[PointOutcome]:
        longest = {name: one.seconds_with(self.threads) for name, one in batch.estimates.items()}
        waiting = sorted(batch.runs, key=lambda run: -longest[run.name])
        attempts = dict.fromkeys((run.name for run in waiting), 0)
        options = replace(batch.options, threads=self.threads)
        batch.callbacks.parallel(min(self.jobs, len(waiting)))
        while waiting or self._busy():
            if self._stop_s is None and batch.callbacks.should_stop():
                waiting.clear()
                self._stop()
            self._start(waiting, attempts, batch, options)
            for worker, kind, content in self._messages():
                assert worker.run is not None
                run = worker.run
                if kind == "progress":
                    self._progress(worker, content)
                    continue
                if kind == "note":
                    batch.callbacks.note(str(content))
                    continue
                worker.run = None
                if kind == "error":
                    raise input_error(content)
                if kind == "done":
                    self._start(waiting, attempts, batch, options)  # before the table is written
                    yield outcome_of(run, content)
                    continue
                recover(run.folder.parent, run.folder.name)
                if self._stop_s is not None:
                    continue
                if kind == "ended" and attempts[run.name] < ATTEMPTS:
                    batch.callbacks.note(f"{run.name}: {content}: tried once more")
                    waiting.insert(0, run)
                    continue
                times = " twice" if kind == "ended" else ""
                yield run.failed(f"{content}{times}".removeprefix(f"{run.name}: "))

    def _estimate(self, run: PointRun, kind: str, content: Any) -> Estimate:
        """Return the estimate of a point from a worker's answer; it takes all memory if the worker
        has ended, so its run will show why.
        """
        if kind == "error":
            raise input_error(content)
        if kind != "estimate":
            return replace(UNKNOWN, memory_bytes=self._memory or 0)
        work = None if content["work"] is None else Work(**content["work"])
        estimate = Estimate(**{**content, "work": work})
        require_memory(estimate, what=run.point.file, available=self._memory)
        return estimate

    def close(self) -> None:
        for worker in self._workers:
            worker.process.kill()
        for worker in self._workers:
            worker.end()
        self._workers.clear()

    def _busy(self) -> list[WorkerProcess]:
        return [worker for worker in self._workers if worker.run is not None]

    def _grow(self, n_points: int) -> None:
        """Start processes, as many as the points need."""
        while len(self._workers) < min(self.jobs, n_points):
            self._workers.append(WorkerProcess(self._lock))

    def _start(
        self, waiting: list[PointRun], attempts: dict[str, int], batch: Batch, options: RunOptions
    ) -> None:
        """Start the first of the waiting points that fit into the memory, and count attempts."""
        for run in list(waiting):
            if len(self._busy()) >= self.jobs:
                return
            worker = self._worker_for(run, batch)
            if worker is not None:
                waiting.remove(run)
                attempts[run.name] += 1
                worker.report = batch.callbacks.watch(run.point)
                worker.give("run", run, point_spec(run, options))

    def _worker_for(self, run: PointRun, batch: Batch) -> WorkerProcess | None:
        """Return an idle process for a point; None if the point does not fit into the memory now.

        Idle processes end if only their memory is missing.
        """
        idle = [worker for worker in self._workers if worker.run is None]
        if self._memory is not None:
            estimates = batch.estimates
            taken = sum(estimates[one.run.name].memory_bytes for one in self._busy() if one.run)
            room = self._memory - taken - estimates[run.name].memory_bytes
            if room < 0 and self._busy():
                return None
            while len(idle) > 1 and room < BASE_BYTES * (len(idle) - 1):
                self._workers.remove(idle[-1])
                idle.pop().end()
        if not idle:
            idle = [WorkerProcess(self._lock)]
            self._workers.append(idle[0])
        return idle[0]

    def _messages(self) -> Iterator[tuple[WorkerProcess, str, Any]]:
        """Yield messages of the processes; "ended" if one ended, and how. Waits a little."""
        by_channel = {worker.channel: worker for worker in self._workers}
        if self._stop_s is not None and time.monotonic() > self._stop_s + STOP_S:
            for worker in self._busy():
                if not worker.is_simulating:
                    worker.process.kill()
        for channel in wait(list(by_channel), POLL_S):
            worker = by_channel[channel]  # type: ignore[index]
            if worker not in self._workers:  # ended meanwhile
                continue
            message = worker.receive()
            if message is None:
                self._workers.remove(worker)
                reason = worker.end()
                if worker.run is not None:
                    yield worker, "ended", reason
            elif message[0] == "warning":
                warn_once(str(message[1]))
            elif worker.run is not None:
                yield worker, *message

    def _stop(self) -> None:
        self._stop_s = time.monotonic()
        for worker in self._workers:
            worker.send({"kind": "stop"})

    def _progress(self, worker: WorkerProcess, content: Mapping[str, Any]) -> None:
        counted = content["counted"]
        progress = Progress(**{**content, "counted": tuple(counted) if counted else None})
        worker.is_simulating = progress.phase == "run"
        if worker.report is not None:
            worker.report(progress)


def outcome_of(run: PointRun, content: Mapping[str, Any]) -> PointOutcome:
    """Return the outcome of a point from a worker's answer and the files that it wrote."""
    directory = content["directory"]
    if directory is None:
        return run.failed(str(content["error"]).removeprefix(f"{run.name}: "))
    folders = (run.folder, destination.partial_directory(run.folder))
    folder = next((one for one in folders if str(one) == directory), run.folder)
    fingerprint = run.provenance.fingerprint
    try:
        if content.get("files") is not None:
            folder = receive(run.folder, content["files"], fingerprint)
        result = checked(folder, fingerprint)
    except InputError as error:
        return run.failed(f"the result cannot be read: {error}")
    return run.outcome(result)


def input_error(content: Sequence[Mapping[str, Any]]) -> InputError:
    errors = [InputError(**one) for one in content]
    return errors[0] if len(errors) == 1 else CombinedInputError(errors)
