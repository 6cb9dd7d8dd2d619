"""What a run returns: its tables and figures, and the hash of them."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

import numpy as np

Table = dict[str, np.ndarray]
"""Columns by name, arrays of one length."""


HASHED = ("flows", "links", "tasks", "operations", "series", "log")
"""Tables over which the hash of a result is taken, in this order, as far as there are any."""


@dataclass(frozen=True)
class Ending:
    """How a run ended.

    `stop_reason` is "finished" (every flow is delivered and acknowledged, every task done),
    "time_limit", "interrupted", "stalled", or "undelivered" (no events are left, and flows or tasks
    are not done). `complete` says whether every flow is delivered, except what an unreliable
    transport has lost. `reason` says why a run is not complete, unless it was interrupted.
    """

    stop_reason: str
    complete: bool
    reason: str | None = None


@dataclass(frozen=True)
class RunResult:
    """The tables and figures of a run, and how it ended (`Ending`).

    `faults` has the events of links and routes, None without [faults]; `relay_segments` are
    those of relayed messages, `circuit_slots` those of circuit switches that followed the workload,
    None if there are none. `operations` are those of a job's ranks, None without any. `log` has the
    rows of a program, None if it keeps no log; `requests` and `iterations` are what
    follows from the log of a serving run, None of any other.
    """

    flows: Table
    links: Table
    summary: dict[str, Any]
    complete: bool
    stop_reason: str
    hash: str
    reason: str | None
    faults: Table | None = None
    tasks: Table | None = None
    series: Table | None = None
    relay_segments: Table | None = None
    circuit_slots: Table | None = None
    operations: Table | None = None
    log: Table | None = None
    requests: Table | None = None
    iterations: Table | None = None

    @classmethod
    def of(
        cls,
        flows: Table,
        links: Table,
        summary: dict[str, Any],
        ending: Ending,
        **beside: Table | None,
    ) -> RunResult:
        """A result with further tables, and the hash of those in `HASHED`, which enters its
        summary."""
        hashed = (flows, links, *(beside.get(name) for name in HASHED[2:]))
        digest = result_hash(*(one for one in hashed if one is not None))
        return cls(
            flows=flows,
            links=links,
            summary={**summary, "hash": digest},
            complete=ending.complete,
            stop_reason=ending.stop_reason,
            hash=digest,
            reason=ending.reason,
            **beside,
        )


def result_hash(*tables: Table) -> str:
    """SHA-256 over tables (`HASHED`): equal if and only if results are, bit for bit."""
    digest = hashlib.sha256()
    for table in tables:
        for name, column in table.items():
            digest.update(name.encode())
            values = column
            if column.dtype.kind in "iub":
                values = column.astype(np.int64)
            elif column.dtype.kind == "f":
                values = np.nan_to_num(column, nan=-1.0).astype(np.float64)
            elif column.dtype.kind == "U":  # no wider than its longest text
                values = np.array(column.tolist())
            digest.update(np.ascontiguousarray(values).tobytes())
    return digest.hexdigest()
