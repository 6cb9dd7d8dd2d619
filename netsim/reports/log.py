"""The log of a program."""

from __future__ import annotations

from typing import Any

from netsim.results.columns import TableSpec
from netsim.results.run_result import Run

LOG = TableSpec.of(
    "log",
    """
    host     host  host whose program logged the row; the program's columns follow
    time_ps  ps    time of the row
    """,
    hash_order=6,
)

TABLES = (LOG,)
ORDER = 30


def report(run: Run) -> dict[str, Any]:
    """Add the log, if the program keeps one; return its number of rows."""
    log = None if run.engine is None else run.engine.program_log()
    if log is None:
        return {}
    run.tables["log"] = log
    return {"log_rows": log["time_ps"].size}
