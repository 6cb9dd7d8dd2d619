"""Cost, power and failures of GPUs at equal silicon."""

from __future__ import annotations

from dataclasses import dataclass

from netsim.workloads.cost.availability import (
    SHRINK,
    STOP,
    availability,
    blast_radius,
    group_availability,
    spares_for_capacity,
    spares_for_goodput,
)
from netsim.workloads.cost.cost_tables import AREA, CostTables, Gpu, die_of

BPS_PER_GBPS = 1e9
BYTES_PER_GB = 1e9
PJ_PER_J = 1e12
HOURS_PER_DAY = 24.0


@dataclass(frozen=True)
class LinkRow:
    """One end of a GPU's links of some kind."""

    kind: str
    usd: float
    watts: float


@dataclass(frozen=True)
class SpareRow:
    """Spare GPUs for a goodput; None if no number is enough.

    Attributes:
        goodput: target, as a share of the capacity.
        stop, shrink: spares if groups stop at a failure, or shrink, with losses during swaps.
        full: spares for the full capacity to be up for that share of the time.
    """

    goodput: float
    stop: int | None
    shrink: int | None
    full: int | None


@dataclass(frozen=True)
class GpuCost:
    """Results for one GPU; per GPU unless stated.

    Attributes:
        defect_free: share of dies without defects.
        die_yield: share of dies that can be sold, with spare units disabled.
        silicon: the reference's die area over this one's.
        usd_per_good_mm2: price of a good die over its area.
        usd: die, memory, package and links.
        usd_of_reference: price of equal silicon over that of a reference GPU.
        watts_of_reference: the same for power, with links.
        gpus: GPUs in the fleet.
        failures_a_day: in the fleet, with all GPUs up.
        group_up: availability of a group that stops until each repair.
        gpu_up: availability of a GPU, and of groups that shrink.
        blast_stop, blast_shrink: share of the fleet's capacity lost by one failure.
        saved_usd: price of a reference GPU with links, minus equal silicon without links.
        break_even_usd_per_gbps: price of links at which nothing is saved.
    """

    name: str
    die_mm2: float
    silicon: float
    dies: int
    defect_free: float
    die_yield: float
    die_usd: float
    usd_per_good_mm2: float
    memory_usd: float
    package_usd: float
    link: str
    link_usd: float
    usd: float
    usd_of_reference: float
    saved_usd: float
    break_even_usd_per_gbps: float
    watts: float
    link_watts: float
    watts_of_reference: float
    links: tuple[LinkRow, ...]
    gpus: int
    group: int
    mtbf_hours: float
    failures_a_day: float
    gpu_up: float
    group_up: float
    blast_stop: float
    blast_shrink: float
    spares: tuple[SpareRow, ...]


def compare(costs: CostTables) -> list[GpuCost]:
    """Return a row for each GPU, in the tables' order."""
    return [_row(costs, name, gpu) for name, gpu in costs.gpus.items()]


def _row(costs: CostTables, name: str, gpu: Gpu) -> GpuCost:
    reference = costs.reference
    reference_link = _link(costs, reference, reference.link)
    reference_usd = _usd_without_links(costs, reference) + reference_link.usd
    silicon = reference.die_mm2 / gpu.die_mm2
    dies, defect_free, share, die_usd = die_of(costs, gpu)
    link, usd = _link(costs, gpu, gpu.link), _usd_without_links(costs, gpu)
    saved_usd = reference_usd - silicon * usd
    gpus, mtbf_hours = round(costs.fleet.gpus * silicon), mtbf_of(costs, gpu)
    repair_hours = costs.failures.repair_hours
    return GpuCost(
        name=name,
        die_mm2=gpu.die_mm2,
        silicon=silicon,
        dies=dies,
        defect_free=defect_free,
        die_yield=share,
        die_usd=die_usd,
        usd_per_good_mm2=die_usd / gpu.die_mm2,
        memory_usd=_memory_usd(costs, gpu),
        package_usd=_package_usd(costs, gpu),
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
        gpu_up=availability(mtbf_hours, repair_hours),
        group_up=group_availability(mtbf_hours, repair_hours, gpu.group),
        blast_stop=blast_radius(gpus, gpu.group, STOP),
        blast_shrink=blast_radius(gpus, gpu.group, SHRINK),
        spares=_spares(costs, gpu, gpus),
    )


def mtbf_of(costs: CostTables, gpu: Gpu) -> float:
    """Return the MTBF of a GPU in hours."""
    by_area = costs.failures.rate_by == AREA
    return costs.failures.mtbf_hours * (costs.reference.die_mm2 / gpu.die_mm2 if by_area else 1)


def _memory_usd(costs: CostTables, gpu: Gpu) -> float:
    """Return the price of stacked memory by size, at any bandwidth."""
    return gpu.memory / BYTES_PER_GB * costs.memory.usd_per_gb


def _package_usd(costs: CostTables, gpu: Gpu) -> float:
    """Return the price of interposer, substrate, assembly and test."""
    return gpu.die_mm2 * costs.package.usd_per_mm2 + costs.package.usd


def _usd_without_links(costs: CostTables, gpu: Gpu) -> float:
    """Return the price of a packaged GPU without links."""
    return die_of(costs, gpu)[3] + _memory_usd(costs, gpu) + _package_usd(costs, gpu)


def _link(costs: CostTables, gpu: Gpu, kind: str) -> LinkRow:
    gbps, link = gpu.rate / BPS_PER_GBPS, costs.links[kind]
    return LinkRow(kind, gbps * link.usd_per_gbps, gbps * BPS_PER_GBPS * link.pj_per_bit / PJ_PER_J)


def _spares(costs: CostTables, gpu: Gpu, gpus: int) -> tuple[SpareRow, ...]:
    """Return the spares for each goodput target."""
    failures, mtbf_hours = costs.failures, mtbf_of(costs, gpu)
    up = availability(mtbf_hours, failures.repair_hours)
    swapped = {
        STOP: group_availability(mtbf_hours, failures.swap_hours, gpu.group),
        SHRINK: availability(mtbf_hours, failures.swap_hours),
    }
    rows = []
    for goodput in costs.fleet.goodput:
        stop, shrink = (
            spares_for_goodput(gpus, gpu.group, up, goodput, how, swapped[how])
            for how in (STOP, SHRINK)
        )
        rows.append(SpareRow(goodput, stop, shrink, spares_for_capacity(gpus, up, goodput)))
    return tuple(rows)
