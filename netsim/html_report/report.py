"""The sections' data: results, their labels and colors, and the paths of flows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from netsim.errors import InputError
from netsim.model.columns import Ints
from netsim.model.fabric import ECMP, PacketFormat
from netsim.plots import style, sweeps
from netsim.plots.networks import Graph, graph_of, links_of_table
from netsim.plots.style import axis_name, for_people, value_text
from netsim.results import Result, Sweep, load
from netsim.results.files import LINKS
from netsim.units import format_number

if TYPE_CHECKING:
    from netsim.experiment import Point as Experimental
    from netsim.experiment.scenario import Scenario


@dataclass
class Point:
    """A result with its label and color; its graph and paths are computed on first use."""

    result: Result
    label: str
    color: str
    trust: bool = False

    @property
    def is_ideal(self) -> bool:
        return sweeps.transport(self.result) == sweeps.IDEAL

    @property
    def transport(self) -> str:
        """The usual spelling of its transport's name."""
        return for_people([sweeps.transport(self.result)])[0]

    @cached_property
    def graph(self) -> Graph | None:
        """The network from the table of links; None without that table."""
        if not (self.result.path / LINKS).is_file() or not len(self.result.links):
            return None
        return graph_of(links_of_table(self.result.links))

    @property
    def packets(self) -> PacketFormat:
        """Sizes of packets; only with a scenario."""
        assert self._rebuilt is not None
        return self._rebuilt[0].packets

    @property
    def scenario(self) -> Scenario | None:
        """Network and traffic, rebuilt; None if that is impossible or needs trust."""
        return None if self._rebuilt is None else self._rebuilt[1]

    @cached_property
    def _rebuilt(self) -> tuple[Experimental, Scenario] | None:
        from netsim.experiment.scenario import prepare
        from netsim.tracing.record import point_of

        try:
            point = point_of(self.result, trust=self.trust)
            return point, prepare(point)
        except InputError:
            return None

    @cached_property
    def paths(self) -> Ints | None:
        """Links of each flow, int64[flows, hops], padded with -1; None if packets are sprayed.

        Computed with the switches' hash. If the flows would put more bytes on a link than it
        carried, the paths are wrong, so None is returned.
        """
        from netsim.model.ideal import hashed_paths

        if sweeps.resolved(self.result, "fabric.routing") != ECMP:
            return None
        if self.graph is None or self.scenario is None:
            return None
        scenario, flows = self.scenario, self.result.flows
        pairs = scenario.port_pairs
        if scenario.segments is not None or len(pairs.counts) != len(flows):
            return None
        if (pairs.counts != 1).any() or scenario.network.circuits is not None:
            return None
        found = hashed_paths(scenario.network, pairs, int(self.result.experiment["seed"]))
        return found if self._carried(found) else None

    def _carried(self, paths: Ints) -> bool:
        """Return whether each link carried the payload of the finished flows on it."""
        assert self.graph is not None
        n_links = len(self.graph.link_names)
        if paths.max(initial=-1) >= n_links:
            return False
        done = self.result.flows["fct_ps"].is_not_null().to_numpy()
        sizes = np.where(done, self.result.flows["size_bytes"].to_numpy(), 0)
        weights = np.repeat(sizes, paths.shape[1])
        needed = np.bincount(paths.ravel() + 1, weights, n_links + 1)[1:]
        carried = np.bincount(
            self.result.links["link"].to_numpy(), self.result.links["bytes"].to_numpy(), n_links
        )
        return bool((needed <= carried).all())

    def __hash__(self) -> int:
        return id(self)


def axis_text(value: Any) -> str:
    """Return a value of an axis: "1,300" for 1300.0."""
    return format_number(value) if isinstance(value, float) else value_text(value)


def slowness(point: Point) -> float:
    """Return the largest slowdown, 0 if no flow finished."""
    return float(point.result.summary["slowdown"].get("max") or 0)


class Report:
    """The results of a report.

    Attributes: `points`, `curves` (points that differ only in the seed are one), `title`, `axes`
    (in which results differ), `simulated` (points that are not the ideal), `worst` (the one with
    the largest slowdown) and `explain`, the number of its flows to simulate again.
    """

    def __init__(self, paths: Sequence[Path], *, trust: bool = False, explain: int = 0) -> None:
        loaded = [load(path) for path in paths]
        results = [one for each in loaded for one in _points(each)]
        curves = sweeps.curves(results, named=True)
        self.title = str(results[0].experiment["resolved"].get("name", results[0].name))
        self.axes = _axes(results)
        labels = [self.axes_text(curve.results[0]) for curve in curves]
        if len(set(labels)) < len(labels):
            labels = [curve.label for curve in curves]
        self.curves = [
            replace(curve, label=label)
            for curve, label in zip(curves, for_people(labels), strict=True)
        ]
        self.points = []
        for curve in self.curves:
            for result in curve.results:
                seed = f", seed {result.experiment['seed']}" if len(curve.results) > 1 else ""
                color = curve.curve_style.color
                self.points.append(Point(result, curve.label + seed, color, trust))
        self.simulated = [point for point in self.points if not point.is_ideal]
        self.worst = max(self.simulated or self.points, key=slowness)
        self.explain = explain

    @property
    def results(self) -> list[Result]:
        return [point.result for point in self.points]

    @property
    def slowest(self) -> list[Point]:
        """The points by their largest slowdown."""
        rest = [point for point in self.points if point is not self.worst]
        return [self.worst, *sorted(rest, key=slowness, reverse=True)]

    def axes_text(self, result: Result, *, without: str = "") -> str:
        """Return a result's values on the axes in which results differ, as "ndp, 4 planes"."""
        found = []
        for axis in self.axes:
            if axis in result.experiment["axes"] and axis != without:
                text = axis_text(result.experiment["axes"][axis])
                is_number = text[:1].isdigit() and "." in axis
                found.append(f"{axis_name(axis)} {text}" if is_number else text)
        return ", ".join(found) or sweeps.transport(result)


def _axes(results: Sequence[Result]) -> list[str]:
    """Return the axes of the sweep in which results differ, except the seed."""
    found: dict[str, set[str]] = {}
    for result in results:
        for axis, value in result.experiment["axes"].items():
            found.setdefault(axis, set()).add(repr(value))
    return [axis for axis, values in found.items() if len(values) > 1 and axis != "seed"]


def _points(loaded: Result | Sweep) -> list[Result]:
    if isinstance(loaded, Result):
        return [loaded]
    if not loaded.points:
        raise InputError(f"no finished points in the sweep {loaded.path}")
    return loaded.points


def unit_of(times_ps: Any) -> tuple[str, float]:
    """Return the unit for times and its picoseconds."""
    return style.time_unit(float(one) for one in times_ps if one is not None)
