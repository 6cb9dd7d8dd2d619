"""A training step of a pipeline with the 1F1B schedule (one forward, one backward).

A pipeline is `stages` consecutive hosts, one per stage; all hosts form pipelines. Each of
`microbatches` runs forward through all stages and then backward. Stage s starts with stages - 1 - s
forward passes, then alternates forward and backward, and ends with the remaining backward passes.
A stage computes one pass at a time.

After each forward pass `activations` bytes go to the next stage, and after each backward pass to
the previous one, each after `latency` of software.
"""

from __future__ import annotations

import numpy as np

from netsim.errors import InputError
from netsim.flows import COMPUTE, RECEIVE, SEND, FlowTable, Rng, TaskTable, TrafficContext, Workload
from netsim.model.columns import Ints
from netsim.network import Network
from netsim.params import Param, Params
from netsim.workloads.job.schedules import FORWARD, PipelineSchedule, make_schedule

PARAMS = [
    Param("stages", "count", None, "stages of a pipeline; default: all hosts", minimum=2),
    Param("microbatches", "count", 8, "micro-batches of a step", minimum=1),
    Param("forward", "time", "100us", "forward time of a micro-batch in a stage"),
    Param("backward", "time", "200us", "backward time of a micro-batch in a stage"),
    Param("activations", "bytes", "1MB", "bytes between stages per micro-batch", minimum="1B"),
    Param("latency", "time", "0us", "software latency of each flow"),
]


def flows(params: Params, network: Network, rng: Rng, context: TrafficContext) -> Workload:
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
    # One task per pass, then the send and receive tasks of each flow.
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


def _edges(order: PipelineSchedule, leaves: Ints) -> tuple[Ints, ...]:
    """Return the dependencies of one pipeline; each pass of `leaves` has a flow."""
    send = np.full(len(order), -1, np.int64)
    send[leaves] = len(order) + 2 * np.arange(leaves.size)
    first, then = order.waits()
    # The last stage continues with its own backward pass; all else waits for a flow.
    at = np.where(send[first] >= 0, send[first] + 1, first)
    return np.concatenate([leaves, at]), np.concatenate([send[leaves], then])
