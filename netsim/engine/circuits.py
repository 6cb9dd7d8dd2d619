"""The arrays of the state that say when ports may send into circuits, and what light passes."""

from __future__ import annotations

import numpy as np

from netsim.engine.kernels.layout import CIRCUIT, INF, LOSS
from netsim.engine.simulation import Simulation
from netsim.model.circuit_times import light_times, start_times
from netsim.model.fabric import CircuitRules
from netsim.model.network import Network
from netsim.model.schedules import NONE


def build_circuits(simulation: Simulation) -> dict[str, np.ndarray]:
    """`circuits` and `days` of Wires; where there are no circuits, one of each."""
    network = simulation.network
    if not simulation.parts.circuits or network.circuits is None:
        return {"circuits": np.zeros(1, CIRCUIT), "days": np.zeros((1, 2), np.int64)}
    circuits = network.circuits
    rules = simulation.fabric.circuits or CircuitRules()
    light = light_times(circuits)
    starts = start_times(network, circuits, rules, simulation.packets, simulation.seed)
    state = np.zeros(network.n_ports, CIRCUIT)
    state["first_lit"], state["last_lit"] = light.first[:-1], light.first[1:]
    behind = len(light.spans_ps)
    state["first_start"], state["last_start"] = (
        behind + starts.first[:-1],
        behind + starts.first[1:],
    )
    dated = circuits.calendar != NONE
    state["period_ps"][dated] = circuits.period_ps[circuits.calendar[dated]]
    # What holds now is looked for when it is first asked for, of those that are not always there.
    state["lit_ps"], state["opens_ps"] = -INF, -INF
    state["dark_ps"] = state["shuts_ps"] = np.where(dated, -INF, INF)
    return {"circuits": state, "days": np.concatenate([light.spans_ps, starts.spans_ps])}


def memory_bytes(network: Network, n_classes: int) -> int:
    """What circuits take: a record of each port, what each class lost, and both ends' days."""
    if network.circuits is None or not network.circuits.change:
        return 0
    per_port = CIRCUIT.itemsize + n_classes * LOSS.itemsize
    return network.n_ports * per_port + 2 * 2 * network.circuits.days_ps.nbytes
