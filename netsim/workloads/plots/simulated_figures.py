"""Figures 2, 5 and 6 of the paper, and exposed communication, from simulations."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import polars as pl

from netsim.errors import InputError
from netsim.plots import by_axis, style, sweeps
from netsim.plots.by_axis import FAIR, STATISTICS
from netsim.plots.sweeps import resolved
from netsim.units import format_bytes, format_number, parse_bytes, parse_rate_bps
from netsim.workloads.job.job import Job
from netsim.workloads.job.messages import Message, messages
from netsim.workloads.job.paper import PaperNetwork, paper_job
from netsim.workloads.job.work import Kernel, kernels_ps, layer_kernels
from netsim.workloads.plots import paper_figures as paper

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from netsim.results import Result

MS, PS_PER_S = 1e9, 1e12

QUICK = ("topology.hosts_per_leaf=16", "topology.leaves=32", "topology.spines=16")
PIPELINE = paper.Sweep("pipeline", "p2p_8192", (*QUICK, "traffic.size=9.739MB"))
DENSE = paper.Sweep(
    "pipeline_dense", "p2p_8192", (*QUICK, "traffic.size=21.7088MB"), ("traffic.size=217.088MB",)
)
FULL = ("topology.hosts_per_leaf=64", "topology.leaves=128", "topology.spines=64", 'seed="1..10"')
PERMUTATION = paper.Sweep("permutation", "fct_vs_load", full=FULL)
RAIL = ("hosts_per_leaf", "leaves", "spines")
RACKS = ("traffic.racks=none", *(f"topology.rail.{key}=14" for key in RAIL))
STEP = paper.Sweep("training_layer", "training_layer", full=RACKS)
"""At full size, all 87 or 98 racks of a layer are in one datacenter; across two, at most 196."""

SWEEPS = {
    "fig2": (STEP,),
    "fig5": (PIPELINE,),
    "fig6": (PERMUTATION,),
    "exposed": (PIPELINE, DENSE),
}

COMPUTE, TP, PP = "compute", "TP", "PP"
GRADIENTS = tuple(f"S{n}" for n in range(1, 6))
ROWS = (COMPUTE, TP, PP, *GRADIENTS)
KINDS = {"forward": COMPUTE, "backward": COMPUTE, "tp": TP, "pp": PP}
KINDS |= {f"dp_{row.lower()}": row for row in GRADIENTS}
"""Row of each kind of operation in a simulated step."""

MODEL, SIMULATED = "model", "simulated"
CHUNKS = 16
"""Chunks of a layer's gradients; each passes the five stages when the backward pass has produced
it."""

SECOND_HALF = "feed-forward norm"
"""The first kernel of the second half of a layer; each half gathers and scatters."""

DELAYED = "S3"  # the stage between datacenters, whose delay overlaps later chunks


PASSES = {
    "forward": ("fwd_dense", "fwd_moe"),
    "backward": ("bwd_dense", "dp_masked_moe"),
    "TP, a pass": ("tp_time", "tp_time_moe"),
    "PP, a transfer": ("pp_time", "pp_time_moe"),
    **{row: (f"dp_{row.lower()}", f"dp_{row.lower()}_moe") for row in ("S1", "S2", "S4", "S5")},
}
"""Metrics of `netsim.workloads.job` with the stages' times, dense and MoE."""


class StageBar(NamedTuple):
    """A bar of a row, in ms."""

    row: str
    what: str
    start: float
    end: float


def fig2(results: Sequence[Result]) -> paper.PaperFigure:
    """Draw one GPU's forward and backward pass of one layer, with its communication, from the
    results of `STEP`, one per model, dense next to MoE.

    Top, from the job's model: kernels in sequence, tensor-parallel collectives between them, and
    the five stages of gradient reduction, pipelined in chunks below the backward pass, each alone
    on its network. Bottom: the same for the last GPU of a simulated step, with times divided by the
    scale of its messages. Both show the last pipeline stage: its input precedes the forward pass,
    the backward pass follows immediately, and then the output is sent. (Other stages have an input
    before and an output after each pass.)

    Raises InputError for other results, or without a step.
    """
    by_job = {str(resolved(result, "traffic.job")): result for result in results}
    if sorted(by_job) != sorted(paper.JOBS.values()):
        raise InputError(
            f"the results are of {', '.join(sorted(by_job)) or 'no job'}",
            key="traffic.job",
            hint=f"one each of {' and '.join(paper.JOBS.values())}",
        )
    figure, panels = style.new_figure(columns=2, rows=2)
    rows: list[tuple[object, ...]] = []
    for column, (model, job) in enumerate(paper.JOBS.items()):
        both = {MODEL: list(timeline(paper_job(job))), SIMULATED: simulated(by_job[job])}
        end = max(bar.end for bars in both.values() for bar in bars)
        for axes, (name, bars) in zip(panels[column::2], both.items(), strict=True):
            parts = CHUNKS if name == MODEL else _buckets(by_job[job])
            _draw_rows(axes, f"{model}, {name}, gradients in {parts} parts", bars)
            axes.set_xlim(0, 1.02 * end)
            rows += [(model, name, *bar) for bar in bars]
    about = "forward and backward pass of one layer at one GPU, from the model and simulated"
    figure.suptitle(f"Figure 2: {about}", fontsize="medium")
    header = ("model", "source", "row", "what", "start_ms", "end_ms")
    drawn = paper.columns(header, rows)
    notes = [
        f"S1 to S5: gradients in {CHUNKS} chunks, produced evenly over the backward pass; "
        "other layers' passes can hide the rest",
        f"{SIMULATED}: {_part(by_job)}",
        "PP: the input of the last pipeline stage and, after its backward pass, its output",
        f"{paper.POST_HOC}: the GPU's speed was solved from the dense forward pass; the MoE's is a "
        "check",
        "half of S2, which S4 is in the dense model, is 56.1 ms in the MoE: 66.1 may be a misprint",
    ]
    return paper.PaperFigure(figure, list(_passes()), drawn, about, notes)


def _part(by_job: Mapping[str, Result]) -> str:
    (result, *_) = by_job.values()
    scale = resolved(result, "traffic.message_scale")
    pieces = _buckets(result)
    gpus = [
        f"{result.operations.n_unique('rank'):,}"
        for result in by_job.values()
        if result.operations is not None
    ]
    return (
        f"two stages, {' and '.join(dict.fromkeys(gpus))} GPUs, bytes and times times {scale:g}; "
        f"gradients in {pieces} pieces, in sequence in each of S1 to S5"
    )


def _buckets(result: Result) -> int:
    return int(resolved(result, "traffic.buckets"))


def simulated(result: Result) -> list[StageBar]:
    """Return the bars of the last GPU of a simulated step, from the arrival of its input."""
    if result.operations is None:
        raise InputError("has no operations of a job", file=str(result.path))
    named = result.operations.with_columns(pl.col("kind", "operation_type").cast(pl.String))
    # Computes with a message's kind are link or software delays.
    computes = pl.col("kind").replace_strict(KINDS, default="") == COMPUTE
    shown = pl.col("kind").is_in(list(KINDS)) & ((pl.col("operation_type") == COMPUTE) == computes)
    last = named.filter((pl.col("rank") == pl.col("rank").max()) & shown)
    scale = float(resolved(result, "traffic.message_scale")) * MS
    spans = last.select("kind", "operation_type", "start_ps", "end_ps").sort("start_ps")
    arrival = spans.filter(pl.col("kind") == "pp")["start_ps"].min()
    return [
        StageBar(KINDS[kind], what, (begin - arrival) / scale, (end - arrival) / scale)
        for kind, what, begin, end in spans.iter_rows()
    ]


def timeline(job: Job) -> Iterator[StageBar]:
    """Yield the bars of the last stage, a layer, with one micro-batch, from its input's start."""
    of_layer = {
        (one.kind, one.what, one.when): one
        for one in messages(job)
        if one.per not in ("embedding", "head")
    }
    kernels = layer_kernels(job, job.model.experts > 0)
    middle = [kernel.name for kernel in kernels].index(SECOND_HALF)
    halves = (kernels[:middle], kernels[middle:])
    now, began = 0.0, 0.0
    yield StageBar(PP, "input", now, now := now + _ms(job, of_layer["pp", "send", "forward"]))
    for when, order in (("forward", 1), ("backward_input", -1)):
        began = now
        for half in halves[::order]:
            for bar in _half(job, half[::order], when, of_layer, now):
                yield bar
                now = bar.end
    stages = [one for one in of_layer.values() if one.kind.startswith("dp_")]
    yield from _gradients(job, stages, began, now)
    yield StageBar(PP, "output", now, now + _ms(job, of_layer["pp", "send", "backward_input"]))


def _half(
    job: Job,
    kernels: Sequence[Kernel],
    when: str,
    of_layer: dict[tuple[str, str, str], Message],
    now: float,
) -> Iterator[StageBar]:
    """Yield the bars of half a layer: gather its input, compute, scatter its output."""
    gather, scatter = (of_layer["tp", what, when] for what in ("all_gather", "reduce_scatter"))
    yield StageBar(TP, gather.what, now, now := now + _ms(job, gather))
    whichs = ("forward",) if when == "forward" else ("backward_input", "backward_weight")
    for kernel in kernels:
        for which in whichs:
            length = kernels_ps(job, [kernel], which) / MS
            if length > 0:
                yield StageBar(COMPUTE, f"{kernel.name}, {which}", now, now := now + length)
    yield StageBar(TP, scatter.what, now, now + _ms(job, scatter))


def _gradients(job: Job, stages: Sequence[Message], start: float, end: float) -> Iterator[StageBar]:
    """Yield the stages of a layer's gradients, produced from `start` to `end`."""
    free = dict.fromkeys(GRADIENTS, 0.0)
    delay = job.machine.wan_delay / MS
    for chunk in range(1, CHUNKS + 1):
        ready = start + (end - start) * chunk / CHUNKS
        for row, stage in zip(GRADIENTS, sorted(stages, key=lambda one: one.kind), strict=True):
            late = delay if row == DELAYED else 0.0
            sending = (_ms(job, stage) - late) / CHUNKS
            begins = max(ready, free[row])
            free[row] = begins + sending
            yield StageBar(row, f"chunk {chunk}", begins, free[row])
            ready = free[row] + late


def _ms(job: Job, message: Message) -> float:
    return message.time_ps(job) / MS


def _passes() -> Iterator[paper.Value]:
    for place, model in enumerate(paper.JOBS):
        for what, names in PASSES.items():
            yield paper.stated(names[place], f"{model}: {what}")


def _draw_rows(axes: Axes, what: str, bars: Sequence[StageBar]) -> None:
    for place, row in enumerate(ROWS):
        color = style.color(place)
        axes.broken_barh(
            [(bar.start, bar.end - bar.start) for bar in bars if bar.row == row],
            (place - 0.36, 0.72), facecolor=color, linewidth=0.4,
            edgecolor="white" if row == COMPUTE else color,
        )  # fmt: skip
    end = max(bar.end for bar in bars if bar.row in (COMPUTE, TP))
    axes.axvline(end, color=style.CAPTION, linestyle=":", linewidth=1)
    axes.text(end, -0.55, "end of the backward pass ", ha="right", va="bottom", fontsize="small")
    axes.set_yticks(range(len(ROWS)), ROWS)
    axes.set_ylim(len(ROWS) - 0.5, -0.95)
    axes.set_xlabel(f"{what}: time (ms)")


HOSTS, RATE_BPS = 8192, 800_000_000_000
MESSAGE_BYTES = {"MoE": 97_390_000, "dense": 217_088_000}
"""The paper's scenario, and the message of a rank, s b h r / t bytes (section 4.1). The paper
states no message size: 97.39 MB, a layer's activations in its MoE model, takes about the 1 ms that
it calls optimal; the dense model's 217 MB would not."""

SECTION = "6.3"
OPTIMUM, SINGLE_PATH = "p2p_optimal_fct", "p2p_singlepath_fct"
"""Metrics of `netsim.workloads.job`, in ms. The single path is SMaRTT's, "best effort" in the
paper."""


class StatedRatio(NamedTuple):
    """The paper's value for a transport's last flow: in ms, or relative to the optimum."""

    name: str
    time: float
    unit: str = "ms"
    bound: str = ""


ROCE = StatedRatio("RoCEv2", 9.0)
SPRAYED = StatedRatio("sprayed", 1.05, "", paper.AT_MOST)  # NDP and Homa: "within 5 % of optimal"


def fig5(results: Sequence[Result]) -> paper.PaperFigure:
    """Draw completion times of simultaneous pipeline transfers from the results of `PIPELINE`, one
    per transport and seed.

    Every host of a two-tier, full-bisection tree sends the activations of one layer to the next
    stage. The quick form has 512 hosts and a tenth of the message, so values are relative: the
    paper's to its optimum, ours to the ideal.

    Raises InputError if other parameters differ, or there is only one transport.
    """
    comparison = by_axis.transports(results)
    ideal_ps = comparison.ideal_ps["max"]
    papers = is_papers(results[0])
    optimum = paper.stated(OPTIMUM, "optimum: last flow", ideal_ps / MS)
    values = [optimum] if papers else []
    marks: dict[str, tuple[float, str]] = {}
    for name, curve in comparison.curves.items():
        one = stated_of(curve.results[0])
        if one is not None:
            value = _ratio(one, name, comparison.ours["max"][name].mean, ideal_ps, papers)
            values.append(value)
            marks[name] = (value.paper * (MS if value.unit else ideal_ps), value.bound)
    figure = by_axis.draw_transports(
        comparison, marks, paper.IN_PAPER if papers else "paper: times its optimum"
    )
    about = scenario(results[0], len(results[0].flows), "{} each", not papers)
    figure.suptitle(f"Figure 5: {about}", fontsize="medium")
    notes = [
        f"{paper.POST_HOC}: the paper does not state the message size; 97.39 MB fits its optimum"
        if papers
        else "the paper: 8,192 hosts, 97.39 MB (--full); times as multiples of its optimum",
        *comparison.table.notes,
    ]
    return paper.PaperFigure(
        figure, values, _transports_drawn(comparison), about, notes, comparison.table
    )


def _ratio(
    one: StatedRatio, name: str, last_ps: float, ideal_ps: float, papers: bool
) -> paper.Value:
    """Return a value in ms at the paper's size, else relative to the optimum and the ideal."""
    if papers and one.unit:
        what = f"{one.name}: last flow ({name})"
        return paper.Value(
            what, one.time, last_ps / MS, one.unit, SECTION, one.bound, paper.POST_HOC
        )
    multiple = one.time / paper.stated(OPTIMUM, "").paper if one.unit else one.time
    what, standing = f"{one.name}: last flow / optimum ({name})", "" if papers else paper.SMALLER
    return paper.Value(what, multiple, last_ps / ideal_ps, "", SECTION, one.bound, standing)


def _transports_drawn(comparison: by_axis.Transports) -> dict[str, list[object]]:
    rows: list[tuple[object, ...]] = [
        (name, result.experiment["seed"], *(result.summary["fct_ps"][key] for key in STATISTICS))
        for name, curve in comparison.curves.items()
        for result in curve.results
    ]
    lines = {sweeps.IDEAL: comparison.ideal_ps, FAIR: comparison.fair_ps}
    rows += [(name, "", *(line[key] for key in STATISTICS)) for name, line in lines.items() if line]
    return paper.columns(("transport", "seed", "last_flow_ps", "mean_ps"), rows)


def scenario(result: Result, hosts: int, flows: str, small: bool) -> str:
    """Describe hosts, their rate, and their flows of a given size, such as "{} each"."""
    size = format_bytes(parse_bytes(resolved(result, "traffic.size")))
    text = f"{hosts:,} hosts at {resolved(result, 'topology.host_rate')}, {flows.format(size)}"
    return text + f", {paper.SMALLER} than the paper's" * small


def is_papers(result: Result) -> bool:
    """Return whether all hosts of the paper's tree send the MoE model's message at 800 Gbps."""
    kinds = [resolved(result, f"{section}.kind") for section in ("topology", "traffic")]
    if kinds not in (["fat_tree", "pipeline"], ["fat_tree", "permutation"]):
        return False
    hosts = [resolved(result, f"topology.{key}") for key in ("leaves", "hosts_per_leaf")]
    rate = parse_rate_bps(resolved(result, "topology.host_rate"))
    sent = parse_bytes(resolved(result, "traffic.size"))
    return (len(result.flows), hosts, rate, sent) == (
        HOSTS,
        [128, 64],
        RATE_BPS,
        MESSAGE_BYTES["MoE"],
    )


def stated_of(result: Result) -> StatedRatio | None:
    """Return the paper's value for the transport of a result; None if there is none."""
    if sweeps.transport(result) == "smartt":
        best_effort = StatedRatio("best effort, single path", paper.stated(SINGLE_PATH, "").paper)
        return best_effort if sweeps.on_one_path(result) else None
    return {"roce": ROCE, "ndp": SPRAYED, "homa": SPRAYED}.get(sweeps.transport(result))


def fig6(results: Sequence[Result]) -> paper.PaperFigure:
    """Draw the last flow of a permutation against load from the results of `PERMUTATION`, one per
    transport, load and seed.

    Load is the share of sending hosts, 2 MB each at 100 Gbps. The quick form has 128 hosts.

    Raises InputError for a single load, or a single transport besides the ideal.
    """
    comparison, figure = by_axis.loads(results), by_axis.fct_vs_load(results).figure
    hosts = hosts_of(results[0])
    about = scenario(results[0], hosts, "flows of {}", hosts < HOSTS)
    figure.suptitle(f"Figure 6: {about}", fontsize="medium")
    standing = paper.SMALLER if hosts < HOSTS else ""
    values = []
    for name, points in comparison.ours["max"].items():
        if sweeps.on_one_path(comparison.curves[name].results[0]):
            load, last = next(iter(points.items()))
            what = f"collisions at load {load:g}: last flow / optimum ({name})"
            values.append(paper.Value(what, 1.0, last.mean, "", SECTION, paper.MORE_THAN, standing))
    notes = ["the paper gives no numbers; it says that collisions hurt even at low load"]
    notes += ["--full: 8,192 hosts, ten seeds"] if standing else []
    return paper.PaperFigure(
        figure, values, _loads_drawn(comparison), about, [*notes, *comparison.table.notes]
    )


def _loads_drawn(comparison: by_axis.Loads) -> dict[str, list[object]]:
    rows: list[tuple[object, ...]] = []
    for key in STATISTICS:
        for name, points in comparison.ours[key].items():
            rows += [
                (name, key, load, len(point.values), point.mean, point.low, point.high)
                for load, point in points.items()
            ]
        rows += [(FAIR, key, load, "", at, at, at) for load, at in comparison.fair[key].items()]
    header = ("transport", "statistic", "load", "seeds", "mean", "lowest_seed", "highest_seed")
    return paper.columns(header, rows)


def hosts_of(result: Result) -> int:
    """Return the number of hosts, including those that do not send."""
    leaves, each = (resolved(result, f"topology.{key}") for key in ("leaves", "hosts_per_leaf"))
    return int(leaves * each)


TP_RANKS = 18
LAST, SLOWEST, MEAN = "last flow", f"slowest of {TP_RANKS}", "mean"
WAITS = {
    LAST: "the wait of a step whose slowest transfer is the same in every micro-batch",
    SLOWEST: "the mean over tensor-parallel groups of their slowest rank",
    MEAN: "over flows, a lower bound of the wait of any step",
}
MARKS = {SLOWEST: "s", MEAN: "^"}

ONE_PATH = "single path"


EXPOSED = {
    "dense": ("exposed_dense", "exp_singlepath_dense"),
    "MoE": ("exposed_moe", "exp_singlepath_moe"),
}
"""Metrics of `netsim.workloads.job`: the exposed part without delay, and with a single path."""


class ExposedCase(NamedTuple):
    """A transport and model: extra times in ps by statistic."""

    model: str
    curve: sweeps.Curve
    extra_ps: Mapping[str, float]

    def exposed(self, statistic: str) -> float:
        """Exposed communication, in percent of a step with these transfers."""
        return _exposed(self.model, self.extra_ps[statistic])


def exposed(results: Sequence[Result]) -> paper.PaperFigure:
    """Draw exposed communication of a training step with simulated pipeline transfers, by
    transport, from results with messages of both models, in any order.

    Figure 5's step gives the extra time of a transfer over the ideal; the model of the job
    (`netsim.workloads.job`) gives the share of a step that is then exposed communication. All
    stages send at once and each waits for its input, so the pipeline moves at the pace of its
    slowest transfer, which is the same in every micro-batch if paths are hashes of addresses: the
    last flow counts. Also shown are the mean over tensor-parallel groups of their slowest rank, and
    the mean over flows: the wait of a step if delays hit other stages and replicas each time.
    """
    for result in results:
        if not result.complete:
            raise InputError("is not complete", file=str(result.path))
    scale, by_model = _by_model(results)
    cases = [case for model, these in by_model.items() for case in _cases(model, these, scale)]
    about = _exposed_scenario(results[0], scale)
    notes = [
        "extra time of a transfer: completion time minus the ideal"
        + ("" if scale == 1 else f", times {1 / scale}: messages are smaller by this factor"),
        *(f"{name}: {told}" for name, told in WAITS.items()),
        "MoE size: with the delay of the MoE's message; the paper seems to add one delay to both",
        f"{paper.POST_HOC}: the formula of the exposed part was chosen to fit the paper's values",
    ]
    full = scale == 1 and len(results[0].flows) == HOSTS
    standing = paper.POST_HOC if full else f"{paper.POST_HOC}, {paper.SMALLER}"
    values = list(_exposed_values(cases, standing))
    return paper.PaperFigure(
        _draw_cases(cases, about), values, _cases_drawn(cases), about, notes, _exposed_table(cases)
    )


def _by_model(results: Sequence[Result]) -> tuple[Fraction, dict[str, list[Result]]]:
    """Return the scale of the messages, and the results of each model."""
    found: dict[int, list[Result]] = {}
    for result in results:
        found.setdefault(parse_bytes(resolved(result, "traffic.size")), []).append(result)
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
        extra = {key: float(np.mean([one[key] for one in each])) / float(scale) for key in WAITS}
        yield ExposedCase(model, curve, extra)


def extra_times(result: Result) -> dict[str, float]:
    """Return the extra time of transfers over the ideal, in ps, by statistic. Flows are in the
    order of ranks, as in `netsim.workloads.traffic.pipeline`."""
    flows = result.flows.sort("flow")
    extra = (flows["fct_ps"] - flows["ideal_ps"]).to_numpy()
    slowest = np.maximum.reduceat(extra, np.arange(0, len(extra), TP_RANKS))
    found = (extra.max(), slowest.mean(), extra.mean())
    return dict(zip(WAITS, map(float, found), strict=True))


def _exposed(model: str, extra_ps: float = 0.0) -> float:
    return paper.exposed_percent(
        paper.JOBS[model], PaperNetwork(transfer_delay_s=extra_ps / PS_PER_S)
    )


def _exposed_values(cases: Sequence[ExposedCase], standing: str) -> Iterator[paper.Value]:
    one_path = [case for case in cases if sweeps.on_one_path(case.curve.results[0])]
    for model, (none, single_path) in EXPOSED.items():
        yield paper.stated(none, f"{model}: no delay")
        for case in one_path:
            name, carried = case.curve.label, "" if case.model == model else f", {case.model} size"
            if not carried or model == "dense":
                ours = _exposed(model, case.extra_ps[LAST])
                what = f"{model}: {ONE_PATH}{carried} ({name})"
                yield paper.stated(single_path, what, ours, standing=standing)


def _exposed_table(cases: Sequence[ExposedCase]) -> sweeps.Table:
    headers = ["model", "transport"]
    headers += [f"extra ms\n{key}" for key in WAITS] + [f"exposed %\n{key}" for key in WAITS]
    rows = [
        (
            case.model,
            case.curve.label,
            *(format_number(case.extra_ps[key] / MS) for key in WAITS),
            *(format_number(case.exposed(key)) for key in WAITS),
        )
        for case in cases
    ]
    return sweeps.Table(tuple(headers), rows)


def _cases_drawn(cases: Sequence[ExposedCase]) -> dict[str, list[object]]:
    rows = [
        (case.model, case.curve.label, key, case.extra_ps[key], case.exposed(key))
        for case in cases
        for key in WAITS
    ]
    return paper.columns(("model", "transport", "statistic", "extra_ps", "exposed_percent"), rows)


def _draw_cases(cases: Sequence[ExposedCase], about: str) -> Figure:
    """One bar per transport, one panel per model."""
    figure, panels = style.new_figure(columns=2)
    names = list(dict.fromkeys(case.curve.label for case in cases))
    figure.set_figheight(max(2.6, 1.4 + 0.42 * len(names)))
    for axes, (model, names_of_stated) in zip(panels, EXPOSED.items(), strict=True):
        none, single_path = (paper.stated(name, "").paper for name in names_of_stated)
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


def _exposed_scenario(result: Result, scale: Fraction) -> str:
    hosts = len(result.flows)
    whole = f", messages of 1/{1 / scale} of their size" if scale != 1 else ""
    small = f", {paper.SMALLER} than the paper's" if hosts < HOSTS or scale != 1 else ""
    return f"{hosts:,} hosts{whole}{small}"
