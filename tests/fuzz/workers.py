"""Run cases in worker processes, which are killed when overdue and replaced when they die."""

from __future__ import annotations

import multiprocessing
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path

from .judge import Finding

Job = Callable[[int, Path], tuple[str, list[Finding]]]
"""Runs case `number` in its own folder; returns a word for the outcome, and the findings."""

ADDRESS_BYTES = 6 * 2**30
SETTLE_S = 15.0
"""Time that a worker may take to exit after it died."""


@dataclass(frozen=True)
class Done:
    """A finished case."""

    number: int
    verdict: str
    findings: list[Finding]


class _Worker:
    """One process and its current case."""

    def __init__(self, job: Job, wall_s: float, free_bytes: int) -> None:
        context = multiprocessing.get_context("spawn")
        self.wall_s = wall_s
        self.folder = Path(tempfile.mkdtemp(prefix="netsim_fuzz_"))
        self.connection, theirs = context.Pipe()
        self.process: BaseProcess = context.Process(
            target=_work, args=(job, theirs, self.folder, free_bytes), daemon=False
        )
        self.process.start()
        theirs.close()
        self.number: int | None = None
        self.began = 0.0

    def give(self, number: int) -> None:
        self.number, self.began = number, time.monotonic()
        self.connection.send(number)

    def overdue(self) -> bool:
        return self.number is not None and time.monotonic() - self.began > self.wall_s

    def end(self) -> None:
        self.connection.close()
        if self.process.is_alive():
            self.process.kill()
        self.process.join()
        shutil.rmtree(self.folder, ignore_errors=True)


def do(
    job: Job, numbers: Sequence[int], *, workers: int, wall_s: float, free_bytes: int = 10**9
) -> Iterator[Done]:
    """Run all cases, each as soon as a worker is free.

    A case may take `wall_s` before its worker is killed; `free_bytes` is the free memory that
    netsim sees.
    """
    waiting = list(reversed(numbers))
    team: list[_Worker] = []
    try:
        while waiting or any(worker.number is not None for worker in team):
            while len(team) < min(workers, len(numbers)):
                team.append(_Worker(job, wall_s, free_bytes))
            for worker in team:
                if worker.number is None and waiting:
                    worker.give(waiting.pop())
            busy = {worker.connection: worker for worker in team if worker.number is not None}
            for connection in wait(list(busy), timeout=1.0):
                assert isinstance(connection, Connection)
                worker = busy[connection]
                done, alive = _result(worker)
                yield done
                worker.number = None
                if not alive:
                    worker.end()
                    team.remove(worker)
            for worker in [worker for worker in team if worker.overdue()]:
                assert worker.number is not None
                yield Done(worker.number, "?", [Finding("hang", "had to be ended from outside")])
                worker.end()
                team.remove(worker)
    finally:
        for worker in team:
            worker.end()


def _result(worker: _Worker) -> tuple[Done, bool]:
    """Return the result of a worker's current case, and whether the worker stays alive."""
    assert worker.number is not None
    try:
        verdict, findings = worker.connection.recv()
    except (EOFError, ConnectionError):
        worker.process.join(SETTLE_S)
        died = Finding("died", f"exit code {worker.process.exitcode}")
        return Done(worker.number, "?", [died]), False
    # Memory left by a case must not count for the next one.
    return Done(worker.number, verdict, findings), "memory" not in {one.kind for one in findings}


def _work(job: Job, connection: Connection, folder: Path, free_bytes: int) -> None:
    """Run cases from the connection in a worker process."""
    from netsim.common import memory

    from .limits import limit_memory

    os.chdir(folder)
    os.environ.setdefault("NETSIM_CACHE_DIR", str(folder / "compiled"))
    null = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(null, descriptor)
    limit_memory(ADDRESS_BYTES)
    memory.available_bytes = lambda *_: free_bytes
    while True:
        try:
            number = connection.recv()
        except EOFError:
            return
        scratch = Path(tempfile.mkdtemp(prefix="case_", dir=folder))
        os.chdir(scratch)
        try:
            result = job(number, scratch)
        except BaseException as error:
            import traceback

            text = traceback.format_exc()[-1500:]
            result = ("?", [Finding("fuzzer", f"{type(error).__name__}: {error}"[:200], text)])
        os.chdir(folder)
        shutil.rmtree(scratch, ignore_errors=True)
        connection.send(result)
