"""Figure 2: one GPU's forward and backward pass of one layer, with the communication beside it.

From the times of the model of the job: kernels one after the other, tensor-parallel collectives
between them, a transfer from the neighbouring stage before each pass, and the five stages of the
gradients' way, pipelined in chunks beneath the backward pass. Each is alone on its network.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from netsim.job import Job, Message, messages
from netsim.job.paper import paper_job
from netsim.job.times import kernels_ps
from netsim.job.work import Kernel, layer_kernels
from netsim.plots import style
from netsim.plots.reproduced import POST_HOC, Reproduced, Sweep, Value, stated
from netsim.plots.sensitivity import JOBS

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from netsim.results import Result

SWEEPS: tuple[Sweep, ...] = ()
MS = 1e9

COMPUTE, TP, PP = "compute", "TP", "PP"
GRADIENTS = tuple(f"S{n}" for n in range(1, 6))
ROWS = (COMPUTE, TP, PP, *GRADIENTS)
CHUNKS = 16
"""Of a layer's gradients: each goes through the five stages as the backward pass has made it."""

SECOND_HALF = "feed-forward norm"
"""The kernel with which the second half of a layer begins; each half gathers and scatters."""

DELAYED = "S3"
"""The stage between data centres: its delay passes while chunks follow one another."""


STATED = {
    "forward": ("fwd_dense", "fwd_moe"),
    "backward": ("bwd_dense", "dp_masked_moe"),
    "TP, a pass": ("tp_time", "tp_time_moe"),
    "PP, a transfer": ("pp_time", "pp_time_moe"),
    **{row: (f"dp_{row.lower()}", f"dp_{row.lower()}_moe") for row in ("S1", "S2", "S4", "S5")},
}
"""Figures of `netsim.job` with the stages' times, dense and MoE."""


class Bar(NamedTuple):
    """What a row shows from when to when, in ms."""

    row: str
    what: str
    start: float
    end: float


def make(_: Sequence[Result]) -> Reproduced:
    """The figure, dense beside MoE. Nothing is simulated."""
    bars = {model: list(timeline(paper_job(job))) for model, job in JOBS.items()}
    figure, panels = style.new_figure(columns=2)
    for axes, (model, these) in zip(panels, bars.items(), strict=True):
        _draw(axes, model, these)
    about = "forward and backward pass of one layer at one GPU, from the model of the job"
    figure.suptitle(f"Figure 2: {about}", fontsize="medium")
    rows = [(model, *bar) for model, these in bars.items() for bar in these]
    header = ("model", "row", "what", "start_ms", "end_ms")
    drawn = dict(zip(header, map(list, zip(*rows, strict=True)), strict=True))
    notes = [
        f"S1 to S5: gradients in {CHUNKS} chunks, made evenly over the backward pass; "
        "what is left behind it, other layers' passes can hide",
        f"{POST_HOC}: the GPU's speed was solved from the dense forward pass; the MoE's is a check",
        "half of S2, which S4 is in the dense model, is 56.1 ms in the MoE: 66.1 may be a misprint",
    ]
    return Reproduced(figure, list(_values()), drawn, about, notes)


def timeline(job: Job) -> Iterator[Bar]:
    """The bars of a layer with one micro-batch, from the arrival of its input on."""
    of_layer = {
        (one.kind, one.what, one.when): one
        for one in messages(job)
        if one.per not in ("embedding", "head")
    }
    kernels = layer_kernels(job, job.model.experts > 0)
    middle = [kernel.name for kernel in kernels].index(SECOND_HALF)
    halves = (kernels[:middle], kernels[middle:])
    now = 0.0
    for when, order in (("forward", 1), ("backward_input", -1)):
        yield Bar(PP, "input", now, now := now + _ms(job, of_layer["pp", "send", when]))
        began = now
        for half in halves[::order]:
            for bar in _half(job, half[::order], when, of_layer, now):
                yield bar
                now = bar.end
    stages = [one for one in of_layer.values() if one.kind.startswith("dp_")]
    yield from _gradients(job, stages, began, now)


def _half(
    job: Job,
    kernels: Sequence[Kernel],
    when: str,
    of_layer: dict[tuple[str, str, str], Message],
    now: float,
) -> Iterator[Bar]:
    """Half of a layer: its input is gathered, computed with, and its output scattered."""
    gather, scatter = (of_layer["tp", what, when] for what in ("all_gather", "reduce_scatter"))
    yield Bar(TP, gather.what, now, now := now + _ms(job, gather))
    whichs = ("forward",) if when == "forward" else ("backward_input", "backward_weight")
    for kernel in kernels:
        for which in whichs:
            length = kernels_ps(job, [kernel], which) / MS
            if length > 0:
                yield Bar(COMPUTE, f"{kernel.name}, {which}", now, now := now + length)
    yield Bar(TP, scatter.what, now, now + _ms(job, scatter))


def _gradients(job: Job, stages: Sequence[Message], start: float, end: float) -> Iterator[Bar]:
    """The stages of a layer's gradients, which the backward pass makes from `start` to `end`."""
    free = dict.fromkeys(GRADIENTS, 0.0)
    delay = job.machine.wan_delay / MS
    for chunk in range(1, CHUNKS + 1):
        ready = start + (end - start) * chunk / CHUNKS
        for row, stage in zip(GRADIENTS, sorted(stages, key=lambda one: one.kind), strict=True):
            late = delay if row == DELAYED else 0.0
            sending = (_ms(job, stage) - late) / CHUNKS
            begins = max(ready, free[row])
            free[row] = begins + sending
            yield Bar(row, f"chunk {chunk}", begins, free[row])
            ready = free[row] + late


def _ms(job: Job, message: Message) -> float:
    return message.time_ps(job) / MS


def _values() -> Iterator[Value]:
    for place, model in enumerate(JOBS):
        for what, names in STATED.items():
            yield stated(names[place], f"{model}: {what}")


def _draw(axes: Axes, model: str, bars: Sequence[Bar]) -> None:
    for place, row in enumerate(ROWS):
        colour = style.colour(place)
        axes.broken_barh(
            [(bar.start, bar.end - bar.start) for bar in bars if bar.row == row],
            (place - 0.36, 0.72), facecolor=colour, linewidth=0.4,
            edgecolor="white" if row == COMPUTE else colour,
        )  # fmt: skip
    _, backward = (bar.start for bar in bars if bar.row == PP)
    end = max(bar.end for bar in bars if bar.row in (COMPUTE, TP))
    for begins, ends, name in ((0, backward, "forward"), (backward, end, "backward")):
        axes.axvline(ends, color=style.CAPTION, linestyle=":", linewidth=1)
        axes.text((begins + ends) / 2, -0.55, name, ha="center", va="bottom", fontsize="small")
    axes.set_yticks(range(len(ROWS)), ROWS)
    axes.set_ylim(len(ROWS) - 0.5, -0.95)
    axes.set_xlim(left=0)
    axes.set_xlabel(f"{model}: time (ms)")
