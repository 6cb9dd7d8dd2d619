"""Simulate one point of an experiment, in one piece or step by step."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from netsim.common.memory import available_cores
from netsim.common.steps import step
from netsim.engine.simulation import Options, Simulation
from netsim.engine.state_views import Readings
from netsim.errors import InputError, RunError, warn_once
from netsim.experiment.place_faults import ports_named
from netsim.experiment.scenario import Scenario, is_closed_form, prepare
from netsim.frozen import frozen
from netsim.limits import HORIZON_PS, INT64, THREADS
from netsim.reports.circuits import no_indirect_packets
from netsim.reports.faults import deadlock_text, storm_note
from netsim.reports.flows import as_sent, locked_senders
from netsim.results.columns import each
from netsim.results.run_result import STALLED, Ending, Run, RunResult
from netsim.running.drive import (
    BEFORE,
    FINISHED,
    INTERRUPTED,
    MEASURED,
    TIME_LIMIT,
    UNDELIVERED,
    StallDetector,
    StepReport,
    Tuner,
    drive,
    explain,
    flows_in_progress,
    may_progress_again,
    missing,
    not_done,
    overdue,
    retransmission_note,
    stall_timeout_ps,
    unacknowledged,
    undelivered,
)
from netsim.running.mpi import PREPARE, QUIT, MpiRanks, leading
from netsim.units import parse_time_ps

if TYPE_CHECKING:
    from netsim.engine.engine import Engine
    from netsim.engine.state_views import FlowStates, LinkCounters
    from netsim.experiment import Point
    from netsim.model.columns import Ints
    from netsim.model.workload import Workload
    from netsim.running.checkpoint import Checkpointer

NO_OPTIONS = Options()

FIRST_CHECK_HOPS = 1_000_000
"""Packet-hops before the first check for useless retransmissions; the interval then doubles."""

UNACKNOWLEDGED = "flows delivered whose senders never called finish()"


@frozen
class Progress:
    """Progress of a run. `phase` is "load" (of compiled code), "compile" or "run". `counted` is
    what an application counts: its name, such as "requests", how many are done, and the total."""

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

    @classmethod
    def at(cls, phase: str, report: StepReport, load: Workload) -> Progress:
        """Return the progress of simulating `load` after a step."""
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
            tasks_done=min(counts.tasks_done, n_tasks),  # dependent flows add some
            tasks_total=n_tasks,
        )


def simulate(
    point: Point,
    *,
    threads: int | None = None,
    progress: Callable[[Progress], None] | None = None,
    should_stop: Callable[[], bool] | None = None,
    checkpointer: Checkpointer | None = None,
    ranks: MpiRanks | None = None,
    scenario: Scenario | None = None,
    options: Options = NO_OPTIONS,
) -> RunResult:
    """Simulate `point`.

    `threads` (default: all cores) does not change the result. `progress` and `should_stop` are
    called several times a second; if `should_stop` returns true, the run ends with a partial
    result. `checkpointer` writes checkpoints and may have one to resume from. `ranks` divide the
    run. `scenario` is the point as built by `prepare`. `options.checked` checks every array index,
    in one thread. `options.on_hang` is called in another thread if a handler does not return; only
    ending the process stops it.

    Raises InputError if the point cannot be built, RunError if a transport breaks a rule or bytes
    are lost.
    """
    if threads is not None and not 1 <= threads <= THREADS:
        raise InputError(f"{threads} threads", hint=f"1 to {THREADS}")
    step(f"{point.name}: building network and traffic")
    scenario = scenario or prepare(point)
    if is_closed_form(point):
        return closed_form_result(point, scenario)
    cores = (ranks and ranks.n_cores) or available_cores()
    threads = 1 if options.checked else threads or cores
    options = replace(options, threads=threads, ranks=ranks)
    with leading(ranks, point, options):
        if ranks is not None and hasattr(point.traffic.module, "control"):
            raise InputError("has a function control", key="traffic", hint="run it without --mpi")
        run = Simulated(point, scenario, options, progress, should_stop, checkpointer)
        return run.result(run.drive_to_end())


def stepping(point: Point, threads: int | None = None) -> Stepping:
    """Return a run of a point that has not started. Raises the same InputErrors as `simulate`, and
    one for points with [measure] or without an engine."""
    if point.measure is not None or is_closed_form(point):
        raise InputError("runs with [measure], and closed forms, have no steps", file=point.file)
    options = replace(NO_OPTIONS, threads=threads or available_cores())
    return Stepping(Simulated(point, prepare(point), options, None, None))


def readings_of(point: Point, scenario: Scenario) -> Readings | None:
    """Return the readings that a run of a point will take; None without [measure]."""
    spec, segments = point.measure, scenario.segments
    if spec is None:
        return None
    group, n_flow_classes = scenario.class_of_flow, len(point.transport_of_class)
    if segments is not None:  # bytes at the relay are not delivered yet
        group = np.where(segments.segment == 1, n_flow_classes, group)
    n_queues = scenario.network.n_ports * scenario.fabric.n_link_classes
    return Readings(spec.edges_ps, group, n_flow_classes + 1, n_queues, point.packets.payload_bytes)


def build_engine(point: Point, scenario: Scenario, options: Options) -> Engine:
    from netsim.engine.engine import Engine
    from netsim.engine.partitioned import PartitionedEngine

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
        return (PartitionedEngine if options.ranks else Engine)(simulation, options)
    except InputError as error:
        raise error.at(file=point.file) from None
    except MemoryError as error:
        raise InputError(
            "the engine's state does not fit into memory", file=point.file, hint=str(error) or None
        ) from None


def ready_engine(
    point: Point, scenario: Scenario, report: Callable[[str], None], options: Options
) -> Engine:
    """Return the engine with its code compiled or loaded; `report` gets the phase first."""
    from netsim.engine.partitioned import PartitionedEngine

    def told(missing: bool) -> None:
        report("compile" if missing else "load")

    engine = build_engine(point, scenario, replace(options, on_code=told))
    engine.advance(0, HORIZON_PS)
    if isinstance(engine, PartitionedEngine):
        engine.ranks.build(engine)
    return engine


class Stepping:
    """A run that advances on request.

    After a step to time t, all events before t have happened and none at t. So readings are exact,
    and new values apply from t on. Steps alone do not change the results. A controller with delays
    must hold its values until they are due.

    Attributes:
        reason: why the run is over, such as "finished"; "" before.
    """

    def __init__(self, simulated: Simulated) -> None:
        self._simulated = simulated
        self._engine = simulated.engine
        self.reason = ""

    @property
    def now_ps(self) -> int:
        """The simulated time."""
        return self._engine.now_ps

    def step(self, until: int | str) -> bool:
        """Simulate up to a time, in ps or such as "50us"; return whether the run continues."""
        until_ps = parse_time_ps(until) if isinstance(until, str) else until
        end_ps = self._simulated.point.end_ps
        if not self.reason and until_ps > self.now_ps:
            is_last = end_ps is not None and until_ps >= end_ps
            reason = self._simulated.drive(None if is_last else until_ps)
            self.reason = "" if reason == TIME_LIMIT and not is_last else reason
        return not self.reason

    def links(self, pattern: str) -> Ints:
        """Return the numbers of the links that a pattern such as "leaf0 -> h3" or "spine* -> *"
        matches, as in [faults]; `counters` has their values."""
        return ports_named(pattern, self._engine.network)

    def counters(self) -> LinkCounters:
        """Return the counters of all links so far, such as `queue_bytes` and `sent_bytes`; a link's
        class has index link * classes + class."""
        return self._engine.link_counters()

    @property
    def flows(self) -> FlowStates:
        """The state of flows, as arrays that change with the run."""
        return self._engine.flow_states()

    def field(self, name: str) -> Ints:
        """Return a copy of a field of the transport's `TX_STATE`, for all flows."""
        column: Ints = self._engine.sender_field(name).copy()
        return column

    def set(self, name: str, value: Any, flows: Any = None) -> None:
        """Set a field of the transport's `TX_STATE`, for all flows or those given, or else a
        parameter of the transport, in the units of handlers: ps, bytes, bit/s.

        A flow that is blocked or waits for a time does not try to send any earlier.
        """
        if flows is None and self._engine.set_parameter(name, value):
            return
        try:
            column = self._engine.sender_field(name)
        except KeyError:
            hint = "a field of TX_STATE or a parameter of the transport"
            raise InputError(f"unknown field {name}", hint=hint) from None
        column[np.arange(column.size) if flows is None else flows] = value

    def finish(self) -> RunResult:
        """Simulate to the end; return the result."""
        self.reason = self.reason or self._simulated.drive(None)
        return self._simulated.result(self.reason)


class Simulated:
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
        for note in scenario.far:
            warn_once(note)
        self.may_lose = ~np.array(reliable)[scenario.class_of_flow]
        self.report = progress or (lambda _: None)
        self.should_stop = should_stop or (lambda: False)
        self.stall: str | None = None  # explanation of a stall
        self.next_check_hops = FIRST_CHECK_HOPS
        self.readings = readings_of(point, scenario)
        self.threads = options.threads
        self.wall_s = self.earlier_s = checkpointer.earlier_s if checkpointer else 0.0
        began = time.perf_counter()
        self.engine = ready_engine(point, scenario, self._report, options)
        self.compile_s = time.perf_counter() - began
        self.stall_detector = StallDetector(stall_timeout_ps(self.engine))
        self.tuner = Tuner(self.engine.threads)
        if checkpointer is not None:
            checkpointer.restore(self.engine, self.stall_detector, self.readings)

    def drive_to_end(self) -> str:
        """Run until there is a reason to stop; return it."""
        if (control := getattr(self.point.traffic.module, "control", None)) is not None:
            return self._controlled(control)
        return self.drive() if self.readings is None else self._measure(self.readings)

    def _controlled(self, control: Callable[[Stepping, Mapping[str, Any]], None]) -> str:
        """Run until there is a reason to stop. Call a traffic pattern's `control` at every whole
        multiple of its `control_period`."""
        params = self.point.traffic.params
        period_ps = params.get("control_period", 0)
        if period_ps < 1 or self.readings is not None:
            hint = (
                "it needs a parameter control_period of at least 1ps, and a run without [measure]"
            )
            raise InputError("has a function control", key="traffic", hint=hint)
        run = Stepping(self)
        while run.step((run.now_ps // period_ps + 1) * period_ps):
            control(run, params)
        return run.reason

    def result(self, reason: str) -> RunResult:
        """Return the result of a run that ended for a reason."""
        ending = self._ending(reason)
        timings = {
            "wall_s": self.wall_s,
            "compile_s": self.compile_s,
            "threads": self.threads,
        }
        readings = self.readings if ending.stop_reason == MEASURED else None
        step(f"{self.point.name}: collecting the result")
        return engine_result(self.point, self.scenario, self.engine, ending, timings, readings)

    def _ending(self, reason: str) -> Ending:
        """Return how the run ended, with warnings."""
        packet_bytes = self.point.packets.data_bytes
        notes = (
            no_indirect_packets(self.engine),
            storm_note(self.engine),
            locked_senders(self.engine, self.may_lose, packet_bytes),
        )
        for note in filter(None, notes):
            warn_once(f"{self.point.name}: {note}")
        if reason == INTERRUPTED:
            self._write_checkpoint()
        if reason == TIME_LIMIT:
            return self._ended(TIME_LIMIT, "stopped by stop.max_time", undelivered(self.engine))
        if reason == UNDELIVERED:
            return self._idle()
        return Ending(reason, complete=reason in (FINISHED, MEASURED), reason=self.stall)

    def drive(self, to_ps: int | None = None) -> str:
        """Simulate until there is a reason to stop, or up to a time."""
        until_ps = self.point.end_ps if to_ps is None else to_ps
        self.earlier_s = self.wall_s
        return drive(
            self.engine,
            self._on_step,
            until_ps=HORIZON_PS if until_ps is None else until_ps,
            stop_when_done=not self.stop.drain and self.readings is None,
            should_stop=self.should_stop,
            tuner=self.tuner,
        )

    def _measure(self, readings: Readings) -> str:
        """Simulate all of [measure], and read counters at the edges of its batches."""
        while (edge_ps := readings.next_ps) is not None:
            if (reason := self.drive(edge_ps)) not in (TIME_LIMIT, UNDELIVERED):
                return reason
            readings.take(self.engine)
        if (reason := self.drive()) not in (TIME_LIMIT, UNDELIVERED):
            return reason
        if deadlock_text(self.engine):
            return self._stalled("no progress", flows_in_progress(self.engine))
        return MEASURED

    def _on_step(self, report: StepReport) -> str | None:
        """Report progress, and stop the run if it has stalled."""
        self.wall_s = self.earlier_s + report.wall_s
        self._report("run", replace(report, wall_s=self.wall_s))
        self._check_retransmissions(report.counts.hops)
        moved = report.counts.payload_bytes + report.counts.tasks_done
        no_progress = self.stall_detector.is_stalled(report.counts, moved)
        stalled = self._stall(no_progress) if report.is_running else None
        due = self.checkpointer is not None and self.checkpointer.is_due
        if due and report.is_running and not stalled:
            self._write_checkpoint()
        return stalled

    def _write_checkpoint(self) -> None:
        if self.checkpointer is not None:
            detector = self.stall_detector
            self.checkpointer.write(self.wall_s, self.engine, detector, self.readings)

    def _check_retransmissions(self, hops: int) -> None:
        """Warn once if nearly all packets are retransmissions: the run may never end."""
        if hops < self.next_check_hops:
            return
        self.next_check_hops = 2 * hops
        if note := retransmission_note(self.engine):
            self.next_check_hops = INT64
            warn_once(f"{self.point.name}: {note}")

    def _stall(self, no_progress: bool) -> str | None:
        """Return STALLED if flows exceed the flow timeout or make no progress."""
        timeout_ps = self.stop.flow_timeout
        if timeout_ps is not None and (late := overdue(self.engine, timeout_ps)).size:
            return self._stalled("flow timeout exceeded", late)
        if not no_progress or may_progress_again(self.engine):
            return None
        # Newer flows may just be waiting for hosts that compute.
        late = overdue(self.engine, self.stall_detector.max_ps)
        waiting = np.intersect1d(late, missing(self.engine, self.may_lose))
        if waiting.size:
            return self._stalled("no progress", waiting)
        if self._all_delivered() and (unfinished := unacknowledged(self.engine)).size:
            return self._stalled(f"no progress, {UNACKNOWLEDGED}", unfinished)
        return None

    def _idle(self) -> Ending:
        """Return the ending of a run without packets and timers left."""
        nothing = "no events are left"
        flows, unfinished = missing(self.engine, self.may_lose), unacknowledged(self.engine)
        if unfinished.size and not flows.size:
            reason = self._stalled(f"{nothing}, {UNACKNOWLEDGED}", unfinished)
            return Ending(reason, complete=False, reason=self.stall)
        return self._ended(FINISHED if self._all_delivered() else UNDELIVERED, nothing, flows)

    def _ended(self, reason: str, what: str, flows: np.ndarray) -> Ending:
        """Return the ending of a run that is incomplete if flows or tasks are left."""
        if not flows.size and not not_done(self.engine).size:
            return Ending(reason, complete=True)
        if flows.size:
            what += f", {flows.size} of {len(self.scenario.flows)} flows not delivered"
        if reason == TIME_LIMIT:  # intended, so nothing to explain
            return Ending(reason, complete=False, reason=what)
        return Ending(reason, complete=False, reason=explain(self.engine, flows, what))

    def _all_delivered(self) -> bool:
        unfinished = np.zeros(len(self.scenario.flows), bool)
        return not missing(self.engine, unfinished).size and not not_done(self.engine).size

    def _stalled(self, what: str, flows: np.ndarray) -> str:
        self.stall = explain(self.engine, flows, what)
        return STALLED

    def _report(self, phase: str, report: StepReport = BEFORE) -> None:
        progress = Progress.at(phase, report, self.scenario.load)
        if phase == "run" and self.engine.program.resizes:
            progress = replace(
                progress, bytes_total=int(self.engine.flow_states().size_bytes.sum())
            )
        for part in self.scenario.load.parts if phase == "run" else ():
            if (counted := part.progress(self.engine.program_total)) is not None:
                progress = replace(progress, counted=counted)
        self.report(progress)


def engine_result(
    point: Point,
    scenario: Scenario,
    engine: Engine,
    ending: Ending,
    timings: Mapping[str, Any],
    readings: Readings | None = None,
) -> RunResult:
    """Return the result of a simulation; `timings` are the summary's wall_s, compile_s and threads,
    `readings` the counters of [measure].

    Raises RunError if packets, bytes or requests are not conserved.
    """
    scenario = as_sent(point, scenario, engine.flow_states())
    return _collect(Run(point, scenario, engine, ending, timings, readings))


def closed_form_result(point: Point, scenario: Scenario) -> RunResult:
    """Return the result of a transport with ideal completion times."""
    timings = {"wall_s": 0.0, "compile_s": 0.0, "threads": 0}
    return _collect(Run(point, scenario, None, Ending(FINISHED, complete=True), timings))


def _collect(run: Run) -> RunResult:
    summary: dict[str, Any] = {}
    for report in each("report"):
        summary |= report(run)
    return RunResult.of(run.tables, summary, run.ending)


def follow(ranks: MpiRanks, points: Sequence[Point]) -> None:
    """Follow rank 0 until it is done with its points."""
    of_name = {point.name: point for point in points}
    while (told := ranks.told())["order"] != QUIT:
        if told["order"] == PREPARE:
            point = of_name[told["point"]]
            options = Options(**told["options"], on_hang=ranks.end, ranks=ranks)
            scenario = prepare(point)
        else:
            _serve(ranks, point, scenario, options)


def _serve(ranks: MpiRanks, point: Point, scenario: Scenario, options: Options) -> None:
    """Build an engine and follow rank 0's."""
    from netsim.engine.partitioned import PartitionedEngine

    engine, failure = None, ""
    try:
        engine = build_engine(point, scenario, options)
        engine.advance(0, HORIZON_PS)
    except (InputError, RunError) as error:
        failure = str(error)
    with suppress(RunError):  # which rank 0 reports
        ranks.agree(failure)
        assert isinstance(engine, PartitionedEngine)
        engine.serve()
