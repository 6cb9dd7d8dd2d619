"""Measured times of collectives, in the form of NCCL's own tuning model.

A curve is one algorithm and protocol: a base latency, a latency per step inside a node and between
nodes, and a bandwidth. A collective takes the time of its fastest curve, times a factor that
depends on the size. `netsim calibrate` fits curves to measurements.
"""

from __future__ import annotations

import math
from bisect import bisect
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple, TypeVar

import numpy as np

from netsim.errors import InputError
from netsim.params import (
    NUMBER,
    REQUIRED,
    Param,
    Unit,
    key,
    read_each,
    read_table,
    require_table,
)
from netsim.units import parse_bytes, written

PS_PER_S = 10**12

Part = TypeVar("Part")

ALGORITHMS = ("ring", "tree", "nvls", "direct")
PROTOCOLS = ("ll", "ll128", "simple")

MAX_ENTRIES = 1000
"""Most curves, or sizes with factors, of a collective."""

COLLECTIVES = ("all_reduce", "reduce_scatter", "all_gather", "all_to_all", "send")


class Shape(NamedTuple):
    """A group of GPUs: nodes (scale-up domains), and its members in each."""

    nodes: int
    per_node: int

    @property
    def n(self) -> int:
        return self.nodes * self.per_node


class Terms(NamedTuple):
    """Steps of a collective, and the bytes that it sends as shares of the buffer.

    `inside` is per GPU. `between` is per node and divided among `ports` scale-out ports.
    """

    steps: float
    hops: float
    inside: float
    between: float
    ports: int


def terms(what: str, algorithm: str, shape: Shape) -> Terms:
    """Return the steps and bytes of a collective by an algorithm.

    A ring takes n - 1 steps, twice for an all-reduce; the slowest part crosses all links between
    nodes, unless each node has one GPU. A tree, and one of nodes whose switches
    reduce (nvls), cross log2(nodes) levels up and down. An all-to-all sends each part directly, and
    a GPU uses its own port.
    """
    nodes, per_node = shape
    n, twice = shape.n, 2 if what == "all_reduce" else 1
    if what == "send":
        return Terms(int(nodes == 1), int(nodes > 1), 1.0, float(nodes > 1), 1)
    if algorithm == "direct":
        return Terms(per_node - 1, n - per_node, (per_node - 1) / n, (n - per_node) / n, 1)
    if algorithm == "ring":
        hops = twice * (nodes if nodes > 1 and per_node > 1 else nodes - 1)
        share = twice * (n - 1) / n
        return Terms(twice * (n - 1) - hops, hops, share, share * (nodes > 1), per_node)
    levels = 2 * math.log2(nodes)
    if algorithm == "nvls":
        return Terms(1, levels, 1.0, 2 * (nodes - 1) / nodes, per_node)
    return Terms(2 * (per_node - 1), levels, 2.0, 2.0 * (nodes > 1), per_node)


def part_count(what: str, n: int) -> int:
    """Return into how many parts a buffer is divided; factors depend on the size of a part."""
    return 1 if what in ("all_reduce", "send") else n


@dataclass(frozen=True, kw_only=True)
class Curve:
    """Time of a collective by one algorithm and protocol."""

    algorithm: str = key("choice", REQUIRED, "algorithm", choices=ALGORITHMS)
    protocol: str = key("choice", REQUIRED, "protocol", choices=PROTOCOLS)
    base: int = key("time", "0ps", "latency of a collective")
    step: int = key("time", "0ps", "latency per step inside a node")
    hop: int = key("time", "0ps", "latency per step between nodes")
    inside: int = key("rate", REQUIRED, "rate of a GPU inside a node")
    efficiency: float = key(
        NUMBER, 1, "share of the ports' rate between nodes", above=0, maximum=100
    )

    def time_ps(self, what: str, shape: Shape, size_bytes: float, port_bps: int) -> float:
        """Return the time of a collective; `port_bps` is a GPU's rate between nodes."""
        part = terms(what, self.algorithm, shape)
        between = part.between / (part.ports * port_bps * self.efficiency)
        wire = 8 * size_bytes * max(part.inside / self.inside, between) * PS_PER_S
        return self.base + part.steps * self.step + part.hops * self.hop + wire


@dataclass(frozen=True)
class Factors:
    """Factors of the time in one shape, as logarithms by log2 of the size."""

    shape: Shape
    log_sizes: tuple[float, ...]
    log_factors: tuple[float, ...]

    def distance(self, shape: Shape) -> float:
        """Return how far another shape is, in powers of two."""
        return sum(
            abs(math.log2(ours / theirs)) for ours, theirs in zip(self.shape, shape, strict=True)
        )


@dataclass(frozen=True)
class CollectiveCurves:
    """The curves of a collective, and factors of its time in the measured shapes."""

    what: str
    curves: tuple[Curve, ...]
    factors: tuple[Factors, ...] = ()

    def time_ps(self, shape: Shape, size_bytes: float, port_bps: int) -> float:
        """Return the time of a collective.

        At sizes with a factor, it is that of the fastest curve times the factor of the nearest
        shape, between two of them linear in the size, and beyond them the last factor holds.
        """
        if not self.factors:
            return self._fastest(shape, size_bytes, port_bps)
        near = min(self.factors, key=lambda one: one.distance(shape))
        parts = part_count(self.what, shape.n)
        at = math.log2(max(1.0, size_bytes / parts))
        k = bisect(near.log_sizes, at)
        if k in (0, len(near.log_sizes)):
            factor = math.exp(near.log_factors[min(k, len(near.log_sizes) - 1)])
            return self._fastest(shape, size_bytes, port_bps) * factor
        sizes = [parts * 2**one for one in near.log_sizes[k - 1 : k + 1]]
        times = [
            self._fastest(shape, size, port_bps) * math.exp(factor)
            for size, factor in zip(sizes, near.log_factors[k - 1 : k + 1], strict=True)
        ]
        return float(np.interp(size_bytes, sizes, times))

    def _fastest(self, shape: Shape, size_bytes: float, port_bps: int) -> float:
        return min(curve.time_ps(self.what, shape, size_bytes, port_bps) for curve in self.curves)


def _pairs(value: Any) -> tuple[tuple[int, float], ...]:
    hint = '[["64KiB", 1.2], ["1MiB", 1.1]], in ascending order'
    if not isinstance(value, list) or not 0 < len(value) <= MAX_ENTRIES:
        raise InputError(f"{written(value)} must be pairs of size and factor", hint=hint)
    found = []
    for one in value:
        if not isinstance(one, list) or len(one) != 2:
            raise InputError(f"{written(one)} must be a pair of size and factor", hint=hint)
        found.append((max(1, parse_bytes(one[0])), FACTOR.convert(one[1])))
    if any(a >= b for (a, _), (b, _) in pairwise(found)):
        raise InputError("sizes must ascend", hint=hint)
    return tuple(found)


FACTOR = Param("factor", NUMBER, REQUIRED, "of a time", above=0, maximum=1000)
PAIRS = Unit("pairs", _pairs)


@dataclass(frozen=True, kw_only=True)
class FactorTable:
    """Factors of one shape in a file."""

    nodes: int = key("count", REQUIRED, "nodes", minimum=1)
    per_node: int = key("count", REQUIRED, "GPUs of a node", minimum=1)
    by_size: tuple[tuple[int, float], ...] = key(PAIRS, REQUIRED, "factors")

    def factors(self) -> Factors:
        sizes, factors = zip(*self.by_size, strict=True)
        return Factors(
            Shape(self.nodes, self.per_node),
            tuple(math.log2(size) for size in sizes),
            tuple(math.log(factor) for factor in factors),
        )


def read_curves(value: Any) -> tuple[CollectiveCurves, ...]:
    """Read the curves of collectives: tables with `curves` and `factors`."""
    require_table(value, "")
    found = []
    for what, table in value.items():
        if what not in COLLECTIVES:
            hint = "one of " + ", ".join(COLLECTIVES)
            raise InputError("unknown collective", key=what, hint=hint, code="unknown_value")
        if not isinstance(table, dict) or table.keys() - {"curves", "factors"}:
            hint = "with curves and factors"
            raise InputError(f"{written(table)} must be a table", key=what, hint=hint)
        curves = _tables(Curve, table.get("curves"), f"{what}.curves")
        factors = _tables(FactorTable, table.get("factors", []), f"{what}.factors")
        if not curves:
            raise InputError("missing", key=f"{what}.curves", hint="one or more", code="missing")
        found.append(CollectiveCurves(what, curves, tuple(one.factors() for one in factors)))
    return tuple(found)


def _tables(part: type[Part], value: Any, where: str) -> tuple[Part, ...]:
    if not isinstance(value, list) or len(value) > MAX_ENTRIES:
        hint = f"at most {MAX_ENTRIES:,} tables"
        raise InputError(f"{written(value)} must be a list", key=where, hint=hint)
    reads = {f"{where}[{k}]": partial(read_table, part, one) for k, one in enumerate(value)}
    return tuple(read_each(reads).values())


def curves_of(measured: Sequence[CollectiveCurves], what: str) -> CollectiveCurves | None:
    """Return the curves of a collective, or None if it was not measured."""
    return next((one for one in measured if one.what == what), None)
