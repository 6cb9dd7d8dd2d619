"""Cost, power and failures of GPUs at equal silicon: sourced prices, dies per wafer, yield.

Availability, blast radius and spares are exact sums.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from decimal import Decimal, localcontext
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from netsim.errors import InputError, raise_all
from netsim.frozen import frozen
from netsim.model.columns import Floats
from netsim.params import NONBLANK, NUMBER, REQUIRED, Param, Unit, key, read_number, tables_of
from netsim.units import written
from netsim.workloads.job.load import load, read_parts

MM2_PER_CM2 = 100.0

DIGITS = 40  # digits for alternating sums, plus one per unit

POISSON, MURPHY, SEEDS, NEGATIVE_BINOMIAL = "poisson", "murphy", "seeds", "negative_binomial"

YIELDS = (POISSON, MURPHY, SEEDS, NEGATIVE_BINOMIAL)  # yield models; see `die_yield`


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
    """Return the price of a good die, without test and dicing; infinite if no die is good."""
    good = dies * yield_share
    return wafer_usd / good if good > 0 else math.inf


AREA, GPU = "area", "gpu"

FAIL_BY = (AREA, GPU)

MIN_VALUE, MAX_VALUE = 1e-9, 1e9  # bounds of numbers other than 0

MAX_UNITS = 200  # largest number of units per die

MAX_GPUS = 1 << 22  # largest fleet


def amount(unit: str) -> Unit:
    """Return the unit of a number that may be 0."""
    return Unit(unit, partial(_read, low=0.0, high=MAX_VALUE))


def positive(unit: str, largest: float = MAX_VALUE) -> Unit:
    """Return the unit of a positive number."""
    return Unit(unit, partial(_read, low=MIN_VALUE, high=largest))


def _read(value: Any, low: float, high: float) -> float:
    number = read_number(value, math.inf)
    smallest = max(low, MIN_VALUE)
    if not (smallest <= number <= high or number == low):
        hint = f"{smallest:g} to {high:g}"
        hint = hint if low else f"0, or {hint}"
        raise InputError(f"{written(value)} is out of range", hint=hint, code="out_of_range")
    return number


SHARE = Param("share", NUMBER, REQUIRED, "of the fleet", above=0, maximum=1)


def _read_shares(value: Any) -> tuple[float, ...]:
    found = tuple(map(SHARE.convert, value if isinstance(value, list) else [value]))
    if not found or 1.0 in found:
        raise InputError("shares must be below 1", hint="[0.99, 0.999]")
    return found


class Yield(NamedTuple):
    """Yield model; `alpha` only for the negative binomial (see `die_yield`)."""

    model: str
    alpha: float | None = None


PLAIN_YIELDS = tuple(name for name in YIELDS if name != NEGATIVE_BINOMIAL)


def _read_yield(value: Any) -> Yield:
    if isinstance(value, str) and value in PLAIN_YIELDS:
        return Yield(value)
    if not isinstance(value, Mapping) or list(value) != [NEGATIVE_BINOMIAL]:
        hint = f"one of {YIELD_MODEL.name}"
        raise InputError(f"{written(value)} is not a yield model", hint=hint)
    try:
        return Yield(NEGATIVE_BINOMIAL, _read(value[NEGATIVE_BINOMIAL], MIN_VALUE, MAX_VALUE))
    except InputError as error:
        raise error.under(NEGATIVE_BINOMIAL) from None


SHARES = Unit("shares", _read_shares, list, "[0.99, 0.999]")

YIELD_MODEL = Unit(
    f"{', '.join(PLAIN_YIELDS)} or {{ {NEGATIVE_BINOMIAL} = alpha }}",
    _read_yield,
    example='"murphy"',
)

SOURCE = "source of the values"


@frozen(kw_only=True)
class Wafer:
    """[wafer]: wafers and defects."""

    usd: float = key(positive("USD"), REQUIRED, "price of a wafer")
    defects_per_cm2: float = key(amount("1/cm2"), REQUIRED, "defect density")
    yield_model: Yield = key(YIELD_MODEL, REQUIRED, "yield model")
    diameter_mm: float = key(positive("mm"), 300.0, "diameter of a wafer")
    edge_mm: float = key(amount("mm"), 3.0, "width of the unused rim")
    scribe_mm: float = key(amount("mm"), 0.2, "width of scribe lanes between dies")
    source: str = key(NONBLANK, REQUIRED, SOURCE)


@frozen(kw_only=True)
class Memory:
    """[memory]: stacked memory."""

    usd_per_gb: float = key(amount("USD/GB"), REQUIRED, "price of memory")
    source: str = key(NONBLANK, REQUIRED, SOURCE)


@frozen(kw_only=True)
class Package:
    """[package]: interposer, substrate, assembly and test."""

    usd_per_mm2: float = key(amount("USD/mm2"), REQUIRED, "price per die area")
    usd: float = key(amount("USD"), REQUIRED, "fixed price of a package")
    source: str = key(NONBLANK, REQUIRED, SOURCE)


@frozen(kw_only=True)
class LinkKind:
    """[link.NAME]: one end of links, at the GPU."""

    usd_per_gbps: float = key(amount("USD/Gbps"), REQUIRED, "price per one-way rate")
    pj_per_bit: float = key(amount("pJ/bit"), REQUIRED, "energy, in addition to the GPU's own")
    source: str = key(NONBLANK, REQUIRED, SOURCE)


@frozen(kw_only=True)
class FailureRates:
    """[failures]: failure and repair of GPUs."""

    mtbf_hours: float = key(positive("hours"), REQUIRED, "mean time between failures of a GPU")
    repair_hours: float = key(positive("hours"), REQUIRED, "mean time to repair a GPU")
    swap_hours: float = key(amount("hours"), REQUIRED, "time until a spare GPU has taken over")
    rate_by: str = key("choice", REQUIRED, "failures by die area, or by GPU", choices=FAIL_BY)
    source: str = key(NONBLANK, REQUIRED, SOURCE)


@frozen(kw_only=True)
class Fleet:
    """[fleet]: total silicon, equal for every GPU."""

    reference: str = key(NONBLANK, REQUIRED, "GPU that others are compared with")
    gpus: int = key(
        "count",
        REQUIRED,
        "number of reference GPUs; the others get the same die area",
        minimum=1,
        maximum=MAX_GPUS,
    )
    goodput: tuple[float, ...] = key(SHARES, REQUIRED, "goodput targets; each gets its own spares")


@frozen(kw_only=True)
class Gpu:
    """[gpu.NAME]: one GPU."""

    die_mm2: float = key(positive("mm2"), REQUIRED, "die area")
    memory: int = key("bytes", REQUIRED, "stacked memory")
    rate: int = key("rate", REQUIRED, "one-way rate of its scale-up links")
    link: str = key(NONBLANK, REQUIRED, "its kind of links: a [link.NAME]")
    units: int = key("count", 1, "parts that can be disabled", minimum=1, maximum=MAX_UNITS)
    units_needed: int = key("count", 1, "working parts of a sold GPU", minimum=1, maximum=MAX_UNITS)
    units_share: float | None = key(positive("share", 1), None, "share of the die in these parts")
    watts: float = key(positive("W"), REQUIRED, "power, without optics")
    group: int = key("count", REQUIRED, "GPUs per copy of a model", minimum=1)
    source: str = key(NONBLANK, REQUIRED, SOURCE)


@frozen
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


PARTS: dict[str, type[Any] | Unit] = {
    "wafer": Wafer,
    "memory": Memory,
    "package": Package,
    "failures": FailureRates,
    "fleet": Fleet,
    "link": tables_of(LinkKind),
    "gpu": tables_of(Gpu),
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
    """Yield an error if the fleet's silicon makes too many GPUs, or no whole number of groups."""
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


STOP, SHRINK = "stop", "shrink"  # if a GPU fails, its group stops, or loses only that GPU's share
MAX_SPARES = 1 << 20  # largest number of spares searched

BPS_PER_GBPS = 1e9

BYTES_PER_GB = 1e9

PJ_PER_J = 1e12

HOURS_PER_DAY = 24.0


def availability(mtbf_hours: float, repair_hours: float, group: int = 1) -> float:
    """Return MTBF / (MTBF + MTTR), for any distributions (Barlow and Proschan 1975).

    `mtbf_hours` is the mean up time of a GPU. GPUs of a stopped group do not fail, so a group that
    stops at each failure of its GPUs is a renewal process with `group` times the failure rate.
    """
    up_hours = mtbf_hours / group
    return up_hours / (up_hours + repair_hours)


def up_shares(n: int, share_up: float) -> Floats:
    """float64[n + 1]: probability that k of n independent GPUs are up (binomial)."""
    if share_up in (0.0, 1.0):
        found = np.zeros(n + 1)
        found[n if share_up else 0] = 1.0
        return found
    k = np.arange(1, n + 1)
    ratios = np.log((n - k + 1) / k) + (math.log(share_up) - math.log1p(-share_up))
    logs = np.concatenate([[0.0], np.cumsum(ratios)])
    return _normalized(logs)


def up_shares_cold(n: int, spares: int, mtbf_hours: float, repair_hours: float) -> Floats:
    """float64[n + spares + 1]: probability that k GPUs are up, with cold spares.

    At most n GPUs run and can fail. Each is repaired independently and becomes a spare; a spare
    takes over immediately. This is Palm's machine interference model with spares, a closed network
    of two stations: only the mean repair time matters (Baskett, Chandy, Muntz and Palacios 1975).
    Up times are exponential.
    """
    broken = np.arange(1, n + spares + 1)
    running = np.minimum(n, n + spares - broken + 1)
    logs = np.concatenate([[0.0], np.cumsum(np.log(running * repair_hours / mtbf_hours / broken))])
    return _normalized(logs)[::-1]


def _normalized(logs: Floats) -> Floats:
    """Return shares of sum 1 from the logarithms of weights."""
    weights = np.exp(logs - logs.max())
    shares: Floats = weights / weights.sum()
    return shares


def goodput_of_groups(up: Floats, gpus: int, group: int, on_failure: str = STOP) -> float:
    """Return the mean share of `gpus` that work, if k are up with probability up[k].

    With "stop" only whole groups work, formed from any GPUs that are up, as a switched network
    allows; with "shrink" every GPU that is up works, up to `gpus`.
    """
    k = np.minimum(np.arange(up.size), gpus)
    if on_failure == STOP:
        k = k // group * group
    return float(up @ k) / gpus


def full_capacity(up: Floats, gpus: int) -> float:
    """Return the probability that at least `gpus` are up (k-of-n)."""
    return float(up[gpus:].sum())


def spares_for_goodput(
    gpus: int,
    group: int,
    share_up: float,
    goodput: float,
    on_failure: str = STOP,
    swapped: float = 1.0,
) -> int | None:
    """Return the fewest spares for a mean goodput; None if a million are not enough.

    Spares fail like other GPUs. `swapped` is the availability of a group (with "shrink": a GPU)
    while spares take over, which bounds the goodput.
    """
    measure = partial(goodput_of_groups, gpus=gpus, group=group, on_failure=on_failure)
    if measure(up_shares(gpus, share_up)) >= goodput:
        return 0
    return _fewest(gpus, share_up, measure, goodput / swapped) if goodput < swapped else None


def spares_for_capacity(gpus: int, share_up: float, probability: float) -> int | None:
    """Return the fewest spares for which `gpus` are up with this probability, or None."""
    measure = partial(full_capacity, gpus=gpus)
    if measure(up_shares(gpus, share_up)) >= probability:
        return 0
    return _fewest(gpus, share_up, measure, probability)


def _fewest(
    gpus: int, share_up: float, measure: Callable[[Floats], float], target: float
) -> int | None:
    """Return the fewest spares, at least one, for which an increasing measure reaches `target`."""

    def reached(spares: int) -> bool:
        return measure(up_shares(gpus + spares, share_up)) >= target

    # Neither measure exceeds the mean number of GPUs up over `gpus` (probability: Markov).
    fewest = gpus * (target / share_up - 1) if share_up > 0 else math.inf
    if fewest > MAX_SPARES:
        return None
    many = max(math.ceil(fewest - 1e-6), 1)
    few = many - 1
    while not reached(many):
        few, many = many, 2 * many
        if many > MAX_SPARES:
            return None
    while many - few > 1:
        middle = (few + many) // 2
        few, many = (few, middle) if reached(middle) else (middle, many)
    return many


@frozen
class LinkRow:
    """One end of a GPU's links of some kind."""

    kind: str
    usd: float
    watts: float


@frozen
class SpareRow:
    """Spare GPUs for a target; None if no number is enough."""

    goodput: float  # target, as a share of the capacity
    stop: int | None  # spares if groups stop at a failure, with losses during swaps
    shrink: int | None  # spares if groups shrink, with losses during swaps
    full: int | None  # spares for full capacity to be up for that share of the time


@frozen
class GpuCost:
    """Results for one GPU; per GPU unless stated."""

    name: str
    die_mm2: float
    silicon: float  # the reference's die area over this one's
    dies: int  # per wafer
    defect_free: float  # share of dies without defects
    die_yield: float  # share of dies that can be sold, with spare units disabled
    die_usd: float
    usd_per_good_mm2: float  # price of a good die over its area
    memory_usd: float
    package_usd: float
    link: str
    link_usd: float
    usd: float  # die, memory, package and links
    usd_of_reference: float  # price of equal silicon over that of a reference GPU
    saved_usd: float  # price of a reference GPU with links, minus equal silicon without links
    break_even_usd_per_gbps: float  # price of links at which nothing is saved
    watts: float
    link_watts: float
    watts_of_reference: float  # power of equal silicon over that of a reference GPU, with links
    links: tuple[LinkRow, ...]
    gpus: int  # in the fleet
    group: int
    mtbf_hours: float
    failures_a_day: float  # in the fleet, with all GPUs up
    gpu_up: float  # availability of a GPU, and of groups that shrink
    group_up: float  # availability of a group that stops until each repair
    blast_stop: float  # share of the fleet's capacity lost by one failure, if groups stop
    blast_shrink: float  # the same if they shrink
    spares: tuple[SpareRow, ...]


def compare(costs: CostTables) -> list[GpuCost]:
    """Return a row for each GPU, in the tables' order."""
    return [_row(costs, name, gpu) for name, gpu in costs.gpus.items()]


def _row(costs: CostTables, name: str, gpu: Gpu) -> GpuCost:
    reference, failures = costs.reference, costs.failures
    reference_link = _link(costs, reference, reference.link)
    reference_usd = sum(_parts_usd(costs, reference)) + reference_link.usd
    silicon = reference.die_mm2 / gpu.die_mm2
    dies, defect_free, share, _ = die_of(costs, gpu)
    link, (die_usd, memory_usd, package_usd) = _link(costs, gpu, gpu.link), _parts_usd(costs, gpu)
    usd = die_usd + memory_usd + package_usd
    saved_usd = reference_usd - silicon * usd
    gpus = round(costs.fleet.gpus * silicon)
    mtbf_hours = failures.mtbf_hours * (silicon if failures.rate_by == AREA else 1)
    return GpuCost(
        name=name,
        die_mm2=gpu.die_mm2,
        silicon=silicon,
        dies=dies,
        defect_free=defect_free,
        die_yield=share,
        die_usd=die_usd,
        usd_per_good_mm2=die_usd / gpu.die_mm2,
        memory_usd=memory_usd,
        package_usd=package_usd,
        link=gpu.link,
        link_usd=link.usd,
        usd=usd + link.usd,
        usd_of_reference=silicon * (usd + link.usd) / reference_usd,
        saved_usd=saved_usd,
        break_even_usd_per_gbps=saved_usd / (silicon * gpu.rate / BPS_PER_GBPS),
        watts=gpu.watts,
        link_watts=link.watts,
        watts_of_reference=(
            silicon * (gpu.watts + link.watts) / (reference.watts + reference_link.watts)
        ),
        links=tuple(_link(costs, gpu, kind) for kind in costs.links),
        gpus=gpus,
        group=gpu.group,
        mtbf_hours=mtbf_hours,
        failures_a_day=gpus * HOURS_PER_DAY / mtbf_hours,
        gpu_up=availability(mtbf_hours, failures.repair_hours),
        group_up=availability(mtbf_hours, failures.repair_hours, gpu.group),
        blast_stop=gpu.group / gpus,
        blast_shrink=1 / gpus,
        spares=tuple(_spares(costs, gpu, gpus, mtbf_hours)),
    )


def _parts_usd(costs: CostTables, gpu: Gpu) -> tuple[float, float, float]:
    """Return the prices of die, stacked memory (by size, at any bandwidth) and package."""
    memory_usd = gpu.memory / BYTES_PER_GB * costs.memory.usd_per_gb
    package_usd = gpu.die_mm2 * costs.package.usd_per_mm2 + costs.package.usd
    return die_of(costs, gpu)[3], memory_usd, package_usd


def _link(costs: CostTables, gpu: Gpu, kind: str) -> LinkRow:
    gbps, link = gpu.rate / BPS_PER_GBPS, costs.links[kind]
    return LinkRow(kind, gbps * link.usd_per_gbps, gbps * BPS_PER_GBPS * link.pj_per_bit / PJ_PER_J)


def _spares(costs: CostTables, gpu: Gpu, gpus: int, mtbf_hours: float) -> Iterator[SpareRow]:
    up = availability(mtbf_hours, costs.failures.repair_hours)
    for goodput in costs.fleet.goodput:
        stop, shrink = (
            spares_for_goodput(
                gpus, gpu.group, up, goodput, how,
                availability(mtbf_hours, costs.failures.swap_hours, size),
            )
            for how, size in ((STOP, gpu.group), (SHRINK, 1))
        )  # fmt: skip
        yield SpareRow(goodput, stop, shrink, spares_for_capacity(gpus, up, goodput))
