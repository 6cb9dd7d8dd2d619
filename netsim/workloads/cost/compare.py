"""Cost, power and failures of GPUs at equal silicon.

Availability, blast radius and spares are exact sums.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from netsim.workloads.cost.cost_tables import AREA, CostTables, Gpu, die_of

STOP, SHRINK = "stop", "shrink"
"""Reaction of a group to a failed GPU: it stops, or loses only that GPU's share."""

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


def up_shares(n: int, share_up: float) -> NDArray[np.float64]:
    """float64[n + 1]: probability that k of n independent GPUs are up (binomial)."""
    if share_up in (0.0, 1.0):
        found = np.zeros(n + 1)
        found[n if share_up else 0] = 1.0
        return found
    k = np.arange(1, n + 1)
    ratios = np.log((n - k + 1) / k) + (math.log(share_up) - math.log1p(-share_up))
    logs = np.concatenate([[0.0], np.cumsum(ratios)])
    return _normalized(logs)


def up_shares_cold(
    n: int, spares: int, mtbf_hours: float, repair_hours: float
) -> NDArray[np.float64]:
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


def _normalized(logs: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return shares of sum 1 from the logarithms of weights."""
    weights = np.exp(logs - logs.max())
    shares: NDArray[np.float64] = weights / weights.sum()
    return shares


def goodput_of_groups(
    up: NDArray[np.float64], gpus: int, group: int, on_failure: str = STOP
) -> float:
    """Return the mean share of `gpus` that work, if k are up with probability up[k].

    With "stop" only whole groups work, formed from any GPUs that are up, as a switched network
    allows; with "shrink" every GPU that is up works, up to `gpus`.
    """
    k = np.minimum(np.arange(up.size), gpus)
    if on_failure == STOP:
        k = k // group * group
    return float(up @ k) / gpus


def full_capacity(up: NDArray[np.float64], gpus: int) -> float:
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
    gpus: int, share_up: float, measure: Callable[[NDArray[np.float64]], float], target: float
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


@dataclass(frozen=True)
class LinkRow:
    """One end of a GPU's links of some kind."""

    kind: str
    usd: float
    watts: float


@dataclass(frozen=True)
class SpareRow:
    """Spare GPUs for a goodput; None if no number is enough."""

    goodput: float  # target, as a share of the capacity
    stop: int | None  # if groups stop at a failure, with losses during swaps
    shrink: int | None  # if groups shrink, with losses during swaps
    full: int | None  # for the full capacity to be up for that share of the time


@dataclass(frozen=True)
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
