"""Predict the packets, memory and time of a run before it starts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from netsim.engine.simulation import FeatureSet
from netsim.errors import InputError
from netsim.experiment.scenario import Built, Scenario, is_closed_form, key_of, prepare
from netsim.memory import available_bytes, available_cores
from netsim.model.fabric import packet_counts
from netsim.running.work import COMPILE_S, LOAD_S, Work, work
from netsim.steps import step
from netsim.units import format_bytes

if TYPE_CHECKING:
    from netsim.experiment import Point

MIN_RESENT = 1.01
"""Transmissions per data packet above which retransmissions are mentioned."""

BASE_BYTES = 165_000_000
"""Interpreter, libraries and loaded code; compiling takes 250 MB more."""

STATE_BYTES_PER_FLOW = 1000
"""Records of both sides, timers, and rows in traffic, ideal times and results."""

STATE_BYTES_PER_TASK = 300
"""Record, edges and timer (180 bytes), and rows in traffic and results."""

HOST_BYTES = 250
"""A host's record, route and events."""

ROW_BYTES = 280
"""A row of the links table while it is built."""

RESULT_FLOW_BYTES, HELD_FLOW_BYTES, SET_UP_FLOW_BYTES = 125, 150, 700
"""A flow's rows in results, in traffic, and its records on a rank that sets it up."""

HELD_PORT_BYTES, HELD_HOST_BYTES = 80, 140
"""What every rank of a run over MPI has of each port and each host of the whole network."""

SCATTERED_BYTES = 3 * 4096
"""Pages that hold the records of a flow between other ranks' rows."""

NO_FEATURES = FeatureSet()

WAITING, WAITING_PAUSING = 0, 40
"""Slots per port for packets that wait in queues, without and with PFC."""


@dataclass(frozen=True)
class Memory:
    """What a simulation needs memory for, in bytes.

    Ranks of a run over MPI have `held` each, and divide `state` and `packets`. `ends` are the parts
    of `state` of which they also have the rows at the other ends of their cables, and `flows` those
    of flows that they set up; `n_flows` may be set up anywhere. Rank 0 gathers `state` when it
    writes `results`.
    """

    held: int
    state: int
    ends: int
    flows: int
    n_flows: int
    packets: int
    results: int

    def of_ranks(self, n: int) -> tuple[int, int]:
        """Return the bytes of rank 0 and of each other one of ``n`` ranks."""
        of_flows = min(self.flows, self.n_flows * SCATTERED_BYTES // n)
        other = self.held + (self.state + self.ends + self.packets) // n + of_flows
        first = self.held + self.state + self.packets // n + self.results
        return max(first, other), other


@dataclass(frozen=True)
class Estimate:
    """Prediction for one point.

    `seconds` are those of the simulation on all cores, `setup_seconds` come before and after it,
    and those of `Code` once per transport and fabric. `notes` are the traffic's (`Workload`), `pfc`
    and `far` are the scenario's. `work` and `memory` are None if nothing is simulated. `advice` is
    the traffic's for a budget of time (`WorkloadPart.advice`).
    """

    n_hosts: int
    n_switches: int
    n_links: int
    n_flows: int
    packets: int
    packet_hops: int
    simulated_ps: int
    memory_bytes: int
    seconds: float
    setup_seconds: float
    assumptions: str
    feature_set: FeatureSet = NO_FEATURES
    notes: tuple[str, ...] = ()
    pfc: str | None = None
    far: tuple[str, ...] = ()
    work: Work | None = None
    memory: Memory | None = None
    advice: tuple[str, ...] = ()

    def seconds_with(self, threads: int) -> float:
        """Wall-clock time of the point with this many threads, without loading its code."""
        simulation_s = self.seconds if self.work is None else self.work.seconds(threads)
        return simulation_s + self.setup_seconds


@dataclass(frozen=True)
class Code:
    """Specializations of the engine that points need, and how many are not compiled yet."""

    needed: int
    missing: int

    @property
    def seconds(self) -> float:
        """Time to compile what is missing and load the rest."""
        return self.missing * COMPILE_S + (self.needed - self.missing) * LOAD_S


def code_needed(
    points: Sequence[Point],
    feature_sets: Sequence[FeatureSet],
    *,
    checked: bool = False,
    tracing: bool = False,
) -> Code:
    """Return the machine code that points need: one per set of transports and kind of fabric.

    Raises InputError, with the point's file, for transports that cannot be combined.
    """
    from netsim.engine.engine import code_of

    found = {}
    for point, of_point in zip(points, feature_sets, strict=True):
        if not is_closed_form(point):
            uses = point.transport_of_class
            try:
                code = code_of(uses, point.fabric, of_point, checked=checked, tracing=tracing)
            except InputError as error:
                raise error.at(file=point.file) from None
            if code.key not in found:
                found[code.key] = code.is_kept()
    return Code(len(found), sum(not cached for cached in found.values()))


def feature_set_of(scenario: Scenario) -> FeatureSet:
    """Return the engine features that a scenario uses."""
    return FeatureSet.of(
        scenario.network, scenario.load, scenario.faults, scenario.sampling, scenario.sizes
    )


def estimate(point: Point, budget_s: float | None = None, last: Built | None = None) -> Estimate:
    """Predict a run of `point`, which may share what was built `last`, with advice for a budget of
    time. Raises InputError if it cannot be built."""
    scenario = prepare(point, last)
    found = estimate_scenario(point, scenario)
    if budget_s is None:
        return found
    told = (part.advice(budget_s, found.seconds) for part in scenario.load.parts)
    return replace(found, advice=tuple(text for text in told if text))


def estimate_each(
    points: Sequence[Point], budget_s: float | None = None
) -> Iterator[tuple[Point, Estimate]]:
    """Yield points with their predictions, the first one with advice for a budget of time; those of
    the same network and traffic, which are built once, follow each other. Raises InputError as
    `estimate`."""
    places: dict[str, int] = {}
    order = {point.index: places.setdefault(key_of(point), len(places)) for point in points}
    last = Built()
    for done, point in enumerate(sorted(points, key=lambda point: order[point.index])):
        step(f"building and predicting {point.name}", done, len(points))
        yield point, estimate(point, None if done else budget_s, last)


def estimate_scenario(
    point: Point, scenario: Scenario, simulated_ps: int | None = None
) -> Estimate:
    """Predict a run of a point whose network and traffic are built, and perhaps its simulated
    time."""
    network, flows = scenario.network, scenario.flows
    needed = work(point, scenario, simulated_ps)
    closed = is_closed_form(point)
    return Estimate(
        n_hosts=network.n_hosts,
        n_switches=network.n_switches,
        n_links=network.n_links,
        n_flows=len(flows),
        packets=needed.packets,
        packet_hops=0 if closed else needed.hops,
        simulated_ps=needed.simulated_ps,
        memory_bytes=_memory(scenario, point, None if closed else needed),
        seconds=0.0 if closed else needed.seconds(available_cores()),
        setup_seconds=needed.setup_seconds,
        assumptions="nothing is simulated" if closed else _assumptions(scenario, needed),
        feature_set=feature_set_of(scenario),
        notes=(*scenario.notes, *_overload(needed)),
        pfc=scenario.pfc,
        far=scenario.far,
        work=None if closed else needed,
        memory=None if closed else _memory_of_ranks(scenario, point, needed),
    )


def _overload(needed: Work) -> Iterator[str]:
    if needed.offered > 1:
        yield (
            f"arrivals offer the links between switches {needed.offered:.2f} times what they "
            "carry: completion times grow with the number of arrivals"
        )


def require_memory(
    estimate: Estimate, *, what: str, available: int | None = None, where: str = ""
) -> None:
    """Raise InputError if `what` needs more memory than is available."""
    room = available_bytes() if available is None else available
    if room is None or estimate.memory_bytes <= room:
        return
    raise InputError(
        f"needs about {format_bytes(estimate.memory_bytes, 3)} of memory, "
        f"only {format_bytes(room, 3)} is available{where}",
        file=what,
        hint=f"{estimate.n_hosts:,} hosts, {estimate.n_links:,} links, "
        f"{estimate.n_flows:,} flows, {estimate.packets:,} packets",
    )


def _assumptions(scenario: Scenario, needed: Work) -> str:
    """Return the prediction's assumptions in one line."""
    from netsim.engine.compiling.declarations import program_of

    parts = [f"{needed.control_per_data:.3g} control packets per data packet"]
    if needed.resent > MIN_RESENT:
        parts.append("trimmed packets are resent at the same rate")
    else:
        parts.append("no retransmissions")
    if scenario.load.program is not None:
        known = [part.assumption for part in scenario.load.parts if part.assumption]
        parts += known or ["no time for tasks of the program"]
        if program_of(scenario.load.program.use).resizes:
            parts.append("flow sizes as listed, before the program changes them")
    if scenario.faults is not None:
        parts.append("no slowdown after losses and failures")
    if scenario.fabric.one_path:
        parts.append("random paths that differ from those of the run")
    parts.append("simulated time of the busiest link, last flow or longest chain of tasks")
    return ", ".join(parts)


def _memory(scenario: Scenario, point: Point, needed: Work | None) -> int:
    """Return the peak memory of a point; `needed` is None if nothing is simulated."""
    n_bytes = BASE_BYTES + len(scenario.flows) * STATE_BYTES_PER_FLOW
    if needed is None:
        return n_bytes
    from netsim.engine import circuits, routing_state, sizes

    network, classes = scenario.network, scenario.fabric.n_link_classes
    queue_bytes = classes * (sizes.QUEUE_BYTES + ROW_BYTES)
    return (
        n_bytes
        + (0 if scenario.load.tasks is None else len(scenario.load.tasks)) * STATE_BYTES_PER_TASK
        + _program_bytes(scenario)
        + network.n_hosts * HOST_BYTES
        + network.n_ports * (sizes.PORT_BYTES + queue_bytes)
        + routing_state.memory_bytes(network, scenario.fabric)
        + network.route.nbytes
        + (0 if network.time_slots is None else network.time_slots.nbytes)
        + circuits.memory_bytes(network, classes)
        + _pool_bytes(scenario, point, needed)
        + _bitmap_bytes(scenario, point)
        + _series_bytes(scenario, point, needed)
        + _readings_bytes(scenario, point)
    )


def _memory_of_ranks(scenario: Scenario, point: Point, needed: Work) -> Memory:
    """Return what `_memory` is for, with what ranks have of the whole network."""
    from netsim.engine import circuits, sizes

    network, classes, n = scenario.network, scenario.fabric.n_link_classes, len(scenario.flows)
    results = n * RESULT_FLOW_BYTES + network.n_ports * classes * ROW_BYTES
    packets = _pool_bytes(scenario, point, needed)
    tables = network.route.nbytes + circuits.memory_bytes(network, classes)
    tables += 0 if network.time_slots is None else network.time_slots.nbytes
    divided = _memory(scenario, point, needed) - BASE_BYTES - results - packets - tables
    held = network.n_ports * HELD_PORT_BYTES + network.n_hosts * HELD_HOST_BYTES
    return Memory(
        held=BASE_BYTES + tables + held + n * HELD_FLOW_BYTES,
        state=divided - n * HELD_FLOW_BYTES,
        ends=network.n_ports * sizes.PORT_BYTES,
        flows=n * SET_UP_FLOW_BYTES,
        n_flows=n,
        packets=packets,
        results=results,
    )


def _program_bytes(scenario: Scenario) -> int:
    from netsim.engine.compiling.declarations import NO_PROGRAM, program_of

    program = scenario.load.program
    if program is None:
        return 0
    read, none = program_of(program.use), NO_PROGRAM
    of_tasks = program.n_tasks * (read.task.itemsize - none.task.itemsize)
    return of_tasks + scenario.network.n_hosts * read.host.itemsize


def _series_bytes(scenario: Scenario, point: Point, needed: Work) -> int:
    """Return the memory of series. Raises InputError if their budget is too small."""
    from netsim.engine.series import memory_bytes

    if scenario.sampling is None:
        return 0
    n_traffic_classes = scenario.fabric.n_link_classes
    try:
        return memory_bytes(
            scenario.sampling, scenario.network, n_traffic_classes, needed.simulated_ps
        )
    except InputError as error:
        raise error.at(file=point.file) from None


def _readings_bytes(scenario: Scenario, point: Point) -> int:
    """Return the memory of what [measure] reads at both ends of its window."""
    from netsim.engine.readings import OF_QUEUES

    if point.measure is None:
        return 0
    n_queues = scenario.network.n_ports * scenario.fabric.n_traffic_classes
    return 2 * 8 * (len(scenario.flows) + len(OF_QUEUES) * n_queues)


def _pool_bytes(scenario: Scenario, point: Point, needed: Work) -> int:
    """Return the memory of packets: those that fly over busy links, those that wait, the parts of
    a link's first and last block that hold none, and the first rings of its queues."""
    from netsim.engine import sizes
    from netsim.engine.kernels.rings import BLOCK_SLOTS, FIRST_RING

    network, fabric = scenario.network, scenario.fabric
    slot_bytes = sizes.SLOT_BYTES + (sizes.INGRESS_BYTES if fabric.coupled else 0)
    per_delay = network.port_rate_bps * (network.port_delay_ps / 8e12) / point.packets.data_bytes
    flying = float(per_delay.mean()) * (1 + needed.control_per_data)
    rest = BLOCK_SLOTS + FIRST_RING * fabric.n_link_classes
    per_port = min(flying, needed.hops / needed.path_ports) + rest
    waiting = WAITING_PAUSING if fabric.coupled else WAITING
    return int(needed.path_ports * (waiting + per_port) * slot_bytes)


def _bitmap_bytes(scenario: Scenario, point: Point) -> int:
    """Return the memory of the transports' bitmaps: a bit per packet, in words of 32."""
    modules = [use.module for use in point.transport_of_class]
    bitmaps = sum(
        max(int(getattr(module, name, 0)) for module in modules)
        for name in ("TX_BITMAPS", "RX_BITMAPS")
    )
    words = (packet_counts(scenario.flows.size_bytes, point.packets) + 31) // 32
    return 8 * bitmaps * int(words.sum())
