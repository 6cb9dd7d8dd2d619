"""A training step of a pipeline whose stages run one forward, one backward in turn (1F1B).

A pipeline has `stages` hosts next to one another, one a stage; all hosts form as many pipelines as
there are. Each of `microbatches` is computed forward through all stages and backward through all of
them. Stage s begins with stages - 1 - s forwards, then runs one forward and one backward in turn
until the forwards are over, and then the backwards that are left. A stage computes one at a time.

Between stages, `activations` bytes go to the next one after each forward and to the one before
after each backward; `latency` is the time that software takes before each of these flows.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from netsim.errors import InputError
from netsim.flows import COMPUTE, RECEIVE, SEND, FlowTable, TaskTable, TrafficContext, Workload
from netsim.network import Network
from netsim.params import Param
from netsim.workloads.job.schedules import FORWARD, PipelineSchedule, make_schedule

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
    context.reserve(8 * n_hosts * n, key="traffic.microbatches")
    order = make_schedule("1f1b", stages, n)
    forward = order.kind == FORWARD
    to = order.stage + np.where(forward, 1, -1)
    leaves = np.flatnonzero((to >= 0) & (to < stages))
    n_work, n_flows = len(order), leaves.size
    n_tasks = n_work + 2 * n_flows
    # A task for each piece of work, then the send and the receive task of each flow.
    kind = np.concatenate([np.full(n_work, COMPUTE), np.tile([SEND, RECEIVE], n_flows)])
    host = np.concatenate([order.stage, np.stack([order.stage[leaves], to[leaves]], 1).ravel()])
    work_ps = np.where(forward, params["forward"], params["backward"])
    duration = np.concatenate([work_ps, np.tile([params["latency"], 0], n_flows)])
    flow = np.concatenate([np.full(n_work, -1), np.repeat(np.arange(n_flows), 2)])
    work = np.concatenate([np.arange(n_work), np.repeat(leaves, 2)])
    labels = [f"{'forward' if forward[k] else 'backward'} {order.micro_batch[k]}" for k in work]

    pipelines = n_hosts // stages
    at = np.arange(pipelines)[:, None]
    table = FlowTable(
        (order.stage[leaves] + at * stages).reshape(-1),
        (to[leaves] + at * stages).reshape(-1),
        params["activations"],
    )
    tasks = TaskTable(
        np.tile(kind, pipelines),
        (host + at * stages).reshape(-1),
        np.tile(duration, pipelines),
        flow=np.where(flow < 0, -1, flow + at * n_flows).reshape(-1),
        label=labels * pipelines,
    )
    first, then = _edges(order, leaves)
    tasks.wait_for_pairs((first + at * n_tasks).reshape(-1), (then + at * n_tasks).reshape(-1))
    return Workload(table, tasks)


def _edges(order: PipelineSchedule, leaves: NDArray[np.int64]) -> tuple[NDArray[np.int64], ...]:
    """What waits for what in one pipeline, of whose work `leaves` has a flow each."""
    send = np.full(len(order), -1, np.int64)
    send[leaves] = len(order) + 2 * np.arange(leaves.size)
    first, then = order.waits()
    # The last stage turns round by itself; all else comes with a flow.
    at = np.where(send[first] >= 0, send[first] + 1, first)
    return np.concatenate([leaves, at]), np.concatenate([send[leaves], then])
