"""Largest batches within memory and SLO, and the best number of GPUs per instance; Lite-GPUs
against H100 at equal silicon, under every assumption that affects which is better.

"Good things come in small packages: Should we build AI clusters with Lite-GPUs?" (HotOS 2025)
claims that a cluster of Lite-GPUs matches or outperforms one of H100 in tokens per second per SM.
Its table of GPUs is quoted from memory: unverified.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from itertools import product
from typing import Any

from netsim.frozen import frozen
from netsim.workloads.inference.deployment import (
    Deployment,
    Overheads,
    decode_ps,
    kv_capacity_tokens,
    load_deployment,
    prefill_ps,
    weight_bytes,
    with_tp,
)
from netsim.workloads.job.machine import PS_PER_S

PHASES = ("prefill", "decode")

MAX_BATCH = 10**9  # largest batch that is considered


@frozen
class Best:
    """A phase with its best batch on some number of GPUs. `memory_batch` and `time_batch` are the
    largest batches by memory and by SLO; `time_ps` is the iteration of the smaller one."""

    phase: str
    deployment: Deployment
    weight_bytes: float  # weights per GPU
    capacity_tokens: int
    memory_batch: int
    time_batch: int
    time_ps: int
    tokens: int  # tokens per iteration: all prompt tokens, or one per sequence

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
    """Return the largest batch within memory and SLO. It has the most tokens per second, since time
    per request never rises with the batch."""
    time, limits = phase_time(deployment, phase), deployment.limits
    capacity, size = kv_capacity_tokens(deployment), limits.tokens(phase)
    memory_batch = capacity // size
    time_batch = bisect_right(range(1, MAX_BATCH), limits.longest_ps(phase), key=time)
    batch = min(memory_batch, time_batch)
    return Best(
        phase=phase,
        deployment=deployment,
        weight_bytes=weight_bytes(deployment),
        capacity_tokens=capacity,
        memory_batch=memory_batch,
        time_batch=time_batch,
        time_ps=time(batch) if batch else 0,
        tokens=batch * (size if phase == "prefill" else 1),
    )


def sizes(deployment: Deployment) -> Iterator[Deployment]:
    """Yield the deployment on its own number of GPUs, or on each that divides and fits."""
    own = deployment.options.tp
    shared = math.gcd(deployment.machine.domain_gpus, deployment.model.heads)
    for tp in [own] if own else [n for n in range(1, shared + 1) if shared % n == 0]:
        changed = with_tp(deployment, tp)
        if changed is not None:
            yield changed


def best_size(deployment: Deployment, phase: str) -> Best | None:
    """Return the best batch on the best number of GPUs by tokens/s per GPU, or None."""
    found = [best_batch(one, phase) for one in sizes(deployment)]
    return max(found, key=lambda one: one.tokens_per_s, default=None)


# --- Lite-GPUs against H100 -----------------------------------------------------------------------

MODELS = ("llama3_70b", "gpt3_175b", "llama3_405b")
REFERENCE = "h100"
VARIANTS: tuple[str, ...] = (
    *("lite", "lite_netbw", "lite_membw", "lite_membw_netbw"),
    "lite_netbw_flops",
)
MACHINES = (REFERENCE, *VARIANTS)

MATCHES = 0.995  # smallest ratio that matches H100; it prints as 1.00


@frozen
class Assumption:
    """Assumptions about deployments on every GPU, H100 included."""

    overlap: bool = False  # all-reduces overlap everything else
    kv_shared: bool = False  # the KV cache is not replicated if there are more GPUs than KV heads
    tp_searched: bool = False  # the best number of GPUs per instance, not the whole domain
    attention: str | None = None  # None, here and below: as deployed
    all_reduce: str | None = None
    roofline: str | None = None
    overheads: Overheads | None = None

    @property
    def name(self) -> str:
        given = {
            "overlap": self.overlap,
            "KV shared": self.kv_shared,
            "tp searched": self.tp_searched,
            f"{self.attention} attention": self.attention,
            f"one roofline a {self.roofline}": self.roofline,
            "measured overheads": self.overheads,
            f"{self.all_reduce} all-reduce": self.all_reduce,
        }
        return ", ".join(name for name, value in given.items() if value) or "none of them"


ALL = Assumption(overlap=True, kv_shared=True, tp_searched=True)
"""The assumptions under which the claim holds, if at all."""

ASSUMPTIONS = tuple(
    Assumption(overlap, shared, searched)
    for overlap, shared, searched in product((False, True), repeat=3)
)
"""All combinations of the three decisive assumptions, by the roofline alone."""


ONE_ROOFLINE = replace(ALL, roofline="layer")  # all three, with reads overlapping all compute
MEASURED = "h100_vllm"  # software overheads on H100 (16 bits, vLLM of 2023), for every machine


@cache
def measured() -> Assumption:
    """Return all three assumptions with measured overheads."""
    given = {"model": MODELS[0], "machine": REFERENCE, "overheads": MEASURED}
    return replace(ALL, overheads=load_deployment(given).overheads)


def further_assumptions() -> tuple[Assumption, ...]:
    """Return variants of the three together: full attention, one roofline, measured overheads."""
    return (
        replace(ALL, attention="full"),
        ONE_ROOFLINE,
        measured(),
        replace(measured(), all_reduce="direct"),
    )


@frozen
class LiteRow:
    """A phase of a model on a GPU, at its best batch under an assumption."""

    model: str
    machine: str
    phase: str
    assumption: Assumption
    best: Best | None  # None if the weights never fit, or no batch meets the SLO
    ratio: float | None  # tokens/s per SM over those of H100 under the same assumption

    @property
    def matches(self) -> bool:
        return self.ratio is not None and self.ratio >= MATCHES


Comparison = Mapping[str, Mapping[str, Deployment]]  # deployments by model and machine, H100 first


def comparison(
    models: Sequence[str] = MODELS, tables: Mapping[str, Any] | None = None
) -> Comparison:
    """Return models on all machines; `models` are presets, `tables` common to all deployments."""
    return {
        model: {
            machine: load_deployment({**(tables or {}), "model": model, "machine": machine})
            for machine in MACHINES
        }
        for model in models
    }


def lite_table(
    compared: Comparison, assumptions: Sequence[Assumption] = ASSUMPTIONS
) -> list[LiteRow]:
    """Return rows by model, phase, assumption and machine, H100 first."""
    found = []
    for (model, machines), phase, assumption in product(compared.items(), PHASES, assumptions):
        best = {name: best_size(assuming(one, assumption), phase) for name, one in machines.items()}
        rates = {name: one.tokens_per_s_sm if one else 0.0 for name, one in best.items()}
        reference = rates[REFERENCE]
        for name, rate in rates.items():
            ratio = rate / reference if reference else None
            served = best[name] if rate else None
            found.append(LiteRow(model, name, phase, assumption, served, ratio))
    return found


def assuming(deployment: Deployment, assumption: Assumption) -> Deployment:
    options = deployment.options
    changed = replace(
        options,
        tp=0 if assumption.tp_searched else deployment.machine.domain_gpus,
        overlap=assumption.overlap,
        kv_replicated=not assumption.kv_shared,
        attention=assumption.attention or options.attention,
        all_reduce=assumption.all_reduce or options.all_reduce,
        roofline=assumption.roofline or options.roofline,
    )
    return replace(
        deployment, options=changed, overheads=assumption.overheads or deployment.overheads
    )


def true_of(rows: Sequence[LiteRow], assumption: Assumption, phase: str) -> list[str]:
    """Return the variants that match or outperform H100 in a phase for all models."""
    chosen = [row for row in rows if row.assumption == assumption and row.phase == phase]
    return [one for one in VARIANTS if all(row.matches for row in chosen if row.machine == one)]
