"""Build a result from the engine's state with all reports."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from netsim.reports.flows import as_sent
from netsim.results.columns import each
from netsim.results.run_result import Ending, Run, RunResult
from netsim.running.drive import FINISHED

if TYPE_CHECKING:
    from netsim.engine.engine import Engine
    from netsim.experiment import Point
    from netsim.experiment.scenario import Scenario


def engine_result(
    point: Point, scenario: Scenario, engine: Engine, ending: Ending, timings: Mapping[str, Any]
) -> RunResult:
    """Return the result of a simulation; `timings` are the summary's wall_s, compile_s and threads.

    Raises RunError if packets, bytes or requests are not conserved.
    """
    scenario = as_sent(point, scenario, engine.flow_states())
    return _result(Run(point, scenario, engine, ending, timings))


def closed_form_result(point: Point, scenario: Scenario) -> RunResult:
    """Return the result of a transport whose completion times are the ideal ones."""
    timings = {"wall_s": 0.0, "compile_s": 0.0, "threads": 0}
    return _result(Run(point, scenario, None, Ending(FINISHED, complete=True), timings))


def _result(run: Run) -> RunResult:
    summary: dict[str, Any] = {}
    for report in each("report"):
        summary |= report(run)
    return RunResult.of(run.tables, summary, run.ending)
