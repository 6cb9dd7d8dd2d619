"""Run the transport under test on a small network, to the end, and see that nothing is amiss."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from netsim.bounds.ideal import ideal_times
from netsim.conformance import networks
from netsim.conformance.finding import ConformanceError
from netsim.conformance.watch import Watch, watched_module
from netsim.engine.engine import Engine
from netsim.engine.layout import DONE, HOST_FIELDS, IDLE, INF, RUNNING, RX_FIELDS, TX_FIELDS
from netsim.experiment.resolve_fabric import merge, resolve_fabric, wishes
from netsim.lint import check_transport
from netsim.model.fabric import Fabric, PacketFormat
from netsim.model.flows import FlowTable
from netsim.model.network import Network
from netsim.plugins import registry
from netsim.plugins.params import resolve_params
from netsim.plugins.registry import Plugin
from netsim.running.collect import conserve
from netsim.running.stall import explain, under_way
from netsim.units import format_time

WINDOWS = 100
"""Windows between two looks at how far a run has come."""

PATIENT_WINDOWS, PATIENT_PS = 2_500, 100 * 10**12
"""A run has stalled if so many windows, or so much time, pass without a byte delivered."""

HOPS_PER_IDEAL = 60
"""A run is given up after this many times the packet-hops that the flows need."""

STATIC = ("flow", "host", "peer", "size_bytes", "n_packets", "last_bytes", "first_timer", "bits")
"""Fields of a flow that no handler may change."""

LEFT = {
    "hosts": (("sent_packets", "sent_bytes", "received_packets", "received_bytes"), HOST_FIELDS),
    "tx": (("start_ps", "acked_ps", "sent_packets", "retransmits"), TX_FIELDS),
    "rx": (("done_ps", "got_bytes"), RX_FIELDS),
}
"""What a digest is made of: of the engine's fields these, and all that are not the engine's."""

COUNTED = ("drops", "trims", "marks", "pauses")
QUEUES = ("max_bytes", "sent_packets", "sent_bytes", "drops", "trims", "marks", "pauses")


@dataclass(frozen=True)
class Run:
    """A run that has ended."""

    engine: Engine

    def total(self, counter: str) -> int:
        """A counter of the queues, over all ports and classes."""
        return int(self.engine.state.wires.queues[counter].sum())

    @property
    def lost(self) -> int:
        """Packets that links lost."""
        return int(self.engine.state.wires.losses["packets"].sum())

    @property
    def sent(self) -> int:
        """Data packets that hosts sent."""
        return int(self.engine.state.ends.tx["sent_packets"].sum())

    @property
    def retransmits(self) -> int:
        """Those of them that had been sent before."""
        return int(self.engine.state.ends.tx["retransmits"].sum())

    def fct_ps(self) -> np.ndarray:
        """From each flow's start until its receiver has every byte."""
        ends = self.engine.state.ends
        return np.array(ends.rx["done_ps"]) - np.array(ends.tx["start_ps"])

    def acked_ps(self) -> np.ndarray:
        """From each flow's start until its sender called finish()."""
        ends = self.engine.state.ends
        return np.array(ends.tx["acked_ps"]) - np.array(ends.tx["start_ps"])

    def slowdown(self) -> np.ndarray:
        """Completion time of each flow over that of the flow alone."""
        engine = self.engine
        multipath = engine.fabric.load_balancing != "ecmp"
        ideal = ideal_times(engine.network, engine.flows, PacketFormat(), multipath=multipath)
        return np.asarray(self.fct_ps() / ideal.fct_ps)

    def digest(self) -> str:
        """Hash of what the run left: flows, the transport's own state, counters of queues."""
        state = self.engine.state
        digest = hashlib.sha256()
        for group, (names, base) in LEFT.items():
            array = getattr(state.ends, group)
            own = [name for name in array.dtype.names if name not in base]
            for name in (*names, *own):
                digest.update(np.ascontiguousarray(array[name]).tobytes())
        for name in QUEUES:
            digest.update(np.ascontiguousarray(state.wires.queues[name]).tobytes())
        digest.update(str(self.engine.count("hops")).encode())
        return digest.hexdigest()

    def line(self) -> str:
        """How much was sent, and what became of it."""
        text = f"{len(self.engine.flows)} flows, {self.sent} packets"
        counts = {name: self.total(name) for name in COUNTED}
        counts = {"sent again": self.retransmits, **counts, "lost": self.lost}
        return ", ".join([text, *(f"{n} {name}" for name, n in counts.items() if n)])


@dataclass(frozen=True)
class Lab:
    """A transport with its parameters, to be run on small networks; `seed` decides all chance.

    `on_hang` is told, in another thread, of compiled code that does not come back.
    """

    plugin: Plugin
    params: Mapping[str, Any]
    seed: int
    full: bool = False
    preset: str | None = None
    on_hang: Callable[[str], None] | None = None

    @classmethod
    def of(
        cls,
        transport: str | Path,
        *,
        params: Mapping[str, Any] | None = None,
        seed: int = 1,
        full: bool = False,
    ) -> Lab:
        """The lab of a transport, given by its name or its file, and its parameters as written.

        Raises InputError if there is no such transport or parameter, or if it is not sound.
        """
        name, preset = registry.split_preset(str(transport))
        plugin = registry.find("transport", name)
        place = {"file": str(plugin.path), "key": "transport"}
        values = resolve_params(plugin.params, plugin.presets, params or {}, preset, **place)
        check_transport(plugin, values)
        return cls(plugin, values, seed, full, preset)

    @property
    def reliable(self) -> bool:
        """Whether the transport makes up for losses; it says so if not: RELIABLE = False."""
        return bool(getattr(self.plugin.module, "RELIABLE", True))

    @property
    def wishes(self) -> Mapping[str, Any]:
        """The fabric that the transport declares."""
        return wishes(self.plugin.module, self.preset)

    def fabric(self, changes: Mapping[str, Any], network: Network) -> Fabric:
        """The fabric that the transport declares, with some keys changed."""
        packets = PacketFormat()
        fabric = resolve_fabric(merge(self.wishes, changes), packets)
        return fabric.for_network(network, packets)

    def engine(
        self,
        flows: FlowTable,
        network: Network,
        changes: Mapping[str, Any] | None = None,
        params: Mapping[str, Any] | None = None,
        *,
        watch: Watch | None = None,
        **options: Any,
    ) -> Engine:
        """An engine at time 0, checked if it is compiled; `options` are the engine's own."""
        plugin = self.plugin
        if watch is not None:
            plugin = replace(plugin, module=watched_module(plugin.module, watch))
        flows.validate(network.n_hosts)
        return Engine(
            network,
            flows,
            self.fabric(changes or {}, network),
            PacketFormat(),
            plugin,
            {**self.params, **(params or {})},
            self.seed,
            checked=True,
            on_hang=self.on_hang,
            **options,
        )

    def run(
        self,
        flows: FlowTable,
        network: Network | None = None,
        changes: Mapping[str, Any] | None = None,
        *,
        params: Mapping[str, Any] | None = None,
        jit: bool = False,
        until_ps: int | None = None,
        **options: Any,
    ) -> Run:
        """Run flows until all are complete, and check what is true of every run.

        With `until_ps` the run ends at that time and flows may be under way.
        Raises ConformanceError if a flow does not arrive or a handler breaks a rule, InputError if
        a declaration is wrong, and RunError for what the engine itself notices.
        """
        network = network or networks.tree()
        watch = None if jit else Watch(self.plugin.module)
        with watch.no_endless_loop() if watch else nullcontext():
            engine = self.engine(flows, network, changes, params, watch=watch, jit=jit, **options)
            before = _static(engine)
            if until_ps is None:
                why = run_to_end(engine, _most_hops(flows, network))
            else:
                run_until(engine, until_ps)
        conserve(engine)
        run = Run(engine)
        lost = run.total("drops") + run.total("trims") + run.lost > 0
        _untouched(before, engine)
        if until_ps is None and (self.reliable or not lost):
            _all_complete(engine, why)
        return run


def run_to_end(engine: Engine, most_hops: int) -> str:
    """Run until all is done or there is no hope of it; returns why it ended, in words."""
    delivered, since_ps, since_windows = -1, 0, 0
    while True:
        status = engine.advance(WINDOWS, INF, stop_when_done=True)
        if status in (DONE, IDLE):
            return "nothing can happen any more" if status == IDLE else ""
        progress = engine.count("payload_bytes") + engine.count("finished")
        if progress != delivered:
            delivered, since_ps = progress, engine.now_ps
            since_windows = engine.count("windows")
        waited = engine.count("windows") - since_windows
        if waited > PATIENT_WINDOWS or engine.now_ps - since_ps > PATIENT_PS:
            return f"no progress since {format_time(since_ps, 4)}"
        if engine.count("hops") > most_hops:
            return f"still under way after {engine.count('hops')} packet-hops"


def run_until(engine: Engine, until_ps: int) -> None:
    """Run to a simulated time."""
    while engine.advance(10_000, until_ps) == RUNNING:
        pass


def _most_hops(flows: FlowTable, network: Network) -> int:
    packets = int((-(-flows.size_bytes // PacketFormat().payload_bytes)).sum())
    return HOPS_PER_IDEAL * packets * 2 * network.diameter + 20_000


def _all_complete(engine: Engine, why: str) -> None:
    flows = under_way(engine)
    if flows.size or engine.count("delivered") < len(engine.flows):
        raise ConformanceError(
            f"{flows.size} flows did not complete: {explain(engine, flows, why)}"
        )
    ends = engine.state.ends
    unfinished = np.flatnonzero(ends.tx["finished"] == 0)
    if unfinished.size:
        raise ConformanceError(
            f"flow {unfinished[0]} arrived, but its sender never called finish() "
            f"({unfinished.size} flows; {why})"
        )
    early = np.flatnonzero(ends.rx["got_bytes"] != engine.flows.size_bytes)
    if early.size:
        raise ConformanceError(
            f"flow {early[0]}: got_bytes is not its size; only deliver() may change it"
        )


def _static(engine: Engine) -> list[np.ndarray]:
    ends = engine.state.ends
    return [np.array(side[name]) for side in (ends.tx, ends.rx) for name in STATIC]


def _untouched(before: Sequence[np.ndarray], engine: Engine) -> None:
    names = [f"{side}.{name}" for side in ("tx", "rx") for name in STATIC]
    for name, was, now in zip(names, before, _static(engine), strict=True):
        if not np.array_equal(was, now):
            raise ConformanceError(f"{name} was changed; it belongs to the engine")
