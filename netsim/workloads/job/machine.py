"""A GPU and its networks, with measured times of collectives.

Measured times have the form of NCCL's own tuning model. A curve is one algorithm and protocol: a
base latency, a latency per step inside a node and between nodes, and a bandwidth. A collective
takes the time of its fastest curve, times a factor that depends on the size. `netsim calibrate`
fits curves to measurements.
"""

from __future__ import annotations

import math
from bisect import bisect, bisect_right
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise
from statistics import median
from typing import Any, NamedTuple

import numpy as np

from netsim.errors import InputError
from netsim.frozen import frozen
from netsim.params import (
    NONBLANK,
    NUMBER,
    REQUIRED,
    Param,
    Unit,
    as_table,
    key,
    read_each,
    read_table,
    table_of,
    unknown_keys,
)
from netsim.units import parse_bytes, written

PS_PER_S = 10**12

ALGORITHMS = ("ring", "tree", "nvls", "direct")

PROTOCOLS = ("ll", "ll128", "simple")

MAX_ENTRIES = 1000  # maximum number of curves, or of sizes with factors, per collective

SAME_SIZE = 1e-3  # sizes are the same if their log2 differ by no more

LEFT_OUT = ("sizes", "node_counts")  # what a calibration holds out to estimate its errors

COLLECTIVES = ("all_reduce", "reduce_scatter", "all_gather", "all_to_all", "send")


class Shape(NamedTuple):
    """A group of GPUs: nodes (scale-up domains), and its members in each."""

    nodes: int
    per_node: int

    @property
    def n(self) -> int:
        return self.nodes * self.per_node

    def distance(self, other: Shape) -> float:
        """Return the distance to another shape, in powers of two."""
        return abs(math.log2(self.nodes / other.nodes)) + abs(
            math.log2(self.per_node / other.per_node)
        )


class Terms(NamedTuple):
    """Steps of a collective, and the bytes that it sends as shares of the buffer. `inside` is per
    GPU. `between` is per node and divided among `ports` scale-out ports."""

    steps: float
    hops: float
    inside: float
    between: float
    ports: int


def terms(what: str, algorithm: str, shape: Shape) -> Terms:
    """Return the steps and bytes of a collective by an algorithm.

    A ring takes n - 1 steps, twice for an all-reduce; the slowest part crosses all links between
    nodes, unless each node has one GPU. A tree, including one of nodes whose switches reduce
    (nvls), crosses log2(nodes) levels up and down. An all-to-all sends each part directly, and a
    GPU uses its own port.
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
    """Return the number of parts of a buffer; factors depend on the size of a part."""
    return 1 if what in ("all_reduce", "send") else n


@frozen(kw_only=True)
class Curve:
    """Time of a collective by one algorithm and protocol."""

    algorithm: str = key("choice", REQUIRED, "algorithm", choices=ALGORITHMS)
    protocol: str = key("choice", REQUIRED, "protocol", choices=PROTOCOLS)
    base: int = key("time", "0ps", "latency of a collective")
    step: int = key("time", "0ps", "latency per step inside a node")
    hop: int = key("time", "0ps", "latency per step between nodes")
    inside: int = key("rate", REQUIRED, "rate of a GPU inside a node")
    efficiency: float = key(NUMBER, 1, "share of port rates between nodes", above=0, maximum=100)

    def time_ps(self, what: str, shape: Shape, size_bytes: float, port_bps: int) -> float:
        """Return the time of a collective; `port_bps` is a GPU's rate between nodes."""
        part = terms(what, self.algorithm, shape)
        between = part.between / (part.ports * port_bps * self.efficiency)
        wire = 8 * size_bytes * max(part.inside / self.inside, between) * PS_PER_S
        return self.base + part.steps * self.step + part.hops * self.hop + wire


def _pairs(
    value: Any, size_of: Callable[[Any], float], convert: Callable[[Any], float], hint: str
) -> tuple[tuple[float, float], ...]:
    """Read pairs of a size and a value, by ascending size."""
    are_pairs = isinstance(value, list) and all(isinstance(one, list) for one in value)
    if not are_pairs or not 0 < len(value) <= MAX_ENTRIES or {len(one) for one in value} != {2}:
        raise InputError(f"{written(value)} must be pairs", hint=hint)
    found = tuple((size_of(size), convert(number)) for size, number in value)
    if any(a >= b for (a, _), (b, _) in pairwise(found)):
        raise InputError("sizes must ascend", hint=hint)
    return found


def _by_size(value: Any) -> tuple[tuple[float, float], ...]:
    hint = '[["64KiB", 1.2], ["1MiB", 1.1]], in ascending order'
    pairs = _pairs(value, lambda size: max(1, parse_bytes(size)), CURVE_FACTOR.convert, hint)
    return tuple((math.log2(size), math.log(factor)) for size, factor in pairs)


def _written_by_size(pairs: Iterable[tuple[float, float]]) -> list[list[Any]]:
    return [[f"{round(2**size)}B", float(f"{math.exp(log):.4g}")] for size, log in pairs]


CURVE_FACTOR = Param("factor", NUMBER, REQUIRED, "of a time", above=0, maximum=1000)


def _list_of(table: type[Any]) -> Unit:
    """Return the unit of a key that holds a list of tables, read as a tuple."""

    def read(value: Any) -> tuple[Any, ...]:
        if not isinstance(value, list) or len(value) > MAX_ENTRIES:
            hint = f"at most {MAX_ENTRIES:,} tables"
            raise InputError(f"{written(value)} must be a list", hint=hint)
        reads = {f"[{k}]": partial(read_table, table, one) for k, one in enumerate(value)}
        return tuple(read_each(reads).values())

    return Unit("tables", read, lambda tables: [as_table(one) for one in tables])


@frozen(kw_only=True)
class Factors:
    """Factors of the time in one shape: logarithms, by log2 of the size."""

    nodes: int = key("count", REQUIRED, "nodes", minimum=1)
    per_node: int = key("count", REQUIRED, "GPUs of a node", minimum=1)
    by_size: tuple[tuple[float, float], ...] = key(
        Unit("pairs", _by_size, _written_by_size), REQUIRED, "factors"
    )

    @property
    def shape(self) -> Shape:
        return Shape(self.nodes, self.per_node)


@frozen(kw_only=True)
class Spread:
    """Errors of predictions in a band of sizes, for measurements held out of the fit."""

    left_out: str = key("choice", REQUIRED, "left-out kind", choices=LEFT_OUT)
    above: int = key("bytes", "0B", "sizes above this, to the next of the same kind")
    factor: float = key(NUMBER, REQUIRED, "nine in ten were within it", minimum=1, maximum=1e6)
    times: int = key("count", REQUIRED, "measurements left out", minimum=1)


class Estimate(NamedTuple):
    """A predicted time and its 90 % interval, from `low_ps` to `high_ps`. There is no interval if
    no similar measurement was held out of a fit; else `spread` has the errors."""

    time_ps: float
    low_ps: float | None = None
    high_ps: float | None = None
    spread: Spread | None = None


@frozen(kw_only=True)
class CollectiveCurves:
    """The curves of a collective, and factors of its time in the measured shapes."""

    what: str = ""
    curves: tuple[Curve, ...] = key(_list_of(Curve), REQUIRED, "curves, one or more")
    factors: tuple[Factors, ...] = key(_list_of(Factors), [], "factors by shape")
    pieces: bool = key("bool", False, "extend the lines of smaller and of larger sizes into gaps")
    spreads: tuple[Spread, ...] = key(_list_of(Spread), [], "errors of left-out measurements")

    def conflicts(self, _: Mapping[str, Any]) -> Iterator[InputError]:
        if not self.curves:
            yield InputError("missing", key="curves", hint="one or more", code="missing")

    def time_ps(self, shape: Shape, size_bytes: float, port_bps: int) -> float:
        """Return the time of a collective.

        At sizes with a factor, it is the fastest curve's time times the factor of the nearest
        shape; beyond them, the last factor applies. Between two such sizes, it is linear in the
        size or, with `pieces`, the median of that and of the lines through the next two smaller and
        the next two larger sizes, if there are two.
        """
        return self.times_ps(shape, size_bytes, port_bps)[0]

    def estimate(self, shape: Shape, size_bytes: float, port_bps: int) -> Estimate:
        """Return the time of a collective and its interval: from the smallest to the largest of the
        linear and the lines' times, widened by the spread of held-out measurements."""
        time_ps, *others = self.times_ps(shape, size_bytes, port_bps)
        is_known = any(one.shape == shape for one in self.factors)
        kind = LEFT_OUT[0] if is_known else LEFT_OUT[1]
        like = [one for one in self.spreads if one.left_out == kind and one.above < size_bytes]
        if not others or not like:
            return Estimate(time_ps)
        spread = max(like, key=lambda one: one.above)
        low_ps, high_ps = min(others) / spread.factor, max(others) * spread.factor
        return Estimate(time_ps, low_ps, high_ps, spread)

    def times_ps(self, shape: Shape, size_bytes: float, port_bps: int) -> list[float]:
        """Return the time; within the sizes with a factor, also the linear time and, with `pieces`
        and away from these sizes, the times of the lines through smaller and larger sizes."""
        if not self.factors:
            return [self._fastest(shape, size_bytes, port_bps)]
        near = min(self.factors, key=lambda one: shape.distance(one.shape)).by_size
        parts = part_count(self.what, shape.n)
        at = math.log2(max(1.0, size_bytes / parts))
        k = bisect([size for size, _ in near], at)
        if k in (0, len(near)):
            size, log = near[min(k, len(near) - 1)]
            time_ps = self._fastest(shape, size_bytes, port_bps) * math.exp(log)
            return [time_ps] * (2 if abs(at - size) < SAME_SIZE else 1)
        first, end = (max(0, k - 2), k + 2) if self.pieces else (k - 1, k + 1)
        some, k = near[first:end], k - first
        sizes = [parts * 2**size for size, _ in some]
        times = [
            self._fastest(shape, size, port_bps) * math.exp(log)
            for size, (_, log) in zip(sizes, some, strict=True)
        ]
        linear = float(np.interp(size_bytes, sizes[k - 1 : k + 1], times[k - 1 : k + 1]))
        if not self.pieces or any(abs(at - size) < SAME_SIZE for size, _ in some[k - 1 : k + 1]):
            return [linear, linear]
        smaller = extended(size_bytes, sizes[k - 1 :: -1], times[k - 1 :: -1])
        larger = extended(size_bytes, sizes[k:], times[k:])
        is_between = k > 1 and len(sizes) > k + 1
        time_ps = median((linear, smaller, larger)) if is_between else linear
        return [time_ps, linear, smaller, larger]

    def _fastest(self, shape: Shape, size_bytes: float, port_bps: int) -> float:
        return min(curve.time_ps(self.what, shape, size_bytes, port_bps) for curve in self.curves)


def extended(size: float, sizes: Sequence[float], times: Sequence[float]) -> float:
    """Extrapolate the line through the first two points; it neither falls nor grows faster than the
    size. A single point is a latency for larger sizes and a rate for smaller ones."""
    steepest = times[0] / sizes[0]
    slope = steepest if size < sizes[0] else 0.0
    if len(sizes) > 1:
        slope = min(max((times[1] - times[0]) / (sizes[1] - sizes[0]), 0.0), steepest)
    return times[0] + slope * (size - sizes[0])


def _by_name(
    value: Any, names: Collection[str], convert: Callable[[Any], Any], example: str
) -> dict[str, Any]:
    """Read a table with a value for some of the names."""
    if not isinstance(value, Mapping):
        raise InputError(f"{written(value)} must be a table", hint=example, code="wrong_type")
    reads = {name: partial(convert, given) for name, given in value.items() if name in names}
    return read_each(reads, unknown_keys(value, names, "unknown name"))


def read_curves(value: Any) -> tuple[CollectiveCurves, ...]:
    """Read the curves of collectives: tables with `curves` and `factors`."""
    read = partial(read_table, CollectiveCurves)
    found = _by_name(value, COLLECTIVES, read, "all_reduce = { curves = [...] }")
    return tuple(replace(one, what=what) for what, one in found.items())


FORMATS = {"fp32": 4.0, "tf32": 4.0, "bf16": 2.0, "fp16": 2.0, "fp8": 1.0, "fp4": 0.5}
"""Bytes per element of number formats."""

FORMAT_NAMES = tuple(FORMATS)

FLOPS = {"FLOP": 1.0, "GFLOP": 1e9, "TFLOP": 1e12, "PFLOP": 1e15, "EFLOP": 1e18}
"""Units of work, and with "/s" of rates."""


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
    return float(found)


FLOPS_RATE = Unit("FLOP/s", partial(parse_flops, ending="/s"), example='"720PFLOP/s"')

PEAK = Param("peak", FLOPS_RATE, REQUIRED, "of a number format", above=0)


def _peaks(value: Any) -> tuple[tuple[str, float], ...]:
    example = '{ bf16 = "312TFLOP/s" }'
    if value == {}:
        raise InputError("needs a rate", hint=example)
    return tuple(_by_name(value, FORMATS, PEAK.convert, example).items())


@frozen
class Efficiency:
    """Fraction of a peak by size: `shares[k]` from `sizes[k]` on; sizes ascend from 0."""

    sizes: tuple[float, ...] = (0.0,)
    shares: tuple[float, ...] = (1.0,)

    def at(self, size: float) -> float:
        """Return the efficiency at a size."""
        return self.shares[bisect_right(self.sizes, size) - 1]


SHARE = Param("share", NUMBER, REQUIRED, "of a peak", above=0, maximum=1)


def _efficiency(size_of: Callable[[Any], float], unit: str) -> Unit:
    """Return the unit of an efficiency: a share, or pairs of size and share."""
    hint = f'a number, or pairs from small to large: [[0, 0.1], ["{unit}", 0.9]]'

    def start_of(size: Any) -> float:
        return 0.0 if size == 0 and not isinstance(size, bool) else size_of(size)

    def read(value: Any) -> Efficiency:
        if not isinstance(value, list):
            return Efficiency((0.0,), (SHARE.convert(value),))
        pairs = _pairs(value, start_of, SHARE.convert, hint)
        if pairs[0][0] != 0:
            raise InputError("sizes must ascend from 0", hint="start with [0, share]")
        return Efficiency(*zip(*pairs, strict=True))

    return Unit(f"share of the peak by size ({unit})", read, example="0.9")


PEAKS = Unit("FLOP/s by number format", _peaks, example='{ bf16 = "312TFLOP/s" }')

MEMORY_RATE = Unit("memory rate", _memory_rate, example='"2048GB/s"')

BY_FLOPS = _efficiency(parse_flops, "GFLOP")

BY_BYTES = _efficiency(lambda value: float(parse_bytes(value)), "MB")


@frozen(kw_only=True)
class ComputeUnit:
    """Matrix units, fused attention on them, or all other (vector) units."""

    peak: tuple[tuple[str, float], ...] = key(PEAKS, REQUIRED, "FLOP/s without sparsity")
    efficiency: Efficiency = key(BY_FLOPS, 1, "share of the peak, by operations per kernel")
    fp8_efficiency: Efficiency | None = key(BY_FLOPS, None, "same for fp8; else efficiency")
    backward_efficiency: Efficiency | None = key(BY_FLOPS, None, "same backward; else efficiency")

    def rate(self, number_format: str) -> float:
        """Return the peak FLOP/s of a number format. Raises InputError if it has none."""
        for name, value in self.peak:
            if name == number_format:
                return value
        names = ", ".join(name for name, _ in self.peak)
        raise InputError(f'no peak for "{number_format}"', hint=f"the machine has {names}")

    def time_ps(self, number_format: str, flops: float, *, backward: bool = False) -> float:
        """Return the time of a kernel's operations, in ps."""
        own = self.fp8_efficiency if number_format == "fp8" else None
        own = own or (self.backward_efficiency if backward else None)
        share = (own or self.efficiency).at(flops)
        return flops / (self.rate(number_format) * share) * PS_PER_S


def _read_factors(value: Any) -> tuple[tuple[str, float], ...]:
    return tuple(_by_name(value, COLLECTIVES, FACTOR.convert, "{ all_gather = 1.5 }").items())


FACTOR = Param("factor", NUMBER, REQUIRED, "of a collective", above=0, maximum=100)

FACTORS = Unit("factor by collective", _read_factors, dict)

CURVES = Unit("table", read_curves)


@frozen(kw_only=True)
class Link:
    """Rate and software latency of one network at a GPU."""

    rate: int = key("rate", REQUIRED, "one-way rate of a GPU")
    efficiency: Efficiency = key(BY_BYTES, 1, "share of the rate, by message size")
    launch: int = key("time", "0ps", "software latency per collective or message")
    step_latency: int = key("time", "0ps", "software latency per step of a collective")
    factors: tuple[tuple[str, float], ...] = key(FACTORS, {}, "time over closed form by collective")
    in_network_reduction: bool = key("bool", False, "switches reduce, buffers are sent once")
    measured: tuple[CollectiveCurves, ...] = key(
        CURVES, {}, "measured times by collective, which replace the closed form (netsim calibrate)"
    )

    def curves(self, what: str) -> CollectiveCurves | None:
        """Return the measured times of a collective, or None."""
        return next((curves for curves in self.measured if curves.what == what), None)

    def factor(self, what: str) -> float:
        """Return the factor on the closed-form bytes of a collective."""
        return dict(self.factors).get(what, 1.0)

    def time_ps(self, what: str, n: int, size_bytes: float, per_domain: int = 1) -> float:
        """Return the time of a collective among `n` GPUs on an idle network, in ps.

        `size_bytes` is the whole buffer (all-to-all: one GPU's input; send: the message). With a
        ring or direct exchange, a GPU sends 2 (n - 1) / n of an all-reduce's buffer, (n - 1) / n of
        other buffers (Thakur, Rabenseifner, Gropp 2005). In an all-to-all, the shares of the
        `per_domain` GPUs of its domain take another network.
        """
        if n < 2 or size_bytes <= 0:
            return 0.0
        ring = (n - 1) / n
        share, n_steps = {
            "all_reduce": (2 * ring, 2 * (n - 1)),
            "reduce_scatter": (ring, n - 1),
            "all_gather": (ring, n - 1),
            "all_to_all": ((n - per_domain) / n, 1),
            "send": (1.0, 1),
        }[what]
        if what == "all_reduce" and self.in_network_reduction:
            share, n_steps = 1.0, 2
        sent = size_bytes * share * self.factor(what)
        wire = 8 * sent / (self.rate * self.efficiency.at(size_bytes)) * PS_PER_S
        return self.launch + n_steps * self.step_latency + wire


@frozen(kw_only=True)
class Machine:
    """A GPU, its memory and its networks. Without `vector`, only matrix products take time; without
    `memory_rate`, memory access is free."""

    memory: int = key("bytes", REQUIRED, "memory of a GPU")
    matrix: ComputeUnit = key(table_of(ComputeUnit), REQUIRED, "matrix units")
    scale_up: Link = key(table_of(Link), REQUIRED, "network inside a domain")
    scale_out: Link = key(table_of(Link), REQUIRED, "network between domains")
    domain_gpus: int = key("count", REQUIRED, "GPUs of a scale-up network", minimum=1)
    sms: int = key("count", 0, "streaming multiprocessors of a GPU, to compare GPUs; 0: unknown")
    vector: ComputeUnit | None = key(table_of(ComputeUnit), None, "all other units")
    attention: ComputeUnit | None = key(table_of(ComputeUnit), None, "fused attention")
    memory_rate: float | None = key(MEMORY_RATE, None, "memory bandwidth", above=0)
    memory_efficiency: Efficiency = key(BY_BYTES, 1, "share of memory_rate, by bytes of a kernel")
    memory_overlap: bool = key("bool", False, "kernels overlap compute and memory access")
    kernel_launch: int = key("time", "0ps", "time to launch a kernel, the least that one takes")
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

    def kernel_ps(
        self,
        unit: ComputeUnit | None,
        number_format: str,
        flops: float,
        moved: float,
        *,
        backward: bool = False,
    ) -> float:
        """Return the time of a kernel that reads and writes `moved` bytes, in ps."""
        computing = reading = 0.0
        if unit is not None and flops > 0:
            computing = unit.time_ps(number_format, flops, backward=backward)
        if self.memory_rate is not None and moved > 0:
            share = self.memory_efficiency.at(moved)
            reading = moved / (self.memory_rate * share) * PS_PER_S
        return max(computing, reading) if self.memory_overlap else computing + reading
