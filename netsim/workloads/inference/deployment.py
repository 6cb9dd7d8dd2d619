"""A served model on its GPUs: formats, options, and software overheads."""

from __future__ import annotations

from dataclasses import dataclass, replace

from netsim.errors import InputError
from netsim.params import NONBLANK, NUMBER, key
from netsim.workloads.job.machine import FORMAT_NAMES, FORMATS, Machine
from netsim.workloads.job.model import Model

ALL_REDUCES = ("ring", "direct")
ATTENTIONS = ("causal", "full")
ROOFLINES = ("parts", "layer")


@dataclass(frozen=True, kw_only=True)
class Formats:
    """Number format of each tensor."""

    weights: str = key(
        "choice", "fp8", "format in which weights are stored and read", choices=FORMAT_NAMES
    )
    kv: str = key("choice", "fp8", "format of the KV cache", choices=FORMAT_NAMES)
    activations: str = key(
        "choice", "fp8", "format of activations and all-reduces", choices=FORMAT_NAMES
    )
    compute: str = key("choice", "fp8", "format of matrix multiplication", choices=FORMAT_NAMES)

    def bytes_of(self, tensor: str) -> float:
        """Return the bytes per element of "weights", "kv" or "activations"."""
        return FORMATS[getattr(self, tensor)]


@dataclass(frozen=True, kw_only=True)
class Options:
    """Parallelism and accounting of a served model."""

    tp: int = key("count", 0, "tensor-parallel GPUs; 0: the best, if searched")
    all_reduce: str = key(
        "choice",
        "ring",
        "ring: 2 (tp - 1) steps; direct: 2 steps, all to all; equal bytes",
        choices=ALL_REDUCES,
    )
    overlap: bool = key(
        "bool", False, "all-reduces overlap everything else: the longer time counts, not the sum"
    )
    kv_replicated: bool = key(
        "bool",
        True,
        "with more GPUs than KV heads, each GPU holds and reads a whole head; otherwise "
        "GPUs share it",
    )
    attention: str = key(
        "choice",
        "causal",
        "attention of a prompt: half of the token pairs (causal), or all",
        choices=ATTENTIONS,
    )
    roofline: str = key(
        "choice",
        "parts",
        "parts: matrices, attention and head have a roofline each, in sequence; layer: one for all",
        choices=ROOFLINES,
    )
    embeddings: bool = key(
        "bool", False, "whether the embedding and the head take memory, and the head takes time"
    )
    memory_share: float = key(
        NUMBER, 1, "share of a GPU's memory for weights and KV cache", above=0, maximum=1
    )


@dataclass(frozen=True, kw_only=True)
class Overheads:
    """Efficiencies and added times of a machine and its software."""

    prefill_efficiency: float = key(
        NUMBER, 1, "share of the peak FLOP/s in prefill", above=0, maximum=1
    )
    decode_efficiency: float = key(
        NUMBER, 1, "share of the peak FLOP/s in decode", above=0, maximum=1
    )
    memory_efficiency: float = key(NUMBER, 1, "share of the memory bandwidth", above=0, maximum=1)
    network_efficiency: float = key(
        NUMBER, 1, "share of the scale-up network's bandwidth", above=0, maximum=1
    )
    step_latency: int = key("time", "0ps", "latency of a step of an all-reduce")
    layer_overhead: int = key("time", "0ps", "launch time per layer of an iteration")
    iteration_overhead: int = key("time", "0ps", "time per iteration")
    sequence_overhead: int = key(
        "time", "0ps", "time per sequence of an iteration; all its prompts count as one"
    )
    prefill_floor: int = key(
        "time", "0ps", "shortest compute time of an iteration with prompts: launches"
    )
    empirical_long_prompt: int = key(
        "time",
        "0ps",
        "time per prompt token and doubling of GPUs beyond two, in iterations of more than 2,048 "
        "prompt tokens: fitted, its cause is not confirmed",
    )
    async_launch: bool = key(
        "bool", False, "launches overlap compute: the longer time counts, not the sum"
    )
    activation_passes: int = key(
        "count",
        0,
        "reads and writes of a token's activations per layer, in addition to its matrices",
    )
    source: str = key(NONBLANK, "the roofline alone", "source of the values")


@dataclass(frozen=True, kw_only=True)
class LatencyLimits:
    """Request lengths and SLO."""

    prompt: int = key("count", 1500, "tokens per prompt", minimum=1)
    context: int = key("count", 0, "tokens before a decoded one; 0: those of a prompt")
    ttft: int = key("time", "1s", "longest time to first token: a batch of prompts")
    tbt: int = key("time", "50ms", "longest time between tokens: a decode iteration")

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
