"""A GPU and its networks."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from netsim.errors import InputError
from netsim.units import parse_bytes, written
from netsim.workloads.job.curves import COLLECTIVES, CollectiveCurves, curves_of, read_curves
from netsim.workloads.job.keys import (
    Reader,
    count,
    flag,
    key,
    memory_rate,
    number,
    parse_flops,
    peaks,
    rate,
    size,
    table,
    text,
    time,
)

PS_PER_S = 10**12

FORMATS = {"fp32": 4.0, "tf32": 4.0, "bf16": 2.0, "fp16": 2.0, "fp8": 1.0, "fp4": 0.5}
"""Bytes per element of number formats."""


@dataclass(frozen=True)
class Efficiency:
    """Share of a peak by size: `shares[k]` from `sizes[k]`, which ascend from 0."""

    sizes: tuple[float, ...] = (0.0,)
    shares: tuple[float, ...] = (1.0,)

    def at(self, size: float) -> float:
        """Return the efficiency at a size."""
        return self.shares[bisect_right(self.sizes, size) - 1]


def steps(size_of: Callable[[Any], float], unit: str) -> Reader:
    """Unit and reader of an efficiency: a share, or pairs of size and share."""

    def read(value: Any) -> Efficiency:
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            return Efficiency((0.0,), (_share(value),))
        if not isinstance(value, list) or not value:
            hint = f'a number, or pairs from small to large: [[0, 0.1], ["{unit}", 0.9]]'
            raise InputError(f"{written(value)} is not an efficiency", hint=hint)
        pairs = [_pair(one, size_of) for one in value]
        sizes = tuple(size for size, _ in pairs)
        if sizes[0] != 0 or any(a >= b for a, b in pairwise(sizes)):
            raise InputError("sizes must ascend from 0", hint="start with [0, share]")
        return Efficiency(sizes, tuple(share for _, share in pairs))

    return f"share of the peak by size ({unit})", read


def _pair(value: Any, size_of: Callable[[Any], float]) -> tuple[float, float]:
    if not isinstance(value, list) or len(value) != 2:
        raise InputError(f"{written(value)} must be a pair of size and share")
    start = 0.0 if value[0] == 0 and not isinstance(value[0], (bool, str)) else size_of(value[0])
    return start, _share(value[1])


def _share(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value <= 1:
        raise InputError(f"{written(value)} is out of range", hint="above 0, at most 1")
    return float(value)


@dataclass(frozen=True)
class Unit:
    """Matrix units, fused attention on them, or all other (vector) units."""

    peak: tuple[tuple[str, float], ...] = key(peaks(FORMATS), "FLOP/s without sparsity")
    efficiency: Efficiency = key(
        steps(parse_flops, "GFLOP"), "share of the peak, by operations per kernel", Efficiency()
    )
    fp8_efficiency: Efficiency | None = key(
        steps(parse_flops, "GFLOP"), "the same for fp8; without it, efficiency", None
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


def _factors() -> Reader:
    def read(value: Any) -> tuple[tuple[str, float], ...]:
        if not isinstance(value, dict):
            hint = "{ all_gather = 1.5 }"
            raise InputError(f"{written(value)} must be a table", hint=hint, code="wrong_type")
        checked = []
        for name, factor in value.items():
            if name not in COLLECTIVES:
                hint = "one of " + ", ".join(COLLECTIVES)
                raise InputError("unknown collective", key=name, hint=hint, code="unknown_value")
            checked.append((name, number(0, 100)[1](factor)))
        return tuple(checked)

    return "factor by collective", read


@dataclass(frozen=True)
class Link:
    """Rate and software latency of one network at a GPU."""

    rate: int = key(rate(), "one-way rate of a GPU")
    efficiency: Efficiency = key(
        steps(lambda value: float(parse_bytes(value)), "MB"),
        "share of the rate, by message size",
        Efficiency(),
    )
    launch: int = key(time(), "software latency per collective or message", 0)
    step_latency: int = key(time(), "software latency per step of a collective", 0)
    factors: tuple[tuple[str, float], ...] = key(
        _factors(), "ratio of time to closed form, by collective", ()
    )
    in_network_reduction: bool = key(
        flag(), "switches reduce: an all-reduce sends its buffer once", False
    )
    measured: tuple[CollectiveCurves, ...] = key(
        ("table", read_curves),
        "measured times by collective, which replace the closed form (netsim calibrate)",
        (),
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


@dataclass(frozen=True)
class Machine:
    """A GPU, its memory and its networks.

    Without `vector`, only matrix products take time; without `memory_rate`, memory access is free.
    """

    memory: int = key(size(), "memory of a GPU")
    matrix: Unit = key(table(Unit), "matrix units")
    scale_up: Link = key(table(Link), "network inside a domain")
    scale_out: Link = key(table(Link), "network between domains")
    domain_gpus: int = key(count(), "GPUs of a scale-up network")
    sms: int = key(count(0), "streaming multiprocessors of a GPU, to compare GPUs; 0: unknown", 0)
    vector: Unit | None = key(table(Unit), "all other units", None)
    attention: Unit | None = key(
        table(Unit),
        "fused attention, in the format of activations; without it, as other matrix products",
        None,
    )
    memory_rate: float | None = key(memory_rate(), "memory bandwidth", None)
    memory_efficiency: Efficiency = key(
        steps(lambda value: float(parse_bytes(value)), "MB"),
        "share of memory_rate, by the bytes of a kernel",
        Efficiency(),
    )
    memory_overlap: bool = key(
        flag(),
        "kernels overlap compute and memory access: the longer time counts, not the sum",
        False,
    )
    wan_rate: int = key(rate(), "rate of a GPU to another datacenter", 20 * 10**9)
    wan_delay: int = key(time(), "one-way delay to another datacenter", 30 * 10**9)
    source: str = key(text(), "source of the values", "its own file")

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
