"""A training step of a pipeline whose stages run one forward, one backward in turn (1F1B).

A pipeline has `stages` hosts next to one another, one a stage; all hosts form as many pipelines as
there are. Each of `microbatches` is computed forward through all stages and backward through all
of them. Stage s begins with stages - 1 - s forwards, then runs one forward and one backward in turn
until the forwards are over, and then the backwards that are left. A stage computes one at a time.

Between stages, `activations` bytes go to the next one after each forward and to the one before
after each backward; `latency` is the time that software takes before each of these flows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from netsim.errors import InputError
from netsim.flows import COMPUTE, RECEIVE, SEND, FlowTable, TaskTable, TrafficContext, Workload
from netsim.network import Network
from netsim.params import Param

PARAMS = [
    Param("stages", "count", None, "stages of a pipeline; all hosts by default", minimum=2),
    Param("microbatches", "count", 8, "pieces of the batch", minimum=1),
    Param("forward", "time", "100us", "time of a microbatch in a stage, forward"),
    Param("backward", "time", "200us", "the same backward"),
    Param("activations", "bytes", "1MB", "bytes between stages for a microbatch", minimum="1B"),
    Param("latency", "time", "0us", "of software, before each flow"),
]


def flows(
    params: Mapping[str, Any], network: Network, rng: np.random.Generator, context: TrafficContext
) -> Workload:
    """The pipelines one after the other, each in the order of stages and of their work."""
    n_hosts = network.n_hosts
    stages, n = params["stages"] or n_hosts, params["microbatches"]
    if n_hosts % stages or n_hosts < 2:
        raise InputError(
            f"pipelines of {stages} stages do not fill {n_hosts} hosts",
            key="traffic.stages",
            hint=f"a divisor of {n_hosts}",
        )
    context.expect(8 * n_hosts * n, key="traffic.microbatches")
    one = _pipeline(stages, n)
    first = np.repeat(np.arange(0, n_hosts, stages), len(one.kind))
    pipelines = n_hosts // stages
    duration = np.array([params["forward"], params["backward"], params["latency"], 0], np.int64)
    n_flows, n_tasks = len(one.src), len(one.kind)
    hosts = np.repeat(np.arange(0, n_hosts, stages), n_flows)
    table = FlowTable(
        hosts + np.tile(one.src, pipelines),
        hosts + np.tile(one.dst, pipelines),
        params["activations"],
    )
    flow = np.array(one.flow, np.int64) + np.arange(pipelines)[:, None] * n_flows
    tasks = TaskTable(
        np.tile(one.kind, pipelines),
        first + np.tile(one.host, pipelines),
        np.tile(duration[one.duration], pipelines),
        flow=np.where(np.array(one.flow) < 0, -1, flow).reshape(-1),
        label=one.label * pipelines,
    )
    shift = np.arange(pipelines)[:, None] * n_tasks
    ends = np.array(one.edges, np.int64).reshape(-1, 2)
    tasks.wait_for_pairs((ends[:, 0] + shift).reshape(-1), (ends[:, 1] + shift).reshape(-1))
    return Workload(table, tasks)


@dataclass
class _Pipeline:
    """The tasks of one pipeline by their columns, and its flows; hosts count from its first one."""

    kind: list[int] = field(default_factory=list)
    host: list[int] = field(default_factory=list)
    duration: list[int] = field(default_factory=list)  # forward, backward, latency, none
    flow: list[int] = field(default_factory=list)
    label: list[str] = field(default_factory=list)
    edges: list[tuple[int, int]] = field(default_factory=list)
    src: list[int] = field(default_factory=list)
    dst: list[int] = field(default_factory=list)

    def add(self, kind: int, host: int, duration: int, flow: int, label: str) -> int:
        """Add a task and return its number."""
        columns = (self.kind, self.host, self.duration, self.flow)
        for column, value in zip(columns, (kind, host, duration, flow), strict=True):
            column.append(value)
        self.label.append(label)
        return len(self.kind) - 1


def _pipeline(stages: int, n: int) -> _Pipeline:
    """Every stage's work in its order, and the flows between them."""
    made = _Pipeline()
    computes: dict[tuple[int, int, bool], int] = {}
    for stage in range(stages):
        for batch, backward in _schedule(stages, stage, n):
            label = f"{'backward' if backward else 'forward'} {batch}"
            task = made.add(COMPUTE, stage, int(backward), -1, label)
            computes[stage, batch, backward] = task
    for (stage, batch, backward), task in computes.items():
        to = stage - 1 if backward else stage + 1
        if not 0 <= to < stages:
            if not backward:  # the last stage turns round
                made.edges.append((task, computes[stage, batch, True]))
            continue
        flow, label = len(made.src), made.label[task]
        made.src.append(stage)
        made.dst.append(to)
        send = made.add(SEND, stage, 2, flow, label)
        receive = made.add(RECEIVE, to, 3, flow, label)
        made.edges += [(task, send), (receive, computes[to, batch, backward])]
    return made


def _schedule(stages: int, stage: int, n: int) -> Iterator[tuple[int, bool]]:
    """The microbatches in the order in which a stage computes them, and whether backward."""
    ahead = min(n, stages - 1 - stage)
    for batch in range(ahead):
        yield batch, False
    for batch in range(n):
        if batch + ahead < n:
            yield batch + ahead, False
        yield batch, True
