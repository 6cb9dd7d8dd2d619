"""A GPU and the networks that join it to others, as a model of a job needs them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from netsim.errors import InputError
from netsim.units import parse_bytes, written
from netsim.workloads.job.keys import (
    count,
    flag,
    key,
    memory_rate,
    number,
    parse_flops,
    peaks,
    rate,
    read_part,
    size,
    text,
    time,
)
from netsim.workloads.job.tables import Efficiency, steps

PS_PER_S = 10**12

FORMATS = {"fp32": 4.0, "tf32": 4.0, "bf16": 2.0, "fp16": 2.0, "fp8": 1.0, "fp4": 0.5}
"""Number formats, and the bytes that one number takes."""

COLLECTIVES = ("all_reduce", "reduce_scatter", "all_gather", "all_to_all", "send")


@dataclass(frozen=True)
class Unit:
    """What computes: multiplications of matrices, or everything else (vectors)."""

    peak: tuple[tuple[str, float], ...] = key(peaks(FORMATS), "FLOP/s without sparsity")
    efficiency: Efficiency = key(
        steps(parse_flops, "GFLOP"), "share of the peak, by operations per kernel", Efficiency()
    )

    def rate(self, number_format: str) -> float:
        """Peak in FLOP/s for a number format. Raises InputError if it has none."""
        for name, value in self.peak:
            if name == number_format:
                return value
        names = ", ".join(name for name, _ in self.peak)
        raise InputError(f'the machine has no peak for "{number_format}"', hint=f"it has {names}")


def _factors() -> tuple[str, Any]:
    """How a table of factors by collective is written."""

    def read(value: Any) -> tuple[tuple[str, float], ...]:
        if not isinstance(value, dict):
            hint = "{ all_gather = 1.5 }"
            raise InputError(f"{written(value)} is not a table", hint=hint, code="wrong_type")
        checked = []
        for name, factor in value.items():
            if name not in COLLECTIVES:
                hint = "one of " + ", ".join(COLLECTIVES)
                raise InputError("is no collective", key=name, hint=hint, code="unknown_value")
            checked.append((name, number(0, 100)[1](factor)))
        return tuple(checked)

    return "factor by collective", read


@dataclass(frozen=True)
class Link:
    """One network as a GPU sees it: what it sends at, one way, and what software adds."""

    rate: int = key(rate(), "rate of a GPU, one way")
    efficiency: Efficiency = key(
        steps(lambda value: float(parse_bytes(value)), "MB"),
        "share of the rate, by message size",
        Efficiency(),
    )
    launch: int = key(time(), "software latency per collective or message", 0)
    step_latency: int = key(time(), "software latency per step of a collective", 0)
    factors: tuple[tuple[str, float], ...] = key(
        _factors(), "time over closed form, by collective", ()
    )
    in_network_reduction: bool = key(
        flag(), "switches reduce: an all-reduce sends its buffer once", False
    )

    def factor(self, what: str) -> float:
        """How many times the bytes of its closed form a collective takes."""
        return dict(self.factors).get(what, 1.0)

    def time_ps(self, what: str, n: int, size_bytes: float) -> float:
        """Picoseconds of a collective over `n` GPUs, alone on this network.

        `size_bytes` is the whole buffer (of an all-to-all, one GPU's whole input; of a send, the
        message). Ring or direct exchange: bytes on the wire are 2 (n - 1) / n of an all-reduce's
        buffer, (n - 1) / n of the others' (Thakur, Rabenseifner, Gropp 2005).
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

    Operations that are no multiplication of matrices take no time without `vector`, and reading
    and writing memory takes none without `memory_rate`: some models leave them out.
    """

    memory: int = key(size(), "memory of a GPU")
    matrix: Unit = key(("table", lambda value: read_part(Unit, value, "")), "matrix units")
    scale_up: Link = key(
        ("table", lambda value: read_part(Link, value, "")), "network inside a domain"
    )
    scale_out: Link = key(
        ("table", lambda value: read_part(Link, value, "")), "network between domains"
    )
    domain_gpus: int = key(count(), "GPUs of a scale-up network")
    sms: int = key(count(0), "streaming multiprocessors of a GPU, to compare GPUs; 0: unknown", 0)
    vector: Unit | None = key(
        ("table", lambda value: read_part(Unit, value, "")), "all other units", None
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
        """Bytes per second of its memory. Raises InputError if that was left out."""
        if self.memory_rate is None:
            hint = 'write it like "2048GB/s"'
            raise InputError("is missing", key="machine.memory_rate", hint=hint)
        return self.memory_rate

    def kernel_ps(self, unit: str, number_format: str, flops: float, size_bytes: float) -> float:
        """Picoseconds of one kernel on the matrix or vector unit.

        Raises InputError if the unit has no peak for the format.
        """
        engine = self.matrix if unit == "matrix" else self.vector
        computing = reading = 0.0
        if engine is not None and flops > 0:
            peak = engine.rate(number_format)
            computing = flops / (peak * engine.efficiency.at(flops)) * PS_PER_S
        if self.memory_rate is not None and size_bytes > 0:
            share = self.memory_efficiency.at(size_bytes)
            reading = size_bytes / (self.memory_rate * share) * PS_PER_S
        return max(computing, reading) if self.memory_overlap else computing + reading
