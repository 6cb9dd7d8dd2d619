"""Figure 3b: exposed communication against the speed of the scale-out network."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from netsim.job.paper import Network
from netsim.plots.reproduced import AT_MOST, NOT_REPRODUCED, Reproduced, Sweep
from netsim.plots.sensitivity import Line, Sensitivity, Stated, reproduce

if TYPE_CHECKING:
    from netsim.results import Result

SWEEPS: tuple[Sweep, ...] = ()

STATED = (
    Stated("dense", 800, 5),
    Stated("MoE", 800, 20),
    Stated("dense", 100, 55),
    Stated("MoE", 100, 85),
    Stated("MoE", 1600, 5, AT_MOST, NOT_REPRODUCED),
)


def make(_: Sequence[Result]) -> Reproduced:
    """The figure, from 50 Gbps to 3.2 Tbps a GPU. Nothing is simulated."""
    line = Line("", lambda gbps: Network(scale_out_bps=gbps * 1e9))
    speeds = np.geomspace(50, 3200, 101).tolist()
    notes = ["at 1.6 Tbps the MoE's collectives of tensor parallelism alone expose more than 5 %"]
    one = Sensitivity("3b", "scale-out speed", "Gbps a GPU", speeds, [line], STATED)
    return reproduce(one, notes=notes)
