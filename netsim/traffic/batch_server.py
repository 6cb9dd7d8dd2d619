"""Requests to servers that work on what has arrived in batches, and answer each of them.

The first `servers` hosts are servers, all others clients. Every `interval`, exactly or as a Poisson
process, a client sends a request, a flow of `request` bytes, to the servers in turn. A server works
on one batch at a time, for `base` and `per_item` more for each request in it. Whenever it is idle
it takes the requests that have arrived, at most `max_batch` in the order of their arrival; if there
are fewer, it may wait for more until the first of them has waited for `max_wait`. As a batch is
done, a reply of `reply` bytes goes to the client of each.

It is a program: which requests make a batch is found out while the run goes on.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from netsim.errors import InputError
from netsim.flows import COMPUTE, RECEIVE, SEND, FlowTable, TaskTable, TrafficContext, Workload
from netsim.limits import HORIZON_PS
from netsim.model.checks import HORIZON
from netsim.network import Network
from netsim.params import Param
from netsim.program import set_duration, set_timer, start, task_at

PARAMS = [
    Param("servers", "count", 1, "hosts that are servers, the first ones", minimum=1),
    Param("requests", "count", 1000, "requests in all", minimum=1),
    Param("interval", "time", "10us", "mean time between requests, of all clients together"),
    Param("arrivals", "choice", "poisson", "how they come", choices=("poisson", "even")),
    Param("request", "bytes", "1KB", "bytes of a request", minimum="1B"),
    Param("reply", "bytes", "1KB", "bytes of a reply", minimum="1B"),
    Param("max_batch", "count", 8, "requests in a batch, at most", minimum=1),
    Param("max_wait", "time", "0us", "for which a request waits for others, if none is at work"),
    Param("base", "time", "10us", "time that a batch takes, ..."),
    Param("per_item", "time", "5us", "... and for each request in it"),
]

TASK_STATE = ("reply", "next")  # of a request: the task that answers it, the request behind it
HOST_STATE = ("is_server", "batch", "first", "last", "waiting", "in_batch")
TIMERS = 1
BATCH = 0


def flows(
    params: Mapping[str, Any], network: Network, rng: np.random.Generator, context: TrafficContext
) -> Workload:
    """First all requests, then all replies.

    Of the servers' tasks first those that receive requests, then those that send replies and work
    on batches, all of these deferred; then the clients'.
    """
    servers, n = params["servers"], params["requests"]
    if servers >= network.n_hosts:
        hint = f"fewer than {network.n_hosts}"
        raise InputError("leaves no host for a client", key="traffic.servers", hint=hint)
    context.reserve(4 * n, key="traffic.requests")
    request = np.arange(n)
    server, client = request % servers, _clients(params, network.n_hosts, rng)
    table = FlowTable(
        np.concatenate([client, server]),
        np.concatenate([server, client]),
        np.repeat([params["request"], params["reply"]], n),
        np.concatenate([_arrivals(params, rng), np.zeros(n, np.int64)]),
    )
    tasks = TaskTable(
        np.repeat([RECEIVE, SEND, COMPUTE, RECEIVE], [n, n, servers, n]),
        np.concatenate([server, server, np.arange(servers), client]),
        flow=np.concatenate([request, n + request, np.full(servers, -1), n + request]),
        deferred=np.repeat([False, True, True, False], [n, n, servers, n]),
    )
    index = tasks.local_indices()
    reply = np.zeros(len(tasks), np.int64)
    reply[:n] = index[n : 2 * n]
    batch = np.zeros(network.n_hosts, np.int64)
    batch[:servers] = index[2 * n : 2 * n + servers]
    is_server = np.arange(network.n_hosts) < servers
    return Workload(table, tasks, {"reply": reply}, {"is_server": is_server, "batch": batch})


def _clients(
    params: Mapping[str, Any], n_hosts: int, rng: np.random.Generator
) -> NDArray[np.int64]:
    """The client of each request: any of them, or one after the other where they come evenly."""
    n, first = int(params["requests"]), int(params["servers"])
    if params["arrivals"] == "even":
        return np.arange(n) % (n_hosts - first) + first
    return rng.integers(first, n_hosts, n)


def _arrivals(params: Mapping[str, Any], rng: np.random.Generator) -> NDArray[np.int64]:
    """When each request is sent."""
    n, interval = int(params["requests"]), int(params["interval"])
    if 2 * n * interval > HORIZON_PS:
        raise InputError(
            f"{n} requests take too long to come", key="traffic.interval", hint=HORIZON
        )
    if params["arrivals"] == "even":
        return np.arange(n) * interval
    return np.cumsum(rng.exponential(interval, n)).astype(np.int64)


def on_task(env, now, task):
    """A request has arrived, or a batch is done."""
    server = env.host
    if server.is_server == 0 or task.kind == SEND:
        return
    if task.kind == RECEIVE:
        if server.waiting + server.in_batch == 0:
            server.first = task.index
        else:
            task_at(env, server.last).next = task.index
        server.last = task.index
        server.waiting += 1
    else:
        while server.in_batch > 0:
            answered = task_at(env, server.first)
            start(env, now, task_at(env, answered.reply))
            server.first = answered.next
            server.in_batch -= 1
    if server.in_batch == 0 and server.waiting > 0:
        # Once all that arrives now has been told.
        at = now
        if server.waiting < env.par.max_batch:
            at = task_at(env, server.first).end_ps + env.par.max_wait
        set_timer(env, now, BATCH, at)


def on_timer(env, now, k):
    """A batch begins."""
    server = env.host
    server.in_batch = min(server.waiting, env.par.max_batch)
    server.waiting -= server.in_batch
    batch = task_at(env, server.batch)
    set_duration(env, batch, env.par.base + server.in_batch * env.par.per_item)
    start(env, now, batch)
