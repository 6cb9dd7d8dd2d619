"""The engine as the rest of the package uses it: build once, run in chunks, look inside."""

from __future__ import annotations

import hashlib
import traceback
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from netsim.engine import coupled_switch, loop, switch, watchdog
from netsim.engine.cache import cache_folder
from netsim.engine.handlers import handler_name
from netsim.engine.instructions import (
    compiled_prefetch,
    compiled_take_ticket,
    prefetch,
    take_ticket,
)
from netsim.engine.join import mix
from netsim.engine.layout import (
    BROKEN,
    GROW,
    GROW_CONTROL,
    GROW_SCRATCH,
    UNFINISHED,
)
from netsim.engine.protocol import Protocol, read_protocol, transport_parameters
from netsim.engine.records import RecordArray
from netsim.engine.rules import TEXTS
from netsim.engine.specialise import Entry, Specialiser, jit_enabled
from netsim.engine.state import (
    Sizes,
    State,
    aligned_zeros,
    attribute_access,
    build_clock,
    build_ends,
    build_net,
    build_scratch,
    build_wires,
    features,
    initial_sizes,
)
from netsim.engine.trace import CAPACITY, Trace, build_trace
from netsim.engine.watchdog import watched
from netsim.errors import RunError
from netsim.model.fabric import Fabric, PacketFormat
from netsim.model.faults import LinkFaults
from netsim.model.flows import FlowTable
from netsim.model.network import Network


class Engine:
    """One simulation: state, compiled code, and the growing of rings.

    ``others`` are further transports with their parameters; ``transport_of_flow`` says which
    one each flow has, 0 being ``transport``. ``faults`` are what goes wrong on links.
    ``window_ps`` shortens the windows (for tests:
    results must not change); ``sizes`` are initial capacities. Without ``jit`` the same code
    runs as plain Python, slowly, for tests and debuggers; by default that is up to
    NUMBA_DISABLE_JIT. With ``checked``, compiled code looks at every index, more slowly.
    ``on_hang`` is told, in another thread, if compiled code does not come back. The
    flows of ``trace`` are recorded (trace.py), by one worker.
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
    ) -> None:
        sizes = sizes or initial_sizes(network, packets)
        self.network, self.flows, self.fabric, self.faults = network, flows, fabric, faults
        self.threads = 1 if trace else threads
        self.on_hang = on_hang
        self.jit = jit_enabled() if jit is None else jit
        uses = [(transport, params), *others]
        self.name = " and ".join(plugin.name for plugin, _ in uses)
        pars, self.protocol = _protocol(uses)
        if transport_of_flow is None:
            transport_of_flow = np.zeros(len(flows), np.int64)
        self._compile(self.protocol, tracing=bool(trace), checked=checked)
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
        self._free: dict[int, list[int]] = {}
        self._call(self._set_up, self.state.ends, self.state.wires, self.state.clock)
        for host in np.flatnonzero(self.state.ends.hosts["fault"])[:1].tolist():
            raise self._broken(host)

    def _compile(self, protocol: Protocol, *, tracing: bool, checked: bool) -> None:
        constants = _constants(protocol, self.fabric, self.faults is not None, tracing=tracing)
        holes: dict[str, Any] = {**constants, **protocol.handlers}
        holes["prefetch"] = compiled_prefetch() if self.jit else prefetch
        holes["take_ticket"] = compiled_take_ticket() if self.jit else take_ticket
        holes["switch_step"] = (
            coupled_switch.switch_step if constants["COUPLED"] else switch.switch_step
        )
        tag = _tag(protocol, constants, checked=checked)
        specialiser = Specialiser(holes, protocol.modules, tag, jit=self.jit, checked=checked)
        folder = cache_folder(protocol.modules) if self.jit else None
        self._run = specialiser.entry(loop.run_windows, folder)
        self._set_up = specialiser.entry(loop.set_up_flows, folder)

    def count(self, name: str) -> int:
        """A field of the clock: w0, w1, windows, hops, delivered, finished, payload_bytes."""
        return int(self.state.clock.clock[name][0])

    @property
    def now_ps(self) -> int:
        """Simulated time up to which everything has happened."""
        return self.count("w1")

    def advance(
        self,
        n_windows: int,
        until_ps: int,
        *,
        stop_when_done: bool = False,
        workers: int | None = None,
    ) -> int:
        """Simulate up to ``n_windows`` windows, none of them beyond ``until_ps``.

        ``workers`` share the work, by default as many as there are threads. With
        ``stop_when_done`` the run ends with the window in which the last flow does.
        Returns RUNNING, DONE, IDLE or UNTIL (layout.py). Raises RunError if a transport
        breaks a rule of the engine.
        """
        s = self.state
        workers = min(workers or self.threads, self.threads)
        if self.jit:
            import numba

            numba.set_num_threads(min(self.threads, numba.config.NUMBA_NUM_THREADS))
        last = self.count("windows") + n_windows
        while True:
            groups = (s.net, s.wires, s.ends, s.clock, s.scratch)
            left = last - self.count("windows")
            status = self._call(self._run, *groups, workers, left, until_ps, stop_when_done)
            if status != GROW:
                return int(status)
            self._grow_all()

    def _call(self, entry: Entry, *arguments: Any) -> Any:
        """Call compiled code. Raises RunError for what a handler in it raises."""
        entry.prepare(*arguments)
        if not self.jit:
            return entry.run(*arguments)
        try:
            if self.on_hang is None:
                return entry.run(*arguments)
            with watched(self._movement, self._hung, watchdog.PATIENCE_S):
                return entry.run(*arguments)
        except Exception as error:
            raise self.raised(error) from error

    def _movement(self) -> tuple[int, ...]:
        """Numbers of which one changes whenever the engine gets on."""
        s = self.state
        clock = (s.clock.clock["windows"], s.clock.tickets, s.clock.status)
        hosts = (s.ends.hosts[name] for name in ("sent_packets", "received_packets"))
        rings = s.wires.inbox["head"], s.wires.ports["tail"]
        return tuple(int(numbers.sum()) for numbers in (*clock, *hosts, *rings))

    def _hung(self) -> None:
        assert self.on_hang is not None
        where = self._at_work()
        why = "an endless loop?"
        if not where:
            where = "the engine"
            why = "has a handler written past its own arrays? (`netsim run --checked` finds that)"
        waited = f"nothing has moved for {watchdog.PATIENCE_S:g} s"
        self.on_hang(f"transport {self.name}: {where} does not come back, {waited}: {why}")

    def _at_work(self) -> str:
        """The handler that is being called, and where, if there is one."""
        hosts = self.state.ends.hosts["doing"]
        for host in np.flatnonzero(hosts).tolist():
            return f"{handler_name(hosts[host])} on host {host}"
        return "on_forward" if self.protocol.features["TELEMETRY"] else ""

    def _grow_all(self) -> None:
        """Give every node that stopped for lack of room what it asked for."""
        clock, wires = self.state.clock, self.state.wires
        for port in np.flatnonzero(wires.link_need).tolist():
            self._grow_link(port, int(wires.link_need[port]))
        for queue in np.flatnonzero(wires.queue_need).tolist():
            self._grow_queue(queue, int(wires.queue_need[queue]))
        wires.link_need[:] = 0
        wires.queue_need[:] = 0
        active = clock.active[: self.count("n_active")]
        if (clock.status[active] == UNFINISHED).any():
            raise self.raised(None)
        for status in (GROW_CONTROL, GROW_SCRATCH, BROKEN):
            for node in active[clock.status[active] == status].tolist():
                self._grow_node(status, node, int(clock.what[node]))

    def _grow_node(self, status: int, node: int, what: int) -> None:
        hosts = self.state.ends.hosts
        if status == GROW_CONTROL:
            mask = int(hosts["ctrl_mask"][node])
            ends = int(hosts["ctrl_head"][node]), int(hosts["ctrl_tail"][node])
            hosts["ctrl_off"][node] = self._move(
                int(hosts["ctrl_off"][node]), mask, *ends, 2 * (mask + 1)
            )
            hosts["ctrl_mask"][node] = 2 * mask + 1
        elif status == GROW_SCRATCH:
            if what > self.state.scratch.slots.shape[1]:
                capacity = _power_of_two(what)
                self.state.scratch = build_scratch(self.network, self.threads, capacity)
        else:
            raise self._broken(node)

    def _broken(self, host: int) -> RunError:
        """A handler that ran on ``host`` broke a rule of the engine."""
        record = self.state.ends.hosts[host]
        text = TEXTS[int(record["fault"])]
        text = text.format(value=int(record["fault_value"]), n_classes=self.fabric.n_classes)
        return RunError(
            f"transport {self.name}: {handler_name(int(record['doing']))} {text} (host {host})"
        )

    def raised(self, error: BaseException | None) -> RunError:
        """A handler raised an error: this one, or one that was lost in another thread."""
        what = "an error, such as a division by zero"
        place = "`netsim run --checked` says which"
        if error is not None:
            error = error.__cause__ or error
            what = f"{type(error).__name__}: {error}".rstrip(": ")
            place = self._place_of(error)
        return RunError(f"transport {self.name}: {self._at_work() or 'engine'}: {what} ({place})")

    def _place_of(self, error: BaseException) -> str:
        """Where in a transport's file an error was raised, if that is known."""
        files = [module.__file__ for module in self.protocol.modules]
        frames = [f for f in traceback.extract_tb(error.__traceback__) if f.filename in files]
        if not frames:
            return "`netsim check-transport` names the line, if it comes upon the same"
        return f"{Path(frames[-1].filename).name}, line {frames[-1].lineno}: {frames[-1].line}"

    def _grow_link(self, port: int, need: int) -> None:
        ports, inbox = self.state.wires.ports, self.state.wires.inbox
        reader = int(self.network.port_peer[port])
        ends = int(inbox["head"][reader]), int(ports["tail"][port])
        size = _power_of_two(need)
        off = self._move(int(ports["ring_off"][port]), int(ports["ring_mask"][port]), *ends, size)
        for array, index in ((ports, port), (inbox, reader)):
            array["ring_off"][index] = off
            array["ring_mask"][index] = size - 1

    def _grow_queue(self, index: int, need: int) -> None:
        queues = self.state.wires.queues
        ends = int(queues["head"][index]), int(queues["tail"][index])
        size = _power_of_two(need)
        queues["off"][index] = self._move(
            int(queues["off"][index]), int(queues["mask"][index]), *ends, size
        )
        queues["mask"][index] = size - 1

    def _move(self, off: int, mask: int, head: int, tail: int, size: int) -> int:
        """Copy entries head .. tail of a ring into a segment of ``size`` slots; returns where."""
        new = self._segment(size)
        wires = self.state.wires
        # As bytes: NumPy copies records field by field, thirty times slower.
        pool = np.asarray(wires.pool).view(np.uint8).reshape(-1, wires.pool.itemsize)
        while head < tail:
            # Up to where the old ring wraps; the new one, a multiple of it, does not before.
            n = min(tail - head, mask + 1 - (head & mask))
            here, there = off + (head & mask), new + (head & (size - 1))
            pool[there : there + n] = pool[here : here + n]
            if wires.ingress.shape[0] > 1:
                wires.ingress[there : there + n] = wires.ingress[here : here + n]
            head += n
        self._free.setdefault(mask + 1, []).append(off)
        return new

    def _segment(self, size: int) -> int:
        """A free stretch of ``size`` pool slots; the pool grows if there is none."""
        if self._free.get(size):
            return self._free[size].pop()
        s = self.state
        start = s.pool_used
        s.pool_used += size
        pool = s.wires.pool
        if s.pool_used > pool.shape[0]:
            bigger: Any = aligned_zeros(s.pool_used + pool.shape[0] // 2, pool.dtype)
            bigger[:start] = pool[:start]
            if not self.jit:
                bigger = bigger.view(RecordArray)
            ingress: Any = s.wires.ingress
            if ingress.shape[0] > 1:
                ingress = np.resize(ingress, bigger.shape[0])
            s.wires = s.wires._replace(pool=bigger, ingress=ingress)
        return start


def _power_of_two(n: int) -> int:
    """The smallest power of two that is at least ``n``."""
    return 1 << (n - 1).bit_length()


Use = tuple[Any, Mapping[str, Any]]
"""A transport and its parameters."""


def code_of(
    uses: Sequence[Use],
    fabric: Fabric,
    with_faults: bool,
    *,
    checked: bool = False,
    tracing: bool = False,
) -> tuple[str, Protocol]:
    """What tells the compiled code for these transports and this fabric from any other."""
    _, protocol = _protocol(uses)
    constants = _constants(protocol, fabric, with_faults, tracing=tracing)
    return _tag(protocol, constants, checked=checked), protocol


def is_kept(code: str, protocol: Protocol) -> bool:
    """Is the code (see `code_of`) on the disk, so that nothing has to be compiled?"""
    if not jit_enabled():
        return True
    folder = cache_folder(protocol.modules)
    return folder is not None and any(folder.rglob(f"*{code}.{loop.run_windows.__name__}.*"))


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
    return {**features(fabric, with_faults), **protocol.features, "TRACE": tracing}


def _tag(protocol: Protocol, constants: Mapping[str, Any], *, checked: bool) -> str:
    """What tells the compiled code of one specialisation from that of others."""
    names = [module.__name__ for module in protocol.modules]
    text = f"{names} {sorted(constants.items())}{' checked' * checked}"
    return hashlib.sha256(text.encode()).hexdigest()[:12]
