"""Iterations of inference: prefill and decode of a language model, all-reduce by all-reduce.

An instance is `tp` hosts, one GPU each, that hold one copy of the model (`deployment`). Its
iterations run back to back, without requests. An iteration processes `batch` prompts of `prompt`
tokens (`phase = "prefill"`), or generates one token for each of `batch` sequences with `context`
tokens before it ("decode"; `context_grows` adds one per iteration). In each layer a GPU computes
attention and MLP; the deployment gives the compute times. An all-reduce of the instance's GPUs
(kind tp) follows each of them.

`phase = "split"`: as many prefill as decode instances, prefill first. Each prefill instance sends
the KV cache of its prompts to the decode instance of the same index (kind kv), after the iteration
or layer by layer (`kv_transfer`). The cache is partitioned evenly over the GPUs of an instance; a
message goes between each two GPUs whose shards overlap. A step is one prefill iteration and
`tokens` decode iterations, which wait for the caches of the previous step. With `tokens = 0`,
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

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from netsim.common.memory import require_room
from netsim.errors import InputError, errors_at
from netsim.flows import Rng, TrafficContext, Workload
from netsim.limits import HORIZON_PS, TRAFFIC_BYTES
from netsim.model.columns import Ints
from netsim.network import Network
from netsim.params import REQUIRED, Param, Params
from netsim.units import format_time
from netsim.workloads.collectives.steps import cut
from netsim.workloads.inference.deployment import (
    Deployment,
    IterationCost,
    all_reduce_bytes,
    compute_ps,
    gpu_parameters,
    iteration_cost,
    kv_bytes_of_token,
    kv_capacity_tokens,
    network_ps,
    prompt_pairs,
)
from netsim.workloads.job.job import parameters
from netsim.workloads.operations import CollectiveOptions, Operations
from netsim.workloads.operations.table import JobSteps
from netsim.workloads.serving.plan import check_same_cache, check_used, deployment_of
from netsim.workloads.serving.workload import partition
from netsim.workloads.traffic._options import CHOICES, PLACEMENT_PARAMS, hosts_of, wires_of

COMPUTE, ALL_REDUCE = 0, 1
"""Streams of a rank; all-reduces of part k of a batch use stream ALL_REDUCE + k. Point-to-point
messages use none."""

BLOCKS = 2  # blocks per layer: attention and MLP, each with an all-reduce
REQUEST_BYTES = 64  # size of a request for pooled memory

TP, KV, POOL, CONTROL = KINDS = ("tp", "kv", "pool", "control")
"""Kinds of messages: all-reduces, KV caches, pool reads, and their requests."""


PREFILL, DECODE = PHASES = ("prefill", "decode")


@dataclass(eq=False)
class Phase:
    """The work of all instances of one phase."""

    name: str  # one of PHASES; the kind of its compute operations
    deployment: Deployment  # the deployment of each instance
    # int64[parts], prompts or decoding sequences in each part of the batch. One part computes
    # during the all-reduce of another
    rows: Ints
    # int64[n], by iteration: tokens of each prompt, or before each sequence's next one
    lengths: Ints
    step: Ints  # int64[n], the step of each iteration
    layers: int  # number of simulated layers
    # chunks of each block; 1 unless the batch is one part. A block starts when the all-reduces
    # of all chunks of the previous block end
    chunks: int
    how: CollectiveOptions  # algorithm and options of all-reduces
    by_formula: bool  # whether all-reduces send no packets
    ranks: Ints = field(init=False)  # int64[instances, tp], once there are enough hosts
    # int64[parts or chunks, n, blocks, instances, tp], the operations, once added; for instances of
    # one rank, all-reduces are the computations
    computed: Ints = field(init=False)
    reduced: Ints = field(init=False)

    def __post_init__(self) -> None:
        self.tp, self.cost = self.deployment.tp, iteration_cost(self.deployment)
        self.n_layers = self.deployment.model.layers

    def all_reduces(self) -> tuple[Ints, Ints]:
        """int64[parts or chunks] each: size and duration by formula of each all-reduce."""
        tokens = (self.rows * (self.lengths[0] if self.name == PREFILL else 1)).tolist()
        n_bytes = np.array([all_reduce_bytes(self.cost, n) for n in tokens])
        each_ps = np.array([network_ps(self.cost, n) for n in tokens])
        each_ps //= max(1, self.cost.all_reduces)
        if self.chunks == 1:
            return n_bytes, each_ps
        latency_ps = round(self.cost.all_reduce_ps)
        return cut(n_bytes[0], self.chunks), latency_ps + cut(each_ps[0] - latency_ps, self.chunks)

    def formula_ps(self) -> tuple[int, int]:
        """Return compute and all-reduce time of the first iteration: all layers, whole batch, and
        an idle network."""
        rows, length = int(self.rows.sum()), int(self.lengths[0])
        tokens = rows * length if self.name == PREFILL else rows
        return self._times_ps(self.cost, rows, length)[0], network_ps(self.cost, tokens)

    def largest(self, length: int) -> tuple[float, int]:
        """Return the KV cache bytes of all GPUs, with replicas, and the compute time of an
        iteration at this length: all layers, whole batch."""
        rows, copies = int(self.rows.sum()), self.deployment.kv_share * self.tp
        n_bytes = copies * kv_bytes_of_token(self.deployment) * rows * length
        return n_bytes, self._times_ps(self.cost, rows, length)[0]

    def kv_bytes(self) -> Ints:
        """int64[parts or chunks]: KV cache bytes in the simulated layers, in iteration 0."""
        every = kv_bytes_of_token(self.deployment) * self.rows * self.lengths[0]
        found = np.ceil(every * self.layers / self.n_layers).astype(np.int64)
        return cut(found[0], self.chunks) if self.chunks > 1 else found

    def layer_kv_bytes(self) -> Ints:
        """int64[n]: KV cache bytes of a layer by iteration, summed over GPUs, with replicas."""
        copies = self.deployment.kv_share * self.tp
        every = kv_bytes_of_token(self.deployment) * int(self.rows.sum()) * self.lengths
        return np.ceil(copies * every / self.n_layers).astype(np.int64)

    def layer_weight_bytes(self) -> Ints:
        """int64[n]: weight bytes of a layer of one instance."""
        numbers = sum(gpu_parameters(self.deployment)) * self.tp / self.n_layers
        n_bytes = numbers * self.deployment.formats.bytes_of("weights")
        return np.full(self.lengths.size, round(n_bytes))

    def compute_ps(self) -> Ints:
        """int64[parts or chunks, n, blocks]: compute time of a rank.

        An iteration's time is divided into equal layers of two blocks. Attention takes the time of
        its token pairs, and its share of the rest by parameters. Each part and each chunk launches
        all layers. Overheads per iteration and per request are in the first part; the time up to
        the floor is spread over all parts.
        """
        model = self.deployment.model
        known = parameters(model)
        matrices = known.active - known.embedding - known.head
        share = model.layers * model.attention_parameters / matrices
        parts = self.rows.size
        found = np.empty((parts, self.lengths.size, BLOCKS * self.layers), np.int64)
        layer = np.arange(self.layers)[:, None]
        for k, length in enumerate(self.lengths.tolist()):
            # [2, parts]: whole time, and time without attention pairs
            times = np.array([self._part_ps(part, length) for part in range(parts)]).T
            if self.name == PREFILL:
                shortfall = np.maximum(0, round(self.cost.prefill_floor_ps) - times.sum(1))
                times += cut(shortfall, parts)
            for part, (whole, rest) in enumerate(times.T.tolist()):
                attention = whole - rest + share * rest
                ends = (layer * whole + np.array([attention, whole])) / self.n_layers
                found[part, k] = np.diff(np.rint(ends).astype(np.int64).reshape(-1), prepend=0)
        return np.moveaxis(cut(found[0], self.chunks), -1, 0) if self.chunks > 1 else found

    def _part_ps(self, part: int, length: int) -> tuple[int, int]:
        """Return `_times_ps` of one part, without the iteration's floor."""
        layers_ps = self.cost.layers_ps * self.chunks
        own = self.cost._replace(prefill_floor_ps=0.0, layers_ps=layers_ps)
        if part:
            own = own._replace(iteration_ps=0.0)
            if self.name == PREFILL:
                own = own._replace(sequence_ps=0.0)
        return self._times_ps(own, int(self.rows[part]), length)

    def _times_ps(self, cost: IterationCost, rows: int, length: int) -> tuple[int, int]:
        """Return the compute time of an iteration, with and without attention's token pairs."""
        if self.name == DECODE:
            whole = compute_ps(cost, rows, 0, rows, rows * length)
            return whole, compute_ps(cost, rows, 0, rows, 0)
        tokens = rows * length
        pairs = rows * prompt_pairs(self.deployment.causal, 0, length)
        return compute_ps(cost, tokens, pairs, 0, 0), compute_ps(cost, tokens, 0, 0, 0)


class InferenceSteps:
    """Collects operations and the step of each."""

    def __init__(self, n_ranks: int) -> None:
        self.ops = Operations(n_ranks)
        self.kinds: set[str] = set()
        """Kinds of the messages."""
        self._recorded: list[tuple[Ints, Ints]] = []

    def add(self, phase: Phase) -> None:
        """Add all iterations of a phase, back to back at each rank."""
        times_ps = phase.compute_ps()
        parts, n, blocks = times_ps.shape
        shape = (n, blocks, *phase.ranks.shape)
        computed, reduced = phase.computed, phase.reduced = np.empty((2, parts, *shape), np.int64)
        if not n:
            return
        ranks = np.broadcast_to(phase.ranks, shape)
        turn = parts * np.arange(n * blocks).reshape(n, blocks, 1, 1)
        names = [f"layer {b // BLOCKS} {('attention', 'mlp')[b % BLOCKS]}" for b in range(blocks)]
        labels = np.tile(np.repeat(np.array(names, object), phase.ranks.size), n).tolist()
        sizes, reduce_ps = phase.all_reduces()
        for part in range(parts):
            made = self.ops.compute(
                ranks,
                times_ps[part][..., None, None],
                stream=COMPUTE,
                kind=phase.name,
                label=labels,
            )
            self._record(made, phase.step)
            self.ops.set_order(made, turn + part)
            computed[part] = reduced[part] = made
            if phase.tp > 1:
                if not phase.by_formula:
                    self.kinds.add(TP)
                sent = self.ops.collective(
                    "all_reduce",
                    ranks.reshape(-1, phase.tp),
                    int(sizes[part]),
                    phase.how,
                    stream=ALL_REDUCE + part,
                    kind=TP,
                    duration_ps=int(reduce_ps[part]) if phase.by_formula else None,
                ).reshape(shape)
                self._record(sent, phase.step)
                self.ops.set_order(sent, turn + part)
                reduced[part] = sent
                self.ops.after(made, sent)
            then = computed[0 if phase.chunks > 1 else part]
            self.ops.after(reduced[part][:, :-1], then[:, 1:])
        for part in range(parts):
            # The next iteration needs the tokens of all parts of the batch.
            self.ops.after(reduced[:, :-1, -1], computed[part][None, 1:, 0])

    def send_caches(self, phase: Phase, to: Phase, *, per_layer: bool) -> None:
        """Send the KV caches of each prefill instance to the decode instance of the same index.

        They are sent after the iteration, or layer by layer after attention. The decode instance's
        first iteration of the next step waits for them.
        """
        self.kinds.add(KV)
        share = partition(phase.tp, to.tp)
        src, dst, messages = share.source, share.sink, phase.layers if per_layer else 1
        for part, n_bytes in enumerate(phase.kv_bytes()):
            # [n, messages, instances, len(share)]
            before = phase.computed[part][:, ::BLOCKS] if per_layer else phase.reduced[part][:, -1:]
            size = share.sizes(n_bytes[None], messages)[:, :, None]
            shape = (len(phase.step), messages, len(phase.ranks), len(share))
            sent, received = self.ops.send(
                np.broadcast_to(phase.ranks[:, src], shape),
                np.broadcast_to(to.ranks[:, dst], shape),
                np.broadcast_to(size, shape),
                kind=KV,
            )
            self._record(sent, phase.step)
            self._record(received, phase.step)
            self.ops.after(before[..., src], sent)
            first = np.searchsorted(to.step, phase.step, "right")
            for k in np.flatnonzero(first < len(to.step)).tolist():
                starts = to.computed[:, first[k], 0][:, None, :, dst]
                self.ops.after(received[k][None], starts)

    def read_pool(self, phase: Phase, pool: Ints, layer_bytes: Ints, *, prefetch: bool) -> None:
        """Have every rank read from the ranks `pool` before each layer.

        `layer_bytes`: int64[n * layers], read by one instance before each layer. With `prefetch`,
        the request is sent when the previous layer starts, otherwise when it ends.
        """
        self.kinds |= {CONTROL, POOL}
        share = partition(pool.size, phase.tp)
        dst, m = share.sink, len(share)
        n, layers, k = len(phase.step), phase.layers, len(phase.ranks)
        shape = (n, layers, k, m)
        reader = np.broadcast_to(phase.ranks[:, dst], shape)
        # Instances start with different pool hosts.
        holder = pool[(share.source + np.arange(k)[:, None] * m) % pool.size]
        holder = np.broadcast_to(holder, shape)
        requests, requested = self.ops.send(reader, holder, REQUEST_BYTES, kind=CONTROL)
        size = share.sizes(layer_bytes, 1).reshape(n, layers, 1, m)
        sent, received = self.ops.send(holder, reader, np.broadcast_to(size, shape), kind=POOL)
        for made in (requests, requested, sent, received):
            self._record(made, phase.step)
        self.ops.after(requested, sent)
        starts = phase.computed[0][:, ::BLOCKS].reshape(n * layers, k, phase.tp)[..., dst]
        self.ops.after(received.reshape(starts.shape), starts)
        request = requests.reshape(starts.shape)[1:]
        if prefetch:
            self.ops.after_start(starts[:-1], request)
            return
        for part in phase.reduced:
            over = part[:, BLOCKS - 1 :: BLOCKS].reshape(n * layers, k, phase.tp)[..., dst]
            self.ops.after(over[:-1], request)

    def job_steps(self) -> JobSteps:
        number, step = (np.concatenate(of) for of in zip(*self._recorded, strict=True))
        # In-network reduction adds operations in between, which the table omits.
        return JobSteps(
            step[np.argsort(number)].astype(np.int32), formula_networks={TP: "scale-up"}
        )

    def _record(self, made: Ints, step: Ints) -> None:
        """Record the steps of operations; their first axis is the iteration."""
        of = np.broadcast_to(step.reshape(-1, *[1] * (made.ndim - 1)), made.shape)
        self._recorded.append((made.reshape(-1), of.reshape(-1)))


AFTER_PREFILL, LAYERWISE = KV_TRANSFERS = ("after_prefill", "layerwise")
WEIGHTS, CACHE = ("weights", "kv")
PREFETCH, ON_DEMAND = POOL_READS = ("prefetch", "on_demand")
SPLIT = "split"
NONE, HALVES, CHUNKS = OVERLAPS = ("none", "half_batches", "chunks")
N_CHUNKS = 4

PACKETS, FORMULA = FIDELITIES = ("packets", "formula")

NO_EFFECT = "has no effect here"

PACKET_KEYS = ("algorithm", "channels", "chunk", "latency")  # need all-reduces in packets
TOKENS = 1500  # default length of a prompt or a context
MESSAGE_BYTES = 400  # estimated memory of one operation while the traffic is built

PARAMS = [
    Param("deployment", "job", REQUIRED, "model and GPUs: preset, file, or [traffic.deployment]"),
    Param("decode_deployment", "job", None, "deployment of decode instances; default: the same"),
    Param("phase", "choice", PREFILL, "simulated phases", choices=(*PHASES, SPLIT)),
    Param("instances", "count", 1, "instances per phase", minimum=1),
    Param("steps", "count", 1, "steps in sequence", minimum=1),
    Param("batch", "count", None, "prompts or sequences; default: 1", minimum=1, each=PHASES),
    Param("prompt", "count", None, "tokens of each prompt; default: 1500", minimum=1),
    Param("context", "count", None, "tokens before the next token; default: 1500", minimum=1),
    Param("context_grows", "bool", False, "whether the context grows by one token per iteration"),
    Param("layers", "count", None, "simulated layers; default: all", minimum=1),
    Param("overlap", "choice", NONE, "how all-reduces overlap compute", choices=OVERLAPS),
    Param("block_chunks", "count", None, "overlap = chunks: per block; default: 4", minimum=2),
    Param("kv_transfer", "choice", None, "split: when KV caches are sent; default: after_prefill",
          choices=KV_TRANSFERS),
    Param("tokens", "count", None, "split: decode iterations per step; default: 1"),
    Param("pool_hosts", "count", 0, "hosts of the memory pool, numbered after the instances"),
    Param("pooled", "choice", None, "pooled data; default: kv", choices=(CACHE, WEIGHTS)),
    Param("pooled_fraction", "fraction", None, "fraction that is pooled; default: all"),
    Param("pool_read", "choice", None,
          "when a layer requests its read from the pool; default: prefetch", choices=POOL_READS),
    Param("fidelity", "choice", PACKETS, "how all-reduces are simulated", choices=FIDELITIES),
    Param("algorithm", "choice", None, "all-reduce algorithm; default: the deployment's",
          choices=CHOICES),
    Param("channels", "count", None, "channels of an all-reduce; default: 1", minimum=1),
    Param("chunk", "bytes", None, "forwarding unit; default: whole messages", minimum="1B"),
    Param("latency", "time", None, "software latency of a step; default: the deployment's"),
    Param("classes", "count", 0, "traffic class of messages", each=KINDS, maximum=7),
    *PLACEMENT_PARAMS,
]  # fmt: skip


def flows(params: Params, network: Network, rng: Rng, context: TrafficContext) -> Workload:
    """Return all steps. Ranks belong to prefill instances, decode instances, and the pool."""
    _check(params)
    phases = _phases(params, context)
    n_instances = params["instances"]
    gpus = n_instances * sum(phase.tp for phase in phases)
    n_ranks = gpus + params["pool_hosts"]
    if n_ranks > network.n_hosts:
        message = f"{n_ranks:,} GPUs and pool hosts exceed the {network.n_hosts:,} hosts"
        raise InputError(message, key="traffic.instances", hint="use a larger network")
    hosts = hosts_of(params, n_ranks, network.n_hosts, context.directory, rng)
    first = 0
    for phase in phases:
        phase.ranks = first + np.arange(n_instances * phase.tp).reshape(n_instances, -1)
        first += phase.ranks.size
    _require_memory(phases)
    work = InferenceSteps(n_ranks)
    for phase in phases:
        work.add(phase)
    if params["phase"] == SPLIT:
        work.send_caches(*phases, per_layer=params["kv_transfer"] == LAYERWISE)
    if params["pool_hosts"]:
        _read_pool(params, work, phases, np.arange(gpus, n_ranks))
    if not work.kinds:
        message = "sends nothing: instances have one GPU, or all-reduces are by formula"
        hint = 'use tp = 2 or more, fidelity = "packets", phase = "split" or pool_hosts'
        raise InputError(message, key="traffic", hint=hint)
    classes = {kind: params["classes"][kind] for kind in work.kinds}
    with errors_at(key="traffic.algorithm"):
        load = work.ops.lower(hosts, classes, network.reduction, wires_of(network, context))
    load = replace(load, notes=(*load.notes, *_notes(params, phases)))
    return work.job_steps().add_to(load)


def _check(params: Params) -> None:
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
        # A single number sets both phases.
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


def _phases(params: Params, context: TrafficContext) -> list[Phase]:
    """Return the phases, without ranks."""
    found: list[Phase] = []
    split, steps, latency = params["phase"] == SPLIT, params["steps"], params["latency"]
    for name in PHASES if split else (params["phase"],):
        decodes = name == DECODE
        key = "decode_deployment" if decodes and params["decode_deployment"] else "deployment"
        deployment = deployment_of(params, key, context)
        n = steps
        if split and decodes and params["tokens"] is not None:
            n *= params["tokens"]
        length = params["context" if decodes else "prompt"] or TOKENS
        require_room(n * MESSAGE_BYTES, what=f"{n:,} iterations", key="traffic.steps")
        found.append(
            Phase(
                name=name,
                deployment=deployment,
                rows=_rows(params, name),
                lengths=length + np.arange(n) * (decodes and params["context_grows"]),
                step=np.repeat(np.arange(steps), n // steps),
                layers=_layers(params, deployment),
                chunks=(params["block_chunks"] or N_CHUNKS) if params["overlap"] == CHUNKS else 1,
                how=CollectiveOptions(
                    algorithm=params["algorithm"] or deployment.options.all_reduce,
                    chunk_bytes=params["chunk"],
                    channels=params["channels"] or 1,
                    latency_ps=deployment.overheads.step_latency if latency is None else latency,
                ),
                by_formula=params["fidelity"] == FORMULA,
            )
        )
        _check_capacity(params, found[-1])
    if split:
        check_same_cache(*(phase.deployment for phase in found))
    return found


def _rows(params: Params, phase: str) -> Ints:
    rows = params["batch"][phase] or 1
    if params["overlap"] != HALVES:
        return np.array([rows])
    if rows < 2:
        key = f"traffic.batch.{phase}"
        raise InputError("cannot split a batch of 1", key=key, hint='2, or overlap = "none"')
    return np.array([(rows + 1) // 2, rows // 2])


def _layers(params: Params, deployment: Deployment) -> int:
    layers, largest = params["layers"], deployment.model.layers
    if layers is not None and layers > largest:
        message = f"{deployment.name} has {largest:,} layers"
        raise InputError(message, key="traffic.layers", hint=f"1 to {largest:,}")
    return layers or largest


def _check_capacity(params: Params, phase: Phase) -> None:
    """Raise InputError if a batch's KV cache exceeds GPU memory, or the simulator's limits."""
    key = f"traffic.batch.{phase.name}"
    longest = int(phase.lengths.max(initial=0))
    tokens = int(phase.rows.sum()) * longest
    n_bytes, time_ps = phase.largest(longest)
    if n_bytes >= TRAFFIC_BYTES or time_ps >= HORIZON_PS:
        message = f"a KV cache of {tokens:,} tokens exceeds the simulator's limits"
        hint = f"{n_bytes:.3g} bytes, an iteration of {time_ps / 1e12:.3g} s"
        raise InputError(message, key=key, hint=hint)
    share = 1.0
    if params["pool_hosts"] and params["pooled"] != WEIGHTS and phase.name == DECODE:
        share -= _pooled_fraction(params)
    largest = kv_capacity_tokens(phase.deployment)
    if tokens * share > largest:
        raise InputError(
            f"a KV cache of {tokens:,} tokens exceeds the memory left by the weights",
            key=key,
            hint=f"at most {largest:,} tokens: use a smaller batch, or more GPUs",
        )


def _pooled_fraction(params: Params) -> float:
    return 1.0 if params["pooled_fraction"] is None else float(params["pooled_fraction"])


def _require_memory(phases: Sequence[Phase]) -> None:
    n = 0
    for one in phases:
        sends = 1 if one.by_formula else 4 * (one.tp - 1) * one.how.channels
        blocks = one.lengths.size * one.layers * BLOCKS * one.rows.size * one.chunks
        n += one.ranks.size * blocks * (1 + sends)
    require_room(n * MESSAGE_BYTES, what=f"about {n:,} operations", key="traffic.layers")


def _read_pool(params: Params, work: InferenceSteps, phases: Sequence[Phase], pool: Ints) -> None:
    for phase in phases:
        if params["pooled"] == WEIGHTS:
            n_bytes = phase.layer_weight_bytes()
        elif phase.name == DECODE:
            n_bytes = phase.layer_kv_bytes()
        else:
            continue
        sizes = np.ceil(n_bytes * _pooled_fraction(params)).astype(np.int64)
        sizes = np.repeat(sizes, phase.layers)
        work.read_pool(phase, pool, sizes, prefetch=params["pool_read"] != ON_DEMAND)


def _notes(params: Params, phases: Sequence[Phase]) -> list[str]:
    found = []
    for phase in phases:
        n, of, rows = len(phase.ranks), phase.deployment, int(phase.rows.sum())
        who = f"{n:,} {phase.name} instance{'s' * (n != 1)} of {of.tp:,} GPUs, {of.name}"
        times, layers = phase.lengths.size, of.model.layers
        if not times:
            found.append(f"{who}: receive only.")
            continue
        batch = f"{rows:,} prompt{'s' * (rows != 1)} of {phase.lengths[0]:,} tokens"
        if phase.name == DECODE:
            batch = f"{rows:,} sequence{'s' * (rows != 1)} with contexts of {phase.lengths[0]:,}"
        found.append(f"{who}: {times:,} iteration{'s' * (times != 1)} over {batch}.")
        computing, sending = (format_time(one, 4) for one in phase.formula_ps())
        found.append(
            f"First iteration by formula, all {layers:,} layers: {computing} of compute, "
            f"{sending} of all-reduces."
        )
        if phase.layers < layers:
            found.append(
                f"{phase.layers:,} of {layers:,} layers are simulated: multiply times and bytes "
                f"by {layers / phase.layers:,.4g}."
            )
    if params["fidelity"] == FORMULA:
        found.append("All-reduces are timed by formula and send no packets.")
    return found
