"""Simulate a result's point again with an engine that records one flow."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from netsim.engine.compiling.declarations import program_of
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

BUFFER_GROWTH = 8
"""Growth factor of the trace buffer when a window overflows it; the run then starts over."""


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
    """Trace flow number `flow` of a result until it is done or `until_ps` is reached.

    `directory` is searched for files that the experiment names. `trust` allows plugins that are not
    part of netsim. `progress` and `should_stop` are as for `netsim.running.point.simulate`.

    Raises InputError if the flow does not exist or the experiment cannot be simulated again. The
    trace's `warnings` list what has changed since the result was written.
    """
    recorded = recorded_flow(result, flow)
    point = point_of(result, directory, trust=trust)
    if is_closed_form(point):
        raise InputError(f"{point.transport.name} sends no packets to trace", file=str(result.path))
    require_memory(estimate(point), what=point.file)
    scenario = prepare(point)
    if scenario.segments is not None and scenario.segments.peer[flow] >= 0:
        peer = int(scenario.segments.peer[flow])
        hint = "see relay_segments.parquet for its segments"
        message = f"flow {flow} is relayed by host {peer} and has no packets of its own"
        raise InputError(message, file=str(result.path), hint=hint)
    _check_same_flow(result, recorded, scenario)
    end_ps = min(until_ps or HORIZON_PS, int(result.summary["simulated_ps"]))
    recording = _Recording(point, scenario, flow, end_ps, progress, should_stop, goal_ps=end_ps)
    if recorded["fct_ps"] is not None and recorded["acked_ps"] is not None:
        done_ps = recorded["start_ps"] + max(recorded["fct_ps"], recorded["acked_ps"])
        recording.goal_ps = min(end_ps, done_ps)
    recording.simulate()
    transport = transport_of(point, scenario, flow)
    entries = TraceEntries.joined(recording.drained)
    trace = flow_trace(recording.engine, entries, flow, point, transport, recording.stop_reason)
    warnings = differences(result, point) + _fct_warnings(trace, recorded, until_ps)
    return trace.with_warnings(warnings)


def recorded_flow(result: Result, flow: int) -> dict[str, Any]:
    """Return the flow's row in the result. Raises InputError if there is none or it never
    started.
    """
    flows = result.flows
    file = str(result.path)
    if not 0 <= flow < len(flows):
        raise InputError(f"no flow {flow}", file=file, hint=f"0 to {len(flows) - 1}")
    row = flows.row(flow, named=True)
    if row["start_ps"] is None:
        raise InputError(f"flow {flow} never started", file=file)
    return row


def transport_of(point: Point, scenario: Scenario, flow: int) -> PluginSpec:
    """Return the transport of a flow's class."""
    return point.transport_of_class[int(scenario.class_of_flow[flow])]


def _check_same_flow(result: Result, recorded: dict[str, Any], scenario: Scenario) -> None:
    """Raise InputError if the experiment no longer has the result's traffic."""
    flows, flow, program = scenario.messages, recorded["flow"], scenario.load.program
    known = ["src", "dst", "size_bytes"]
    if program is not None and program_of(program.use).resizes:
        known.remove("size_bytes")
    if len(flows) != len(result.flows) or any(
        int(getattr(flows, name)[flow]) != recorded[name] for name in known
    ):
        raise InputError(f"flow {flow} has changed: other traffic", file=str(result.path))


def _fct_warnings(trace: FlowTrace, recorded: dict[str, Any], until_ps: int | None) -> list[str]:
    """Return a warning if the completion time differs from the recorded one."""
    if trace.stop_reason == INTERRUPTED or (until_ps is not None and trace.fct_ps is None):
        return []
    if trace.fct_ps == recorded["fct_ps"]:
        return []
    times = ["never" if t is None else f"{t} ps" for t in (recorded["fct_ps"], trace.fct_ps)]
    return [f"not the same run: the flow's completion time was {times[0]}, now {times[1]}"]


@dataclass
class _Recording:
    """A run of a recording engine; `goal_ps` is the expected end of the flow."""

    point: Point
    scenario: Scenario
    flow: int
    end_ps: int
    progress: Callable[[Progress], None] | None
    should_stop: Callable[[], bool] | None
    goal_ps: int = 0
    stop_reason: str = ""

    def simulate(self) -> None:
        """Run until the flow is done; start over if a buffer was too small."""
        capacity = CAPACITY
        while True:
            try:
                return self._run(capacity)
            except TraceOverflowError:
                capacity *= BUFFER_GROWTH

    def _run(self, capacity: int) -> None:
        self.drained: list[TraceEntries] = []
        self.engine = ready_engine(
            self.point,
            self.scenario,
            self._report,
            Options(trace=(self.flow,), trace_capacity=capacity),
        )
        self.stop_reason = drive(
            self.engine,
            self._on_step,
            until_ps=self.end_ps,
            should_stop=self.should_stop or (lambda: False),
        )

    def _on_step(self, report: StepReport) -> str | None:
        """Drain the trace buffer; end the run with the flow."""
        self.drained.append(self.engine.drain_trace())
        self._report("run", report)
        flows = self.engine.flow_states()
        done = flows.done_ps[self.flow] >= 0 and flows.finished[self.flow] != 0
        return FINISHED if done else None

    def _report(self, phase: str, report: StepReport = BEFORE) -> None:
        if self.progress is None:
            return
        # Progress is measured in time, not bytes.
        reached_ps = min(report.counts.now_ps, self.goal_ps)
        progress = Progress.at(phase, report, self.scenario.load)
        self.progress(replace(progress, bytes_done=reached_ps, bytes_total=self.goal_ps))
