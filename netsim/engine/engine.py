"""The engine's interface: build once, advance in steps, read the state.

A switch with too little scratch memory ends its step before it changes any result. The engine makes
room between calls of the compiled code and repeats the call.

An error of a handler becomes a message that names the handler, the node and the line.
"""

from __future__ import annotations

import linecache
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from netsim.engine import snapshot, state_views
from netsim.engine.compiling.declarations import (
    check_setups,
    plugin_parameters,
    program_of,
    read_discipline,
    read_protocol,
    read_routing,
)
from netsim.engine.compiling.multi_transport import join, with_own_names, with_packet
from netsim.engine.compiling.specialize import (
    OF_CUT,
    RUN,
    SET_UP,
    Code,
    Entry,
    jit_enabled,
    prepare,
)
from netsim.engine.division import rebalance
from netsim.engine.kernels import handlers, layout, loop
from netsim.engine.kernels.fields import ParameterRecord, Ps, TxRecord
from netsim.engine.kernels.trace import TraceEntries, drain
from netsim.engine.series import make_room, thin
from netsim.engine.simulation import FeatureSet, Options, Simulation
from netsim.engine.snapshot import Snapshot
from netsim.engine.state import (
    Files,
    Run,
    State,
    build_scratch,
    build_state,
    wake_only,
)
from netsim.errors import RunError
from netsim.model.fabric import Fabric
from netsim.model.network import Network
from netsim.model.workload import ProgramSpec
from netsim.plugins.registry import PluginSpec, describe


@contextmanager
def assisted(crew: layout.Crew, n_workers: int, assist: Callable[[int], object]) -> Iterator[None]:
    """Call `assist(worker)` in a thread for every worker but the first.

    The crew ends with the block, or when a call raises. Raises what that call raised.
    """
    raised: list[BaseException] = []

    def call(worker: int) -> None:
        try:
            assist(worker)
        except BaseException as error:
            crew.ending[0] = loop.ENDING
            raised.append(error)

    crew.ending[0] = loop.WORKING
    threads = [
        threading.Thread(target=call, args=(worker,), name=f"worker {worker}", daemon=True)
        for worker in range(1, n_workers)
    ]
    started = []
    try:
        for thread in threads:
            thread.start()
            started.append(thread)
        yield
    finally:
        crew.ending[0] = loop.ENDING
        _join(started)
    if raised:
        raise raised[0]


def _join(threads: Sequence[threading.Thread]) -> None:
    """Wait until all threads have ended, even if interrupted: they write to the state."""
    try:
        for thread in threads:
            thread.join()
    except KeyboardInterrupt:
        _join(threads)
        raise


HANG_TIMEOUT_S = 20.0  # seconds without progress after which compiled code counts as hung

CHECKS_PER_TIMEOUT = 20


@contextmanager
def watched(
    progress: Callable[[], object], on_hang: Callable[[], None], timeout_s: float
) -> Iterator[None]:
    """Call `on_hang` from another thread if `progress()` is unchanged for `timeout_s` seconds.

    The process must have used a processor for half of that time: one that is suspended or swapped
    out has not hung.
    """
    done = threading.Event()

    def watch() -> None:
        last, since_s, busy_since_s = progress(), time.monotonic(), time.process_time()
        while not done.wait(timeout_s / CHECKS_PER_TIMEOUT):
            now = progress()
            if now != last:
                last, since_s, busy_since_s = now, time.monotonic(), time.process_time()
            waited_s, busy_s = time.monotonic() - since_s, time.process_time() - busy_since_s
            if waited_s > timeout_s and busy_s > timeout_s / 2:
                on_hang()
                return

    threading.Thread(target=watch, name="watchdog", daemon=True).start()
    try:
        yield
    finally:
        done.set()


HOST, SWITCH = "host", "switch"

Present = Callable[[str, int], tuple[str, int]]
"""Function that maps a file and line to their current position."""


def as_it_is(path: str, line: int) -> tuple[str, int]:
    """Position in code that was not compiled."""
    return path, line


@dataclass(frozen=True)
class Failures:
    """Finds and describes handler errors in ``state``; ``transport`` names the transports. An error
    belongs to a transport or program on a host, or a queue discipline or routing algorithm at a
    switch. ``modules`` excludes the program's."""

    state: State
    modules: Sequence[ModuleType]
    program: ProgramSpec | None
    transport: str
    fabric: Fabric

    def look(self) -> None:
        """Raise RunError if a handler broke a rule, or raised an error in another thread."""
        clock, nics = self.state.clock, self.state.hosts.nics
        active = clock.active[: int(clock.clock["n_active"][0])]
        if (clock.status[active] == layout.UNFINISHED).any():
            raise self.raised(None)
        for nodes, whose in ((nics, HOST), (self.state.links.switches, SWITCH)):
            for node in np.flatnonzero(nodes["rule_broken"])[:1].tolist():
                raise self._broken(np.asarray(nodes)[node], _where(nodes, whose, node))

    def _broken(self, record: Any, where: str) -> RunError:
        """Return the error for a handler that broke a rule."""
        text = handlers.TEXTS[int(record["rule_broken"])]
        value, n_traffic_classes = int(record["breaking_value"]), self.fabric.n_traffic_classes
        text = text.format(value=value, n_traffic_classes=n_traffic_classes)
        number = int(record["breaking_handler"])
        return RunError(f"{self._whose(number)}: {_name(number)} {text} ({where})")

    def raised(self, error: BaseException | None, present: Present = as_it_is) -> RunError:
        """Return the error for an exception of a handler; None if another thread lost it.
        ``present`` maps the line to where it is now."""
        what = "an error, such as a division by zero"
        place = "`netsim run --check-bounds` says which"
        if error is not None:
            error = error.__cause__ or error
            what = describe(error)
            place = self._place_of(error, present)
        return RunError(f"{self._at_work('engine')}: {what} ({place})")

    def hung(self) -> str:
        """Return the message for compiled code that does not return."""
        where = self._at_work("")
        why = "an endless loop?"
        if not where:
            where = f"transport {self.transport}: the engine"
            why = "has a handler written past its own arrays? (see `netsim run --check-bounds`)"
        waited = f"no progress for {HANG_TIMEOUT_S:g} s"
        return f"{where} does not return, {waited}: {why}"

    def movement(self) -> tuple[int, ...]:
        """Return numbers that change whenever the engine makes progress."""
        s = self.state
        clock = (s.clock.clock["windows"], s.clock.status)
        nics = (s.hosts.nics[name] for name in ("sent_packets", "received_packets"))
        links = s.links.readers["head"], s.links.ports["tail"]
        return tuple(int(numbers.sum()) for numbers in (*clock, *nics, *links))

    def _whose(self, number: int) -> str:
        """Return the plugin that a handler number belongs to."""
        if self.program is not None and number >= handlers.FIRST_OF_PROGRAMS:
            return f"program {self.program.name}"
        if number >= handlers.FIRST_OF_ROUTING:
            return f"routing algorithm {self.fabric.routing.name}"
        if number >= handlers.FIRST_OF_QUEUES:
            return f"queue discipline {self.fabric.queue.name}"
        return f"transport {self.transport}"

    def _at_work(self, otherwise: str) -> str:
        """Return the plugin, handler and node at work, or ``otherwise``."""
        nodes = ((self.state.hosts.nics, HOST), (self.state.links.switches, SWITCH))
        for records, whose in nodes:
            for node in np.flatnonzero(records["handler"]).tolist():
                number = int(records["handler"][node])
                where = _where(records, whose, node)
                return f"{self._whose(number)}: {_name(number)} on {where}"
        return f"transport {self.transport}: {otherwise}" if otherwise else ""

    def _place_of(self, error: BaseException, present: Present) -> str:
        """Return where in a plugin's file an error was raised, or ""."""
        plugins = [*self.modules]
        if self.program is not None:
            plugins.append(self.program.use.module)
        files = [module.__file__ for module in plugins]
        frames = traceback.extract_tb(error.__traceback__)
        places = [present(frame.filename, frame.lineno or 0) for frame in frames]
        found = [(path, line) for path, line in places if path in files]
        if not found and self.program is not None:
            return "`NUMBA_DISABLE_JIT=1 netsim run` names the line"
        if not found:
            return "`netsim check` of the file may find the line"
        path, line = found[-1]
        return f"{Path(path).name}, line {line}: {linecache.getline(path, line).strip()}"


def _where(records: Any, whose: str, place: int) -> str:
    """Return the node of a record: "host 3", for any of its NICs, or "switch 0"."""
    return f"{whose} {records['host'][place] if whose == HOST else place}"


def _name(number: int) -> str:
    """Return the name of a handler."""
    tables = (
        handlers.HANDLERS,
        handlers.QUEUE_HANDLERS,
        handlers.ROUTING_HANDLERS,
        handlers.PROGRAM_HANDLERS,
    )
    return next((name for table in tables if (name := table.name_of(number))), "")


def grow_scratch(state: State, network: Network, threads: int) -> None:
    """Enlarge the scratch memory for the switches that ran out of it."""
    clock = state.clock
    active = clock.active[: int(clock.clock["n_active"][0])]
    need = int(clock.what[active[clock.status[active] == layout.GROW_SCRATCH]].max(initial=0))
    if need > state.scratch.slots.shape[1]:
        state.scratch = build_scratch(network, threads, 1 << (need - 1).bit_length())


NO_FEATURES = FeatureSet()


class Engine(state_views.StateViews):
    """A run: state and compiled code. Raises InputError if its transports conflict. ``state`` is
    for the engine and its tests; others use the methods."""

    def __init__(self, simulation: Simulation, options: Options) -> None:
        self.network = simulation.network
        self.flows, self.tasks = simulation.flows, simulation.tasks
        self.has_program = simulation.program is not None
        self.fabric, self.feature_set = simulation.fabric, simulation.feature_set
        self.faults = simulation.faults
        self.threads = options.workers
        none = np.zeros(0, np.int64)
        self._beyond = layout.grouped(loop.Beyond, nodes=none, back_ps=none, tells=False)
        self.on_hang = options.on_hang
        self.jit = jit_enabled() if options.jit is None else options.jit
        self.name = simulation.name
        self.sampling = simulation.sampling
        pars, files = _files(simulation.uses, self.fabric, self.feature_set)
        self.protocol, self.discipline, self.routing, self.program = files
        self._find_code(files, options)
        self.state = build_state(simulation, files, pars, options, jit=self.jit)
        self._n_tasks = self.state.hosts.tasks.shape[0] if self.feature_set.tasks else 0
        self._failures = Failures(
            self.state,
            (*self.protocol.modules, self.discipline.module, self.routing.module),
            simulation.program,
            self.name,
            self.fabric,
        )
        self._prepare()
        self._call(self._set_up, self.state.hosts, self.state.links, self.state.clock)
        if options.hosts is not None:
            wake_only(self.state.clock, options.hosts)
        self._failures.look()

    def _find_code(self, files: Files, options: Options) -> None:
        run = Run(*files, self.fabric, self.feature_set, options.traces, options.profile)
        began = time.perf_counter()
        code = Code(*files, run.constants, jit=self.jit, checked=options.checked)
        if options.on_code is not None:
            options.on_code(not code.is_kept())
        self._code = code
        self._run, self._set_up = code.entries((RUN, SET_UP))
        self.code_s = time.perf_counter() - began
        """Seconds spent finding, loading or compiling the code."""

    @property
    def of_cut(self) -> Sequence[Entry]:
        """Entry points for one of several processes."""
        return self._code.entries(OF_CUT)

    def _prepare(self) -> None:
        """Load or compile what every run needs."""
        began = time.perf_counter()
        s = self.state
        limits = loop.Limits(0, Ps(0), 0, 0, False, loop.Goal(0, 0, 0), self._beyond)
        run = (s.net, s.links, s.hosts, s.clock, s.crew, s.scratch, limits, 0)
        prepare((self._set_up, (s.hosts, s.links, s.clock)), (self._run, run))
        self.code_s += time.perf_counter() - began

    def sender_field(self, name: str) -> Any:
        """Return a field of all flows that the transport declares for senders, as a view to read
        and write between steps. Raises KeyError for any other field."""
        record = self.protocol.own_names[0].get(name, name)
        tx = np.asarray(self.state.hosts.tx)
        if record in layout.fields_of(TxRecord) or record not in (tx.dtype.names or ()):
            raise KeyError(name)
        return tx[record]

    def set_parameter(self, name: str, value: float) -> bool:
        """Set a parameter of the first transport from now on; return whether it has it."""
        record = self.protocol.own_names[0].get(name, name)
        pars = np.asarray(self.state.hosts.pars)["transport0"]
        if record in layout.fields_of(ParameterRecord) or record not in (pars.dtype.names or ()):
            return False
        pars[record] = value
        return True

    def series(self) -> state_views.SeriesReading | None:
        """Return the series of queues, hosts and flows, or None."""
        if self.sampling is None:
            return None
        return state_views.read_series(
            self.state, self.sampling, self.network, self.fabric.n_link_classes, self.now_ps
        )

    def queue_levels(self) -> state_views.QueueLevels | None:
        """Return the mean and percentile of every queue over the run, or None."""
        if self.sampling is None or not self.sampling.queues:
            return None
        return state_views.queue_levels(self.state, self.fabric.n_link_classes, self.now_ps)

    def pauses(self) -> state_views.Pauses | None:
        """Return the ports that PFC has stopped, and the packets that wait; None without PFC."""
        if not self.discipline.pauses:
            return None
        return state_views.pauses(self.state)

    def snapshot(self) -> Snapshot:
        """Return the state as views of the engine's memory, valid until the next step."""
        return snapshot.take(self.state)

    def restore(self, earlier: Snapshot) -> None:
        """Resume from the state of an engine for the same run, with any number of threads. Raises
        ForeignSnapshotError if it comes from another run."""
        snapshot.put(self.state, earlier)

    def window_times(self) -> loop.WindowTimes:
        """Return wall-clock time per stage; all zero without ``profile``."""
        return loop.window_times(self.state.clock.parts)

    def drain_trace(self) -> TraceEntries:
        """Return and clear the trace entries recorded since the last call. Raises
        TraceOverflowError if the buffer was too small for a window."""
        return drain(self.state.links.trace)

    def advance(
        self,
        n_windows: int,
        until_ps: int,
        *,
        stop_when_done: bool = False,
        workers: int | None = None,
        seconds: float | None = None,
    ) -> state_views.Status:
        """Simulate up to ``n_windows`` windows, none beyond ``until_ps``. After the first, start
        none once ``seconds`` have passed.

        ``workers`` is the number of threads to use, by default all. With ``stop_when_done`` the run
        ends when all flows and tasks are done (MODEL.md). Raises RunError if a handler raises or
        breaks a rule.
        """
        s = self.state
        n_workers = min(workers or self.threads, self.threads) if self.jit and n_windows else 1
        shared_ns = loop.SHARED_NS if n_workers > 1 else loop.ALONE_NS
        until_ns = layout.INF if seconds is None else time.monotonic_ns() + int(seconds * 1e9)
        last = self.counts.windows + n_windows
        while True:
            left = last - self.counts.windows
            limits = loop.Limits(
                *(left, Ps(until_ps), until_ns, shared_ns),
                *(stop_when_done, self._goal(), self._beyond),
            )
            if n_workers > 1:
                rebalance(s.net, s.links, s.crew)
            groups = (s.net, s.links, s.hosts, s.clock, s.crew, s.scratch)
            status = self._call(self._run, *groups, limits, 0, n_workers=n_workers)
            if status == layout.NEEDS_THINNING:
                thin(s.links)
                continue
            if status == state_views.Status.IDLE:
                self._end_idle(until_ps)
            if status != layout.NEEDS_GROWTH:
                make_room(s.links, self.now_ps)  # no event may have asked for it
                return state_views.Status(status)
            self._failures.look()
            if s.links.pool_full[0]:
                raise RunError("no memory is left for the packets in flight")
            grow_scratch(self.state, self.network, self.threads)

    def _end_idle(self, until_ps: int) -> None:
        """End a run that has no events left."""
        np.asarray(self.state.clock.clock)["w1"] = min(until_ps, state_views.idle_ps(self.state))

    def _goal(self) -> loop.Goal:
        """Return the clock's counts when all is done."""
        if self.has_program:
            return loop.Goal(0, 0, 0)
        return loop.Goal(len(self.flows), len(self.flows), self._n_tasks)

    def _call(self, entry: Entry, *arguments: Any, n_workers: int = 1) -> Any:
        """Call a compiled entry point; with several workers, each calls it, with its number as the
        last argument. Raises RunError if a handler raises an error."""
        began = time.perf_counter()
        run = entry.run or entry.prepare(*arguments)
        self.code_s += time.perf_counter() - began
        try:
            with (
                self._watch(),
                assisted(self.state.crew, n_workers, lambda one: run(*arguments[:-1], one)),
            ):
                return run(*arguments)
        except RunError:
            raise
        except (Exception, SystemExit) as error:
            raise self._failures.raised(error, entry.place) from error

    def _watch(self) -> AbstractContextManager[None]:
        """Return a context in which `on_hang` is called if compiled code hangs."""
        if not self.jit or self.on_hang is None:
            return nullcontext()
        return watched(self._failures.movement, self._hung, HANG_TIMEOUT_S)

    def _hung(self) -> None:
        assert self.on_hang is not None
        self.on_hang(self._failures.hung())


def code_of(
    uses: Sequence[PluginSpec],
    fabric: Fabric,
    feature_set: FeatureSet = NO_FEATURES,
    *,
    checked: bool = False,
    tracing: bool = False,
) -> Code:
    """Return the compiled code for these transports, this fabric and this feature set."""
    _, files = _files(uses, fabric, feature_set)
    constants = Run(*files, fabric, feature_set, traces=tracing).constants
    return Code(*files, constants, jit=jit_enabled(), checked=checked)


def _files(
    uses: Sequence[PluginSpec], fabric: Fabric, feature_set: FeatureSet
) -> tuple[list[Any], Files]:
    """Return each transport's parameters, and the declarations of all plugins."""
    pars = [plugin_parameters(use.plugin, use.params) for use in uses]
    protocols = [
        read_protocol(use.module, par, use.plugin.name) for use, par in zip(uses, pars, strict=True)
    ]
    names = [use.plugin.name for use in uses]
    protocols = with_own_names(protocols, names)
    first_host_timer = 0
    for i, protocol in enumerate(protocols):
        pars[i] = {protocol.own_names[0].get(name, name): v for name, v in pars[i].items()}
        pars[i]["first_host_timer"] = first_host_timer
        first_host_timer += protocol.host_timers
    discipline = read_discipline(*_file_of(fabric.queue))
    routing = read_routing(*_file_of(fabric.routing))
    joined = join(protocols, names)
    for use, packet in ((fabric.queue, discipline.packet), (fabric.routing, routing.packet)):
        names.append(use.plugin.name)
        joined = with_packet(joined, packet, names)
    program = program_of(feature_set.program)
    check_setups(program, uses)
    return pars, (joined, discipline, routing, program)


def _file_of(use: PluginSpec) -> tuple[ModuleType, dict[str, int | float], str]:
    """Return the module of a plugin, its parameters as handlers see them, and its name."""
    return use.module, plugin_parameters(use.plugin, use.params), use.plugin.name
