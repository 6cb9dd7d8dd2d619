"""A step of training as operations of ranks, from the first micro-batch to the changed weights.

Each rank has a stream for what it computes and one for each kind of communication, in which its
operations run in order; what else they wait for are edges. All ranks of a stage do the same, so
that the operations of a step are arrays: [segments, ranks of a stage].
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from netsim.workloads.job.schedules import (
    BACKWARD,
    BACKWARD_INPUT,
    BACKWARD_WEIGHT,
    FORWARD,
    PipelineSchedule,
)
from netsim.workloads.job.times import stage_times
from netsim.workloads.operations import Operations
from netsim.workloads.operations.table import JobSteps
from netsim.workloads.training.data import Gathered, GradientReduction
from netsim.workloads.training.grid import Grid
from netsim.workloads.training.inside import add_edges, add_events
from netsim.workloads.training.part import JobSample
from netsim.workloads.training.pipeline import add_transfers
from netsim.workloads.training.segments import Segments, segments_of

Ints = NDArray[np.int64]

NAMES = {
    FORWARD: "forward",
    BACKWARD: "backward",
    BACKWARD_INPUT: "backward_input",
    BACKWARD_WEIGHT: "backward_weight",
}
"""Kinds of operations that compute, beside "optimizer"."""


def operations_of(part: JobSample, steps: int = 1) -> Operations:
    """Everything that the ranks of a part do in some steps, one after the other."""
    ops = Operations(len(part.ranks))
    grid = Grid(ops, part)
    segments = segments_of(part)
    gathered = Gathered()
    # Behind the segments of a step come its gathering, by parts of the model, and its end.
    length = len(segments) + part.job.model.layers + 4
    for step in range(steps):
        order = step * length + np.arange(len(segments))
        gathered = _add_step(grid, segments, order, gathered)
    return ops


def steps_of(part: JobSample, steps: int, n_operations: int) -> JobSteps:
    """What is known of these steps. FLOPs are scaled as times are, so that utilization is right."""
    job, ranks = part.job, part.ranks
    peak = job.machine.matrix.rate(job.precision.compute) * len(ranks)
    step = np.repeat(np.arange(steps, dtype=np.int32), n_operations // steps)
    return JobSteps(step, part.scale * part.model_flops, peak)


def _add_step(grid: Grid, segments: Segments, order: Ints, gathered: Gathered) -> Gathered:
    """Add one step, which waits for the weights that the one before gathered."""
    part, ops, schedule = grid.part, grid.ops, grid.part.schedule
    computed = _computed(grid, schedule, segments, order)
    events = add_events(grid, schedule, segments, order)
    add_edges(grid, segments, computed, events)
    add_transfers(grid, schedule, segments, order, computed, events[1])
    _await_weights(grid, schedule, segments, computed, gathered)
    reduction = GradientReduction(grid, schedule, segments, order)
    reduced = reduction.add(computed, events[1])
    stages = np.arange(part.ranks.pp)
    times = stage_times(part.job).optimizer_ps
    duration = np.array([part.time_ps(times[stage]) for stage in stages], np.int64)
    at_end = np.full(stages.size, order[-1] + 1)
    optimized = grid.compute(stages, duration, at_end, "optimizer", [""] * stages.size)
    for stage, ends in reduced:
        ops.after(ends, optimized[stage])
    for number, event in enumerate(segments.events):
        # What was put off, and what the last segment of a stage ends with.
        rows = np.flatnonzero(segments.event == number)
        if event.blocks:
            rows = np.intersect1d(rows, segments.last_of_stage(schedule))
        ops.after(events[1][rows], optimized[segments.stage[rows]])
    return reduction.gather(optimized)


def _computed(grid: Grid, schedule: PipelineSchedule, segments: Segments, order: Ints) -> Ints:
    """int64[segments, n]: what is computed."""
    found = np.empty((len(segments), grid.n), np.int64)
    kinds = schedule.kind[segments.operation]
    for kind in np.unique(kinds):
        rows = np.flatnonzero(kinds == kind)
        name = NAMES[int(kind)]
        batches = schedule.micro_batch[segments.operation[rows]].tolist()
        labels = [f"{name} {batch}" for batch in batches]
        stage = segments.stage[rows]
        found[rows] = grid.compute(stage, segments.duration_ps[rows], order[rows], name, labels)
    return found


def _await_weights(
    grid: Grid, schedule: PipelineSchedule, segments: Segments, computed: Ints, gathered: Gathered
) -> None:
    """Each layer's first forward waits for its weights, or all of a stage for all of them."""
    first_of_part = segments.first_forward(schedule, grid.part.job.model.layers + 2)
    first_of_stage = np.searchsorted(segments.stage, np.arange(grid.part.ranks.pp))
    for part, stage, done in zip(gathered.part, gathered.stage, gathered.done, strict=True):
        overlap = grid.part.job.overlap.param_gather
        rows = first_of_part[part] if overlap else first_of_stage[stage]
        grid.ops.after(done, computed[rows])
