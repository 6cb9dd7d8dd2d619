"""Steps of inference: prefill and decode of a language model, all-reduce by all-reduce.

An instance is `tp` hosts, one GPU each, with a copy of the model (`deployment`). Its iterations
follow each other, without requests: over `batch` prompts of `prompt` tokens (`phase = "prefill"`),
or for one more token of each of `batch` sequences with `context` tokens before it ("decode"; with
`context_grows` one more per iteration). In each layer a GPU computes attention and MLP, as long as
the deployment says, each followed by an all-reduce of the instance's GPUs, kind tp.

`phase = "split"`: as many instances of each phase, prefill first. Instance k of the first half
sends the KV cache of its prompts to instance k of the second, after the iteration or layer by
layer (`kv`), kind kv: each head once, in a message for each two GPUs whose even shares of it
overlap, which are as many as the GPUs of the larger instance if the smaller divides it. A step is
one prefill iteration and `tokens` decode iterations, which wait for the caches of the previous
step. With `tokens = 0` decode instances only receive.

`overlap = "half_batches"`: the batch is cut in two; one half computes while the all-reduce of the
other is in progress, or their all-reduces share the network. Both halves read all weights.
"pieces": each block is computed in `block_chunks` parts in sequence, and one is reduced while the
next compute, as by kernels that send what is done; the next block waits for all. Each half or part
has its own launches (`layer_overhead`); an iteration's other overheads count once.

`pool`: each layer first reads the `pooled_fraction` of its KV cache or weights (`pooled`) from
this many hosts, numbered after the instances, kind pool; a small message, kind control, requests
it at the start of the previous layer (`pool_read = "beside"`) or at its end ("before"). Every GPU
that holds a head reads it. Reads pass through a GPU's own memory, so compute time does not change.

`layers` simulates the first layers. An iteration's compute is spread evenly over its layers, so a
tenth of them takes a tenth of the time.
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
from netsim.workloads.collectives import ALGORITHMS
from netsim.workloads.inference import Deployment, kv_capacity_tokens, load_deployment
from netsim.workloads.operations import CollectiveOptions
from netsim.workloads.traffic import _ranks
from netsim.workloads.traffic._collectives import wires_of
from netsim.workloads.traffic._inference_phases import DECODE, PHASES, PREFILL, Batches
from netsim.workloads.traffic._inference_steps import (
    BLOCKS,
    KINDS,
    Done,
    InferencePhase,
    InferenceSteps,
)
from netsim.workloads.traffic._serving_instances import check_same_cache

AFTER, LAYERS = HAND_OVERS = ("after", "layers")
WEIGHTS, CACHE = ("weights", "kv")
BESIDE, BEFORE = ("beside", "before")
SPLIT = "split"
NONE, HALVES, PIECES = OVERLAPS = ("none", "half_batches", "pieces")
N_PIECES = 4

OF_PACKETS = ("algorithm", "channels", "chunk", "latency")
"""Parameters of all-reduces that are sent."""

TOKENS = 1500
"""Of a prompt or a context where nothing is said."""

MESSAGE_BYTES = 400
"""What a message, or a GPU's piece of work, takes while all is made."""

PARAMS = [
    Param(
        "deployment", "job", REQUIRED, "model and GPUs: a preset, a file, or [traffic.deployment]"
    ),
    Param("decode_deployment", "job", None, "deployment of decode instances; default: the same"),
    Param("phase", "choice", PREFILL, "phases that are simulated", choices=(*PHASES, SPLIT)),
    Param("instances", "count", 1, "instances per phase", minimum=1),
    Param("steps", "count", 1, "steps in sequence", minimum=1),
    Param(
        "batch",
        "count",
        None,
        "prompts or sequences per iteration; default: 1",
        minimum=1,
        each=PHASES,
    ),
    Param("prompt", "count", None, "tokens of each prompt; default: 1500", minimum=1),
    Param(
        "context", "count", None, "tokens before each sequence's next one; default: 1500", minimum=1
    ),
    Param("context_grows", "bool", False, "whether the context grows by one token per iteration"),
    Param("layers", "count", None, "layers that are simulated; default: all", minimum=1),
    Param("overlap", "choice", NONE, "how all-reduces overlap compute", choices=OVERLAPS),
    Param(
        "block_chunks",
        "count",
        None,
        "chunks of a block, with overlap = chunks; default: 4",
        minimum=2,
    ),
    Param(
        "kv",
        "choice",
        None,
        "split: when KV caches are sent; default: after the prompt",
        choices=HAND_OVERS,
    ),
    Param("tokens", "count", None, "split: decode iterations per step; default: 1"),
    Param("pool", "count", 0, "hosts of the memory pool, numbered after the instances"),
    Param("pooled", "choice", None, "what is pooled; default: kv", choices=(CACHE, WEIGHTS)),
    Param("pooled_fraction", "fraction", None, "fraction that is pooled; default: all"),
    Param(
        "pool_read",
        "choice",
        None,
        "when a layer reads from the pool; default: beside the layer before",
        choices=(BESIDE, BEFORE),
    ),
    Param(
        "fidelity",
        "choice",
        "packets",
        "how all-reduces are simulated",
        choices=("packets", "formula"),
    ),
    Param(
        "algorithm",
        "choice",
        None,
        "all-reduce algorithm; default: the deployment's",
        choices=("auto", *ALGORITHMS),
    ),
    Param("channels", "count", None, "channels of an all-reduce; default: 1", minimum=1),
    Param("chunk", "bytes", None, "chunk that is forwarded at a time", minimum="1B"),
    Param(
        "latency",
        "time",
        None,
        "software latency of each all-reduce step; default: the deployment's",
    ),
    Param("classes", "count", 0, "traffic class of messages", each=KINDS, maximum=7),
    *_ranks.PARAMS,
]


def flows(
    params: Mapping[str, Any], network: Network, rng: np.random.Generator, context: TrafficContext
) -> Workload:
    """All steps of all machines: ranks of prefill machines, of decode machines, and of the pool."""
    _check(params)
    batches = _batches(params, context)
    n_machines, steps = params["instances"], params["steps"]
    sizes = [n_machines * one.deployment.tp for one in batches]
    n_ranks = sum(sizes) + params["pool"]
    if n_ranks > network.n_hosts:
        message = f"{n_ranks:,} GPUs and hosts of a pool, and there are {network.n_hosts:,} hosts"
        raise InputError(message, key="traffic.instances", hint="a larger network")
    hosts = _ranks.hosts_of(params, n_ranks, network.n_hosts, context.directory, rng)
    _expect(params, batches)
    work = InferenceSteps(n_ranks)
    first, made = 0, []
    for one, size in zip(batches, sizes, strict=True):
        ranks = first + np.arange(size).reshape(n_machines, -1)
        step = np.repeat(np.arange(steps), one.lengths.size // steps)
        formula = params["fidelity"] == "formula"
        phase = one.phase_of(ranks, step, _how(params, one), by_formula=formula)
        made.append((one, phase, work.add(phase)))
        first += size
    if params["phase"] == SPLIT:
        prefill, decode = (one[1:] for one in made)
        work.hand_over(prefill, decode, batches[0].kv_bytes(), per_layer=params["kv"] == LAYERS)
    if params["pool"]:
        _read_pool(params, work, made, np.arange(first, n_ranks))
    if not work.kinds:
        message = "nothing is sent: machines of one GPU, or all-reduces by formula, and no more"
        raise InputError(message, key="traffic", hint="tp = 2 or more, packets, a split or a pool")
    classes = {kind: params["classes"][kind] for kind in work.kinds}
    try:
        load = work.ops.lower(hosts, classes, network.reduction, wires_of(network, context))
    except InputError as error:
        raise error.at(key="traffic.algorithm") from None
    load = replace(load, notes=(*load.notes, *_notes(params, made)))
    return work.known().add_to(load)


def _check(params: Mapping[str, Any]) -> None:
    """Parameters of what is not done are not given."""
    split, pool, phase = params["phase"] == SPLIT, params["pool"] > 0, params["phase"]
    packets = params["fidelity"] == "packets"
    decode, prefill = 'phase = "decode" or "split"', 'phase = "prefill" or "split"'
    for key, has_effect, hint in (
        ("kv", split, 'phase = "split"'),
        ("tokens", split, 'phase = "split"'),
        ("decode_deployment", split, 'deployment, or phase = "split"'),
        ("prompt", phase != DECODE, prefill),
        ("context", phase != PREFILL, decode),
        ("block_chunks", params["overlap"] == PIECES, 'overlap = "pieces"'),
        ("pooled", pool, "a pool of 1 host or more"),
        ("pooled_fraction", pool, "a pool of 1 host or more"),
        ("pool_read", pool, "a pool of 1 host or more"),
        *((key, packets, 'fidelity = "packets"') for key in OF_PACKETS),
    ):
        if params[key] is not None and not has_effect:
            raise InputError("has no effect here", key=f"traffic.{key}", hint=hint)
    if params["context_grows"] and phase == PREFILL:
        raise InputError(
            "has no effect here", key="traffic.context_grows", hint=decode, code="no_effect"
        )
    for other, value in params["batch"].items():
        # One number is that of both.
        if not split and phase != other and value not in (None, params["batch"][phase]):
            hint = f'batch.{phase}, or phase = "{other}" or "split"'
            raise InputError("has no effect here", key=f"traffic.batch.{other}", hint=hint)
    decodes = phase == DECODE or (split and params["tokens"] != 0)
    if pool and params["pooled"] != WEIGHTS and not decodes:
        message = "prompts read no KV caches"
        raise InputError(message, key="traffic.pooled", hint=f'"weights", or {decode}')
    if params["pooled_fraction"] == 0:
        raise InputError("must be positive", key="traffic.pooled_fraction", hint="or no pool")


def _batches(params: Mapping[str, Any], context: TrafficContext) -> list[Batches]:
    """What the machines of each phase that there is work on."""
    found = []
    split = params["phase"] == SPLIT
    for phase in PHASES if split else (params["phase"],):
        decodes = phase == DECODE
        key = "decode_deployment" if decodes and params["decode_deployment"] else "deployment"
        deployment = _deployment(params, key, context)
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
                pieces=(params["block_chunks"] or N_PIECES) if params["overlap"] == PIECES else 1,
            )
        )
        _check_room(params, found[-1])
    if split:
        check_same_cache(*(one.deployment for one in found))
    return found


def _deployment(params: Mapping[str, Any], key: str, context: TrafficContext) -> Deployment:
    given = params[key]
    try:
        found = load_deployment(given, context.directory)
    except InputError as error:
        where = f"traffic.{key}"
        raise (error.under(where) if isinstance(given, Mapping) else error.at(key=where)) from None
    if not found.options.tp:
        where = f"traffic.{key}.options.tp"
        raise InputError("must be given", key=where, hint="how many GPUs a machine has")
    return found


def _rows(params: Mapping[str, Any], phase: str) -> NDArray[np.int64]:
    """The batch of a phase, or its two halves."""
    rows = params["batch"][phase] or 1
    if params["overlap"] != HALVES:
        return np.array([rows])
    if rows < 2:
        key = f"traffic.batch.{phase}"
        raise InputError("a batch of 1 has no halves", key=key, hint='2, or overlap = "none"')
    return np.array([(rows + 1) // 2, rows // 2])


def _layers(params: Mapping[str, Any], deployment: Deployment) -> int:
    """How many layers are simulated."""
    layers, there_are = params["layers"], deployment.model.layers
    if layers is not None and layers > there_are:
        message = f"{deployment.name} has {there_are:,} layers"
        raise InputError(message, key="traffic.layers", hint=f"1 to {there_are:,}")
    return layers or there_are


def _check_room(params: Mapping[str, Any], batches: Batches) -> None:
    """Keys and values of a batch have to fit, but for what a pool holds, and their numbers too."""
    key = f"traffic.batch.{batches.phase}"
    longest = int(batches.lengths.max(initial=0))
    tokens = int(batches.rows.sum()) * longest
    n_bytes, time_ps = batches.most(longest)
    if n_bytes >= TRAFFIC_BYTES or time_ps >= HORIZON_PS:
        message = f"keys and values of {tokens:,} tokens are more than can be simulated"
        hint = f"{n_bytes:.3g} bytes, an iteration of {time_ps / 1e12:.3g} s"
        raise InputError(message, key=key, hint=hint)
    share = 1.0
    if params["pool"] and params["pooled"] != WEIGHTS and batches.phase == DECODE:
        share -= 1.0 if params["pooled_fraction"] is None else params["pooled_fraction"]
    most = kv_capacity_tokens(batches.deployment)
    if tokens * share > most:
        raise InputError(
            f"keys and values of {tokens:,} tokens do not fit beside the weights",
            key=key,
            hint=f"{most:,} tokens do: a smaller batch, or more GPUs",
        )


def _expect(params: Mapping[str, Any], batches: Sequence[Batches]) -> None:
    """Announce how much is about to be made."""
    n = 0
    for one in batches:
        tp = one.deployment.tp
        channels = params["channels"] or 1
        sends = 1 if params["fidelity"] == "formula" else 4 * (tp - 1) * channels
        blocks = one.lengths.size * one.layers * BLOCKS * one.rows.size * one.pieces
        n += params["instances"] * tp * blocks * (1 + sends)
    require_room(n * MESSAGE_BYTES, what=f"about {n:,} operations", key="traffic.layers")


def _how(params: Mapping[str, Any], batches: Batches) -> CollectiveOptions:
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
    made: Sequence[tuple[Batches, InferencePhase, Done]],
    pool: NDArray[np.int64],
) -> None:
    """Reads of all machines that read what the pool holds."""
    share = 1.0 if params["pooled_fraction"] is None else params["pooled_fraction"]
    beside = params["pool_read"] != BEFORE
    for batches, phase, done in made:
        if params["pooled"] == WEIGHTS:
            n_bytes = batches.layer_weight_bytes()
        elif batches.phase == DECODE:
            n_bytes = batches.layer_kv_bytes()
        else:
            continue
        sizes = np.repeat(np.ceil(n_bytes * share).astype(np.int64), batches.layers)
        work.read_pool((phase, done), pool, sizes, beside=beside)


def _notes(
    params: Mapping[str, Any], made: Sequence[tuple[Batches, InferencePhase, Done]]
) -> list[str]:
    """What is done, and what it stands for."""
    found = []
    for batches, phase, _ in made:
        n, of, rows = len(phase.ranks), batches.deployment, int(batches.rows.sum())
        who = f"{n:,} {batches.phase} machine{'s' * (n != 1)} of {of.tp:,} GPUs, {of.name}"
        if not batches.lengths.size:
            found.append(f"{who}: they do nothing but receive.")
            continue
        batch = f"{rows:,} prompt{'s' * (rows != 1)} of {batches.lengths[0]:,} tokens"
        if batches.phase == DECODE:
            batch = f"{rows:,} sequence{'s' * (rows != 1)} with contexts of {batches.lengths[0]:,}"
        times = batches.lengths.size
        found.append(f"{who}: {times:,} iteration{'s' * (times != 1)} over {batch}.")
        computing, sending = (format_time(one, 4) for one in batches.formula_ps())
        found.append(
            f"By formula {batches.phase} computes for {computing} in the first one, all "
            f"{of.model.layers:,} layers, and its all-reduces take {sending}."
        )
        whole = of.model.layers
        if batches.layers < whole:
            found.append(
                f"{batches.layers:,} of {whole:,} layers are simulated: times and bytes of an "
                f"iteration are {whole / batches.layers:,.4g} times as much."
            )
    if params["fidelity"] == "formula":
        found.append("All-reduces are timed by formula, send no packets and disturb nobody.")
    return found
