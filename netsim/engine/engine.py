"""The engine's interface: build once, advance in steps, read the state.

A switch with too little scratch memory ends its step before it changes any result. The engine makes
room between calls of the compiled code and repeats the call.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from types import ModuleType
from typing import Any

import numpy as np

from netsim.engine import snapshot, workers
from netsim.engine.compiling.declarations import (
    check_setups,
    program_of,
    read_discipline,
    read_protocol,
)
from netsim.engine.compiling.multi_transport import join, with_own_names, with_packet
from netsim.engine.compiling.plugin_file import plugin_parameters
from netsim.engine.compiling.routing_declarations import read_routing
from netsim.engine.compiling.specialize import Code, Entry, jit_enabled
from netsim.engine.division import rebalance
from netsim.engine.handler_errors import Failures
from netsim.engine.kernels import crew
from netsim.engine.kernels.ids import Ps
from netsim.engine.kernels.layout import (
    GROW_SCRATCH,
    INF,
    NEEDS_GROWTH,
    NEEDS_THINNING,
    grouped,
)
from netsim.engine.kernels.loop import Beyond, Goal, Limits, WindowTimes, window_times
from netsim.engine.kernels.trace import TraceEntries, drain
from netsim.engine.pauses import Pauses, pauses
from netsim.engine.series import make_room, thin
from netsim.engine.series_reading import QueueLevels, SeriesReading, queue_levels, read_series
from netsim.engine.simulation import FeatureSet, Options, Simulation
from netsim.engine.snapshot import Snapshot
from netsim.engine.state import (
    Files,
    State,
    build_scratch,
    build_state,
    features,
    wake_only,
)
from netsim.engine.state_views import StateViews, Status, idle_ps
from netsim.engine.workers import assisted, watched
from netsim.errors import RunError
from netsim.model.fabric import Fabric
from netsim.model.network import Network
from netsim.plugins.registry import PluginSpec


def grow_scratch(state: State, network: Network, threads: int) -> None:
    """Enlarge the scratch memory for the switches that ran out of it."""
    clock = state.clock
    active = clock.active[: int(clock.clock["n_active"][0])]
    need = int(clock.what[active[clock.status[active] == GROW_SCRATCH]].max(initial=0))
    if need > state.scratch.slots.shape[1]:
        state.scratch = build_scratch(network, threads, 1 << (need - 1).bit_length())


DEFAULT = Options()
NO_FEATURES = FeatureSet()


class Engine(StateViews):
    """A run: state and compiled code. Raises InputError if its transports conflict. ``state`` is
    for the engine and its tests; others use the methods."""

    def __init__(self, simulation: Simulation, options: Options = DEFAULT) -> None:
        self.network = simulation.network
        self.flows, self.tasks = simulation.flows, simulation.tasks
        self.has_program = simulation.program is not None
        self.fabric, self.feature_set = simulation.fabric, simulation.feature_set
        self.faults = simulation.faults
        self.threads = options.workers
        none = np.zeros(0, np.int64)
        self._beyond = grouped(Beyond, nodes=none, back_ps=none, tells=False)
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
        self._call(self._set_up, self.state.hosts, self.state.links, self.state.clock)
        if options.hosts is not None:
            wake_only(self.state.clock, options.hosts)
        self._failures.look()

    def _find_code(self, files: Files, options: Options) -> None:
        constants = _constants(files, self.fabric, self.feature_set)
        constants |= {"TRACE": options.traces, "PROFILE": options.profile}
        began = time.perf_counter()
        code = Code(*files, constants, jit=self.jit, checked=options.checked)
        if options.on_code is not None:
            options.on_code(not code.is_kept())
        self._run, self._set_up, *self.of_cut = code.entries()
        self.code_s = time.perf_counter() - began
        """Seconds spent finding, loading or compiling the code."""

    def series(self) -> SeriesReading | None:
        """Return the series of queues, hosts and flows, or None."""
        if self.sampling is None:
            return None
        return read_series(
            self.state, self.sampling, self.network, self.fabric.n_link_classes, self.now_ps
        )

    def queue_levels(self) -> QueueLevels | None:
        """Return the mean and percentile of every queue over the run, or None."""
        if self.sampling is None or not self.sampling.queues:
            return None
        return queue_levels(self.state, self.fabric.n_link_classes, self.now_ps)

    def pauses(self) -> Pauses | None:
        """Return what PFC has stopped, and the packets that wait; None without PFC."""
        if not self.discipline.features["HAS_PFC"]:
            return None
        return pauses(self.state)

    def snapshot(self) -> Snapshot:
        """Return the state as views of the engine's memory, valid until the next step."""
        return snapshot.take(self.state)

    def restore(self, earlier: Snapshot) -> None:
        """Resume from the state of an engine for the same run, with any number of threads. Raises
        ForeignSnapshotError if it is of another run."""
        snapshot.put(self.state, earlier)

    def window_times(self) -> WindowTimes:
        """Return wall-clock time per stage; all zero without ``profile``."""
        return window_times(self.state.clock.parts)

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
    ) -> Status:
        """Simulate up to ``n_windows`` windows, none of them beyond ``until_ps``, and, after the
        first, none that would begin after ``seconds``.

        ``workers`` is the number of threads to use, by default all. With ``stop_when_done`` the run
        ends when all flows and tasks are done (MODEL.md). Raises RunError if a handler raises or
        breaks a rule.
        """
        s = self.state
        n_workers = min(workers or self.threads, self.threads) if self.jit and n_windows else 1
        shared_ns = crew.SHARED_NS if n_workers > 1 else crew.ALONE_NS
        until_ns = INF if seconds is None else time.monotonic_ns() + int(seconds * 1e9)
        last = self.counts.windows + n_windows
        while True:
            left = last - self.counts.windows
            limits = Limits(
                *(left, Ps(until_ps), until_ns, shared_ns),
                *(stop_when_done, self._goal(), self._beyond),
            )
            if n_workers > 1:
                rebalance(s.net, s.links, s.crew)
            groups = (s.net, s.links, s.hosts, s.clock, s.crew, s.scratch)
            status = self._call(self._run, *groups, limits, 0, n_workers=n_workers)
            if status == NEEDS_THINNING:
                thin(s.links)
                continue
            if status == Status.IDLE:
                self._end_idle(until_ps)
            if status != NEEDS_GROWTH:
                make_room(s.links, self.now_ps)  # no event may have asked for it
                return Status(status)
            self._failures.look()
            if s.links.pool_full[0]:
                raise RunError("no memory is left for the packets in flight")
            grow_scratch(self.state, self.network, self.threads)

    def _end_idle(self, until_ps: int) -> None:
        """End a run that has no events left."""
        np.asarray(self.state.clock.clock)["w1"] = min(until_ps, idle_ps(self.state))

    def _goal(self) -> Goal:
        """Return what the clock has counted when all is done."""
        if self.has_program:
            return Goal(0, 0, 0)
        return Goal(len(self.flows), len(self.flows), self._n_tasks)

    def _call(self, entry: Entry, *arguments: Any, n_workers: int = 1) -> Any:
        """Call a compiled entry point; with several workers, each with its number as the last
        argument. Raises RunError for what a handler raises."""
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
        return watched(self._failures.movement, self._hung, workers.HANG_TIMEOUT_S)

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
    constants = _constants(files, fabric, feature_set) | {"TRACE": tracing}
    return Code(*files, constants, jit=jit_enabled(), checked=checked)


def _files(
    uses: Sequence[PluginSpec], fabric: Fabric, feature_set: FeatureSet
) -> tuple[list[Any], Files]:
    """Return each transport's parameters, and what the files of all plugins declare."""
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


def _constants(files: Files, fabric: Fabric, feature_set: FeatureSet) -> dict[str, Any]:
    """Return the specialization constants of a run without trace and profile."""
    protocol, discipline, routing, program = files
    return {
        **features(fabric, discipline, routing, feature_set),
        **protocol.features,
        **program.features,
        "TRACE": False,
        "PROFILE": False,
    }
