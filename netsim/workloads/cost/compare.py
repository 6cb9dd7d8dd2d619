"""GPUs side by side at equal silicon: what they cost, what they draw, what failures take."""

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
from netsim.workloads.cost.cost_tables import AREA, CostTables, Gpu
from netsim.workloads.cost.dies import (
    cost_of_good_die_usd,
    die_yield,
    dies_per_wafer,
    salvaged_yield,
)
from netsim.workloads.cost.package import link_usd, link_watts, memory_usd, package_usd

BPS_PER_GBPS = 1e9
BYTES_PER_GB = 1e9
HOURS_PER_DAY = 24.0


@dataclass(frozen=True)
class LinkRow:
    """One end of a GPU's links, were they of some kind."""

    kind: str
    usd: float
    watts: float


@dataclass(frozen=True)
class SpareRow:
    """Spare GPUs for a goodput; None if no number of them is enough.

    Attributes:
        goodput: the mean share of the capacity that is wanted.
        stop, shrink: how many, where a group stops without one of its GPUs, or shrinks. What a
            group loses while a spare takes over is counted.
        full: how many, for all of the capacity to be in order for that share of the time.
    """

    goodput: float
    stop: int | None
    shrink: int | None
    full: int | None


@dataclass(frozen=True)
class GpuCost:
    """One GPU. What is not said to be of the fleet is of one GPU.

    Attributes:
        defect_free: the share of dies without any defect.
        die_yield: the share of dies that can be sold, with spare units switched off.
        silicon: the reference's die area over this one's.
        usd_per_good_mm2: a good die's price over its area.
        usd: die, memory, package and links.
        usd_of_reference: the price of as much silicon over that of a reference GPU.
        watts_of_reference: the same of power, with links.
        gpus: in the fleet.
        mtbf_hours: of one GPU.
        failures_a_day: in the fleet, as long as all of it is up.
        group_up: the share of time that a group is up which stops until the repair of each failure.
        gpu_up: of a GPU, which is what is left where groups shrink.
        blast_stop, blast_shrink: the share of the fleet's capacity that one failure takes.
        saved_usd: what a reference GPU costs, with its links, less as much silicon of these without
            theirs: what is left for links, and for what does not shrink with a die.
        break_even_usd_per_gbps: the price of links at which nothing is saved.
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
    """Mean time to a failure of one GPU in hours."""
    by_area = costs.failures.rate_by == AREA
    return costs.failures.mtbf_hours * (costs.reference.die_mm2 / gpu.die_mm2 if by_area else 1)


def die_of(costs: CostTables, gpu: Gpu) -> tuple[int, float, float, float]:
    """Of a GPU: dies on a wafer, shares of them without a defect and to be sold, price of one."""
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


def _memory_usd(costs: CostTables, gpu: Gpu) -> float:
    return memory_usd(gpu.memory / BYTES_PER_GB, costs.memory.usd_per_gb)


def _package_usd(costs: CostTables, gpu: Gpu) -> float:
    return package_usd(gpu.die_mm2, costs.package.usd_per_mm2, costs.package.usd)


def _usd_without_links(costs: CostTables, gpu: Gpu) -> float:
    """USD of a GPU in its package."""
    return die_of(costs, gpu)[3] + _memory_usd(costs, gpu) + _package_usd(costs, gpu)


def _link(costs: CostTables, gpu: Gpu, kind: str) -> LinkRow:
    """One end of a GPU's links, were they of some kind."""
    gbps, link = gpu.rate / BPS_PER_GBPS, costs.links[kind]
    return LinkRow(kind, link_usd(gbps, link.usd_per_gbps), link_watts(gbps, link.pj_per_bit))


def _spares(costs: CostTables, gpu: Gpu, gpus: int) -> tuple[SpareRow, ...]:
    """Spares for each goodput. While one takes over its group waits, or lacks a GPU."""
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
