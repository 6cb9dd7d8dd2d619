"""GOAL schedules of LogGOPSim and ATLAHS, as text or in the binary form of `txt2bin`.

A schedule has sends, receives and calculations of each rank, and dependencies on an operation's end
(`requires`) or start (`irequires`).

Source: spcl/LogGOPSim, src/LogGOPSim/txt2bin.re and Parser.hpp; Hoefler, Siebert, Lumsdaine, "Group
Operation Assembly Language", ICPP 2009.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from netsim.errors import InputError
from netsim.limits import COUNT, HORIZON_PS, SIZE_BYTES

SEND, RECV, CALC = KINDS = (1, 2, 3)
NAMES = {SEND: "send", RECV: "recv", CALC: "calc"}
"""Kinds of operations, as numbered in binary files."""

ANY = -1
"""Wildcard source or tag of a receive."""

PS_PER_NS = 1000


@dataclass(frozen=True)
class GoalSchedule:
    """The n operations of a schedule, by rank in file order, and its m dependencies.

    Attributes:
        rank: int32[n].
        kind: int8[n], SEND, RECV or CALC.
        peer: int64[n], the other rank; ANY for wildcard receives and calculations.
        size: int64[n], bytes, or nanoseconds of calculations.
        tag: int64[n]; ANY for wildcard receives.
        cpu, nic: int16[n].
        first, then: int64[m], operations of one rank: `then[i]` waits for `first[i]`.
        at_start: bool[m], whether it waits for its start instead of its end.
        place: int64[n], the line, or in a binary file the index of the node.
        unread_bytes: bytes of a binary file that belong to no rank.
    """

    path: Path
    n_ranks: int
    rank: NDArray[np.int32]
    kind: NDArray[np.int8]
    peer: NDArray[np.int64]
    size: NDArray[np.int64]
    tag: NDArray[np.int64]
    cpu: NDArray[np.int16]
    nic: NDArray[np.int16]
    first: NDArray[np.int64]
    then: NDArray[np.int64]
    at_start: NDArray[np.bool_]
    place: NDArray[np.int64]
    binary: bool
    unread_bytes: int = 0

    def __len__(self) -> int:
        return int(self.rank.size)

    def error(self, op: int, message: str, hint: str | None = None) -> InputError:
        return InputError(f"{self.name(op)}: {message}", file=str(self.path), hint=hint)

    def name(self, op: int) -> str:
        """Return the name for messages, such as "line 17 (send of rank 3)"."""
        what = "node" if self.binary else "line"
        return f"{what} {self.place[op]} ({NAMES[int(self.kind[op])]} of rank {self.rank[op]})"

    def check(self) -> GoalSchedule:
        """Return the schedule. Raises InputError for the first invalid operation."""
        talks, sends = self.kind != CALC, self.kind == SEND
        here = self.n_ranks
        too_long = self.size >= HORIZON_PS // PS_PER_NS
        wrong = [
            (talks & (self.peer >= here), f"unknown peer: ranks are 0..{here - 1}"),
            (sends & (self.peer == ANY), "a send needs a destination"),
            (sends & (self.tag == ANY), "a send needs a tag"),
            (talks & ((self.size < 0) | (self.size >= SIZE_BYTES)), "has 1 PiB or more"),
            (~talks & ((self.size < 0) | too_long), "takes 20 h or more"),
        ]
        for bad, what in wrong:
            for op in np.flatnonzero(bad)[:1].tolist():
                raise self.error(op, what)
        return self


def check_ranks(path: Path, n_ranks: int, n_bytes: int) -> None:
    """Raise InputError for a number of ranks that cannot fit in a file of `n_bytes`."""
    if not 1 <= n_ranks <= min(COUNT, n_bytes):
        raise InputError(f"{n_ranks} ranks in a file of {n_bytes} bytes", file=str(path))
