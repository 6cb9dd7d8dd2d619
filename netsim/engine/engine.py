"""The engine as the rest of the package uses it: build once, run in chunks, look inside."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

import numpy as np

from netsim.engine import exact, loop, switch
from netsim.engine.layout import (
    GROW,
    GROW_CONTROL,
    GROW_QUEUE,
    GROW_RING,
    GROW_SCRATCH,
    OK,
)
from netsim.engine.protocol import Protocol, parameter_value, read_protocol
from netsim.engine.specialise import Specialiser, cache_root, jit_enabled
from netsim.engine.state import (
    Sizes,
    State,
    attribute_access,
    build_clock,
    build_ends,
    build_net,
    build_scratch,
    build_wires,
    features,
    is_coupled,
)
from netsim.errors import RunError
from netsim.fabric import Fabric, PacketFormat
from netsim.flows import FlowTable
from netsim.network import Network

FAULTS = {
    1: "a handler sent more control packets in one call than its host's FIFO has room for",
    2: "more bytes were delivered than the flow has",
}


class Engine:
    """One simulation: state, compiled code, and the growing of rings.

    ``window_ps`` shortens the windows (for tests: results must not change);
    ``sizes`` are initial capacities. Without ``jit`` the same code runs as plain Python,
    slowly, for tests and debuggers; by default that is up to NUMBA_DISABLE_JIT.
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
        threads: int = 1,
        window_ps: int | None = None,
        sizes: Sizes | None = None,
        jit: bool | None = None,
    ) -> None:
        sizes = sizes or Sizes()
        self.network, self.flows, self.fabric = network, flows, fabric
        self.threads = threads
        self.jit = jit_enabled() if jit is None else jit
        choices = {p.name: p.choices for p in transport.params}
        par = {k: parameter_value(v, choices.get(k, ())) for k, v in params.items()}
        self.protocol = read_protocol(transport.module, par, transport.name)
        self._compile(self.protocol)
        wires, used = build_wires(network, fabric, packets, seed, sizes)
        control_at = used - network.n_hosts * sizes.control_slots
        ends = build_ends(
            network, flows, packets, self.protocol, par, seed, control_at, sizes.control_slots
        )
        self.state = State(
            net=build_net(network, seed),
            wires=wires,
            ends=ends,
            clock=build_clock(network, ends, window_ps),
            scratch=build_scratch(network, threads, sizes.scratch),
            pool_used=used,
        )
        if not self.jit:
            s = self.state
            s.wires, s.ends, s.clock = map(attribute_access, (s.wires, s.ends, s.clock))
        self._free: dict[int, list[int]] = {}
        self._set_up(self.state.ends, self.state.wires.pool)

    def _compile(self, protocol: Protocol) -> None:
        constants = features(self.fabric)
        coupled = is_coupled(self.fabric)
        holes: dict[str, Any] = {**constants, **protocol.handlers}
        holes["switch_step"] = exact.switch_step if coupled else switch.switch_step
        text = f"{protocol.module.__name__} {sorted(constants.items())} {coupled}"
        tag = hashlib.sha256(text.encode()).hexdigest()[:12]
        specialiser = Specialiser(holes, protocol.module, tag, jit=self.jit)
        root = cache_root(protocol.module) if self.jit else None
        self._run = specialiser.entry(loop.run_windows, root)
        self._set_up = specialiser.entry(loop.set_up_flows, root)

    def count(self, name: str) -> int:
        """A field of the clock: w0, w1, windows, hops, delivered, finished, payload_bytes."""
        return int(self.state.clock.clock[name][0])

    @property
    def now_ps(self) -> int:
        """Simulated time up to which everything has happened."""
        return self.count("w1")

    def advance(self, n_windows: int, until_ps: int, *, stop_when_done: bool = False) -> int:
        """Simulate up to ``n_windows`` windows, none of them beyond ``until_ps``.

        With ``stop_when_done`` the run ends with the window in which the last flow does.
        Returns RUNNING, DONE, IDLE or UNTIL (layout.py). Raises RunError if a transport
        breaks a rule of the engine.
        """
        s = self.state
        if self.jit:
            import numba

            numba.set_num_threads(min(self.threads, numba.config.NUMBA_NUM_THREADS))
        while True:
            groups = (s.net, s.wires, s.ends, s.clock, s.scratch)
            status = int(self._run(*groups, self.threads, n_windows, until_ps, stop_when_done))
            if status != GROW:
                return status
            self._grow_all()

    def _grow_all(self) -> None:
        """Give every node that stopped for lack of room what it asked for."""
        clock = self.state.clock
        active = clock.active[: int(clock.clock["n_active"][0])]
        for node in active[clock.status[active] != OK].tolist():
            status, what = int(clock.status[node]), int(clock.what[node])
            if status == GROW_RING:
                self._grow_link(what)
            elif status == GROW_QUEUE:
                self._grow_ring(self.state.wires.queues, what, "off", "mask", "head", "tail")
            elif status == GROW_CONTROL:
                names = ("ctrl_off", "ctrl_mask", "ctrl_head", "ctrl_tail")
                self._grow_ring(self.state.ends.hosts, what, *names)
            elif status == GROW_SCRATCH:
                capacity = max(1 << what.bit_length(), 2 * self.state.scratch.slots.shape[1])
                self.state.scratch = build_scratch(self.network, self.threads, capacity)
            else:
                fault = FAULTS[int(self.state.ends.hosts["fault"][what])]
                raise RunError(f"host {what}: {fault} (transport {self.protocol.module.__name__})")

    def _grow_link(self, port: int) -> None:
        wires = self.state.wires
        reader = int(self.network.port_peer[port])
        head = int(wires.inbox["head"][reader])
        tail = int(wires.ports["tail"][port])
        off, mask = int(wires.ports["ring_off"][port]), int(wires.ports["ring_mask"][port])
        new = self._move(off, mask, head, tail)
        wires = self.state.wires
        for array, index in ((wires.ports, port), (wires.inbox, reader)):
            array["ring_off"][index] = new
            array["ring_mask"][index] = 2 * mask + 1

    def _grow_ring(
        self, array: Any, index: int, off: str, mask: str, head: str, tail: str
    ) -> None:
        rec = array[index]
        old_mask = int(rec[mask])
        new = self._move(int(rec[off]), old_mask, int(rec[head]), int(rec[tail]))
        array[off][index] = new
        array[mask][index] = 2 * old_mask + 1

    def _move(self, off: int, mask: int, head: int, tail: int) -> int:
        """Copy entries head .. tail of a ring into a segment of twice the size; returns where."""
        size = 2 * (mask + 1)
        new = self._segment(size)
        wires = self.state.wires
        index = np.arange(head, tail)
        src, dst = off + (index & mask), new + (index & (size - 1))
        wires.pool[dst] = wires.pool[src]
        if wires.ingress.shape[0] > 1:
            wires.ingress[dst] = wires.ingress[src]
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
            bigger = np.zeros(s.pool_used + pool.shape[0] // 2, pool.dtype)
            bigger[:start] = pool[:start]
            if not self.jit:
                bigger = bigger.view(np.recarray)
            ingress = s.wires.ingress
            if ingress.shape[0] > 1:
                ingress = np.resize(ingress, bigger.shape[0])
            s.wires = s.wires._replace(pool=bigger, ingress=ingress)
        return start
