"""Figure 6: the last flow of a permutation against load, by transport.

Load is the share of sending hosts, 2 MB each at 100 Gbps. The paper gives no numbers for this
figure but says that collisions hurt even at low load, for any flow size and link speed. The quick
form has 128 hosts.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from netsim.plots import fct_vs_load, seed_curves, sweeps
from netsim.plots.fct_by_transport import FAIR, STATISTICS
from netsim.units import format_bytes, parse_bytes
from netsim.workloads.plots.paper_figure import (
    MORE_THAN,
    SMALLER,
    PaperFigure,
    Sweep,
    Value,
    columns,
)

if TYPE_CHECKING:
    from netsim.results import Result

HOSTS = 8192
"""Transports of the full form: those of figure 5."""

FULL = ("topology.hosts_per_leaf=64", "topology.leaves=128", "topology.spines=64", 'seed="1..10"')
PERMUTATION = Sweep("permutation", "fct_vs_load", full=FULL)
SWEEPS = (PERMUTATION,)

SECTION = "6.3"


def make(results: Sequence[Result]) -> PaperFigure:
    """Draw the figure from the results of `PERMUTATION`, one per transport, load and seed.

    Raises InputError for a single load, or a single transport besides the ideal.
    """
    comparison = fct_vs_load.compare(results)
    figure = fct_vs_load.draw(comparison)
    about = scenario(results[0])
    figure.suptitle(f"Figure 6: {about}", fontsize="medium")
    standing = SMALLER if hosts_of(results[0]) < HOSTS else ""
    values = []
    for name, points in comparison.ours["max"].items():
        if sweeps.on_one_path(comparison.curves[name].results[0]):
            load, last = next(iter(points.items()))
            what = f"collisions at load {load:g}: last flow / optimum ({name})"
            values.append(Value(what, 1.0, last.mean, "", SECTION, MORE_THAN, standing))
    notes = ["the paper gives no numbers; it says that collisions hurt even at low load"]
    notes += ["--full: 8,192 hosts, ten seeds"] if standing else []
    return PaperFigure(figure, values, _drawn(comparison), about, [*notes, *comparison.table.notes])


def _drawn(comparison: fct_vs_load.Comparison) -> dict[str, list[object]]:
    rows: list[tuple[object, ...]] = []
    for key in STATISTICS:
        for name, points in comparison.ours[key].items():
            rows += [
                (name, key, load, len(point.values), point.mean, point.low, point.high)
                for load, point in points.items()
            ]
        rows += [(FAIR, key, load, "", at, at, at) for load, at in comparison.fair[key].items()]
    header = ("transport", "statistic", "load", "seeds", "mean", "lowest_seed", "highest_seed")
    return columns(header, rows)


def hosts_of(result: Result) -> int:
    """Return the number of hosts, including those that do not send."""
    leaves, each = (
        seed_curves.resolved(result, f"topology.{key}") for key in ("leaves", "hosts_per_leaf")
    )
    return int(leaves * each)


def scenario(result: Result) -> str:
    """Describe the scenario of a result."""
    size = format_bytes(parse_bytes(seed_curves.resolved(result, "traffic.size")))
    rate = seed_curves.resolved(result, "topology.host_rate")
    hosts = hosts_of(result)
    small = f", {SMALLER} than the paper's" if hosts < HOSTS else ""
    return f"{hosts:,} hosts at {rate}, flows of {size}{small}"
