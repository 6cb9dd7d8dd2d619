"""From the engine's state to the tables and figures of a result."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np

from netsim.bounds.fair_shares import hashed_times
from netsim.errors import InputError, RunError
from netsim.model.lanes import DEALT_EVENLY, ENTROPY
from netsim.model.tasks import COMPUTE, KINDS
from netsim.results.run_result import Ending, RunResult, Table
from netsim.running.circuits import circuit_columns, circuit_figures, slot_table
from netsim.running.drive import FINISHED
from netsim.running.fault_log import fault_figures, fault_table
from netsim.running.flow_tables import as_sent, ideal_flows, simulated_flows
from netsim.running.recovery import recovery_figures
from netsim.running.series import series_figures, series_table
from netsim.running.serving import serving_result
from netsim.workloads.operations.job_figures import job_figures
from netsim.workloads.operations.operation_rows import operation_table
from netsim.workloads.operations.table import JobSteps, OperationTable
from netsim.workloads.serving.data import ServingPlan

if TYPE_CHECKING:
    from netsim.engine.engine import Engine
    from netsim.experiment import Point
    from netsim.experiment.scenario import Scenario
    from netsim.model.network import Network

SUMS = ("drops", "lost", "unroutable", "trims", "ecn_marks")
"""Columns of the links table whose sums the summary has."""

LINK_COUNTERS = {
    "bytes": "sent_bytes",
    "packets": "sent_packets",
    "drops": "drops",
    "drop_bytes": "drop_bytes",
    "trims": "trims",
    "ecn_marks": "ecn_marks",
    "max_queue_bytes": "max_queue_bytes",
    "pfc_pauses_sent": "pfc_pauses",
}
"""Columns of the links table and the engine's counters (`LinkCounters`) that they show."""

WHOSE_FAULT = (
    "a bug of netsim, or a handler that writes past its own arrays: `netsim run --check-bounds` "
    "and `netsim check-transport` find such a handler"
)


def engine_result(
    point: Point,
    scenario: Scenario,
    engine: Engine,
    ending: Ending,
    timings: Mapping[str, Any],
) -> RunResult:
    """What an engine has simulated; `timings` are wall_s, compile_s and threads of the summary.

    Raises RunError if packets or bytes are not conserved, or requests.
    """
    conservation = conserve(engine)
    counts, scenario = engine.counts, as_sent(point, scenario, engine.flow_states())
    flows, segments = simulated_flows(point, scenario, engine.flow_states())
    links, tasks = link_table(engine), task_table(engine, scenario)
    slots, operations = slot_table(engine), _operations(engine, scenario)
    noted, plan = engine.program_log(), scenario.load.part(ServingPlan)
    tables, served = serving_result(plan, noted, flows, complete=ending.complete)
    summary = {
        "simulated_ps": counts.now_ps,
        **timings,
        "packet_hops": counts.hops,
        "packet_hops_per_s": counts.hops / timings["wall_s"] if timings["wall_s"] > 0 else 0.0,
        "makespan_ps": makespan_ps(flows, tasks),
        **flow_figures(flows),
        **task_figures(tasks),
        **job_figures(operations, _steps(scenario)),
        **({"flows_unstarted": int((flows["start_ps"] < 0).sum())} if engine.has_program else {}),
        **({} if noted is None else {"log_rows": noted["time_ps"].size}),
        **served,
        **class_figures(point, flows),
        **{name: int(links[name].sum()) for name in SUMS},
        "pfc_pauses": int(links["pfc_pauses_sent"].sum()),
        "conservation": conservation,
        **fair_figures(point, scenario),
        **circuit_figures(engine, slots),
        **series_figures(engine),
        **relay_figures(scenario),
        **traffic_notes(scenario),
    }
    more = {
        "tasks": tasks,
        "operations": operations,
        "relay_segments": segments,
        "circuit_slots": slots,
        "log": noted,
    }
    more |= tables
    more["series"] = series_table(engine)
    if engine.faults is not None:
        log = fault_table(engine.network, engine.faults, counts.now_ps)
        summary["faults"] = fault_figures(log, engine.network, engine.faults)
        summary |= recovery_figures(engine)
        more["faults"] = log
    return RunResult.of(flows, links, summary, ending, **more)


def closed_form_result(point: Point, scenario: Scenario) -> RunResult:
    """The result of a transport whose completion times are the ideal ones."""
    flows = ideal_flows(point, scenario)
    links = {name: np.zeros(0, np.int64) for name in ("link", "traffic_class", *LINK_COUNTERS)}
    summary = {
        "simulated_ps": makespan_ps(flows, None),
        "wall_s": 0.0,
        "compile_s": 0.0,
        "threads": 0,
        "packet_hops": 0,
        "packet_hops_per_s": 0.0,
        "makespan_ps": makespan_ps(flows, None),
        **flow_figures(flows),
        **dict.fromkeys(SUMS, 0),
        "pfc_pauses": 0,
        **traffic_notes(scenario),
    }
    return RunResult.of(flows, links, summary, Ending(FINISHED, complete=True))


def task_table(engine: Engine, scenario: Scenario) -> Table | None:
    """One row a task, if there are tasks; without those by which messages are relayed."""
    tasks, states, segments = engine.tasks, engine.task_states(), scenario.segments
    if tasks is None or (segments is not None and segments.tasks is None):
        return None
    table: Table = {
        "task": np.arange(len(tasks)),
        "host": tasks.host,
        "kind": np.array(KINDS)[tasks.kind],
        "stream": np.where(tasks.kind == COMPUTE, tasks.stream, -1),
        "flow": tasks.flow if segments is None else segments.of_flows(tasks.flow),
        "ready_ps": states.ready_ps,
        "start_ps": states.start_ps,
        "end_ps": states.end_ps,
        **({"runs": states.runs, "busy_ps": states.busy_ps} if engine.has_program else {}),
        **({"label": np.array(tasks.label)} if tasks.label is not None else {}),
    }
    if segments is None or segments.tasks is None:
        return table
    return {name: column[: len(segments.tasks)] for name, column in table.items()}


def traffic_notes(scenario: Scenario) -> dict[str, list[str]]:
    """What is to be known of the traffic beside its flows."""
    return {"traffic": list(scenario.notes)} if scenario.notes else {}


def _operations(engine: Engine, scenario: Scenario) -> Table | None:
    """The table of operations, if the traffic tells of any."""
    operations = scenario.load.part(OperationTable)
    steps = None if operations is None else operations.steps
    if operations is None or engine.tasks is None:
        return None
    flows = engine.flow_states()
    started = np.where(flows.waits_for > 0, -1, flows.start_ps)
    step = None if steps is None else steps.step
    return operation_table(operations, engine.tasks, engine.task_states(), started, step)


def _steps(scenario: Scenario) -> JobSteps | None:
    operations = scenario.load.part(OperationTable)
    return None if operations is None else operations.steps


def makespan_ps(flows: Table, tasks: Table | None) -> int:
    """When the last flow was delivered or the last task was done; 0 if none was."""
    done = flows["fct_ps"] >= 0
    ends = [(flows["start_ps"] + flows["fct_ps"])[done]]
    if tasks is not None:
        ends.append(tasks["end_ps"])
    return int(np.concatenate(ends).max(initial=0))


def task_figures(tasks: Table | None) -> dict[str, int]:
    """The tasks' part of the summary."""
    if tasks is None:
        return {}
    return {"tasks": tasks["task"].size, "tasks_done": int((tasks["end_ps"] >= 0).sum())}


def link_table(engine: Engine) -> Table:
    """One row for each directed link and traffic class."""
    network, classes = engine.network, engine.fabric.n_traffic_classes
    counters = engine.link_counters()
    port = np.repeat(np.arange(network.n_ports), classes)
    names = end_names(network)
    table: Table = {
        "link": port,
        "from_node": network.port_node[port],
        "to_node": network.port_node[network.port_peer[port]],
        "from_name": names[port],
        "to_name": names[network.port_peer[port]],
        "traffic_class": np.tile(np.arange(classes), network.n_ports),
        "rate_bps": network.port_rate_bps[port],
    }
    table.update({name: getattr(counters, field) for name, field in LINK_COUNTERS.items()})
    table["lost"], table["lost_bytes"] = counters.lost_packets, counters.lost_bytes
    table["unroutable"] = counters.unroutable_packets
    table["unroutable_bytes"] = counters.unroutable_bytes
    table.update(circuit_columns(engine))
    table["paused_ps"] = counters.paused_ps
    line_rate_bits = table["rate_bps"] * float(max(1, engine.now_ps))
    table["utilization"] = table["bytes"] * 8e12 / line_rate_bits
    levels = engine.queue_levels()
    if levels is not None:
        table["mean_queue_bytes"] = levels.mean_bytes
        table["p99_queue_bytes"] = levels.p99_bytes
    return table


def end_names(network: Network) -> np.ndarray:
    """Of every port: its node's name; if that is a host with several, the port's, as in "h3:1"."""
    names = np.array([network.node_name(n) for n in range(network.n_nodes)])[network.port_node]
    several = np.diff(network.node_first_port)[network.port_node] > 1
    own = np.flatnonzero(several[: network.n_host_ports])
    of_ports = np.array([network.port_name(port) for port in own.tolist()], str)
    names = names.astype(np.result_type(names, of_ports))
    names[own] = of_ports
    return names


def conserve(engine: Engine) -> dict[str, dict[str, int]]:
    """Account for every packet and byte. Raises RunError if any is missing.

    sent by hosts = received by hosts + dropped + lost on links + without a route + cut off by
    trimming + in flight.
    """
    found = engine.conservation()
    sums = {"packets": asdict(found.packets), "bytes": asdict(found.bytes)}
    del sums["packets"]["trimmed"]  # trimming cuts bytes off packets
    for what, account in (("packets", found.packets), ("bytes", found.bytes)):
        if account.missing != 0:
            raise RunError(f"the engine lost {what}: {sums[what]} ({WHOSE_FAULT})")
    return sums


def relay_figures(scenario: Scenario) -> dict[str, dict[str, int]]:
    """The relayed messages' part of the summary, if there are any."""
    segments = scenario.segments
    if segments is None:
        return {}
    counts = {
        "messages": int((segments.peer >= 0).sum()),
        "segments": int((segments.segment > 0).sum()),
    }
    return {"relays": counts}


def fair_figures(point: Point, scenario: Scenario) -> dict[str, dict[str, float]]:
    """The completion times if all shared links max-min fairly, on the paths of their hashes.

    Where there is one path for each flow, or for each of its lanes, and fair shares are known.
    """
    network, fabric, load = scenario.network, scenario.fabric, scenario.load
    by_hash = fabric.load_balancing == "ecmp"
    if network.has_several_ports and fabric.plane_balancing == ENTROPY:
        by_hash = False
    if not by_hash or load.tasks is not None or network.circuits is not None:
        return {}
    try:
        flows, lanes, evenly = load.flows, scenario.lanes, fabric.plane_balancing in DEALT_EVENLY
        times = hashed_times(network, flows, point.packets, lanes, point.seed, evenly=evenly)
    except InputError:
        return {}
    return {"fair_ps": {"mean": float(times.mean()), "max": float(times.max())}}


def flow_figures(flows: Table) -> dict[str, Any]:
    """The flow part of the summary."""
    done = flows["fct_ps"] >= 0
    figures: dict[str, Any] = {
        "flows": int(done.size),
        "flows_finished": int(done.sum()),
        "bytes": int(flows["size_bytes"].sum()),
        "ideal_max_ps": int(flows["ideal_ps"].max()) if done.size else None,
        "retransmits": int(flows["retransmits"].sum()),
    }
    for name in ("fct_ps", "slowdown", "ideal_ps"):
        values = flows[name][done]
        figures[name] = dict.fromkeys(("mean", "p50", "p99", "max"))
        if values.size:
            p50, p99 = np.percentile(values, [50, 99])
            figures[name] = {
                "mean": float(values.mean()),
                "p50": float(p50),
                "p99": float(p99),
                "max": float(values.max()),
            }
    return figures


def class_figures(point: Point, flows: Table) -> dict[str, list[dict[str, Any]]]:
    """The figures of each flow class, if there are several; "" is that of the experiment itself."""
    if not point.classes:
        return {}
    found = []
    names = ("", *(one.name for one in point.classes))
    for name, use in zip(names, point.transport_of_class, strict=True):
        these = {key: column[flows["flow_class"] == name] for key, column in flows.items()}
        found.append({"flow_class": name, "transport": use.name, **flow_figures(these)})
    return {"flow_classes": found}
