"""Iterations of inference: prefill and decode of a language model, all-reduce by all-reduce.

An instance is `tp` hosts, one GPU each, that hold one copy of the model (`deployment`). Its
iterations run back to back, without requests. An iteration processes `batch` prompts of `prompt`
tokens (`phase = "prefill"`), or generates one token for each of `batch` sequences with `context`
tokens before it ("decode"; `context_grows` adds one per iteration). In each layer a GPU computes
attention and MLP; the deployment gives the compute times. An all-reduce of the instance's GPUs
(kind tp) follows each of them.

`phase = "split"`: equally many prefill and decode instances, prefill first. Each prefill instance
sends the KV cache of its prompts to the decode instance of the same index (kind kv), after the
iteration or layer by layer (`kv_transfer`). The cache is partitioned evenly over the GPUs of an
instance; a message goes between each two GPUs whose shards overlap. A step is one prefill iteration
and `tokens` decode iterations; those wait for the caches of the previous step. With `tokens = 0`,
decode instances only receive.

`overlap = "half_batches"`: the batch is split in two; one half computes during the all-reduce of
the other. Their all-reduces may share the network, and each half reads all weights. "chunks": each
block is computed in `block_chunks` chunks; each is reduced while the next ones compute, and the
next block waits for all. Every half or chunk has its own kernel launches (`layer_overhead`); other
overheads count once per iteration.

`pool_hosts`: before each layer, GPUs read the `pooled_fraction` of its KV cache or weights
(`pooled`) from these hosts (kind pool). A small message (kind control) requests it at the start of
the previous layer (`pool_read = "prefetch"`) or at its end ("on_demand"). Every GPU that holds a
head reads it. Data pass through GPU memory, so compute times do not change.

`layers` simulates only the first layers. Compute is spread evenly over layers, so a tenth of them
takes a tenth of the time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from netsim.errors import InputError
from netsim.flows import TrafficContext, Workload
from netsim.limits import HORIZON_PS, TRAFFIC_BYTES
from netsim.memory import require_room
from netsim.network import Network
from netsim.params import REQUIRED, Param
from netsim.units import format_time
from netsim.workloads.inference import Deployment, kv_capacity_tokens
from netsim.workloads.operations import CollectiveOptions
from netsim.workloads.serving.given import check_used
from netsim.workloads.traffic import _placement
from netsim.workloads.traffic._collectives import CHOICES, wires_of
from netsim.workloads.traffic._inference_steps import (
    BLOCKS,
    DECODE,
    KINDS,
    PHASES,
    PREFILL,
    Batches,
    InferencePhase,
    InferenceSteps,
)
from netsim.workloads.traffic._serving_instances import check_same_cache, deployment_of

AFTER_PREFILL, LAYERWISE = KV_TRANSFERS = ("after_prefill", "layerwise")
WEIGHTS, CACHE = ("weights", "kv")
PREFETCH, ON_DEMAND = POOL_READS = ("prefetch", "on_demand")
SPLIT = "split"
NONE, HALVES, CHUNKS = OVERLAPS = ("none", "half_batches", "chunks")
N_CHUNKS = 4

PACKETS, FORMULA = FIDELITIES = ("packets", "formula")

NO_EFFECT = "has no effect here"

PACKET_KEYS = ("algorithm", "channels", "chunk", "latency")
"""Parameters that need all-reduces in packets."""

TOKENS = 1500
"""Default length of a prompt or a context."""

MESSAGE_BYTES = 400
"""Estimated memory of one operation while the traffic is built."""

PARAMS = [
    Param("deployment", "job", REQUIRED, "model and GPUs: preset, file, or [traffic.deployment]"),
    Param("decode_deployment", "job", None, "deployment of decode instances; default: the same"),
    Param("phase", "choice", PREFILL, "simulated phases", choices=(*PHASES, SPLIT)),
    Param("instances", "count", 1, "instances per phase", minimum=1),
    Param("steps", "count", 1, "steps in sequence", minimum=1),
    Param("batch", "count", None, "prompts or sequences; default: 1", minimum=1, each=PHASES),
    Param("prompt", "count", None, "tokens of each prompt; default: 1500", minimum=1),
    Param("context", "count", None, "tokens before the next one; default: 1500", minimum=1),
    Param("context_grows", "bool", False, "whether the context grows by one token per iteration"),
    Param("layers", "count", None, "simulated layers; default: all", minimum=1),
    Param("overlap", "choice", NONE, "how all-reduces overlap compute", choices=OVERLAPS),
    Param("block_chunks", "count", None, "overlap = chunks: per block; default: 4", minimum=2),
    Param(
        "kv_transfer",
        "choice",
        None,
        "split: when KV caches are sent; default: after_prefill",
        choices=KV_TRANSFERS,
    ),
    Param("tokens", "count", None, "split: decode iterations per step; default: 1"),
    Param("pool_hosts", "count", 0, "hosts of the memory pool, numbered after the instances"),
    Param("pooled", "choice", None, "what is pooled; default: kv", choices=(CACHE, WEIGHTS)),
    Param("pooled_fraction", "fraction", None, "fraction that is pooled; default: all"),
    Param(
        "pool_read",
        "choice",
        None,
        "when a layer requests its read from the pool; default: prefetch",
        choices=POOL_READS,
    ),
    Param("fidelity", "choice", PACKETS, "how all-reduces are simulated", choices=FIDELITIES),
    Param(
        "algorithm",
        "choice",
        None,
        "all-reduce algorithm; default: the deployment's",
        choices=CHOICES,
    ),
    Param("channels", "count", None, "channels of an all-reduce; default: 1", minimum=1),
    Param("chunk", "bytes", None, "forwarding unit; default: whole messages", minimum="1B"),
    Param("latency", "time", None, "software latency of a step; default: the deployment's"),
    Param("classes", "count", 0, "traffic class of messages", each=KINDS, maximum=7),
    *_placement.PARAMS,
]


def flows(
    params: Mapping[str, Any], network: Network, rng: np.random.Generator, context: TrafficContext
) -> Workload:
    """Return all steps. Ranks are those of prefill instances, decode instances, and the pool."""
    _check(params)
    batches = _batches(params, context)
    n_instances, steps = params["instances"], params["steps"]
    sizes = [n_instances * one.deployment.tp for one in batches]
    n_ranks = sum(sizes) + params["pool_hosts"]
    if n_ranks > network.n_hosts:
        message = f"{n_ranks:,} GPUs and pool hosts exceed the {network.n_hosts:,} hosts"
        raise InputError(message, key="traffic.instances", hint="use a larger network")
    hosts = _placement.hosts_of(params, n_ranks, network.n_hosts, context.directory, rng)
    _require_memory(params, batches)
    work = InferenceSteps(n_ranks)
    first, made = 0, []
    for one, size in zip(batches, sizes, strict=True):
        ranks = first + np.arange(size).reshape(n_instances, -1)
        step = np.repeat(np.arange(steps), one.lengths.size // steps)
        formula = params["fidelity"] == FORMULA
        phase = one.phase_of(ranks, step, _collective_options(params, one), by_formula=formula)
        work.add(phase)
        made.append((one, phase))
        first += size
    if params["phase"] == SPLIT:
        layerwise = params["kv_transfer"] == LAYERWISE
        work.send_caches(made[0][1], made[1][1], batches[0].kv_bytes(), per_layer=layerwise)
    if params["pool_hosts"]:
        _read_pool(params, work, made, np.arange(first, n_ranks))
    if not work.kinds:
        message = "sends nothing: instances have one GPU, or all-reduces are by formula"
        hint = 'use tp = 2 or more, fidelity = "packets", phase = "split" or pool_hosts'
        raise InputError(message, key="traffic", hint=hint)
    classes = {kind: params["classes"][kind] for kind in work.kinds}
    try:
        load = work.ops.lower(hosts, classes, network.reduction, wires_of(network, context))
    except InputError as error:
        raise error.at(key="traffic.algorithm") from None
    load = replace(load, notes=(*load.notes, *_notes(params, made)))
    return work.job_steps().add_to(load)


def _check(params: Mapping[str, Any]) -> None:
    """Raise InputError for parameters without effect."""
    split, pool, phase = params["phase"] == SPLIT, params["pool_hosts"] > 0, params["phase"]
    packets = params["fidelity"] == PACKETS
    decode, prefill = 'phase = "decode" or "split"', 'phase = "prefill" or "split"'
    with_pool = (pool, "pool_hosts")
    effects = {
        **dict.fromkeys(("kv_transfer", "tokens", "decode_deployment"), (split, 'phase = "split"')),
        "prompt": (phase != DECODE, prefill),
        "context": (phase != PREFILL, decode),
        "block_chunks": (params["overlap"] == CHUNKS, 'overlap = "chunks"'),
        **dict.fromkeys(("pooled", "pooled_fraction", "pool_read"), with_pool),
        **dict.fromkeys(PACKET_KEYS, (packets, 'fidelity = "packets"')),
    }
    check_used(params, effects, optional=effects)
    if params["context_grows"] and phase == PREFILL:
        raise InputError(NO_EFFECT, key="traffic.context_grows", hint=decode, code="no_effect")
    for other, value in params["batch"].items():
        # One number sets both phases.
        if not split and phase != other and value not in (None, params["batch"][phase]):
            hint = f'batch.{phase}, or phase = "{other}" or "split"'
            key = f"traffic.batch.{other}"
            raise InputError(NO_EFFECT, key=key, hint=hint, code="no_effect")
    decodes = phase == DECODE or (split and params["tokens"] != 0)
    if pool and params["pooled"] != WEIGHTS and not decodes:
        message = "prefill does not read the KV cache"
        raise InputError(message, key="traffic.pooled", hint=f'use "weights", or {decode}')
    if params["pooled_fraction"] == 0:
        raise InputError(
            "must be positive", key="traffic.pooled_fraction", hint="or remove pool_hosts"
        )


def _batches(params: Mapping[str, Any], context: TrafficContext) -> list[Batches]:
    """Return the batches of each phase."""
    found = []
    split = params["phase"] == SPLIT
    for phase in PHASES if split else (params["phase"],):
        decodes = phase == DECODE
        key = "decode_deployment" if decodes and params["decode_deployment"] else "deployment"
        deployment = deployment_of(params, key, context)
        n = params["steps"]
        if split and decodes and params["tokens"] is not None:
            n *= params["tokens"]
        length = params["context" if decodes else "prompt"] or TOKENS
        require_room(n * MESSAGE_BYTES, what=f"{n:,} iterations", key="traffic.steps")
        found.append(
            Batches(
                phase=phase,
                deployment=deployment,
                rows=_rows(params, phase),
                lengths=length + np.arange(n) * (decodes and params["context_grows"]),
                layers=_layers(params, deployment),
                chunks=(params["block_chunks"] or N_CHUNKS) if params["overlap"] == CHUNKS else 1,
            )
        )
        _check_capacity(params, found[-1])
    if split:
        check_same_cache(*(one.deployment for one in found))
    return found


def _rows(params: Mapping[str, Any], phase: str) -> NDArray[np.int64]:
    """Return the batch of a phase, or its two halves."""
    rows = params["batch"][phase] or 1
    if params["overlap"] != HALVES:
        return np.array([rows])
    if rows < 2:
        key = f"traffic.batch.{phase}"
        raise InputError("cannot split a batch of 1", key=key, hint='2, or overlap = "none"')
    return np.array([(rows + 1) // 2, rows // 2])


def _layers(params: Mapping[str, Any], deployment: Deployment) -> int:
    """Return the number of simulated layers."""
    layers, largest = params["layers"], deployment.model.layers
    if layers is not None and layers > largest:
        message = f"{deployment.name} has {largest:,} layers"
        raise InputError(message, key="traffic.layers", hint=f"1 to {largest:,}")
    return layers or largest


def _check_capacity(params: Mapping[str, Any], batches: Batches) -> None:
    """Raise InputError if a batch's KV cache exceeds GPU memory, or the simulator's limits."""
    key = f"traffic.batch.{batches.phase}"
    longest = int(batches.lengths.max(initial=0))
    tokens = int(batches.rows.sum()) * longest
    n_bytes, time_ps = batches.largest(longest)
    if n_bytes >= TRAFFIC_BYTES or time_ps >= HORIZON_PS:
        message = f"a KV cache of {tokens:,} tokens exceeds the simulator's limits"
        hint = f"{n_bytes:.3g} bytes, an iteration of {time_ps / 1e12:.3g} s"
        raise InputError(message, key=key, hint=hint)
    share = 1.0
    if params["pool_hosts"] and params["pooled"] != WEIGHTS and batches.phase == DECODE:
        share -= 1.0 if params["pooled_fraction"] is None else params["pooled_fraction"]
    largest = kv_capacity_tokens(batches.deployment)
    if tokens * share > largest:
        raise InputError(
            f"a KV cache of {tokens:,} tokens exceeds the memory left by the weights",
            key=key,
            hint=f"at most {largest:,} tokens: use a smaller batch, or more GPUs",
        )


def _require_memory(params: Mapping[str, Any], batches: Sequence[Batches]) -> None:
    """Raise InputError if the operations would exceed memory."""
    n = 0
    for one in batches:
        tp = one.deployment.tp
        channels = params["channels"] or 1
        sends = 1 if params["fidelity"] == FORMULA else 4 * (tp - 1) * channels
        blocks = one.lengths.size * one.layers * BLOCKS * one.rows.size * one.chunks
        n += params["instances"] * tp * blocks * (1 + sends)
    require_room(n * MESSAGE_BYTES, what=f"about {n:,} operations", key="traffic.layers")


def _collective_options(params: Mapping[str, Any], batches: Batches) -> CollectiveOptions:
    deployment, latency = batches.deployment, params["latency"]
    return CollectiveOptions(
        algorithm=params["algorithm"] or deployment.options.all_reduce,
        chunk_bytes=params["chunk"],
        channels=params["channels"] or 1,
        latency_ps=deployment.overheads.step_latency if latency is None else latency,
    )


def _read_pool(
    params: Mapping[str, Any],
    work: InferenceSteps,
    made: Sequence[tuple[Batches, InferencePhase]],
    pool: NDArray[np.int64],
) -> None:
    """Add the reads of all instances that use the pool."""
    share = 1.0 if params["pooled_fraction"] is None else params["pooled_fraction"]
    prefetch = params["pool_read"] != ON_DEMAND
    for batches, phase in made:
        if params["pooled"] == WEIGHTS:
            n_bytes = batches.layer_weight_bytes()
        elif batches.phase == DECODE:
            n_bytes = batches.layer_kv_bytes()
        else:
            continue
        sizes = np.repeat(np.ceil(n_bytes * share).astype(np.int64), batches.layers)
        work.read_pool(phase, pool, sizes, prefetch=prefetch)


def _notes(params: Mapping[str, Any], made: Sequence[tuple[Batches, InferencePhase]]) -> list[str]:
    """Describe the instances and the simulated layers."""
    found = []
    for batches, phase in made:
        n, of, rows = len(phase.ranks), batches.deployment, int(batches.rows.sum())
        who = f"{n:,} {batches.phase} instance{'s' * (n != 1)} of {of.tp:,} GPUs, {of.name}"
        if not batches.lengths.size:
            found.append(f"{who}: receive only.")
            continue
        batch = f"{rows:,} prompt{'s' * (rows != 1)} of {batches.lengths[0]:,} tokens"
        if batches.phase == DECODE:
            batch = f"{rows:,} sequence{'s' * (rows != 1)} with contexts of {batches.lengths[0]:,}"
        times = batches.lengths.size
        found.append(f"{who}: {times:,} iteration{'s' * (times != 1)} over {batch}.")
        computing, sending = (format_time(one, 4) for one in batches.formula_ps())
        found.append(
            f"First iteration by formula, all {of.model.layers:,} layers: {computing} of compute, "
            f"{sending} of all-reduces."
        )
        whole = of.model.layers
        if batches.layers < whole:
            found.append(
                f"{batches.layers:,} of {whole:,} layers are simulated: multiply times and bytes "
                f"by {whole / batches.layers:,.4g}."
            )
    if params["fidelity"] == FORMULA:
        found.append("All-reduces are timed by formula and send no packets.")
    return found
