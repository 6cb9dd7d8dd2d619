"""What ranks of a stage exchange between what they compute: of tensors, contexts and experts.

Tensor-parallel ranks share every layer, context-parallel ones every sequence, and expert-parallel
ones the experts of a layer. Each exchange is an event of a segment: it begins behind the segment's
computing, or beside it, and unless it is put off the next segment waits for it.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from netsim.workloads.job.schedules import PipelineSchedule
from netsim.workloads.training.grid import Grid
from netsim.workloads.training.segments import NO_EVENT, Segments

Ints = NDArray[np.int64]


def add_events(
    grid: Grid, schedule: PipelineSchedule, segments: Segments, order: Ints
) -> tuple[Ints, Ints]:
    """int64[segments, n], twice: what begins and what ends the event of each; -1 without one."""
    shape = (len(segments), grid.n)
    begin, end = (np.full(shape, -1, np.int64) for _ in range(2))
    back = None if grid.part.routing is None else _comes_back(segments)
    for number, event in enumerate(segments.events):
        rows = np.flatnonzero(segments.event == number)
        stage = segments.stage[rows]
        size_bytes = None
        if event.message.kind == "ep" and back is not None:
            size_bytes = _exchanged(grid, schedule, segments, rows, back[rows])
        begin[rows], end[rows] = grid.collective(
            event.message, stage, order[rows], times=event.times, size_bytes=size_bytes
        )
    return begin, end


def _exchanged(
    grid: Grid, schedule: PipelineSchedule, segments: Segments, rows: Ints, back: NDArray[np.bool_]
) -> Ints:
    """int64[rows, groups, m, m]: bytes between ranks that share experts, there or back."""
    part, event = grid.part, segments.events[segments.event[rows[0]]]
    assert part.routing is not None
    there = part.routing.bytes_of(
        segments.part[rows],
        schedule.micro_batch[segments.operation[rows]].astype(np.int64),
        grid.groups(event.message).shape[0],
        part.bytes_of(event.message),
    )
    return np.where(back[:, None, None, None], there.swapaxes(-1, -2), there)


def _comes_back(segments: Segments) -> NDArray[np.bool_]:
    """bool[segments]: exchanges of experts that bring back what went there in the one before.

    Every pass through a layer has two of them.
    """
    whens = [event.message.when for event in segments.events]
    of_experts = np.array([event.message.kind == "ep" for event in segments.events], np.bool_)
    rows = np.flatnonzero(segments.event != NO_EVENT)
    rows = rows[of_experts[segments.event[rows]]]
    when = np.unique(whens, return_inverse=True)[1][segments.event[rows]]
    fresh = np.ones(rows.size, np.bool_)
    for same in (segments.operation[rows], segments.part[rows], when):
        fresh[1:] &= same[1:] == same[:-1]
    fresh[1:] = ~fresh[1:]
    place = np.arange(rows.size) - np.flatnonzero(fresh)[np.cumsum(fresh) - 1]
    found = np.zeros(len(segments), np.bool_)
    found[rows] = place % 2 == 1
    return found


def add_edges(grid: Grid, segments: Segments, computed: Ints, events: tuple[Ints, Ints]) -> None:
    """What events wait for, and what waits for them within a stage."""
    begin, end = events
    has = segments.event != NO_EVENT
    beside, blocks = (
        np.array([getattr(event, name) for event in segments.events] + [False])[segments.event]
        for name in ("beside", "blocks")
    )
    behind = np.flatnonzero(has & ~beside)
    grid.ops.after(computed[behind], begin[behind])
    at_once = np.flatnonzero(beside)
    grid.ops.after_start(computed[at_once], begin[at_once])
    # The next segment of the same stage: ranks of a row are those of its stage.
    waiting = np.flatnonzero(has[:-1] & blocks[:-1] & (segments.stage[:-1] == segments.stage[1:]))
    grid.ops.after(end[waiting], computed[waiting + 1])
    awaiting = np.flatnonzero(segments.awaits)
    grid.ops.after(end[awaiting - segments.awaits[awaiting]], computed[awaiting])


assert NO_EVENT == -1
"""It picks the last entry of the flags above."""
