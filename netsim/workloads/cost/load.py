"""Cost tables from TOML files and presets."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

from netsim.errors import InputError, did_you_mean, raise_all
from netsim.inputs import locate
from netsim.units import written
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
from netsim.workloads.job.keys import read_part
from netsim.workloads.job.load import read_toml

PRESETS = Path(__file__).with_name("presets")

PARTS: dict[str, type[Any]] = {
    "wafer": Wafer,
    "memory": Memory,
    "package": Package,
    "failures": FailureRates,
    "fleet": Fleet,
}
NAMED_TABLES: dict[str, type[Any]] = {"link": LinkKind, "gpu": Gpu}
"""Tables with a name, such as [gpu.NAME]."""

DESCRIPTION = "description"

Part = TypeVar("Part")


def presets() -> dict[str, Path]:
    """Return preset files by name."""
    return {path.stem: path for path in sorted(PRESETS.glob("*.toml"))}


def load_cost_tables(name: str, directory: Path | None = None) -> CostTables:
    """Read cost tables from a file or a preset. Raises InputError with all errors."""
    path = locate(name, directory or Path.cwd(), presets(), "file or preset")
    try:
        return cost_tables_from(read_toml(path), path.stem)
    except InputError as error:
        raise error.at(file=str(path)) from None


def cost_tables_from(tree: Mapping[str, Any], name: str) -> CostTables:
    """Return the cost tables of a tree. Raises InputError, without a file, with all errors."""
    known = (*PARTS, *NAMED_TABLES, DESCRIPTION)
    errors = [
        InputError("unknown key", key=one, hint=did_you_mean(one, known), code="unknown_key")
        for one in tree
        if one not in known
    ]
    if not isinstance(tree.get(DESCRIPTION, ""), str):
        errors.append(InputError(f"{written(tree[DESCRIPTION])} must be text", key=DESCRIPTION))
    parts: dict[str, Any] = {}
    for key, part in PARTS.items():
        try:
            parts[key] = read_part(part, tree.get(key, {}), key)
        except InputError as error:
            errors += error.errors
    for key, part in NAMED_TABLES.items():
        parts[f"{key}s"], found = _named(part, tree.get(key, {}), key)
        errors += found
    raise_all(errors)
    costs = CostTables(name=name, **parts)
    raise_all(_conflicts(costs))
    return costs


def _named(part: type[Part], tables: Any, key: str) -> tuple[dict[str, Part], list[InputError]]:
    if not isinstance(tables, Mapping) or not tables:
        return {}, [InputError("missing", key=key, hint=f"[{key}.NAME]", code="missing")]
    parts: dict[str, Part] = {}
    errors: list[InputError] = []
    for name, table in tables.items():
        try:
            parts[name] = read_part(part, table, f"{key}.{name}")
        except InputError as error:
            errors += error.errors
    return parts, errors


def _conflicts(costs: CostTables) -> list[InputError]:
    """Return conflicts between the tables."""
    errors = []
    wafer, fleet = costs.wafer, costs.fleet
    left = 2 * wafer.edge_mm < wafer.diameter_mm
    if not left:
        errors.append(InputError("must be below half of the diameter", key="wafer.edge_mm"))
    for name, gpu in costs.gpus.items():
        if gpu.link not in costs.links:
            hint = "one of " + ", ".join(costs.links)
            key = f"gpu.{name}.link"
            errors.append(InputError(f"missing [link.{gpu.link}]", key=key, hint=hint))
    if fleet.reference not in costs.gpus:
        hint = "one of " + ", ".join(costs.gpus)
        message = f"missing [gpu.{fleet.reference}]"
        return [*errors, InputError(message, key="fleet.reference", hint=hint)]
    for name, gpu in costs.gpus.items():
        if gpu.units < gpu.units_needed:
            message = f"{gpu.units_needed} exceeds units = {gpu.units}"
            errors.append(InputError(message, key=f"gpu.{name}.units_needed"))
        elif (gpu.units > gpu.units_needed) != (gpu.units_share is not None):
            message = "must be set if, and only if, units exceed units_needed"
            errors.append(InputError(message, key=f"gpu.{name}.units_share"))
        elif left:
            errors += _no_die(costs, name, gpu)
        gpus = fleet.gpus * costs.reference.die_mm2 / gpu.die_mm2
        if gpus > MAX_GPUS:
            message = f"{fleet.gpus:,} {fleet.reference} equal {gpus:,.0f} {name} in silicon"
            hint = f"at most {MAX_GPUS:,} of each GPU"
            errors.append(InputError(message, key="fleet.gpus", hint=hint))
            continue
        whole = round(gpus)
        if abs(gpus - whole) > 1e-6 * gpus or whole % gpu.group:
            message = f"{fleet.gpus:,} {fleet.reference} equal {gpus:,.2f} {name} in silicon, "
            message += f"not a multiple of group = {gpu.group}"
            errors.append(InputError(message, key="fleet.gpus"))
    return errors


def _no_die(costs: CostTables, name: str, gpu: Gpu) -> list[InputError]:
    """Return an error if a wafer yields no good die."""
    dies, _, share, _ = die_of(costs, gpu)
    if dies * share >= MIN_VALUE:
        return []
    message = f"a wafer yields no good die: {dies:,} dies, yield {share:.2g}"
    hint = "use a larger wafer, fewer defects, or a smaller die"
    return [InputError(message, key=f"gpu.{name}.die_mm2", hint=hint)]
