"""What a run will take, before it is started: packets, memory, time."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from netsim.engine.simulation import FeatureSet
from netsim.errors import InputError
from netsim.experiment.scenario import Scenario, is_closed_form, prepare
from netsim.memory import available_bytes
from netsim.model.fabric import PATH_FOR_LIFE, packet_counts
from netsim.running.work import COMPILE_S, LOAD_S, Work, work
from netsim.units import format_bytes

if TYPE_CHECKING:
    from netsim.experiment import Point

RESENDS = 1.01
"""From here on, packets that are sent several times are worth a word."""

BASE_BYTES = 232_000_000
"""The interpreter, the libraries and the compiled code, loaded (to compile takes as much again)."""

STATE_BYTES_PER_FLOW = 1000
"""Both sides' records, timers, and the flow's row in traffic, ideal times and results."""

STATE_BYTES_PER_TASK = 300
"""Its record, edges and timer (180 of them), and its row in traffic and results."""

HOST_BYTES = 250
"""A host's record, its route and its events."""

ROW_BYTES = 280
"""A row of the table of links, as it is collected."""

PAGE_BYTES = 4096
"""Memory comes in pages, and a packet touches one."""

GROWN, GROWN_PAUSING = 1.05, 1.15
"""What the places of packets come to when some have become longer, where all are used."""


@dataclass(frozen=True)
class Estimate:
    """Prediction for one point.

    `seconds` are those of the simulation; `setup_seconds` come before and after it, and those of
    `Code` once for each transport and fabric. `notes` are those of its traffic (`Workload`).
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
    feature_set: FeatureSet
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Code:
    """How many specializations of the engine points need, and how many are not compiled yet."""

    needed: int
    missing: int

    @property
    def seconds(self) -> float:
        """Time to compile what is missing and to load the rest."""
        return self.missing * COMPILE_S + (self.needed - self.missing) * LOAD_S


def code_needed(
    points: Sequence[Point],
    feature_sets: Sequence[FeatureSet],
    *,
    checked: bool = False,
    tracing: bool = False,
) -> Code:
    """The machine code that points need: one for each set of transports and kind of fabric.

    `feature_sets` are those of the points.

    Raises InputError, with the point's file, for transports that cannot be joined.
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
    return Code(len(found), sum(not kept for kept in found.values()))


def feature_set_of(scenario: Scenario) -> FeatureSet:
    """What of the engine a scenario makes use of."""
    return FeatureSet.of(
        scenario.network, scenario.load, scenario.faults, scenario.sampling, scenario.sizes
    )


def estimate(point: Point) -> Estimate:
    """Predict what running `point` takes. Raises InputError if the point cannot be built."""
    return estimate_scenario(point, prepare(point))


def estimate_scenario(point: Point, scenario: Scenario) -> Estimate:
    """As `estimate`, for a point whose network and traffic are built."""
    network, flows = scenario.network, scenario.flows
    todo = work(point, scenario)
    closed = is_closed_form(point)
    return Estimate(
        n_hosts=network.n_hosts,
        n_switches=network.n_switches,
        n_links=network.n_links,
        n_flows=len(flows),
        packets=todo.packets,
        packet_hops=0 if closed else todo.hops,
        simulated_ps=todo.simulated_ps,
        memory_bytes=_memory(scenario, point, None if closed else todo),
        seconds=0.0 if closed else todo.seconds(os.cpu_count() or 1),
        setup_seconds=todo.setup_seconds,
        assumptions="nothing is simulated" if closed else _assumptions(scenario, todo),
        feature_set=feature_set_of(scenario),
        notes=scenario.notes,
    )


def require_memory(estimate: Estimate, *, what: str, available: int | None = None) -> None:
    """Raise InputError if a run of `what` needs more memory than there is."""
    room = available_bytes() if available is None else available
    if room is None or estimate.memory_bytes <= room:
        return
    raise InputError(
        f"needs about {format_bytes(estimate.memory_bytes, 3)} of memory, "
        f"{format_bytes(room, 3)} are available",
        file=what,
        hint=f"{estimate.n_hosts:,} hosts, {estimate.n_links:,} links, "
        f"{estimate.n_flows:,} flows, {estimate.packets:,} packets",
    )


def _assumptions(scenario: Scenario, todo: Work) -> str:
    """What the prediction for a point takes for granted, in one line."""
    from netsim.engine.compiling.program import program_of

    parts = [f"{todo.control_per_data:.3g} control packets per data packet"]
    if todo.resent > RESENDS:
        parts.append("packets that shared paths trim are sent again at the same rate")
    else:
        parts.append("no retransmissions")
    if scenario.load.program is not None:
        known = [part.assumption for part in scenario.load.parts if part.assumption]
        parts += known or ["no time for what the program has hosts do"]
        if program_of(scenario.load.program.use).resizes:
            parts.append("flows as long as the traffic lists them, of which the program sets sizes")
    if scenario.faults is not None:
        parts.append("no slowing down after losses and failures")
    if scenario.fabric.load_balancing in PATH_FOR_LIFE:
        parts.append("other random paths than those of the run")
    parts.append(
        "as much simulated time as the busiest link, the last flow or chain of tasks needs"
    )
    return ", ".join(parts)


def _memory(scenario: Scenario, point: Point, todo: Work | None) -> int:
    """The most memory that a point takes; `todo` is None where nothing is simulated."""
    n_bytes = BASE_BYTES + len(scenario.flows) * STATE_BYTES_PER_FLOW
    if todo is None:
        return n_bytes
    from netsim.engine import circuits, sizes

    network, classes = scenario.network, scenario.fabric.n_traffic_classes
    queue_bytes = classes * (sizes.QUEUE_BYTES + ROW_BYTES)
    return (
        n_bytes
        + (0 if scenario.load.tasks is None else len(scenario.load.tasks)) * STATE_BYTES_PER_TASK
        + _program_bytes(scenario)
        + network.n_hosts * HOST_BYTES
        + network.n_ports * (sizes.PORT_BYTES + queue_bytes)
        + network.route.nbytes
        + (0 if network.time_slots is None else network.time_slots.nbytes)
        + circuits.memory_bytes(network, classes)
        + _pool_bytes(scenario, point, todo)
        + _bitmap_bytes(scenario, point)
        + _series_bytes(scenario, point, todo)
    )


def _program_bytes(scenario: Scenario) -> int:
    """What the state of a program takes."""
    from netsim.engine.compiling.program import NO_PROGRAM, program_of

    program = scenario.load.program
    if program is None:
        return 0
    read, none = program_of(program.use), NO_PROGRAM
    of_tasks = program.n_tasks * (read.task.itemsize - none.task.itemsize)
    return of_tasks + scenario.network.n_hosts * read.host.itemsize


def _series_bytes(scenario: Scenario, point: Point, todo: Work) -> int:
    """What series take. Raises InputError if their budget is for too few intervals."""
    from netsim.engine.series import memory_bytes

    if scenario.sampling is None:
        return 0
    n_traffic_classes = scenario.fabric.n_traffic_classes
    try:
        return memory_bytes(
            scenario.sampling, scenario.network, n_traffic_classes, todo.simulated_ps
        )
    except InputError as error:
        raise error.at(file=point.file) from None


def _pool_bytes(scenario: Scenario, point: Point, todo: Work) -> int:
    """What is touched of the places where packets are.

    In a network of which little is used that is a page for each packet, until the rings of a port
    have gone round.
    """
    from netsim.engine import sizes

    network, fabric = scenario.network, scenario.fabric
    initial = sizes.initial_sizes(network, point.packets)
    rings = sizes.Rings.of(network, fabric.n_traffic_classes, initial)
    ingress = sizes.INGRESS_BYTES * (rings.control_at - rings.queues_at) if fabric.coupled else 0
    all_bytes = rings.used * sizes.SLOT_BYTES
    if not sizes.is_sparse(network, scenario.flows):
        return int((GROWN_PAUSING if fabric.coupled else GROWN) * all_bytes) + ingress
    port_slots = initial.link_slots + fabric.n_traffic_classes * initial.queue_slots
    port_bytes = port_slots * sizes.SLOT_BYTES
    return min(all_bytes + ingress, todo.path_ports * port_bytes, todo.hops * PAGE_BYTES)


def _bitmap_bytes(scenario: Scenario, point: Point) -> int:
    """What the transports' bitmaps take: a bit for every packet, in words of 32."""
    modules = [use.module for use in point.transport_of_class]
    bitmaps = sum(
        max(int(getattr(module, name, 0)) for module in modules)
        for name in ("TX_BITMAPS", "RX_BITMAPS")
    )
    words = (packet_counts(scenario.flows.size_bytes, point.packets) + 31) // 32
    return 8 * bitmaps * int(words.sum())
