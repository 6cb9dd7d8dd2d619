"""What a network was built from."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from netsim.model.circuits import CircuitSwitch


@dataclass(frozen=True, eq=False)
class Plan:
    """What a builder was told, in the order in which it was.

    Attributes:
        names, tiers, latency_ps: of the switches.
        cables: int64[n, 5], two nodes, bit/s, ps and the NIC of a host's end. Those of circuit
            switches are not among them.
        circuit_switches: with their fibers.
    """

    names: list[str] = field(default_factory=list)
    tiers: list[int] = field(default_factory=list)
    latency_ps: list[int] = field(default_factory=list)
    cables: NDArray[np.int64] = field(default_factory=lambda: np.zeros((0, 5), np.int64))
    circuit_switches: list[CircuitSwitch] = field(default_factory=list)
