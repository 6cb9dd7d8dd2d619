"""Exposed communication of a training step with simulated pipeline transfers, by transport.

Figure 5's step gives the extra time of a transfer over the ideal; the model of the job
(`netsim.workloads.job`) gives the share of a step that is then exposed communication. All stages
send at once and each waits for its input, so the pipeline moves at the pace of its slowest
transfer, which is the same in every micro-batch if paths are hashes of addresses: the last flow
counts. Also shown are the mean over tensor-parallel groups of their slowest rank, and the mean over
flows: the wait of a step if delays hit other stages and replicas each time.
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
"""Message of a rank, s b h r / t bytes (section 4.1; the MoE's as in `PIPELINE`)."""

DENSE = Sweep(
    "pipeline_dense", "p2p_8192", (*QUICK, "traffic.size=21.7088MB"), ("traffic.size=217.088MB",)
)
SWEEPS = (PIPELINE, DENSE)

TP_RANKS = 18
MS, PS_PER_S = 1e9, 1e12
LAST, SLOWEST, MEAN = "last flow", f"slowest of {TP_RANKS}", "mean"
STATISTICS = {
    LAST: "the wait of a step whose slowest transfer is the same in every micro-batch",
    SLOWEST: "the mean over tensor-parallel groups of their slowest rank",
    MEAN: "over flows, a lower bound of the wait of any step",
}
MARKS = {SLOWEST: "s", MEAN: "^"}

ONE_PATH = "single path"


STATED = {
    "dense": ("exposed_dense", "exp_singlepath_dense"),
    "MoE": ("exposed_moe", "exp_singlepath_moe"),
}
"""Metrics of `netsim.workloads.job`: the exposed part without delay, and with a single path."""


class ExposedCase(NamedTuple):
    """A transport and model: extra times in ps by statistic."""

    model: str
    curve: seed_curves.Curve
    extra_ps: Mapping[str, float]

    def exposed(self, statistic: str) -> float:
        """Exposed communication, in percent of a step with these transfers."""
        return _exposed(self.model, self.extra_ps[statistic])


def make(results: Sequence[Result]) -> PaperFigure:
    """Draw the figure from the results of `SWEEPS`, with messages of both models, in any order."""
    for result in results:
        if not result.complete:
            raise InputError("is not complete", file=str(result.path))
    scale, by_model = _by_model(results)
    cases = [case for model, these in by_model.items() for case in _cases(model, these, scale)]
    about = _scenario(results[0], scale)
    notes = [
        "extra time of a transfer: completion time minus the ideal"
        + ("" if scale == 1 else f", times {1 / scale}: messages are smaller by this factor"),
        *(f"{name}: {told}" for name, told in STATISTICS.items()),
        "MoE size: with the delay of the MoE's message; the paper seems to add one delay to both",
        f"{POST_HOC}: the formula of the exposed part was chosen to fit the paper's values",
    ]
    full = scale == 1 and len(results[0].flows) == HOSTS
    standing = POST_HOC if full else f"{POST_HOC}, {SMALLER}"
    values = list(_values(cases, standing))
    return PaperFigure(_draw(cases, about), values, _drawn(cases), about, notes, _table(cases))


def _by_model(results: Sequence[Result]) -> tuple[Fraction, dict[str, list[Result]]]:
    """Return the scale of the messages, and the results of each model."""
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
            hint="two sizes, 97.39MB and 217.088MB, or both scaled equally",
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
    """Return the extra time of transfers over the ideal, in ps, by statistic.

    Flows are in the order of ranks, as in `netsim.workloads.traffic.pipeline`.
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
    """Exposed communication of each transport, by statistic."""
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
    """One bar per transport, one panel per model."""
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
        sweeps.names_below(axes, names)
        axes.set_xlim(left=0)
        axes.set_xlabel(f"exposed communication, {model} (% of the step)")
    title, caption = f"Exposed communication: {about}", f"bars: {LAST}"
    return style.finish(figure, panels[0], title, style.OUTSIDE, caption)


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
