"""A served model on its GPUs: formats, options, and software overheads."""

from __future__ import annotations

from dataclasses import dataclass, replace

from netsim.errors import InputError
from netsim.workloads.job.keys import choice, count, flag, key, number, text, time
from netsim.workloads.job.machine import FORMATS, Machine
from netsim.workloads.job.model import Model

ALL_REDUCES = ("ring", "direct")
ATTENTIONS = ("causal", "full")
ROOFLINES = ("parts", "layer")


@dataclass(frozen=True)
class Formats:
    """Number format of each tensor."""

    weights: str = key(choice(FORMATS), "format in which weights are stored and read", "fp8")
    kv: str = key(choice(FORMATS), "format of the KV cache", "fp8")
    activations: str = key(choice(FORMATS), "format of activations and all-reduces", "fp8")
    compute: str = key(choice(FORMATS), "format of matrix multiplication", "fp8")

    def bytes_of(self, tensor: str) -> float:
        """Return the bytes per element of "weights", "kv" or "activations"."""
        return FORMATS[getattr(self, tensor)]


@dataclass(frozen=True)
class Options:
    """Parallelism and accounting of a served model."""

    tp: int = key(count(0), "tensor-parallel GPUs; 0: the best, if searched", 0)
    all_reduce: str = key(
        choice(ALL_REDUCES),
        "ring: 2 (tp - 1) steps; direct: 2 steps, all to all; equal bytes",
        "ring",
    )
    overlap: bool = key(
        flag(), "all-reduces overlap everything else: the longer time counts, not the sum", False
    )
    kv_replicated: bool = key(
        flag(),
        "with more GPUs than KV heads, each GPU holds and reads a whole head; otherwise "
        "GPUs share it",
        True,
    )
    attention: str = key(
        choice(ATTENTIONS),
        "attention of a prompt: half of the token pairs (causal), or all",
        "causal",
    )
    roofline: str = key(
        choice(ROOFLINES),
        "parts: matrices, attention and head have a roofline each, in sequence; layer: one for all",
        "parts",
    )
    embeddings: bool = key(
        flag(), "whether the embedding and the head take memory, and the head takes time", False
    )
    memory_share: float = key(number(0, 1), "share of a GPU's memory for weights and KV cache", 1)


@dataclass(frozen=True)
class Overheads:
    """Efficiencies and added times of a machine and its software."""

    prefill_efficiency: float = key(number(0, 1), "share of the peak FLOP/s in prefill", 1)
    decode_efficiency: float = key(number(0, 1), "share of the peak FLOP/s in decode", 1)
    memory_efficiency: float = key(number(0, 1), "share of the memory bandwidth", 1)
    network_efficiency: float = key(number(0, 1), "share of the scale-up network's bandwidth", 1)
    step_latency: int = key(time(), "latency of a step of an all-reduce", 0)
    layer_overhead: int = key(time(), "launch time per layer of an iteration", 0)
    iteration_overhead: int = key(time(), "time per iteration", 0)
    sequence_overhead: int = key(
        time(), "time per sequence of an iteration; all its prompts count as one", 0
    )
    prefill_floor: int = key(
        time(), "shortest compute time of an iteration with prompts: launches", 0
    )
    empirical_long_prompt: int = key(
        time(),
        "time per prompt token and doubling of GPUs beyond two, in iterations of more than 2,048 "
        "prompt tokens: fitted, its cause is not confirmed",
        0,
    )
    async_launch: bool = key(
        flag(), "launches overlap compute: the longer time counts, not the sum", False
    )
    activation_passes: int = key(
        count(0),
        "reads and writes of a token's activations per layer, in addition to its matrices",
        0,
    )
    source: str = key(text(), "source of the values", "the roofline alone")


@dataclass(frozen=True)
class LatencyLimits:
    """Request lengths and SLO."""

    prompt: int = key(count(), "tokens per prompt", 1500)
    context: int = key(count(0), "tokens before a decoded one; 0: those of a prompt", 0)
    ttft: int = key(time(), "longest time to first token: a batch of prompts", 10**12)
    tbt: int = key(time(), "longest time between tokens: a decode iteration", 50 * 10**9)

    def tokens(self, phase: str) -> int:
        """Return the KV cache tokens of a request."""
        return self.prompt if phase == "prefill" else self.context or self.prompt

    def longest_ps(self, phase: str) -> int:
        return self.ttft if phase == "prefill" else self.tbt


@dataclass(frozen=True)
class Deployment:
    """A model on `options.tp` GPUs of a machine."""

    name: str
    model: Model
    machine: Machine
    formats: Formats = Formats()
    options: Options = Options()
    overheads: Overheads = Overheads()
    limits: LatencyLimits = LatencyLimits()

    @property
    def tp(self) -> int:
        """Tensor-parallel GPUs. Raises InputError if it is 0, left to a search."""
        if self.options.tp == 0:
            raise InputError("missing", key="options.tp", hint="1 or more GPUs", code="missing")
        return self.options.tp

    @property
    def causal(self) -> bool:
        """Whether a prompt token attends only to those before it."""
        return self.options.attention == "causal"

    @property
    def kv_share(self) -> float:
        """Share of the KV cache, and of its projections, at each GPU."""
        if not self.options.kv_replicated:
            return 1.0 / self.tp
        return 1.0 / min(self.tp, kv_parts(self.model))


def on_gpus(deployment: Deployment, tp: int) -> Deployment:
    """Return the deployment on `tp` GPUs, unchecked."""
    return replace(deployment, options=replace(deployment.options, tp=tp))


def kv_parts(model: Model) -> int:
    """Return the KV heads; latent attention has one."""
    return 1 if model.latent else model.kv_head_count
