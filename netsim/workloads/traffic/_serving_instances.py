"""The instances of a serving run and their hosts, from its parameters."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from netsim.errors import InputError
from netsim.flows import TrafficContext
from netsim.network import Network
from netsim.params import Param
from netsim.units import format_bytes
from netsim.workloads.inference import Deployment, load_deployment
from netsim.workloads.inference.roofline import weight_bytes
from netsim.workloads.serving.data import DECODE, MIXED, PREFILL
from netsim.workloads.serving.given import check_used
from netsim.workloads.serving.plan import Group, strided
from netsim.workloads.serving.pool import POOLED, WEIGHTS, Pool
from netsim.workloads.serving.workload import LAYERWISE
from netsim.workloads.traffic._options import hosts_of_ranks

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
    Param("pooled", "choice", None, "what is pooled; default: nothing", choices=POOLED),
    Param("pooled_fraction", "fraction", None, "fraction that is pooled; default: all"),
    Param("pool_read_rate", "rate", None, "formula: rate at which a GPU reads from the pool"),
]


def groups_of(params: Mapping[str, Any], context: TrafficContext) -> dict[int, Group]:
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


def _pool(params: Mapping[str, Any]) -> Pool | None:
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


def _groups(params: Mapping[str, Any], context: TrafficContext) -> dict[int, Group]:
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
        if params["kv_transfer"] == LAYERWISE:
            check_used(params, {"kv_transfer": split})
        return {MIXED: Group(MIXED, both, mixed)}
    for name, given in (("prefill_instances", prefill), ("decode_instances", decode)):
        if given is None:
            raise InputError("missing", key=f"traffic.{name}", hint="required with the other one")
    other = both
    if params["decode_deployment"] is not None:
        other = deployment_of(params, "decode_deployment", context)
    check_same_cache(both, other)
    return {PREFILL: Group(PREFILL, both, prefill), DECODE: Group(DECODE, other, decode)}


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


def hosts_of(
    params: Mapping[str, Any],
    groups: Mapping[int, Group],
    network: Network,
    context: TrafficContext,
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
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
    found = hosts_of_ranks(params["placement_file"], context.directory, n, network.n_hosts)
    return found[:gpus], found[gpus:]
