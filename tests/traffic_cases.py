"""Build the flows of a traffic pattern on a small network."""

from pathlib import Path
from typing import Any

import numpy as np

from netsim.model.builder import NetworkBuilder
from netsim.model.flows import FlowTable, TrafficContext
from netsim.model.network import Network
from netsim.model.workload import Workload
from netsim.params import resolve_params
from netsim.plugins.registry import PluginSpec, find

GBPS = 10**9


def star(n_hosts: int) -> Network:
    """Return hosts around one switch with cables of 100 Gbps and 1 us."""
    builder = NetworkBuilder()
    hosts = builder.add_hosts(n_hosts)
    switch = builder.add_switch()
    builder.cables(np.array(hosts), switch, 100 * GBPS, 10**6)
    return builder.build("star")


def make(kind: str, n_hosts: int, **given: Any) -> FlowTable:
    """Return the flows of a pattern without tasks; ``given`` as for `made`."""
    load = made(kind, n_hosts, **given)
    assert load.tasks is None
    return load.flows


def made(
    kind: str,
    n_hosts: int,
    *,
    directory: Path = Path(),
    seed: int = 1,
    n_traffic_classes: int = 1,
    network: Network | None = None,
    end_ps: int | None = None,
    **given: object,
) -> Workload:
    """Return the workload of a pattern; ``given`` are its parameters, as a user writes them."""
    plugin = find("traffic", kind)
    params = resolve_params(plugin.params, plugin.presets, given, None, file=None, key="traffic")
    context = TrafficContext(directory, seed, 100 * GBPS, 4096, 64, n_traffic_classes, end_ps)
    network = network or star(n_hosts)
    flows = plugin.module.flows(params, network, np.random.default_rng(seed), context)
    load = flows if isinstance(flows, Workload) else Workload(flows)
    load = load.with_program(PluginSpec(plugin, params), n_hosts)
    load.validate(n_hosts)
    return load


def pairs(flows: FlowTable) -> list[tuple[int, int]]:
    return list(zip(flows.src.tolist(), flows.dst.tolist(), strict=True))
