"""A model on the GPUs that serve it together: formats, options, and what software costs."""

from __future__ import annotations

from dataclasses import dataclass, replace

from netsim.errors import InputError
from netsim.workloads.job.keys import choice, count, flag, key, number, text, time
from netsim.workloads.job.machine import FORMATS, Machine
from netsim.workloads.job.model import Model, attention_parameters

ALL_REDUCES = ("ring", "direct")
ATTENTIONS = ("causal", "full")
ROOFLINES = ("parts", "layer")


@dataclass(frozen=True)
class Formats:
    """The number format of each tensor."""

    weights: str = key(choice(FORMATS), "of weights, as they are kept and read", "fp8")
    kv: str = key(choice(FORMATS), "of keys and values that are kept", "fp8")
    activations: str = key(choice(FORMATS), "of activations, and of what is added up", "fp8")
    compute: str = key(choice(FORMATS), "in which is multiplied", "fp8")

    def bytes_of(self, tensor: str) -> float:
        """Bytes of one number of a tensor: "weights", "kv" or "activations"."""
        return FORMATS[getattr(self, tensor)]


@dataclass(frozen=True)
class Options:
    """How the GPUs share a model, and what is counted."""

    tp: int = key(count(0), "GPUs that share each matrix; 0: the best, where it is searched", 0)
    all_reduce: str = key(
        choice(ALL_REDUCES),
        "2 (tp - 1) steps (ring), or 2 in which all send to all (direct); bytes are the same",
        "ring",
    )
    overlap: bool = key(
        flag(), "all-reduces go beside everything else: the longer counts, not the sum", False
    )
    kv_replicated: bool = key(
        flag(),
        "with more GPUs than heads of keys and values each has a whole head, which several hold "
        "and read; else they share it",
        True,
    )
    attention: str = key(
        choice(ATTENTIONS), "a prompt's pairs of tokens: half of them (causal), or all", "causal"
    )
    roofline: str = key(
        choice(ROOFLINES),
        "the longer of computing and reading counts: of matrices, attention and head one behind "
        "the other (parts), or of all together (layer)",
        "parts",
    )
    embeddings: bool = key(
        flag(), "embedding and head take memory, and the head is read and computed", False
    )
    memory_share: float = key(number(0, 1), "of a GPU's memory, for weights and keys and values", 1)


@dataclass(frozen=True)
class Costs:
    """What a machine and its software reach of the peaks, and what they add; by default nothing."""

    prefill_efficiency: float = key(number(0, 1), "share of the peak, tokens of prompts", 1)
    decode_efficiency: float = key(number(0, 1), "share of the peak, tokens of decoding", 1)
    memory_efficiency: float = key(number(0, 1), "share of the memory's rate", 1)
    network_efficiency: float = key(number(0, 1), "share of the scale-up network's rate", 1)
    step_latency: int = key(time(), "for each step of an all-reduce", 0)
    layer_overhead: int = key(time(), "for each layer of an iteration: launches", 0)
    iteration_overhead: int = key(time(), "for each iteration", 0)
    sequence_overhead: int = key(
        time(), "for each sequence of an iteration; its prompts count as one", 0
    )
    prompt_floor: int = key(
        time(), "an iteration with prompts computes no less, whatever the tokens: launches", 0
    )
    launch_ahead: bool = key(
        flag(), "launches go beside computing: the longer counts, not the sum", False
    )
    activation_passes: int = key(
        count(0), "times that a layer reads or writes a token's activations beside its matrices", 0
    )
    source: str = key(text(), "where the figures are from", "the roofline alone")


BARE = Costs()
"""The roofline alone."""


@dataclass(frozen=True)
class Deployment:
    """A model on `options.tp` GPUs of a machine. `name` is its name in messages."""

    name: str
    model: Model
    machine: Machine
    formats: Formats = Formats()
    options: Options = Options()
    costs: Costs = BARE

    @property
    def tp(self) -> int:
        """GPUs that share each matrix. Raises InputError if that was left to a search."""
        if self.options.tp == 0:
            raise InputError("must be given", key="options.tp", hint="1 or more GPUs")
        return self.options.tp

    @property
    def kv_share(self) -> float:
        """The share of keys and values, and of the matrices that make them, at each GPU."""
        if not self.options.kv_replicated:
            return 1.0 / self.tp
        return 1.0 / min(self.tp, kv_parts(self.model))


def on_gpus(deployment: Deployment, tp: int) -> Deployment:
    """The same on `tp` GPUs, whether or not they can share and hold it."""
    return replace(deployment, options=replace(deployment.options, tp=tp))


def kv_parts(model: Model) -> int:
    """In how many parts whole heads of keys and values go: latent attention keeps one for all."""
    return 1 if model.attention == "latent" else model.kv_head_count


def kv_width(model: Model) -> int:
    """Numbers that a layer keeps of a token: keys and values, or what these are made of."""
    if model.attention == "latent":
        return model.kv_rank + model.rotary_size
    return model.kv_head_count * (model.head_width + model.value_width)


def kv_parameters(model: Model) -> int:
    """Parameters of a layer's matrices that are shared by `Deployment.kv_share` only.

    Those that make keys and values; of latent attention those that compress.
    """
    if model.attention == "latent":
        return model.hidden * (model.query_rank + model.kv_rank + model.rotary_size)
    return model.hidden * kv_width(model)


def dense_parameters(model: Model) -> int:
    """P_l: parameters of the matrices of a layer without experts."""
    return attention_parameters(model) + model.feed_forward_matrices * model.hidden * model.width


def expert_parameters(model: Model) -> int:
    """Of one expert's matrices."""
    return model.feed_forward_matrices * model.hidden * model.expert_width


def moe_parameters(model: Model) -> int:
    """Of the matrices of a layer with experts that every token meets: all but the experts."""
    shared = model.shared_experts * expert_parameters(model)
    return attention_parameters(model) + shared + model.hidden * model.experts
