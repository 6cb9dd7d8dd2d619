"""Serving of a language model: instances of GPUs answer requests, token by token.

An instance is `tp` hosts, one GPU each, with one copy of the model of a `deployment`. `instances`
both prefill and decode; `prefill_instances` and `decode_instances` split the phases, and the KV
cache of each prompt is sent from one to the other. Each iteration computes one token for every
decoding sequence and as many waiting prompts, in order of arrival, as `token_budget`, `max_batch`
and the KV cache allow; the deployment's cost model gives its time. It is a program: iterations form
during the run. docs/serving.md describes requests, transfers, pools, failures and results.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from netsim.errors import InputError
from netsim.flows import Rng, TrafficContext, Workload
from netsim.model.columns import Ints
from netsim.network import Network
from netsim.params import REQUIRED, Param, Params
from netsim.units import format_bytes, format_time
from netsim.workloads.collectives import ALGORITHMS, hops_of
from netsim.workloads.collectives.steps import WHOLE_PACKETS, CollectiveOptions
from netsim.workloads.inference.deployment import weight_bytes
from netsim.workloads.serving import instance, workload
from netsim.workloads.serving.failures import (
    FAILURE_PARAMS,
    check_shrunk,
    failures_of,
    transitions_of,
)
from netsim.workloads.serving.instance import HOST_STATE, TASK_STATE, TIMERS
from netsim.workloads.serving.plan import (
    DECODE,
    DISPATCH,
    LOG,
    MIXED,
    POOLED,
    PREFILL,
    REQUEST_PARAMS,
    ROLES,
    WEIGHTS,
    Group,
    Pool,
    Requests,
    ServingInstances,
    check_same_cache,
    check_used,
    deployment_of,
    draw_requests,
    place_instances,
    plan_of,
    strided,
)
from netsim.workloads.serving.workload import KINDS, ListedIterations
from netsim.workloads.traffic._options import placement_of, wires_of

__all__ = ["HOST_STATE", "LOG", "TASK_STATE", "TIMERS"]

INSTANCE_PARAMS = [
    Param("instances", "count", None, "instances for both phases", minimum=1),
    Param("prefill_instances", "count", None, "instances that prefill", minimum=1),
    Param("decode_instances", "count", None, "instances that decode", minimum=1),
    Param("decode_deployment", "job", None, "deployment of decode instances; default: the same"),
    Param("gpu_stride", "count", 1, "distance in hosts between GPUs of an instance", minimum=1),
    Param("placement_file", "file", None, "CSV file with the columns rank and host"),
]

POOL_PARAMS = [
    Param("pool_hosts", "count", None, "hosts of the memory pool, after the instances", minimum=1),
    Param("pooled", "choice", None, "pooled data; default: none", choices=POOLED),
    Param("pooled_fraction", "fraction", None, "fraction that is pooled; default: all"),
    Param("pool_read_rate", "rate", None, "formula: rate at which a GPU reads from the pool"),
]

WITH_TASKS = 4  # memory to create a flow and its two tasks, in flows

PARAMS = [
    Param("deployment", "job", REQUIRED, "model and GPUs: a preset, a file, or a table"),
    *INSTANCE_PARAMS,
    *REQUEST_PARAMS,
    Param("dispatch", "choice", DISPATCH[0], "how requests are assigned", choices=DISPATCH),
    Param("token_budget", "count", 2048, "maximum tokens of an iteration", minimum=1),
    Param("chunked", "bool", True, "whether a prompt may be split over iterations"),
    Param("max_batch", "count", 256, "maximum sequences of an instance", minimum=1),
    Param("kv_transfer", "choice", workload.AFTER_PREFILL,
          "when KV caches are sent: after the prompt, or layer by layer",
          choices=(workload.AFTER_PREFILL, workload.LAYERWISE)),
    Param("kv_layer_groups", "count", None, "layerwise: number of parts; default: 8", minimum=2),
    Param("control_message_size", "bytes", "256B",
          "size of a control message between GPUs of an instance", minimum="1B"),
    Param("all_reduces", "choice", "formula", "whether all-reduces are timed by a formula or sent",
          choices=("formula", "packets")),
    Param("all_reduces_per_iteration", "count", None,
          "packets: all-reduces simulated per iteration, in place of all; default: 2", minimum=1),
    Param("max_iterations", "count", None, "packets: maximum of an instance; default: 100",
          minimum=1),
    Param("algorithm", "choice", None, "packets: all-reduce algorithm; default: the deployment's",
          choices=tuple(name for name in ALGORITHMS if name != "in_network")),
    Param("latency", "time", None, "packets: software latency of a step; default: deployment's"),
    *POOL_PARAMS,
    Param("slo_ttft", "time", None, "SLO: time to first token"),
    Param("slo_tbt", "time", None, "SLO: time between tokens, for 99 % of a request's gaps"),
    Param("stall", "ratio", 10.0,
          "SLO: longest gap of a request, in multiples of slo_tbt; none: unlimited", minimum=1,
          optional=True),
    *FAILURE_PARAMS,
    Param("classes", "count", 0, "traffic class of messages", each=KINDS, maximum=7),
]  # fmt: skip


def flows(params: Params, network: Network, rng: Rng, context: TrafficContext) -> Workload:
    """Generate requests, instances, and everything they may send. The router and failures have
    their own random generators, independent of the other draws."""
    of_router, of_failures = rng.spawn(2)
    groups = groups_of(params, context)
    parts = workload.kv_parts_of(params)
    hosts, pool = hosts_of(params, groups, network, context)
    drawn = draw_requests(params, rng, context.directory)
    instances = place_instances(groups, hosts)
    listed = _slots(params, groups, drawn.requests, instances, network, context)
    later = int((drawn.requests.output_tokens > 1).sum())
    context.reserve(WITH_TASKS * later * _flows_of_request(groups, parts), key="traffic.requests")
    plan = plan_of(groups, instances, drawn, params, of_router)
    last_ps = int(drawn.requests.arrival_ps[-1])
    outages = failures_of(params, plan.instances.size, last_ps, of_failures, context.directory)
    check_shrunk(outages, groups.values(), of_file=params["failure_trace"] is not None)
    if listed and len(outages):
        message = "conflicts with failures"
        raise InputError(message, key="traffic.all_reduces", hint='"formula"')
    workload.check_iterations(plan, listed, params["token_budget"] if params["chunked"] else None)
    transitions = transitions_of(outages)
    load = workload.workload_of(plan, groups, params, network.n_hosts, (listed, pool), transitions)
    return replace(load, notes=(*drawn.notes, *_notes(groups, listed)))


def groups_of(params: Params, context: TrafficContext) -> dict[int, Group]:
    """Return the instances of each role, with the memory pool."""
    groups, pool = _groups(params, context), _pool(params)
    if pool is None:
        return groups
    if pool.hosts and pool.of == WEIGHTS:
        one = max((group.deployment for group in groups.values()), key=weight_bytes)
        need = pool.share * weight_bytes(one) * one.tp
        have = pool.hosts * one.machine.memory * one.options.memory_share
        if need > have:
            told = f"{format_bytes(round(need), 3)} of weights, {format_bytes(have, 3)} of memory"
            raise InputError(
                f"the memory pool is too small: {told}", key="traffic.pool_hosts", hint="more hosts"
            )
    of_cache = (MIXED, DECODE)
    return {
        role: replace(one, pool=pool) if pool.of == WEIGHTS or role in of_cache else one
        for role, one in groups.items()
    }


def _pool(params: Params) -> Pool | None:
    of, sent = params["pooled"], params["all_reduces"] == "packets"
    uses = {
        "pool_hosts": (of is not None and sent, 'pooled and all_reduces = "packets"'),
        "pool_read_rate": (of is not None and not sent, 'pooled and all_reduces = "formula"'),
        "pooled_fraction": (of is not None, "pooled"),
    }
    check_used(params, uses, optional=("pooled_fraction",))
    share = 1.0 if params["pooled_fraction"] is None else params["pooled_fraction"]
    if share == 0:
        raise InputError("must be positive", key="traffic.pooled_fraction", hint="or no pooled")
    if of is None:
        return None
    return Pool(of, share, params["pool_hosts"] or 0, params["pool_read_rate"] or 0)


def _groups(params: Params, context: TrafficContext) -> dict[int, Group]:
    mixed, prefill, decode = (
        params[name] for name in ("instances", "prefill_instances", "decode_instances")
    )
    if (mixed is None) == (prefill is None and decode is None):
        hint = "give instances, or prefill_instances and decode_instances"
        problem = "missing" if mixed is None else "conflicts with prefill_instances"
        raise InputError(problem, key="traffic.instances", hint=hint)
    both = deployment_of(params, "deployment", context)
    if mixed is not None:
        split = (False, "prefill_instances and decode_instances")
        check_used(params, dict.fromkeys(("decode_deployment", "kv_layer_groups"), split))
        if params["kv_transfer"] == workload.LAYERWISE:
            check_used(params, {"kv_transfer": split})
        return {MIXED: Group(MIXED, both, mixed)}
    for name, given in (("prefill_instances", prefill), ("decode_instances", decode)):
        if given is None:
            raise InputError("missing", key=f"traffic.{name}", hint="required with the other")
    other = both
    if params["decode_deployment"] is not None:
        other = deployment_of(params, "decode_deployment", context)
    check_same_cache(both, other)
    return {PREFILL: Group(PREFILL, both, prefill), DECODE: Group(DECODE, other, decode)}


def hosts_of(
    params: Params,
    groups: Mapping[int, Group],
    network: Network,
    context: TrafficContext,
) -> tuple[Ints, Ints]:
    """Return the host of each GPU, instance by instance, and the pool's hosts."""
    gpus = sum(group.n * group.deployment.tp for group in groups.values())
    n = gpus + (params["pool_hosts"] or 0)
    if n > network.n_hosts:
        what = "GPUs and hosts of a pool" if params["pool_hosts"] else "GPUs"
        message = f"{n:,} {what} exceed the network's {network.n_hosts:,} hosts"
        raise InputError(message, key="traffic.deployment", hint="fewer instances, or more hosts")
    if params["placement_file"] is None:
        return strided(groups, params["gpu_stride"]), np.arange(gpus, n)
    if params["gpu_stride"] != 1:
        raise InputError("has no effect with a placement_file", key="traffic.gpu_stride")
    found = placement_of(n, params["placement_file"], context.directory, network.n_hosts)
    return found[:gpus], found[gpus:]


def _slots(
    params: Params,
    groups: Mapping[int, Group],
    requests: Requests,
    placed: ServingInstances,
    network: Network,
    context: TrafficContext,
) -> dict[int, ListedIterations]:
    """Return the declared iterations of each role; empty for analytic all-reduces."""
    if params["all_reduces"] == "formula":
        names = ("all_reduces_per_iteration", "max_iterations", "algorithm", "latency")
        check_used(params, dict.fromkeys(names, (False, 'all_reduces = "packets"')))
        return {}
    found, n_flows = {}, 0
    wires = wires_of(network, context)
    for role, group in groups.items():
        one = group.deployment
        if one.tp == 1 or one.options.overlap:
            message = f"{one.name} " + ("has none" if one.tp == 1 else "overlaps them with compute")
            hint = '"formula"; "packets" needs all-reduces that alternate with compute'
            raise InputError(message, key="traffic.all_reduces", hint=hint)
        latency = params["latency"]
        how = CollectiveOptions(
            algorithm=params["algorithm"] or one.options.all_reduce,
            latency_ps=one.overheads.step_latency if latency is None else latency,
        )
        hops = hops_of("all_reduce", one.tp, WHOLE_PACKETS, how)
        hosts = placed.of(np.flatnonzero(placed.role == role))
        batch = min(params["max_batch"], len(requests))
        prompts = params["token_budget"]
        if not params["chunked"]:
            prompts = max(prompts, int(requests.prompt_tokens.max())) + batch
        found[role] = ListedIterations(
            n_iterations=params["max_iterations"] or 100,
            groups=params["all_reduces_per_iteration"] or 2,
            how=how,
            max_rows=batch if role == DECODE else max(prompts, batch),
            max_batch=0 if role == PREFILL else batch,
            control_bytes=params["control_message_size"],
            ways=tuple(wires.wire(hops, own) for own in hosts),
        )
        workload.reduces_merged(group, found[role])
        n_flows += (
            group.n * found[role].n_iterations * workload.flows_of_iteration(group, found[role])
        )
    context.reserve(WITH_TASKS * n_flows, key="traffic.max_iterations")
    return found


def _notes(groups: Mapping[int, Group], listed: Mapping[int, ListedIterations]) -> list[str]:
    told = []
    for role, one in listed.items():
        merged = workload.reduces_merged(groups[role], one)
        if merged > 1:
            each = workload.left_out_ps(groups[role], one)
            least, most = (format_time(int(time_ps), 3) for time_ps in (each.min(), each.max()))
            latency = least if least == most else f"{least} to {most}"
            told.append(
                f"{ROLES[role]} instances: each simulated all-reduce represents {merged}, with the "
                f"bytes of all and {latency} for the latency of the others"
            )
    return told


def _flows_of_request(groups: Mapping[int, Group], parts: int) -> int:
    if MIXED in groups:
        return 0
    tp, other = (groups[role].deployment.tp for role in (PREFILL, DECODE))
    return parts * (workload.flows_between(tp, other) + tp - 1) + other - 1


def on_begin(env, now):
    """Set the timer of the first transition at leaders."""
    if env.host.role > 0:
        instance.schedule_transition(env, now)


def on_task(env, now, task):
    """Handle an arrival, a sent KV-cache part, or the end of an exchange between GPUs."""
    if task.role == instance.REQUEST:
        instance.accept_request(env, now, task)
    elif task.role == instance.KV_SENT:
        instance.end_kv_transfer(env, now, task)
    elif task.role == instance.REDUCED:
        instance.end_all_reduce(env, now)
    elif task.role == instance.ANNOUNCED:
        instance.iteration_announced(env, now)
    elif task.role == instance.POOL_REQUEST:
        instance.answer_pool_read(env, now, task)
    elif task.role == instance.POOL_READ:
        instance.end_pool_read(env, now)


def on_timer(env, now, k):
    """Handle the begin or end of an iteration or of part of one, or a transition."""
    if k == instance.BEGIN:
        instance.begin_iteration(env, now)
    elif k == instance.END:
        if env.host.n_groups > 0:
            instance.end_computation(env, now)
        else:
            instance.end_iteration(env, now)
    elif k == instance.PART:
        instance.send_next_part(env, now)
    elif k == instance.TRANSITION_TIMER:
        instance.apply_transition(env, now)
