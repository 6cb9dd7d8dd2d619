"""Reproduced figures of the paper: the paper's values, ours, and output files; figures 1, 3 and 4,
which come from formulas.

A figure is a function here, in `simulated_figures.py` or in `lite.py`, which takes results and
returns a `PaperFigure`; `SWEEPS` of the file has its simulations, if any. The paper's values are in
`netsim/workloads/job/paper.csv`, or next to the function if only simulation gives ours.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from netsim.common.writing import write_text, writing_to
from netsim.experiment import Experiment, built_in
from netsim.experiment.scenario import network_of
from netsim.frozen import frozen
from netsim.model.trees import fabric_cables_needed, switches_needed
from netsim.plots import style, sweeps
from netsim.plots.networks import Panel, draw_networks
from netsim.plots.style import save
from netsim.units import format_number
from netsim.workloads.job import paper
from netsim.workloads.job.paper import HOSTS, RAIL_HOSTS

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from netsim.results import Result

ENDINGS = ("png", "pdf")

JOBS = {"dense": "dense", "MoE": "moe"}  # the paper's names of its models, and their jobs
POST_HOC = "POST-HOC"  # our input was chosen to give this value, so it validates nothing
NOT_REPRODUCED = "not reproduced"  # the paper's inputs and formulas do not give its value
SMALLER = "smaller"  # simulated below the paper's size
UNVERIFIED = "unverified"  # our inputs, or the paper's value, are quoted from memory

MORE_THAN, LESS_THAN, AT_MOST, AT_LEAST = "more than", "less than", "at most", "at least"


class Sweep(NamedTuple):
    """A shipped experiment and its changes for the quick and the full form. `name` is the folder of
    its results. Figures with the same sweep share points."""

    name: str
    experiment: str
    quick: tuple[str, ...] = ()
    full: tuple[str, ...] = ()


class Value(NamedTuple):
    """A value of the paper, and ours; both in `unit`.

    `bound` is "" or the paper's qualifier: `MORE_THAN`, `LESS_THAN`, `AT_MOST` or `AT_LEAST`.
    `standing` is empty, or says why the two do not validate each other, such as `POST_HOC`.
    """

    what: str
    paper: float
    ours: float
    unit: str
    section: str
    bound: str = ""
    standing: str = ""

    @property
    def difference(self) -> float:
        """Our deviation in percent of the paper's value."""
        return 100 * (self.ours / self.paper - 1)

    @property
    def within(self) -> bool:
        """Whether the paper's value is a bound that ours satisfies."""
        bounds = {
            MORE_THAN: self.ours > self.paper,
            LESS_THAN: self.ours < self.paper,
            AT_MOST: self.ours <= self.paper,
            AT_LEAST: self.ours >= self.paper,
        }
        return bounds.get(self.bound, False)

    @property
    def stated(self) -> str:
        return f"{self.bound} {format_number(self.paper)}".strip()


def stated(
    name: str, what: str, ours: float | None = None, *, standing: str | None = None
) -> Value:
    """Return a value of `netsim.workloads.job.paper` by name, with the model's result or a given
    one. `standing` defaults to the model's. Raises KeyError for an unknown name."""
    one = {figure.name: figure for figure in paper.figures()}[name]
    assert one.number is not None
    bound = {">": MORE_THAN, "<": LESS_THAN}.get(one.stated[0], "")
    if standing is None:
        standing = POST_HOC if one.post_hoc else ""
        standing = NOT_REPRODUCED if one.agreement == "no" else standing
    value = one.ours if ours is None else ours
    return Value(what, one.number, value, one.unit, one.section, bound, standing)


@frozen
class PaperFigure:
    """A figure and its data.

    `drawn` has every drawn value, in columns of equal length. `about` describes the figure in one
    line; `notes` are caveats. `table` has more of our values than the paper states.
    """

    figure: Figure
    values: Sequence[Value]
    drawn: Mapping[str, Sequence[Any]]
    about: str
    notes: Sequence[str] = ()
    table: sweeps.Table | None = None


def columns(header: Sequence[str], rows: Sequence[Sequence[Any]]) -> dict[str, list[Any]]:
    return {name: list(one) for name, one in zip(header, zip(*rows, strict=True), strict=True)}


def write(made: PaperFigure, directory: Path, name: str) -> list[Path]:
    """Write NAME.png, NAME.pdf, NAME.csv (drawn values) and NAME_stated.csv (comparison). Returns
    their paths. Raises InputError if `directory` cannot be written to."""
    values, table = directory / f"{name}.csv", directory / f"{name}_stated.csv"
    with writing_to(directory):
        directory.mkdir(parents=True, exist_ok=True)
        pictures = [save(made.figure, directory / f"{name}.{ending}") for ending in ENDINGS]
        _write_csv(values, list(made.drawn), list(zip(*made.drawn.values(), strict=True)))
        _write_csv(
            table,
            ["what", "unit", "bound", "paper", "ours", "difference_percent", "standing", "section"],
            [
                (one.what, one.unit, one.bound, one.paper, one.ours, one.difference, one.standing,
                 one.section)
                for one in made.values
            ],
        )  # fmt: skip
    return [*pictures, values, table]


def _write_csv(path: Path, header: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(header)
    writer.writerows(rows)
    write_text(path, text.getvalue())


SWEEPS: dict[str, tuple[Sweep, ...]] = {}
IN_PAPER = "stated in the paper"

LAW_NAMES = dict(
    zip(paper.LAWS, ("Kaplan", *(f"Hoffmann, approach {n}" for n in (1, 2, 3))), strict=True)
)
LAW = "hoffmann2"  # the law that the paper uses

SIZES = {"N_opt_hoffmann2": 4.0, "N_50T": 1.0}
"""Metrics of `netsim.workloads.job`, and years of training, which the paper does not state."""


def fig1(_: Sequence[Result]) -> PaperFigure:
    """Draw compute-optimal model size against training time, for the FLOP/s of the paper's
    cluster."""
    flops = paper.Infrastructure().flops
    years = np.geomspace(0.1, 10, 81)
    figure, (axes,) = style.new_figure()
    rows: list[tuple[str, float, float]] = []
    values = [
        stated(name, f"{LAW_NAMES[LAW]}, years: {at:g}", trillions(LAW, flops, at))
        for name, at in SIZES.items()
    ]
    for place, (law, name) in enumerate(LAW_NAMES.items()):
        sizes = [trillions(law, flops, at) for at in years]
        rows += [(name, *pair) for pair in zip(years.tolist(), sizes, strict=True)]
        curve_style = style.distinct_in_grayscale(style.CurveStyle(style.color(place)), place)
        axes.plot(years, sizes, label=name, **curve_style.options(len(sizes)))
    points = [(at, value.paper, "") for at, value in zip(SIZES.values(), values, strict=True)]
    style.mark_stated(axes, points, IN_PAPER)
    style.logarithmic(axes, "x")
    style.logarithmic(axes, "y")
    axes.set(xlabel="training time (years)", ylabel="parameters (trillions)")
    about = f"the compute-optimal model, trained with {flops / 1e21:.4g}e21 FLOP/s"
    style.finish(figure, axes, f"Figure 1: {about}", "upper left")
    notes = [
        f"{POST_HOC}: the law, its start and the duration were chosen to give these sizes",
        "constants of the laws: netsim/workloads/job/paper.py",
    ]
    drawn = columns(("law", "years", "trillion_parameters"), rows)
    return PaperFigure(figure, values, drawn, about, notes)


def trillions(law: str, flops: float, years: float) -> float:
    """Parameters of the compute-optimal model, in trillions, after some years of training."""
    return paper.optimal_parameters(law, flops * years * paper.YEAR_S) / 1e12


@frozen
class Sensitivity:
    """Exposed communication against one network speed, a line per model and network.

    `ends` are the ends of the axis; `networks` maps a line's name to its network at each speed;
    `stated` are metrics of `netsim.workloads.job`, with model and speed in the paper; `named` is a
    speed that the paper mentions.
    """

    name: str
    axis: str
    unit: str
    ends: tuple[float, float]
    networks: Mapping[str, Callable[[float], paper.PaperNetwork]]
    stated: Sequence[tuple[str, str, float]] = ()
    named: float | None = None


def exposed_percent(job: str, network: paper.PaperNetwork) -> float:
    """Return the exposed communication of a paper's job, in percent of a step."""
    return 100 * paper.exposed_fraction(paper.stage_seconds(paper.paper_job(job)), network)


def _sensitivity(
    found: Sensitivity, more: Sequence[Value] = (), notes: Sequence[str] = ()
) -> PaperFigure:
    """Draw a line for each model, the paper's values as diamonds and its bounds as triangles.
    `more` are values of the paper that are not in the figure."""
    speeds = np.geomspace(*found.ends, 101).tolist()
    values = [stated(name, f"{model}, {at:g} {found.unit}") for name, model, at in found.stated]
    figure, (axes,) = style.new_figure()
    rows: list[tuple[str, float, float]] = []
    for line, (name, network) in enumerate(found.networks.items()):
        for index, (model, job) in enumerate(JOBS.items()):
            ours = [exposed_percent(job, network(at)) for at in speeds]
            rows += [(f"{model}{name}", *pair) for pair in zip(speeds, ours, strict=True)]
            look = style.CurveStyle(style.color(index))
            look = style.distinct_in_grayscale(look, line * len(JOBS) + index)
            axes.plot(speeds, ours, label=f"{model}{name}", **look.options(len(ours)))
    if found.stated:
        points = [(at, v.paper, v.bound) for (*_, at), v in zip(found.stated, values, strict=True)]
        style.mark_stated(axes, points, IN_PAPER)
    if found.named is not None:
        axes.axvline(found.named, color="black", linestyle=(0, (6, 3)), label="in the paper")
    style.logarithmic(axes, "x")
    axes.set(ylim=(0, 100), xlabel=f"{found.axis} ({found.unit})")
    axes.set_ylabel("exposed communication (% of the step)")
    style.finish(figure, axes, f"Figure {found.name}: {found.axis}", "upper right")
    header = ("model", f"{found.axis} {found.unit}".replace(" ", "_"), "exposed_percent")
    about = "exposed communication of a training step, from the model of the job"
    return PaperFigure(figure, [*values, *more], columns(header, rows), about, notes)


def fig3a(_: Sequence[Result]) -> PaperFigure:
    """Draw exposed communication against the speed of the scale-up network."""
    return _sensitivity(
        Sensitivity(
            "3a", "scale-up speed", "Tbps a GPU", (0.2, 28.8),
            {"": lambda tbps: paper.PaperNetwork(scale_up_bps=tbps * 1e12)},
            [
                ("exposed_dense", "dense", 14.4),
                ("exposed_moe", "MoE", 14.4),
                ("exp_up800_dense", "dense", 0.8),
                ("exp_up800_moe", "MoE", 0.8),
            ],
        )
    )  # fmt: skip


def fig3b(_: Sequence[Result]) -> PaperFigure:
    """Draw exposed communication against the speed of the scale-out network."""
    notes = ["at 1.6 Tbps the MoE's collectives of tensor parallelism alone expose more than 5 %"]
    speeds = Sensitivity(
        "3b", "scale-out speed", "Gbps a GPU", (50, 3200),
        {"": lambda gbps: paper.PaperNetwork(scale_out_bps=gbps * 1e9)},
        [
            ("exposed_dense", "dense", 800),
            ("exposed_moe", "MoE", 800),
            ("exp_out100_dense", "dense", 100),
            ("exp_out100_moe", "MoE", 100),
            ("exp_out1600_moe", "MoE", 1600),
        ],
    )  # fmt: skip
    return _sensitivity(speeds, notes=notes)


ENOUGH = "wan_ok_capacity"  # sufficient in the paper; metric of `netsim.workloads.job`

ROUND_TRIPS = ("", ", a round trip more")
"""Round trips that the transport adds to the delay of 30 ms, by number."""


def fig3c(_: Sequence[Result]) -> PaperFigure:
    """Draw exposed communication against the capacity between datacenters for each GPU, with and
    without an extra round trip."""
    values = [
        stated(
            ENOUGH, f"{model}{name}: the sufficient minimum",
            paper.wan_needed_bps(paper.stage_seconds(paper.paper_job(job)), n) / 1e9,
        )
        for model, job in JOBS.items()
        for n, name in enumerate(ROUND_TRIPS)
    ]  # fmt: skip
    networks = {name: partial(_wide_area, n) for n, name in enumerate(ROUND_TRIPS)}
    axis = "capacity between datacenters"
    named = values[0].paper
    found = Sensitivity("3c", axis, "Gbps a GPU", (1, 100), networks, named=named)
    return _sensitivity(found, values, ["the paper calls 20 Gbps sufficient without saying why"])


def _wide_area(round_trips: int, gbps: float) -> paper.PaperNetwork:
    return paper.PaperNetwork(wan_bps=gbps * 1e9, wan_round_trips=round_trips)


EXPERIMENT, DRAWN_HOSTS = "topologies", 128


class StatedCounts(NamedTuple):
    """A topology as described in the paper. `figures` are its metrics of `netsim.workloads.job`,
    chips and cables, "" if not stated."""

    name: str
    hosts: int
    radix: int
    tiers: int
    planes: int
    figures: tuple[str, str]


TOPOLOGIES = (
    StatedCounts("fat tree, 64 x 800G", HOSTS, 64, 4, 1, ("ft4_switches", "ft4_links")),
    StatedCounts("4 planes, 256 x 200G", HOSTS, 256, 3, 4, ("", "")),
    StatedCounts("76 rails of 4 planes", RAIL_HOSTS, 256, 2, 4, ("rails76_chips", "rails76_links")),
)


class PeerCounts(NamedTuple):
    """Switch chips, and cables between switches; one cable holds the links of all planes."""

    chips: float
    cables: float


def fig4(_: Sequence[Result]) -> PaperFigure:
    """Draw a fat tree, planes, and rails with scale-up networks, and compare counts with the
    paper's.

    Its counts for 800,000 hosts, or 76 rails of 11,000, are by formula (`netsim.model.trees`).
    """
    points = Experiment.load(built_in()[EXPERIMENT]).points()
    panels = [Panel(str(point.axes["topology"]), network_of(point)) for point in points]
    names = ("topology", *StatedCounts._fields[1:-1], *PeerCounts._fields)
    drawn: dict[str, list[Any]] = columns(names, [(*one[:-1], *counts(one)) for one in TOPOLOGIES])
    notes = [
        "chips are planes x (2 tiers - 1) x hosts / ports, cables between switches (tiers - 1) x "
        "hosts: one of 800 Gbps holds the links of all planes",
        f"76 rails of the paper's 11,000 GPUs each are {RAIL_HOSTS:,} hosts: with {HOSTS:,} the "
        "chips would be 37,500, and the paper has 39,000",
        f"netsim topo {EXPERIMENT} counts the networks that are drawn",
    ]
    counted = f"counted with {HOSTS:,}, rails with {RAIL_HOSTS:,}"
    about = f"candidate topologies, drawn with {DRAWN_HOSTS} hosts each, {counted}"
    return PaperFigure(draw_networks(panels), list(_counted()), drawn, about, notes)


def counts(stated: StatedCounts) -> PeerCounts:
    """Return the counts of a network by formula. Rails divide the hosts among trees with fewer
    tiers, with as many chips and cables in total as a single tree with these tiers would have."""
    chips = stated.planes * switches_needed(stated.hosts, stated.tiers, stated.radix)
    return PeerCounts(float(chips), fabric_cables_needed(stated.hosts, stated.tiers))


def _counted() -> Iterator[Value]:
    for one in TOPOLOGIES:
        for name, what, ours in zip(one.figures, PeerCounts._fields, counts(one), strict=True):
            if name:
                yield stated(name, f"{one.name}: {what}", ours)
    tree, planes, _ = map(counts, TOPOLOGIES)
    for name, what in (("mp3_chip_reduction", "chips"), ("mp3_link_reduction", "cables")):
        saved = 100 * (1 - getattr(planes, what) / getattr(tree, what))
        yield stated(name, f"{TOPOLOGIES[1].name}: {what} less", saved)
