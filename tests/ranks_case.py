"""Ranks of one run as threads of this process, and what they are compared with."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np


class Meeting:
    """Where ranks meet: each leaves something, and all see what the others left."""

    def __init__(self, n: int) -> None:
        self.barrier = threading.Barrier(n)
        self.left: list[Any] = [None] * n


class ThreadRanks:
    """A `Ranks` whose ranks are threads."""

    def __init__(self, rank: int, meeting: Meeting) -> None:
        self.rank, self.n, self._meeting = rank, len(meeting.left), meeting

    def _meet(self, mine: Any) -> list[Any]:
        self._meeting.left[self.rank] = mine
        self._meeting.barrier.wait(300)
        found = list(self._meeting.left)
        self._meeting.barrier.wait(300)
        return found

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


def with_ranks(n: int, make: Callable[[ThreadRanks], Any], use: Callable[[Any], Any]) -> Any:
    """What ``use`` returns of the engine of rank 0, while other ranks serve theirs."""
    meeting = Meeting(n)
    failures: list[BaseException] = []

    def serve(rank: int) -> None:
        try:
            make(ThreadRanks(rank, meeting)).serve()
        except threading.BrokenBarrierError:
            pass
        except BaseException as error:
            failures.append(error)
            meeting.barrier.abort()

    others = [threading.Thread(target=serve, args=(rank,)) for rank in range(1, n)]
    for one in others:
        one.start()
    try:
        engine = make(ThreadRanks(0, meeting))
        found = use(engine)
        engine.close()
        return found
    except threading.BrokenBarrierError:
        raise failures[0] from None
    finally:
        meeting.barrier.abort() if failures else None
        for one in others:
            one.join(60)
