"""A training job: model, layout, number formats, optimizer and overlap, on a machine."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from functools import cached_property
from itertools import pairwise
from typing import Any

from netsim.errors import InputError
from netsim.frozen import frozen
from netsim.params import NONBLANK, NUMBER, REQUIRED, Param, Unit, key
from netsim.units import written
from netsim.workloads.job.machine import FORMAT_NAMES, FORMATS, Machine
from netsim.workloads.job.schedules import SCHEDULES

ATTENTIONS = ("multi_head", "latent")

NORMS = ("layer", "rms")

POSITIONS = ("learned", "rotary")

MAX_LAYERS = 10_000  # largest number of layers, and of stages


def conflict(key: str, message: str, hint: str) -> InputError:
    """Return the error for a key that conflicts with another."""
    return InputError(message, key=key, hint=hint)


@frozen(kw_only=True)
class Model:
    """A decoder: embedding, `layers` of attention and MLP, and head.

    With `experts`, each layer after the first `dense_layers` has that many experts; a token goes to
    `active_experts` of them and to all `shared_experts`. Latent attention (DeepSeek-V2, section
    2.1) compresses queries, keys and values.
    """

    layers: int = key("count", REQUIRED, "layers", minimum=1, maximum=MAX_LAYERS)
    hidden: int = key("count", REQUIRED, "hidden size", minimum=1)
    heads: int = key("count", REQUIRED, "attention heads", minimum=1)
    sequence: int = key("count", REQUIRED, "tokens per sequence", minimum=1)
    vocabulary: int = key("count", REQUIRED, "size of the vocabulary", minimum=1)
    kv_heads: int = key("count", 0, "KV heads; 0: as many as heads")
    head_size: int = key("count", 0, "width of a head; 0: hidden / heads")
    feed_forward: int = key("count", 0, "feed-forward width; 0: 4 hidden")
    feed_forward_matrices: int = key("count", 2, "2 (GELU) or 3 (gated)", minimum=2, maximum=3)
    experts: int = key("count", 0, "experts per layer, without shared ones; 0: none")
    active_experts: int = key("count", 0, "experts per token")
    shared_experts: int = key("count", 0, "experts for every token")
    expert_feed_forward: int = key("count", 0, "feed-forward width of an expert; 0: feed_forward")
    dense_layers: int = key("count", 0, "first layers without experts")
    attention: str = key("choice", "multi_head", "kind of attention", choices=ATTENTIONS)
    query_rank: int = key("count", 0, "latent attention: width of compressed queries; 0: none")
    kv_rank: int = key("count", 0, "latent attention: width of compressed keys and values")
    rotary_size: int = key("count", 0, "latent attention: width of a key's position part")
    value_size: int = key("count", 0, "latent attention: width of a value; 0: head_size")
    attention_flops: float = key(
        NUMBER,
        4.0,
        "forward FLOP of attention scores and sums, per token pair and unit of width: "
        "4, or 2 if kernels skip masked pairs",
        above=0,
        maximum=16,
    )
    fused_attention: bool = key("bool", False, "scores stay on the chip (FlashAttention)")
    attention_backward: float = key(
        NUMBER, 0.0, "backward over forward attention FLOP; 0: 2.5 if fused, else 2", maximum=16
    )
    parallel_block: bool = key(
        "bool", False, "attention and MLP in parallel, with one norm, gather and reduction (PaLM)"
    )
    query_key_norm: bool = key("bool", False, "norms of each head's queries and keys (Qwen3)")
    norm: str = key("choice", "rms", "norm with mean and bias (layer) or not (rms)", choices=NORMS)
    positions: str = key("choice", "rotary", "positions: learned, or rotary", choices=POSITIONS)
    biases: bool = key("bool", False, "whether matrices have biases")
    dropout: bool = key("bool", False, "dropout; its masks are kept for the backward pass")
    tied_embeddings: bool = key("bool", False, "whether embedding and head share a matrix")
    source: str = key(NONBLANK, "its own file", "source of the values")

    def conflicts(self, _: Mapping[str, Any]) -> Iterator[InputError]:
        """Yield the conflicts between keys."""
        if not self.head_size and self.hidden % self.heads:
            message = f"must divide the hidden size {self.hidden}, {self.heads} does not"
            yield conflict("heads", message, "or set head_size")
        if self.heads % self.kv_head_count:
            message = f"must divide the {self.heads} heads, {self.kv_heads} does not"
            yield conflict("kv_heads", message, "use a divisor")
        if self.experts and not 1 <= self.active_experts <= self.experts:
            message = f"{self.active_experts} of {self.experts} experts is out of range"
            yield conflict("active_experts", message, f"1 to {self.experts}")
        if self.dense_layers > self.layers:
            message = f"{self.dense_layers} dense layers exceed the {self.layers} layers"
            yield conflict("dense_layers", message, f"at most {self.layers}")
        if not self.experts:
            for name in ("active_experts", "shared_experts", "expert_feed_forward", "dense_layers"):
                if getattr(self, name):
                    yield conflict(name, "requires experts", "set experts")
        latent = self.latent
        if latent and not (self.kv_rank and self.head_size):
            message = "latent attention requires kv_rank and head_size"
            yield conflict("kv_rank", message, "such as 512 and 128")
        if latent and self.kv_heads not in (0, self.heads):
            yield conflict("kv_heads", "conflicts with latent attention", "remove it")
        if not latent:
            for name in ("query_rank", "kv_rank", "rotary_size"):
                if getattr(self, name):
                    yield conflict(name, "requires latent attention", 'attention = "latent"')

    @property
    def kv_head_count(self) -> int:
        return self.kv_heads or self.heads

    def kv_heads_of(self, tp: int) -> float:
        """Return KV heads per GPU, at least one."""
        return max(self.kv_head_count / tp, 1.0)

    @property
    def blocks(self) -> int:
        """Blocks of a layer, each with a norm, gathered inputs and reduced outputs."""
        return 1 if self.parallel_block else 2

    @property
    def latent(self) -> bool:
        return self.attention == "latent"

    def kv_width_of(self, tp: int = 1) -> float:
        """Return the KV cache elements per token and layer of one of `tp` GPUs."""
        if self.latent:
            return float(self.kv_rank + self.rotary_size)
        return self.kv_heads_of(tp) * (self.head_width + self.value_width)

    @property
    def head_width(self) -> int:
        """Width of a head's query and key, with the rotary part of latent attention."""
        plain = self.head_size or self.hidden // self.heads
        return plain + (self.rotary_size if self.latent else 0)

    @property
    def value_width(self) -> int:
        return self.value_size or self.head_size or self.hidden // self.heads

    @property
    def backward_factor(self) -> float:
        """Backward over forward FLOP of attention."""
        return self.attention_backward or (2.5 if self.fused_attention else 2.0)

    @property
    def width(self) -> int:
        """MLP width of a dense layer."""
        return self.feed_forward or 4 * self.hidden

    @property
    def expert_width(self) -> int:
        return self.expert_feed_forward or self.width

    @property
    def attention_parameters(self) -> int:
        """Matrix parameters of attention in a layer."""
        h, a, width = self.hidden, self.heads, self.head_width
        if not self.latent:
            return 2 * h * a * width + 2 * h * self.kv_head_count * width
        plain, queries = width - self.rotary_size, a * width
        made = h * queries
        if self.query_rank:
            made = h * self.query_rank + self.query_rank * queries
        compressed = h * (self.kv_rank + self.rotary_size)
        expanded = self.kv_rank * a * (plain + self.value_width)
        return made + compressed + expanded + a * self.value_width * h

    @property
    def mlp_parameters(self) -> int:
        """Matrix parameters of the MLP of a dense layer."""
        return self.feed_forward_matrices * self.hidden * self.width

    @property
    def expert_parameters(self) -> int:
        """Matrix parameters of an expert."""
        return self.feed_forward_matrices * self.hidden * self.expert_width

    @property
    def norm_parameters(self) -> int:
        return self.hidden * (2 if self.norm == "layer" else 1)

    @property
    def moe_layers(self) -> int:
        """Number of layers with experts."""
        return self.layers - self.dense_layers if self.experts else 0

    def has_experts(self, layer: int) -> bool:
        """Return whether a layer, from 0, has experts."""
        return self.experts > 0 and layer >= self.dense_layers


@frozen
class Held:
    """Parameters at one GPU; fractions if the layout is uneven."""

    dense: float = 0.0  # parameters replicated over data parallelism
    expert: float = 0.0  # parameters of experts, sharded over `ep` GPUs

    @property
    def total(self) -> float:
        return self.dense + self.expert

    def __add__(self, other: Held) -> Held:
        return Held(self.dense + other.dense, self.expert + other.expert)


def layer_parameters(model: Model, experts: bool, tp: int = 1, ep: int = 1) -> Held:
    """Return the parameters of a layer at one of `tp` x `ep` GPUs."""
    copied, shared = float(model.blocks * model.norm_parameters), float(model.attention_parameters)
    if model.query_key_norm:
        copied += 2 * model.head_width
    if model.latent:
        narrow = model.hidden * (model.kv_rank + model.rotary_size + model.query_rank)
        copied += narrow + model.kv_rank + model.query_rank
        shared -= narrow
    else:
        both = 2 * model.hidden * model.head_width
        copied += both * (model.kv_heads_of(tp) - model.kv_head_count / tp)
    if experts:
        one = model.expert_parameters
        copied += model.hidden * model.experts
        dense = copied + (shared + model.shared_experts * one) / tp
        return Held(dense, model.experts / ep * one / tp)
    shared += model.mlp_parameters
    if model.biases:  # sharded for column-parallel matrices, replicated for row-parallel ones
        heads = (model.heads + 2 * model.kv_head_count) * model.head_width
        shared += heads + (model.feed_forward_matrices - 1) * model.width
        copied += 2 * model.hidden
    return Held(copied + shared / tp)


def embedding_parameters(model: Model, tp: int = 1) -> Held:
    """Return the parameters of the embedding at one of `tp` GPUs."""
    positions = model.sequence * model.hidden if model.positions == "learned" else 0
    return Held(model.vocabulary * model.hidden / tp + positions)


def head_parameters(model: Model, tp: int = 1, pp: int = 1) -> Held:
    """Return the parameters of the head at one of `tp` GPUs; tied ones count once per GPU."""
    again = model.tied_embeddings and pp == 1
    matrix = 0.0 if again else model.vocabulary * model.hidden / tp
    return Held(matrix + model.norm_parameters)


@frozen
class Parameters:
    """Parameters of a model; `layer` is a dense layer's, `active` the number used per token."""

    layer: int
    moe_layer: int
    embedding: int
    head: int
    total: int
    active: int


def parameters(model: Model) -> Parameters:
    """Return the parameters of a model."""
    dense = int(layer_parameters(model, False).total)
    moe = int(layer_parameters(model, True).total) if model.experts else 0
    embedding, head = int(embedding_parameters(model).total), int(head_parameters(model).total)
    n_moe = model.moe_layers
    total = (model.layers - n_moe) * dense + n_moe * moe + embedding + head
    idle = max(0, model.experts - model.active_experts) * model.expert_parameters
    return Parameters(dense, moe, embedding, head, total, total - n_moe * idle)


RECOMPUTE = ("none", "selective", "full")

ACCOUNTINGS = ("hierarchical", "paper")

MOMENTS = {"adam": 2, "momentum": 1, "sgd": 0}  # optimizer states per parameter


def _read_levels(value: Any) -> tuple[int, int, int]:
    hint = "[replicas in a rack, racks, datacenters]"
    if not isinstance(value, list) or len(value) != 3:
        raise InputError(f"{written(value)} must be a list of three counts", hint=hint)
    rack, racks, sites = map(COUNT.convert, value)
    return rack, racks, sites


COUNT = Param("replicas", "count", REQUIRED, "replicas of a level", minimum=1)

LEVELS = Unit("[replicas in a rack, racks, datacenters]", _read_levels, list)


@frozen(kw_only=True)
class Layout:
    """Parallelism of a job: tp x cp x dp x pp ranks; `ep` divides dp into groups."""

    global_batch: int = key("count", REQUIRED, "sequences per step", minimum=1)
    tp: int = key("count", 1, "tensor parallelism: GPUs per matrix", minimum=1)
    sp: bool = key("bool", False, "sequence parallelism: tp ranks also split norms and dropout")
    regather: bool = key("bool", True, "with sp, keep matrix inputs split and gather them again")
    scatter_gather: bool = key(
        "bool", True, "split pipeline transfers over tp ranks; always with sp"
    )
    pp: int = key("count", 1, "pipeline stages", minimum=1, maximum=MAX_LAYERS)
    schedule: str = key("choice", "1f1b", "pipeline schedule", choices=tuple(SCHEDULES))
    virtual_stages: int = key("count", 1, "interleaved chunks", minimum=1, maximum=MAX_LAYERS)
    dp: int = key("count", 0, "data parallelism: replicas; 0: the product of dp_levels")
    dp_levels: tuple[int, int, int] | None = key(LEVELS, None, "replicas by level, for S1 to S5")
    accounting: str = key(
        "choice",
        "hierarchical",
        "S1 to S5: reduce-scatter, exchange, all-gather (hierarchical), or full "
        "all-reduces and all-gathers (paper)",
        choices=ACCOUNTINGS,
    )
    zero: int = key("count", 0, "ZeRO stage: 1 splits the optimizer, 2 gradients, 3 weights")
    ep: int = key("count", 1, "expert parallelism: GPUs per layer's experts", minimum=1)
    ep_domains: int = key("count", 0, "most domains per token, each sent a copy; 0: one per expert")
    cp: int = key("count", 1, "context parallelism: GPUs per sequence", minimum=1)
    micro_batch: int = key("count", 1, "sequences per micro-batch", minimum=1)
    recompute: str = key(
        "choice",
        "none",
        "recomputation: none, selective (scores; latent attention: expansions), or full",
        choices=RECOMPUTE,
    )

    uneven: bool = key("bool", False, "allow fractions; the first stages get more layers")

    def conflicts(self, _: Mapping[str, Any]) -> Iterator[InputError]:
        """Yield the conflicts between keys."""
        if self.dp and self.dp_levels and self.dp != math.prod(self.dp_levels):
            message = f"{self.dp} conflicts with dp_levels: {math.prod(self.dp_levels)} replicas"
            yield conflict("dp", message, "remove one of them")
        if self.accounting == "paper" and not self.dp_levels:
            yield conflict("accounting", "requires dp_levels", "it applies to S1 to S5")
        if self.dp_levels and self.zero:
            message = "conflicts with dp_levels: S1 to S5 do not shard weights"
            yield conflict("zero", message, "zero = 0, or dp instead of dp_levels")
        if self.dp_levels and self.ep > 1:
            message = "conflicts with dp_levels: S1 to S5 do not support expert parallelism"
            yield conflict("ep", message, "use dp instead of dp_levels")
        if self.virtual_stages > 1 and self.schedule != "interleaved":
            message = f'conflicts with schedule = "{self.schedule}", which has one chunk per stage'
            yield conflict("virtual_stages", message, 'schedule = "interleaved"')
        if self.schedule == "interleaved" and min(self.virtual_stages, self.pp) < 2:
            message = "interleaved requires several stages and several chunks"
            yield conflict("schedule", message, "pp and virtual_stages of at least 2")
        if self.sp and self.tp == 1:
            yield conflict("sp", "requires tensor parallelism", "tp of at least 2")
        if self.ep_domains and self.ep == 1:
            yield conflict("ep_domains", "requires expert parallelism", "ep of at least 2")

    @property
    def replicas(self) -> int:
        return self.dp or (math.prod(self.dp_levels) if self.dp_levels else 1)

    @property
    def gpus(self) -> int:
        return self.tp * self.cp * self.pp * self.replicas

    @property
    def micro_batches(self) -> int:
        """Micro-batches per step and stage."""
        return self.global_batch // (self.replicas * self.micro_batch)


@frozen(kw_only=True)
class Precision:
    """Number format of each tensor."""

    weights: str = key("choice", "bf16", "format of weights in compute", choices=FORMAT_NAMES)
    activations: str = key("choice", "bf16", "format of activations", choices=FORMAT_NAMES)
    gradients: str = key("choice", "fp32", "format of gradients added up", choices=FORMAT_NAMES)
    reduce: str = key("choice", "fp32", "format in which gradients are sent", choices=FORMAT_NAMES)
    dispatch: str = key("choice", "bf16", "format of tokens sent to experts", choices=FORMAT_NAMES)
    master: str = key("choice", "fp32", "format of master weights", choices=(*FORMATS, "none"))
    optimizer: str = key("choice", "fp32", "format of optimizer states", choices=FORMAT_NAMES)
    compute: str = key("choice", "bf16", "format of matrix multiplication", choices=FORMAT_NAMES)
    logits: str = key(
        "choice",
        "compute",
        "format of logits; compute: as matrices",
        choices=(*FORMATS, "compute"),
    )
    vector: str = key("choice", "bf16", "format of other operations", choices=FORMAT_NAMES)

    @property
    def head(self) -> str:
        """Format of the logits' matrix multiplication."""
        return self.compute if self.logits == "compute" else self.logits

    def bytes_of(self, tensor: str) -> float:
        """Return the bytes per element of a tensor: "weights", "master", ..."""
        return {"none": 0.0, **FORMATS}[getattr(self, tensor)]


@frozen(kw_only=True)
class Optimizer:
    """Optimizer and its work per parameter."""

    kind: str = key("choice", "adam", "optimizer", choices=tuple(MOMENTS))
    flops: int = key("count", 11, "operations per parameter")

    @property
    def moments(self) -> int:
        """States per parameter."""
        return MOMENTS[self.kind]


@frozen(kw_only=True)
class Overlap:
    """Communication that overlaps compute, named as in Megatron."""

    grad_reduce: bool = key("bool", False, "send gradients as soon as they exist, not at the end")
    param_gather: bool = key("bool", False, "start the next step when its first weights are there")
    tp_comm: bool = key("bool", False, "overlap tp and cp collectives with the preceding compute")
    p2p_comm: bool = key("bool", False, "compute while a message to another stage is in flight")
    ep_comm: bool = key("bool", False, "overlap expert exchanges with other micro-batches")
    ep_sms: int = key("count", 0, "SMs that kernels leave to overlapped expert exchanges")


@frozen
class Job:
    """A checked job; `file` is its name in messages."""

    name: str
    model: Model
    layout: Layout
    machine: Machine
    precision: Precision
    optimizer: Optimizer
    overlap: Overlap
    file: str

    @property
    def tokens(self) -> int:
        """Tokens per micro-batch and GPU."""
        return self.layout.micro_batch * self.model.sequence // self.layout.cp

    @cached_property
    def virtual_stages(self) -> tuple[range, ...]:
        """Layers by virtual stage; chunk c of stage s is c * pp + s. The first may be longer."""
        n = self.layout.pp * self.layout.virtual_stages
        shortest, rest = divmod(self.model.layers, n)
        ends = [0]
        for index in range(n):
            ends.append(ends[-1] + shortest + (index < rest))
        return tuple(range(a, b) for a, b in pairwise(ends))

    def layers_of_stage(self, stage: int) -> list[int]:
        return [
            layer for layers in self.virtual_stages[stage :: self.layout.pp] for layer in layers
        ]
