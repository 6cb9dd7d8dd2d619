"""Input tables of costs, power and failures, with sources, from TOML files and presets; dies per
wafer, yield, and cost of a die.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal, localcontext
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from netsim.errors import InputError, raise_all
from netsim.units import written
from netsim.workloads.job.keys import (
    Reader,
    choice,
    count,
    key,
    named,
    number,
    rate,
    size,
    text,
)
from netsim.workloads.job.load import load, read_parts

MM2_PER_CM2 = 100.0
DIGITS = 40
"""Digits of alternating sums, plus one per unit."""

POISSON, MURPHY, SEEDS, NEGATIVE_BINOMIAL = "poisson", "murphy", "seeds", "negative_binomial"
YIELDS = (POISSON, MURPHY, SEEDS, NEGATIVE_BINOMIAL)
"""Yield models; see `die_yield`."""


def dies_per_wafer(
    die_mm2: float, diameter_mm: float = 300.0, edge_mm: float = 0.0, scribe_mm: float = 0.0
) -> int:
    """Return the whole dies of a round wafer, an estimate for nearly square dies.

    N = pi (d/2)^2 / S - pi d / sqrt(2 S), truncated: wafer area over die area, minus dies cut by
    the edge (Hennessy and Patterson, Computer Architecture: A Quantitative Approach, 1.6, cost of
    an integrated circuit; de Vries, IEEE Transactions on Semiconductor Manufacturing 18, 2005,
    compares such formulas with counts). `edge_mm` is the unused rim; `scribe_mm` the width of
    scribe lanes.
    """
    used_mm = diameter_mm - 2 * edge_mm
    pitch_mm2 = (math.sqrt(die_mm2) + scribe_mm) ** 2
    whole = math.pi * used_mm**2 / 4 / pitch_mm2
    cut = math.pi * used_mm / math.sqrt(2 * pitch_mm2)
    return max(math.floor(whole - cut), 0)


def die_yield(
    die_mm2: float, defects_per_cm2: float, model: str = MURPHY, alpha: float | None = None
) -> float:
    """Return the share of dies without defects, for a mean of A D defects per die.

    - "poisson": exp(-A D), independent defects.
    - "murphy": ((1 - exp(-A D)) / (A D))^2, triangular distribution of density (Murphy, Proceedings
      of the IEEE 52, 1964).
    - "seeds": 1 / (1 + A D), exponential distribution of density (Seeds 1967).
    - "negative_binomial": (1 + A D / alpha)^-alpha, gamma distribution of density: a smaller alpha
      means more clustering (Stapper, IBM Journal of Research and Development 27, 1983). alpha = 1
      is "seeds", infinity "poisson".
    """
    return float(_yield_of(Decimal(die_mm2 / MM2_PER_CM2 * defects_per_cm2), model, alpha))


def salvaged_yield(
    die_mm2: float,
    defects_per_cm2: float,
    model: str,
    alpha: float | None,
    units: int,
    needed: int,
    share: float,
) -> float:
    """Return the share of dies that can be sold if defective units may be disabled.

    A die has `units` equal units, such as SMs, on a `share` of its area. It works with `needed`
    good units and no defect elsewhere. For a given defect density, units fail independently, so
    the number of good units is binomial; each term is an exponential of the density, whose mean is
    the yield of an area (Koren and Koren, Proceedings of the IEEE 86, 1998). The sum alternates,
    so it uses extended precision.
    """
    with localcontext() as context:
        context.prec = DIGITS + units
        defects = Decimal(die_mm2) / Decimal(MM2_PER_CM2) * Decimal(defects_per_cm2)
        elsewhere, unit = 1 - Decimal(share), Decimal(share) / units

        found = Decimal(0)
        for good in range(needed, units + 1):
            # Probability that `good` given units, and the area outside units, have no defect.
            whole = _yield_of(defects * (elsewhere + unit * good), model, alpha)
            times = sum(
                math.comb(units, bad) * math.comb(bad, units - good) * (-1) ** (good + bad - units)
                for bad in range(units - good, units - needed + 1)
            )
            found += times * whole
        return float(found)


def _yield_of(defects: Decimal, model: str, alpha: float | None) -> Decimal:
    """Return `die_yield` for a mean number of defects, with the context's precision."""
    if not defects:
        return Decimal(1)
    if model == POISSON:
        return (-defects).exp()
    if model == MURPHY:
        return ((1 - (-defects).exp()) / defects) ** 2
    power = Decimal(1 if alpha is None else alpha)  # 1: Seeds
    return (-power * (1 + defects / power).ln()).exp()


def cost_of_good_die_usd(wafer_usd: float, dies: int, yield_share: float) -> float:
    """Return the price of a good die, without test and dicing; infinite if there is none."""
    good = dies * yield_share
    return wafer_usd / good if good > 0 else math.inf


AREA, GPU = "area", "gpu"
FAIL_BY = (AREA, GPU)

MIN_VALUE, MAX_VALUE = 1e-9, 1e9
"""Bounds of numbers other than 0."""

MAX_UNITS = 200
"""Largest number of units per die."""

MAX_GPUS = 1 << 22
"""Largest fleet."""


def amount(unit: str) -> tuple[str, Callable[[Any], float]]:
    """Unit and reader of a number that may be 0."""
    return unit, partial(_read, low=0.0, high=MAX_VALUE)


def positive(unit: str, largest: float = MAX_VALUE) -> tuple[str, Callable[[Any], float]]:
    """Unit and reader of a positive number."""
    return unit, partial(_read, low=MIN_VALUE, high=largest)


def _read(value: Any, low: float, high: float) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise InputError(f"{written(value)} is not a number", code="wrong_type")
    smallest = max(low, MIN_VALUE)
    if not (smallest <= value <= high or value == low):
        hint = f"{smallest:g} to {high:g}"
        hint = hint if low else f"0, or {hint}"
        raise InputError(f"{written(value)} is out of range", hint=hint, code="out_of_range")
    return float(value)


def _shares() -> tuple[str, Callable[[Any], tuple[float, ...]]]:
    def read(value: Any) -> tuple[float, ...]:
        values = value if isinstance(value, list) else [value]
        found = tuple(number(0, 1)[1](one) for one in values)
        if not found or 1.0 in found:
            raise InputError("shares must be below 1", hint="[0.99, 0.999]")
        return found

    return "shares", read


class Yield(NamedTuple):
    """Yield model; `alpha` only for the negative binomial (see `die_yield`)."""

    model: str
    alpha: float | None = None


def _yield_model() -> tuple[str, Callable[[Any], Yield]]:
    """Unit and reader of a yield model's name, or { negative_binomial = ALPHA }."""
    plain = tuple(name for name in YIELDS if name != NEGATIVE_BINOMIAL)
    unit = f"{', '.join(plain)} or {{ {NEGATIVE_BINOMIAL} = alpha }}"

    def read(value: Any) -> Yield:
        if isinstance(value, str) and value in plain:
            return Yield(value)
        if not isinstance(value, Mapping) or list(value) != [NEGATIVE_BINOMIAL]:
            raise InputError(f"{written(value)} is not a yield model", hint=f"one of {unit}")
        try:
            return Yield(NEGATIVE_BINOMIAL, _read(value[NEGATIVE_BINOMIAL], MIN_VALUE, MAX_VALUE))
        except InputError as error:
            raise error.under(NEGATIVE_BINOMIAL) from None

    return unit, read


SOURCE = "source of the values"


@dataclass(frozen=True)
class Wafer:
    """[wafer]: wafers and defects."""

    usd: float = key(positive("USD"), "price of a wafer")
    defects_per_cm2: float = key(amount("1/cm2"), "defect density")
    yield_model: Yield = key(_yield_model(), "yield model")
    diameter_mm: float = key(positive("mm"), "diameter of a wafer", 300.0)
    edge_mm: float = key(amount("mm"), "width of the unused rim", 3.0)
    scribe_mm: float = key(amount("mm"), "width of scribe lanes between dies", 0.2)
    source: str = key(text(), SOURCE)


@dataclass(frozen=True)
class Memory:
    """[memory]: stacked memory."""

    usd_per_gb: float = key(amount("USD/GB"), "price of memory")
    source: str = key(text(), SOURCE)


@dataclass(frozen=True)
class Package:
    """[package]: interposer, substrate, assembly and test."""

    usd_per_mm2: float = key(amount("USD/mm2"), "price per die area")
    usd: float = key(amount("USD"), "fixed price of a package")
    source: str = key(text(), SOURCE)


@dataclass(frozen=True)
class LinkKind:
    """[link.NAME]: one end of links, at the GPU."""

    usd_per_gbps: float = key(amount("USD/Gbps"), "price per one-way rate")
    pj_per_bit: float = key(amount("pJ/bit"), "energy, in addition to the GPU's own")
    source: str = key(text(), SOURCE)


@dataclass(frozen=True)
class FailureRates:
    """[failures]: failure and repair of GPUs."""

    mtbf_hours: float = key(positive("hours"), "mean time between failures of a reference GPU")
    repair_hours: float = key(positive("hours"), "mean time to repair a GPU")
    swap_hours: float = key(amount("hours"), "time until a spare GPU has taken over")
    rate_by: str = key(
        choice(FAIL_BY), "whether failures scale with die area, or are equal per GPU"
    )
    source: str = key(text(), SOURCE)


@dataclass(frozen=True)
class Fleet:
    """[fleet]: total silicon, equal for every GPU."""

    reference: str = key(text(), "GPU that others are compared with")
    gpus: int = key(
        count(1, MAX_GPUS), "number of reference GPUs; others have the same total die area"
    )
    goodput: tuple[float, ...] = key(_shares(), "goodput targets; spares are computed for each")


@dataclass(frozen=True)
class Gpu:
    """[gpu.NAME]: one GPU."""

    die_mm2: float = key(positive("mm2"), "die area")
    memory: int = key(size(), "stacked memory")
    rate: int = key(rate(), "one-way rate of its scale-up links")
    link: str = key(text(), "its kind of links: a [link.NAME]")
    units: int = key(
        count(1, MAX_UNITS), "equal parts of the die that can be disabled, such as SMs", 1
    )
    units_needed: int = key(count(1, MAX_UNITS), "working parts of a sold GPU", 1)
    units_share: float | None = key(
        positive("share", 1), "share of the die area that these parts take", None
    )
    watts: float = key(positive("W"), "power, without optics")
    group: int = key(count(), "GPUs per copy of a model")
    source: str = key(text(), SOURCE)


@dataclass(frozen=True)
class CostTables:
    """All tables; `links` and `gpus` by name."""

    name: str
    wafer: Wafer
    memory: Memory
    package: Package
    failures: FailureRates
    fleet: Fleet
    links: dict[str, LinkKind]
    gpus: dict[str, Gpu]

    @property
    def reference(self) -> Gpu:
        """GPU that others are compared with."""
        return self.gpus[self.fleet.reference]


PARTS: dict[str, type[Any] | Reader] = {
    "wafer": Wafer,
    "memory": Memory,
    "package": Package,
    "failures": FailureRates,
    "fleet": Fleet,
    "link": named(LinkKind),
    "gpu": named(Gpu),
}
"""Tables of a cost file."""


def load_cost_tables(
    name: str, directory: Path | None = None, overrides: Sequence[str] = ()
) -> CostTables:
    """Read cost tables from a file or a preset. Raises InputError with all errors."""
    return load(name, "cost", cost_tables_from, directory, overrides)


def cost_tables_from(tree: Mapping[str, Any], name: str, directory: Path) -> CostTables:
    """Return the cost tables of a tree. Raises InputError, without a file, with all errors."""
    parts = read_parts(tree, PARTS, directory)
    links, gpus = parts.pop("link"), parts.pop("gpu")
    costs = CostTables(name=tree.get("name", name), links=links, gpus=gpus, **parts)
    raise_all(list(_conflicts(costs)))
    return costs


def _conflicts(costs: CostTables) -> Iterator[InputError]:
    """Yield conflicts between the tables."""
    wafer, fleet = costs.wafer, costs.fleet
    has_room = 2 * wafer.edge_mm < wafer.diameter_mm
    if not has_room:
        yield InputError("must be below half of the diameter", key="wafer.edge_mm")
    for name, gpu in costs.gpus.items():
        if gpu.link not in costs.links:
            hint = "one of " + ", ".join(costs.links)
            yield InputError(f"missing [link.{gpu.link}]", key=f"gpu.{name}.link", hint=hint)
    if fleet.reference not in costs.gpus:
        hint = "one of " + ", ".join(costs.gpus)
        yield InputError(f"missing [gpu.{fleet.reference}]", key="fleet.reference", hint=hint)
        return
    for name, gpu in costs.gpus.items():
        if gpu.units < gpu.units_needed:
            message = f"{gpu.units_needed} exceeds units = {gpu.units}"
            yield InputError(message, key=f"gpu.{name}.units_needed")
        elif (gpu.units > gpu.units_needed) != (gpu.units_share is not None):
            message = "must be set if, and only if, units exceed units_needed"
            yield InputError(message, key=f"gpu.{name}.units_share")
        elif has_room:
            yield from _no_die(costs, name, gpu)
        yield from _no_fleet(costs, name, gpu)


def _no_die(costs: CostTables, name: str, gpu: Gpu) -> Iterator[InputError]:
    """Yield an error if a wafer yields no good die."""
    dies, _, share, _ = die_of(costs, gpu)
    if dies * share < MIN_VALUE:
        message = f"a wafer yields no good die: {dies:,} dies, yield {share:.2g}"
        hint = "use a larger wafer, fewer defects, or a smaller die"
        yield InputError(message, key=f"gpu.{name}.die_mm2", hint=hint)


def _no_fleet(costs: CostTables, name: str, gpu: Gpu) -> Iterator[InputError]:
    """Yield an error if the fleet's silicon is too many of a GPU, or no whole number of groups."""
    fleet = costs.fleet
    gpus = fleet.gpus * costs.reference.die_mm2 / gpu.die_mm2
    message = f"{fleet.gpus:,} {fleet.reference} equal {gpus:,.2f} {name} in silicon"
    if gpus > MAX_GPUS:
        yield InputError(message, key="fleet.gpus", hint=f"at most {MAX_GPUS:,} of each GPU")
    elif abs(gpus - round(gpus)) > 1e-6 * gpus or round(gpus) % gpu.group:
        message += f", not a multiple of group = {gpu.group}"
        yield InputError(message, key="fleet.gpus")


def die_of(costs: CostTables, gpu: Gpu) -> tuple[int, float, float, float]:
    """Return dies per wafer, shares without defects and sold, and price of a die."""
    wafer = costs.wafer
    dies = dies_per_wafer(gpu.die_mm2, wafer.diameter_mm, wafer.edge_mm, wafer.scribe_mm)
    defect_free = die_yield(gpu.die_mm2, wafer.defects_per_cm2, *wafer.yield_model)
    share = defect_free
    if gpu.units_share is not None:
        share = salvaged_yield(
            gpu.die_mm2,
            wafer.defects_per_cm2,
            *wafer.yield_model,
            units=gpu.units,
            needed=gpu.units_needed,
            share=gpu.units_share,
        )
    return dies, defect_free, share, cost_of_good_die_usd(wafer.usd, dies, share)
