"""Networks as parts of other networks: the one is built, and gets its place in the other."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from netsim.errors import CombinedInputError, InputError
from netsim.model.plan import Plan
from netsim.model.routing import shortest_paths
from netsim.model.whole import built
from netsim.plugins import registry
from netsim.plugins.params import resolve_params
from netsim.plugins.registry import PluginSpec

if TYPE_CHECKING:
    from collections.abc import Mapping

    from netsim.model.network import Network


def build_subtopology(params: Mapping[str, Any], name: str) -> Network:
    """The network of the topology that the parameter `name` of a topology names.

    Raises InputError as that topology does; keys are those of the table that it stands in.
    """
    use: PluginSpec = params[name]
    try:
        network = built(use, "build", use.params)
    except InputError as error:
        raise CombinedInputError(_inside(one, name) for one in error.errors) from None
    return network


def build_topology(name: str | Path, **given: object) -> Network:
    """The network of a topology, by its name or the path of its file, as an experiment builds it.

    `given` are its parameters as they are written there, such as host_rate="100Gbps", or
    plane={"kind": "fat_tree", ...}. Raises InputError as the experiment would.
    """
    use = _use("topology", str(name), given)
    return built(use, "build", use.params)


def _use(key: str, kind: str, given: Mapping[str, Any]) -> PluginSpec:
    """A topology with its parameters, those that are topologies with theirs."""
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
            params[param.name] = _use(inside, table["kind"], own)
    return PluginSpec(plugin, params, preset)


def _inside(error: InputError, name: str) -> InputError:
    """The error of a topology, in the table that it has inside another one."""
    section, dot, rest = (error.key or "topology").partition(".")
    if section != "topology":
        return error
    key = f"topology.{name}{dot}{rest}"
    return error.replace(key=key)


def placed(part: Network, hosts: NDArray[Any], first: int, *, nic: int, rate: float) -> Plan:
    """The plan of a network in another one.

    Its hosts become `hosts`, its switches are numbered from `first` on, its hosts' NICs from `nic`
    on, and its links have the share `rate` of their rates. Raises InputError if that cannot be.
    """
    if hosts.shape != (part.n_hosts,):
        raise InputError(f"{part.name} has {part.n_hosts} hosts, not {hosts.size}")
    if part.routing is not shortest_paths:
        raise InputError(
            f"{part.name} has routes of its own making, and cannot be a part of another network",
            hint="one whose routes are all shortest paths",
        )
    if part.switch_queue_bytes is not None:
        raise InputError(
            f"{part.name} has switches with queues of their own, and cannot be a part of another "
            "network",
            hint="queues as [fabric] says",
        )
    if part.reduction is not None:
        raise InputError(
            f"{part.name} has reduction units, and cannot be a part of another network",
            hint="units of the network as a whole",
        )
    n_switches = len(part.plan.names)
    node = np.concatenate([hosts.astype(np.int64), first + np.arange(n_switches)])
    cables = part.plan.cables.copy()
    cables[:, :2] = node[cables[:, :2]]
    cables[:, 4] += nic
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
