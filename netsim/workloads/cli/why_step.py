"""`netsim why --step`: explain the time of a step, or of all tasks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from netsim.results import Result
    from netsim.tracing.why import Explanation

OPTION = (
    "step",
    click.option("--step", type=click.IntRange(0), help="Explain this step of a job."),
)


def applies(result: Result) -> bool:
    """Return whether a result has tasks whose critical path can be found."""
    return result.tasks is not None and "serving" not in result.summary


def explain(result: Result, step: int | None, where: Mapping[str, Any]) -> Explanation:
    """Explain a step; without one the last step, or all tasks if there are no steps."""
    from netsim.workloads.tracing.why_step import explain_step

    if step is None and result.operations is not None:
        steps = len(result.summary["job"]["steps"])
        step = steps - 1 if steps else None
    return explain_step(result, step, **where)
