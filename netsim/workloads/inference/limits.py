"""The largest batch that memory and objectives allow, and the best number of GPUs to a copy."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from netsim.workloads.inference.cost import IterationCost, iteration_ps, prompt_pairs
from netsim.workloads.inference.deployment import Deployment
from netsim.workloads.inference.load import with_tp
from netsim.workloads.inference.roofline import iteration_cost, kv_capacity_tokens, weight_bytes
from netsim.workloads.job.keys import MAX_COUNT, count, key, time
from netsim.workloads.job.machine import PS_PER_S

PHASES = ("prefill", "decode")


@dataclass(frozen=True)
class LatencyLimits:
    """What is served, and the objectives."""

    prompt: int = key(count(), "tokens of a prompt", 1500)
    context: int = key(count(0), "tokens before a decoded one; 0: those of a prompt", 0)
    ttft: int = key(time(), "longest time to first token: a batch of prompts", 10**12)
    tbt: int = key(time(), "longest time between tokens: a decode iteration", 50 * 10**9)

    def tokens(self, phase: str) -> int:
        """Tokens of keys and values that a request of a phase holds."""
        return self.prompt if phase == "prefill" else self.context or self.prompt

    def longest_ps(self, phase: str) -> int:
        """The longest iteration of a phase."""
        return self.ttft if phase == "prefill" else self.tbt


@dataclass(frozen=True)
class Best:
    """A phase at its best batch on `tp` GPUs.

    `memory_batch` and `time_batch` are the largest batches by memory and by the objective alone;
    0: not even one. `batch` is the smaller of them, and `time_ps` its iteration.
    """

    phase: str
    deployment: Deployment
    weight_bytes: float
    """Of one GPU."""
    capacity_tokens: int
    memory_batch: int
    time_batch: int
    time_ps: int
    tokens: int
    """That the phase gets through an iteration: of prompts, or one of each sequence."""

    @property
    def batch(self) -> int:
        """Requests of an iteration."""
        return min(self.memory_batch, self.time_batch)

    @property
    def limit(self) -> str:
        """What bounds the batch."""
        if self.memory_batch <= self.time_batch:
            return "memory"
        return "TTFT" if self.phase == "prefill" else "TBT"

    @property
    def tokens_per_s(self) -> float:
        """Of one GPU."""
        if self.time_ps == 0:
            return 0.0
        return self.tokens / self.deployment.tp / self.time_ps * PS_PER_S

    @property
    def tokens_per_s_sm(self) -> float:
        """Of one streaming multiprocessor; 0 if it is not told how many a GPU has."""
        sms = self.deployment.machine.sms
        return self.tokens_per_s / sms if sms else 0.0


def phase_ps(deployment: Deployment, limits: LatencyLimits, phase: str, batch: int) -> int:
    """Picoseconds of an iteration of `batch` prompts, or decoding sequences."""
    return _time(iteration_cost(deployment), deployment, limits, phase)(batch)


def _time(
    cost: IterationCost, deployment: Deployment, limits: LatencyLimits, phase: str
) -> Callable[[int], int]:
    size = limits.tokens(phase)
    if phase == "decode":
        return lambda batch: iteration_ps(cost, batch, 0, batch, batch * size)
    pairs = prompt_pairs(deployment.options.attention == "causal", 0, size)
    return lambda batch: iteration_ps(cost, batch * size, batch * pairs, 0, 0)


def best_batch(deployment: Deployment, limits: LatencyLimits, phase: str) -> Best:
    """The batch with the most tokens per second: the largest that memory and objective allow.

    An iteration's time divided by its batch never rises with the batch.
    """
    time = _time(iteration_cost(deployment), deployment, limits, phase)
    capacity, size = kv_capacity_tokens(deployment), limits.tokens(phase)
    memory_batch = capacity // size
    longest = limits.longest_ps(phase)
    low, high = 0, 1
    while high < MAX_COUNT and time(high) <= longest:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if time(middle) <= longest else (low, middle)
    batch = min(memory_batch, low)
    return Best(
        phase=phase,
        deployment=deployment,
        weight_bytes=weight_bytes(deployment),
        capacity_tokens=capacity,
        memory_batch=memory_batch,
        time_batch=low,
        time_ps=time(batch) if batch else 0,
        tokens=batch * (size if phase == "prefill" else 1),
    )


def sizes(deployment: Deployment) -> Iterator[Deployment]:
    """The deployment on each number of GPUs that divides the scale-up domain, shares and holds it.

    On its own number alone if it has one.
    """
    own = deployment.options.tp
    shared = math.gcd(deployment.machine.domain_gpus, deployment.model.heads)
    for tp in [own] if own else _divisors(shared):
        changed = with_tp(deployment, tp)
        if changed is not None:
            yield changed


def _divisors(whole: int) -> list[int]:
    small = [one for one in range(1, math.isqrt(whole) + 1) if whole % one == 0]
    return sorted({*small, *(whole // one for one in small)})


def best_size(deployment: Deployment, limits: LatencyLimits, phase: str) -> Best | None:
    """The phase at its best batch, on the number of GPUs with the most tokens per second of each.

    Of the deployment's own number if it has one. None if it can be shared and held nowhere.
    """
    found = [best_batch(one, limits, phase) for one in sizes(deployment)]
    return max(found, key=lambda one: one.tokens_per_s, default=None)
