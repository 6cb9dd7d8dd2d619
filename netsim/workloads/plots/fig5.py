"""Figure 5: completion times of simultaneous pipeline transfers, by transport.

Every host of a two-tier, full-bisection tree sends the activations of one layer to the next stage.
The quick form has 512 hosts and a tenth of the message, so values are relative: the paper's to its
optimum, ours to the ideal.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from netsim.plots import fct_by_transport, seed_curves, sweeps
from netsim.plots.fct_by_transport import STATISTICS
from netsim.units import format_bytes, parse_bytes, parse_rate_bps
from netsim.workloads.plots.paper_figure import (
    AT_MOST,
    POST_HOC,
    SMALLER,
    PaperFigure,
    Sweep,
    Value,
    columns,
    stated,
)

if TYPE_CHECKING:
    from netsim.results import Result

HOSTS, MESSAGE_BYTES, RATE_BPS = 8192, 97_390_000, 800_000_000_000
"""The paper's scenario. The paper states no message size: 97.39 MB, a layer's activations in
its MoE model, takes about the 1 ms that it calls optimal; the dense model's 217 MB would not."""

QUICK = ("topology.hosts_per_leaf=16", "topology.leaves=32", "topology.spines=16")
PIPELINE = Sweep("pipeline", "p2p_8192", (*QUICK, "traffic.size=9.739MB"))
SWEEPS = (PIPELINE,)

SECTION = "6.3"
OPTIMUM, SINGLE_PATH = "p2p_optimal_fct", "p2p_singlepath_fct"
"""Metrics of `netsim.workloads.job`, in ms. The single path is SMaRTT's, "best effort" in the
paper."""
MS = 1e9


class StatedRatio(NamedTuple):
    """The paper's value for a transport's last flow: in ms, or relative to the optimum."""

    name: str
    time: float
    unit: str = "ms"
    bound: str = ""


ROCE = StatedRatio("RoCEv2", 9.0)
SPRAYED = StatedRatio("sprayed", 1.05, "", AT_MOST)
"""NDP and Homa: "within 5 % of optimal"."""


def make(results: Sequence[Result]) -> PaperFigure:
    """Draw the figure from the results of `PIPELINE`, one per transport and seed.

    Raises InputError if other parameters differ, or there is only one transport.
    """
    comparison = fct_by_transport.compare(results)
    ideal_ps = comparison.ideal_ps["max"]
    papers = is_papers(results[0])
    optimum = stated(OPTIMUM, "optimum: last flow", ideal_ps / MS)
    values = [optimum] if papers else []
    marks: dict[str, tuple[float, str]] = {}
    for name, curve in comparison.curves.items():
        one = stated_of(curve.results[0])
        if one is not None:
            value = _value(one, name, comparison.ours["max"][name].mean, ideal_ps, papers)
            values.append(value)
            marks[name] = (value.paper * (MS if value.unit else ideal_ps), value.bound)
    figure = fct_by_transport.draw(
        comparison, marks, "stated in the paper" if papers else "paper: times its optimum"
    )
    about = scenario(results[0])
    figure.suptitle(f"Figure 5: {about}", fontsize="medium")
    notes = [
        f"{POST_HOC}: the paper does not state the message size; 97.39 MB fits its optimum"
        if papers
        else "the paper: 8,192 hosts, 97.39 MB (--full); times as multiples of its optimum",
        *comparison.table.notes,
    ]
    return PaperFigure(figure, values, _drawn(comparison), about, notes, comparison.table)


def _value(one: StatedRatio, name: str, last_ps: float, ideal_ps: float, papers: bool) -> Value:
    """Return a value in ms at the paper's size, else relative to the optimum and the ideal."""
    if papers and one.unit:
        what = f"{one.name}: last flow ({name})"
        return Value(what, one.time, last_ps / MS, one.unit, SECTION, one.bound, POST_HOC)
    multiple = one.time / stated(OPTIMUM, "").paper if one.unit else one.time
    what, standing = f"{one.name}: last flow / optimum ({name})", "" if papers else SMALLER
    return Value(what, multiple, last_ps / ideal_ps, "", SECTION, one.bound, standing)


def _drawn(comparison: fct_by_transport.Comparison) -> dict[str, list[object]]:
    rows: list[tuple[object, ...]] = [
        (name, result.experiment["seed"], *(result.summary["fct_ps"][key] for key in STATISTICS))
        for name, curve in comparison.curves.items()
        for result in curve.results
    ]
    lines = {seed_curves.IDEAL: comparison.ideal_ps, fct_by_transport.FAIR: comparison.fair_ps}
    rows += [(name, "", *(line[key] for key in STATISTICS)) for name, line in lines.items() if line]
    return columns(("transport", "seed", "last_flow_ps", "mean_ps"), rows)


def scenario(result: Result) -> str:
    """Describe the scenario of a result."""
    size = format_bytes(parse_bytes(seed_curves.resolved(result, "traffic.size")))
    rate = seed_curves.resolved(result, "topology.host_rate")
    small = "" if is_papers(result) else f", {SMALLER} than the paper's"
    return f"{len(result.flows):,} hosts at {rate}, {size} each{small}"


def is_papers(result: Result, size_bytes: int = MESSAGE_BYTES) -> bool:
    """Return whether all hosts of the paper's tree send `size_bytes` each at 800 Gbps."""
    kinds = [seed_curves.resolved(result, f"{section}.kind") for section in ("topology", "traffic")]
    if kinds not in (["fat_tree", "pipeline"], ["fat_tree", "permutation"]):
        return False
    hosts = [
        seed_curves.resolved(result, f"topology.{key}") for key in ("leaves", "hosts_per_leaf")
    ]
    rate = parse_rate_bps(seed_curves.resolved(result, "topology.host_rate"))
    sent = parse_bytes(seed_curves.resolved(result, "traffic.size"))
    return (len(result.flows), hosts, rate, sent) == (HOSTS, [128, 64], RATE_BPS, size_bytes)


def stated_of(result: Result) -> StatedRatio | None:
    """Return the paper's value for the transport of a result; None if there is none."""
    if seed_curves.transport(result) == "smartt":
        best_effort = StatedRatio("best effort, single path", stated(SINGLE_PATH, "").paper)
        return best_effort if sweeps.on_one_path(result) else None
    return {"roce": ROCE, "ndp": SPRAYED, "homa": SPRAYED}.get(seed_curves.transport(result))
