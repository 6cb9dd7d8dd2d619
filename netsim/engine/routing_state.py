"""Initial state of a routing algorithm, and what it may ask about the network."""

from __future__ import annotations

from typing import Any

import numpy as np

from netsim.engine.compiling.plugin_file import plugin_parameters
from netsim.engine.compiling.routing_declarations import RoutingAlgorithm, read_routing
from netsim.engine.kernels.fields import Array
from netsim.engine.kernels.layout import ROUTING_PORT
from netsim.engine.kernels.routing import (
    KEPT,
    candidates_at,
    dimension_of,
    far_group_at,
    hops_to,
    ps_per_byte_q20,
    published,
)
from netsim.engine.records import aligned_zeros, untouched_zeros
from netsim.engine.share import Share
from netsim.engine.simulation import Simulation
from netsim.engine.sizes import longest_window_ps
from netsim.errors import InputError
from netsim.model.arithmetic import PURPOSE_ECMP, PURPOSE_SYMMETRIC, byte_quotient, salt
from netsim.model.checks import heights
from netsim.model.fabric import Fabric
from netsim.model.network import Network
from netsim.model.paths import reach_by
from netsim.units import format_time

NO_HOPS = 255  # of a switch that has no route


def build_routing(
    simulation: Simulation, routing: RoutingAlgorithm, share: Share
) -> dict[str, Array]:
    """Return the arrays of `LinkState` that belong to the routing algorithm."""
    network, seed, use = simulation.network, simulation.seed, simulation.fabric.routing
    n, at = network.n_ports, share.ports
    number = np.arange(n, dtype=np.int64)[at]
    ports = share.zeros(n, routing.port)
    ports["number"][at] = number
    ports["from_host"][at] = network.port_peer[at] < network.n_host_ports
    for name, purpose, a, b in routing.salts:
        ports[name][at] = salt(seed, purpose, a * number + b)
    tables = network.n_switches if routing.coupled else n - network.n_host_ports
    return {
        "routing_ports": ports,
        "routers": _routers(simulation, routing),
        "flow_rows": untouched_zeros(max(1, tables * routing.n_rows), routing.row),
        "published": _published(simulation, routing),
        "routing": simulation.parameters(routing.par, plugin_parameters(use.plugin, use.params)),
    }


def _routers(simulation: Simulation, routing: RoutingAlgorithm) -> Array:
    """Return the switches, each with the start of the ECMP hash: its number or height."""
    network, seed = simulation.network, simulation.seed
    routers = aligned_zeros(network.n_switches, routing.switch)
    routers["node"] = np.arange(network.n_hosts, network.n_nodes)
    routers["first_port"] = network.node_first_port[network.n_hosts : -1]
    routers["n_ports"] = np.diff(network.node_first_port)[network.n_hosts :]
    groups = np.diff(network.first_group)
    routers["n_groups"] = groups[network.switch_network]
    routers["first_group"] = network.first_group[network.switch_network]
    routers["group"] = -1
    group = np.arange(network.edge_switch.size)
    network_of = np.repeat(np.arange(groups.size), groups)
    routers["group"][network.edge_switch] = group - network.first_group[network_of]
    routers["salt"] = salt(seed, PURPOSE_ECMP, routers["node"])
    if simulation.fabric.symmetric:
        routers["salt"] = salt(seed, PURPOSE_SYMMETRIC, heights(network))
    return routers


def _published(simulation: Simulation, routing: RoutingAlgorithm) -> Array:
    """Return what switches publish: nothing yet. Raises InputError if a reader might see it in the
    window in which it is published."""
    n = int(routing.features["N_PUBLISHED"])
    if n:
        least_ps = longest_window_ps(simulation.network, simulation.flows)
        delay_ps = simulation.fabric.routing.params["publish_delay"]
        if delay_ps < least_ps:
            message = f"{format_time(delay_ps)} is shorter than the smallest delay of a link"
            hint = f"at least {format_time(least_ps)}"
            raise InputError(message, key="fabric.publish_delay", hint=hint)
    return np.zeros((max(1, simulation.network.n_switches * n), 2, KEPT), np.int64)


def build_facts(network: Network, routing: RoutingAlgorithm) -> dict[str, Array]:
    """Return the arrays of `Net` about which handlers ask; minimal without such services."""
    facts: dict[str, Any] = {
        "hops": np.zeros((1, 1), np.uint8),
        "port_dimension": np.zeros(1, np.int64),
        "port_q20": np.zeros(1, np.int64),
        "group_switch": np.zeros(1, np.int64),
    }
    if routing.uses & {published, candidates_at, far_group_at}:
        facts["group_switch"] = network.edge_switch.astype(np.int64)
    if hops_to in routing.uses:
        facts["hops"] = _hops(network)
    if dimension_of in routing.uses:
        facts["port_dimension"] = np.zeros(network.n_ports, np.int64)
        if network.port_dimension is not None:
            facts["port_dimension"] = network.port_dimension
    if ps_per_byte_q20 in routing.uses:
        facts["port_q20"] = byte_quotient(network.port_rate_bps)
    return facts


def _hops(network: Network) -> Array:
    """Return uint8[n_switches, groups]: the links from each switch to each edge switch of its
    network, by its first routing table; NO_HOPS without a path, or if that is longer."""
    groups = np.diff(network.first_group)
    hops = np.full((network.n_switches, int(groups.max())), NO_HOPS, np.uint8)
    for number, n in enumerate(groups.tolist()):
        found = reach_by(network, number, network.table, np.arange(n)).hops
        found[(found < 0) | (found > NO_HOPS)] = NO_HOPS
        hops[network.switch_network == number, :n] = found
    return hops


def memory_bytes(network: Network, fabric: Fabric) -> int:
    """Return the memory of an algorithm's state and of what it may ask, beyond `PORT_BYTES`."""
    use = fabric.routing
    routing = read_routing(use.module, plugin_parameters(use.plugin, use.params), use.plugin.name)
    tables = network.n_switches if routing.coupled else network.n_ports - network.n_host_ports
    n_bytes = network.n_ports * (routing.port.itemsize - ROUTING_PORT.itemsize)
    n_bytes += network.n_switches * routing.switch.itemsize
    n_bytes += network.n_switches * int(routing.features["N_PUBLISHED"]) * 16 * KEPT
    n_bytes += tables * routing.n_rows * routing.row.itemsize
    if hops_to in routing.uses:
        n_bytes += network.n_switches * int(np.diff(network.first_group).max())
    return n_bytes
