"""From the engine's state to the tables and figures of a result."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from netsim.errors import RunError
from netsim.model.fabric import packet_counts
from netsim.results.run_result import Table, result_hash

if TYPE_CHECKING:
    from netsim.engine.engine import Engine
    from netsim.experiment import Point
    from netsim.experiment.scenario import Scenario
    from netsim.model.network import Network

LINK_COUNTERS = {
    "bytes": "sent_bytes",
    "packets": "sent_packets",
    "drops": "drops",
    "drop_bytes": "drop_bytes",
    "trims": "trims",
    "marks": "marks",
    "max_queue_bytes": "max_bytes",
    "pauses_sent": "pauses",
}
"""Columns of the links table and the engine's counters that they show."""

WHOSE_FAULT = (
    "a fault of netsim, or of a handler that writes past its own arrays: `netsim run --checked` "
    "and `netsim check-transport` find such a handler"
)


def engine_result(
    point: Point,
    scenario: Scenario,
    engine: Engine,
    *,
    stopped_because: str,
    complete: bool,
    reason: str | None,
    timings: dict[str, Any],
) -> dict[str, Any]:
    """The fields of a RunResult. Raises RunError if packets or bytes are not conserved."""
    conservation = conserve(engine)
    ends = engine.state.ends
    start_ps = np.array(ends.tx["start_ps"])
    done, acked = np.array(ends.rx["done_ps"]), np.array(ends.tx["acked_ps"])
    waits = ends.tx["waits_for"] > 0
    flows = flow_table(
        point,
        scenario,
        start_ps=np.where(waits, -1, start_ps),
        fct_ps=np.where(done >= 0, done - start_ps, -1),
        acked_ps=np.where((acked >= 0) & (done >= 0), acked - start_ps, -1),
        packets_sent=np.array(ends.tx["sent_packets"]),
        retransmits=np.array(ends.tx["retransmits"]),
        cls=np.array(ends.tx["prio"]),
    )
    links = link_table(engine)
    hops = engine.count("hops")
    digest = result_hash(flows, links)
    summary = {
        "simulated_ps": engine.now_ps,
        **timings,
        "packet_hops": hops,
        "packet_hops_per_s": hops / timings["wall_s"] if timings["wall_s"] > 0 else 0.0,
        **flow_figures(flows),
        **class_figures(point, flows),
        **{name: int(links[name].sum()) for name in ("drops", "lost", "trims", "marks")},
        "pauses": int(links["pauses_sent"].sum()),
        "conservation": conservation,
        "hash": digest,
    }
    return {
        "flows": flows,
        "links": links,
        "summary": summary,
        "complete": complete,
        "stopped_because": stopped_because,
        "hash": digest,
        "reason": reason,
    }


def closed_form_result(point: Point, scenario: Scenario) -> dict[str, Any]:
    """The result of a transport whose completion times are the ideal ones."""
    ideal = scenario.ideal
    table = scenario.flows
    packets = packet_counts(table.size_bytes, point.packets)
    flows = flow_table(
        point,
        scenario,
        start_ps=table.start_ps,
        fct_ps=ideal.fct_ps,
        acked_ps=ideal.acked_ps,
        packets_sent=packets,
        retransmits=np.zeros(len(table), np.int64),
        cls=table.cls,
    )
    links = {name: np.zeros(0, np.int64) for name in ("link", "class", *LINK_COUNTERS)}
    digest = result_hash(flows, links)
    summary = {
        "simulated_ps": int((table.start_ps + ideal.fct_ps).max()),
        "wall_s": 0.0,
        "compile_s": 0.0,
        "threads": 0,
        "packet_hops": 0,
        "packet_hops_per_s": 0.0,
        **flow_figures(flows),
        "drops": 0,
        "lost": 0,
        "trims": 0,
        "marks": 0,
        "pauses": 0,
        "hash": digest,
    }
    return {
        "flows": flows,
        "links": links,
        "summary": summary,
        "complete": True,
        "stopped_because": "finished",
        "hash": digest,
        "reason": None,
    }


def flow_table(
    point: Point,
    scenario: Scenario,
    *,
    start_ps: np.ndarray,
    fct_ps: np.ndarray,
    acked_ps: np.ndarray,
    packets_sent: np.ndarray,
    retransmits: np.ndarray,
    cls: np.ndarray,
) -> Table:
    """One row a flow; the columns are documented in `netsim.results.columns`."""
    flows, ideal = scenario.flows, scenario.ideal
    names = np.array(["", *(flow_class.name for flow_class in point.classes)])
    slowdown = np.where(fct_ps >= 0, fct_ps / ideal.fct_ps, np.nan)
    return {
        "flow": np.arange(len(flows)),
        "src": flows.src,
        "dst": flows.dst,
        "size_bytes": flows.size_bytes,
        "start_ps": start_ps,
        "fct_ps": fct_ps,
        "acked_ps": acked_ps,
        "ideal_ps": ideal.fct_ps,
        "slowdown": slowdown,
        "packets": packet_counts(flows.size_bytes, point.packets),
        "packets_sent": packets_sent,
        "retransmits": retransmits,
        "class": cls,
        **({"flow_class": names[scenario.class_of_flow]} if point.classes else {}),
    }


def link_table(engine: Engine) -> Table:
    """One row for each directed link and traffic class."""
    network, classes = engine.network, engine.fabric.n_classes
    queues = engine.state.wires.queues
    port = np.repeat(np.arange(network.n_ports), classes)
    cls = np.tile(np.arange(classes), network.n_ports)
    duration_ps = max(1, engine.now_ps)
    paused = np.array(queues["paused_ps"])
    still = ((engine.state.wires.ports["paused"][port] >> cls) & 1) == 1
    paused[still] += duration_ps - queues["paused_since"][still]
    names = node_names(network)
    table: Table = {
        "link": port,
        "from_node": network.port_node[port],
        "to_node": network.port_node[network.port_peer[port]],
        "from_name": names[network.port_node[port]],
        "to_name": names[network.port_node[network.port_peer[port]]],
        "class": cls,
        "rate_bps": network.port_rate_bps[port],
    }
    table.update({name: np.array(queues[field]) for name, field in LINK_COUNTERS.items()})
    losses = engine.state.wires.losses
    if engine.faults is not None:
        table["lost"] = np.array(losses["packets"])
        table["lost_bytes"] = np.array(losses["bytes"])
    else:
        table["lost"] = table["lost_bytes"] = np.zeros(port.size, np.int64)
    table["paused_ps"] = paused
    table["utilisation"] = table["bytes"] * 8e12 / (table["rate_bps"] * float(duration_ps))
    return table


def node_names(network: Network) -> np.ndarray:
    """Names of all nodes, as text."""
    return np.array([network.node_name(n) for n in range(network.n_nodes)])


def conserve(engine: Engine) -> dict[str, dict[str, int]]:
    """Account for every packet and byte. Raises RunError if any is missing.

    sent by hosts = received by hosts + dropped + lost on links + cut off by trimming + in flight.
    """
    s = engine.state
    hosts, queues, wires = s.ends.hosts, s.wires.queues, s.wires
    in_flight = _in_flight(engine)
    packets = {
        "sent": int(hosts["sent_packets"].sum()),
        "received": int(hosts["received_packets"].sum()),
        "dropped": int(queues["drops"].sum()),
        "lost": int(wires.losses["packets"].sum()),
        "in_flight": in_flight[0],
    }
    n_bytes = {
        "sent": int(hosts["sent_bytes"].sum()),
        "received": int(hosts["received_bytes"].sum()),
        "dropped": int(queues["drop_bytes"].sum()),
        "lost": int(wires.losses["bytes"].sum()),
        "trimmed": int(queues["trim_bytes"].sum()),
        "in_flight": in_flight[1],
    }
    for what, sums in (("packets", packets), ("bytes", n_bytes)):
        accounted = sum(v for k, v in sums.items() if k != "sent")
        if accounted != sums["sent"]:
            raise RunError(f"the engine lost {what}: {sums} ({WHOSE_FAULT})")
    held = int(wires.used_bytes.sum()) - int(wires.charges["bytes"].sum())
    if held != 0:
        raise RunError(f"buffer accounting is off by {held} bytes ({WHOSE_FAULT})")
    return {"packets": packets, "bytes": n_bytes}


def _in_flight(engine: Engine) -> tuple[int, int]:
    """Packets and bytes on links and in queues, PFC frames left out."""
    from netsim.engine.packets import PFC

    wires = engine.state.wires
    ports, inbox, queues = wires.ports, wires.inbox, wires.queues
    head = inbox["head"][engine.network.port_peer]
    count = n_bytes = 0
    rings = [(ports["ring_off"], ports["ring_mask"], head, ports["tail"])]
    rings.append((queues["off"], queues["mask"], queues["head"], queues["tail"]))
    for off, mask, first, last in rings:
        length = last - first
        owner = np.repeat(np.arange(length.size), length)
        rank = np.arange(owner.size) - np.repeat(np.cumsum(length) - length, length)
        slots = off[owner] + ((first[owner] + rank) & mask[owner])
        pkts = wires.pool[slots]
        real = pkts["kind"] != PFC
        count += int(real.sum())
        n_bytes += int(pkts["size_bytes"][real].sum(dtype=np.int64))
    return count, n_bytes


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
    return {"classes": found}
