"""One run over MPI: `mpirun -n 4 netsim run X --mpi`.

All ranks load the experiment. Rank 0 runs its points and writes the results, as without MPI; for
each point it simulates, the other ranks build an engine and `follow` (`point.py`). Only rank 0
prints, and only rank 0 is stopped by signals.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from netsim.common.memory import available_bytes, own_cores
from netsim.errors import InputError, RunError
from netsim.limits import INT64
from netsim.units import format_bytes

if TYPE_CHECKING:
    from netsim.engine.simulation import Led, Options
    from netsim.experiment import Point
    from netsim.running.estimate import Estimate

Array = np.ndarray[Any, Any]

INSTALL = "pip install 'netsim-fabric[mpi]', with mpich or another MPI for mpirun"

PREPARE, BUILD, QUIT = "prepare", "build", "quit"  # orders of rank 0 between points

FAILED = 1

SPIN_S = 100e-6  # seconds that a waiting rank spins before it sleeps

LONGEST_SLEEP_S = 1e-3

MAX_CORES = 1 << 16


@contextmanager
def connected() -> Iterator[MpiRanks]:
    """Yield the ranks that mpirun started; in the end, let the others quit, or abort them. Raises
    InputError without mpi4py."""
    try:
        import mpi4py

        mpi4py.rc(thread_level="funneled")
        from mpi4py import MPI
    except ImportError as error:
        raise InputError(f"--mpi: {error}", hint=INSTALL) from None
    ranks = MpiRanks(MPI)
    try:
        yield ranks
    except (SystemExit, InputError):
        ranks.quit()
        raise
    except BaseException as error:  # ranks may wait for each other
        ranks.abort(error)
        raise
    else:
        ranks.quit()


class MpiRanks:
    """The ranks of this run."""

    def __init__(self, mpi: Any) -> None:
        self._mpi, self._world = mpi, mpi.COMM_WORLD
        self.rank, self.n = self._world.Get_rank(), self._world.Get_size()
        local = self._world.Split_type(mpi.COMM_TYPE_SHARED)
        cores = np.zeros(MAX_CORES, np.uint8)
        cores[list(own_cores())] = 1
        local.Allreduce(mpi.IN_PLACE, cores, mpi.BOR)  # mpirun may bind each rank to a few
        self.n_cores = max(1, int(cores.sum()) // local.Get_size())
        """The share of a machine's cores that each rank has."""
        first = np.array([self.rank], np.int64)
        local.Allreduce(mpi.IN_PLACE, first, mpi.MIN)
        machine = [int(first[0]), local.Get_size(), available_bytes() or INT64]
        self._machines = self.all_gather(np.array(machine, np.int64))
        """For each rank's machine: its first rank, the number of ranks, and available bytes."""
        self._led: Led | None = None
        self._stderr = sys.stderr
        if self.rank > 0:
            for number in (signal.SIGINT, signal.SIGTERM):
                signal.signal(number, signal.SIG_IGN)
            sys.stdout = sys.stderr = open(os.devnull, "w")  # noqa: SIM115 (until the process ends)

    def require_memory(self, estimate: Estimate, *, what: str) -> None:
        """Raise InputError if `what` needs more memory than is available on some machine."""
        first, other = estimate.memory.of_ranks(self.n)
        for lowest, n_local, room in np.unique(self._machines, axis=0).tolist():
            needed = other * n_local + (first - other if lowest == 0 else 0)
            if needed > room:
                where = f"on the machine of rank {lowest}"
                raise InputError(
                    f"needs about {format_bytes(needed, 3)} of memory {where}, "
                    f"only {format_bytes(room, 3)} is available",
                    file=what,
                    hint=f"{n_local} of {self.n} ranks are there; use more machines",
                )

    def quit(self) -> None:
        """Let the other ranks quit, if this is rank 0."""
        if self.rank == 0:
            self._order(QUIT)

    def abort(self, error: BaseException) -> None:
        """End all ranks, and say why unless the user wants it."""
        if not isinstance(error, KeyboardInterrupt):
            traceback.print_exception(error, file=self._stderr)
            self._say(f"failed: {error!r}")
        self._world.Abort(FAILED)

    def end(self, message: str) -> None:
        """End all ranks, because the compiled code of this process hangs."""
        self._say(message)
        os._exit(FAILED)

    def _say(self, message: str) -> None:
        where = f"rank {self.rank} on {self._mpi.Get_processor_name()}"
        print(f"error: {where}: {message}", file=self._stderr, flush=True)

    def broadcast(self, array: Array | None, root: int = 0) -> Array:
        """Return the array of ``root`` (uint8[...]) on all ranks."""
        size = np.array([0 if array is None else array.size], np.int64)
        self._wait(self._world.Ibcast(size, root))
        found = np.empty(int(size[0]), np.uint8) if array is None or self.rank != root else array
        self._wait(self._world.Ibcast(found, root))
        return found

    def all_gather(self, row: Array) -> Array:
        """Return the rows of all ranks (int64[k]) as int64[n, k]."""
        found = np.empty((self.n, row.size), np.int64)
        self._wait(self._world.Iallgather(row, found))
        return found

    def gather(self, array: Array) -> list[Array]:
        """Return the arrays of all ranks (uint8[...]) on rank 0, and nothing on others."""
        sizes = self.all_gather(np.array([array.size], np.int64))[:, 0]
        if self.rank > 0:
            self._wait(self._world.Igatherv(array, None))
            return []
        found = np.empty(int(sizes.sum()), np.uint8)
        self._wait(self._world.Igatherv(array, [found, sizes]))
        return np.split(found, np.cumsum(sizes)[:-1])

    def swap(self, out: Mapping[int, Array]) -> dict[int, Array]:
        """Send an array (int64[...]) to some ranks; return their arrays."""
        sending = [self._world.Isend(one, rank) for rank, one in out.items()]
        found, status = {}, self._mpi.Status()
        for rank in out:
            self._until(partial(self._world.Iprobe, rank, status=status))
            found[rank] = np.empty(status.Get_count(self._mpi.INT64_T), np.int64)
            self._world.Recv(found[rank], rank)
        self._wait(*sending)
        return found

    def fill(self, out: Mapping[int, Array], into: Mapping[int, Array]) -> None:
        """Send arrays (uint8[...]) to some ranks, and receive arrays of known lengths."""
        receiving = [self._world.Irecv(one, rank, 1) for rank, one in into.items()]
        sending = [self._world.Isend(one, rank, 1) for rank, one in out.items()]
        self._wait(*receiving, *sending)

    def _wait(self, *requests: Any) -> None:
        self._until(lambda: self._mpi.Request.Testall(requests))

    def _until(self, done: Callable[[], bool]) -> None:
        """Wait until `done`: spin first, since MPI does not wake processes, then sleep for a
        fraction of the time waited, so that ranks may share a core."""
        began = 0.0
        while not done():
            now = time.perf_counter()
            began = began or now
            if now - began > SPIN_S:
                time.sleep(min(LONGEST_SLEEP_S, (now - began) / 4))

    def processes(self) -> str:
        """List each rank's process ID, since mpirun's messages name processes; on rank 0 only."""
        own = f"{os.getpid()} on {self._mpi.Get_processor_name()}".encode()
        found = self.gather(np.frombuffer(own, np.uint8))
        where = (f"{i} is process {one.tobytes().decode()}" for i, one in enumerate(found))
        return f"{self.n} ranks: {', '.join(where)}"

    def told(self) -> Any:
        """Return the next order from rank 0."""
        return json.loads(self.broadcast(None).tobytes())

    def _order(self, order: str, **about: Any) -> None:
        self.broadcast(np.frombuffer(json.dumps({"order": order, **about}).encode(), np.uint8))

    def prepare(self, point: Point, options: Options) -> None:
        """Let the other ranks prepare a point."""
        about = {"threads": options.threads, "checked": options.checked}
        self._order(PREPARE, point=point.name, options=about)

    def build(self, engine: Led) -> None:
        """Let other ranks build and load what ``engine`` needs, and then follow it. Raises RunError
        if that fails on one of them."""
        self._order(BUILD)
        self.agree("")
        self._led = engine

    def release(self) -> None:
        """Let the other ranks wait for the next point."""
        if self._led is not None:
            self._led.close()
            self._led = None

    def agree(self, failure: str) -> None:
        """Raise RunError with the failure of any rank."""
        failed = np.flatnonzero(self.all_gather(np.array([bool(failure)], np.int64)))
        if failed.size:
            first = int(failed[0])
            text = self.broadcast(np.frombuffer(failure.encode(), np.uint8), first)
            raise RunError(f"rank {first}: {text.tobytes().decode()}")


@contextmanager
def leading(ranks: MpiRanks | None, point: Point, options: Options) -> Iterator[None]:
    """Let other ranks follow while this one simulates a point."""
    if ranks is None:
        yield
        return
    ranks.prepare(point, options)
    try:
        yield
    except (InputError, RunError):  # after others, ranks may wait for each other
        ranks.release()
        raise
    ranks.release()
