"""Advance an engine in steps of several windows until the run ends, and say why it stalled.

Results do not depend on the workers and windows per step, so measured speeds set the workers, and
elapsed time the windows. On a busy machine, one worker may be faster than several.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from netsim.engine.state_views import Counts, Status
from netsim.frozen import frozen
from netsim.limits import HORIZON_PS, INT64
from netsim.model.circuit_times import longest_period_ps
from netsim.model.circuits import NONE
from netsim.model.port_pairs import ENTROPY, HASH
from netsim.model.routing import NEVER
from netsim.model.workload import DONE_WHEN, RECEIVE, SEND, TaskTable
from netsim.reports.circuits import current_circuits, waiting_slot
from netsim.reports.faults import deadlock_text
from netsim.units import format_time

if TYPE_CHECKING:
    from netsim.engine.engine import Engine
    from netsim.model.columns import Ints

CHUNK_S = 0.25  # duration of a call, after which progress, interruption and stalls are checked
TRIAL_S = 0.01  # duration of a trial of the other number of workers
TRIAL_EVERY = 12  # calls between trials; a third of that in the first hundred

FIRST_CALLS = 10
"""Alternating trials at the start. Only the last two count, since earlier ones load code and touch
memory for the first time."""

MANY_WINDOWS = 40  # log2 of more windows than a run has
LONG_WINDOW = 100_000  # packet-hops per window from which several workers are never slower than one
MEMORY = 0.5  # weight of the newest speed in the running mean


@dataclass
class Tuner:
    """Chooses between one worker and `threads`, by speeds measured in short trials."""

    threads: int
    speeds: dict[int, float] = field(default_factory=dict)
    calls: int = 0
    hops_per_window: float = 0.0

    def next_call(self) -> tuple[int, float]:
        """Return the workers and the seconds of the next call."""
        self.calls += 1
        if self.calls == 1:
            return 1, 0.0  # one window: this call loads or compiles code
        if self.threads == 1 or self.hops_per_window > LONG_WINDOW:
            return self.threads, CHUNK_S
        if self.calls <= FIRST_CALLS:
            return self.threads if self.calls % 2 else 1, TRIAL_S
        best = max(self.speeds, key=self.speeds.__getitem__, default=1)  # None: nothing to do here
        every = TRIAL_EVERY // 3 if self.calls < 100 else TRIAL_EVERY
        if self.calls % every == 0:
            return 1 if best == self.threads else self.threads, TRIAL_S
        return best, CHUNK_S

    @property
    def windows(self) -> int:
        """Maximum windows per call: 1, 2, 4, ... So short runs are checked too, at the same
        simulated times on any machine."""
        return 1 << min(self.calls - 1, MANY_WINDOWS)

    def learn(self, workers: int, windows: int, hops: int, seconds: float) -> None:
        """Record the progress of a call; speeds are packet-hops per second."""
        if hops > 0 and seconds > 0:
            speed = hops / seconds
            before = speed if self.calls <= FIRST_CALLS else self.speeds.get(workers, speed)
            self.speeds[workers] = MEMORY * speed + (1 - MEMORY) * before
            self.hops_per_window = hops / max(1, windows)  # this rank may have had none


FINISHED, INTERRUPTED = "finished", "interrupted"
TIME_LIMIT, UNDELIVERED = "time_limit", "undelivered"
MEASURED = "measured"
"""Why a run ends: all flows are done at both ends, the user stopped it, `stop.max_time` is reached,
no events are left, or all of [measure] has passed."""

ENDINGS = {Status.DONE: FINISHED, Status.IDLE: UNDELIVERED, Status.TIME_LIMIT: TIME_LIMIT}


@frozen
class StepReport:
    """The state after a step; `wall_s` is the time since the first step."""

    status: Status
    counts: Counts
    wall_s: float

    @property
    def is_running(self) -> bool:
        return self.status is Status.RUNNING


BEFORE = StepReport(Status.RUNNING, Counts(0, 0, 0, 0, 0, 0), 0.0)  # before the first step


def drive(
    engine: Engine,
    look: Callable[[StepReport], str | None] = lambda _: None,
    *,
    until_ps: int = HORIZON_PS,
    stop_when_done: bool = True,
    windows: int | None = None,
    should_stop: Callable[[], bool] = lambda: False,
    tuner: Tuner | None = None,
) -> str:
    """Advance an engine until there is a reason to stop; return the reason.

    `look` gets the report of every step and may return a reason to stop. `should_stop` is called
    after every step; if true, the run ends as INTERRUPTED. With `stop_when_done`, the run stops
    once every flow is done at both ends; otherwise packets in flight are also simulated. `windows`
    is the number of windows per step; by default, `tuner` or a new one chooses it.

    Raises RunError if a handler breaks a rule.
    """
    tuner = tuner or Tuner(engine.threads)
    began = time.perf_counter()
    counts = engine.counts
    while True:
        workers, seconds = (engine.threads, None) if windows else tuner.next_call()
        last, before = counts, time.perf_counter()
        status = engine.advance(
            windows or tuner.windows,
            until_ps,
            stop_when_done=stop_when_done,
            workers=workers,
            seconds=seconds,
        )
        counts, now = engine.counts, time.perf_counter()
        n_windows, hops = counts.windows - last.windows, counts.hops - last.hops
        tuner.learn(workers, n_windows, hops, now - before)
        reason = look(StepReport(status, counts, now - began)) or ENDINGS.get(status)
        if reason is None and should_stop():
            reason = INTERRUPTED
        if reason is not None:
            return reason


# --- stalls ---------------------------------------------------------------------------------------

MAX_NAMED = 5  # maximum number of flows, tasks or ports in a message

STALL_TIMEOUT_PS = 100 * 10**9
"""Stall timeout: simulated time without a delivered byte while flows are in progress ..."""

STALL_TIMEOUT_RTTS = STALL_TIMEOUT_PERIODS = 20
"""... or, if longer, this many of the longest round trips or circuit periods."""

MIN_RETRANSMITTED = 0.9  # smallest retransmitted fraction of data packets that is reported


def stall_timeout_ps(engine: Engine) -> int:
    """Return the simulated time without progress after which a run is stalled."""
    rtt = int(engine.flow_states().base_rtt_ps.max(initial=0))
    period = longest_period_ps(engine.network.circuits)
    return max(STALL_TIMEOUT_PS, STALL_TIMEOUT_RTTS * rtt, STALL_TIMEOUT_PERIODS * period)


@dataclass
class StallDetector:
    """Detects a stall: no progress for more than `max_ps` or `max_windows`. `since_ps` is the time
    of the last progress."""

    max_ps: int
    max_windows: int | None = None
    moved: int = -1
    since_ps: int = 0
    since_windows: int = 0

    def state(self) -> dict[str, int]:
        """Return the state, for a checkpoint."""
        return {key: getattr(self, key) for key in ("moved", "since_ps", "since_windows")}

    def restore(self, state: Mapping[str, int]) -> None:
        self.moved, self.since_ps = state["moved"], state["since_ps"]
        self.since_windows = state["since_windows"]

    def is_stalled(self, now: Counts, progress: int) -> bool:
        """Return whether the run is stalled; any progress must change `progress`."""
        if progress != self.moved:
            self.moved, self.since_ps, self.since_windows = progress, now.now_ps, now.windows
        waited_ps, waited_windows = now.now_ps - self.since_ps, now.windows - self.since_windows
        too_many = self.max_windows is not None and waited_windows > self.max_windows
        return waited_ps > self.max_ps or too_many


def may_progress_again(engine: Engine) -> bool:
    """Return whether a repair, circuit or route change can still restart progress. One within the
    last stall timeout also counts."""
    faults, circuits = engine.faults, current_circuits(engine)
    since_ps = engine.now_ps - stall_timeout_ps(engine)
    if circuits is not None and (circuits.days_ps[:, 0] > since_ps).any():
        return True
    if faults is None:
        return False
    down, up = faults.outages_ps.T
    if ((down <= engine.now_ps) & (up > since_ps) & (up < INT64)).any():
        return True
    if faults.carrier is not None:
        changes = faults.outages_ps[faults.outages_ps < INT64]
        delays = {faults.carrier.own_ps, faults.carrier.other_ps} - {NEVER}
        if any((changes + delay > since_ps).any() for delay in delays):
            return True
    return faults.routes is not None and bool((faults.routes.row_from_ps > since_ps).any())


def flows_in_progress(engine: Engine) -> Ints:
    """Return the flows that have started and are not delivered."""
    flows = engine.flow_states()
    started = (flows.start_ps <= engine.now_ps) & (flows.waits_for == 0)
    return np.flatnonzero(started & (flows.done_ps < 0))


def undelivered(engine: Engine) -> Ints:
    """Return the flows that are not delivered, started or not."""
    return np.flatnonzero(engine.flow_states().done_ps < 0)


def missing(engine: Engine, may_lose: np.ndarray) -> Ints:
    """Return the flows that should be delivered but are not.

    `may_lose` (bool[n_flows]) marks flows of unreliable transports: once the sender has finished
    and no packets wait for circuits, their lost bytes stay lost. A program need not start all its
    flows.
    """
    flows = engine.flow_states()
    given_up = may_lose & (flows.finished != 0) & (not _at_circuits(engine).size)
    left = (flows.waits_for > 0) & engine.has_program
    return np.flatnonzero((flows.done_ps < 0) & ~given_up & ~left)


def unacknowledged(engine: Engine) -> Ints:
    """Return the delivered flows whose sender has not finished."""
    flows = engine.flow_states()
    return np.flatnonzero((flows.done_ps >= 0) & (flows.finished == 0))


def overdue(engine: Engine, deadline_ps: int) -> Ints:
    """Return the flows in progress for longer than `deadline_ps`."""
    flows = flows_in_progress(engine)
    return flows[engine.now_ps - engine.flow_states().start_ps[flows] > deadline_ps]


def explain(engine: Engine, flows: Ints, what: str) -> str:
    """Return one message: the event, its flows, the waiting tasks and a deadlock."""
    table, states = engine.flows, engine.flow_states()
    named = _list(
        flows,
        lambda f: (
            f"flow {f} (host {table.src[f]} to host {table.dst[f]}, "
            f"{states.received_bytes[f]} of {states.size_bytes[f]} bytes)"
        ),
    )
    text = f"{what} at {format_time(engine.now_ps, 4)}: {named or 'no flow is left'}"
    routes = None if engine.faults is None else engine.faults.routes
    if routes is not None and routes.cut_off.size:
        text += f"; temporarily unreachable: {_list(routes.cut_off, engine.network.node_name)}"
    if ports := _list(_at_circuits(engine), engine.network.port_name):
        text += f"; packets wait for circuits: {ports}"
    state = _state_of(engine, int(flows[0])) if flows.size else ""
    notes = (waiting_slot(engine), retransmission_note(engine), waiting_tasks(engine), state)
    for note in notes:
        text += f"; {note}" if note else ""
    deadlock = deadlock_text(engine)
    return text + (f"; deadlock {deadlock}" if deadlock else "")


def _state_of(engine: Engine, flow: int) -> str:
    """Return a note with a flow's transport state and armed timers."""
    state = engine.flow_state(flow)
    timers = {name: format_time(at_ps, 4) for name, at_ps in state.pop("timers").items()}
    sides = [
        f"{side}: {', '.join(f'{name} = {value:g}' for name, value in fields.items())}"
        for side, fields in state.items()
        if fields
    ]
    armed = ", ".join(f"{name} at {at}" for name, at in timers.items())
    return "; ".join([f"flow {flow}, timers armed: {armed or 'none'}", *sides])


def _list(items: Ints, name: Callable[[int], str]) -> str:
    """Join the names of the first items, and say how many more there are."""
    named = [name(item) for item in items[:MAX_NAMED].tolist()]
    return ", ".join(named + [f"and {items.size - MAX_NAMED} more"] * (items.size > MAX_NAMED))


def retransmission_note(engine: Engine) -> str:
    """Return a note with a likely cause if nearly all data packets are retransmissions, or ""."""
    flows = engine.flow_states()
    sent, resent = int(flows.sent_packets.sum()), int(flows.retransmits.sum())
    if not resent or resent < MIN_RETRANSMITTED * sent:
        return ""
    text = f"{resent / sent:.1%} of {sent:,} data packets are retransmissions"
    fabric = engine.fabric
    causes = []
    if engine.network.has_several_ports and fabric.plane_balancing not in (HASH, ENTROPY):
        causes.append(f"fabric.plane_balancing = {fabric.plane_balancing}")
    if not fabric.one_path:
        causes.append(f"fabric.routing = {fabric.routing.name}")
    if causes:
        text += f"; packets are reordered ({', '.join(causes)}): can the transport handle that?"
    return text


def _at_circuits(engine: Engine) -> Ints:
    """Return the ports at which packets wait for circuits."""
    circuits = engine.network.circuits
    if circuits is None:
        return np.zeros(0, np.int64)
    return np.flatnonzero((engine.waiting_classes() != 0) & (circuits.calendar != NONE))


def not_done(engine: Engine) -> Ints:
    """Return the unfinished tasks, except those that a program has not started."""
    states = engine.task_states()
    return np.flatnonzero((states.end_ps < 0) & ((states.start_ps >= 0) | (not engine.has_program)))


def waiting_tasks(engine: Engine) -> str:
    """Return a note on the unfinished tasks that wait for no other task, or ""."""
    tasks, unfinished = engine.tasks, not_done(engine)
    if tasks is None or not unfinished.size:
        return ""
    pairs = (tasks.edges(), tasks.stream_edges())
    first, then = (np.concatenate(side) for side in zip(*pairs, strict=True))
    is_open = np.zeros(len(tasks), bool)
    is_open[unfinished] = True
    is_waiting = np.bincount(then[is_open[first]], minlength=len(tasks)) > 0
    first_tasks = np.flatnonzero(is_open & ~is_waiting)
    named = _list(first_tasks, lambda k: f"{tasks.name(k)} waits {_awaited(engine, tasks, k)}")
    return f"{unfinished.size} of {len(tasks)} tasks are not done: {named}"


def _awaited(engine: Engine, tasks: TaskTable, task: int) -> str:
    """Describe what a task waits for."""
    kind, start_ps = int(tasks.kind[task]), int(engine.task_states().start_ps[task])
    if start_ps < 0:
        return "for its flow" if kind == RECEIVE else "to start"
    if kind == SEND:
        return f"for its flow to be {DONE_WHEN[int(tasks.done_when[task])]}"
    return f"until {format_time(start_ps + int(tasks.duration_ps[task]), 4)}"
