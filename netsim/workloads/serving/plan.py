"""The assignment of requests to instances, and the cost of iterations, fixed before the run.

The router assigns requests by its own estimate. The work of a prompt is the time it
takes alone; that of a decoded token, its share of an iteration with as many sequences of mean
length as an instance holds.

The router knows the arrivals and the analytic duration of requests but gets no feedback from the
run, so its decisions do not depend on the network. Its policies:

- round_robin: instances in order;
- random: each instance with equal probability;
- least_work: the instance that finishes its assigned requests first, if it serves them one after
  the other; among idle instances, the one idle for longest.

Decode instances are chosen in the same way, in the order in which prefills end by the estimate.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from netsim.errors import InputError
from netsim.flows import TrafficContext
from netsim.limits import COUNT, HORIZON_PS, PS_BITS
from netsim.workloads.inference.deployment import Deployment
from netsim.workloads.inference.load import load_deployment
from netsim.workloads.inference.roofline import (
    IterationCost,
    decode_ps,
    iteration_cost,
    kv_bytes_of_token,
    kv_room_tokens,
    prefill_ps,
    weight_bytes,
)
from netsim.workloads.serving.data import (
    DECODE,
    MIXED,
    PREFILL,
    ROLES,
    Requests,
    ServingInstances,
    ServingPlan,
)
from netsim.workloads.serving.requests import Drawn

ROUND_ROBIN, RANDOM, MIN_WORK = DISPATCH = ("round_robin", "random", "least_work")

Ints = NDArray[np.int64]


class Dispatched(NamedTuple):
    """The instance of each of n requests, and the estimated end."""

    instance: NDArray[np.int32]  # int32[n], counted from 0
    done_ps: Ints  # int64[n], by the router's estimate


def dispatch(
    how: str, at_ps: Ints, work_ps: Ints, n_instances: int, rng: np.random.Generator
) -> Dispatched:
    """Assign requests to instances.

    Args:
        how: one of `DISPATCH`.
        at_ps: int64[n], arrival at the instances, in any order.
        work_ps: int64[n], time that each request occupies an instance.
    """
    n = at_ps.size
    order = np.argsort(at_ps, kind="stable")
    instance = np.zeros(n, np.int32)
    if how == ROUND_ROBIN:
        instance[order] = np.arange(n) % n_instances
    elif how == RANDOM:
        instance[order] = rng.integers(0, n_instances, n)
    chosen, ends, free_ps = instance[order].tolist(), [], [0] * n_instances
    soonest = [(0, one) for one in range(n_instances)]
    for k, (at, takes) in enumerate(
        zip(at_ps[order].tolist(), work_ps[order].tolist(), strict=True)
    ):
        if how == MIN_WORK:
            chosen[k] = soonest[0][1]
        one = chosen[k]
        free_ps[one] = max(free_ps[one], at) + takes
        ends.append(free_ps[one])
        if how == MIN_WORK:
            heapq.heapreplace(soonest, (free_ps[one], one))
    done = np.empty(n, np.int64)
    instance[order] = chosen
    done[order] = ends
    return Dispatched(instance, done)


KV_CACHE, WEIGHTS = POOLED = ("kv", "weights")


@dataclass(frozen=True)
class Pool:
    """Memory of other hosts that holds part of the KV cache of decode instances, or of weights.

    In every iteration each GPU reads, in parallel with compute, the pooled KV cache of the contexts
    being decoded, or its pooled weights.
    """

    of: str  # one of POOLED
    share: float  # fraction that is pooled, above 0
    hosts: int  # number of pool hosts; 0 for analytic reads
    rate_bps: int  # rate of analytic reads per GPU; 0 if reads are flows

    def weights(self, one: Deployment) -> float:
        """Pooled bytes of weights of each GPU."""
        return self.share * weight_bytes(one) if self.of == WEIGHTS else 0.0

    def token(self, one: Deployment) -> float:
        """Pooled bytes of each token's KV cache of each GPU."""
        own = kv_bytes_of_token(one) * one.kv_share
        return self.share * own if self.of == KV_CACHE else 0.0

    def reading_ps(self, n_bytes: float) -> float:
        return PS_BITS * n_bytes / self.rate_bps if self.rate_bps else 0.0


@dataclass(frozen=True)
class Group:
    """The instances of one role; `pool` holds part of their weights or KV cache."""

    role: int
    deployment: Deployment
    n: int
    pool: Pool | None = None

    @property
    def cost(self) -> IterationCost:
        return iteration_cost(self.deployment)

    @property
    def capacity_tokens(self) -> int:
        """Room for KV cache in tokens, including the pool."""
        return self._tokens(self.deployment.tp)

    @property
    def shrunk_tokens(self) -> int:
        """Room for KV cache in tokens without one of the GPUs, whose weights the others hold."""
        return self._tokens(self.deployment.tp - 1)

    def _tokens(self, gpus: int) -> int:
        """Tokens that fit next to the weights on `gpus` GPUs."""
        one, pool = self.deployment, self.pool
        if pool is None:
            return int(min(kv_room_tokens(one, gpus), COUNT))
        token = pool.token(one)
        elsewhere = float(COUNT)
        if pool.hosts and token:
            usable = one.machine.memory * one.options.memory_share
            elsewhere = pool.hosts * usable / (self.n * one.tp * token)
        return int(min(kv_room_tokens(one, gpus, pool.weights(one), token), elsewhere, COUNT))


def place_instances(groups: Mapping[int, Group], hosts: Ints) -> ServingInstances:
    """Place instances role by role, GPU by GPU, on the given hosts."""
    role = np.repeat([group.role for group in groups.values()], [g.n for g in groups.values()])
    size = np.array([groups[one].deployment.tp for one in role.tolist()])
    ptr = np.concatenate([[0], np.cumsum(size)])
    return ServingInstances(role.astype(np.int8), ptr, hosts[: ptr[-1]].astype(np.int32))


def strided(groups: Mapping[int, Group], stride: int) -> Ints:
    """Return the host of each GPU if the GPUs of an instance are `stride` hosts apart.

    Groups of `stride` instances of a role interleave their GPUs.
    """
    found, free = [], 0
    for group in groups.values():
        tp = group.deployment.tp
        if group.n % stride:
            message = f"{group.n} {ROLES[group.role]} instances are not a multiple of {stride}"
            raise InputError(message, key="traffic.gpu_stride", hint=f"a divisor of {group.n}")
        instance, gpu = np.arange(group.n)[:, None], np.arange(tp)
        at = instance // stride * (stride * tp) + instance % stride + gpu * stride
        found.append(free + at.reshape(-1))
        free += group.n * tp
    return np.concatenate(found)


def plan_of(
    groups: Mapping[int, Group],
    instances: ServingInstances,
    drawn: Drawn,
    params: Mapping[str, Any],
    rng: np.random.Generator,
) -> ServingPlan:
    """Plan a run by the parameters of serving.

    Raises InputError if a request does not fit into an instance's KV cache.
    """
    requests, router, max_batch = drawn.requests, params["dispatch"], params["max_batch"]
    tbt_ps, stall, stall_ps = params["slo_tbt"], params["stall"], None
    if tbt_ps is not None and stall is not None:
        stall_ps = min(round(tbt_ps * stall), HORIZON_PS)
    for group in groups.values():
        instance, prompts = f"a {ROLES[group.role]} instance", group.role == PREFILL
        drawn.check_room(group.capacity_tokens, instance, prompts=prompts)
    first = groups[MIXED] if MIXED in groups else groups[PREFILL]
    work = _prompt_work(first, requests)
    if first.role == MIXED:
        work = work + _decode_work(first, requests, max_batch)
    given = dispatch(router, requests.arrival_ps, work, first.n, rng)
    expected_ps = max(int(given.done_ps.max()), _alone_ps(groups, first, requests))
    second = np.full(len(requests), -1, np.int32)
    if DECODE in groups:
        later = np.flatnonzero(requests.output_tokens > 1)
        work = _decode_work(groups[DECODE], requests, max_batch)
        to = dispatch(router, given.done_ps[later], work[later], groups[DECODE].n, rng)
        second[later] = first.n + to.instance
        expected_ps = max(expected_ps, int(to.done_ps.max(initial=0)))
    known = [groups.get(role) for role in range(len(ROLES))]
    costs = [None if group is None else group.cost for group in known]
    nothing = np.zeros(len(requests), np.int64)
    return ServingPlan(
        instances=instances,
        requests=requests,
        prefill_instance=given.instance,
        decode_instance=second,
        costs=(costs[MIXED], costs[PREFILL], costs[DECODE]),
        ttft_ps=params["slo_ttft"],
        tbt_ps=tbt_ps,
        kv_first_flow=nothing,
        kv_flows=nothing,
        expected_ps=expected_ps,
        stall_ps=stall_ps,
    )


def _alone_ps(groups: Mapping[int, Group], first: Group, requests: Requests) -> int:
    """Return when the last request would end if each had its instances to itself."""
    longest = requests.prompt_tokens + requests.output_tokens
    token_ps = decode_ps(groups.get(DECODE, first).deployment, 1, int(longest.mean()))
    takes = _prompt_work(first, requests) + (requests.output_tokens - 1) * token_ps
    return int((requests.arrival_ps + takes).max())


def _prompt_work(group: Group, requests: Requests) -> Ints:
    """int64[n]: duration of each prefill alone."""
    lengths, which = np.unique(requests.prompt_tokens, return_inverse=True)
    takes = [prefill_ps(group.deployment, tokens) for tokens in lengths.tolist()]
    return np.asarray(np.array(takes, np.int64)[which])


def _decode_work(group: Group, requests: Requests, max_batch: int) -> Ints:
    """int64[n]: each request's share of an instance's time while it decodes."""
    length = int((requests.prompt_tokens + requests.output_tokens).mean())
    batch = max(1, min(max_batch, len(requests), group.capacity_tokens // length))
    takes = decode_ps(group.deployment, batch, length)
    return (requests.output_tokens - 1) * takes // batch


def deployment_of(params: Mapping[str, Any], name: str, context: TrafficContext) -> Deployment:
    """Return the deployment that a parameter gives. Raises InputError with its key."""
    key, given = f"traffic.{name}", params[name]
    try:
        found = load_deployment(given, context.directory)
    except InputError as error:
        raise (error.under(key) if isinstance(given, Mapping) else error.at(key=key)) from None
    if not found.options.tp:
        where = f"{key}.options.tp"
        raise InputError("missing", key=where, hint="GPUs per instance", code="missing")
    return found


def check_same_cache(one: Deployment, other: Deployment) -> None:
    """Raise InputError unless both deployments have the same KV cache."""
    if one.model != other.model or one.formats.kv != other.formats.kv:
        message = "has another model or KV-cache format than deployment"
        raise InputError(message, key="traffic.decode_deployment")
