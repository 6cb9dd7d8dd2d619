"""What the figures of sweeps share: transports, their points over the seeds, and tables."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from netsim.errors import InputError
from netsim.plots import style

if TYPE_CHECKING:
    from netsim.experiment import Point
    from netsim.network import Network
    from netsim.results import Result

TRIALS = 100
"""Draws of traffic and paths behind the figures for fair shares."""

IDEAL = "ideal"
"""The transport that needs no curve of its own: it is the line of the ideal."""


NOT_SIMULATED = ("name", "description", "seed")


@dataclass(frozen=True)
class Table:
    """Figures as text; the first column is text, the others are numbers."""

    headers: tuple[str, ...]
    rows: list[tuple[str, ...]]
    notes: tuple[str, ...] = ()


class Spread(NamedTuple):
    """A statistic over the seeds."""

    mean: float
    low: float
    high: float
    values: tuple[float, ...]


def spread(results: Sequence[Result], quantity: str, statistic: str) -> Spread | None:
    """`statistic` ("max", "mean") of `quantity` ("fct_ps", "slowdown"); None if no flow is done."""
    found = [result.summary[quantity].get(statistic) for result in results]
    values = [float(value) for value in found if value is not None and value == value]
    if not values:
        return None
    return Spread(sum(values) / len(values), min(values), max(values), tuple(values))


def by_transport(results: Sequence[Result], apart: Sequence[str] = ()) -> dict[str, list[Result]]:
    """The results of each transport with its parameters, and of each value of other axes.

    Axes named in `apart` and the seed do not part results. A point that was run twice counts once.
    Raises InputError if nothing is left beside the ideal.
    """
    groups: dict[str, list[Result]] = {}
    points: dict[str, set[str]] = {}
    for result in results:
        if style.transport(result) == IDEAL:
            continue
        key = json.dumps(_makeup(result, apart), sort_keys=True)
        point = json.dumps([result.experiment["seed"], *(resolved(result, axis) for axis in apart)])
        if point not in points.setdefault(key, set()):
            points[key].add(point)
            groups.setdefault(key, []).append(result)
    finished = [group for group in groups.values() if spread(group, "fct_ps", "max") is not None]
    if not finished:
        raise InputError("no flow of any transport is finished, so there is nothing to compare")
    return dict(zip(_names(finished, apart), finished, strict=True))


def _names(groups: Sequence[Sequence[Result]], apart: Sequence[str]) -> list[str]:
    """A name for each group: the transport and its axes, and what sets equal names apart."""
    names = [_name(group[0], apart) for group in groups]
    makeups = [_makeup(group[0], apart) for group in groups]
    told = []
    for name, makeup, group in zip(names, makeups, groups, strict=True):
        alike = [other for at, other in zip(names, makeups, strict=True) if at == name]
        keys = [key for key in makeup if any(other.get(key) != makeup[key] for other in alike)]
        parts = [name, *(f"{key.rpartition('.')[2]} {makeup[key]}" for key in keys)]
        partial = not all(result.complete for result in group)
        told.append(", ".join(parts) + (" (partial)" if partial else ""))
    return told


def _name(result: Result, apart: Sequence[str]) -> str:
    axes = result.experiment["axes"]
    kind = axes.get("transport", resolved(result, "transport.kind") or style.transport(result))
    others = [
        f"{axis.rpartition('.')[2]} {value}"
        for axis, value in axes.items()
        if axis not in ("transport", "seed", *apart)
    ]
    return ", ".join([str(kind), *others])


def _makeup(result: Result, apart: Sequence[str]) -> dict[str, Any]:
    """All that was simulated, by dotted key, but for the seed and `apart`, with the code's hash."""
    found: dict[str, Any] = {}

    def add(table: dict[str, Any], prefix: str) -> None:
        for key, value in table.items():
            if isinstance(value, dict):
                add(value, f"{prefix}{key}.")
            elif f"{prefix}{key}" not in (*NOT_SIMULATED, *apart):
                found[f"{prefix}{key}"] = value

    kept = {k: v for k, v in result.experiment["resolved"].items() if k != "outputs"}
    add(kept, "")
    for plugin in result.experiment["plugins"]:
        if plugin["kind"] == "transport":
            found[f"{plugin['name']}.code"] = plugin["sha256"][:6]
    return found


def difference(ours: float, other: float | None) -> str:
    """How much `ours` is above `other`, in per cent."""
    return "-" if other is None else f"{100 * (ours / other - 1):+.1f}"


def resolved(result: Result, key: str) -> Any:
    """The value of a dotted key of the resolved experiment, None if it is "none" or not there."""
    value: Any = result.experiment["resolved"]
    for part in key.split("."):
        value = value.get(part) if isinstance(value, dict) else None
    return None if value == "none" else value


def settings(result: Result, apart: Sequence[str] = ()) -> dict[str, Any]:
    """What a point simulates but for its transport: the dotted keys of network and traffic."""
    found = {}
    for section in ("topology", "traffic"):
        table = resolved(result, section)
        for key, value in table.items() if isinstance(table, dict) else ():
            if f"{section}.{key}" not in apart:
                found[f"{section}.{key}"] = value
    return found


def differing(results: Sequence[Result], apart: Sequence[str] = ()) -> list[str]:
    """The keys of network and traffic, except those in `apart`, in which some results differ."""
    tables = [settings(result, apart) for result in results]
    keys = dict.fromkeys(key for table in tables for key in table)
    return [key for key in keys if len({repr(table.get(key)) for table in tables}) > 1]


def fair_slowdowns(
    results: Sequence[Result], chosen: Sequence[Result], apart: Sequence[str] = ()
) -> tuple[list[tuple[float, float]], str]:
    """Last and mean slowdown with fair shares of single paths, for each of the `chosen` results.

    Also a note that says what was computed. If it says why nothing was, the list is empty: the
    results differ in network or traffic (but for the keys `apart`), the traffic is not of one
    size, or the files of the experiment are gone.
    """
    from netsim.tracing.replay import point_of

    if keys := differing(results, apart):
        return [], f"no fair shares: the points differ in {', '.join(keys)}"
    try:
        points = [point_of(result) for result in chosen]
        network = points[0].topology.module.build(points[0].topology.params)
        found = [_fair_slowdown(point, network) for point in points]
    except InputError as error:
        return [], f"no fair shares: {error.message}"
    draws = f"mean of {TRIALS} draws of traffic and paths"
    return found, f"fair shares: each flow on one random path, rates max-min fair; {draws}"


def _fair_slowdown(point: Point, network: Network) -> tuple[float, float]:
    import numpy as np

    from netsim.fair_shares import completion_times
    from netsim.flows import TrafficContext
    from netsim.ideal import ideal_times

    if point.classes:
        raise InputError("there are several classes of flows")
    last, mean = 0.0, 0.0
    for trial in range(TRIALS):
        rng = np.random.default_rng(trial)
        context = TrafficContext(
            point.directory, trial, network.host_rate_bps, point.packets.payload_bytes,
            point.packets.header_bytes,
        )  # fmt: skip
        flows = point.traffic.module.flows(point.traffic.params, network, rng, context)
        times = completion_times(network, flows, point.packets, rng)
        slowdown = times / ideal_times(network, flows, point.packets).fct_ps
        last, mean = last + slowdown.max() / TRIALS, mean + slowdown.mean() / TRIALS
    return float(last), float(mean)
