"""Cost tables from TOML files and presets."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from netsim.errors import InputError, raise_all
from netsim.workloads.cost.compare import die_of
from netsim.workloads.cost.cost_tables import (
    MAX_GPUS,
    MIN_VALUE,
    CostTables,
    FailureRates,
    Fleet,
    Gpu,
    LinkKind,
    Memory,
    Package,
    Wafer,
)
from netsim.workloads.job.keys import Reader, named
from netsim.workloads.job.load import load, read_parts

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
