"""Cost, power and availability of GPUs by die size.

Formulas are functions of plain numbers; `compare` applies them to GPUs at equal silicon.
"""

from netsim.workloads.cost.availability import (
    availability,
    blast_radius,
    goodput_of_groups,
    group_availability,
    spares_for_capacity,
    spares_for_goodput,
)
from netsim.workloads.cost.compare import GpuCost, compare
from netsim.workloads.cost.cost_tables import CostTables
from netsim.workloads.cost.dies import (
    cost_of_good_die_usd,
    die_yield,
    dies_per_wafer,
    link_usd,
    link_watts,
    memory_usd,
    package_usd,
    salvaged_yield,
)
from netsim.workloads.cost.load import load_cost_tables, presets

__all__ = [
    "CostTables",
    "GpuCost",
    "availability",
    "blast_radius",
    "compare",
    "cost_of_good_die_usd",
    "die_yield",
    "dies_per_wafer",
    "goodput_of_groups",
    "group_availability",
    "link_usd",
    "link_watts",
    "load_cost_tables",
    "memory_usd",
    "package_usd",
    "presets",
    "salvaged_yield",
    "spares_for_capacity",
    "spares_for_goodput",
]
