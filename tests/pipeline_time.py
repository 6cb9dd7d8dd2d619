"""A slow and obvious pipeline timing: stages follow their order, transfers delay the next stage."""

from dataclasses import dataclass

from netsim.workloads.job.schedules import (
    BACKWARD,
    BACKWARD_INPUT,
    BACKWARD_WEIGHT,
    FORWARD,
    PipelineSchedule,
)

Operation = tuple[int, int, int]  # kind, micro-batch, place


@dataclass
class Pipeline:
    """Start and end of every operation of a schedule, by kind, micro-batch and place."""

    start: dict[Operation, int]
    end: dict[Operation, int]
    of_stage: list[list[Operation]]

    @property
    def makespan(self) -> int:
        return max(self.end.values())

    def span(self, stage: int) -> int:
        """Return the time from a stage's first operation to the end of its last."""
        order = self.of_stage[stage]
        return self.end[order[-1]] - self.start[order[0]]

    def most_in_flight(self, stage: int) -> int:
        """Return the largest number of chunks whose activations are not yet freed."""
        now = most = 0
        for kind, _, _ in self.of_stage[stage]:
            now += {FORWARD: 1, BACKWARD_INPUT: 0}.get(kind, -1)
            most = max(most, now)
        assert now == 0
        return most


def work_through(
    schedule: PipelineSchedule,
    forward: int,
    to_input: int,
    to_weight: int,
    transfer: int = 0,
    before: Pipeline | None = None,
) -> Pipeline:
    """Run every stage in its order, each operation when its inputs exist; fail on a deadlock. Times
    are per chunk. A stage starts when it has ended the step `before`."""
    took = {
        FORWARD: forward,
        BACKWARD: to_input + to_weight,
        BACKWARD_INPUT: to_input,
        BACKWARD_WEIGHT: to_weight,
    }
    places = schedule.stages * schedule.chunks
    columns = (schedule.stage, schedule.kind, schedule.micro_batch, schedule.chunk)
    of_stage: list[list[Operation]] = [[] for _ in range(schedule.stages)]
    for stage, kind, micro_batch, chunk in zip(*(c.tolist() for c in columns), strict=True):
        of_stage[stage].append((kind, micro_batch, int(schedule.position[stage, chunk])))
    done = Pipeline({}, {}, of_stage)
    at = [0] * schedule.stages
    free = [before.end[order[-1]] if before else 0 for order in of_stage]
    while any(at[s] < len(of_stage[s]) for s in range(schedule.stages)):
        moved = sum(at)
        for s in range(schedule.stages):
            while at[s] < len(of_stage[s]):
                operation = of_stage[s][at[s]]
                need = _needs(*operation, places)
                if need is not None and need not in done.end:
                    break
                start = free[s]
                if need is not None:
                    start = max(start, done.end[need] + transfer * (need[2] != operation[2]))
                done.start[operation] = start
                done.end[operation] = free[s] = start + took[operation[0]]
                at[s] += 1
        assert sum(at) > moved, "a deadlock"
    return done


def _needs(kind: int, micro_batch: int, place: int, places: int) -> Operation | None:
    if kind == FORWARD:
        return (FORWARD, micro_batch, place - 1) if place else None
    if kind == BACKWARD_WEIGHT:
        return BACKWARD_INPUT, micro_batch, place
    if place == places - 1:
        return FORWARD, micro_batch, place
    return kind, micro_batch, place + 1
