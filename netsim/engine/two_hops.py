"""Initial arrays for indirect packets."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from netsim.engine.kernels.layout import DIRECT, FIBER, INF, OPPORTUNISTIC, VLB
from netsim.engine.simulation import FeatureSet, Simulation
from netsim.model import fabric as rules_of
from netsim.model.circuits import Circuits
from netsim.model.fabric import Fabric
from netsim.model.network import Network
from netsim.model.schedules import NONE

Ints = NDArray[np.int64]

INDIRECT = {
    rules_of.DIRECT: DIRECT,
    rules_of.OPPORTUNISTIC: OPPORTUNISTIC,
    rules_of.VLB: VLB,
}


def indirect(fabric: Fabric, feature_set: FeatureSet) -> int:
    """Return the value of ``INDIRECT``."""
    if not feature_set.circuits or fabric.circuits is None:
        return DIRECT
    return INDIRECT[fabric.circuits.indirect]


class CircuitReachability(NamedTuple):
    """Reachability among switches with circuits, numbered from 0.

    `number` is int64[n_nodes], -1 for other nodes. `reached` is int8[n, n], 1 if a circuit ever
    leads from the one to the other, or they are the same.
    """

    number: Ints
    reached: NDArray[np.int8]


def leads(circuits: Circuits) -> NDArray[np.bool_]:
    """Return bool[n_ports]: whether the port feeds a circuit that is ever up."""
    feeds: NDArray[np.bool_] = circuits.of_port != NONE
    return feeds if circuits.ever_up is None else feeds & circuits.ever_up


def circuit_reachability(network: Network, circuits: Circuits) -> CircuitReachability:
    """Return the reachability by circuits."""
    ports = np.flatnonzero(leads(circuits))
    node, far = network.port_node[ports], network.port_node[network.port_peer[ports]]
    edges = np.union1d(node, far)
    number = np.full(network.n_nodes, NONE, np.int64)
    number[edges] = np.arange(edges.size)
    reached = np.eye(edges.size, dtype=np.int8)
    reached[number[node], number[far]] = 1
    return CircuitReachability(number, reached)


def build_detours(simulation: Simulation) -> dict[str, np.ndarray]:
    """Return the arrays of `Net` for indirect packets."""
    network, how = simulation.network, indirect(simulation.fabric, simulation.feature_set)
    none = np.zeros(1, np.int64)
    found: dict[str, np.ndarray] = {"edge": none, "reached": np.zeros((1, 1), np.int8)}
    found |= {"detour": np.zeros((1, 1), np.int32), "detour_first": none, "detour_ports": none}
    if how == DIRECT or network.circuits is None:
        return found
    reach = circuit_reachability(network, network.circuits)
    found |= {"edge": reach.number, "reached": reach.reached}
    if how == VLB:
        found |= _lists(network, network.circuits, reach)
    return found


def _lists(
    network: Network, circuits: Circuits, reach: CircuitReachability
) -> dict[str, np.ndarray]:
    """Return, for each pair of switches, the ports of an indirect path, with no list twice."""
    n = len(reach.reached)
    detour = np.full((n, n), NONE, np.int32)
    lists: dict[tuple[int, bytes], int] = {}
    ports: list[Ints] = []
    for here, node in enumerate(np.flatnonzero(reach.number != NONE).tolist()):
        first, end = network.node_first_port[node : node + 2].tolist()
        own = first + np.flatnonzero(leads(circuits)[first:end])
        far = reach.number[network.port_node[network.port_peer[own]]]
        for there, row in enumerate(np.ascontiguousarray(reach.reached[far].T != 0)):
            if row.any() and there != here:
                key = here, row.tobytes()
                if key not in lists:
                    lists[key] = len(ports)
                    ports.append(own[row] - first)
                detour[here, there] = lists[key]
    counts = [one.size for one in ports]
    return {
        "detour": detour,
        "detour_first": np.concatenate([[0], np.cumsum(counts)]).astype(np.int64),
        "detour_ports": np.concatenate([*ports, np.zeros(0, np.int64)]),
    }


def with_days(simulation: Simulation, links: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return `circuits`, `days`, `day_ports` and `fibers` of LinkState."""
    network = simulation.network
    circuits, state, days = network.circuits, links["circuits"], links["days"]
    state["fiber"] = NONE
    how, none = indirect(simulation.fabric, simulation.feature_set), np.zeros(1, np.int64)
    if how == DIRECT or circuits is None:
        return {**links, "day_ports": none, "fibers": np.zeros(1, FIBER)}
    ends = np.flatnonzero(circuits.of_port != NONE)
    # Sorted: a switch's fibers are consecutive.
    key = network.port_node[ends].astype(np.int64) * (circuits.fiber.max() + 1)
    keys, number = np.unique(key + circuits.fiber[ends], return_inverse=True)
    state["fiber"][ends] = number.reshape(-1)
    if how != OPPORTUNISTIC:
        return {**links, "day_ports": none, "fibers": np.zeros(keys.size, FIBER)}
    count = state["last_start"] - state["first_start"]
    port = np.repeat(np.arange(network.n_ports), count)
    behind = np.cumsum(count)
    row = np.repeat(state["first_start"] - behind + count, count) + np.arange(port.size)
    spans, fiber = days[row], state["fiber"][port]
    order = np.lexsort((spans[:, 0], fiber))
    fibers = np.zeros(keys.size, FIBER)
    end = len(days) + np.cumsum(np.bincount(fiber, minlength=keys.size))
    fibers["first_day"][1:], fibers["last_day"] = end[:-1], end
    fibers["first_day"][0] = len(days)
    fibers["period_ps"][fiber] = state["period_ps"][port]
    _begin(fibers, state, ends, local_ports(network))
    day_ports = np.concatenate([np.zeros(len(days), np.int64), local_ports(network)[port[order]]])
    return {
        **links,
        "days": np.concatenate([days, spans[order]]),
        "day_ports": day_ports,
        "fibers": fibers,
    }


def _begin(fibers: Any, state: Any, ends: Ints, local: Ints) -> None:
    """Set fibers to before their first day. Fibers always up, or never used, have none."""
    fibers["opens_ps"] = fibers["closes_ps"] = INF
    fibers["closes_ps"][fibers["first_day"] < fibers["last_day"]] = -INF
    always = ends[state["closes_ps"][ends] == INF]
    fibers["port"][state["fiber"][always]] = local[always]
    fibers["opens_ps"][state["fiber"][always]] = -INF


def local_ports(network: Network) -> Ints:
    """Return int64[n_ports]: the local number of each port."""
    first: Ints = network.node_first_port[network.port_node]
    return np.arange(network.n_ports) - first


def fibers_of(network: Network, links: dict[str, np.ndarray]) -> tuple[Ints, Ints]:
    """Return the first and last fiber of each switch."""
    fibers, state = links["fibers"], links["circuits"]
    ends = np.flatnonzero(state["fiber"] != NONE)
    node = np.zeros(fibers.size, np.int64)  # no switch without indirect packets
    node[state["fiber"][ends]] = network.port_node[ends]
    switches = np.arange(network.n_hosts, network.n_nodes)
    return np.searchsorted(node, switches), np.searchsorted(node, switches, side="right")
