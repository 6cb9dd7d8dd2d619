"""Clients send requests to servers that process them in batches and reply.

The first `servers` hosts are servers, all others clients. Every `interval`, exactly or as a Poisson
process, a client sends a request of `request` bytes; the servers take turns. A server processes one
batch at a time, in `base` plus `per_item` per request. When it is idle it takes the requests that
have arrived, up to `max_batch` in order of arrival. If there are fewer, it may wait until the first
one is `max_wait` old. At the end of a batch, each of its clients gets a reply of `reply` bytes.

This is a program: the run itself determines the batches.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from netsim.errors import InputError
from netsim.flows import COMPUTE, RECEIVE, SEND, FlowTable, Rng, TaskTable, TrafficContext, Workload
from netsim.limits import HORIZON_PS
from netsim.model.checks import HORIZON
from netsim.network import Network
from netsim.params import Param, Params
from netsim.program import set_duration, set_timer, start, task_at

PARAMS = [
    Param("servers", "count", 1, "number of servers, the first hosts", minimum=1),
    Param("requests", "count", 1000, "total requests", minimum=1),
    Param("interval", "time", "10us", "mean time between requests, over all clients"),
    Param("arrivals", "choice", "poisson", "arrival process", choices=("poisson", "even")),
    Param("request", "bytes", "1KB", "size of a request", minimum="1B"),
    Param("reply", "bytes", "1KB", "size of a reply", minimum="1B"),
    Param("max_batch", "count", 8, "maximum requests per batch", minimum=1),
    Param("max_wait", "time", "0us", "maximum wait for a full batch while the server is idle"),
    Param("base", "time", "10us", "fixed time per batch"),
    Param("per_item", "time", "5us", "additional time per request of the batch"),
]

TASK_STATE = ("reply", "next")  # per request: its reply task, the next request
HOST_STATE = ("is_server", "batch", "first", "last", "waiting", "in_batch")
TIMERS = 1
BATCH = 0


def flows(params: Params, network: Network, rng: Rng, context: TrafficContext) -> Workload:
    """Return all requests, then all replies. Tasks: the servers' receives, then their sends and
    batches, all deferred; then the clients' receives."""
    servers, n = params["servers"], params["requests"]
    if servers >= network.n_hosts:
        hint = f"fewer than {network.n_hosts}"
        raise InputError("leaves no host for clients", key="traffic.servers", hint=hint)
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


def _clients(params: Params, n_hosts: int, rng: Rng) -> NDArray[np.int64]:
    """Return the client of each request: random, or round-robin with even arrivals."""
    n, first = int(params["requests"]), int(params["servers"])
    if params["arrivals"] == "even":
        return np.arange(n) % (n_hosts - first) + first
    return rng.integers(first, n_hosts, n)


def _arrivals(params: Params, rng: Rng) -> NDArray[np.int64]:
    n, interval = int(params["requests"]), int(params["interval"])
    if 2 * n * interval > HORIZON_PS:
        raise InputError(f"{n} requests take too long", key="traffic.interval", hint=HORIZON)
    if params["arrivals"] == "even":
        return np.arange(n) * interval
    return np.cumsum(rng.exponential(interval, n)).astype(np.int64)


def on_task(env, now, task):
    """Handle a request that arrived or a batch that is done."""
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
        # Start after all arrivals of this instant.
        at = now
        if server.waiting < env.par.max_batch:
            at = task_at(env, server.first).end_ps + env.par.max_wait
        set_timer(env, now, BATCH, at)


def on_timer(env, now, k):
    """Start a batch."""
    server = env.host
    server.in_batch = min(server.waiting, env.par.max_batch)
    server.waiting -= server.in_batch
    batch = task_at(env, server.batch)
    set_duration(env, batch, env.par.base + server.in_batch * env.par.per_item)
    start(env, now, batch)
