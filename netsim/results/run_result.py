"""The result of a run: its tables, summary and hash."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from netsim.frozen import frozen
from netsim.results.columns import specs

if TYPE_CHECKING:
    from netsim.engine.engine import Engine
    from netsim.engine.state_views import Readings
    from netsim.experiment import Point
    from netsim.experiment.scenario import Scenario

STALLED = "stalled"  # `Ending.stop_reason` of a run that makes no progress
Table = dict[str, np.ndarray]  # columns by name, arrays of one length


@frozen
class Ending:
    """How a run ended.

    `stop_reason` is "finished" (every flow delivered and acknowledged, every task done),
    "measured" (all of [measure] has passed), "time_limit", "interrupted", "stalled", or
    "undelivered" (no events left, but flows or tasks are not done). `complete`: the run was
    measured, or every flow is delivered, except what unreliable transports lost. `reason` says why
    a run is incomplete, unless it was interrupted.
    """

    stop_reason: str
    complete: bool
    reason: str | None = None


@dataclass
class Run:
    """Input of reports: a point and its simulation. Closed forms have no engine, and only a
    complete [measure] has readings."""

    point: Point
    scenario: Scenario
    engine: Engine | None
    ending: Ending
    timings: Mapping[str, Any]
    readings: Readings | None = None
    tables: dict[str, Table] = field(default_factory=dict)


@frozen
class RunResult:
    """Tables, summary and ending of a run; each table is also an attribute, None if absent."""

    tables: dict[str, Table]
    summary: dict[str, Any]
    complete: bool
    stop_reason: str
    hash: str
    reason: str | None

    @classmethod
    def of(cls, tables: dict[str, Table], summary: dict[str, Any], ending: Ending) -> RunResult:
        """Return a result with its hash."""
        digest = result_hash(tables)
        return cls(
            tables=tables,
            summary={**summary, "hash": digest},
            complete=ending.complete,
            stop_reason=ending.stop_reason,
            hash=digest,
            reason=ending.reason,
        )

    @property
    def flows(self) -> Table:
        """One row per flow."""
        return self.tables["flows"]

    @property
    def links(self) -> Table:
        """One row per directed link and traffic class."""
        return self.tables["links"]

    def __getattr__(self, name: str) -> Table | None:
        if name.startswith("_") or name not in specs():
            raise AttributeError(name)
        return self.tables.get(name)


def hashed() -> list[str]:
    """Return the names of the tables in the hash, in order."""
    found = [one for one in specs().values() if one.hash_order]
    return [one.name for one in sorted(found, key=lambda one: one.hash_order)]


def result_hash(tables: dict[str, Table]) -> str:
    """Return the SHA-256 of tables: equal if and only if the results are identical."""
    digest = hashlib.sha256()
    for table in (tables[name] for name in hashed() if name in tables):
        for name, column in table.items():
            digest.update(name.encode())
            values = column
            if column.dtype.kind in "iub":
                values = column.astype(np.int64)
            elif column.dtype.kind == "f":
                values = np.nan_to_num(column, nan=-1.0).astype(np.float64)
            elif column.dtype.kind == "U":  # no wider than the longest text
                values = np.array(column.tolist())
            digest.update(np.ascontiguousarray(values).tobytes())
    return digest.hexdigest()
