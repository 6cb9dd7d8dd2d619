"""Exposed communication of a training step whose pipeline transfers are simulated, by transport.

Figure 5's step gives how much later than the ideal a transfer ends; the model of the job
(`netsim.workloads.job`) says what share of a step is then communication that nothing hides. All
stages send at once and each waits for its input, so that the pipeline moves at the pace of its
slowest transfer, which is the same in every micro-batch where paths are hashes of addresses: the
last flow counts. Beside it stand the mean over tensor-parallel groups of their slowest rank, and
over flows: what a step would wait for if delays met other stages and replicas each time.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from netsim.errors import InputError
from netsim.plots import seed_curves, style, sweeps
from netsim.units import format_bytes, format_number, parse_bytes
from netsim.workloads.job.paper import PaperNetwork
from netsim.workloads.plots.fig5 import HOSTS, PIPELINE, QUICK
from netsim.workloads.plots.paper_figure import POST_HOC, SMALLER, PaperFigure, Sweep, Value, stated
from netsim.workloads.plots.sensitivity import JOBS, exposed_percent

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from netsim.results import Result

MESSAGE_BYTES = {"MoE": 97_390_000, "dense": 217_088_000}
"""What a rank hands on, s b h r / t bytes (section 4.1; the MoE's as `PIPELINE` has it)."""

DENSE = Sweep(
    "pipeline_dense", "p2p_8192", (*QUICK, "traffic.size=21.7088MB"), ("traffic.size=217.088MB",)
)
SWEEPS = (PIPELINE, DENSE)

TP_RANKS = 18
MS, PS_PER_S = 1e9, 1e12
LAST, SLOWEST, MEAN = "last flow", f"slowest of {TP_RANKS}", "mean"
STATISTICS = {
    LAST: "what a step waits for whose slowest transfer is the same in every micro-batch",
    SLOWEST: "the mean over tensor-parallel groups of their slowest rank",
    MEAN: "over flows, what no step gets by with",
}
MARKS = {SLOWEST: "s", MEAN: "^"}

ONE_PATH = "single path"


STATED = {
    "dense": ("exposed_dense", "exp_singlepath_dense"),
    "MoE": ("exposed_moe", "exp_singlepath_moe"),
}
"""Figures of `netsim.workloads.job`: the exposed part without delay, and with a single path."""


class ExposedCase(NamedTuple):
    """A transport carrying the transfers of a model: extra times in ps by statistic."""

    model: str
    curve: seed_curves.Curve
    extra_ps: Mapping[str, float]

    def exposed(self, statistic: str) -> float:
        """Exposed communication, in percent of a step whose transfers take so much longer."""
        return _exposed(self.model, self.extra_ps[statistic])


def make(results: Sequence[Result]) -> PaperFigure:
    """The figure from the results of `SWEEPS`: messages of both models, in any order.

    Raises InputError if they are not of two sizes that are as the models' messages.
    """
    for result in results:
        if not result.complete:
            raise InputError("is not complete", file=str(result.path))
    scale, by_model = _by_model(results)
    cases = [case for model, these in by_model.items() for case in _cases(model, these, scale)]
    about = _scenario(results[0], scale)
    notes = [
        "extra time of a transfer: its completion time less the ideal"
        + ("" if scale == 1 else f", times {1 / scale}: messages are that much smaller"),
        *(f"{name}: {told}" for name, told in STATISTICS.items()),
        "MoE size: with the delay of the MoE's message; the paper seems to add one delay to both",
        f"{POST_HOC}: the formula of the exposed part was chosen to fit what the paper states",
    ]
    full = scale == 1 and len(results[0].flows) == HOSTS
    standing = POST_HOC if full else f"{POST_HOC}, {SMALLER}"
    values = list(_values(cases, standing))
    return PaperFigure(_draw(cases, about), values, _drawn(cases), about, notes, _table(cases))


def _by_model(results: Sequence[Result]) -> tuple[Fraction, dict[str, list[Result]]]:
    """By how much the messages are smaller than the models', and the results of each."""
    found: dict[int, list[Result]] = {}
    for result in results:
        found.setdefault(parse_bytes(seed_curves.resolved(result, "traffic.size")), []).append(
            result
        )
    scales = {
        Fraction(size, known)
        for size, known in zip(sorted(found), MESSAGE_BYTES.values(), strict=False)
    }
    if len(found) != len(MESSAGE_BYTES) or len(scales) != 1:
        sizes = ", ".join(format_bytes(size) for size in sorted(found))
        raise InputError(
            f"the messages are of {sizes}",
            key="traffic.size",
            hint="two sizes, 97.39MB and 217.088MB or both the same part of that",
        )
    return scales.pop(), dict(
        zip(MESSAGE_BYTES, (found[size] for size in sorted(found)), strict=True)
    )


def _cases(model: str, results: Sequence[Result], scale: Fraction) -> Iterator[ExposedCase]:
    if keys := sweeps.differing(results):
        raise InputError(f"the points of the {model} model differ in {', '.join(keys)}")
    for curve in sweeps.by_transport(results, apart=["traffic.size"]).values():
        each = [extra_times(result) for result in curve.results]
        extra = {
            key: float(np.mean([one[key] for one in each])) / float(scale) for key in STATISTICS
        }
        yield ExposedCase(model, curve, extra)


def extra_times(result: Result) -> dict[str, float]:
    """How much later than the ideal transfers end, in ps, by statistic.

    Flows stand in the order of their ranks, as `netsim.workloads.traffic.pipeline` makes them.
    """
    flows = result.flows.sort("flow")
    extra = (flows["fct_ps"] - flows["ideal_ps"]).to_numpy()
    slowest = np.maximum.reduceat(extra, np.arange(0, len(extra), TP_RANKS))
    found = (extra.max(), slowest.mean(), extra.mean())
    return dict(zip(STATISTICS, map(float, found), strict=True))


def _exposed(model: str, extra_ps: float = 0.0) -> float:
    return exposed_percent(JOBS[model], PaperNetwork(transfer_delay_s=extra_ps / PS_PER_S))


def _values(cases: Sequence[ExposedCase], standing: str) -> Iterator[Value]:
    one_path = [case for case in cases if sweeps.on_one_path(case.curve.results[0])]
    for model, (none, single_path) in STATED.items():
        yield stated(none, f"{model}: no delay")
        for case in one_path:
            name, carried = case.curve.label, "" if case.model == model else f", {case.model} size"
            if not carried or model == "dense":
                ours = _exposed(model, case.extra_ps[LAST])
                what = f"{model}: {ONE_PATH}{carried} ({name})"
                yield stated(single_path, what, ours, standing=standing)


def _table(cases: Sequence[ExposedCase]) -> sweeps.Table:
    """What each transport makes of a step, by what that waits for."""
    headers = ["model", "transport"]
    headers += [f"extra ms\n{key}" for key in STATISTICS] + [
        f"exposed %\n{key}" for key in STATISTICS
    ]
    rows = [
        (
            case.model,
            case.curve.label,
            *(format_number(case.extra_ps[key] / MS) for key in STATISTICS),
            *(format_number(case.exposed(key)) for key in STATISTICS),
        )
        for case in cases
    ]
    return sweeps.Table(tuple(headers), rows)


def _drawn(cases: Sequence[ExposedCase]) -> dict[str, list[object]]:
    each = [(case, key) for case in cases for key in STATISTICS]
    return {
        "model": [case.model for case, _ in each],
        "transport": [case.curve.label for case, _ in each],
        "statistic": [key for _, key in each],
        "extra_ps": [case.extra_ps[key] for case, key in each],
        "exposed_percent": [case.exposed(key) for case, key in each],
    }


def _draw(cases: Sequence[ExposedCase], about: str) -> Figure:
    """A bar for each transport, one panel for each model."""
    figure, panels = style.new_figure(columns=2)
    names = list(dict.fromkeys(case.curve.label for case in cases))
    figure.set_figheight(max(2.6, 1.4 + 0.42 * len(names)))
    for axes, (model, names_of_stated) in zip(panels, STATED.items(), strict=True):
        none, single_path = (stated(name, "").paper for name in names_of_stated)
        _draw_model(axes, [case for case in cases if case.model == model], names)
        lines = (
            (_exposed(model), style.IDEAL, "--", "no delay"),
            (none, "black", ":", "paper: no delay"),
            (single_path, "black", "-.", f"paper: {ONE_PATH}"),
        )
        for percent, color, line, label in lines:
            axes.axvline(percent, color=color, linestyle=line, linewidth=1.2, label=label)
        axes.set_yticks(range(len(names)), names if axes is panels[0] else [""] * len(names))
        axes.set_ylim(len(names) - 0.5, -0.5)
        axes.set_xlim(left=0)
        axes.set_xlabel(f"exposed communication, {model} (% of the step)")
    figure.suptitle(f"Exposed communication: {about}", fontsize="medium")
    style.legend(figure, panels[0], style.OUTSIDE, f"bars: {LAST}")
    return figure


def _draw_model(axes: Axes, cases: Sequence[ExposedCase], names: Sequence[str]) -> None:
    places = [names.index(case.curve.label) for case in cases]
    for place, case in zip(places, cases, strict=True):
        axes.barh(
            place, case.exposed(LAST), height=0.6, color=case.curve.curve_style.color, alpha=0.75
        )
    for statistic, mark in MARKS.items():
        axes.plot(
            [case.exposed(statistic) for case in cases], places, marker=mark, linestyle="none",
            markersize=5, markerfacecolor="white", color="black", label=statistic,
        )  # fmt: skip


def _scenario(result: Result, scale: Fraction) -> str:
    hosts = len(result.flows)
    whole = f", messages of 1/{1 / scale} of their size" if scale != 1 else ""
    small = f", {SMALLER} than the paper's" if hosts < HOSTS or scale != 1 else ""
    return f"{hosts:,} hosts{whole}{small}"
