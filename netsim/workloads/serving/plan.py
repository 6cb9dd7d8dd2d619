"""The plan of a serving run: requests, instances, their assignment, iteration costs.

An *instance* is a set of hosts, one GPU each, with one copy of a model; its first host is the
*leader*. It prefills and decodes (`MIXED`), or does only one of them.

Arrivals are a Poisson process, have gamma-distributed gaps (of a given coefficient of variation: 1
is Poisson, 0 even), are evenly spaced, or come from a trace. `rate` scales the gaps of a trace.
Gaps are drawn before lengths, and a rate only scales gaps: the requests of all rates are the same,
in the same order.

| length_distribution | tokens of a request |
|---|---|
| fixed | the given number |
| uniform | `least` to `most`, each with equal probability |
| lognormal | exp of a normal variable, with the given mean and coefficient of variation |
| zipf | `least` + k - 1, up to `most`, with probability proportional to k^-exponent |
| table | from a file of token counts and cumulative probabilities |
| trace | from the trace |

All are rounded to integers of at least 1. Vidur draws the fixed, uniform and Zipf distributions
(microsoft/vidur, vidur/request_generator), but draws prompt and output together.

The router assigns requests by its own estimate. A prompt's work is its time alone; a decoded
token's work is its share of an iteration with as many sequences of mean length as an instance
holds. The router gets no feedback from the run, so its decisions do not depend on the network. Its
policies:

- round_robin: instances in order;
- random: each instance with equal probability;
- least_work: the instance that finishes its assigned requests first, if it serves them one after
  the other; among idle instances, the one idle for longest.

Decode instances are chosen in the same way, in the order in which prefills end by the estimate.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from netsim.common.inputs import read_distribution, user_path
from netsim.common.memory import require_room
from netsim.errors import InputError
from netsim.flows import TrafficContext
from netsim.frozen import frozen
from netsim.limits import COUNT, HORIZON_PS, PS_BITS
from netsim.model.checks import HORIZON
from netsim.model.columns import Floats, Ints, Rng
from netsim.model.workload import WorkloadPart
from netsim.params import Param, Params
from netsim.units import written
from netsim.workloads.inference.deployment import (
    Deployment,
    IterationCost,
    decode_ps,
    iteration_cost,
    kv_bytes_of_token,
    kv_room_tokens,
    load_deployment,
    prefill_ps,
    weight_bytes,
)
from netsim.workloads.serving.request_trace import UNITS_PS, RequestTrace, read_request_trace

MIXED, PREFILL, DECODE = range(3)

ROLES = ("mixed", "prefill", "decode")  # roles of instances, and their names

EVENTS: tuple[str, ...] = (
    *("iteration", "prefill start", "first token", "kv transfer end", "decode start"),
    *("done", "lost", "down", "up"),
)

ITERATION, PREFILL_START, FIRST_TOKEN, KV_TRANSFER_END, DECODE_START = range(5)

DONE, LOST, DOWN, UP = range(5, 9)  # values of the log's column `event`, and their names

LOG: tuple[str, ...] = (
    *("event", "request", "start_ps", "decode_batch", "count"),
    *("context_tokens", "attention_pairs"),
)
"""Columns of the log, after the host and the time of each row.

`request` is -1 in rows of instances. `start_ps`, `decode_batch`, `context_tokens` and
`attention_pairs` describe an iteration and are 0 in other rows. `count` is the number of prompt
tokens of an iteration, generated tokens of a request, or GPUs in service of an instance.
"""


@frozen(eq=False)
class ServingInstances:
    """A table of k instances; an instance is identified by its row."""

    role: NDArray[np.int8]  # int8[k], MIXED, PREFILL or DECODE
    # int64[k + 1], int32[m]; the hosts of instance i are `hosts[hosts_ptr[i] : hosts_ptr[i +
    # 1]]`
    hosts_ptr: Ints
    hosts: NDArray[np.int32]

    def __len__(self) -> int:
        return int(self.role.size)

    @property
    def leader(self) -> NDArray[np.int32]:
        """int32[k]: the first host of each instance."""
        return self.hosts[self.hosts_ptr[:-1]]

    @property
    def size(self) -> Ints:
        """int64[k]: number of hosts of each instance."""
        return np.diff(self.hosts_ptr)

    def of(self, instances: NDArray[Any]) -> Ints:
        """int64[n, tp]: the hosts of instances of equal size."""
        gpus = np.arange(self.size[instances[0]])
        return np.asarray(self.hosts[self.hosts_ptr[instances][:, None] + gpus], np.int64)

    def led_by(self, hosts: Ints) -> Ints:
        """Return the instance that each of these leaders leads."""
        order = np.argsort(self.leader)
        return np.asarray(order[np.searchsorted(self.leader, hosts, sorter=order)])

    def name(self, instance: int) -> str:
        """Return the display name of an instance, such as "decode instance 5"."""
        return f"{ROLES[self.role[instance]]} instance {instance}"


@frozen(eq=False)
class Requests:
    """A table of n requests, in order of arrival."""

    arrival_ps: Ints  # int64[n], not decreasing
    # int64[n], at least 1 each
    prompt_tokens: Ints
    output_tokens: Ints

    def __len__(self) -> int:
        return int(self.arrival_ps.size)


@frozen(eq=False)
class ServingPlan(WorkloadPart):
    """The assignment of requests to instances, the cost of iterations, and the SLO."""

    instances: ServingInstances
    requests: Requests
    prefill_instance: NDArray[np.int32]  # int32[n], the mixed or prefill instance of each request
    decode_instance: NDArray[np.int32]  # int32[n], the decode instance of each request; -1: none
    # the `IterationCost` of each role; None for roles without instances
    costs: tuple[Any, Any, Any]
    # SLO limits on the time to first token and between tokens; None: unlimited
    ttft_ps: int | None
    tbt_ps: int | None
    # int64[n], first flow and number of flows of each KV-cache transfer, numbered
    # consecutively; 0 flows without a transfer
    kv_first_flow: Ints
    kv_flows: Ints
    # when the router expects the last request to end, with no network time except in iterations and
    # no failures; 0: unknown
    expected_ps: int = 0
    assumption = "requests take as long as the router expects"
    stall_ps: int | None = None  # SLO limit on the longest gap between tokens; None: unlimited

    def moved(self, first_flow: int, first_task: int) -> ServingPlan:  # noqa: ARG002
        """Return the plan with flows numbered from `first_flow`."""
        return replace(self, kv_first_flow=self.kv_first_flow + first_flow)

    def at_hosts(self, hosts: NDArray[np.int64]) -> ServingPlan:
        own = hosts[self.instances.hosts].astype(np.int32)
        return replace(self, instances=replace(self.instances, hosts=own))

    def progress(self, total: Callable[[str], int]) -> tuple[str, int, int]:
        """Return the number of finished requests."""
        return "requests", total("done"), len(self.requests)


def check_used(
    params: Params, uses: Mapping[str, tuple[bool, str]], optional: Collection[str] = ()
) -> None:
    """Raise InputError if a parameter has no effect, or is used and missing unless `optional`.
    `uses` says for each parameter whether it is used, and when it would be."""
    for name, (used, when) in uses.items():
        if params[name] is not None and not used:
            hint = f"it is for {when}"
            raise InputError("has no effect", key=f"traffic.{name}", hint=hint, code="no_effect")
        if params[name] is None and used and name not in optional:
            hint = f"required by {when}"
            raise InputError("missing", key=f"traffic.{name}", hint=hint, code="missing")


FIXED, UNIFORM, LOGNORMAL, ZIPF, TABLE, TRACE = LENGTHS = (
    *("fixed", "uniform", "lognormal", "zipf", "table", "trace"),
)

MAX_TOKENS = 1 << 24  # largest number of tokens drawn: no model has a context of 16 million tokens

POISSON, GAMMA, EVEN, OF_TRACE = ARRIVALS = ("poisson", "gamma", "even", "trace")

PARTS = ("prompt", "output")

REQUEST_BYTES = 400  # bytes per request while requests are drawn

DEFAULTS = {"requests": 1000, "prompt": 1500, "output": 200}  # defaults without a trace

SHAPES: dict[str, tuple[Any, tuple[str, ...]]] = {
    "length_cv": (1.0, (LOGNORMAL,)),
    "length_min": (1, (UNIFORM, ZIPF)),
    "length_max": (4096, (UNIFORM, ZIPF)),
    "zipf_exponent": (1.0, (ZIPF,)),
}
"""Parameters of distributions: their defaults, and the distributions that use them."""


def _tokens_param(name: str, doc: str, each: tuple[str, ...] = ()) -> Param:
    return Param(name, "count", None, doc, minimum=1, maximum=MAX_TOKENS, each=each)


REQUEST_PARAMS = [
    Param("arrival_process", "choice", POISSON, "arrival process", choices=ARRIVALS),
    Param("rate", "ratio", None, "requests per second; default: a trace's own", maximum=1e9),
    Param(
        "burstiness", "ratio", None, "gamma: CV of gaps; 1 is Poisson", minimum=0.01, maximum=100
    ),
    Param("requests", "count", None, "requests; default: 1000, or all of a trace", minimum=1),
    Param("trace", "file", None, "CSV or JSONL file of arrivals and tokens"),
    Param(
        "trace_time_unit", "choice", None, "unit of the trace's arrivals", choices=tuple(UNITS_PS)
    ),
    Param(
        "length_distribution", "choice", FIXED, "token distribution", choices=LENGTHS, each=PARTS
    ),
    _tokens_param("prompt", "fixed: tokens of a prompt; lognormal: their mean; default: 1500"),
    _tokens_param("output", "fixed: tokens of an output; lognormal: their mean; default: 200"),
    Param(
        "length_cv", "ratio", None, "lognormal: CV of tokens; default: 1", maximum=100, each=PARTS
    ),
    _tokens_param("length_min", "uniform, zipf: fewest tokens; default: 1", PARTS),
    _tokens_param("length_max", "uniform, zipf: most tokens; default: 4096", PARTS),
    Param("zipf_exponent", "ratio", None, "zipf: exponent; 0 is uniform; default: 1", each=PARTS),
    Param("prompt_table", "file", None, "table: file of prompt tokens and their CDF"),
    Param("output_table", "file", None, "table: file of output tokens and their CDF"),
]


@frozen(eq=False)
class Drawn:
    """The requests of a run, and their source."""

    requests: Requests  # in order of arrival
    notes: tuple[str, ...]  # notes for the user
    trace: RequestTrace | None  # source of the lengths, if any; request i is row i, cyclically

    def check_room(self, capacity_tokens: int, instance: str, *, prompts: bool = False) -> None:
        """Raise InputError if a request does not fit into the KV cache of an instance.

        `capacity_tokens` is the room next to the weights, `instance` a name, "a decode instance".
        With `prompts`, the instance holds no output tokens.
        """
        requests = self.requests
        tokens = requests.prompt_tokens + (0 if prompts else requests.output_tokens)
        for request in np.flatnonzero(tokens > capacity_tokens)[:1].tolist():
            prompt, output = (
                int(column[request]) for column in (requests.prompt_tokens, requests.output_tokens)
            )
            file = None
            if self.trace is not None:
                file = f"{self.trace.path}:{self.trace.lines[request % len(self.trace)]}"
            raise InputError(
                f"request {request} has {prompt:,} prompt tokens and {output:,} output tokens; "
                f"the KV cache of {instance} holds {max(0, capacity_tokens):,}",
                file=file,
                key=None if file else "traffic.length_distribution",
                hint="shorter requests, or GPUs with more memory",
            )


def draw_requests(params: Params, rng: Rng, directory: Path) -> Drawn:
    """Return the requests that `REQUEST_PARAMS` describe; relative paths start at `directory`."""
    _check(params)
    trace = None
    if params["trace"] is not None:
        timed = params["arrival_process"] == OF_TRACE
        file = user_path(params["trace"], directory)
        trace = read_request_trace(file, params["trace_time_unit"], timed=timed)
    n = params["requests"] or (DEFAULTS["requests"] if trace is None else len(trace))
    require_room(n * REQUEST_BYTES, what=f"{n:,} requests", key="traffic.requests")
    arrival_ps = _arrivals(params, n, rng, trace)
    prompt, output = (_tokens(part, params, n, rng, trace, directory) for part in PARTS)
    of_trace = TRACE in params["length_distribution"].values()
    notes = trace.notes if trace is not None else ()
    return Drawn(Requests(arrival_ps, prompt, output), notes, trace if of_trace else None)


def _check(params: Params) -> None:
    arrivals, lengths = params["arrival_process"], params["length_distribution"]
    if arrivals != OF_TRACE and params["rate"] is None:
        raise InputError("missing", key="traffic.rate", hint="requests per second, such as 10.0")
    if params["rate"] is not None and params["rate"] <= 0:
        raise InputError("must be positive", key="traffic.rate", code="out_of_range")
    uses = {
        "burstiness": (arrivals == GAMMA, 'arrival_process = "gamma"'),
        "trace_time_unit": (arrivals == OF_TRACE, 'arrival_process = "trace"'),
        "trace": (arrivals == OF_TRACE or TRACE in lengths.values(), 'arrival_process = "trace"'),
    }
    for part in PARTS:
        kind, hint = lengths[part], f"length_distribution = {{{part} = "
        uses[part] = kind in (FIXED, LOGNORMAL), f'{hint}"{FIXED}"}}'
        uses[f"{part}_table"] = kind == TABLE, f'{hint}"{TABLE}"}}'
    check_used(params, uses, optional=(*DEFAULTS, "trace_time_unit"))
    _check_shapes(params)


def _check_shapes(params: Params) -> None:
    """Check that every parameter of a distribution is used."""
    lengths = params["length_distribution"]
    for name, (_, kinds) in SHAPES.items():
        given = params[name]
        used = {part: lengths[part] in kinds for part in PARTS}
        hint = f"it is for length_distribution = {' or '.join(written(kind) for kind in kinds)}"
        if not any(used.values()) and any(one is not None for one in given.values()):
            raise InputError("has no effect", key=f"traffic.{name}", hint=hint, code="no_effect")
        for part in PARTS:
            # A value given for both parts may be unused in one.
            if given[part] is not None and not used[part] and len(set(given.values())) > 1:
                raise InputError("has no effect", key=f"traffic.{name}.{part}", hint=hint)


def _arrivals(params: Params, n: int, rng: Rng, trace: RequestTrace | None) -> Ints:
    """int64[n], in ps, not decreasing."""
    kind, rate = params["arrival_process"], params["rate"]
    if kind == OF_TRACE and trace is not None:
        if n > len(trace):
            message = f"{n:,} requests exceed the trace's {len(trace):,}"
            raise InputError(message, key="traffic.requests", hint=f"at most {len(trace):,}")
        return _at_rate(trace.arrival_ps[:n], rate)
    if kind == EVEN:
        gaps = np.ones(n)
        gaps[0] = 0.0
    elif kind == GAMMA:
        cv = params["burstiness"]
        gaps = rng.gamma(cv**-2, cv**2, n)
    else:
        gaps = rng.exponential(1.0, n)
    return _in_time(np.cumsum(gaps) * (1e12 / rate))


def _at_rate(arrival_ps: Ints, rate: float | None) -> Ints:
    """Scale a trace's arrivals to a rate, in 1/s, if any."""
    if rate is None:
        return arrival_ps
    since = arrival_ps - arrival_ps[0]
    if not since[-1]:
        message = "all requests of the trace arrive at once: it has no rate to scale"
        raise InputError(message, key="traffic.rate", hint="leave it out")
    return _in_time(since * ((since.size - 1) / rate * 1e12 / since[-1]))


def _in_time(times: Floats) -> Ints:
    """Round times to ps. Raises InputError if the last is too late."""
    if times[-1] >= HORIZON_PS:
        hours = times[-1] / 3.6e15
        message = f"the last of {times.size:,} requests would arrive after {hours:.3g} hours"
        raise InputError(message, key="traffic.rate", hint=HORIZON)
    return np.asarray(np.rint(times).astype(np.int64))


def _tokens(
    part: str,
    params: Params,
    n: int,
    rng: Rng,
    trace: RequestTrace | None,
    directory: Path,
) -> Ints:
    """int64[n]: tokens of prompts or outputs."""
    kind = params["length_distribution"][part]
    if kind == TRACE and trace is not None:
        return np.resize(getattr(trace, f"{part}_tokens"), n)
    if kind == TABLE:
        path = user_path(params[f"{part}_table"], directory)
        points = read_distribution(path, "number of tokens", COUNT)
        tokens, below = np.array(points, np.float64).T
        if tokens.size == 1:
            return np.full(n, int(tokens[0]), np.int64)
        return _rounded(np.interp(rng.random(n), below, tokens))
    mean = params[part] or DEFAULTS[part]
    if kind == FIXED:
        return np.full(n, mean, np.int64)
    cv, least, most, exponent = (
        default if params[name][part] is None else params[name][part]
        for name, (default, _) in SHAPES.items()
    )
    if kind == LOGNORMAL:
        spread = np.log1p(cv**2)
        drawn = rng.lognormal(np.log(mean) - spread / 2, np.sqrt(spread), n)
        return _rounded(np.minimum(drawn, MAX_TOKENS))
    if most < least:
        message = f"{most} is below the minimum, {least}"
        raise InputError(message, key=f"traffic.length_max.{part}")
    if kind == UNIFORM:
        return rng.integers(least, most + 1, n)
    weights = np.arange(1, most - least + 2) ** -float(exponent)
    chances = np.cumsum(weights)
    above = np.searchsorted(chances, rng.random(n) * chances[-1], side="right")
    return np.asarray((least + above).astype(np.int64))


def _rounded(drawn: Floats) -> Ints:
    return np.maximum(1, np.rint(drawn)).astype(np.int64)


ROUND_ROBIN, RANDOM, MIN_WORK = DISPATCH = ("round_robin", "random", "least_work")


class Dispatched(NamedTuple):
    """The instance of each of n requests, and the estimated end."""

    instance: NDArray[np.int32]  # int32[n], counted from 0
    done_ps: Ints  # int64[n], by the router's estimate


def dispatch(how: str, at_ps: Ints, work_ps: Ints, n_instances: int, rng: Rng) -> Dispatched:
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


@frozen
class Pool:
    """Memory of other hosts that holds part of the decode instances' KV cache or of the weights.

    In every iteration each GPU reads, in parallel with compute, the pooled KV cache of the contexts
    being decoded, or its pooled weights.
    """

    of: str  # one of POOLED
    share: float  # fraction that is pooled, above 0
    hosts: int  # number of pool hosts; 0 for analytic reads
    rate_bps: int  # rate of analytic reads per GPU; 0 if reads are flows

    def weights(self, one: Deployment) -> float:
        """Bytes of each GPU's weights in the pool."""
        return self.share * weight_bytes(one) if self.of == WEIGHTS else 0.0

    def token(self, one: Deployment) -> float:
        """Bytes of each GPU's KV cache per token in the pool."""
        own = kv_bytes_of_token(one) * one.kv_share
        return self.share * own if self.of == KV_CACHE else 0.0

    def reading_ps(self, n_bytes: float) -> float:
        return PS_BITS * n_bytes / self.rate_bps if self.rate_bps else 0.0


@frozen
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
        """Room for KV cache in tokens after losing a GPU, whose weights the others then hold."""
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
    """Return the host of each GPU if the GPUs of an instance are `stride` hosts apart. Groups of
    `stride` instances of a role interleave their GPUs."""
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
    params: Params,
    rng: Rng,
) -> ServingPlan:
    """Plan a run from the serving parameters. Raises InputError if a request does not fit into an
    instance's KV cache."""
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
    """Return when the last request would end if each request had its instances to itself."""
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


def deployment_of(params: Params, name: str, context: TrafficContext) -> Deployment:
    """Return the deployment that a parameter names. Raises InputError with its key."""
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
