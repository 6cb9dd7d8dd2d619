"""Initial state of links, ports, queues and switches."""

from __future__ import annotations

from typing import Any

import numpy as np

from netsim.engine.circuits import build_circuits, fibers_of, with_days
from netsim.engine.compiling.declarations import Discipline, Protocol
from netsim.engine.compiling.plugin_file import plugin_parameters
from netsim.engine.compiling.routing_declarations import RoutingAlgorithm
from netsim.engine.kernels.fields import NO_PORT, Array
from netsim.engine.kernels.layout import (
    FABRIC,
    FAULT,
    FAULT_INTERVAL,
    INF,
    LINK_READER,
    LOSS,
    PORTS_OF_A_WORD,
    LinkState,
    grouped,
)
from netsim.engine.kernels.trace import Trace
from netsim.engine.records import aligned_zeros
from netsim.engine.routing_state import build_routing
from netsim.engine.series import build_series
from netsim.engine.share import Share
from netsim.engine.simulation import Simulation
from netsim.model.arithmetic import (
    PURPOSE_ARRIVAL_ORDER,
    byte_quotient,
    salt,
    send_time,
)
from netsim.model.fabric import Fabric
from netsim.model.faults import NOMINAL, LinkFaults, combine
from netsim.model.network import Network


def build_links(
    simulation: Simulation,
    protocol: Protocol,
    discipline: Discipline,
    routing: RoutingAlgorithm,
    pool: dict[str, Array],
    trace: Trace | Array,
    share: Share,
) -> LinkState:
    """Return the links' state, with the record types of a protocol and the rows of a share."""
    network, fabric, seed = simulation.network, simulation.fabric, simulation.seed
    n, c = network.n_ports, fabric.n_link_classes
    sized, loses = simulation.sizes, simulation.feature_set.loses or routing.features["VIA"]
    kinds = (fabric,) if sized is None else sized.fabrics

    number, at = np.arange(n, dtype=np.int64), share.links
    q20 = byte_quotient(network.port_rate_bps[at])
    ports = share.zeros(n, discipline.port)
    ports["number"][at] = number[at]
    ports["ps_per_byte_q20"][at] = q20
    ports["delay_ps"][at] = network.port_delay_ps[at]
    readers = share.zeros(n, LINK_READER)
    readers["packet_ps"][at] = send_time(simulation.packets.data_bytes, q20)
    readers["from_host"][at] = network.port_peer[at] < network.n_host_ports
    readers["order_salt"][at] = salt(seed, PURPOSE_ARRIVAL_ORDER, number[at])

    queues = aligned_zeros(n * c, discipline.queue)

    switches = aligned_zeros(network.n_switches, discipline.switch)
    switches["number"] = np.arange(network.n_switches)
    switches["first_port"] = network.node_first_port[network.n_hosts : -1]
    switches["first_word"] = first_words(network)[network.n_hosts : -1]
    circuits = with_days(simulation, build_circuits(simulation))
    switches["first_fiber"], switches["last_fiber"] = fibers_of(network, circuits)
    switches["next_wakeup_ps"] = INF
    switches["indirect_from"] = switches["indirect_by"] = NO_PORT
    words = int(first_words(network)[-1])
    first_new = np.zeros(n, np.int64)
    first_new[share.ports] = INF
    return grouped(
        LinkState,
        **pool,
        zero_packet=np.zeros(1, protocol.packet),
        ports=ports,
        readers=readers,
        **build_routing(simulation, routing, share),
        queues=queues,
        switches=switches,
        discipline=np.concatenate(
            [
                simulation.parameters(
                    discipline.par, plugin_parameters(one.queue.plugin, one.queue.params)
                )
                for one in kinds
            ]
        ),
        size_kind=np.zeros(1, np.int64) if sized is None else sized.kind.copy(),
        first_new=first_new,
        unread=np.zeros(words, np.int64),
        busy=np.zeros(words, np.int64),
        dirty_ports=np.zeros(words, np.int64),
        waiting_ports=np.zeros(words, np.int64),
        indirect_ready=np.zeros(words, np.int64),
        fabric=np.concatenate([_fabric_record(one, seed) for one in kinds]),
        trace=trace,
        **build_series(simulation.sampling, network, simulation.flows, c, protocol),
        losses=np.zeros(n * c if loses else 1, LOSS),
        **_fault_state(simulation.faults, network),
        **circuits,
    )


def first_words(network: Network) -> np.ndarray:
    """Return int64[n_nodes + 1]: the first word of each switch's port sets; hosts have none."""
    words = -(-np.diff(network.node_first_port) // PORTS_OF_A_WORD)
    words[: network.n_hosts] = 0
    return np.concatenate([[0], np.cumsum(words)])


def _fault_state(faults: LinkFaults | None, network: Network) -> dict[str, np.ndarray]:
    """Return the arrays for faults; minimal without any."""
    if faults is None:
        none = combine([], 1)
        arrays = {"loss_table": none.loss_table, "outages": none.outages_ps}
        kinds = {"faults": FAULT, "fault_intervals": FAULT_INTERVAL}
        return {**arrays, **{name: np.zeros(1, kind) for name, kind in kinds.items()}}
    n = network.n_ports
    intervals = np.zeros(faults.interval_start_ps.size, FAULT_INTERVAL)
    rate_bps = np.repeat(network.port_rate_bps, np.diff(faults.interval_ptr))
    given = faults.interval_rate_bps != NOMINAL
    rate_bps[given] = faults.interval_rate_bps[given]
    intervals["start_ps"] = faults.interval_start_ps
    intervals["profile"] = faults.interval_profile
    intervals["ps_per_byte_q20"] = byte_quotient(rate_bps)
    state = np.zeros(n, FAULT)
    # One before the first interval; a port's first transmission advances it.
    ptr = faults.interval_ptr
    state["interval"], state["last_interval"] = ptr[:-1] - 1, ptr[1:]
    state["outage"], state["last_outage"] = faults.outage_ptr[:-1], faults.outage_ptr[1:]
    return {
        "faults": state,
        "fault_intervals": intervals,
        "loss_table": faults.loss_table,
        "outages": faults.outages_ps,
    }


def _fabric_record(fabric: Fabric, seed: int) -> Any:
    """Return a `FabricRecord`; values that the fabric lacks are 0."""
    rec = np.zeros(1, FABRIC)
    rec["seed"] = seed
    tables = (fabric, *(table for table in (fabric.ecn, fabric.circuits) if table is not None))
    for name in FABRIC.names or ():
        for table in map(vars, tables):
            if table.get(name) is not None:
                rec[name] = table[name]
    return rec
