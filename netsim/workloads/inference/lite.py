"""Lite-GPUs against H100 at equal silicon, under every assumption that changes which is better.

"Good things come in small packages: Should we build AI clusters with Lite-GPUs?" (HotOS 2025)
claims that a cluster of Lite-GPUs matches or outperforms one of H100 in tokens per second per SM.
Its table of GPUs is quoted from memory: unverified.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import product
from typing import Any

from netsim.workloads.inference.deployment import Deployment, Overheads
from netsim.workloads.inference.limits import PHASES, Best, best_size
from netsim.workloads.inference.load import load_deployment

MODELS = ("llama3_70b", "gpt3_175b", "llama3_405b")
REFERENCE = "h100"
VARIANTS: tuple[str, ...] = (
    "lite",
    "lite_netbw",
    "lite_membw",
    "lite_membw_netbw",
    "lite_netbw_flops",
)

MACHINES = (REFERENCE, *VARIANTS)

MATCHES = 0.995
"""Smallest ratio that matches H100; it prints as 1.00."""


@dataclass(frozen=True)
class Assumption:
    """Assumptions about deployments on every GPU, H100 included."""

    overlap: bool = False
    """All-reduces overlap everything else."""
    kv_shared: bool = False
    """The KV cache is not replicated if there are more GPUs than KV heads."""
    tp_searched: bool = False
    """The best number of GPUs per instance, not the whole domain."""
    attention: str | None = None
    """None, here and below: as deployed."""
    all_reduce: str | None = None
    roofline: str | None = None
    overheads: Overheads | None = None

    @property
    def name(self) -> str:
        """Description of the assumptions."""
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


ONE_ROOFLINE = replace(ALL, roofline="layer")
"""All three, with reads overlapping all compute."""

MEASURED = "h100_vllm"
"""Software overheads measured on H100 (16 bits, vLLM of 2023), used for every machine."""


@cache
def measured() -> Assumption:
    """Return all three assumptions with measured overheads."""
    given = {"model": MODELS[0], "machine": REFERENCE, "overheads": MEASURED}
    return replace(ALL, overheads=load_deployment(given).overheads)


def further_assumptions() -> tuple[Assumption, ...]:
    """Return variants of all three: full attention, one roofline, measured overheads."""
    return (
        replace(ALL, attention="full"),
        ONE_ROOFLINE,
        measured(),
        replace(measured(), all_reduce="direct"),
    )


@dataclass(frozen=True)
class LiteRow:
    """A phase of a model on a GPU, at its best batch under an assumption."""

    model: str
    machine: str
    phase: str
    assumption: Assumption
    best: Best | None
    """None if the weights never fit, or no batch meets the SLO."""
    ratio: float | None
    """Tokens/s per SM over those of H100 under the same assumption."""

    @property
    def matches(self) -> bool:
        return self.ratio is not None and self.ratio >= MATCHES


Comparison = Mapping[str, Mapping[str, Deployment]]
"""Deployments by model and machine, H100 first."""


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
    """Return a deployment under an assumption."""
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
