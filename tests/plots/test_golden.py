"""Every kind of plot of made-up results has its golden description."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from golden_pictures import assert_golden
from plot_points import make, point, varied

from netsim.plots import by_axis, flows, links
from netsim.plots.sweeps import Picture

__all__ = ["make", "point"]

FAIR_PS = {seed: {"max": 1e6 * (seed + 1.5), "mean": 1e6 * (seed + 0.5)} for seed in (1, 2)}

Make = Callable[..., Any]


def transports(make: Make) -> list[Any]:
    """Two transports and the ideal, two seeds, with unfinished flows."""
    return [
        varied(make, "traffic.load", 1, name, seed, n_flows=20, unfinished=seed - 1)
        for name in ("ideal", "ndp", "roce")
        for seed in (1, 2)
    ]


def loads(point: Make) -> list[Any]:
    return [
        point(name, seed, traffic={"load": value}, axes={"traffic.load": value},
              fair_ps=FAIR_PS[seed] if name == "roce" else None)
        for name in ("ideal", "roce", "ndp")
        for value in (0.5, 0.25, 1.0)
        for seed in (1, 2)
    ]  # fmt: skip


def one_load(point: Make) -> list[Any]:
    return [
        point(name, seed, fair_ps=FAIR_PS[seed] if name == "roce" else None)
        for name in ("ideal", "ndp:800g", "roce")
        for seed in (1, 2)
    ]


def many(make: Make) -> list[Any]:
    """24 curves of two transports: a panel each, with ten colors."""
    return [
        varied(make, "traffic.load", load / 12, name, n_flows=10)
        for name in ("ndp", "roce")
        for load in range(12)
    ]


def sizes(make: Make) -> list[Any]:
    return [make(n_flows=1000, sizes=np.random.default_rng(1).integers(100, 10**6, 1000))]


def fan_in(make: Make) -> list[Any]:
    """An axis of numbers, with a reference."""
    results = [
        varied(make, "traffic.fan_in", count, name, seed, n_flows=20)
        for name in ("ideal", "ndp", "roce")
        for count in (4, 16, 64)
        for seed in (1, 2)
    ]
    stated = {"axis": "traffic.fan_in", "column": "fct_mean", "label": "theory", "source": "a book"}
    for result in results:
        values = [[4, "2us"], [30, "3us"], [64, "5us"]]
        result.experiment["resolved"]["reference"] = stated | {"values": values}
    return results


def rates(make: Make) -> list[Any]:
    """Two rates are side by side: no line joins them, and no dot covers another."""
    return [
        varied(make, "topology.host_rate", rate, name)
        for name in ("ndp", "roce")
        for rate in ("800Gbps", "400Gbps")
    ]


def routing(make: Make) -> list[Any]:
    """Names on x; two kinds of traffic have two ideals, each with its entry and line."""
    results = []
    for traffic, ideal in (("pipeline", 1e6), ("all-to-all", 3e6)):
        for faults in ("intact", "broken"):
            for name in ("ecmp", "drill", "spray"):
                result = varied(make, "fabric.routing", name, n_flows=5)
                result.experiment["axes"] |= {"traffic": traffic, "faults": faults}
                result.experiment["resolved"] |= {"traffic": {"kind": traffic}, "f": faults}
                result.summary["ideal_ps"] = {"max": ideal}
                results.append(result)
    return results


def xy(x: str, y: str) -> Callable[[list[Any]], Picture]:
    def draw(results: list[Any]) -> Picture:
        found = by_axis.against_axis(results, x, y)
        return Picture(by_axis.draw_against_axis(found), found.table)

    return draw


CASES: dict[str, tuple[Callable[[list[Any]], Picture], Callable[[Make], list[Any]], str]] = {
    "fct_cdf": (flows.fct_cdf, transports, "make"),
    "fct_cdf, many": (flows.fct_cdf, many, "make"),
    "throughput_cdf": (flows.throughput_cdf, transports, "make"),
    "slowdown": (flows.slowdown, transports, "make"),
    "slowdown, many": (flows.slowdown, many, "make"),
    "slowdown by size": (flows.slowdown, sizes, "make"),
    "links": (links.links, transports, "make"),
    "fct_by_transport": (by_axis.fct_by_transport, one_load, "point"),
    "fct_vs_load": (by_axis.fct_vs_load, loads, "point"),
    "xy, numbers": (xy("fan_in", "fct_mean"), fan_in, "make"),
    "xy, percentile": (xy("fan_in", "fct_p99"), fan_in, "make"),
    "xy, counter": (xy("fan_in", "trims"), fan_in, "make"),
    "xy, seeds": (xy("seed", "fct_p99"), fan_in, "make"),
    "xy, two rates": (xy("host_rate", "fct_max"), rates, "make"),
    "xy, names": (xy("routing", "fct_max"), routing, "make"),
    "xy, transports": (xy("transport", "fct_max"), many, "make"),
}


@pytest.mark.parametrize("name", CASES)
def test_picture_is_the_golden_one(name: str, request: pytest.FixtureRequest) -> None:
    draw, results, fixture = CASES[name]
    assert_golden(name, draw(results(request.getfixturevalue(fixture))))
