"""A GPU and its networks, with measured times of collectives.

Measured times have the form of NCCL's own tuning model. A curve is one algorithm and protocol: a
base latency, a latency per step inside a node and between nodes, and a bandwidth. A collective
takes the time of its fastest curve, times a factor that depends on the size. `netsim calibrate`
fits curves to measurements.
"""

from __future__ import annotations

import math
from bisect import bisect, bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple, TypeVar

import numpy as np

from netsim.errors import InputError, did_you_mean
from netsim.params import (
    NONBLANK,
    NUMBER,
    REQUIRED,
    Param,
    key,
    read_each,
    read_table,
    require_table,
    table_of,
)
from netsim.params import (
    Unit as KeyUnit,
)
from netsim.units import parse_bytes, written

PS_PER_S = 10**12

Part = TypeVar("Part")

ALGORITHMS = ("ring", "tree", "nvls", "direct")

PROTOCOLS = ("ll", "ll128", "simple")

MAX_ENTRIES = 1000  # most curves, or sizes with factors, of a collective

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
        found.append((max(1, parse_bytes(one[0])), CURVE_FACTOR.convert(one[1])))
    if any(a >= b for (a, _), (b, _) in pairwise(found)):
        raise InputError("sizes must ascend", hint=hint)
    return tuple(found)


CURVE_FACTOR = Param("factor", NUMBER, REQUIRED, "of a time", above=0, maximum=1000)

PAIRS = KeyUnit("pairs", _pairs)


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


FORMATS = {"fp32": 4.0, "tf32": 4.0, "bf16": 2.0, "fp16": 2.0, "fp8": 1.0, "fp4": 0.5}
"""Bytes per element of number formats."""

FORMAT_NAMES = tuple(FORMATS)

FLOPS = {"FLOP": 1.0, "GFLOP": 1e9, "TFLOP": 1e12, "PFLOP": 1e15, "EFLOP": 1e18}
"""Units of work; with "/s", of a rate."""


def parse_flops(value: Any, ending: str = "") -> float:
    """Parse "128GFLOP" or, with the ending "/s", "312TFLOP/s"."""
    hint = f'write it like "312TFLOP{ending}"'
    if isinstance(value, str) and value.strip().endswith(ending):
        written_number = value.strip().removesuffix(ending)
        for unit in sorted(FLOPS, key=len, reverse=True):
            if written_number.endswith(unit):
                try:
                    found = float(written_number.removesuffix(unit)) * FLOPS[unit]
                except ValueError:
                    break
                if 0 <= found < math.inf:
                    return found
                break
    raise InputError(f"{written(value)} is not a number of FLOP", hint=hint)


def _memory_rate(value: Any) -> float:
    hint = 'write it like "2048GB/s"'
    if not isinstance(value, str) or not value.strip().endswith("/s"):
        raise InputError(f"{written(value)} is not a memory bandwidth", hint=hint)
    try:
        found = parse_bytes(value.strip().removesuffix("/s"))
    except InputError as error:
        raise error.replace(hint=hint) from None
    if found == 0:
        raise InputError("must be positive", hint=hint)
    return float(found)


def _peaks(value: Any) -> tuple[tuple[str, float], ...]:
    if not isinstance(value, Mapping) or not value:
        hint = '{ bf16 = "312TFLOP/s" }'
        raise InputError(f"{written(value)} must be a table of rates", hint=hint)
    found = []
    for name, rate in value.items():
        if name not in FORMATS:
            hint = did_you_mean(name, FORMATS)
            raise InputError("unknown number format", key=name, hint=hint)
        rate_of = parse_flops(rate, "/s")
        if rate_of == 0:
            raise InputError("must be positive", key=name)
        found.append((name, rate_of))
    return tuple(found)


@dataclass(frozen=True)
class Efficiency:
    """Share of a peak by size: `shares[k]` from `sizes[k]`, which ascend from 0."""

    sizes: tuple[float, ...] = (0.0,)
    shares: tuple[float, ...] = (1.0,)

    def at(self, size: float) -> float:
        """Return the efficiency at a size."""
        return self.shares[bisect_right(self.sizes, size) - 1]


def _efficiency(size_of: Callable[[Any], float], unit: str) -> KeyUnit:
    """Return the unit of an efficiency: a share, or pairs of size and share."""

    def read(value: Any) -> Efficiency:
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            return Efficiency((0.0,), (_share(value),))
        if not isinstance(value, list) or not value:
            hint = f'a number, or pairs from small to large: [[0, 0.1], ["{unit}", 0.9]]'
            raise InputError(f"{written(value)} is not an efficiency", hint=hint)
        pairs = [_pair(pair, size_of) for pair in value]
        sizes = tuple(size for size, _ in pairs)
        if sizes[0] != 0 or any(a >= b for a, b in pairwise(sizes)):
            raise InputError("sizes must ascend from 0", hint="start with [0, share]")
        return Efficiency(sizes, tuple(share for _, share in pairs))

    return KeyUnit(f"share of the peak by size ({unit})", read, example="0.9")


def _pair(value: Any, size_of: Callable[[Any], float]) -> tuple[float, float]:
    if not isinstance(value, list) or len(value) != 2:
        raise InputError(f"{written(value)} must be a pair of size and share")
    start = 0.0 if value[0] == 0 and not isinstance(value[0], (bool, str)) else size_of(value[0])
    return start, _share(value[1])


def _share(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value <= 1:
        raise InputError(f"{written(value)} is out of range", hint="above 0, at most 1")
    return float(value)


PEAKS = KeyUnit("FLOP/s by number format", _peaks, example='{ bf16 = "312TFLOP/s" }')

MEMORY_RATE = KeyUnit("memory rate", _memory_rate, example='"2048GB/s"')

BY_FLOPS = _efficiency(parse_flops, "GFLOP")

BY_BYTES = _efficiency(lambda value: float(parse_bytes(value)), "MB")


@dataclass(frozen=True, kw_only=True)
class Unit:
    """Matrix units, fused attention on them, or all other (vector) units."""

    peak: tuple[tuple[str, float], ...] = key(PEAKS, REQUIRED, "FLOP/s without sparsity")
    efficiency: Efficiency = key(BY_FLOPS, 1, "share of the peak, by operations per kernel")
    fp8_efficiency: Efficiency | None = key(
        BY_FLOPS, None, "the same for fp8; without it, efficiency"
    )

    def rate(self, number_format: str) -> float:
        """Return the peak FLOP/s of a number format. Raises InputError if it has none."""
        for name, value in self.peak:
            if name == number_format:
                return value
        names = ", ".join(name for name, _ in self.peak)
        raise InputError(f'no peak for "{number_format}"', hint=f"the machine has {names}")

    def time_ps(self, number_format: str, flops: float) -> float:
        """Return the time of a kernel's operations, in ps."""
        fp8 = self.fp8_efficiency if number_format == "fp8" else None
        share = (fp8 or self.efficiency).at(flops)
        return flops / (self.rate(number_format) * share) * PS_PER_S


def _read_factors(value: Any) -> tuple[tuple[str, float], ...]:
    if not isinstance(value, Mapping):
        hint = "{ all_gather = 1.5 }"
        raise InputError(f"{written(value)} must be a table", hint=hint, code="wrong_type")
    checked = []
    for name, factor in value.items():
        if name not in COLLECTIVES:
            hint = "one of " + ", ".join(COLLECTIVES)
            raise InputError("unknown collective", key=name, hint=hint, code="unknown_value")
        checked.append((name, FACTOR.convert(factor)))
    return tuple(checked)


FACTOR = Param("factor", NUMBER, REQUIRED, "of a collective", above=0, maximum=100)

FACTORS = KeyUnit("factor by collective", _read_factors, dict)

CURVES = KeyUnit("table", read_curves)


@dataclass(frozen=True, kw_only=True)
class Link:
    """Rate and software latency of one network at a GPU."""

    rate: int = key("rate", REQUIRED, "one-way rate of a GPU")
    efficiency: Efficiency = key(BY_BYTES, 1, "share of the rate, by message size")
    launch: int = key("time", "0ps", "software latency per collective or message")
    step_latency: int = key("time", "0ps", "software latency per step of a collective")
    factors: tuple[tuple[str, float], ...] = key(
        FACTORS, {}, "ratio of time to closed form, by collective"
    )
    in_network_reduction: bool = key(
        "bool", False, "switches reduce: an all-reduce sends its buffer once"
    )
    measured: tuple[CollectiveCurves, ...] = key(
        CURVES, {}, "measured times by collective, which replace the closed form (netsim calibrate)"
    )

    def curves(self, what: str) -> CollectiveCurves | None:
        """Return the measured times of a collective, or None."""
        return curves_of(self.measured, what)

    def factor(self, what: str) -> float:
        """Return the factor on the closed-form bytes of a collective."""
        return dict(self.factors).get(what, 1.0)

    def time_ps(self, what: str, n: int, size_bytes: float) -> float:
        """Return the time of a collective among `n` GPUs on an idle network, in ps.

        `size_bytes` is the whole buffer (all-to-all: one GPU's input; send: the message). By ring
        or direct exchange, a GPU sends 2 (n - 1) / n of an all-reduce's buffer, (n - 1) / n of
        other buffers (Thakur, Rabenseifner, Gropp 2005).
        """
        if n < 2 or size_bytes <= 0:
            return 0.0
        ring = (n - 1) / n
        share, n_steps = {
            "all_reduce": (2 * ring, 2 * (n - 1)),
            "reduce_scatter": (ring, n - 1),
            "all_gather": (ring, n - 1),
            "all_to_all": (ring, 1),
            "send": (1.0, 1),
        }[what]
        if what == "all_reduce" and self.in_network_reduction:
            share, n_steps = 1.0, 2
        sent = size_bytes * share * self.factor(what)
        wire = 8 * sent / (self.rate * self.efficiency.at(size_bytes)) * PS_PER_S
        return self.launch + n_steps * self.step_latency + wire


@dataclass(frozen=True, kw_only=True)
class Machine:
    """A GPU, its memory and its networks.

    Without `vector`, only matrix products take time; without `memory_rate`, memory access is free.
    """

    memory: int = key("bytes", REQUIRED, "memory of a GPU")
    matrix: Unit = key(table_of(Unit), REQUIRED, "matrix units")
    scale_up: Link = key(table_of(Link), REQUIRED, "network inside a domain")
    scale_out: Link = key(table_of(Link), REQUIRED, "network between domains")
    domain_gpus: int = key("count", REQUIRED, "GPUs of a scale-up network", minimum=1)
    sms: int = key("count", 0, "streaming multiprocessors of a GPU, to compare GPUs; 0: unknown")
    vector: Unit | None = key(table_of(Unit), None, "all other units")
    attention: Unit | None = key(
        table_of(Unit),
        None,
        "fused attention, in the format of activations; without it, as other matrix products",
    )
    memory_rate: float | None = key(MEMORY_RATE, None, "memory bandwidth")
    memory_efficiency: Efficiency = key(
        BY_BYTES, 1, "share of memory_rate, by the bytes of a kernel"
    )
    memory_overlap: bool = key(
        "bool",
        False,
        "kernels overlap compute and memory access: the longer time counts, not the sum",
    )
    wan_rate: int = key("rate", "20Gbps", "rate of a GPU to another datacenter")
    wan_delay: int = key("time", "30ms", "one-way delay to another datacenter")
    source: str = key(NONBLANK, "its own file", "source of the values")

    @property
    def reading_rate(self) -> float:
        """Memory bandwidth in bytes per second. Raises InputError if unknown."""
        if self.memory_rate is None:
            hint = 'write it like "2048GB/s"'
            raise InputError("missing", key="machine.memory_rate", hint=hint, code="missing")
        return self.memory_rate

    def kernel_ps(self, unit: Unit | None, number_format: str, flops: float, moved: float) -> float:
        """Return the time of a kernel that reads and writes `moved` bytes, in ps."""
        computing = reading = 0.0
        if unit is not None and flops > 0:
            computing = unit.time_ps(number_format, flops)
        if self.memory_rate is not None and moved > 0:
            share = self.memory_efficiency.at(moved)
            reading = moved / (self.memory_rate * share) * PS_PER_S
        return max(computing, reading) if self.memory_overlap else computing + reading
