"""Exposed communication against one network speed, for figures 3a to 3c."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from netsim.plots import style
from netsim.workloads.job.paper import PaperNetwork, exposed_fraction, paper_job, stage_seconds
from netsim.workloads.plots.paper_figure import PaperFigure, Value, columns, stated

JOBS = {"dense": "dense", "MoE": "moe"}
"""The paper's names of its models, and their jobs."""

ABOUT = "exposed communication of a training step, from the model of the job"


class StatedSensitivity(NamedTuple):
    """A metric of `netsim.workloads.job`: its model, and the speed in the paper."""

    name: str
    model: str
    at: float


class Line(NamedTuple):
    """A line per model: its name, and the network at each speed."""

    name: str
    network: Callable[[float], PaperNetwork]


@dataclass(frozen=True)
class Sensitivity:
    """One of the figures: name, axis, lines, and the paper's values."""

    name: str
    axis: str
    unit: str
    values: Sequence[float]
    lines: Sequence[Line]
    stated: Sequence[StatedSensitivity] = ()
    named: float | None = None
    """A value on the axis that the paper mentions."""


def exposed_percent(job: str, network: PaperNetwork) -> float:
    """Return the exposed communication of a paper's job, in percent of a step."""
    return 100 * exposed_fraction(stage_seconds(paper_job(job)), network)


def reproduce(
    one: Sensitivity, more: Sequence[Value] = (), notes: Sequence[str] = ()
) -> PaperFigure:
    """Draw a line per model, with the paper's values as diamonds, and its bounds as triangles.

    `more` are values of the paper that are not in the figure.
    """
    values = [stated(at.name, f"{at.model}, {at.at:g} {one.unit}") for at in one.stated]
    figure, (axes,) = style.new_figure()
    rows: list[tuple[str, float, float]] = []
    place = 0
    for line in one.lines:
        for index, (model, job) in enumerate(JOBS.items()):
            ours = [exposed_percent(job, line.network(at)) for at in one.values]
            rows += [(f"{model}{line.name}", *pair) for pair in zip(one.values, ours, strict=True)]
            curve_style = style.distinct_in_grayscale(style.CurveStyle(style.color(index)), place)
            axes.plot(
                one.values, ours, label=f"{model}{line.name}", **curve_style.options(len(ours))
            )
            place += 1
    if one.stated:
        points = [(at.at, v.paper, v.bound) for at, v in zip(one.stated, values, strict=True)]
        style.mark_stated(axes, points, "stated in the paper")
    if one.named is not None:
        axes.axvline(one.named, color="black", linestyle=(0, (6, 3)), label="in the paper")
    style.logarithmic(axes, "x")
    axes.set_ylim(0, 100)
    axes.set_xlabel(f"{one.axis} ({one.unit})")
    axes.set_ylabel("exposed communication (% of the step)")
    style.finish(figure, axes, f"Figure {one.name}: {one.axis}", "upper right")
    header = ("model", f"{one.axis} {one.unit}".replace(" ", "_"), "exposed_percent")
    drawn = columns(header, rows)
    return PaperFigure(figure, [*values, *more], drawn, ABOUT, notes)
