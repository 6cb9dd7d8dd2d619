"""Figure 2: one GPU's forward and backward pass of one layer, with its communication.

Top, from the job's model: kernels in sequence, tensor-parallel collectives between them, and the
five stages of gradient reduction, pipelined in chunks below the backward pass, each alone on its
network. Bottom: the same for the last GPU of a simulated step, with times divided by the scale of
its messages. Both show the last pipeline stage: its input precedes the forward pass, the backward
pass follows at once, and its output is sent after it. (Other stages have an input before and an
output after each pass.)
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from netsim.errors import InputError
from netsim.plots import seed_curves, style
from netsim.workloads.job import Job, Message, messages
from netsim.workloads.job.paper import paper_job
from netsim.workloads.job.times import kernels_ps
from netsim.workloads.job.work import Kernel, layer_kernels
from netsim.workloads.plots.paper_figure import POST_HOC, PaperFigure, Sweep, Value, columns, stated
from netsim.workloads.plots.sensitivity import JOBS

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from netsim.results import Result

RAIL = ("hosts_per_leaf", "leaves", "spines")
RACKS = ("traffic.racks=none", *(f"topology.rail.{key}=14" for key in RAIL))
STEP = Sweep("training_layer", "training_layer", full=RACKS)
"""Full size has all 87 or 98 racks of a layer in one datacenter; across two, at most 196."""
SWEEPS = (STEP,)
MS = 1e9

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

DELAYED = "S3"
"""The stage between datacenters; its delay overlaps with following chunks."""


STATED = {
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


def make(results: Sequence[Result]) -> PaperFigure:
    """Draw the figure from the results of `STEP`, one per model, dense next to MoE.

    Raises InputError for other results, or without a step.
    """
    by_job = {str(seed_curves.resolved(result, "traffic.job")): result for result in results}
    if sorted(by_job) != sorted(JOBS.values()):
        raise InputError(
            f"the results are of {', '.join(sorted(by_job)) or 'no job'}",
            key="traffic.job",
            hint=f"one each of {' and '.join(JOBS.values())}",
        )
    figure, panels = style.new_figure(columns=2, rows=2)
    rows: list[tuple[object, ...]] = []
    for column, (model, job) in enumerate(JOBS.items()):
        both = {MODEL: list(timeline(paper_job(job))), SIMULATED: simulated(by_job[job])}
        end = max(bar.end for bars in both.values() for bar in bars)
        for axes, (name, bars) in zip(panels[column::2], both.items(), strict=True):
            parts = CHUNKS if name == MODEL else _buckets(by_job[job])
            _draw(axes, f"{model}, {name}, gradients in {parts} parts", bars)
            axes.set_xlim(0, 1.02 * end)
            rows += [(model, name, *bar) for bar in bars]
    about = "forward and backward pass of one layer at one GPU, from the model and simulated"
    figure.suptitle(f"Figure 2: {about}", fontsize="medium")
    header = ("model", "source", "row", "what", "start_ms", "end_ms")
    drawn = columns(header, rows)
    notes = [
        f"S1 to S5: gradients in {CHUNKS} chunks, produced evenly over the backward pass; "
        "other layers' passes can hide the rest",
        f"{SIMULATED}: {_part(by_job)}",
        "PP: the input of the last pipeline stage and, after its backward pass, its output",
        f"{POST_HOC}: the GPU's speed was solved from the dense forward pass; the MoE's is a check",
        "half of S2, which S4 is in the dense model, is 56.1 ms in the MoE: 66.1 may be a misprint",
    ]
    return PaperFigure(figure, list(_values()), drawn, about, notes)


def _part(by_job: Mapping[str, Result]) -> str:
    """Describe the simulated samples of the jobs in one line."""
    (result, *_) = by_job.values()
    scale = seed_curves.resolved(result, "traffic.message_scale")
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
    """Return the parts in which a simulated layer's gradients are sent."""
    return int(seed_curves.resolved(result, "traffic.buckets"))


def simulated(result: Result) -> list[StageBar]:
    """Return the bars of the last GPU of a simulated step, from the arrival of its input."""
    import polars as pl

    if result.operations is None:
        raise InputError("has no operations of a job", file=str(result.path))
    named = result.operations.with_columns(pl.col("kind", "operation_type").cast(pl.String))
    # Computes with a message's kind are link or software delays.
    computes = pl.col("kind").replace_strict(KINDS, default="") == COMPUTE
    shown = pl.col("kind").is_in(list(KINDS)) & ((pl.col("operation_type") == COMPUTE) == computes)
    last = named.filter((pl.col("rank") == pl.col("rank").max()) & shown)
    scale = float(seed_curves.resolved(result, "traffic.message_scale")) * MS
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


def _values() -> Iterator[Value]:
    for place, model in enumerate(JOBS):
        for what, names in STATED.items():
            yield stated(names[place], f"{model}: {what}")


def _draw(axes: Axes, what: str, bars: Sequence[StageBar]) -> None:
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
