"""Simulate a result's point again, with an engine that records one flow."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from netsim.engine.compiling.program import program_of
from netsim.engine.kernels.trace import CAPACITY, TraceEntries, TraceOverflowError
from netsim.engine.simulation import Options
from netsim.errors import InputError
from netsim.experiment.scenario import is_closed_form, prepare
from netsim.limits import HORIZON_PS
from netsim.running.drive import BEFORE, FINISHED, INTERRUPTED, StepReport, drive
from netsim.running.estimate import estimate, require_memory
from netsim.running.point import Progress, ready_engine
from netsim.tracing.flow_trace import FlowTrace, flow_trace
from netsim.tracing.replay import differences, point_of

if TYPE_CHECKING:
    from netsim.experiment import Point
    from netsim.experiment.scenario import Scenario
    from netsim.plugins.registry import PluginSpec
    from netsim.results import Result

MORE = 8
"""A buffer that was too small for a window grows by this, and the run begins again."""


def trace_flow(
    result: Result,
    flow: int,
    *,
    until_ps: int | None = None,
    directory: Path | None = None,
    trust: bool = False,
    progress: Callable[[Progress], None] | None = None,
    should_stop: Callable[[], bool] | None = None,
) -> FlowTrace:
    """What flow number `flow` of a result did, until it was done or `until_ps` was reached.

    Parameters
    ----------
    directory : where files that the experiment names are, if they are not found.
    trust : run plugins of the result that are not part of netsim.
    progress, should_stop : as for `netsim.running.point.simulate`.

    Raises InputError if there is no such flow, or the experiment cannot be simulated again. The
    trace's `warnings` say what is no longer as it was when the result was written.
    """
    recorded = recorded_flow(result, flow)
    point = point_of(result, directory, trust=trust)
    if is_closed_form(point):
        raise InputError(
            f"{point.transport.name} computes completion times without sending packets",
            file=str(result.path),
            hint="there is nothing to trace",
        )
    require_memory(estimate(point), what=point.file)
    scenario = prepare(point)
    if scenario.segments is not None and scenario.segments.peer[flow] >= 0:
        peer = int(scenario.segments.peer[flow])
        hint = "relay_segments.parquet has the times of its segments"
        message = f"flow {flow} is relayed by host {peer}, and has no packets of its own"
        raise InputError(message, file=str(result.path), hint=hint)
    _same_flow(result, recorded, scenario)
    end_ps = min(until_ps or HORIZON_PS, int(result.summary["simulated_ps"]))
    session = _Session(point, scenario, flow, end_ps, progress, should_stop)
    session.goal_ps = min(end_ps, _last_ps(recorded) or end_ps)
    session.simulate()
    transport = transport_of(point, scenario, flow)
    entries = TraceEntries.joined(session.drained)
    trace = flow_trace(session.engine, entries, flow, point, transport, session.stop_reason)
    warnings = differences(result, point) + _differences(trace, recorded, until_ps)
    return trace.with_warnings(warnings)


def recorded_flow(result: Result, flow: int) -> dict[str, Any]:
    """The flow's row in the result. Raises InputError if there is none, or it never started."""
    flows = result.flows
    file = str(result.path)
    if not 0 <= flow < len(flows):
        raise InputError(f"there is no flow {flow}", file=file, hint=f"0 to {len(flows) - 1}")
    row = flows.row(flow, named=True)
    if row["start_ps"] is None:
        raise InputError(f"flow {flow} never started", file=file)
    return row


def transport_of(point: Point, scenario: Scenario, flow: int) -> PluginSpec:
    """The transport of a flow, which is that of its class."""
    return point.transport_of_class[int(scenario.class_of_flow[flow])]


def _last_ps(recorded: dict[str, Any]) -> int | None:
    """When the recorded flow was done at both ends, if it was."""
    ends = [recorded["fct_ps"], recorded["acked_ps"]]
    return None if None in ends else recorded["start_ps"] + max(ends)


def _same_flow(result: Result, recorded: dict[str, Any], scenario: Scenario) -> None:
    """Raise InputError if the experiment's traffic is not the result's any more."""
    flows, flow, program = scenario.messages, recorded["flow"], scenario.load.program
    known = ["src", "dst", "size_bytes"]
    if program is not None and program_of(program.use).resizes:
        known.remove("size_bytes")
    if len(flows) != len(result.flows) or any(
        int(getattr(flows, name)[flow]) != recorded[name] for name in known
    ):
        raise InputError(
            f"flow {flow} is not what it was: the traffic has changed", file=str(result.path)
        )


def _differences(trace: FlowTrace, recorded: dict[str, Any], until_ps: int | None) -> list[str]:
    """What came out differently this time."""
    if trace.stop_reason == INTERRUPTED or (until_ps is not None and trace.fct_ps is None):
        return []
    if trace.fct_ps == recorded["fct_ps"]:
        return []
    times = ["never" if t is None else f"{t} ps" for t in (recorded["fct_ps"], trace.fct_ps)]
    return [
        f"the flow's completion time was {times[0]} and is {times[1]} now: this is not the same run"
    ]


@dataclass
class _Session:
    """A run of a recording engine. `goal_ps` is when the flow is expected to be done."""

    point: Point
    scenario: Scenario
    flow: int
    end_ps: int
    progress: Callable[[Progress], None] | None
    should_stop: Callable[[], bool] | None
    goal_ps: int = 0
    stop_reason: str = ""

    def simulate(self) -> None:
        """Run until the flow is done, from the start again if a buffer was too small."""
        capacity = CAPACITY
        while True:
            try:
                return self._go(capacity)
            except TraceOverflowError:
                capacity *= MORE

    def _go(self, capacity: int) -> None:
        self.drained: list[TraceEntries] = []
        self.engine = ready_engine(
            self.point,
            self.scenario,
            self._tell,
            Options(trace=(self.flow,), trace_capacity=capacity),
        )
        self.stop_reason = drive(
            self.engine,
            self._look,
            until_ps=self.end_ps,
            should_stop=self.should_stop or (lambda: False),
        )

    def _look(self, report: StepReport) -> str | None:
        """Take what was recorded; the run ends when the flow does."""
        self.drained.append(self.engine.drain_trace())
        self._tell("run", report)
        flows = self.engine.flow_states()
        done = flows.done_ps[self.flow] >= 0 and flows.finished[self.flow] != 0
        return FINISHED if done else None

    def _tell(self, phase: str, report: StepReport = BEFORE) -> None:
        if self.progress is None:
            return
        # What is waited for is a time, not bytes.
        waited = min(report.counts.now_ps, self.goal_ps)
        progress = Progress.at(phase, report, self.scenario.load)
        self.progress(replace(progress, bytes_done=waited, bytes_total=self.goal_ps))
