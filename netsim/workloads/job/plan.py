"""From a budget to a training job: racks, model size, shape and layout.

For any budget, the method of "I've Got 99 Problems But FLOPS Ain't One" (HotNets 2024), sections 2
to 4: racks and their compute, model size by a scaling law, layers and width, the fewest GPUs that
hold a layer, and replicas for all racks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from netsim.errors import InputError
from netsim.inputs import read_toml
from netsim.workloads.job.job import Job
from netsim.workloads.job.keys import (
    choice,
    count,
    key,
    number,
    read_each,
    read_part,
    unknown_keys,
)
from netsim.workloads.job.layout import ACCOUNTINGS
from netsim.workloads.job.load import job_from, presets
from netsim.workloads.job.paper import (
    Infrastructure,
    exposed_fraction,
    stage_seconds,
    tensor_parallelism,
)
from netsim.workloads.job.scaling import LAWS, YEAR_S, optimal_parameters, shape

BASE_JOB = "dense"
"""Job that provides machine, formats and overlaps to files without a machine."""

PARTS = ("machine", "precision", "optimizer", "overlap")
HEADS = 256


@dataclass(frozen=True)
class TrainingTarget:
    """Model size and training time to plan for."""

    years: float = key(number(0, 1000), "years of training at the racks' full rate", 4.0)
    law: str = key(choice(LAWS), "scaling law for the model size", "hoffmann2")
    parameters: float = key(
        number(-1e-9, 1e18), "parameters of the model; 0: by the scaling law", 0.0
    )
    sequence: int = key(count(), "tokens per sequence", 32_000)
    vocabulary: int = key(count(), "size of the vocabulary", 256_000)
    accounting: str = key(choice(ACCOUNTINGS), "accounting of S1 to S5, as in [layout]", "paper")


MIN_PARAMETERS = 1e8
"""Fewest parameters; the fit of widths is for large models."""


@dataclass(frozen=True)
class JobPlan:
    """The job that a budget buys."""

    site: Infrastructure
    target: TrainingTarget
    by_law: dict[str, float]
    """Parameters by scaling law."""
    job: Job
    racks_of_layer: int

    @property
    def exposed(self) -> float:
        """Exposed share of a step (POST-HOC formula)."""
        return exposed_fraction(stage_seconds(self.job))


def is_plan(tree: Mapping[str, Any]) -> bool:
    """Return whether a table is a plan, not a job."""
    return "site" in tree or "plan" in tree


def make_plan(tree: Mapping[str, Any], name: str, directory: Path) -> JobPlan:
    """Return the plan of a table with [site], [plan], and optional tables of a job.

    Raises InputError, without a file, with all errors.
    """
    known = ("site", "plan", *PARTS, "name", "description")
    reads: dict[str, Callable[[], Any]] = {
        "site": partial(read_part, Infrastructure, tree.get("site", {})),
        "plan": partial(read_part, TrainingTarget, tree.get("plan", {})),
    }
    site, target = read_each(reads, unknown_keys(tree, known)).values()
    flops = site.flops * target.years * YEAR_S
    by_law = {law: optimal_parameters(law, flops) for law in LAWS}
    n_parameters = target.parameters or by_law[target.law]
    if n_parameters < MIN_PARAMETERS:
        message = f"a model of {n_parameters:,.0f} parameters is too small for the shape fit"
        raise InputError(message, key="plan.parameters", hint=f"at least {MIN_PARAMETERS:,.0f}")
    layers, hidden = shape(n_parameters)
    racks = site.racks_of_layer(layers)
    if racks < site.datacenters:
        message = f"{site.racks:,.0f} racks are too few for {layers} layers with a rack in each of "
        message += f"{site.datacenters} datacenters"
        hint = "use a smaller model, or site.datacenters = 1"
        raise InputError(message, key="plan.parameters", hint=hint)
    model = {
        "preset": "paper_dense",
        "layers": layers,
        "hidden": hidden,
        "heads": HEADS,
        "head_size": hidden // HEADS,
        "sequence": target.sequence,
        "vocabulary": target.vocabulary,
        "source": "shape by scaling law and width; FLOP as in paper_dense",
    }
    base = {} if "machine" in tree else read_toml(presets()[BASE_JOB])
    parts = {part: tree.get(part, base.get(part, {})) for part in PARTS}

    def with_tp(tp: int) -> Job:
        peers = racks // site.datacenters
        levels = [site.rack_gpus // tp, peers, site.datacenters]
        layout = {
            "tp": tp,
            "sp": tp > 1,
            "regather": False,
            "uneven": True,
            "pp": layers,
            "dp_levels": levels,
            "accounting": target.accounting,
            "global_batch": levels[0] * levels[1] * levels[2],
        }
        whole = {**parts, "machine": _machine(parts["machine"], site), "model": model}
        return job_from(whole | {"layout": layout}, name, directory, fits=False)

    tp = tensor_parallelism(with_tp(site.rack_gpus), site.rack_gpus)
    return JobPlan(site, target, by_law, with_tp(tp), racks)


def _machine(table: Any, site: Infrastructure) -> Any:
    """Return a machine whose scale-up domain is a rack of the site."""
    if isinstance(table, str):
        table = {"preset": table}
    return {**table, "domain_gpus": site.rack_gpus} if isinstance(table, Mapping) else table
