"""Networks made by topology plugins, also as parts of other networks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from netsim.errors import CombinedInputError, InputError
from netsim.model.circuits import NIC
from netsim.model.network import Network, Plan
from netsim.model.routing import RoutingTable, Wiring, shortest_paths, wrong_table
from netsim.params import resolve_params
from netsim.plugins import registry
from netsim.plugins.calls import call
from netsim.plugins.registry import PluginSpec
from netsim.units import shortened


def build_subtopology(params: Mapping[str, Any], name: str) -> Network:
    """Return the network of the topology that the parameter `name` of a topology names. Raises
    InputError as that topology does, with keys of its table."""
    use: PluginSpec = params[name]
    try:
        network = built(use, "build", use.params)
    except InputError as error:
        raise CombinedInputError(_inside(one, name) for one in error.errors) from None
    return network


def build_topology(name: str | Path, **given: object) -> Network:
    """Return the network of a topology, by its name or the path of its file.

    `given` are its parameters as in an experiment, such as host_rate="100Gbps", or plane={"kind":
    "fat_tree", ...}. Raises InputError as an experiment would.
    """
    use = topology_use("topology", str(name), given)
    return built(use, "build", use.params)


def topology_use(key: str, kind: str, given: Mapping[str, Any]) -> PluginSpec:
    """Return a topology with its parameters, and those of topologies among them."""
    base, preset = registry.split_preset(kind)
    plugin = registry.find("topology", base, relative_to=Path.cwd())
    params = resolve_params(plugin.params, plugin.presets, given, preset, file=None, key=key)
    for param in plugin.params:
        table = params[param.name]
        if param.unit == "topology" and table is not None:
            inside = f"{key}.{param.name}"
            if not isinstance(table.get("kind"), str):
                raise InputError("missing", key=f"{inside}.kind", hint='such as "fat_tree"')
            own = {name: value for name, value in table.items() if name != "kind"}
            params[param.name] = topology_use(inside, table["kind"], own)
    return PluginSpec(plugin, params, preset)


def _inside(error: InputError, name: str) -> InputError:
    """Return an error of a topology with the key of its table inside another one."""
    section, dot, rest = (error.key or "topology").partition(".")
    if section != "topology":
        return error
    key = f"topology.{name}{dot}{rest}"
    return error.replace(key=key)


def placed(part: Network, hosts: NDArray[Any], first: int, *, nic: int, rate: float) -> Plan:
    """Return the plan of a network within another one.

    Its hosts become `hosts`, its switches are numbered from `first`, the NICs of its hosts from
    `nic`, and link rates are multiplied by `rate`. Raises InputError if that is impossible.
    """
    if hosts.shape != (part.n_hosts,):
        raise InputError(f"{part.name} has {part.n_hosts} hosts, not {hosts.size}")
    if part.routing is not shortest_paths:
        message = f"{part.name} has its own routes and cannot be part of another network"
        raise InputError(message, hint="use shortest paths")
    if part.switch_queue_bytes is not None:
        message = f"{part.name} has its own queue sizes and cannot be part of another network"
        raise InputError(message, hint="use those of [fabric]")
    if part.reduction is not None:
        message = f"{part.name} has reduction units and cannot be part of another network"
        raise InputError(message, hint="add them to the whole network")
    n_switches = len(part.plan.names)
    node = np.concatenate([hosts.astype(np.int64), first + np.arange(n_switches)])
    cables = part.plan.cables.copy()
    cables[:, :2] = node[cables[:, :2]]
    cables[:, NIC] += nic
    if rate != 1:
        cables[:, 2] = np.maximum(np.round(cables[:, 2] * rate), 1)
    circuits = [
        replace(
            one,
            edges=node[np.array(one.edges)].tolist(),
            delays_ps=list(one.delays_ps),
            rate_bps=max(round(one.rate_bps * rate), 1),
        )
        for one in part.plan.circuit_switches
    ]
    return replace(part.plan, cables=cables, circuit_switches=circuits)


def built(use: PluginSpec, function: str, *args: Any) -> Network:
    """Return the network that a plugin's function returns. Raises InputError, with the plugin's
    file, if the function fails or returns no valid network."""
    made = call(use, function, *args)
    if not isinstance(made, Network):
        message = f"{function}() returned {shortened(repr(made))}"
        raise InputError(message, file=str(use.plugin.path), hint="must return a Network")
    return made


def with_tables(network: Network, use: PluginSpec) -> Network:
    """Return a network with the routing table that a routing algorithm's `tables` makes, if it has
    that function.

    Raises InputError, with the plugin's file, if it fails or its table is wrong; without a file, if
    the network has several tables or circuits.
    """
    if not hasattr(use.module, "tables"):
        return network
    if network.policy is not None or network.circuits is not None:
        message = f"{use.name} makes a routing table, and {network.name} needs its own"
        raise InputError(message, key="fabric.routing", hint="use another routing or topology")

    def routing(wiring: Wiring) -> RoutingTable:
        made = call(use, "tables", use.params, wiring)
        problem = wrong_table(made, wiring) if isinstance(made, RoutingTable) else "no RoutingTable"
        if problem:
            file, hint = str(use.plugin.path), "table_from() of netsim.network makes one"
            raise InputError(f"tables() returned {problem}", file=file, hint=hint)
        table: RoutingTable = made
        return table

    wiring = network.wiring()
    table = routing(wiring)
    return replace(
        network,
        route_first=table.row_first(wiring),
        route=table.route,
        route_ports=table.route_ports,
        routing=routing,
    )
