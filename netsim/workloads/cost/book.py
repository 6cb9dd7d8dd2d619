"""The figures that costs, power and failures are computed from, as tables with their sources."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

from netsim.errors import InputError
from netsim.units import written
from netsim.workloads.cost.dies import NEGATIVE_BINOMIAL, YIELDS
from netsim.workloads.job.keys import choice, count, key, number, rate, size, text

AREA, GPU = "area", "gpu"
FAIL_BY = (AREA, GPU)

LEAST, MOST = 1e-9, 1e9
"""Of any number that is not 0."""

MAX_UNITS = 200
"""Of a die: sums over spare ones have the square of their number of terms."""

MAX_GPUS = 1 << 22
"""Of a fleet: sums go over all of them."""


def amount(unit: str) -> tuple[str, Callable[[Any], float]]:
    """A number that may be 0, of a unit that stands in its key's name."""
    return unit, partial(_read, low=0.0, high=MOST)


def positive(unit: str, most: float = MOST) -> tuple[str, Callable[[Any], float]]:
    """A number above 0, of a unit that stands in its key's name."""
    return unit, partial(_read, low=LEAST, high=most)


def _read(value: Any, low: float, high: float) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise InputError(f"{written(value)} is not a number", code="wrong_type")
    least = max(low, LEAST)
    if not (least <= value <= high or value == low):
        hint = f"{least:g} to {high:g}"
        hint = hint if low else f"0, or {hint}"
        raise InputError(f"{written(value)} is out of range", hint=hint, code="out_of_range")
    return float(value)


def _shares() -> tuple[str, Callable[[Any], tuple[float, ...]]]:
    """Some shares, each above 0 and below 1."""

    def read(value: Any) -> tuple[float, ...]:
        values = value if isinstance(value, list) else [value]
        found = tuple(number(0, 1)[1](one) for one in values)
        if not found or 1.0 in found:
            raise InputError("a share is less than 1", hint="[0.99, 0.999]")
        return found

    return "shares", read


class Yield(NamedTuple):
    """How defects are spread; `alpha` of a negative binomial alone (see `die_yield`)."""

    model: str
    alpha: float | None = None


def _yield_model() -> tuple[str, Callable[[Any], Yield]]:
    """A yield model by its name, or { negative_binomial = ALPHA }."""
    plain = tuple(name for name in YIELDS if name != NEGATIVE_BINOMIAL)
    unit = f"{', '.join(plain)} or {{ {NEGATIVE_BINOMIAL} = alpha }}"

    def read(value: Any) -> Yield:
        if isinstance(value, str) and value in plain:
            return Yield(value)
        if not isinstance(value, Mapping) or list(value) != [NEGATIVE_BINOMIAL]:
            raise InputError(f"{written(value)} is no yield model", hint=f"one of {unit}")
        try:
            return Yield(NEGATIVE_BINOMIAL, _read(value[NEGATIVE_BINOMIAL], LEAST, MOST))
        except InputError as error:
            raise error.under(NEGATIVE_BINOMIAL) from None

    return unit, read


SOURCE = "where the figures are from"


@dataclass(frozen=True)
class Wafer:
    """[wafer]: what dies are cut from."""

    usd: float = key(positive("USD"), "price of a wafer")
    defects_per_cm2: float = key(amount("1/cm2"), "defects on a square centimeter")
    yield_model: Yield = key(_yield_model(), "how defects are spread")
    diameter_mm: float = key(positive("mm"), "of a wafer", 300.0)
    edge_mm: float = key(amount("mm"), "of its rim that is not used", 3.0)
    scribe_mm: float = key(amount("mm"), "between dies, to cut them apart", 0.2)
    source: str = key(text(), SOURCE)


@dataclass(frozen=True)
class Memory:
    """[memory]: stacked memory beside the die."""

    usd_per_gb: float = key(amount("USD/GB"), "price of memory, by its size alone")
    source: str = key(text(), SOURCE)


@dataclass(frozen=True)
class Package:
    """[package]: interposer, substrate, assembly and test."""

    usd_per_mm2: float = key(amount("USD/mm2"), "what grows with the die")
    usd: float = key(amount("USD"), "what each package costs, however small")
    source: str = key(text(), SOURCE)


@dataclass(frozen=True)
class LinkKind:
    """[link.NAME]: one end of links, at the GPU."""

    usd_per_gbps: float = key(amount("USD/Gbps"), "price by the rate one way")
    pj_per_bit: float = key(amount("pJ/bit"), "energy, beyond what the GPU itself is said to draw")
    source: str = key(text(), SOURCE)


@dataclass(frozen=True)
class Failures:
    """[failures]: of GPUs, and what it takes until they are back."""

    mtbf_hours: float = key(positive("hours"), "mean time to a failure of a reference GPU")
    repair_hours: float = key(positive("hours"), "mean time until a failed GPU is in order again")
    swap_hours: float = key(amount("hours"), "until a spare GPU has taken over")
    rate_by: str = key(choice(FAIL_BY), "smaller GPUs fail less by their area, or as often each")
    source: str = key(text(), SOURCE)


@dataclass(frozen=True)
class Fleet:
    """[fleet]: how much silicon there is, the same of every GPU."""

    reference: str = key(text(), "the GPU that others are held against")
    gpus: int = key(
        count(1, MAX_GPUS), "reference GPUs; of others as many as have their area of dies"
    )
    goodput: tuple[float, ...] = key(_shares(), "wanted of the capacity; spares are told for each")


@dataclass(frozen=True)
class Gpu:
    """[gpu.NAME]: one GPU."""

    die_mm2: float = key(positive("mm2"), "area of its die")
    memory: int = key(size(), "stacked memory")
    rate: int = key(rate(), "of its links, one way")
    link: str = key(text(), "the kind of its links, a [link.NAME]")
    units: int = key(
        count(1, MAX_UNITS), "equal parts of the die that can be switched off, such as SMs", 1
    )
    units_needed: int = key(count(1, MAX_UNITS), "of them, in a GPU that is sold", 1)
    units_share: float | None = key(
        positive("share", 1), "of the die's area that they take; of dies with spare units", None
    )
    watts: float = key(positive("W"), "what it draws, without optics")
    group: int = key(count(), "GPUs that hold one copy of a model")
    source: str = key(text(), SOURCE)


@dataclass(frozen=True)
class Book:
    """All of them; `links` and `gpus` by name, in the order of the file."""

    name: str
    wafer: Wafer
    memory: Memory
    package: Package
    failures: Failures
    fleet: Fleet
    links: dict[str, LinkKind]
    gpus: dict[str, Gpu]

    @property
    def reference(self) -> Gpu:
        """The GPU that others are held against."""
        return self.gpus[self.fleet.reference]
