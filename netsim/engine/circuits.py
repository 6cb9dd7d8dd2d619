"""Initial arrays for circuits and for indirect packets."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from netsim.engine.kernels.fields import Array
from netsim.engine.kernels.layout import CIRCUIT, DIRECT, FIBER, INF, LOSS, OPPORTUNISTIC, SLOT, VLB
from netsim.engine.share import rows_of
from netsim.engine.simulation import FeatureSet, Simulation
from netsim.model import fabric as rules_of
from netsim.model.circuit_times import light_times, start_times
from netsim.model.circuits import NONE, Circuits, PhaseSchedule
from netsim.model.fabric import CircuitRules, Fabric
from netsim.model.network import Network


def build_circuits(simulation: Simulation) -> dict[str, np.ndarray]:
    """Return `circuits`, `days` and `reconfiguring_ports` of LinkState, with one entry without
    circuits."""
    network = simulation.network
    if not simulation.feature_set.circuits or network.circuits is None:
        return {
            "circuits": np.zeros(1, CIRCUIT),
            "days": np.zeros((1, 2), np.int64),
            "reconfiguring_ports": np.zeros(1, np.int64),
        }
    circuits = network.circuits
    rules = simulation.fabric.circuits or CircuitRules()
    light = light_times(circuits)
    starts = start_times(network, circuits, rules, simulation.packets, simulation.seed)
    state = np.zeros(network.n_ports, CIRCUIT)
    state["first_up"], state["last_up"] = light.first[:-1], light.first[1:]
    first_start = len(light.spans_ps) + starts.first
    state["first_start"], state["last_start"] = first_start[:-1], first_start[1:]
    dated = circuits.calendar != NONE
    state["period_ps"][dated] = circuits.period_ps[circuits.calendar[dated]]
    # A circuit that is not always up looks up its current day at first use.
    state["up_ps"], state["opens_ps"] = -INF, -INF
    state["down_ps"] = state["closes_ps"] = np.where(dated, -INF, INF)
    phase_driven, begun = _begun(circuits)
    state["last_up"][phase_driven] = state["first_up"][phase_driven] + begun
    state["last_start"][phase_driven] = state["first_start"][phase_driven] + begun
    return {
        "circuits": state,
        "days": np.concatenate([light.spans_ps, starts.spans_ps]),
        "reconfiguring_ports": np.concatenate(
            [*(ports for pair in _turning(circuits) for ports in pair), [0]]
        ),
    }


def build_slots(simulation: Simulation) -> Array:
    """Return `slots` of Clock; empty unless circuit switches are phase-driven."""
    circuits, phase_schedule = simulation.network.circuits, _phase_schedule(simulation)
    if circuits is None or phase_schedule is None:
        return np.zeros(0, SLOT)
    slots = np.zeros(phase_schedule.n_slots, SLOT)
    slots["control_delay_ps"] = phase_schedule.control_delay_ps
    slots["night_ps"] = phase_schedule.night_ps
    slots["begin_ps"][1:] = slots["up_ps"][1:] = INF
    of_flows = phases(simulation)
    slots["waits_for"] = np.bincount(of_flows[of_flows >= 0], minlength=phase_schedule.n_slots)
    sizes = np.array([[ports.size for ports in pair] for pair in _turning(circuits)])
    ends = np.cumsum(sizes).reshape(-1, 2)
    slots["first_ending"] = ends[:, 0] - sizes[:, 0]
    slots["first_beginning"], slots["behind"] = ends.T
    return slots


def phases(simulation: Simulation) -> Array:
    """Return `phase` of HostState: int64[n_flows], -1 for none; one entry without phases."""
    phase_schedule = _phase_schedule(simulation)
    if phase_schedule is None:
        return np.zeros(1, np.int64)
    given = phase_schedule.phase_of_flow
    assert given is not None
    assert given.size == len(simulation.flows)
    return given


def _phase_schedule(simulation: Simulation) -> PhaseSchedule | None:
    circuits = simulation.network.circuits
    if not simulation.feature_set.phase_driven or circuits is None:
        return None
    return circuits.phase_schedule


def _begun(circuits: Circuits) -> tuple[Array, Array]:
    """Return the ports whose days the workload decides, and how many of each are initially set."""
    if circuits.phase_schedule is None:
        none = np.zeros(0, np.int64)
        return none, none
    first_slot = circuits.phase_schedule.slots[circuits.first_day[:-1], 0]
    phase_driven = np.flatnonzero(circuits.calendar != NONE)
    phase_driven = phase_driven[first_slot[circuits.calendar[phase_driven]] != NONE]
    return phase_driven, first_slot[circuits.calendar[phase_driven]] == 0


def _turning(circuits: Circuits) -> list[tuple[Array, Array]]:
    """Return for each slot the ports whose circuits end and begin with it; the first has none."""
    phase_schedule = circuits.phase_schedule
    if phase_schedule is None:
        return []
    dated = np.flatnonzero(circuits.calendar != NONE)
    count = np.diff(circuits.first_day)[circuits.calendar[dated]]
    port = np.repeat(dated, count)
    rows = rows_of(circuits.first_day[circuits.calendar[dated]], count)
    begins, ends = phase_schedule.slots[rows].T
    none = np.zeros(0, np.int64)
    later = range(1, phase_schedule.n_slots)
    return [(none, none), *((port[ends == slot], port[begins == slot]) for slot in later)]


def memory_bytes(network: Network, n_traffic_classes: int) -> int:
    """Return the memory of circuits: a record per port, losses per class, both ends' days."""
    if network.circuits is None or not network.circuits.change:
        return 0
    per_port = CIRCUIT.itemsize + n_traffic_classes * LOSS.itemsize
    return network.n_ports * per_port + 2 * 2 * network.circuits.days_ps.nbytes


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
    spans, fiber = days[rows_of(state["first_start"], count)], state["fiber"][port]
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
    """Set fibers to before their first day. Fibers that are always up or unused have none."""
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
