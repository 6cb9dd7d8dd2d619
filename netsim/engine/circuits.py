"""Circuit arrays of the initial state."""

from __future__ import annotations

import numpy as np

from netsim.engine.kernels.ids import Array
from netsim.engine.kernels.layout import CIRCUIT, INF, LOSS, SLOT
from netsim.engine.simulation import Simulation
from netsim.model.circuit_times import light_times, start_times
from netsim.model.circuits import Circuits
from netsim.model.fabric import CircuitRules
from netsim.model.network import Network
from netsim.model.schedules import NONE


def build_circuits(simulation: Simulation) -> dict[str, np.ndarray]:
    """Return `circuits`, `days` and `reconfiguring_ports` of LinkState, with one entry without
    circuits."""
    network = simulation.network
    if not simulation.feature_set.circuits or network.circuits is None:
        one = np.zeros(1, np.int64)
        return {
            "circuits": np.zeros(1, CIRCUIT),
            "days": np.zeros((1, 2), np.int64),
            "reconfiguring_ports": one,
        }
    circuits = network.circuits
    rules = simulation.fabric.circuits or CircuitRules()
    light = light_times(circuits)
    starts = start_times(network, circuits, rules, simulation.packets, simulation.seed)
    state = np.zeros(network.n_ports, CIRCUIT)
    state["first_up"], state["last_up"] = light.first[:-1], light.first[1:]
    behind = len(light.spans_ps)
    state["first_start"], state["last_start"] = (
        behind + starts.first[:-1],
        behind + starts.first[1:],
    )
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
    circuits = simulation.network.circuits
    if (
        not simulation.feature_set.phase_driven
        or circuits is None
        or circuits.phase_schedule is None
    ):
        return np.zeros(0, SLOT)
    phase_schedule = circuits.phase_schedule
    slots = np.zeros(phase_schedule.n_slots, SLOT)
    slots["control_delay_ps"], slots["night_ps"] = (
        phase_schedule.control_delay_ps,
        phase_schedule.night_ps,
    )
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
    circuits = simulation.network.circuits
    if (
        not simulation.feature_set.phase_driven
        or circuits is None
        or circuits.phase_schedule is None
    ):
        return np.zeros(1, np.int64)
    given = circuits.phase_schedule.phase_of_flow
    assert given is not None
    assert given.size == len(simulation.flows)
    return given


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
    row = np.arange(port.size) - np.repeat(np.cumsum(count) - count, count)
    begins, ends = phase_schedule.slots[circuits.first_day[circuits.calendar[port]] + row].T
    none = np.zeros(0, np.int64)
    later = range(1, phase_schedule.n_slots)
    return [(none, none), *((port[ends == slot], port[begins == slot]) for slot in later)]


def memory_bytes(network: Network, n_traffic_classes: int) -> int:
    """Return the memory of circuits: a record per port, losses per class, both ends' days."""
    if network.circuits is None or not network.circuits.change:
        return 0
    per_port = CIRCUIT.itemsize + n_traffic_classes * LOSS.itemsize
    return network.n_ports * per_port + 2 * 2 * network.circuits.days_ps.nbytes
