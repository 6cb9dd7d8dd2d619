"""Cost, power and availability of GPUs by die size.

Formulas are functions of plain numbers; `compare` applies them to GPUs at equal silicon.
"""

from netsim.workloads.cost.compare import GpuCost, compare
from netsim.workloads.cost.cost_tables import CostTables, load_cost_tables

__all__ = ["CostTables", "GpuCost", "compare", "load_cost_tables"]
