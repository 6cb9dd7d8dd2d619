"""Run one point of an experiment, and gather what came out."""

from __future__ import annotations

import os
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from netsim.errors import InputError, RunError
from netsim.experiment.scenario import Scenario, is_closed_form, prepare, transports_of
from netsim.limits import HORIZON_PS, THREADS
from netsim.plugins.files import words
from netsim.results.run_result import RunResult
from netsim.running.collect import closed_form_result, engine_result
from netsim.running.estimate import code_needed
from netsim.running.tuning import Tuner

if TYPE_CHECKING:
    from netsim.engine.engine import Engine
    from netsim.experiment import Point

NEVER_PS = HORIZON_PS
"""No run goes beyond it."""

UNAWARE = "these flows are delivered but their senders have not finished"
"""What is said of a transport whose senders never call finish()."""


@dataclass(frozen=True)
class Progress:
    """How far a run has come.

    The phase is "load" while compiled code is read from the disk, "compile" while it is made, and
    then "run".
    """

    phase: str
    simulated_ps: int
    flows_done: int
    flows_total: int
    packet_hops: int
    wall_s: float
    bytes_done: int
    bytes_total: int


def simulate(
    point: Point,
    *,
    threads: int | None = None,
    progress: Callable[[Progress], None] | None = None,
    should_stop: Callable[[], bool] | None = None,
    checked: bool = False,
    on_hang: Callable[[str], None] | None = None,
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

    Raises:
        InputError: the point cannot be built.
        RunError: a transport broke a rule of the engine, or bytes were lost.
    """
    if threads is not None and not 1 <= threads <= THREADS:
        raise InputError(f"{threads} threads", hint=f"1 to {THREADS}")
    scenario = prepare(point)
    if is_closed_form(point):
        return RunResult(**closed_form_result(point, scenario))
    threads = 1 if checked else threads or os.cpu_count() or 1
    options = {"threads": threads, "checked": checked, "on_hang": on_hang}
    run = _Run(point, scenario, options, progress, should_stop)
    run.go()
    return RunResult(
        **engine_result(
            point,
            scenario,
            run.engine,
            stopped_because=run.stopped_because,
            complete=run.complete,
            reason=run.reason,
            timings={"wall_s": run.wall_s, "compile_s": run.compile_s, "threads": run.threads},
        )
    )


def build_engine(point: Point, scenario: Scenario, **options: Any) -> Engine:
    """The engine for a point; `options` are those of Engine."""
    from netsim.engine.engine import Engine

    first, *others = transports_of(point)
    try:
        return Engine(
            scenario.network,
            scenario.flows,
            scenario.fabric,
            point.packets,
            *first,
            point.seed,
            others=others,
            transport_of_flow=scenario.class_of_flow,
            faults=scenario.faults,
            **options,
        )
    except InputError as error:
        raise error.at(file=point.file) from None
    except MemoryError as error:
        raise InputError(
            "the engine's state does not fit into memory", file=point.file, hint=str(error) or None
        ) from None
    except (Exception, SystemExit) as error:
        # In plain Python; compiled code has its own way. What no transport's file has to do
        # with is netsim's fault.
        files = [str(plugin.path) for plugin, _ in transports_of(point)]
        frames = [f for f in traceback.extract_tb(error.__traceback__) if f.filename in files]
        if isinstance(error, RunError) or not frames:
            raise
        place = f"{Path(frames[-1].filename).name}, line {frames[-1].lineno}: {frames[-1].line}"
        raise RunError(f"transport: setup: {words(error)} ({place})") from error


class _Run:
    """The loop around the engine: chunks of windows, and a look round after each."""

    def __init__(
        self,
        point: Point,
        scenario: Scenario,
        options: dict[str, Any],
        progress: Callable[[Progress], None] | None,
        should_stop: Callable[[], bool] | None,
    ) -> None:
        self.point, self.scenario = point, scenario
        self.threads = options["threads"]
        self.stop = point.stop
        uses = point.transport_of_class
        reliable = [bool(getattr(use.module, "RELIABLE", True)) for use in uses]
        self.may_lose = ~np.array(reliable)[scenario.class_of_flow]
        self.until_ps = NEVER_PS if self.stop.time_ps is None else self.stop.time_ps
        self.report = progress or (lambda _: None)
        self.should_stop = should_stop or (lambda: False)
        self.stopped_because = ""
        self.complete = False
        self.reason: str | None = None
        self.wall_s = 0.0
        self.compile_s = 0.0
        began = time.perf_counter()
        missing = code_needed([point], checked=bool(options.get("checked"))).missing
        self._tell("compile" if missing else "load", 0, 0, 0, 0)
        self.engine = build_engine(point, scenario, **options)
        self._advance(0)
        self.compile_s = time.perf_counter() - began

    def _advance(self, windows: int, **options: Any) -> int:
        """Advance the engine. What a handler raises in plain Python is told as if compiled."""
        try:
            return self.engine.advance(windows, self.until_ps, **options)
        except (InputError, RunError):
            raise
        except (Exception, SystemExit) as error:
            raise self.engine.failures.raised(error) from error

    def go(self) -> None:
        """Run until there is a reason to stop."""
        from netsim.engine.layout import DONE, IDLE, UNTIL
        from netsim.running.stall import patience_ps, undelivered

        engine = self.engine
        began = time.perf_counter()
        tuner = Tuner(self.threads)
        patience = patience_ps(engine)
        delivered, since_ps = -1, 0
        drain = self.stop.drain
        while not self.stopped_because:
            workers, windows = tuner.next_call()
            chunk_began, hops = time.perf_counter(), engine.count("hops")
            status = self._advance(windows, stop_when_done=not drain, workers=workers)
            now = time.perf_counter()
            tuner.learn(workers, windows, engine.count("hops") - hops, now - chunk_began)
            self.wall_s = now - began
            self._tell_engine()
            if engine.count("payload_bytes") != delivered:
                delivered, since_ps = engine.count("payload_bytes"), engine.now_ps
            if status == DONE:
                self.stopped_because, self.complete = "finished", True
            elif status == IDLE:
                self._idle()
            elif status == UNTIL:
                self.stopped_because = "time"
                self._account_for("stopped by stop.time", undelivered(engine))
            elif self.should_stop():
                self.stopped_because = "interrupted"
            else:
                self._look_for_stall(engine.now_ps - since_ps > patience)

    def _idle(self) -> None:
        """The network is empty and no timer is set."""
        from netsim.running.stall import missing, unaware

        nothing = "nothing can happen any more"
        flows = missing(self.engine, self.may_lose)
        if unaware(self.engine).size and not flows.size:
            self._stalled(f"{nothing}, {UNAWARE}", unaware(self.engine))
        else:
            self.stopped_because = "finished" if self._all_delivered() else "idle"
            self._account_for(nothing, flows)

    def _account_for(self, what: str, flows: np.ndarray) -> None:
        """A run that ends without `flows` is not complete."""
        from netsim.running.stall import explain

        self.complete = flows.size == 0
        if flows.size:
            of = f"{flows.size} of {len(self.scenario.flows)} flows are not delivered"
            self.reason = explain(self.engine, flows, f"{what}, {of}")

    def _look_for_stall(self, impatient: bool) -> None:
        from netsim.running.stall import missing, overdue, unaware, under_way

        deadline = self.stop.flow_deadline_ps
        if deadline is not None and overdue(self.engine, deadline).size:
            self._stalled("past the flow deadline", overdue(self.engine, deadline))
        if self.stopped_because or not impatient:
            return
        waiting = np.intersect1d(under_way(self.engine), missing(self.engine, self.may_lose))
        if waiting.size:
            self._stalled("no progress", waiting)
        elif self._all_delivered() and unaware(self.engine).size:
            self._stalled(f"no progress, {UNAWARE}", unaware(self.engine))

    def _all_delivered(self) -> bool:
        return self.engine.count("delivered") == len(self.scenario.flows)

    def _stalled(self, what: str, flows: np.ndarray) -> None:
        from netsim.running.stall import explain

        self.stopped_because = "stalled"
        self.reason = explain(self.engine, flows, what)

    def _tell_engine(self) -> None:
        e = self.engine
        self._tell("run", e.now_ps, e.count("delivered"), e.count("hops"), e.count("payload_bytes"))

    def _tell(self, phase: str, simulated_ps: int, done: int, hops: int, n_bytes: int) -> None:
        self.report(
            Progress(
                phase=phase,
                simulated_ps=simulated_ps,
                flows_done=done,
                flows_total=len(self.scenario.flows),
                packet_hops=hops,
                wall_s=self.wall_s,
                bytes_done=n_bytes,
                bytes_total=self.scenario.flows.total_bytes,
            )
        )
