"""Cases for topologies: their networks, and packets on them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np

from netsim.conformance.fabric_testbed import PROBE
from netsim.conformance.finding import Cases, ConformanceError, NotApplicableError
from netsim.conformance.networks import everybody
from netsim.conformance.testbed import Settings, Testbed
from netsim.conformance.tried import RefusedError, refusals, try_values
from netsim.model.flows import FlowTable
from netsim.model.network import Network
from netsim.model.parts import require_complete, topology_use
from netsim.plugins.registry import PluginSpec

CASES = Cases()

SENDERS = 16
"""Maximum number of hosts that send to each other, spread over the network."""


@dataclass(frozen=True)
class TopologyTestbed(Testbed):
    """A topology with its parameters."""

    KIND = "topology"

    @classmethod
    def of(
        cls, named: str | Path, *, settings: Settings = None, seed: int = 1, long: bool = False
    ) -> Self:
        use = topology_use("topology", str(named), settings or {})
        return cls(use.plugin, use.params, seed, long, use.preset)

    def build(self, **changes: Any) -> Network:
        """Return the network, with some parameters changed; values are as the topology gets them.

        Raises RefusedError for an InputError, ConformanceError for a network that is incomplete
        and too much memory, and whatever else it raises.
        """
        params = {**self.params, **changes}
        given = dict(params)
        with refusals("builder.reserve", keyed=False):
            network = self.plugin.module.build(given)
            if not isinstance(network, Network):
                name = type(network).__name__
                raise ConformanceError(f"build() returned {name}, not a Network")
            require_complete(network, PluginSpec(self.plugin, params), "build")
        if given != params:
            raise ConformanceError("build() changes its parameters")
        return network


@CASES("network", "the network that the parameters describe")
def network(testbed: TopologyTestbed) -> str:
    made = _made(testbed)
    return (
        f"{made.name}: {made.n_hosts} hosts, {made.n_switches} switches, {made.n_links} links, "
        f"diameter {made.diameter}"
    )


@CASES("again", "the same network in a second call")
def again(testbed: TopologyTestbed) -> str:
    first, second = (vars(_made(testbed)) for _ in range(2))
    columns = {name: value for name, value in first.items() if isinstance(value, np.ndarray)}
    for name, value in columns.items():
        if not np.array_equal(value, second[name]):
            raise ConformanceError(f"{name} differs in a second call")
    return f"{len(columns)} columns are equal in two calls"


@CASES("arrival", "packets of every host arrive at every other")
def arrival(testbed: TopologyTestbed) -> str:
    made = _made(testbed)
    if made.circuits is not None:
        raise NotApplicableError("packets may wait for a circuit")
    hosts = np.unique(np.linspace(0, made.n_hosts - 1, SENDERS).astype(np.int64))
    if hosts.size < 2:
        raise NotApplicableError("there is one host")
    pairs = everybody(hosts.size, testbed.packets(1))
    flows = FlowTable(hosts[pairs.src], hosts[pairs.dst], pairs.size_bytes, pairs.start_ps)
    run = Testbed.of(PROBE, seed=testbed.seed).run(flows, made, {"queue_bytes": "20MB"})
    if lost := run.total("drops") + run.unroutable:
        raise ConformanceError(f"{lost} packets do not arrive: routes lead nowhere or in a circle")
    return run.line()


@CASES("parameters", "any value gives a network or a clear error")
def parameters(testbed: TopologyTestbed) -> str:
    return try_values(testbed.plugin, lambda params: testbed.build(**params))


def _made(testbed: TopologyTestbed) -> Network:
    try:
        return testbed.build()
    except RefusedError as refusal:
        raise ConformanceError(str(refusal)) from None
