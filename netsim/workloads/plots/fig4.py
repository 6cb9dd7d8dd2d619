"""Figure 4: candidate topologies: a fat tree, planes, and rails with scale-up networks.

Drawn with 128 hosts each; the paper's counts for 800,000 hosts, or 76 rails of 11,000, are computed
by formula (`netsim.model.trees`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from netsim.experiment import Experiment, built_in
from netsim.experiment.scenario import network_of
from netsim.model.trees import fabric_cables_needed, switches_needed
from netsim.plots.network_drawing import Panel, draw_networks
from netsim.workloads.job.metrics import HOSTS, RAIL_HOSTS
from netsim.workloads.plots.paper_figure import PaperFigure, Sweep, Value, stated

if TYPE_CHECKING:
    from netsim.results import Result

SWEEPS: tuple[Sweep, ...] = ()
EXPERIMENT = "topologies"
DRAWN_HOSTS = 128


class StatedCounts(NamedTuple):
    """A topology as described in the paper.

    `figures` are its metrics of `netsim.workloads.job`, chips and cables, "" if not stated.
    """

    name: str
    hosts: int
    radix: int
    tiers: int
    planes: int
    figures: tuple[str, str]


STATED = (
    StatedCounts("fat tree, 64 x 800G", HOSTS, 64, 4, 1, ("ft4_switches", "ft4_links")),
    StatedCounts("4 planes, 256 x 200G", HOSTS, 256, 3, 4, ("", "")),
    StatedCounts("76 rails of 4 planes", RAIL_HOSTS, 256, 2, 4, ("rails76_chips", "rails76_links")),
)


class PeerCounts(NamedTuple):
    """Switch chips, and cables between switches; one cable holds the links of all planes."""

    chips: float
    cables: float


def make(_: Sequence[Result]) -> PaperFigure:
    """Draw the topologies and compare counts with the paper's. Nothing is simulated."""
    points = Experiment.load(built_in()[EXPERIMENT]).points()
    panels = [Panel(str(point.axes["topology"]), network_of(point)) for point in points]
    ours = [counts(one) for one in STATED]
    drawn: dict[str, list[Any]] = {
        "topology": [one.name for one in STATED],
        "hosts": [one.hosts for one in STATED],
        "radix": [one.radix for one in STATED],
        "tiers": [one.tiers for one in STATED],
        "planes": [one.planes for one in STATED],
        "chips": [one.chips for one in ours],
        "cables": [one.cables for one in ours],
    }
    notes = [
        "chips are planes x (2 tiers - 1) x hosts / ports, cables between switches (tiers - 1) x "
        "hosts: one of 800 Gbps holds the links of all planes",
        f"76 rails of the paper's 11,000 GPUs each are {RAIL_HOSTS:,} hosts: with {HOSTS:,} the "
        "chips would be 37,500, and the paper has 39,000",
        f"netsim topo {EXPERIMENT} counts the networks that are drawn",
    ]
    counted = f"counted with {HOSTS:,}, rails with {RAIL_HOSTS:,}"
    about = f"candidate topologies, drawn with {DRAWN_HOSTS} hosts each, {counted}"
    return PaperFigure(draw_networks(panels), list(_values()), drawn, about, notes)


def counts(stated: StatedCounts) -> PeerCounts:
    """Return the counts of a network by formula.

    Rails divide the hosts among trees with fewer tiers: together they have as many chips and cables
    as one tree with these tiers would.
    """
    chips = stated.planes * switches_needed(stated.hosts, stated.tiers, stated.radix)
    return PeerCounts(float(chips), fabric_cables_needed(stated.hosts, stated.tiers))


def _values() -> Iterator[Value]:
    for one in STATED:
        for name, what, ours in zip(one.figures, PeerCounts._fields, counts(one), strict=True):
            if name:
                yield stated(name, f"{one.name}: {what}", ours)
    tree, planes, _ = map(counts, STATED)
    for name, what in (("mp3_chip_reduction", "chips"), ("mp3_link_reduction", "cables")):
        saved = 100 * (1 - getattr(planes, what) / getattr(tree, what))
        yield stated(name, f"{STATED[1].name}: {what} less", saved)
