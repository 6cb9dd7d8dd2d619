"""Links: counters of each directed link; conservation of packets and bytes."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np

from netsim.errors import RunError
from netsim.results.columns import Metric, TableSpec
from netsim.results.run_result import Run, Table

if TYPE_CHECKING:
    from netsim.engine.engine import Engine
    from netsim.model.network import Network

LINKS = TableSpec.of(
    "links",
    """
    link               index    directed link, numbered as the port that feeds it
    from_node          node     node whose port feeds the link; hosts come first
    to_node            node     node at the end of the link
    from_name          -        name of from_node; "h3:1" is port 1 of a host with several
    to_name            -        name of to_node, likewise
    traffic_class      index    traffic class, 0 is the highest
    rate_bps           bit/s    line rate
    bytes              B        bytes sent, including headers
    packets            packets  packets sent, data and control
    drops              packets  packets dropped at the port's queue
    drop_bytes         B        bytes of the dropped packets
    lost               packets  packets lost on the link: bit errors, random loss, link down
    lost_bytes         B        bytes of the lost packets
    circuit_switch*    -        circuit switch that the link goes through, or empty
    no_circuit_drops*  packets  packets lost because no circuit was up; included in lost
    no_circuit_bytes*  B        bytes of these packets
    unroutable*        packets  packets that arrived by the port and had no route
    unroutable_bytes*  B        bytes of these packets
    replays*           packets  packets that the port sent again, with [fabric.llr]; not in packets
    replay_bytes*      B        bytes of these transmissions
    trims              packets  packets trimmed to their header at the port's queue
    ecn_marks          packets  packets marked by ECN at the port
    max_queue_bytes    B        largest queue, including the packet in transmission
    pfc_pauses_sent    frames   PFC frames sent on the link that pause this class
    paused_ps          ps       time for which this class of the port was paused
    utilization        1        share of the line rate used, over the simulated time or the window
        of [measure]
    mean_queue_bytes*  B        time-weighted mean of the queue, over the simulated time
    p99_queue_bytes*   B        time-weighted 99th percentile of the queue, within 1/32
    """,
    hash_order=2,
)

TABLES = (LINKS,)
ORDER = 40

SWEEP = Metric.each("""
drops       packets  drops       packets dropped by switches
lost        packets  lost        packets lost on links
unroutable  packets  unroutable  packets without a route at a switch
trims       packets  trims       packets trimmed to their header
ecn_marks   packets  ecn_marks   packets marked by ECN
pfc_pauses  frames   pfc_pauses  PFC frames that pause
acks        packets  acks        acknowledgments that senders received
nacks       packets  nacks       negative acknowledgments that senders received
pulls       packets  pulls       pulls (credits of a receiver) that senders received
""")

SUMS = ("drops", "lost", "unroutable", "trims", "ecn_marks")
"""Columns of `links` whose sums are in the summary."""

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
"""Column of `links` -> counter of the engine (`LinkCounters`)."""

LIKELY_CAUSE = (
    "a netsim bug, or a handler that writes outside its arrays: check with `netsim run "
    "--check-bounds` or `netsim check` of its file"
)


def report(run: Run) -> dict[str, Any]:
    """Add the table of links; return sums and conservation. Raises RunError on lost packets."""
    if run.engine is None:
        names = ("link", "traffic_class", *LINK_COUNTERS)
        run.tables["links"] = {name: np.zeros(0, np.int64) for name in names}
        return dict.fromkeys((*SUMS, "pfc_pauses", "acks", "nacks", "pulls"), 0)
    conservation = conserve(run.engine)
    links = run.tables["links"] = link_table(run.engine)
    if run.readings is not None:
        span_ps = run.readings.edges_ps[-1] - run.readings.edges_ps[0]
        sent = run.readings.in_window("sent_bytes")
        links["utilization"] = sent * 8e12 / (links["rate_bps"] * float(span_ps))
    return {
        **{name: int(links[name].sum()) for name in SUMS},
        "pfc_pauses": int(links["pfc_pauses_sent"].sum()),
        **run.engine.control_counts(),
        "conservation": conservation,
    }


def link_table(engine: Engine) -> Table:
    """Return one row per directed link and traffic class."""
    network, classes = engine.network, engine.fabric.n_link_classes
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
    if engine.fabric.llr is not None:
        table["replays"], table["replay_bytes"] = counters.replays, counters.replay_bytes
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
    """Return the name of each port's node, or of the port itself ("h3:1") for a multi-port host."""
    names = np.array([network.node_name(n) for n in range(network.n_nodes)])[network.port_node]
    several = np.diff(network.node_first_port)[network.port_node] > 1
    own = np.flatnonzero(several[: network.n_host_ports])
    of_ports = np.array([network.port_name(port) for port in own.tolist()], str)
    names = names.astype(np.result_type(names, of_ports))
    names[own] = of_ports
    return names


def conserve(engine: Engine) -> dict[str, dict[str, int]]:
    """Account for every packet and byte. Raises RunError if any is missing.

    sent by hosts or made by switches = received by hosts + dropped + lost on links + unroutable
                                        + trimmed + in flight.
    """
    found = engine.conservation()
    sums = {"packets": asdict(found.packets), "bytes": asdict(found.bytes)}
    del sums["packets"]["trimmed"]  # trimming cuts bytes off packets
    for what, account in (("packets", found.packets), ("bytes", found.bytes)):
        if account.missing != 0:
            raise RunError(f"the engine lost {what}: {sums[what]} ({LIKELY_CAUSE})")
    return sums


def circuit_columns(engine: Engine) -> Table:
    """Return the circuit columns of each link and class."""
    circuits = engine.network.circuits
    if circuits is None:
        return {}
    counters = engine.link_counters()
    names = np.array([*circuits.names, ""])  # index -1 finds the last
    return {
        "circuit_switch": np.repeat(names[circuits.of_port], engine.fabric.n_link_classes),
        "no_circuit_drops": counters.no_circuit_packets,
        "no_circuit_bytes": counters.no_circuit_bytes,
    }
