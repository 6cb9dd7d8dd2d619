"""A serving run's part of the result: its tables, its figures, and the account of its requests."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from netsim.workloads.serving.figures import serving_figures
from netsim.workloads.serving.outcome import outcome
from netsim.workloads.serving.request_audit import audit

if TYPE_CHECKING:
    from netsim.results.run_result import Table
    from netsim.workloads.serving.data import ServingPlan


def serving_result(
    plan: ServingPlan | None, log: Table | None, flows: Table, *, complete: bool
) -> tuple[dict[str, Table], dict[str, Any]]:
    """The tables "requests" and "iterations", and the summary's part; nothing if nothing is served.

    `log` is what the program noted, `flows` the table of flows.

    Raises RunError if a request is lost or was served twice.
    """
    if plan is None or log is None:
        return {}, {}
    found = outcome(plan, log, flows["start_ps"])
    counts = audit(found.requests, log, complete=complete)
    figures = {**serving_figures(plan, found, log), "account": counts}
    return {"requests": found.requests, "iterations": found.iterations}, {"serving": figures}
