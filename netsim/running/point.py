"""Run one point of an experiment, and gather what came out."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from netsim.engine.simulation import Options, Simulation
from netsim.errors import InputError, warn_once
from netsim.experiment.scenario import Scenario, is_closed_form, prepare
from netsim.limits import HORIZON_PS, INT64, THREADS
from netsim.reports.circuits import no_indirect_packets
from netsim.results.run_result import Ending, RunResult
from netsim.running.collect import closed_form_result, engine_result
from netsim.running.drive import (
    BEFORE,
    FINISHED,
    INTERRUPTED,
    TIME_LIMIT,
    UNDELIVERED,
    StepReport,
    drive,
)
from netsim.running.estimate import code_needed, feature_set_of
from netsim.running.stall import (
    StallDetector,
    explain,
    may_progress_again,
    missing,
    overdue,
    sent_again,
    stall_timeout_ps,
    unacknowledged,
    undelivered,
)
from netsim.running.stuck_tasks import not_done

if TYPE_CHECKING:
    from netsim.engine.engine import Engine
    from netsim.experiment import Point
    from netsim.model.workload import Workload
    from netsim.running.checkpointer import Checkpointer

STALLED = "stalled"
"""Why a run is stopped whose flows get no further."""

FIRST_LOOK_HOPS = 1_000_000
"""Packet-hops after which it is first looked at whether packets are sent in vain, and then whenever
they have doubled, until that is so."""

UNACKNOWLEDGED = "these flows are delivered but their senders have not finished"
"""What is said of a transport whose senders never call finish()."""


@dataclass(frozen=True)
class Progress:
    """How far a run has come.

    The phase is "load" while compiled code is read from the disk, "compile" while it is made, and
    then "run". Of traffic that does not serve requests there are 0.
    """

    phase: str
    simulated_ps: int
    flows_done: int
    flows_total: int
    packet_hops: int
    wall_s: float
    bytes_done: int
    bytes_total: int
    tasks_done: int
    tasks_total: int
    counted: tuple[str, int, int] | None = None
    """What an application counts, such as "requests", how many are done, and of how many."""

    @classmethod
    def at(cls, phase: str, report: StepReport, load: Workload) -> Progress:
        """The progress after a report of simulating `load`."""
        counts, n_tasks = report.counts, 0 if load.tasks is None else len(load.tasks)
        return cls(
            phase=phase,
            simulated_ps=counts.now_ps,
            flows_done=counts.delivered,
            flows_total=len(load.flows),
            packet_hops=counts.hops,
            wall_s=report.wall_s,
            bytes_done=counts.payload_bytes,
            bytes_total=load.flows.total_bytes,
            tasks_done=min(counts.tasks_done, n_tasks),  # flows that wait for flows add some
            tasks_total=n_tasks,
        )


def simulate(
    point: Point,
    *,
    threads: int | None = None,
    progress: Callable[[Progress], None] | None = None,
    should_stop: Callable[[], bool] | None = None,
    checked: bool = False,
    on_hang: Callable[[str], None] | None = None,
    checkpointer: Checkpointer | None = None,
) -> RunResult:
    """Simulate `point`.

    Args:
        threads: all cores by default. The result does not depend on it.
        progress: is told several times a second how far the run has come.
        should_stop: asked as often; when true the run ends with what is done.
        checked: look at every index in the compiled code, by one thread and more slowly, so that
            a handler that writes past its arrays is an error that names it.
        on_hang: is told, in another thread, of a handler that does not come back. Nothing can
            end it but the end of the process.
        checkpointer: writes checkpoints, and knows the one to begin with, if there is one.

    Raises:
        InputError: the point cannot be built.
        RunError: a transport broke a rule of the engine, or bytes were lost.
    """
    if threads is not None and not 1 <= threads <= THREADS:
        raise InputError(f"{threads} threads", hint=f"1 to {THREADS}")
    scenario = prepare(point)
    if is_closed_form(point):
        return closed_form_result(point, scenario)
    threads = 1 if checked else threads or os.cpu_count() or 1
    options = Options(threads=threads, checked=checked, on_hang=on_hang)
    run = _Run(point, scenario, options, progress, should_stop, checkpointer)
    ending = run.simulate()
    timings = {"wall_s": run.wall_s, "compile_s": run.compile_s, "threads": threads}
    return engine_result(point, scenario, run.engine, ending, timings)


def build_engine(point: Point, scenario: Scenario, options: Options) -> Engine:
    """The engine for a point."""
    from netsim.engine.engine import Engine

    simulation = Simulation(
        scenario.network,
        scenario.flows,
        scenario.fabric,
        point.packets,
        point.transport_of_class,
        point.seed,
        transport_of_flow=scenario.class_of_flow,
        faults=scenario.faults,
        sampling=scenario.sampling,
        tasks=scenario.load.tasks,
        program=scenario.load.program,
        sizes=scenario.sizes,
    )
    try:
        return Engine(simulation, options)
    except InputError as error:
        raise error.at(file=point.file) from None
    except MemoryError as error:
        raise InputError(
            "the engine's state does not fit into memory", file=point.file, hint=str(error) or None
        ) from None


def ready_engine(
    point: Point, scenario: Scenario, tell: Callable[[str], None], options: Options
) -> Engine:
    """The engine for a point with its code compiled or loaded; `tell` is told which, before."""
    needed = code_needed(
        [point], [feature_set_of(scenario)], checked=options.checked, tracing=bool(options.trace)
    )
    tell("compile" if needed.missing else "load")
    engine = build_engine(point, scenario, options)
    engine.advance(0, HORIZON_PS)
    return engine


class _Run:
    """A run of a point, and why it ended."""

    def __init__(
        self,
        point: Point,
        scenario: Scenario,
        options: Options,
        progress: Callable[[Progress], None] | None,
        should_stop: Callable[[], bool] | None,
        checkpointer: Checkpointer | None = None,
    ) -> None:
        self.point, self.scenario, self.checkpointer = point, scenario, checkpointer
        self.stop = point.stop
        uses = point.transport_of_class
        reliable = [bool(getattr(use.module, "RELIABLE", True)) for use in uses]
        self.may_lose = ~np.array(reliable)[scenario.class_of_flow]
        self.report = progress or (lambda _: None)
        self.should_stop = should_stop or (lambda: False)
        self.stall: str | None = None  # what has stalled, in words
        self.next_look_hops = FIRST_LOOK_HOPS
        self.wall_s = self.earlier_s = checkpointer.earlier_s if checkpointer else 0.0
        began = time.perf_counter()
        self.engine = ready_engine(point, scenario, self._tell, options)
        self.compile_s = time.perf_counter() - began
        self.stall_detector = StallDetector(stall_timeout_ps(self.engine))
        if checkpointer is not None:
            checkpointer.restore(self.engine, self.stall_detector)

    def simulate(self) -> Ending:
        """Run until there is a reason to stop."""
        until_ps = self.stop.max_time_ps
        why = drive(
            self.engine,
            self._look,
            until_ps=HORIZON_PS if until_ps is None else until_ps,
            stop_when_done=not self.stop.drain,
            should_stop=self.should_stop,
        )
        if in_vain := no_indirect_packets(self.engine):
            warn_once(f"{self.point.name}: {in_vain}")
        if why == INTERRUPTED and self.checkpointer is not None:
            self.checkpointer.write(self.engine, self.wall_s, self.stall_detector)
        if why == TIME_LIMIT:
            return self._ended(TIME_LIMIT, "stopped by stop.max_time", undelivered(self.engine))
        if why == UNDELIVERED:
            return self._idle()
        return Ending(why, complete=why == FINISHED, reason=self.stall)

    def _look(self, report: StepReport) -> str | None:
        """Tell how far the run has come, and stop it if it has stalled."""
        self.wall_s = self.earlier_s + report.wall_s
        self._tell("run", replace(report, wall_s=self.wall_s))
        self._tell_of_toil(report.counts.hops)
        moved = report.counts.payload_bytes + report.counts.tasks_done
        no_progress = self.stall_detector.is_stalled(report.counts, moved)
        stalled = self._stall(no_progress) if report.is_running else None
        if report.is_running and not stalled and self.checkpointer is not None:
            self.checkpointer.write_if_due(self.engine, self.wall_s, self.stall_detector)
        return stalled

    def _tell_of_toil(self, hops: int) -> None:
        """Warn of a run that gets on so slowly that it may never end, since it repeats itself."""
        if hops < self.next_look_hops:
            return
        self.next_look_hops = 2 * hops
        if again := sent_again(self.engine):
            self.next_look_hops = INT64
            warn_once(f"{self.point.name}: {again}")

    def _stall(self, no_progress: bool) -> str | None:
        """STALLED, and the reason, if some flows wait for too long."""
        deadline_ps = self.stop.flow_timeout_ps
        if deadline_ps is not None and (late := overdue(self.engine, deadline_ps)).size:
            return self._stalled("past the flow deadline", late)
        if not no_progress or may_progress_again(self.engine):
            return None
        # Not those that started meanwhile: nothing moves, either, while hosts compute.
        late = overdue(self.engine, self.stall_detector.max_ps)
        waiting = np.intersect1d(late, missing(self.engine, self.may_lose))
        if waiting.size:
            return self._stalled("no progress", waiting)
        if self._all_delivered() and (never := unacknowledged(self.engine)).size:
            return self._stalled(f"no progress, {UNACKNOWLEDGED}", never)
        return None

    def _idle(self) -> Ending:
        """The network is empty and no timer is set."""
        nothing = "nothing can happen any more"
        flows, never = missing(self.engine, self.may_lose), unacknowledged(self.engine)
        if never.size and not flows.size:
            why = self._stalled(f"{nothing}, {UNACKNOWLEDGED}", never)
            return Ending(why, complete=False, reason=self.stall)
        return self._ended(FINISHED if self._all_delivered() else UNDELIVERED, nothing, flows)

    def _ended(self, why: str, what: str, flows: np.ndarray) -> Ending:
        """A run that ends without `flows`, or without some tasks, is not complete."""
        if not flows.size and not not_done(self.engine).size:
            return Ending(why, complete=True)
        if flows.size:
            what += f", {flows.size} of {len(self.scenario.flows)} flows are not delivered"
        if why == TIME_LIMIT:  # as the experiment wants it: nothing to explain
            return Ending(why, complete=False, reason=what)
        return Ending(why, complete=False, reason=explain(self.engine, flows, what))

    def _all_delivered(self) -> bool:
        never = np.zeros(len(self.scenario.flows), bool)
        return not missing(self.engine, never).size and not not_done(self.engine).size

    def _stalled(self, what: str, flows: np.ndarray) -> str:
        self.stall = explain(self.engine, flows, what)
        return STALLED

    def _tell(self, phase: str, report: StepReport = BEFORE) -> None:
        progress = Progress.at(phase, report, self.scenario.load)
        if phase == "run" and self.engine.program.resizes:
            progress = replace(
                progress, bytes_total=int(self.engine.flow_states().size_bytes.sum())
            )
        for part in self.scenario.load.parts if phase == "run" else ():
            if (counted := part.progress(self.engine.program_total)) is not None:
                progress = replace(progress, counted=counted)
        self.report(progress)
