"""Shape and parameters of a transformer."""

from __future__ import annotations

from dataclasses import dataclass

from netsim.workloads.job.keys import choice, count, flag, key, number, text

ATTENTIONS = ("multi_head", "latent")
NORMS = ("layer", "rms")
POSITIONS = ("learned", "rotary")

MAX_LAYERS = 10_000
"""Largest number of layers, and of stages."""


@dataclass(frozen=True)
class Model:
    """A decoder: embedding, `layers` of attention and MLP, and head.

    With `experts`, each layer after the first `dense_layers` has that many experts; a token goes to
    `active_experts` of them and to all `shared_experts`. Latent attention (DeepSeek-V2, section
    2.1) compresses queries, keys and values.
    """

    layers: int = key(count(1, MAX_LAYERS), "layers")
    hidden: int = key(count(), "hidden size")
    heads: int = key(count(), "attention heads")
    sequence: int = key(count(), "tokens per sequence")
    vocabulary: int = key(count(), "size of the vocabulary")
    kv_heads: int = key(count(0), "KV heads; 0: as many as heads", 0)
    head_size: int = key(count(0), "width of a head; 0: hidden / heads", 0)
    feed_forward: int = key(count(0), "feed-forward width; 0: 4 hidden", 0)
    feed_forward_matrices: int = key(count(2, 3), "2 (GELU), or 3 (with a gate, SwiGLU)", 2)
    experts: int = key(count(0), "experts per layer, without shared ones; 0: none", 0)
    active_experts: int = key(count(0), "experts per token", 0)
    shared_experts: int = key(count(0), "experts for every token", 0)
    expert_feed_forward: int = key(count(0), "feed-forward width of an expert; 0: feed_forward", 0)
    dense_layers: int = key(count(0), "first layers without experts", 0)
    attention: str = key(choice(ATTENTIONS), "kind of attention", "multi_head")
    query_rank: int = key(count(0), "latent attention: width of compressed queries; 0: none", 0)
    kv_rank: int = key(count(0), "latent attention: width of compressed keys and values", 0)
    rotary_size: int = key(count(0), "latent attention: width of a key's position part", 0)
    value_size: int = key(count(0), "latent attention: width of a value; 0: head_size", 0)
    attention_flops: float = key(
        number(0, 16),
        "forward FLOP of attention scores and sums, per token pair and unit of width: "
        "4, or 2 if kernels skip masked pairs",
        4.0,
    )
    fused_attention: bool = key(
        flag(), "scores stay on the chip (FlashAttention), neither kept nor written", False
    )
    attention_backward: float = key(
        number(-1e-9, 16),
        "ratio of backward to forward attention FLOP; 0: 2.5 if fused (scores are "
        "recomputed), else 2",
        0.0,
    )
    norm: str = key(choice(NORMS), "norm with mean and bias (layer) or without (rms)", "rms")
    positions: str = key(
        choice(POSITIONS), "position embeddings: a learned table, or rotary", "rotary"
    )
    biases: bool = key(flag(), "whether matrices have biases", False)
    dropout: bool = key(
        flag(), "whether there is dropout; its masks are kept for the backward pass", False
    )
    tied_embeddings: bool = key(flag(), "whether embedding and head share a matrix", False)
    source: str = key(text(), "source of the values", "its own file")

    @property
    def kv_head_count(self) -> int:
        return self.kv_heads or self.heads

    def kv_heads_of(self, tp: int) -> float:
        """Return KV heads per GPU, at least one."""
        return max(self.kv_head_count / tp, 1.0)

    @property
    def head_width(self) -> int:
        """Width of a head's query and key, with the rotary part of latent attention."""
        plain = self.head_size or self.hidden // self.heads
        return plain + (self.rotary_size if self.attention == "latent" else 0)

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
    def moe_layers(self) -> int:
        """Number of layers with experts."""
        return self.layers - self.dense_layers if self.experts else 0

    def has_experts(self, layer: int) -> bool:
        """Return whether a layer, from 0, has experts."""
        return self.experts > 0 and layer >= self.dense_layers


@dataclass(frozen=True)
class Parameters:
    """Parameters of a model; `layer` is dense, `active` are those used per token."""

    layer: int
    moe_layer: int
    embedding: int
    head: int
    total: int
    active: int


def attention_parameters(model: Model) -> int:
    """Return the attention parameters of a layer, without biases."""
    h, a = model.hidden, model.heads
    if model.attention == "multi_head":
        width = model.head_width
        return 2 * h * a * width + 2 * h * model.kv_head_count * width
    plain = model.head_width - model.rotary_size
    queries = a * model.head_width
    made = h * queries
    if model.query_rank:
        made = h * model.query_rank + model.query_rank * queries
    compressed = h * (model.kv_rank + model.rotary_size)
    expanded = model.kv_rank * a * (plain + model.value_width)
    return made + compressed + expanded + a * model.value_width * h


def norm_parameters(model: Model) -> int:
    """Return the parameters of a norm."""
    return model.hidden * (2 if model.norm == "layer" else 1)


def bias_parameters(model: Model) -> int:
    """Return the biases of a dense layer."""
    if not model.biases:
        return 0
    made = (model.heads + 2 * model.kv_head_count) * model.head_width + model.hidden
    return made + (model.feed_forward_matrices - 1) * model.width + model.hidden


def parameters(model: Model) -> Parameters:
    """Return the parameters of a model."""
    h = model.hidden
    shared = attention_parameters(model) + 2 * norm_parameters(model)
    if model.attention == "latent":  # norms of compressed queries, keys and values
        shared += model.query_rank + model.kv_rank
    dense = shared + model.feed_forward_matrices * h * model.width + bias_parameters(model)
    expert = model.feed_forward_matrices * h * model.expert_width
    experts = model.experts + model.shared_experts
    moe = shared + experts * expert + h * model.experts if model.experts else 0
    idle = max(0, model.experts - model.active_experts) * expert
    embedding = model.vocabulary * h
    if model.positions == "learned":
        embedding += model.sequence * h
    head = norm_parameters(model) + (0 if model.tied_embeddings else model.vocabulary * h)
    n_moe = model.moe_layers
    total = (model.layers - n_moe) * dense + n_moe * moe + embedding + head
    return Parameters(dense, moe, embedding, head, total, total - n_moe * idle)
