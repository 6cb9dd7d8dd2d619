"""Lite-GPUs against H100 at equal silicon, under every assumption that changes who wins.

"Good things come in small packages: Should we build AI clusters with Lite-GPUs?" (HotOS 2025)
claims that a cluster of Lite-GPUs matches or outperforms one of H100 by tokens per second and
streaming multiprocessor. Its table of GPUs is known here from memory only: unverified.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product

from netsim.inference.deployment import BARE, Costs, Deployment
from netsim.inference.limits import PHASES, Best, Limits, best_size
from netsim.inference.load import load_deployment

MODELS = ("llama3_70b", "gpt3_175b", "llama3_405b")
REFERENCE = "h100"
VARIANTS = ("lite", "lite_netbw", "lite_membw", "lite_membw_netbw", "lite_netbw_flops")

MATCHES = 0.995
"""What is at least this share of H100, 1.00 as it is printed, matches it."""


@dataclass(frozen=True)
class Assumption:
    """What is assumed of a deployment on every GPU, H100 among them."""

    overlap: bool = False
    """All-reduces go beside everything else."""
    kv_shared: bool = False
    """Keys and values are not copied where GPUs are more than their heads."""
    tp_searched: bool = False
    """The best number of GPUs to a copy, instead of all that the network joins."""
    attention: str = "causal"
    all_reduce: str = "ring"
    costs: Costs = BARE
    """What software costs; without, the roofline alone."""

    @property
    def name(self) -> str:
        """In words: what differs from an H100's plainest deployment."""
        found = []
        if self.overlap:
            found.append("overlap")
        if self.kv_shared:
            found.append("KV shared")
        if self.tp_searched:
            found.append("tp searched")
        if self.attention != "causal":
            found.append("full attention")
        if self.all_reduce != "ring":
            found.append(f"{self.all_reduce} all-reduce")
        if self.costs != BARE:
            found.append("measured costs")
        return ", ".join(found) or "none of them"


ALL = Assumption(overlap=True, kv_shared=True, tp_searched=True)
"""Those under which the claim holds, if at all."""

ASSUMPTIONS = tuple(
    Assumption(overlap, shared, searched)
    for overlap, shared, searched in product((False, True), repeat=3)
)
"""All combinations of the three that decide, by the roofline alone."""


@dataclass(frozen=True)
class LiteRow:
    """A phase of a model on one kind of GPU, at its best batch under an assumption."""

    model: str
    machine: str
    phase: str
    assumption: Assumption
    best: Best | None
    """None if the weights fit nowhere, or no request keeps to the objective."""
    ratio: float | None
    """Tokens per second and multiprocessor, to those of H100 under the same assumption."""

    @property
    def matches(self) -> bool:
        """Whether it matches or outperforms H100."""
        return self.ratio is not None and self.ratio >= MATCHES


def lite_table(
    models: Sequence[str] = MODELS,
    assumptions: Sequence[Assumption] = ASSUMPTIONS,
    limits: Limits | None = None,
) -> list[LiteRow]:
    """Rows by model, phase, assumption and machine: H100 first, then its variants.

    `models` are presets. Raises InputError if there is no such model.
    """
    asked, found = limits or Limits(), []
    for model in models:
        machines = {one: _deployment(model, one) for one in (REFERENCE, *VARIANTS)}
        for phase, assumption in product(PHASES, assumptions):
            best = {
                name: best_size(_assuming(one, assumption), asked, phase)
                for name, one in machines.items()
            }
            rates = {name: one.tokens_per_s_sm if one else 0.0 for name, one in best.items()}
            reference = rates[REFERENCE]
            found += [
                LiteRow(
                    model=model,
                    machine=name,
                    phase=phase,
                    assumption=assumption,
                    best=best[name] if rate else None,
                    ratio=rate / reference if reference else None,
                )
                for name, rate in rates.items()
            ]
    return found


def _deployment(model: str, machine: str) -> Deployment:
    return load_deployment({"model": model, "machine": machine})


def _assuming(deployment: Deployment, assumption: Assumption) -> Deployment:
    options = replace(
        deployment.options,
        tp=0 if assumption.tp_searched else deployment.machine.domain_gpus,
        overlap=assumption.overlap,
        kv_replicated=not assumption.kv_shared,
        attention=assumption.attention,
        all_reduce=assumption.all_reduce,
    )
    return replace(deployment, options=options, costs=assumption.costs)
