"""Run a case of the reference simulator on the engine."""

import random
from collections.abc import Callable
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from engine_runs import NARROW, keep_sent, packets_sent
from network_case import network_of, routes_of
from reference.model import Case, Counters

from netsim.engine.engine import Engine
from netsim.engine.kernels.layout import INF, RUNNING
from netsim.engine.simulation import Options, Simulation
from netsim.engine.snapshot import Snapshot
from netsim.model.fabric import (
    CircuitRules,
    Ecn,
    Fabric,
    LinkRetry,
    Nic,
    PacketFormat,
    PortSizes,
    queue_spec,
    routing_spec,
)
from netsim.model.faults import NOMINAL, CarrierDelays, LinkFault, LinkFaults, combine
from netsim.model.flows import FlowTable
from netsim.model.sampling import Sampling
from netsim.model.workload import ACKED, KINDS, ProgramSpec, TaskTable, Workload, program_spec
from netsim.plugins import registry
from netsim.plugins.registry import Plugin, PluginSpec

MIXED = Path(__file__).parent / "mixed_queue.py"
MIXED_TRANSPORT = Path(__file__).parent / "mixed_transport.py"
MIXED_PROGRAM = Path(__file__).parent / "mixed_program.py"
SIZED = Path(__file__).parent / "sized_datagram.py"

NAMES = {
    "rto_ps": "rto",
    "rate_bps": "rate",
    "target_ps": "target",
    "interval_ps": "interval",
    "gap_ps": "gap",
    "update_period_ps": "update_period",
    "watchdog_poll_ps": "watchdog_poll",
    "watchdog_detect_ps": "watchdog_detect",
    "watchdog_restore_ps": "watchdog_restore",
    "base_rtt_ps": "base_rtt",
    "flowlet_gap_ps": "flowlet_gap",
    "feedback_age_ps": "feedback_age",
    "dre_period_ps": "dre_period",
    "publish_delay_ps": "publish_delay",
    "tick_ps": "tick",
}
"""The reference's parameter names -> the engine's, where they differ."""


def transport_of(case: Case) -> Plugin:
    """Return the case's transport; with pFabric, a datagram that reports what remains."""
    if case.transport == "mixed":
        return registry.find("transport", str(MIXED_TRANSPORT))
    sized = case.transport == "datagram" and case.fabric["queue_discipline"] == "pfabric"
    return registry.find("transport", str(SIZED) if sized else case.transport)


def fabric_of(case: Case) -> Fabric:
    given = {k: v for k, v in case.fabric.items() if v is not None and k != "ecn"}
    ecn, circuits = case.fabric.get("ecn"), given.pop("circuits", None)
    given = {NAMES.get(name, name): value for name, value in given.items()}
    shared = {one.name: given.pop(one.name) for one in fields(Fabric) if one.name in given}
    routing = routing_spec(shared["routing"])
    own = {name: value for name, value in given.items() if name in routing.params}
    shared["routing"] = replace(routing, params={**routing.params, **own})
    model = given.pop("queue_discipline")
    queue = queue_spec(str(MIXED) if model == "mixed" else model)
    own = {name: value for name, value in given.items() if name in queue.params}
    queue = replace(queue, params={**queue.params, **own})
    rules = CircuitRules(**circuits) if circuits else None
    llr = LinkRetry(**case.llr) if case.llr else None
    return Fabric(queue, **shared, ecn=Ecn(**ecn) if ecn else None, circuits=rules, llr=llr)


def packets_of(case: Case) -> PacketFormat:
    times = {
        f"{kind}_{what}_ps": value
        for kind, pair in case.nic.items()
        for what, value in zip(("interval", "delay"), pair, strict=True)
    }
    nic = Nic(**times) if times else None
    return PacketFormat(**case.packets, cut_through_bytes=case.cut_through_bytes, nic=nic)


def sizes_of(case: Case) -> PortSizes | None:
    """Return the sizes of single ports; rate and round trip of each kind are unknown."""
    if not case.port_sizes:
        return None
    rows = [case.port_sizes.get(port, {}) for port in range(2 * len(case.cables))]
    kinds = [dict(items) for items in dict.fromkeys(tuple(row.items()) for row in rows)]
    fabrics = []
    for own in kinds:
        ecn = case.fabric["ecn"]
        if ecn is not None:
            ecn = {**ecn, **{name: own[name] for name in own if name in ecn}}
        fabrics.append(fabric_of(replace(case, fabric={**case.fabric, **own, "ecn": ecn})))
    unknown = (0,) * len(kinds)
    kind = np.array([kinds.index(row) for row in rows])
    return PortSizes(tuple(fabrics), unknown, unknown, kind)


def params_of(plugin: Plugin, params: dict[str, Any]) -> dict[str, Any]:
    given = {NAMES.get(k, k): v for k, v in params.items()}
    return {p.name: given.get(p.name, p.convert(p.default)) for p in plugin.params}


def transports_of(case: Case) -> tuple[tuple[PluginSpec, ...], npt.NDArray[np.int64] | None]:
    """Return the case's transports, and each flow's index if there are several."""
    plugin = transport_of(case)
    uses = [PluginSpec(plugin, params_of(plugin, case.params))]
    if not case.beside:
        return tuple(uses), None
    others = list({name: (name, params) for name, params in case.beside.values()}.values())
    for name, params in others:
        plugin = registry.find("transport", name)
        uses.append(PluginSpec(plugin, params_of(plugin, params)))
    of_flow = np.zeros(len(case.flows), np.int64)
    for flow, used in case.beside.items():
        of_flow[flow] = 1 + others.index(used)
    return tuple(uses), of_flow


def flows_of(case: Case) -> FlowTable:
    src, dst, size, start = (np.array(column) for column in zip(*case.flows, strict=True))
    table = FlowTable(src, dst, size, start)
    if case.after:
        table.wait_for([case.after.get(f, ()) for f in range(len(case.flows))])
    table.use_nics([case.nics.get(flow, -1) for flow in range(len(table))])
    if case.policy is not None:
        of_flow = {flow: n for flow, n in case.policy.of_flow.items() if flow % 2 == 0}
        names = ("", *map(str, range(len(case.policy.cables))))
        table.use_tables([1 + of_flow.get(flow, -1) for flow in range(len(table))], names)
    return table


def tasks_of(case: Case) -> TaskTable | None:
    if not case.tasks:
        return None
    table = TaskTable(
        [KINDS.index(task.kind) for task in case.tasks],
        [task.host for task in case.tasks],
        [task.duration_ps for task in case.tasks],
        stream=[task.stream for task in case.tasks],
        flow=[task.flow for task in case.tasks],
        done_when=[ACKED * task.acked for task in case.tasks],
        deferred=[task.deferred for task in case.tasks],
    )
    table.wait_for([task.after for task in case.tasks])
    table.validate(flows_of(case), case.n_hosts)
    return table


def program_of(case: Case) -> ProgramSpec | None:
    """Return the program of the case's last tasks."""
    if case.program is None:
        return None
    given = {NAMES.get(name, name): value for name, value in case.program.items()}
    first = given.pop("first")
    n_tasks = len(case.tasks) - first
    use = PluginSpec(registry.find("traffic", str(MIXED_PROGRAM)), given)
    listed = [case.flows[max(0, task.flow)][2] for task in case.tasks[first:]]
    state = {"weight": 7 * np.arange(n_tasks), "share": 0.25, "listed": listed}
    return replace(program_spec(use, n_tasks, case.n_hosts, state, {}, 10**6), first_task=first)


def faults_of(case: Case) -> LinkFaults | None:
    """Return one fault per interval, and another for the outages."""
    faults = []
    for port, fault in case.faults.items():
        ends = [interval.start_ps for interval in fault.intervals[1:]] + [INF]
        for interval, until in zip(fault.intervals, ends, strict=True):
            chance = {"loss": interval.loss, "bit_error_rate": interval.bit_error_rate}
            times = {"at_ps": interval.start_ps, "until_ps": until}
            rate = interval.rate_bps or NOMINAL
            faults.append(LinkFault(np.array([port]), rate_bps=rate, **chance, **times))
        faults.append(LinkFault(np.array([port]), outages_ps=fault.outages))
    if not faults and not case.reroutes:
        return None
    carrier = None if case.carrier is None else CarrierDelays(*case.carrier)
    found = combine(faults, 2 * len(case.cables))
    return replace(found, routes=routes_of(case), carrier=carrier)


def engine_for(
    case: Case,
    *,
    trace: bool = True,
    sampling: Sampling | None = None,
    load: Workload | None = None,
    make: Callable[[Simulation, Options], Engine] = Engine,
    **options: Any,
) -> Engine:
    """Return an engine for the case; ``trace`` makes it keep every packet (`keep_sent`). ``load``
    replaces the case's flows and tasks. ``make`` builds the engine."""
    load = load or Workload(flows_of(case), tasks_of(case))
    uses, of_flow = transports_of(case)
    simulation = Simulation(
        network_of(case),
        load.flows,
        fabric_of(case),
        packets_of(case),
        uses,
        case.seed,
        faults=faults_of(case),
        tasks=load.tasks,
        program=program_of(case),
        sampling=sampling,
        sizes=sizes_of(case),
        transport_of_flow=of_flow,
    )
    engine = make(simulation, Options(**options))
    return keep_sent(engine) if trace else engine


def run(engine: Engine, until_ps: int | None = None) -> Engine:
    """Run to the end, or to ``until_ps``."""
    while engine.advance(1000, INF if until_ps is None else until_ps) == RUNNING:
        pass
    return engine


def kept(engine: Engine) -> Snapshot:
    """Return a copy of the engine's snapshot, which later steps do not change."""
    taken = engine.snapshot()
    return {place: one._replace(raw=one.raw.copy()) for place, one in taken.items()}


def run_in_pieces(case: Case, seed: int, windows: int, **options: Any) -> Engine:
    """Run a case to its end in several engines, each restored from a snapshot of the one before.

    The seed picks the windows of the snapshots, among the first `windows`. The earlier engine then
    runs a little further, which must not affect the snapshot.
    """
    rng = random.Random(seed)
    options = {"sizes": NARROW, "jit": False, **options}
    until_ps = INF if case.until_ps is None else case.until_ps
    engine = engine_for(case, trace=False, **options)
    for _ in range(rng.randint(1, 3)):
        engine.advance(rng.randint(0, max(1, windows // 2)), until_ps)
        snapshot, digest = kept(engine), engine.digest()
        engine.advance(rng.randint(0, 5), until_ps)
        engine = engine_for(case, trace=False, **options)
        engine.restore(snapshot)
        assert engine.digest() == digest
    return run(engine, until_ps)


SENT = ("kind", "flow", "seq", "aux", "size_bytes", "prio", "ecn", "entropy")


def departures(engine: Engine, port: int) -> list[tuple[int, ...]]:
    """Return a port's packets, if the engine keeps them: arrival, kind, flow, seq, aux, size, prio,
    flags, entropy. The arrival implies start and rate of the transmission."""
    return sorted(
        (int(pkt["time"]), *(int(pkt[name]) for name in SENT)) for pkt in packets_sent(engine, port)
    )


def flow_results(engine: Engine) -> list[tuple[int, int, int, int]]:
    """Return (fct_ps, acked_ps, retransmits, packets_sent) of each flow, -1 if unfinished."""
    states = engine.flow_states()
    results = []
    for f in range(len(engine.flows)):
        start = int(states.start_ps[f])
        done, acked = int(states.done_ps[f]), int(states.acked_ps[f])
        counts = int(states.retransmits[f]), int(states.sent_packets[f])
        since = (t - start if t >= 0 else -1 for t in (done, acked))
        results.append((*since, *counts))
    return results


def log_rows(engine: Engine) -> list[tuple[int, ...]]:
    """Return the program's log rows: host, time and its own numbers."""
    log = engine.program_log() or {}
    return list(zip(*(column.tolist() for column in log.values()), strict=True))


def task_results(engine: Engine) -> list[tuple[int, ...]]:
    """Return (ready_ps, start_ps, end_ps, runs, busy_ps) of each task, -1 if missing."""
    states = engine.task_states()
    columns = (states.ready_ps, states.start_ps, states.end_ps, states.runs, states.busy_ps)
    return list(zip(*(column.tolist() for column in columns), strict=True))


def slot_begins(engine: Engine, end_ps: int) -> list[int]:
    """Return the starts of phase-driven circuit slots before a time."""
    begins: list[int] = engine.slot_states().begin_ps.tolist()
    return [begin for begin in begins if 0 <= begin < end_ps]


def counters_of(engine: Engine, end_ps: int) -> list[dict[str, int]]:
    """Return the counters of every port and class; ongoing pauses count up to ``end_ps``."""
    links, classes = engine.link_counters(), engine.fabric.n_link_classes
    paused = engine.paused_classes()
    counters = []
    for i in range(engine.network.n_ports * classes):
        found = {field.name: int(getattr(links, field.name)[i]) for field in fields(Counters)}
        if int(paused[i // classes]) >> i % classes & 1:
            found["paused_ps"] -= engine.now_ps - end_ps
        counters.append(found)
    return counters
