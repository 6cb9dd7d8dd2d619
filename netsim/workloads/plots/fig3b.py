"""Figure 3b: exposed communication against the speed of the scale-out network."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from netsim.workloads.job.paper import PaperNetwork
from netsim.workloads.plots.paper_figure import PaperFigure, Sweep
from netsim.workloads.plots.sensitivity import Line, Sensitivity, StatedSensitivity, reproduce

if TYPE_CHECKING:
    from netsim.results import Result

SWEEPS: tuple[Sweep, ...] = ()

STATED = (
    StatedSensitivity("exposed_dense", "dense", 800),
    StatedSensitivity("exposed_moe", "MoE", 800),
    StatedSensitivity("exp_out100_dense", "dense", 100),
    StatedSensitivity("exp_out100_moe", "MoE", 100),
    StatedSensitivity("exp_out1600_moe", "MoE", 1600),
)


def make(_: Sequence[Result]) -> PaperFigure:
    """Draw the figure from 50 Gbps to 3.2 Tbps per GPU. Nothing is simulated."""
    line = Line("", lambda gbps: PaperNetwork(scale_out_bps=gbps * 1e9))
    speeds = np.geomspace(50, 3200, 101).tolist()
    notes = ["at 1.6 Tbps the MoE's collectives of tensor parallelism alone expose more than 5 %"]
    one = Sensitivity("3b", "scale-out speed", "Gbps a GPU", speeds, [line], STATED)
    return reproduce(one, notes=notes)
