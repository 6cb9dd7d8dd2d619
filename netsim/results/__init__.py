"""Results: one directory per run, written atomically, every column documented.

from netsim import load
result = load("results/p2p_512")
print(result.flows)
"""

from netsim.results.columns import COLUMNS, Column, describe
from netsim.results.read import Result, Sweep, is_sweep, load, load_sweep
from netsim.results.sweep import point_directory, sweep_row, write_sweep
from netsim.results.write import check_destination, write_result

__all__ = [
    "COLUMNS",
    "Column",
    "Result",
    "Sweep",
    "check_destination",
    "describe",
    "is_sweep",
    "load",
    "load_sweep",
    "point_directory",
    "sweep_row",
    "write_result",
    "write_sweep",
]
