"""A GPU and its networks."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from netsim.errors import InputError, did_you_mean
from netsim.params import NONBLANK, NUMBER, REQUIRED, Param, key, table_of
from netsim.params import Unit as KeyUnit
from netsim.units import parse_bytes, written
from netsim.workloads.job.curves import COLLECTIVES, CollectiveCurves, curves_of, read_curves

PS_PER_S = 10**12

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
