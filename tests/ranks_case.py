"""Run the ranks of one simulation as threads of this process."""

import threading
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from netsim.running.mpi import MpiRanks


class Meeting:
    """A rendezvous of ranks: each contributes an object, and all see all objects."""

    def __init__(self, n: int) -> None:
        self.barrier = threading.Barrier(n)
        self.left: tuple[list[Any], list[Any]] = ([None] * n, [None] * n)
        """Used alternately: a meeting may start while some ranks still read the previous one."""


class ThreadRanks(MpiRanks):
    """Ranks that are threads. As in MPI, sent data is copied."""

    def __init__(self, rank: int, meeting: Meeting) -> None:
        self.rank, self.n, self._meeting = rank, meeting.barrier.parties, meeting
        self._turn, self._led, self.n_cores = 0, None, 2

    def _meet(self, mine: Any) -> list[Any]:
        self._turn ^= 1
        found = self._meeting.left[self._turn]
        found[self.rank] = mine
        self._meeting.barrier.wait(300)
        return list(found)

    def broadcast(self, array: Any, root: int = 0) -> Any:
        return self._meet(None if array is None else array.copy())[root].copy()

    def all_gather(self, row: Any) -> Any:
        return np.stack(self._meet(row.copy()))

    def gather(self, array: Any) -> list[Any]:
        found = self._meet(array.copy())
        return found if self.rank == 0 else []

    def swap(self, out: Mapping[int, Any]) -> dict[int, Any]:
        found = self._meet({rank: one.copy() for rank, one in out.items()})
        return {i: one[self.rank] for i, one in enumerate(found) if self.rank in one}

    def fill(self, out: Mapping[int, Any], into: Mapping[int, Any]) -> None:
        found = self.swap(out)
        assert found.keys() == into.keys()
        for rank, one in into.items():
            one[:] = found[rank]


def on_ranks(n: int, lead: Callable[[Any], Any], serve: Callable[[Any], None]) -> Any:
    """Call ``lead`` on rank 0 and ``serve`` on the others; return the result of ``lead``."""
    meeting = Meeting(n)
    failures: list[BaseException] = []

    def call(rank: int) -> None:
        try:
            serve(ThreadRanks(rank, meeting))
        except threading.BrokenBarrierError:
            pass
        except BaseException as error:
            failures.append(error)
            meeting.barrier.abort()

    others = [threading.Thread(target=call, args=(rank,)) for rank in range(1, n)]
    for one in others:
        one.start()
    try:
        return lead(ThreadRanks(0, meeting))
    except BaseException as error:
        meeting.barrier.abort()
        raise failures[0] if failures else error from None
    finally:
        for one in others:
            one.join(60)


def with_ranks(n: int, make: Callable[[Any], Any], use: Callable[[Any], Any]) -> Any:
    """Return the result of ``use`` with rank 0's engine, while the other ranks serve theirs."""

    def lead(ranks: ThreadRanks) -> Any:
        engine = make(ranks)
        found = use(engine)
        engine.close()
        return found

    return on_ranks(n, lead, lambda ranks: make(ranks).serve())
