"""Results: one directory per run, written atomically, every column documented.

from netsim import load
sweep = load("results/p2p_512")
print(sweep.table, sweep.points[0].flows)
"""

from netsim.results.columns import Column, columns, describe
from netsim.results.destination import check_destination
from netsim.results.read import (
    FailedPoint,
    Result,
    Sweep,
    is_sweep,
    load,
    load_result,
    load_sweep,
    results_in,
)
from netsim.results.write import point_directory, summary_of, sweep_row, write_result, write_sweep

__all__ = [
    "COLUMNS",
    "Column",
    "FailedPoint",
    "Result",
    "Sweep",
    "check_destination",
    "describe",
    "is_sweep",
    "load",
    "load_result",
    "load_sweep",
    "point_directory",
    "results_in",
    "summary_of",
    "sweep_row",
    "write_result",
    "write_sweep",
]


def __getattr__(name: str) -> dict[str, dict[str, Column]]:
    """`COLUMNS`: table -> name -> column, built on first use."""
    if name == "COLUMNS":
        return columns()
    raise AttributeError(name)
