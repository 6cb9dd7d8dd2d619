"""Patterns of an experiment's traffic, for the saturation of its network."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from netsim.errors import InputError, did_you_mean
from netsim.experiment.scenario import traffic_rng
from netsim.model.network import Network
from netsim.model.paths import Legs
from netsim.model.patterns import PATTERN_PARAMS, PATTERNS, UNIFORM, Destinations, destinations
from netsim.plugins.calls import legs_of
from netsim.units import written

if TYPE_CHECKING:
    from netsim.experiment import Point


def patterns_of(
    point: Point, network: Network, names: Sequence[str]
) -> Iterator[tuple[str, tuple[Destinations, Legs | None]]]:
    """Yield the destinations of patterns, with the parameters and random numbers of the traffic, on
    minimal ways and, if [fabric] routing takes others, on those. Without names, that of the
    traffic, unless it is uniform or has none. Raises InputError for an unknown name, or a pattern
    that the hosts do not fit."""
    routing = point.fabric.routing
    legs = legs_of(routing)
    given = {param.name: param.convert(param.default) for param in PATTERN_PARAMS}
    given |= {name: point.traffic.params[name] for name in given if name in point.traffic.params}
    if not names and given["pattern"] != UNIFORM:
        names = [given["pattern"]]
    for name in names:
        if name not in PATTERNS:
            hint = did_you_mean(name, PATTERNS)
            raise InputError(f"unknown pattern {written(name)}", key="--traffic", hint=hint)
        try:
            to = destinations({**given, "pattern": name}, network, traffic_rng(point.seed))
        except InputError as error:
            raise error.at(file=point.file) from None
        yield name, (to, None)
        if legs is not None:
            yield f"{name} ({routing.name})", (to, legs)
