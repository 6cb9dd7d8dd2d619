"""Largest batches within memory and SLO, and the best number of GPUs per instance."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from netsim.workloads.inference.deployment import Deployment
from netsim.workloads.inference.load import with_tp
from netsim.workloads.inference.roofline import (
    decode_ps,
    kv_capacity_tokens,
    prefill_ps,
    weight_bytes,
)
from netsim.workloads.job.keys import MAX_COUNT
from netsim.workloads.job.machine import PS_PER_S

PHASES = ("prefill", "decode")


@dataclass(frozen=True)
class Best:
    """A phase at its best batch on a number of GPUs.

    `memory_batch` and `time_batch` are the largest batches by memory and by SLO; `time_ps` is the
    iteration of the smaller one.
    """

    phase: str
    deployment: Deployment
    weight_bytes: float
    """Weights per GPU."""
    capacity_tokens: int
    memory_batch: int
    time_batch: int
    time_ps: int
    tokens: int
    """Tokens per iteration: all prompt tokens, or one per sequence."""

    @property
    def batch(self) -> int:
        return min(self.memory_batch, self.time_batch)

    @property
    def limit(self) -> str:
        """The limit of the batch: memory, TTFT or TBT."""
        if self.memory_batch <= self.time_batch:
            return "memory"
        return "TTFT" if self.phase == "prefill" else "TBT"

    @property
    def tokens_per_s(self) -> float:
        """Tokens per second and GPU."""
        if self.time_ps == 0:
            return 0.0
        return self.tokens / self.deployment.tp / self.time_ps * PS_PER_S

    @property
    def tokens_per_s_sm(self) -> float:
        """Tokens per second and SM; 0 if the number of SMs is unknown."""
        sms = self.deployment.machine.sms
        return self.tokens_per_s / sms if sms else 0.0


def phase_time(deployment: Deployment, phase: str) -> Callable[[int], int]:
    """Return the time of an iteration by its number of prompts or sequences, in ps."""
    size = deployment.limits.tokens(phase)
    if phase == "decode":
        return lambda batch: decode_ps(deployment, batch, size)
    return lambda batch: prefill_ps(deployment, size, batch)


def best_batch(deployment: Deployment, phase: str) -> Best:
    """Return the largest batch within memory and SLO.

    It has the most tokens per second, since time per request never rises with the batch.
    """
    time, limits = phase_time(deployment, phase), deployment.limits
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
    """Yield the deployment on its own number of GPUs, or on each that divides and fits."""
    own = deployment.options.tp
    shared = math.gcd(deployment.machine.domain_gpus, deployment.model.heads)
    for tp in [own] if own else _divisors(shared):
        changed = with_tp(deployment, tp)
        if changed is not None:
            yield changed


def _divisors(whole: int) -> list[int]:
    small = [one for one in range(1, math.isqrt(whole) + 1) if whole % one == 0]
    return sorted({*small, *(whole // one for one in small)})


def best_size(deployment: Deployment, phase: str) -> Best | None:
    """Return the best batch on the best number of GPUs by tokens/s per GPU, or None."""
    found = [best_batch(one, phase) for one in sizes(deployment)]
    return max(found, key=lambda one: one.tokens_per_s, default=None)
