"""Figure 3a: exposed communication against the speed of the scale-up network."""

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
    StatedSensitivity("exposed_dense", "dense", 14.4),
    StatedSensitivity("exposed_moe", "MoE", 14.4),
    StatedSensitivity("exp_up800_dense", "dense", 0.8),
    StatedSensitivity("exp_up800_moe", "MoE", 0.8),
)


def make(_: Sequence[Result]) -> PaperFigure:
    """Draw the figure from 0.2 to 28.8 Tbps per GPU. Nothing is simulated."""
    line = Line("", lambda tbps: PaperNetwork(scale_up_bps=tbps * 1e12))
    speeds = np.geomspace(0.2, 28.8, 101).tolist()
    return reproduce(Sensitivity("3a", "scale-up speed", "Tbps a GPU", speeds, [line], STATED))
