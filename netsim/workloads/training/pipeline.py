"""What goes from stage to stage: activations forward, their gradients backward.

Every rank sends to the rank of the same place in the next stage, or the one before, as soon as its
operation is done. Unless these transfers overlap, it computes nothing until its message is handed
over to the network.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from netsim.workloads.job.messages import link_of
from netsim.workloads.job.schedules import FORWARD, PipelineSchedule
from netsim.workloads.training.grid import Grid, stream_of
from netsim.workloads.training.segments import NO_EVENT, Segments

Ints = NDArray[np.int64]


def add_transfers(
    grid: Grid,
    schedule: PipelineSchedule,
    segments: Segments,
    order: Ints,
    computed: Ints,
    event_ends: Ints,
) -> None:
    """Add the messages between stages of one step, with all that they and others wait for."""
    part, ops = grid.part, grid.ops
    first, then = schedule.waits()
    for when in ("forward", "backward_input"):
        forward = (schedule.kind[first] == FORWARD) & (schedule.kind[then] == FORWARD)
        chosen = forward if when == "forward" else ~forward
        chosen &= schedule.stage[first] != schedule.stage[then]
        found = [m for m in part.messages if (m.kind, m.when) == ("pp", when)]
        if not found or not chosen.any():
            continue
        message = found[0]
        link = link_of(part.job, message.network)
        last = segments.last_of_operation()[first[chosen]]
        start = segments.first_of_operation()[then[chosen]]
        sent, received = ops.send(
            grid.ranks(segments.stage[last]),
            grid.ranks(segments.stage[start]),
            part.bytes_of(message),
            stream=stream_of("pp"),
            kind="pp",
            latency_ps=part.time_ps(link.launch + link.step_latency),
        )
        ops.set_order(sent, 2 * order[last][:, None])
        ops.after(computed[last], sent)
        has = segments.event[last] != NO_EVENT
        ops.after(event_ends[last[has]], sent[has])
        ops.after(received, computed[start])
        if not part.job.overlap.p2p_comm:
            after = np.minimum(last + 1, len(segments) - 1)
            waits = (after > last) & (segments.stage[after] == segments.stage[last])
            ops.after(sent[waits], computed[after[waits]])
