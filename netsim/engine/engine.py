"""The engine as the rest of the package uses it: build once, run in chunks, look inside."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np

from netsim.engine import readings, watchdog
from netsim.engine.code import Code
from netsim.engine.failures import Failures
from netsim.engine.growth import Growth
from netsim.engine.ids import Ps
from netsim.engine.join import mix
from netsim.engine.layout import GROW
from netsim.engine.loop import Limits
from netsim.engine.profile import WindowTimes, window_times
from netsim.engine.protocol import Protocol, read_protocol, transport_parameters
from netsim.engine.readings import Conservation, Counts, FlowStates, Ints, LinkCounters, Status
from netsim.engine.sizes import Sizes, initial_sizes
from netsim.engine.specialise import Entry, jit_enabled
from netsim.engine.state import (
    State,
    attribute_access,
    build_clock,
    build_ends,
    build_net,
    build_scratch,
    build_wires,
    features,
)
from netsim.engine.trace import CAPACITY, Trace, TraceEntries, build_trace, drain
from netsim.engine.watchdog import watched
from netsim.errors import RunError
from netsim.model.fabric import Fabric, PacketFormat
from netsim.model.faults import LinkFaults
from netsim.model.flows import FlowTable
from netsim.model.network import Network


class Engine:
    """One simulation: state and compiled code.

    ``others`` are further transports with their parameters; ``transport_of_flow`` says which
    one each flow has, 0 being ``transport``. ``faults`` are what goes wrong on links.
    ``window_ps`` shortens the windows (for tests:
    results must not change); ``sizes`` are initial capacities. Without ``jit`` the same code
    runs as plain Python, slowly, for tests and debuggers; by default that is up to
    NUMBA_DISABLE_JIT. With ``checked``, compiled code looks at every index, more slowly.
    ``on_hang`` is told, in another thread, if compiled code does not come back. The
    flows of ``trace`` are recorded (trace.py), by one worker. With ``profile``, one worker takes
    the time of what it does (profile.py).
    """

    def __init__(
        self,
        network: Network,
        flows: FlowTable,
        fabric: Fabric,
        packets: PacketFormat,
        transport: Any,
        params: Mapping[str, Any],
        seed: int,
        *,
        others: Sequence[tuple[Any, Mapping[str, Any]]] = (),
        transport_of_flow: np.ndarray | None = None,
        faults: LinkFaults | None = None,
        threads: int = 1,
        window_ps: int | None = None,
        sizes: Sizes | None = None,
        jit: bool | None = None,
        checked: bool = False,
        on_hang: Callable[[str], None] | None = None,
        trace: Sequence[int] = (),
        trace_capacity: int = CAPACITY,
        profile: bool = False,
    ) -> None:
        sizes = sizes or initial_sizes(network, packets)
        self.network, self.flows, self.fabric, self.faults = network, flows, fabric, faults
        self.threads = 1 if trace or profile else threads
        self.on_hang = on_hang
        self.jit = jit_enabled() if jit is None else jit
        uses = [(transport, params), *others]
        self.name = " and ".join(plugin.name for plugin, _ in uses)
        pars, self.protocol = _protocol(uses)
        if transport_of_flow is None:
            transport_of_flow = np.zeros(len(flows), np.int64)
        self._compile(self.protocol, tracing=bool(trace), profile=profile, checked=checked)
        buffer: Trace | np.ndarray = np.zeros(1, np.int64)
        if trace:
            records = (self.protocol.packet, self.protocol.tx, self.protocol.rx)
            buffer = build_trace(len(flows), trace, records, trace_capacity)
        wires, used = build_wires(
            network, fabric, packets, self.protocol.packet, faults, seed, sizes, buffer
        )
        control_at = used - network.n_hosts * sizes.control_slots
        ends = build_ends(
            network,
            flows,
            packets,
            self.protocol,
            pars,
            transport_of_flow,
            seed,
            control_at,
            sizes.control_slots,
        )
        self.state = State(
            net=build_net(network, seed),
            wires=wires,
            ends=ends,
            clock=build_clock(network, ends, window_ps),
            scratch=build_scratch(network, self.threads, sizes.scratch),
            pool_used=used,
        )
        if not self.jit:
            s = self.state
            s.wires, s.ends, s.clock = map(attribute_access, (s.wires, s.ends, s.clock))
        self.failures = Failures(self.state, self.protocol, self.name, fabric.n_classes)
        self.growth = Growth(self.state, network, self.threads)
        self._call(self._set_up, self.state.ends, self.state.wires, self.state.clock)
        self.failures.look()

    def _compile(self, protocol: Protocol, *, tracing: bool, profile: bool, checked: bool) -> None:
        constants = _constants(protocol, self.fabric, self.faults is not None, tracing=tracing)
        constants["PROFILE"] = profile
        began = time.perf_counter()
        code = Code(protocol, constants, jit=self.jit, checked=checked)
        self._run, self._set_up = code.entries()
        self.code_s = time.perf_counter() - began
        """Seconds that it took to find the compiled code, and to load or to make it."""

    @property
    def counts(self) -> Counts:
        """How far the run has come."""
        return readings.counts(self.state)

    @property
    def now_ps(self) -> int:
        """Simulated time up to which everything has happened."""
        return self.counts.now_ps

    def flow_states(self) -> FlowStates:
        """Where each flow stands, as views that follow the run."""
        return readings.flow_states(self.state)

    def link_counters(self) -> LinkCounters:
        """The counters of every link and class."""
        return readings.link_counters(self.state, self.fabric.n_classes)

    def paused_classes(self) -> Ints:
        """int64[n_ports]: bit c is set where PFC has paused class c of the port."""
        return readings.paused_classes(self.state)

    def conservation(self) -> Conservation:
        """What became of every packet and byte that hosts sent."""
        return readings.conservation(self.state, self.network)

    def fixed_fields(self) -> dict[str, np.ndarray]:
        """Copies of what never changes of the flows' two sides, by names such as "tx.host"."""
        return readings.fixed_fields(self.state)

    def digest(self) -> str:
        """Hash of what the run has left, in flows, the transport's state, hosts and queues."""
        return readings.digest(self.state)

    def window_times(self) -> WindowTimes:
        """Where the time of the windows went; all zero without ``profile``."""
        return window_times(self.state.clock.parts)

    def drain_trace(self) -> TraceEntries:
        """Take what was recorded of the flows of ``trace`` since this was last done.

        Raises TraceOverflowError if the buffer was too small for a window.
        """
        return drain(self.state.wires.trace)

    def advance(
        self,
        n_windows: int,
        until_ps: int,
        *,
        stop_when_done: bool = False,
        workers: int | None = None,
    ) -> Status:
        """Simulate up to ``n_windows`` windows, none of them beyond ``until_ps``.

        ``workers`` share the work, by default as many as there are threads. With
        ``stop_when_done`` the run ends with the window in which the last flow does.
        Raises RunError if a transport breaks a rule of the engine, or for what a handler raises.
        """
        s = self.state
        workers = min(workers or self.threads, self.threads)
        if self.jit:
            import numba

            numba.set_num_threads(min(self.threads, numba.config.NUMBA_NUM_THREADS))
        last = self.counts.windows + n_windows
        while True:
            groups = (s.net, s.wires, s.ends, s.clock, s.scratch)
            limits = Limits(last - self.counts.windows, Ps(until_ps), stop_when_done)
            status = self._call(self._run, *groups, workers, limits)
            if status != GROW:
                return Status(status)
            self.failures.look()
            self.growth.give_room()

    def _call(self, entry: Entry, *arguments: Any) -> Any:
        """Call an entry of the kernels. Raises RunError for what a handler in it raises."""
        began = time.perf_counter()
        run = entry.prepare(*arguments)
        self.code_s += time.perf_counter() - began
        watch: AbstractContextManager[None] = nullcontext()
        if self.jit and self.on_hang is not None:
            watch = watched(self.failures.movement, self._hung, watchdog.PATIENCE_S)
        try:
            with watch:
                return run(*arguments)
        except RunError:
            raise
        except (Exception, SystemExit) as error:
            raise self.failures.raised(error, entry.place) from error

    def _hung(self) -> None:
        assert self.on_hang is not None
        self.on_hang(self.failures.hung())


Use = tuple[Any, Mapping[str, Any]]
"""A transport and its parameters."""


def code_of(
    uses: Sequence[Use],
    fabric: Fabric,
    with_faults: bool,
    *,
    checked: bool = False,
    tracing: bool = False,
) -> Code:
    """The compiled code for these transports and this fabric."""
    _, protocol = _protocol(uses)
    constants = _constants(protocol, fabric, with_faults, tracing=tracing)
    return Code(protocol, constants, jit=jit_enabled(), checked=checked)


def _protocol(uses: Sequence[Use]) -> tuple[list[Any], Protocol]:
    """The parameters of each transport as the engine keeps them, and what all together are."""
    pars = [transport_parameters(*use) for use in uses]
    protocols = [
        read_protocol(plugin.module, par, plugin.name)
        for (plugin, _), par in zip(uses, pars, strict=True)
    ]
    first_host_timer = 0
    for par, protocol in zip(pars, protocols, strict=True):
        par["first_host_timer"] = first_host_timer
        first_host_timer += protocol.host_timers
    return pars, mix(protocols, [plugin.name for plugin, _ in uses])


def _constants(
    protocol: Protocol, fabric: Fabric, with_faults: bool, *, tracing: bool
) -> dict[str, Any]:
    """The constants for which the engine is specialised."""
    return {
        **features(fabric, with_faults),
        **protocol.features,
        "TRACE": tracing,
        "PROFILE": False,
    }
